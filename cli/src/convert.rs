//! `pumex convert DIR OUT.gguf [TYPE]`: a model file from a Hugging Face folder.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use pumex_convert::{Conversion, ConversionOptions, ConversionReport, FileType};
use pumex_gguf::{Error, Result};
use pumex_model::quantize::{folder, recipe};
use serde_json::json;

use super::{files, output, session, CommandEnd};

/// Options of `convert`.
#[derive(clap::Args)]
#[command(after_help = types_help())]
pub struct Args {
    /// The folder: config.json, *.safetensors and the tokenizer's files, or a PEFT adapter's
    dir: PathBuf,
    /// The file to write (GGUF)
    output: PathBuf,
    /// F32, F16, BF16, Q8_0, AUTO or a type of `quantize` [default: AUTO; adapters: F32]
    #[arg(value_name = "TYPE")]
    weight_type: Option<String>,
    /// The folder of an adapter's base model, of which only config.json is read
    #[arg(long, value_name = "DIR")]
    base: Option<PathBuf>,
    /// tokenizer.ggml.pre, for a vocabulary that is not known
    #[arg(long, value_name = "NAME")]
    pre: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

fn types_help() -> String {
    let classes: Vec<&str> = pumex_convert::families().iter().flat_map(|f| f.classes).copied().collect();
    format!("Models: {}", classes.join(", "))
}

/// What a conversion says, in the program's terms.
pub fn failure(error: pumex_convert::Error) -> Error {
    match error {
        pumex_convert::Error::Sink(error) => match error.downcast::<Error>() {
            Ok(own) => *own,
            Err(other) => Error::Request(other.to_string()),
        },
        pumex_convert::Error::File { path, what } => Error::file(&path, "bad_folder", what),
        pumex_convert::Error::Io { path, source } => Error::io(&path, source),
        other => Error::Request(other.to_string()),
    }
}

/// Writes the file with a bar; none when stopped, and the file is what it was.
///
/// # Errors
/// Tensors that cannot be converted; a full disk.
pub fn write(conversion: &Conversion, output: &Path, stop: &AtomicBool) -> Result<Option<ConversionReport>> {
    let mut file = files::create(output)?;
    let bar = session::bar("writing", "{msg} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta} left");
    bar.set_length(conversion.len_bytes());
    let report = conversion.write(&mut |bytes| Ok(file.write(bytes)?), &mut |done| {
        bar.set_position(done);
        !stop.load(Ordering::Relaxed)
    });
    bar.finish_and_clear();
    let report = match report {
        Err(pumex_convert::Error::Stopped) => return Ok(None),
        other => other.map_err(failure)?,
    };
    file.finish()?;
    Ok(Some(report))
}

/// Converts a folder.
pub fn main(args: &Args, stop: &AtomicBool) -> Result<CommandEnd> {
    let named = args.weight_type.as_deref();
    let simple = named.and_then(FileType::from_name);
    let mixture = match named.filter(|_| simple.is_none()) {
        Some(name) => Some(recipe::find(name).ok_or_else(|| {
            let names: Vec<&str> = recipe::RECIPES.iter().map(|r| r.name).collect();
            Error::Usage(format!("type: expected one of AUTO, {}, found {name}", names.join(", ")))
        })?),
        None => None,
    };
    let file_type = if mixture.is_some() { Some(FileType::F32) } else { simple };
    let options = ConversionOptions { file_type, pre: args.pre.clone(), base: args.base.clone() };
    let mut conversion = Conversion::new(&args.dir, &options).map_err(failure)?;
    if let Some(recipe) = mixture {
        folder::retype(&mut conversion, recipe, &args.dir)?;
    }
    conversion.inputs().iter().for_each(|path| files::reads(path));
    for name in ["config.json", "adapter_config.json", "tokenizer.json", "tokenizer.model", "tokenizer_config.json"] {
        files::reads(&args.dir.join(name));
    }
    let begun = Instant::now();
    let Some(report) = write(&conversion, &args.output, stop)? else { return Ok(CommandEnd::Interrupted) };
    let seconds = begun.elapsed().as_secs_f64();
    let bits = 8.0 * conversion.len_bytes() as f64 / report.weights.max(1) as f64;
    if args.json {
        output::json(&json!({
            "file": args.output.display().to_string(), "class": conversion.class, "tensors": conversion.tensors().len(),
            "weights": report.weights, "bytes": report.bytes, "bits_per_weight": bits, "seconds": seconds,
        }))?;
        return Ok(CommandEnd::Done);
    }
    let (path, mib) = (args.output.display(), report.bytes as f64 / f64::from(1 << 20));
    let (class, count) = (&conversion.class, conversion.tensors().len());
    files::report_written(
        &args.output,
        &format!("{path}: {class}, {count} tensors, {mib:.2} MiB ({bits:.2} bits per weight) in {seconds:.2} s\n"),
    )?;
    Ok(CommandEnd::Done)
}
