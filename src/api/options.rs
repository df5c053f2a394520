//! How a model is opened: where it runs, with which sizes, and what stands beside it.

use crate::engine::{CacheType, DeviceChoice, Options};
use crate::gguf::{FileAccess, Gguf};
use crate::projector::{MediaOptions, Projector};
use crate::server::{ListedModel, ModelSettings, Models, Serving};
use crate::{adapter, Error, Result};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where a model's bytes are.
#[derive(Clone, Debug)]
pub enum Source {
    /// A file.
    File(PathBuf),
    /// In the program: a name, and bytes that lie as aligned as in a mapped file.
    Bytes(&'static str, &'static [u8]),
}

/// How a model is opened. Every option has a default; [`ModelOptions::open`] and [`ModelOptions::from_hub`] end the list.
///
/// ```no_run
/// use pumex::Model;
///
/// let model = Model::options().n_ctx(4096).device("cpu").open("model.gguf")?;
/// # Ok::<(), pumex::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ModelOptions {
    engine: Options,
    slots: usize,
    mmproj: Option<PathBuf>,
    adapters: Vec<(PathBuf, f32)>,
    chat_template: Option<String>,
    embeddings: bool,
    on_demand: bool,
    deterministic: bool,
    context_shift: bool,
}

impl Default for ModelOptions {
    fn default() -> ModelOptions {
        ModelOptions {
            // What is asked of a program is asked again by its user.
            engine: Options { revives: false, ..Options::default() },
            slots: 4,
            mmproj: None,
            adapters: Vec::new(),
            chat_template: None,
            embeddings: false,
            on_demand: false,
            deterministic: false,
            context_shift: false,
        }
    }
}

impl ModelOptions {
    /// Positions of the context, which a prompt and its answer take together; unless told, the model's own, or as many as fit.
    #[must_use]
    pub fn n_ctx(mut self, n_ctx: u32) -> ModelOptions {
        self.engine.n_ctx = Some(n_ctx).filter(|n| *n > 0);
        self
    }

    /// Where it runs: `auto`, `cpu`, `vulkan`, or a device by its number or a part of its name, as `pumex devices` lists them.
    #[must_use]
    pub fn device(mut self, device: &str) -> ModelOptions {
        self.engine.device = match device.to_ascii_lowercase().as_str() {
            "auto" => DeviceChoice::Auto,
            "cpu" | "none" => DeviceChoice::Cpu,
            "reference" => DeviceChoice::Reference,
            "vulkan" => DeviceChoice::Vulkan,
            _ => DeviceChoice::Named(device.to_string()),
        };
        self
    }

    /// Layers that run on the GPU, the last ones; unless told, as many as there is room for.
    #[must_use]
    pub fn gpu_layers(mut self, layers: usize) -> ModelOptions {
        self.engine.gpu_layers = Some(layers);
        self
    }

    /// Threads of the CPU; unless told, one for each core.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> ModelOptions {
        self.engine.cpu.threads = Some(threads).filter(|n| *n > 0);
        self
    }

    /// Most rows of a step, in which prompts are computed (llama.cpp's `n_ubatch`).
    #[must_use]
    pub fn batch(mut self, rows: u32) -> ModelOptions {
        self.engine.max_rows = rows.max(1);
        self
    }

    /// Requests that are answered at once; more wait. All of them take from the same context. 4 unless told.
    #[must_use]
    pub fn parallel(mut self, requests: usize) -> ModelOptions {
        self.slots = requests.clamp(1, 4096);
        self
    }

    /// Elements of keys and of values in the cache, as `q8_0`.
    ///
    /// # Errors
    /// A name that is none.
    pub fn cache_types(mut self, k: &str, v: &str) -> Result<ModelOptions> {
        let names = CacheType::ALL.map(CacheType::name).join(", ");
        let of = |field: &str, name: &str| {
            let wrong = || Error::Request(format!("{field}: expected one of {names}, found {name:?}"));
            CacheType::named(name).map(Some).ok_or_else(wrong)
        };
        (self.engine.cache_type_k, self.engine.cache_type_v) = (of("cache type of K", k)?, of("cache type of V", v)?);
        Ok(self)
    }

    /// File of the projector (`mmproj-*.gguf`) that makes rows of pictures and sounds.
    #[must_use]
    pub fn mmproj(mut self, path: impl Into<PathBuf>) -> ModelOptions {
        self.mmproj = Some(path.into());
        self
    }

    /// A LoRA adapter, with its scale. May be given several times.
    #[must_use]
    pub fn lora(mut self, path: impl Into<PathBuf>, scale: f32) -> ModelOptions {
        self.adapters.push((path.into(), scale));
        self
    }

    /// The chat template, by its text or a name such as `chatml`, in place of the file's.
    #[must_use]
    pub fn chat_template(mut self, template: impl Into<String>) -> ModelOptions {
        self.chat_template = Some(template.into());
        self
    }

    /// The model is for vectors alone: what writes text is not loaded.
    #[must_use]
    pub fn embeddings(mut self, only: bool) -> ModelOptions {
        self.embeddings = only;
        self
    }

    /// Nothing is loaded until it is asked for; the file's header is read, so that a file that is none is refused at once, and
    /// one with a vocabulary alone serves for ids.
    #[must_use]
    pub fn on_demand(mut self, on_demand: bool) -> ModelOptions {
        self.on_demand = on_demand;
        self
    }

    /// Whether one request always gets one answer, whatever is asked beside and before it; slower.
    #[must_use]
    pub fn deterministic(mut self, deterministic: bool) -> ModelOptions {
        self.deterministic = deterministic;
        self
    }

    /// An answer goes on when the context is full, without the oldest half of it.
    #[must_use]
    pub fn context_shift(mut self, shift: bool) -> ModelOptions {
        self.context_shift = shift;
        self
    }

    /// Whether nothing that writes text is wanted.
    pub(super) fn is_for_vectors(&self) -> bool {
        self.embeddings
    }

    /// Whether nothing is to be loaded yet.
    pub(super) fn waits(&self) -> bool {
        self.on_demand
    }

    /// Whether a projector was named.
    pub(super) fn has_projector(&self) -> bool {
        self.mmproj.is_some()
    }

    fn open_source(source: &Source) -> Result<Gguf> {
        match source {
            Source::File(path) => Gguf::open_with(path, FileAccess::default()),
            Source::Bytes(name, bytes) => Gguf::from_static(name, bytes),
        }
    }

    /// The file with its adapters at their scales.
    pub(super) fn gguf(&self, source: &Source) -> Result<Gguf> {
        let mut gguf = Self::open_source(source)?;
        if !self.adapters.is_empty() {
            adapter::attach(&mut gguf, &adapter::open_all(&self.adapters)?, &[], adapter::Layers::default())?;
        }
        Ok(gguf)
    }

    /// The file with its adapters, of which each request has scales of its own.
    fn served_gguf(&self, source: &Source) -> Result<Gguf> {
        let mut gguf = Self::open_source(source)?;
        if !self.adapters.is_empty() {
            let loras: Vec<_> = adapter::open_all(&self.adapters)?.into_iter().map(|(lora, _)| lora).collect();
            adapter::attach_by_sequence(&mut gguf, &loras, &[], adapter::Layers::default())?;
        }
        Ok(gguf)
    }

    /// What runs one sequence beside all that is served.
    pub(super) fn alone(&self) -> Options {
        Options { n_seqs: 1, ..self.engine.clone() }
    }

    /// All that answers requests, of which nothing is loaded yet.
    pub(super) fn build_server(&self, name: &str, source: &Source, embeds: bool) -> Arc<Models> {
        let (own, from) = (self.clone(), source.clone());
        let open = move || own.served_gguf(&from);
        let (mmproj, engine) = (self.mmproj.clone(), self.engine.clone());
        let projector = move |_: &Gguf| mmproj.as_deref().map(|path| projector(path, &engine)).transpose();
        let settings = ModelSettings {
            projector: Some(Arc::new(projector)),
            adapters: self.adapters.clone(),
            engine: self.engine.clone(),
            slots: self.slots,
            chat_template: self.chat_template.clone(),
            embeds,
            deterministic: self.deterministic,
            context_shift: self.context_shift,
            // A reader in the same program may think for as long as it likes.
            stall: std::time::Duration::from_secs(u64::from(u32::MAX)),
            ..ModelSettings::new(name, Arc::new(open))
        };
        let path = match source {
            Source::File(path) => Some(path.clone()),
            Source::Bytes(..) => None,
        };
        Models::new(vec![ListedModel { path, ..ListedModel::new(settings) }], Serving::default())
    }
}

fn projector(path: &Path, engine: &Options) -> Result<Projector> {
    Projector::open(path, FileAccess::default(), MediaOptions::default(), engine)
}
