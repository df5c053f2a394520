//! `pumex merge-lora -m BASE --lora FILE OUT [TYPE]`: a model file with adapters added to its weights.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use pumex_gguf::{Error, Gguf, Result};
use pumex_model as model;
use pumex_model::adapter::Deltas;
use pumex_model::quantize::{recipe, Options, Plan};

use super::adapters::LoraArgs;
use super::{quantize, CommandEnd};

/// Options of `merge-lora`.
#[derive(clap::Args)]
pub struct Args {
    /// The model (GGUF)
    #[arg(short, long, value_name = "FILE")]
    model: PathBuf,
    #[command(flatten)]
    lora: LoraArgs,
    /// The file to write
    output: PathBuf,
    /// Weight type, as of `quantize`; without it every tensor keeps its own
    #[arg(value_name = "TYPE")]
    weight_type: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Writes the file.
pub fn main(args: &Args, stop: &AtomicBool) -> Result<CommandEnd> {
    let recipe = match args.weight_type.as_deref().filter(|name| !name.eq_ignore_ascii_case("COPY")) {
        Some(name) => Some(recipe::find(name).ok_or_else(|| {
            let names: Vec<&str> = recipe::RECIPES.iter().map(|r| r.name).collect();
            Error::Usage(format!("type: expected one of {}, COPY, found {name}", names.join(", ")))
        })?),
        None => None,
    };
    let loras = args.lora.open()?;
    if loras.is_empty() {
        return Err(Error::Usage("merge-lora: expected --lora or --lora-scaled, found neither".into()));
    }
    let gguf = Gguf::open(&args.model)?;
    let deltas = Deltas::new(&gguf, &model::plan(&gguf)?, &loras)?;
    let options = Options { recipe, allow_requantize: true, changes: Some(Box::new(deltas)), ..Options::default() };
    let plan = Plan::new(&gguf, &options)?;
    quantize::convert(&gguf, &plan, &options, &args.output, args.json, stop)
}
