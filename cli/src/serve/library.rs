//! The folder of models that requests may change: `--models-dir`.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use pumex_gguf::Result;
use pumex_hub::name::{Host, Name};
use pumex_hub::{Event, HubSettings, LocalFolder, Watch};
use pumex_serve::engine::{FetchedModel, Library, Refusal, RefusalKind};
use serde_json::{Map, Value};

use super::super::{fetch, options::ModelArgs};

/// The folder, and where what comes to it is fetched from.
pub struct Files {
    folder: LocalFolder,
    settings: HubSettings,
}

impl Files {
    /// The files of a folder.
    ///
    /// # Errors
    /// Variables of the environment that say what cannot be.
    pub fn new(folder: &Path, args: &ModelArgs) -> Result<Files> {
        let settings = fetch::settings(args.hf_token.as_deref(), args.offline)?;
        Ok(Files { folder: LocalFolder::new(folder), settings })
    }
}

fn hub_refusal(error: pumex_hub::Error) -> Refusal {
    let kind = match &error {
        pumex_hub::Error::Name(_) | pumex_hub::Error::Refused { status: 404, .. } => RefusalKind::NotFound,
        pumex_hub::Error::Refused { .. } => RefusalKind::Invalid,
        _ => RefusalKind::Failed,
    };
    Refusal { kind, message: error.to_string(), field: None, tokens: None }
}

impl Library for Files {
    fn pull(&self, name: &str, tell: &mut dyn FnMut(FetchedModel) -> bool) -> std::result::Result<(), Refusal> {
        // Ollama's clients mean its registry where they name no host.
        let of = Name::of(Host::Ollama, name).map_err(hub_refusal)?;
        let quant = of.repo.quant.as_ref().map(|quant| format!(":{quant}")).unwrap_or_default();
        let full = format!("{}{quant}", of.repository());
        let stop = AtomicBool::new(false);
        let mut state = FetchedModel { file: String::new(), total: 0, done: 0 };
        let mut told = |event: Event<'_>| {
            match event {
                Event::Begins { name, total } => state = FetchedModel { file: name.into(), total, done: 0 },
                Event::Bytes(bytes) => state.done = bytes,
                Event::Waits(_) | Event::Cached(_) => {}
            }
            if !state.file.is_empty() && !tell(state.clone()) {
                stop.store(true, Ordering::Relaxed);
            }
        };
        let watch = &mut Watch { tell: &mut told, stop: &stop };
        let path = pumex_hub::fetch(&self.settings, &full, None, watch).map_err(hub_refusal)?;
        let projector = pumex_hub::fetch_projector(&self.settings, &full, watch).map_err(hub_refusal)?;
        self.folder.add(name, &path, projector.as_deref()).map(drop).map_err(hub_refusal)
    }

    fn copy(&self, from: &str, to: &str) -> std::result::Result<(), Refusal> {
        self.folder.copy(from, to).map_err(hub_refusal)
    }

    fn create(&self, name: &str, from: &str, said: &Map<String, Value>) -> std::result::Result<(), Refusal> {
        self.folder.copy(from, name).and_then(|()| self.folder.say(name, said)).map_err(hub_refusal)
    }

    fn remove(&self, name: &str) -> std::result::Result<(), Refusal> {
        self.folder.remove(name).map(drop).map_err(hub_refusal)
    }
}
