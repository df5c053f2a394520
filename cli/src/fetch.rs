//! Which file is meant: a path, or a model of the Hub or of a URL, which is downloaded first.
//!
//! Flags come before llama.cpp's variables of the environment (`LLAMA_ARG_MODEL` and its neighbours). Downloading shows a bar on
//! stderr when that is a terminal.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use pumex_gguf::Result;

use super::options::ModelArgs;

/// Ctrl-C's flag: files are opened where nothing else could stop.
static STOP: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Downloads end when this flag is set.
pub fn set_stop_flag(flag: &Arc<AtomicBool>) {
    // Called once.
    let _ = STOP.set(Arc::clone(flag));
}

fn variable(key: &str) -> Option<String> {
    std::env::var(key).ok().filter(|value| !value.is_empty())
}

/// The folder of caches of all programs.
fn cache_base() -> Option<PathBuf> {
    let base = variable("XDG_CACHE_HOME").map(PathBuf::from);
    base.or_else(|| variable("HOME").map(|home| PathBuf::from(home).join(".cache")))
}

/// Folders that are filled as models run, with what is in them.
pub fn caches() -> Vec<(&'static str, PathBuf)> {
    let mut found = download::caches();
    found.extend(cache_base().map(|base| ("kernels", base.join("pumex"))));
    found
}

/// The flags, or where none names a model, what the environment names.
fn model_flags_or_environment(args: &ModelArgs) -> ModelArgs {
    let mut asked = args.clone();
    if asked.model.is_none() && asked.hf_repo.is_none() && asked.model_url.is_none() {
        asked.model = variable("LLAMA_ARG_MODEL").map(PathBuf::from);
        asked.hf_repo = variable("LLAMA_ARG_HF_REPO").filter(|_| asked.model.is_none());
        asked.model_url = variable("LLAMA_ARG_MODEL_URL").filter(|_| asked.model.is_none() && asked.hf_repo.is_none());
    }
    asked.hf_file = asked.hf_file.or_else(|| variable("LLAMA_ARG_HF_FILE"));
    asked.offline |=
        variable("LLAMA_ARG_OFFLINE").is_some_and(|v| ["1", "on", "true", "enabled"].contains(&v.as_str()));
    asked
}

/// The model's file; none where the demo model is meant.
///
/// # Errors
/// A file without its repository, and all that a download may fail of.
pub fn model(args: &ModelArgs) -> Result<Option<PathBuf>> {
    if args.hf_file.is_some() && args.hf_repo.is_none() && variable("LLAMA_ARG_HF_REPO").is_none() {
        return Err(pumex_gguf::Error::Usage(
            "--hf-file: expected a repository beside it (-hf USER/REPO), found none".into(),
        ));
    }
    let args = model_flags_or_environment(args);
    let found = match (&args.hf_repo, &args.model_url) {
        (Some(repo), _) => download::fetch_file(&args, &FetchTarget::Model(repo))?,
        (None, Some(url)) => download::fetch_file(&args, &FetchTarget::Url(url))?,
        (None, None) => args.model,
    };
    let found = found.map(|path| if path.is_dir() { folder(&path) } else { Ok(path) }).transpose()?;
    found.iter().for_each(|path| super::files::reads(path));
    Ok(found)
}

/// The model file that a folder stands for.
fn folder(dir: &Path) -> Result<PathBuf> {
    let never = AtomicBool::new(false);
    let cache = cache_base().map(|base| base.join("pumex"));
    super::folder::model(dir, cache.as_deref(), STOP.get().map_or(&never, |stop| stop))
}

/// What is fetched.
enum FetchTarget<'a> {
    /// The model of a repository.
    Model(&'a str),
    /// The projector of a repository.
    Projector(&'a str),
    /// A file at a URL.
    Url(&'a str),
}

/// The projector that lies beside the model where that comes from a repository; else none.
///
/// # Errors
/// All that a download may fail of.
pub fn projector(args: &ModelArgs) -> Result<Option<PathBuf>> {
    let args = model_flags_or_environment(args);
    let found = match &args.hf_repo {
        Some(repo) => download::fetch_file(&args, &FetchTarget::Projector(repo))?,
        None => None,
    };
    found.iter().for_each(|path| super::files::reads(path));
    Ok(found)
}

/// The file at a URL.
///
/// # Errors
/// All that a download may fail of.
pub fn url(args: &ModelArgs, url: &str) -> Result<Option<PathBuf>> {
    let found = download::fetch_file(&model_flags_or_environment(args), &FetchTarget::Url(url))?;
    found.iter().for_each(|path| super::files::reads(path));
    Ok(found)
}

#[cfg(not(feature = "download"))]
mod download {
    use super::*;

    pub fn caches() -> Vec<(&'static str, PathBuf)> {
        Vec::new()
    }

    pub fn fetch_file(_: &ModelArgs, _: &FetchTarget<'_>) -> Result<Option<PathBuf>> {
        let what = "-hf, -mu: expected a build with the feature `download`, found one without; give -m FILE";
        Err(pumex_gguf::Error::Request(what.into()))
    }
}

#[cfg(feature = "download")]
pub use download::{failure, run_with_progress, settings};

#[cfg(feature = "download")]
mod download {
    use super::*;
    use crate::{output, session, signals};
    use indicatif::ProgressBar;
    use pumex_gguf::Error;
    use pumex_hub::{Event, HubSettings, Watch};

    /// What went wrong, as the program tells it.
    pub fn failure(error: pumex_hub::Error) -> Error {
        match error {
            pumex_hub::Error::Io { path, source } => Error::io(&path, source),
            other => Error::Request(other.to_string()),
        }
    }

    /// Where things are fetched from and kept, as the environment says.
    ///
    /// # Errors
    /// Variables that say what cannot be.
    pub fn settings(token: Option<&str>, offline: bool) -> Result<HubSettings> {
        let settings =
            HubSettings::from(|key| std::env::var_os(key)).and_then(|s| s.with_token(token.map(str::to_string)));
        let mut settings = settings.map_err(failure)?;
        settings.offline |= offline;
        Ok(settings)
    }

    /// Where models are kept.
    pub fn caches() -> Vec<(&'static str, PathBuf)> {
        settings(None, true).map_or(Vec::new(), |settings| vec![("models", settings.cache)])
    }

    /// Does what fetches, with a bar. Ctrl-C ends it, and the program.
    ///
    /// # Errors
    /// What the work fails of.
    pub fn run_with_progress<T>(work: impl FnOnce(&mut Watch<'_>) -> pumex_hub::Result<T>) -> Result<T> {
        let bar = session::bar("downloading", "{msg} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta}");
        let never = AtomicBool::new(false);
        let stop = STOP.get().map_or(&never, |stop| stop);
        let mut begun = String::new();
        let mut tell = |event: Event<'_>| show_event(&bar, &mut begun, event);
        let done = work(&mut Watch { tell: &mut tell, stop });
        bar.finish_and_clear();
        if matches!(done, Err(pumex_hub::Error::Stopped)) {
            output::say(format_args!("stopped; the same command goes on with the download\n"));
            signal_hook::low_level::exit(signals::code());
        }
        done.map_err(failure)
    }

    /// The file in the cache, downloaded first where it is not there.
    pub fn fetch_file(args: &ModelArgs, wanted: &FetchTarget<'_>) -> Result<Option<PathBuf>> {
        let settings = settings(args.hf_token.as_deref(), args.offline)?;
        run_with_progress(|watch| match *wanted {
            FetchTarget::Model(repo) => pumex_hub::fetch(&settings, repo, args.hf_file.as_deref(), watch).map(Some),
            FetchTarget::Projector(repo) => pumex_hub::fetch_projector(&settings, repo, watch),
            FetchTarget::Url(url) => pumex_hub::fetch_url(&settings, url, watch).map(Some),
        })
    }

    fn show_event(bar: &ProgressBar, begun: &mut String, event: Event<'_>) {
        match event {
            Event::Begins { name, total } => {
                bar.set_length(total);
                if begun != name {
                    *begun = name.to_string();
                    bar.suspend(|| output::say(format_args!("downloading {name}\n")));
                }
            }
            Event::Bytes(bytes) => bar.set_position(bytes),
            Event::Waits(name) => {
                bar.suspend(|| output::say(format_args!("waiting for another download of {name}\n")));
            }
            Event::Cached(why) => tracing::warn!("taken from the cache, as the host cannot be reached: {why}"),
        }
    }
}
