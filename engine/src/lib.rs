//! From a file to a running model: chooses the device, plans memory, uploads weights, and hands out a [`Runner`].
//!
//! The Vulkan interpreter of the plan lives here; the CPU one is [`crate::cpu`].

pub mod conversation;
pub mod cpu;
pub mod exec;
pub mod kernel;
pub mod profile;
pub mod session;
pub mod state;

pub mod bandwidth;
mod bind;
mod buffers;
pub mod device_recovery;
mod device_sampling;
pub mod fit;
mod info;
mod loaded_model;
mod memory;
pub mod occupancy;
mod offload;
mod op_placement;
mod params;
mod program;
mod replay;
pub mod request;
mod results;
pub mod selftest;
mod shapes;
mod state_io;
pub mod subnormal;
mod tower;
pub mod tune;
mod vulkan;
mod weights;

pub use info::{model_info, ModelInfo};
pub use memory::MemoryPlan;
pub use offload::Offload;
pub use op_placement::Override;
pub use pumex_lower::dump::Explained;
pub use pumex_lower::CacheType;
pub use pumex_plan::KV_BLOCK;
pub use pumex_vk::Caps;
pub use tower::{encoder_bytes, explain_encoder, EncoderBytes, KernelTime, Tower};
pub use vulkan::{StepTime, VulkanRunner};
pub use weights::repack;

use crate::cpu::{Fast, FastSettings, Rates, Reference, RunnerSizes, Threads};
use pumex_cpu::attention::Elements;
use pumex_cpu::Float;
use pumex_gguf::spelling::nearest;
use pumex_gguf::{Error, Gguf, Result};
use pumex_lower::policy;
use pumex_lower::policy::ActivationQuant;
use pumex_model as model;
use pumex_plan::Plan;
use pumex_quant::FormatId;
use pumex_step::Runner;
use pumex_vk as vk;
use pumex_vk::{Device, Select};
use std::time::Instant;

/// Words that command lines have for devices that are not named.
const DEVICE_WORDS: [&str; 4] = ["auto", "cpu", "reference", "vulkan"];

/// Where to run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DeviceChoice {
    /// The best GPU, else the CPU, even where there is a software Vulkan device.
    #[default]
    Auto,
    /// The CPU.
    Cpu,
    /// The CPU in plain f32, one loop per op.
    Reference,
    /// The best Vulkan device, software ones included.
    Vulkan,
    /// A Vulkan device by index, name or UUID.
    Named(String),
}

/// How to load.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where to run.
    pub device: DeviceChoice,
    /// Positions per sequence; none takes the model's, or what fits.
    pub n_ctx: Option<u32>,
    /// Sequences held at once.
    pub n_seqs: u32,
    /// Sequences behind those, for states to go back to ([`crate::conversation::Checkpoints`]): they share the others' positions.
    pub checkpoints: u32,
    /// Most rows of a step.
    pub max_rows: u32,
    /// Rows of a step instead of `max_rows`, if that is more, on a device for which long steps are fast and that has room for them.
    pub rows_with_room: u32,
    /// Positions of the cache that all sequences share; none takes `n_ctx` for each of them.
    pub cache_positions: Option<u32>,
    /// Bytes of a device's memory that are left to what runs beside the model, such as an encoder.
    pub reserved_bytes: u64,
    /// Where neither is told: the cache has room for so many whole sequences, or as much as fits, but for one at least.
    pub room_for: Option<u32>,
    /// So many sequences go on at once beside prompts: pipelines of all such steps are built ahead, not of the usual ones alone.
    pub batch: Option<u32>,
    /// Elements of K; unless told they are f16, or f32 in the CPU's reference.
    pub cache_type_k: Option<CacheType>,
    /// Elements of V, likewise.
    pub cache_type_v: Option<CacheType>,
    /// Layers that run on the GPU, the last ones; none takes as many as there is room for.
    pub gpu_layers: Option<usize>,
    /// Tensors whose ops go elsewhere than their layers do.
    pub overrides: Vec<Override>,
    /// Turns the validation layer on.
    pub validation: bool,
    /// Codes of activations in products by integers; the device's best where it is not told.
    pub activations: Option<ActivationQuant>,
    /// How the CPU runs.
    pub cpu: FastSettings,
    /// On the CPU the plain interpreter runs, in f32 throughout, as it does with activations of 16 bits.
    pub exact_on_cpu: bool,
    /// Gives what the last norm gives instead of logits.
    pub embeds: bool,
    /// If the device is lost, loads the model anew, once, and computes again what was held.
    pub revives: bool,
    /// Kernels of a GPU that are left out, of [`pumex_lower::policy::replaceable_kernels`]: the next row of the policy serves.
    pub without: Vec<&'static str>,
    /// What only tests and comparisons set.
    pub debug: Debug,
}

/// Ways of running that only tests and comparisons choose; the defaults are what the policy finds best.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Debug {
    /// Lets one dispatch do several ops; off, every op has its own.
    pub fuse: bool,
    /// Scans many rows of a sequence by windows, else row by row; by the policy where it is not told.
    pub chunks: Option<bool>,
    /// Multiplies several rows at a time by cooperative matrices, where the device has them.
    pub matrices: bool,
    /// Multiplies many rows by this kernel, whatever takes them else; with [`Debug::matrices`] alone.
    pub many_rows: Option<pumex_lower::policy::ManyRows>,
    /// Lets one dispatch do the layers of one row, as stages (the megakernel); by the policy where it is not told.
    pub megakernel: Option<bool>,
    /// Its workgroups, all of which must run at once; one for each multiprocessor, or a single one, where it is not told.
    pub megakernel_groups: Option<u32>,
    /// Most query heads that a workgroup of attention takes, in dispatches of its own then; none leaves it to the length of the
    /// sequences.
    pub attn_heads: Option<usize>,
    /// Sends weights through staging slots even where memory is unified.
    pub force_staging: bool,
    /// The step of that number, from 0, if it has a megakernel, computes with other tokens and is found to have given up: what
    /// must then be done again is wrong.
    pub fault_at: Option<u64>,
    /// From the submission of that number on, counted from when the model is loaded, the device is found to be lost.
    pub lost_at: Option<u64>,
    /// Builds the pipelines of usual steps while weights are loaded; by the policy where it is not told.
    pub build_ahead: Option<bool>,
    /// Lets kernels use subgroups, where the device has what they need.
    pub subgroups: bool,
    /// Lets kernels load numbers of 16 bits and compute with them, likewise.
    pub halves: bool,
    /// This kernel, or, by [`selftest::SUBGROUPS`], each that uses subgroups, takes weights for what they are not, as if it was
    /// compiled wrongly.
    pub spoilt: Option<&'static str>,
    /// Holds weights of codebooks written out, which takes more memory and less time; if it is not told, where that leaves as
    /// much room for the context.
    pub expand_codebooks: Option<bool>,
}

impl Options {
    /// Elements of K and V, but in the CPU's reference.
    pub fn cache_types(&self) -> (CacheType, CacheType) {
        (self.cache_type_k.unwrap_or_default(), self.cache_type_v.unwrap_or_default())
    }

    /// Sequences of all kinds.
    pub(crate) fn sequences(&self) -> usize {
        (self.n_seqs.max(1) + self.checkpoints) as usize
    }
}

impl Default for Options {
    fn default() -> Self {
        Options {
            device: DeviceChoice::Auto,
            n_ctx: None,
            n_seqs: 1,
            checkpoints: 0,
            max_rows: 512,
            rows_with_room: 0,
            cache_positions: None,
            reserved_bytes: 0,
            room_for: None,
            batch: None,
            cache_type_k: None,
            cache_type_v: None,
            gpu_layers: None,
            overrides: Vec::new(),
            validation: false,
            activations: None,
            exact_on_cpu: false,
            embeds: false,
            revives: false,
            without: Vec::new(),
            cpu: FastSettings::default(),
            debug: Debug::default(),
        }
    }
}

impl Default for Debug {
    fn default() -> Self {
        Debug {
            fuse: true,
            chunks: None,
            matrices: true,
            many_rows: None,
            megakernel: None,
            megakernel_groups: None,
            attn_heads: None,
            force_staging: false,
            fault_at: None,
            lost_at: None,
            build_ahead: None,
            subgroups: true,
            halves: true,
            spoilt: None,
            expand_codebooks: None,
        }
    }
}

/// Called with bytes done and bytes in all while weights are loaded.
pub type Progress<'a> = &'a mut dyn FnMut(u64, u64);

/// Loads the model of `gguf`.
///
/// # Errors
/// A file that is no runnable model, no such device, a missing feature, memory that does not suffice.
pub fn load<'a>(gguf: &'a Gguf, options: &Options, progress: Progress<'_>) -> Result<Box<dyn Runner + 'a>> {
    load_on(gguf, device(options)?, options, progress)
}

/// Loads a model as [`load`] does, on what [`device`] gave for the same options.
///
/// # Errors
/// As [`load`].
pub fn load_on<'a>(
    gguf: &'a Gguf,
    device: Option<Device>,
    options: &Options,
    progress: Progress<'_>,
) -> Result<Box<dyn Runner + 'a>> {
    let (device, options) = match device {
        Some(device) => {
            let (device, options) = tune::gone(gguf, device, options);
            (Some(device), options)
        }
        None => (None, options.clone()),
    };
    let opened = device.clone();
    let runner = run_plan(gguf, model::plan(gguf)?, device, &options, progress)?;
    if let (Some(device), Some(n)) = (&opened, options.debug.lost_at) {
        device.lose_from(device.counters().submits + n);
    }
    if !options.revives || opened.is_none() {
        return Ok(runner);
    }
    let debug = Debug { lost_at: None, ..options.debug };
    let anew = Options { n_ctx: Some(runner.n_ctx() as u32), revives: false, debug, ..options.clone() };
    Ok(Box::new(device_recovery::Reviving::new(runner, Box::new(move || load(gguf, &anew, &mut |_, _| ())))))
}

fn run_plan<'a>(
    gguf: &'a Gguf,
    plan: Plan,
    device: Option<Device>,
    options: &Options,
    progress: Progress<'_>,
) -> Result<Box<dyn Runner + 'a>> {
    let plan = if options.embeds { plan.embedding() } else { plan };
    op_placement::check(&plan, &options.overrides)?;
    let mut options = options.clone();
    options.overrides.extend(device.iter().flat_map(|device| op_placement::of_limits(&plan, device)));
    let options = &options;
    match (device, options.gpu_layers) {
        (None, _) | (_, Some(0)) => cpu_part(gguf, plan, options, &mut None),
        (Some(device), None) => offload::fitting(gguf, &plan, device, options, progress),
        (Some(device), Some(n)) => offload::place_layers(gguf, &plan, device, n, options, progress),
    }
}

/// The Vulkan engine itself, on a device that is open already, for what a [`Runner`] cannot tell.
///
/// # Errors
/// As [`load`].
pub fn load_vulkan(gguf: &Gguf, device: Device, options: &Options, progress: Progress<'_>) -> Result<VulkanRunner> {
    let (device, options) = tune::gone(gguf, device, options);
    VulkanRunner::new(gguf, model::plan(gguf)?, device, &options, progress)
}

/// The fast interpreter itself, likewise.
///
/// # Errors
/// As [`load`], and options that mean the reference.
pub fn load_cpu<'a>(gguf: &'a Gguf, options: &Options) -> Result<Fast<'a>> {
    let plan = model::plan(gguf)?;
    if is_reference(options) {
        let what =
            "expected the CPU's fast interpreter (--device cpu), found its reference, which has no clock for its ops";
        return Err(Error::Usage(what.into()));
    }
    fast_part(gguf, plan, options, &mut None)
}

/// Opens the device that the options mean; none for the CPU.
///
/// # Errors
/// No such device, a missing feature.
pub fn device(options: &Options) -> Result<Option<Device>> {
    let begun = Instant::now();
    let select = match &options.device {
        DeviceChoice::Cpu | DeviceChoice::Reference => return Ok(None),
        DeviceChoice::Auto => match vk::list() {
            Ok(found) if vk::choose_device(&found).is_some() => Select::Auto,
            _ => return Ok(None),
        },
        DeviceChoice::Vulkan => Select::Any,
        DeviceChoice::Named(name) => match name.parse() {
            Ok(index) => Select::Index(index),
            Err(_) => Select::Name(name.clone()),
        },
    };
    let (validation, force_staging) = (options.validation, options.debug.force_staging);
    let modules = pumex_shaders::fingerprint();
    let named = if let Select::Name(name) = &select { Some(name.clone()) } else { None };
    let opened = Device::open(&vk::Options { select, validation, force_staging, modules, ..vk::Options::default() })
        .map_err(|error| match named {
            Some(name) => suggest_device(error, &name),
            None => error,
        })?;
    let whole = options.mask_capabilities(opened.caps().clone()) == *opened.caps();
    let opened =
        tune::applied(selftest::passed(occupancy::measure_cores(apply_workarounds(&opened, options)?)?, whole)?);
    tracing::info!("load: device, {:.0} ms", begun.elapsed().as_secs_f64() * 1e3);
    Ok(Some(opened))
}

/// Names which device is meant, if the one that was asked for has a slip in it.
fn suggest_device(error: Error, name: &str) -> Error {
    let there = vk::list().unwrap_or_default();
    let words = there.iter().flat_map(|caps| caps.name.split(|c: char| !c.is_alphanumeric()));
    let words = words.filter(|word| word.len() > 3);
    let names = DEVICE_WORDS.into_iter().chain(there.iter().map(|caps| caps.name.as_str())).chain(words);
    match (&error, nearest(name, names)) {
        (Error::Device(what), Some(meant)) if !meant.eq_ignore_ascii_case(name) => {
            Error::Device(format!("{what}; did you mean {meant}?"))
        }
        _ => error,
    }
}

impl Options {
    /// A device without what is not to be used.
    pub fn mask_capabilities(&self, mut caps: vk::Caps) -> vk::Caps {
        if !self.debug.subgroups {
            caps = policy::without_subgroups(caps);
        }
        if !self.debug.halves {
            caps = policy::without_halves(caps);
        }
        let left_out = self.without.iter();
        caps.disabled.extend(left_out.map(|k| vk::Disabled { kernel: (*k).into(), why: "left out".into() }));
        caps
    }
}

/// The device as kernels use it: see [`policy::as_used`].
fn apply_workarounds(opened: &Device, options: &Options) -> Result<Device> {
    let caps = options.mask_capabilities(policy::as_used(opened.caps().clone()));
    for workaround in policy::workarounds::of(&caps) {
        tracing::info!("device {}: {}: {} ({})", caps.name, workaround.name, workaround.case, workaround.link);
    }
    if caps.emulated_subgroups {
        let lacks =
            policy::lacks_subgroups(opened.caps()).map_or(String::new(), |feature| format!(": it lacks {feature}"));
        tracing::info!("device {}: goes without subgroups{lacks}", caps.name);
    }
    match caps.missing() {
        Some(feature) => Err(Error::MissingFeature { device: caps.name, feature: feature.into() }),
        None => Ok(opened.with_caps(caps)),
    }
}

/// What the CPU calls itself: the instructions that products use.
pub fn cpu_name() -> String {
    format!("{} kernels", pumex_cpu::Isa::best().name())
}

/// What the CPU's memory and instructions give to its usual threads, measured now.
pub fn cpu_rates() -> Rates {
    Threads::new(&FastSettings::default()).rates()
}

/// A runner on the CPU, with the threads of those made before.
///
/// Positions unless told are the model's: the cache grows, so only attention's cost speaks against more.
fn cpu_part<'a>(
    gguf: &'a Gguf,
    plan: Plan,
    options: &Options,
    threads: &mut Option<Threads>,
) -> Result<Box<dyn Runner + 'a>> {
    if is_reference(options) {
        let (n_ctx, n_seqs, max_rows) = cpu_sizes(&plan, options);
        weights::check_finite(gguf, &plan)?;
        tell_idle(&options.cpu);
        let [k, v] = [options.cache_type_k, options.cache_type_v].map(|t| elements(t.unwrap_or(CacheType::F32)));
        return Ok(Box::new(Reference::new(gguf, plan, n_ctx, n_seqs, max_rows).keeping(k, v)));
    }
    Ok(Box::new(fast_part(gguf, plan, options, threads)?))
}

/// Warns of settings of the CPU that the reference has no use for.
fn tell_idle(settings: &FastSettings) {
    let given = [
        ("--threads-batch", settings.batch_threads.is_some()),
        ("--cpu-mask", !settings.processors.is_empty()),
        ("--no-repack", settings.in_place),
        ("--numa", settings.numa.is_some()),
        ("--prio", settings.priority != 0),
    ];
    for (flag, _) in given.into_iter().filter(|(_, given)| *given) {
        tracing::warn!("{flag} has no effect here: the CPU's reference runs, in f32, as its threads come");
    }
}

/// Whether what runs on the CPU is the reference.
fn is_reference(options: &Options) -> bool {
    let exact = options.exact_on_cpu || options.activations == Some(ActivationQuant::Q16);
    options.device == DeviceChoice::Reference || exact
}

/// Positions, sequences and rows on the CPU.
fn cpu_sizes(plan: &Plan, options: &Options) -> (usize, usize, usize) {
    let n_ctx = options.n_ctx.filter(|&n| n > 0).map_or(plan.n_ctx_train, |n| n as usize);
    (n_ctx, options.sequences(), options.max_rows as usize)
}

fn fast_part<'a>(gguf: &'a Gguf, plan: Plan, options: &Options, threads: &mut Option<Threads>) -> Result<Fast<'a>> {
    let (n_ctx, n_seqs, max_rows) = cpu_sizes(&plan, options);
    let (k, v) = options.cache_types();
    let (k, v) = (elements(k), elements(v));
    let room = options.room_for.map(|n| n as usize * n_ctx);
    let cache_positions = options.cache_positions.map(|n| n as usize).or(room);
    let begun = Instant::now();
    let threads = threads.get_or_insert_with(|| Threads::new(&options.cpu));
    let runner = Fast::with(gguf, plan, RunnerSizes { n_ctx, n_seqs, max_rows, cache_positions, k, v }, threads)?;
    tracing::info!("load: weights, {:.0} ms", begun.elapsed().as_secs_f64() * 1e3);
    Ok(runner)
}

/// Elements of a cache on the CPU.
fn elements(kind: CacheType) -> Elements {
    let format = match kind {
        CacheType::F32 => return Elements::Floats(Float::F32),
        CacheType::F16 => return Elements::Floats(Float::F16),
        CacheType::Bf16 => return Elements::Floats(Float::Bf16),
        CacheType::Q8_0 => FormatId::Q8_0,
        CacheType::Q4_0 => FormatId::Q4_0,
        CacheType::Q4_1 => FormatId::Q4_1,
        CacheType::Q5_0 => FormatId::Q5_0,
        CacheType::Q5_1 => FormatId::Q5_1,
        CacheType::Iq4Nl => FormatId::Iq4Nl,
    };
    Elements::Blocks(format.format())
}
