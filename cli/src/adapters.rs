//! Options of LoRA adapters and control vectors, by llama.cpp's names.

use std::path::PathBuf;

use pumex_gguf::{Error, Gguf, Result};
use pumex_model::adapter;
use pumex_model::adapter::{Layers, Lora};

/// LoRA adapters.
#[derive(clap::Args, Clone, Debug)]
pub struct LoraArgs {
    /// LoRA adapters (GGUF), applied while the model runs; may be repeated
    #[arg(long, value_name = "FILE,...")]
    lora: Vec<String>,
    /// Likewise, each times a scale
    #[arg(long, value_name = "FILE:SCALE,...")]
    lora_scaled: Vec<String>,
}

/// LoRA adapters and control vectors.
#[derive(clap::Args, Clone, Debug)]
pub struct AdapterArgs {
    #[command(flatten)]
    lora: LoraArgs,
    /// Control vectors (GGUF), which layers add to what they give; may be repeated
    #[arg(long, value_name = "FILE,...")]
    control_vector: Vec<String>,
    /// Likewise, each times a scale
    #[arg(long, value_name = "FILE:SCALE,...")]
    control_vector_scaled: Vec<String>,
    /// Layers that add control vectors, both included [default: all but the first]
    #[arg(long, value_names = ["START", "END"], num_args = 2)]
    control_vector_layer_range: Vec<usize>,
}

/// Fields of a row of comma-separated values; quotes keep commas, and two of them inside are one.
pub fn fields(row: &str) -> Vec<String> {
    let (mut all, mut field, mut quoted) = (Vec::new(), String::new(), false);
    let mut chars = row.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.next_if_eq(&'"').is_some() => field.push('"'),
            '"' => quoted = !quoted,
            ',' if !quoted => all.push(std::mem::take(&mut field)),
            c => field.push(c),
        }
    }
    all.push(field);
    all
}

/// Files, and files with scales, of both flags.
fn files(flag: &str, plain: &[String], scaled: &[String]) -> Result<Vec<(PathBuf, f32)>> {
    let mut all: Vec<_> = plain.iter().flat_map(|row| fields(row)).map(|file| (PathBuf::from(file), 1.0)).collect();
    for field in scaled.iter().flat_map(|row| fields(row)) {
        let parted = field.rsplit_once(':').and_then(|(file, scale)| Some((file, scale.trim().parse::<f32>().ok()?)));
        let Some((file, scale)) = parted.filter(|(file, scale)| !file.is_empty() && scale.is_finite()) else {
            return Err(Error::Usage(format!("{flag}-scaled: expected FILE:SCALE, found {field}")));
        };
        all.push((PathBuf::from(file), scale));
    }
    match all.iter().any(|(file, _)| file.as_os_str().is_empty()) {
        true => Err(Error::Usage(format!("{flag}: expected a file, found an empty name"))),
        false => Ok(all),
    }
}

impl LoraArgs {
    /// The adapters, opened.
    ///
    /// # Errors
    /// Files that are no adapters, scales that are no numbers.
    pub fn open(&self) -> Result<Vec<(Lora, f32)>> {
        adapter::open_all(&files("--lora", &self.lora, &self.lora_scaled)?)
    }
}

impl AdapterArgs {
    /// Files and scales of the LoRA adapters.
    ///
    /// # Errors
    /// Scales that are no numbers.
    pub fn loras(&self) -> Result<Vec<(PathBuf, f32)>> {
        files("--lora", &self.lora.lora, &self.lora.lora_scaled)
    }

    /// The model with all of them.
    ///
    /// # Errors
    /// Files that are no adapters or not for this model.
    pub fn attach(&self, mut gguf: Gguf) -> Result<Gguf> {
        let (vectors, layers) = self.control_vectors()?;
        // Each sees the model as its file has it.
        let loras = self.lora.open()?;
        if !vectors.is_empty() || !loras.is_empty() {
            adapter::attach(&mut gguf, &loras, &vectors, layers)?;
        }
        Ok(gguf)
    }

    /// The model with all of them, where sequences have scales of their own for its LoRA adapters, in the order of
    /// [`AdapterArgs::loras`].
    ///
    /// # Errors
    /// As [`AdapterArgs::attach`].
    pub fn attach_by_sequence(&self, mut gguf: Gguf) -> Result<Gguf> {
        let (vectors, layers) = self.control_vectors()?;
        let loras: Vec<_> = self.lora.open()?.into_iter().map(|(lora, _)| lora).collect();
        if !vectors.is_empty() || !loras.is_empty() {
            adapter::attach_by_sequence(&mut gguf, &loras, &vectors, layers)?;
        }
        Ok(gguf)
    }

    /// Files and scales of control vectors, and the layers they are for.
    fn control_vectors(&self) -> Result<(Vec<(PathBuf, f32)>, Layers)> {
        let vectors = files("--control-vector", &self.control_vector, &self.control_vector_scaled)?;
        let layers = match self.control_vector_layer_range[..] {
            [from, to] if to > 0 && from > to => {
                let what = format!("--control-vector-layer-range: expected START up to END, found {from} {to}");
                return Err(Error::Usage(what));
            }
            [from, to] => Layers { from, to },
            _ => Layers::default(),
        };
        Ok((vectors, layers))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_files_keep_quoted_commas_and_scales_stand_behind_the_last_colon() {
        assert_eq!(fields("a,b"), ["a", "b"]);
        assert_eq!(fields("\"a,b\",\"c\"\"d\""), ["a,b", "c\"d"]);
        let of = |plain: &[&str], scaled: &[&str]| {
            let own = |all: &[&str]| all.iter().map(|s| s.to_string()).collect::<Vec<_>>();
            files("--lora", &own(plain), &own(scaled))
        };
        let expected = [("a", 1.0), ("b", 1.0), ("c:/d", 0.5), ("e", -2.0)].map(|(f, s)| (PathBuf::from(f), s));
        assert_eq!(of(&["a,b"], &["c:/d:0.5,e:-2"]).unwrap(), expected);
        for bad in ["a", "a:", ":1", "a:x", "a:nan", ""] {
            assert!(of(&[], &[bad]).is_err(), "{bad}");
        }
        assert!(of(&["a,,b"], &[]).is_err());
    }
}
