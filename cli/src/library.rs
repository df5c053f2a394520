//! `pumex pull`, `list`, `show` and `rm`: models at hand, by the names that `-hf` takes, in the cache that other tools share or in a
//! folder that a server has.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use pumex_engine as engine;
use pumex_gguf::{Error, Gguf, Result};
use pumex_hub::{CachedModel, LocalFolder};
use serde_json::{json, Value};

use super::{fetch, ollama_sidecar, output, CommandEnd};

/// Options of `pull`.
#[derive(clap::Args)]
pub struct PullArgs {
    /// USER/REPO[:QUANT] of the Hugging Face Hub, modelscope:USER/REPO[:QUANT], ollama:MODEL[:TAG], or the URL of a file
    #[arg(value_name = "NAME")]
    name: String,
    /// Which of its files (-hff)
    #[arg(long, value_name = "FILE")]
    hf_file: Option<String>,
    /// Token of the Hub (-hft) [default: HF_TOKEN's]
    #[arg(long, value_name = "TOKEN")]
    hf_token: Option<String>,
    /// Put it into this folder too, for serve --models-dir
    #[arg(long, value_name = "DIR")]
    models_dir: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Options of `list`.
#[derive(clap::Args)]
pub struct ListArgs {
    /// The models of this folder, in place of the cache's
    #[arg(long, value_name = "DIR")]
    models_dir: Option<PathBuf>,
    /// Print one JSON array
    #[arg(long)]
    json: bool,
}

/// Options of `show`.
#[derive(clap::Args)]
pub struct ShowArgs {
    /// A model's name, as list has it, or a GGUF file
    #[arg(value_name = "NAME|FILE")]
    name: String,
    /// Look for the name in this folder, in place of the cache
    #[arg(long, value_name = "DIR")]
    models_dir: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Options of `rm`.
#[derive(clap::Args)]
pub struct RmArgs {
    /// Names, as list has them; without a quant all models of the repository
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,
    /// Take them out of this folder, and leave the cache as it is
    #[arg(long, value_name = "DIR")]
    models_dir: Option<PathBuf>,
    /// Print one JSON array
    #[arg(long)]
    json: bool,
}

/// Fetches a model.
pub fn pull(args: &PullArgs) -> Result<CommandEnd> {
    let settings = fetch::settings(args.hf_token.as_deref(), false)?;
    let is_url = args.name.contains("://");
    if is_url && args.hf_file.is_some() {
        return Err(Error::Usage("--hf-file: expected a repository beside it, found a URL".into()));
    }
    let file = args.hf_file.as_deref();
    let (path, projector) = fetch::run_with_progress(|watch| {
        if is_url {
            return Ok((pumex_hub::fetch_url(&settings, &args.name, watch)?, None));
        }
        let path = pumex_hub::fetch(&settings, &args.name, file, watch)?;
        Ok((path, pumex_hub::fetch_projector(&settings, &args.name, watch)?))
    })?;
    let path = match &args.models_dir {
        Some(folder) => {
            let stem = path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
            let name = if is_url { stem } else { plain(&args.name) };
            LocalFolder::new(folder).add(&name, &path, projector.as_deref()).map_err(fetch::failure)?
        }
        None => path,
    };
    if args.json {
        output::json(&json!({
            "name": args.name, "path": path.display().to_string(),
            "projector": projector.map(|path| path.display().to_string()),
        }))?;
    } else {
        output::text(&format!("{}\n", path.display()))?;
    }
    Ok(CommandEnd::Done)
}

/// A model's name in a folder, where those of Ollama's registry stand alone, as its clients say them.
pub fn plain(name: &str) -> String {
    name.strip_prefix("ollama:").unwrap_or(name).to_string()
}

fn list_cached(models_dir: Option<&Path>) -> Result<Vec<CachedModel>> {
    match models_dir {
        Some(folder) if !folder.is_dir() => {
            Err(Error::Usage(format!("--models-dir: expected a folder, found none at {}", folder.display())))
        }
        Some(folder) => Ok(LocalFolder::new(folder).models()),
        None => Ok(pumex_hub::list_cached_models(&fetch::settings(None, true)?)),
    }
}

/// Lists models.
pub fn list(args: &ListArgs) -> Result<CommandEnd> {
    let found = list_cached(args.models_dir.as_deref())?;
    if args.json {
        let seconds = |time: SystemTime| time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let one = |kept: &CachedModel| {
            json!({
                "name": kept.name, "file": kept.file, "path": kept.path.display().to_string(), "bytes": kept.bytes,
                "modified": kept.modified.map(seconds),
            })
        };
        output::json(&found.iter().map(one).collect::<Vec<Value>>())?;
        return Ok(CommandEnd::Done);
    }
    if found.is_empty() {
        output::say(format_args!("no models yet; pumex pull ggml-org/gemma-3-1b-it-GGUF fetches one\n"));
        return Ok(CommandEnd::Done);
    }
    let mut rows = vec![["name", "size", "fetched", "file"].map(String::from).to_vec()];
    for kept in &found {
        rows.push(vec![kept.name.clone(), output::bytes(kept.bytes), ago(kept.modified), kept.file.clone()]);
    }
    output::text(&output::table(&rows, &[false, true, true]))?;
    Ok(CommandEnd::Done)
}

/// How long ago, in the largest unit.
fn ago(time: Option<SystemTime>) -> String {
    let Some(past) = time.and_then(|time| time.elapsed().ok()) else { return String::new() };
    let seconds = past.as_secs();
    let units = [("days", 86_400), ("hours", 3600), ("minutes", 60)];
    let unit = units.iter().find(|(_, unit)| seconds >= 2 * unit);
    unit.map_or("now".into(), |(word, unit)| format!("{} {word} ago", seconds / unit))
}

/// Shows a model.
pub fn show(args: &ShowArgs) -> Result<CommandEnd> {
    let path = find_file(args)?;
    let gguf = Gguf::open(&path)?;
    let (said, meta) = (ollama_sidecar::read(&path).unwrap_or_default(), gguf.meta());
    let info = engine::model_info(&gguf).ok();
    let text = |key: &str| meta.opt_str(key).ok().flatten().map(str::to_string);
    let template = text("tokenizer.chat_template").is_some();
    if args.json {
        let model = info.map(|info| {
            json!({
                "arch": info.arch, "description": info.description, "n_params": info.n_params,
                "size_bytes": info.size_bytes, "n_ctx_train": info.n_ctx_train,
            })
        });
        output::json(&json!({
            "name": args.name, "path": path.display().to_string(), "file_bytes": gguf.file_bytes(), "model": model,
            "title": text("general.name"), "license": text("general.license"), "chat_template": template,
            "parameters": said["parameters"], "system": said["system"],
        }))?;
        return Ok(CommandEnd::Done);
    }
    let mut rows: Vec<[String; 2]> = vec![["file".into(), path.display().to_string()]];
    let mut row = |key: &str, value: Option<String>| {
        rows.extend(value.filter(|value| !value.is_empty()).map(|value| [key.to_string(), value]));
    };
    row("title", text("general.name"));
    match &info {
        Some(info) => {
            row("model", Some(info.description.clone()));
            row("parameters", Some(count(info.n_params)));
            row("context", Some(format!("{} positions", info.n_ctx_train)));
        }
        None => row("model", Some("none that runs: pumex inspect FILE says what it holds".into())),
    }
    row("size", Some(output::bytes(gguf.file_bytes())));
    row("license", text("general.license"));
    row("chat", Some(if template { "has a template" } else { "has no template: it continues texts" }.into()));
    row("system", said["system"].as_str().map(str::to_string));
    for (key, value) in said["parameters"].as_object().into_iter().flatten() {
        row(key, Some(value.to_string()));
    }
    let rows: Vec<Vec<String>> = rows.into_iter().map(Vec::from).collect();
    output::text(&output::table(&rows, &[]))?;
    Ok(CommandEnd::Done)
}

/// The file that a name or path means.
fn find_file(args: &ShowArgs) -> Result<PathBuf> {
    let path = PathBuf::from(&args.name);
    if args.models_dir.is_none() && (path.is_file() || args.name.ends_with(".gguf")) {
        return Ok(path);
    }
    match &args.models_dir {
        Some(folder) => Ok(LocalFolder::new(folder).find(&args.name).map_err(fetch::failure)?.path),
        None => {
            let settings = fetch::settings(None, true)?;
            fetch::run_with_progress(|watch| pumex_hub::fetch(&settings, &args.name, None, watch))
        }
    }
}

/// A number of weights.
fn count(n: u64) -> String {
    match n {
        1_000_000_000.. => format!("{:.1} billion", n as f64 / 1e9),
        1_000_000.. => format!("{:.1} million", n as f64 / 1e6),
        _ => n.to_string(),
    }
}

/// Removes models.
pub fn remove(args: &RmArgs) -> Result<CommandEnd> {
    let mut told = Vec::new();
    for name in &args.names {
        let removed = match &args.models_dir {
            Some(folder) => LocalFolder::new(folder).remove(name),
            None => pumex_hub::remove(&fetch::settings(None, true)?, name),
        };
        let removed = removed.map_err(fetch::failure)?;
        if args.json {
            told.push(json!({ "name": name, "files": removed.files, "bytes": removed.bytes }));
        } else {
            output::text(&format!("{name}: {} files, {} are free\n", removed.files, output::bytes(removed.bytes)))?;
        }
    }
    if args.json {
        output::json(&told)?;
    }
    Ok(CommandEnd::Done)
}
