//! From a file to a running model: chooses the device, plans memory, uploads weights, and hands out a [`Runner`].
//!
//! The Vulkan interpreter of the plan lives here; the CPU one is [`crate::reference`].

pub mod bandwidth;
mod cache;
pub mod draw;
mod info;
mod kv;
mod params;
mod record;
mod vulkan;
mod weights;

pub use cache::CacheType;
pub use info::{model_info, ModelInfo};
pub use record::Stamped;
pub use vulkan::{StepTime, VulkanRunner};

use crate::gguf::Gguf;
use crate::plan::Plan;
use crate::reference::Reference;
use crate::step::Runner;
use crate::vk::{self, Device, Select};
use crate::{model, Result};
use std::thread::JoinHandle;
use std::time::Instant;

/// Where to run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DeviceChoice {
    /// The best GPU, else the CPU reference.
    #[default]
    Auto,
    /// The CPU reference.
    Cpu,
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
    /// Most rows of a step.
    pub max_rows: u32,
    /// Elements of K.
    pub cache_type_k: CacheType,
    /// Elements of V.
    pub cache_type_v: CacheType,
    /// Turns the validation layer on.
    pub validation: bool,
    /// Sends weights through the staging ring even where memory is unified.
    pub force_staging: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            device: DeviceChoice::Auto,
            n_ctx: None,
            n_seqs: 1,
            max_rows: 512,
            cache_type_k: CacheType::F16,
            cache_type_v: CacheType::F16,
            validation: false,
            force_staging: false,
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
    load_opened(gguf, Opening::start(options), options, progress)
}

/// Likewise, onto a device that [`Opening::start`] was told to open with the same options.
///
/// # Errors
/// As [`load`].
pub fn load_opened<'a>(
    gguf: &'a Gguf,
    opening: Opening,
    options: &Options,
    progress: Progress<'_>,
) -> Result<Box<dyn Runner + 'a>> {
    let plan = model::plan(gguf)?;
    match opening.device()? {
        Some(device) => Ok(Box::new(VulkanRunner::new(gguf, plan, device, options, progress)?)),
        None => {
            weights::check_finite(gguf, &plan)?;
            cpu(gguf, plan, options)
        }
    }
}

/// Likewise, onto a device that is open already.
///
/// # Errors
/// As [`load`].
pub fn load_onto(gguf: &Gguf, device: Device, options: &Options, progress: Progress<'_>) -> Result<VulkanRunner> {
    VulkanRunner::new(gguf, model::plan(gguf)?, device, options, progress)
}

/// Opens the device that the options mean; none for the CPU.
///
/// # Errors
/// No such device, a missing feature.
pub fn device(options: &Options) -> Result<Option<Device>> {
    let select = match &options.device {
        DeviceChoice::Cpu => return Ok(None),
        DeviceChoice::Auto => match vk::list() {
            Ok(found) if !found.is_empty() => Select::Auto,
            _ => return Ok(None),
        },
        DeviceChoice::Vulkan => Select::AnyGpu,
        DeviceChoice::Named(name) => match name.parse() {
            Ok(index) => Select::Index(index),
            Err(_) => Select::Name(name.clone()),
        },
    };
    let (validation, force_staging) = (options.validation, options.force_staging);
    Device::open(&vk::Options { select, validation, force_staging, ..vk::Options::default() }).map(Some)
}

/// A device that is being opened while the caller does something else: drivers take a tenth of a second and more.
pub struct Opening(Option<JoinHandle<Result<Option<Device>>>>);

impl Opening {
    /// Begins to open what [`device`] gives.
    pub fn start(options: &Options) -> Opening {
        let options = options.clone();
        Opening(Some(std::thread::spawn(move || {
            let begun = Instant::now();
            let opened = device(&options);
            tracing::info!("load: device, {:.0} ms", begun.elapsed().as_secs_f64() * 1e3);
            opened
        })))
    }

    /// Waits for the device; none for the CPU.
    ///
    /// # Errors
    /// As [`device`].
    pub fn device(mut self) -> Result<Option<Device>> {
        match self.0.take().map(JoinHandle::join) {
            Some(Ok(opened)) => opened,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => Ok(None),
        }
    }
}

impl Drop for Opening {
    /// A process does not end while a driver is starting.
    fn drop(&mut self) {
        if let Some(thread) = self.0.take() {
            let _ = thread.join(); // whatever it found, nobody wants it
        }
    }
}

/// Positions of the CPU reference unless told: its cache grows, so only attention's cost speaks against more.
fn cpu<'a>(gguf: &'a Gguf, plan: Plan, options: &Options) -> Result<Box<dyn Runner + 'a>> {
    let n_ctx = options.n_ctx.filter(|&n| n > 0).map_or(plan.n_ctx_train, |n| n as usize);
    let runner = Reference::new(gguf, plan, n_ctx, options.n_seqs as usize, options.max_rows as usize);
    Ok(Box::new(runner))
}
