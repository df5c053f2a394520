//! The models that are served: files, a folder of them, or the demo model.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use pumex_dialogue::embedding::Pooling;
use pumex_engine::Options;
use pumex_gguf::{Error, Gguf, Result};
use pumex_server::{DraftModel, ListedModel, ModelSettings};
use pumex_text::chat::Json;

use super::super::options::ModelArgs;
use super::super::{fetch, files, ollama_sidecar, output, prompt_source, session};
use super::preset::{self, Preset};
use super::Args;

/// All of them: at least one, unless a folder or a preset is given.
///
/// # Errors
/// Files and folders that cannot be read.
pub fn all(args: &Args) -> Result<Vec<ListedModel>> {
    if let Some(path) = &args.models_preset {
        return preset_models(args, path);
    }
    let files = list_sources(args)?;
    let single = files.len() == 1 && args.models_dir.is_none();
    files.into_iter().map(|(name, file)| list_model(args, name, file, single)).collect()
}

/// Where a model comes from.
enum ModelSource {
    Demo,
    File(PathBuf),
    /// It is downloaded when it is loaded for the first time.
    Fetched(Box<ModelArgs>),
}

/// A model's name with its source.
type NamedSource = (String, ModelSource);

/// The models of a preset, and of a folder beside it.
fn preset_models(args: &Args, path: &Path) -> Result<Vec<ListedModel>> {
    let (preset, line) = (Preset::read(path)?, preset::command_line());
    let files = args.models_dir.as_deref().map_or(Ok(Vec::new()), folder_files)?;
    let mut found: BTreeMap<String, Option<ModelSource>> =
        preset.names().map(|name| (name.to_string(), None)).collect();
    found.extend(files.into_iter().map(|(name, source)| (name, Some(source))));
    let model = |(name, source): (String, Option<ModelSource>)| {
        let told = preset.of(&name, &line)?;
        let mut model = told.args.model.clone();
        if model.model.is_none() && model.hf_repo.is_none() && source.is_none() {
            // As with llama.cpp, a name may be a repository's.
            model.hf_repo = Some(name.clone()).filter(|name| name.contains('/') && model.model_url.is_none());
        }
        let fetched = model.hf_repo.is_some() || model.model_url.is_some();
        let source = match (model.model.clone(), source) {
            (Some(path), _) => ModelSource::File(path),
            (None, _) if fetched => ModelSource::Fetched(Box::new(model)),
            (None, Some(source)) => source,
            (None, None) => return Err(preset.has_no_file(&name)),
        };
        let mut listed = list_model(&told.args, name, source, false)?;
        if told.is_named {
            (listed.aliases, listed.tags) = (told.args.http.alias.clone(), told.args.http.tags.clone());
            listed.aliases.sort();
        }
        Ok(ListedModel { at_start: told.at_start, patience: told.patience, options: told.text, ..listed })
    };
    found.into_iter().map(model).collect()
}

fn stem(path: &Path) -> String {
    path.file_stem().map_or_else(|| "model".into(), |stem| stem.to_string_lossy().into_owned())
}

fn list_sources(args: &Args) -> Result<Vec<NamedSource>> {
    if let Some(folder) = &args.models_dir {
        return folder_files(folder);
    }
    let several =
        args.model.model.as_ref().filter(|path| !path.exists()).map(|path| path.to_string_lossy().into_owned());
    if let Some(paths) = several.filter(|text| text.contains(',')) {
        let paths = paths.split(',').filter(|path| !path.is_empty()).map(PathBuf::from);
        return Ok(paths.map(|path| (stem(&path), ModelSource::File(path))).collect());
    }
    Ok(match fetch::model(&ModelArgs::clone(&args.model))? {
        Some(path) => vec![(stem(&path), ModelSource::File(path))],
        None => {
            output::say(format_args!("{}\n", session::DEMO_NOTE));
            vec![("demo".into(), ModelSource::Demo)]
        }
    })
}

/// The models of a folder by name: its files, and of split sets the first ones. A folder in it with one model is that model.
fn folder_files(folder: &Path) -> Result<Vec<NamedSource>> {
    let entries = std::fs::read_dir(folder).map_err(|e| Error::io(folder, e))?;
    // What is being put there has a name that begins with a point.
    let hidden = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
    let paths: Vec<PathBuf> =
        entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| !hidden(path)).collect();
    let (folders, files): (Vec<_>, Vec<_>) = paths.into_iter().partition(|path| path.is_dir());
    let inside = |folder: PathBuf| {
        let name = folder.file_name()?.to_string_lossy().into_owned();
        let paths = std::fs::read_dir(&folder).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
        let mut models = paths.filter(|path| is_model(path) && path.is_file());
        let only = models.next().filter(|_| models.next().is_none());
        Some((model_name_of_file(&name), ModelSource::File(only?)))
    };
    let mut found: Vec<NamedSource> = files
        .into_iter()
        // A pipe would be waited for.
        .filter(|path| is_model(path) && path.is_file())
        .map(|path| (model_name_of_file(&stem(&path)), ModelSource::File(path)))
        .collect();
    found.extend(folders.into_iter().filter_map(inside));
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found.dedup_by(|later, first| later.0 == first.0);
    Ok(found)
}

/// The model's name that a file or folder of a folder of models has.
#[cfg(feature = "download")]
fn model_name_of_file(file: &str) -> String {
    pumex_hub::unescape(file)
}

#[cfg(not(feature = "download"))]
fn model_name_of_file(file: &str) -> String {
    file.to_string()
}

/// Whether a path is that of a model, and not of a later part of one or of a projector.
fn is_model(path: &Path) -> bool {
    let name = stem(path);
    let later = name.rsplit_once("-of-").and_then(|(rest, _)| rest.rsplit_once('-')).map(|(_, part)| part);
    let later = later.and_then(|part| part.parse::<u32>().ok()).is_some_and(|part| part != 1);
    path.extension().is_some_and(|e| e == "gguf") && !later && !name.starts_with("mmproj")
}

fn list_model(args: &Args, name: String, source: ModelSource, single: bool) -> Result<ListedModel> {
    let mut aliases: Vec<String> = if single { args.http.alias.clone() } else { Vec::new() };
    aliases.retain(|alias| !alias.is_empty());
    aliases.sort();
    // As with llama.cpp, the first alias is the name.
    let name = aliases.first().cloned().unwrap_or(name);
    let path = match &source {
        ModelSource::File(path) => Some(path.clone()),
        ModelSource::Demo | ModelSource::Fetched(_) => None,
    };
    path.iter().for_each(|path| files::reads(path));
    let meta = path.as_ref().and_then(|path| std::fs::metadata(path).ok());
    let created = meta.as_ref().and_then(|m| m.modified().ok()?.duration_since(UNIX_EPOCH).ok());
    let bytes = meta.map_or(0, |meta| meta.len());
    let tags = if single { args.http.tags.clone() } else { Vec::new() };
    let file = (created.map_or(0, |since| since.as_secs()), bytes);
    let idle = u64::try_from(args.sleep_idle_seconds).ok().filter(|s| *s > 0).map(Duration::from_secs);
    Ok(ListedModel { aliases, tags, path, file, idle, ..ListedModel::new(settings(args, name, source)?) })
}

fn settings(args: &Args, name: String, source: ModelSource) -> Result<ModelSettings> {
    let mut adapters = args.adapters.loras()?;
    if args.lora_init_without_apply {
        adapters.iter_mut().for_each(|(_, scale)| *scale = 0.0);
    }
    adapters.iter().for_each(|(path, _)| files::reads(path));
    let (flags, engine, access) = (args.adapters.clone(), args.engine.clone(), args.model.access());
    let facts = args.model.facts.clone();
    let open = move || {
        let gguf = match &source {
            ModelSource::File(path) => ollama_sidecar::apply(Gguf::open_with(path, access)?),
            ModelSource::Fetched(model) => match fetch::model(model)? {
                Some(path) => ollama_sidecar::apply(Gguf::open_with(&path, access)?),
                None => session::demo()?,
            },
            ModelSource::Demo => session::demo()?,
        };
        let gguf = flags.attach_by_sequence(facts.apply(gguf)?)?;
        if engine.auto {
            // Once for a model; whoever loads it takes what was found.
            session::tune(&gguf, &engine)?;
        }
        Ok(gguf)
    };
    let more = args.chat_template_kwargs.as_deref().map_or(Ok(Json::Object(Vec::new())), Json::parse);
    let more = more.ok().and_then(|json| json.as_object().map(<[_]>::to_vec));
    let template_variables =
        more.ok_or_else(|| Error::Usage("--chat-template-kwargs: expected a JSON object".into()))?;
    let chat_template = match (&args.chat_template, &args.chat_template_file) {
        (Some(text), _) => Some(text.clone()),
        (None, Some(path)) => Some(prompt_source::read_file(path)?),
        (None, None) => None,
    };
    if let Some(folder) = args.slot_save_path.as_ref().filter(|folder| !folder.is_dir()) {
        return Err(Error::Usage(format!("--slot-save-path {}: expected a folder", folder.display())));
    }
    let sampling = args.sampling.clone();
    let count = |n: i64| usize::try_from(n).ok();
    let (asked, auto) = (usize::try_from(args.parallel).ok().filter(|n| *n > 0), 4);
    let pooling = args.pooling.map(super::pooling).or(args.reranking.then_some(Pooling::Rank));
    Ok(ModelSettings {
        projector: Some(args.projector.opener(&args.model, &args.engine)),
        adapters,
        engine: pumex_engine::Options {
            revives: false,
            ..args.engine.options((args.ctx_size > 0).then_some(args.ctx_size))
        },
        slots: asked.unwrap_or(auto),
        unified: args.kv_unified || (asked.is_none() && !args.no_kv_unified),
        kept: args.kept,
        queue: args.queue,
        predict: count(args.predict),
        context_shift: args.context_shift,
        keep: args.keep,
        chat_template,
        template_variables,
        reasoning: args.reasons(),
        reasoning_budget: count(args.reasoning_budget),
        usual: Arc::new(move |gguf, tokenizer| sampling.options(gguf, tokenizer, true)),
        embeds: args.embeddings || args.reranking,
        pooling,
        constraint: args.defaults.constraint()?,
        inline_reasoning: args.defaults.inline_reasoning(),
        slot_folder: args.slot_save_path.clone(),
        slot_bytes: (args.slot_save_limit > 0).then(|| args.slot_save_limit.saturating_mul(1 << 20)),
        stall: Duration::from_secs(args.http.timeout),
        share_prefixes: args.share_prefixes,
        deterministic: args.deterministic,
        draft: draft(args),
        step_log: args.log_steps.clone(),
        prompt_rows: (args.prompt_rows as usize).next_power_of_two(),
        ..ModelSettings::new(name, Arc::new(open))
    })
}

fn draft(args: &Args) -> Option<DraftModel> {
    let path = args.draft.model_draft.clone().filter(|_| args.draft.spec_type != "none")?;
    files::reads(&path);
    let access = args.model.access();
    let open = move || Gguf::open_with(&path, access);
    let (most, least) = (args.draft.spec_draft_n_max, args.draft.spec_draft_n_min);
    let engine = Options { gpu_layers: args.draft.gpu_layers_draft.0, ..args.engine.options(None) };
    Some(DraftModel { open: Arc::new(open), engine, most, least })
}
