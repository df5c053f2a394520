//! What `pumex inspect` tells of a projector: its encoders, the tokens that media take, and whether its rows suit a model.

use std::path::Path;

use pumex_dialogue::projector::{EncoderSummary, MediaOptions, Projector};
use pumex_engine::{DeviceChoice, Options};
use pumex_gguf::{FileAccess, Gguf, Result};
use pumex_model as model;
use serde::Serialize;

use super::super::output;

/// A projector beside a model.
#[derive(Serialize)]
pub struct Description {
    file: String,
    file_bytes: u64,
    encoders: Vec<EncoderSummary>,
    /// Columns of the vectors that the model takes for rows; none where it takes none.
    model_row_width: Option<usize>,
}

fn open(gguf: Gguf) -> Result<Projector> {
    // Nothing is encoded, so no device is needed.
    Projector::of(gguf, MediaOptions::default(), &Options { device: DeviceChoice::Cpu, ..Options::default() })
}

/// The encoders of a projector's file; none for another file.
pub fn encoders(gguf: &Gguf) -> Option<Result<Vec<EncoderSummary>>> {
    let is_projector = gguf.meta().arch().is_ok_and(|arch| arch == "clip");
    is_projector.then(|| Gguf::open(gguf.path()).and_then(open)?.summary())
}

/// Encoders in words.
pub fn text(encoders: &[EncoderSummary]) -> String {
    encoders.iter().map(describe).collect()
}

fn describe(encoder: &EncoderSummary) -> String {
    let EncoderSummary { projector, takes, models, blocks, width, heads, patch, image_size, row_width, tokens } =
        encoder;
    let pictures =
        if *patch > 0 { format!(", patches of {patch} pixels, image_size {image_size}") } else { String::new() };
    let mut rows = vec![["size", "tokens", "parts"].map(String::from).to_vec()];
    rows.extend(tokens.iter().map(|t| vec![t.size.clone(), t.tokens.to_string(), t.parts.to_string()]));
    format!(
        "projector: {projector}, takes {takes} ({models})\n\
         encoder: {blocks} blocks of {width} columns, {heads} heads{pictures}; rows of {row_width} columns\n{}",
        output::table(&rows, &[false, true, true])
    )
}

impl Description {
    /// Reads a projector's file and compares it with a model.
    ///
    /// # Errors
    /// A file that is missing or no projector's; one that is not supported; tensors that are missing.
    pub fn read(path: &Path, gguf: &Gguf, access: FileAccess) -> Result<Description> {
        let file = Gguf::open_with(path, access)?;
        let file_bytes = file.file_bytes();
        let encoders = open(file)?.summary()?;
        let limits = model::plan(gguf).ok().and_then(|plan| plan.vector_limits());
        let model_row_width = limits.map(|limits| limits.width);
        Ok(Description { file: path.display().to_string(), file_bytes, encoders, model_row_width })
    }

    /// In words.
    pub fn text(&self) -> String {
        let fits = self.encoders.iter().all(|encoder| Some(encoder.row_width) == self.model_row_width);
        let suits = match self.model_row_width {
            None => "the model takes no pictures or sounds, its rows are ids alone".to_string(),
            Some(width) if fits => format!("its rows suit the model: {width} columns"),
            Some(width) => format!("its rows do not suit the model, which takes {width} columns"),
        };
        let Description { file, file_bytes, encoders, .. } = self;
        format!("mmproj: {file}\nsize: {file_bytes} bytes\n{}{suits}\n", text(encoders))
    }
}
