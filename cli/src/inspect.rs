//! `pumex inspect`: a file's metadata and its tensors, as a table or JSON.

mod projector;

use pumex_engine as engine;
use pumex_gguf::{type_name, Gguf, Result};
use serde_json::{json, Map, Value};

use super::options::ModelArgs;
use super::{output, session, CommandEnd};

/// Options of `inspect`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    model: ModelArgs,
    /// GGUF file, in place of --model
    #[arg(value_name = "FILE", conflicts_with = "model")]
    path: Option<std::path::PathBuf>,
    /// Projector beside the model (-mm): what it is, and whether its rows are as wide as the model's
    #[arg(long, value_name = "FILE")]
    mmproj: Option<std::path::PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Prints the file's description.
pub fn main(args: &Args) -> Result<CommandEnd> {
    let mut model = args.model.clone();
    model.model = args.path.clone().or(model.model);
    let gguf = session::open(&model)?;
    let beside =
        args.mmproj.as_ref().map(|path| projector::Description::read(path, &gguf, model.access())).transpose()?;
    if args.json {
        let mut described = as_json(&gguf);
        if let Some(beside) = &beside {
            described["mmproj"] = json!(beside);
        }
        output::json(&described)?;
    } else {
        output::text(&(as_text(&gguf) + &beside.map_or_else(String::new, |beside| format!("\n{}", beside.text()))))?;
    }
    Ok(CommandEnd::Done)
}

fn as_text(gguf: &Gguf) -> String {
    let mut out =
        format!("file: {}\nversion: {}\nsize: {} bytes\n", gguf.path().display(), gguf.version(), gguf.file_bytes());
    // A file that cannot run can still be looked at.
    if let Ok(Some("adapter")) = gguf.meta().opt_str("general.type") {
        let of = |key: &str| gguf.meta().opt_str(key).ok().flatten().unwrap_or("unknown");
        let pairs = gguf.tensors().iter().filter(|t| t.name.ends_with(".lora_a")).count();
        let (kind, arch) = (of("adapter.type"), of("general.architecture"));
        out += &format!("adapter: {kind} for {arch}, {pairs} tensors\n");
    } else if let Some(Ok(encoders)) = projector::encoders(gguf) {
        out += &projector::text(&encoders);
    } else if let Ok(info) = engine::model_info(gguf) {
        out += &format!(
            "model: {} ({} parameters, trained for {} positions)\n",
            info.description, info.n_params, info.n_ctx_train
        );
    }
    let meta: Vec<Vec<String>> =
        gguf.meta().iter().map(|(key, value)| vec![key.to_string(), value.display().to_string()]).collect();
    out += &format!("\n{} metadata keys\n{}", meta.len(), output::table(&meta, &[]));
    let mut rows = vec![["name", "shape", "type", "bytes"].map(String::from).to_vec()];
    for tensor in gguf.tensors() {
        let dims: Vec<String> = tensor.dims.iter().map(ToString::to_string).collect();
        rows.push(vec![
            tensor.name.to_string(),
            format!("[{}]", dims.join(", ")),
            type_name(tensor.type_id).to_string(),
            tensor.len_bytes.to_string(),
        ]);
    }
    out + &format!("\n{} tensors\n{}", rows.len() - 1, output::table(&rows, &[false, false, false, true]))
}

fn as_json(gguf: &Gguf) -> Value {
    let meta: Map<String, Value> =
        gguf.meta().iter().map(|(key, value)| (key.to_string(), Value::from(value.display().to_string()))).collect();
    let tensor = |t: &pumex_gguf::Tensor| {
        let dims: Vec<Value> = t.dims.iter().map(|&d| Value::from(d)).collect();
        json!({ "name": t.name.to_string(), "shape": dims, "type": type_name(t.type_id).to_string(), "bytes": t.len_bytes })
    };
    let model = engine::model_info(gguf).ok().map(|info| {
        json!({
            "arch": info.arch,
            "description": info.description,
            "n_params": info.n_params,
            "size_bytes": info.size_bytes,
            "n_ctx_train": info.n_ctx_train,
        })
    });
    json!({
        "file": gguf.path().display().to_string(),
        "version": gguf.version(),
        "file_bytes": gguf.file_bytes(),
        "model": model,
        "encoders": projector::encoders(gguf).and_then(Result::ok),
        "metadata": meta,
        "tensors": gguf.tensors().iter().map(tensor).collect::<Vec<Value>>(),
    })
}
