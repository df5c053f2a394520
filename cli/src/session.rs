//! From a model option to what runs: the opened file, its tokenizer and a runner.
//!
//! Without a model given the built-in demo model is used. Loading shows a bar on stderr when that is a terminal.

use std::sync::atomic::AtomicBool;
use std::time::Instant;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use pumex_engine as engine;
use pumex_engine::cpu::Fast;
use pumex_engine::VulkanRunner;
use pumex_gguf::{Error, Gguf, Result};
use pumex_model::quantize::recipe;
use pumex_step::Runner;
use pumex_vk::Device;

use super::options::{EngineArgs, ModelArgs, SourceArgs};
use super::preparing::KernelBar;
use super::{fetch, ollama_sidecar, output, signals, tune};

/// Model data must lie as aligned in the program as it does in a mapped file.
#[repr(C, align(64))]
struct PromptStart<T: ?Sized>(T);

/// What the model is that nobody asked for, and how to get another.
pub const DEMO_NOTE: &str =
    "note: no model given, so this is the small built-in one, which continues old English prose; \
                         for a real one: -hf ggml-org/gemma-3-1b-it-GGUF (downloads it), or -m FILE.gguf";

static DEMO: &PromptStart<[u8]> = &PromptStart(*include_bytes!("../../assets/demo.gguf"));

/// The file that `args` names, or the demo model.
///
/// # Errors
/// A file that is missing or not GGUF.
pub fn open(args: &ModelArgs) -> Result<Gguf> {
    let begun = Instant::now();
    let gguf = match fetch::model(args)? {
        Some(path) => ollama_sidecar::apply(Gguf::open_with(&path, args.access())?),
        None => {
            output::say(format_args!("{DEMO_NOTE}\n"));
            demo()?
        }
    };
    let gguf = args.facts.apply(gguf)?;
    tracing::info!("load: header, {:.0} ms", begun.elapsed().as_secs_f64() * 1e3);
    for warning in gguf.warnings() {
        tracing::warn!("{}: {warning}", gguf.path().display());
    }
    Ok(gguf)
}

/// The demo model.
///
/// # Errors
/// None that is known.
pub fn demo() -> Result<Gguf> {
    Gguf::from_static("demo.gguf", &DEMO.0)
}

/// The file that `args` names, the synthetic model, or the demo model.
///
/// # Errors
/// As for [`open`].
pub fn open_source(args: &SourceArgs) -> Result<Gguf> {
    let Some(shape) = args.synthetic else { return open(&args.model) };
    let usual = || recipe::find("Q4_K_M").ok_or_else(|| Error::Usage("--type: expected a type".into()));
    shape.model(args.weight_type.map_or_else(usual, Ok)?)
}

/// Loads the model onto its device, with one sequence of `n_ctx` positions.
///
/// # Errors
/// A model or device that does not fit.
pub fn load<'a>(
    gguf: &'a Gguf,
    args: &EngineArgs,
    n_ctx: Option<u32>,
    stop: &AtomicBool,
) -> Result<Box<dyn Runner + 'a>> {
    use_threads(args);
    load_on(gguf, device(args)?, args, n_ctx, stop)
}

/// The device that `args` means, opened; none for the CPU.
///
/// # Errors
/// No such device, or one that cannot run models.
pub fn device(args: &EngineArgs) -> Result<Option<Device>> {
    // A new device shows first that it computes as it should, by kernels that are compiled for it.
    let _bar = KernelBar::new(&MultiProgress::new());
    engine::device(&args.options(None))
}

/// Loads a model as [`load`] does, on what [`device`] gave and after [`use_threads`].
///
/// # Errors
/// As for [`load`].
pub fn load_on<'a>(
    gguf: &'a Gguf,
    device: Option<Device>,
    args: &EngineArgs,
    n_ctx: Option<u32>,
    stop: &AtomicBool,
) -> Result<Box<dyn Runner + 'a>> {
    let begun = Instant::now();
    let options = args.options(n_ctx);
    let device = match device {
        Some(device) if args.auto => Some(tune_device(gguf, device, args, stop)?),
        device => device,
    };
    let runner = loading(stop, |progress| engine::load_on(gguf, device, &options, progress))?;
    report_load(&*runner, begun);
    Ok(runner)
}

/// Finds the shapes that are best for the model on its device, as `--auto` wants it, if these are not known yet.
///
/// # Errors
/// No such device; as of a load.
pub fn tune(gguf: &Gguf, args: &EngineArgs) -> Result<()> {
    let options = args.options(None);
    match engine::device(&options)? {
        Some(device) => tune::auto(gguf, &device, &options, &AtomicBool::new(false)),
        None => Ok(()),
    }
}

/// A device with the shapes that are best for the model, as `--auto` wants it.
fn tune_device(gguf: &Gguf, device: Device, args: &EngineArgs, stop: &AtomicBool) -> Result<Device> {
    tune::auto(gguf, &device, &args.options(None), stop)?;
    Ok(engine::tune::applied(device))
}

fn report_load(runner: &dyn Runner, begun: Instant) {
    tracing::info!("running on {}, loaded in {:.3} s", runner.device(), begun.elapsed().as_secs_f64());
}

/// What sequences a runner has room for.
#[derive(Clone, Copy, Debug)]
pub struct SequenceRoom {
    /// Positions of each.
    pub n_ctx: u32,
    /// How many sequences.
    pub n_seqs: u32,
}

/// Loads a model as [`load`] does, onto a Vulkan device that is open already.
///
/// # Errors
/// As for [`load`].
pub fn load_vulkan(
    gguf: &Gguf,
    device: Device,
    args: &EngineArgs,
    room: SequenceRoom,
    stop: &AtomicBool,
) -> Result<VulkanRunner> {
    use_threads(args);
    let device = if args.auto { tune_device(gguf, device, args, stop)? } else { device };
    let options = engine::Options { n_seqs: room.n_seqs, ..args.options(Some(room.n_ctx)) };
    loading(stop, |progress| engine::load_vulkan(gguf, device, &options, progress))
}

/// Loads a model as [`load`] does, for the CPU's fast interpreter.
///
/// # Errors
/// As for [`load`], and options that mean the reference.
pub fn load_cpu<'a>(gguf: &'a Gguf, args: &EngineArgs, room: SequenceRoom, stop: &AtomicBool) -> Result<Fast<'a>> {
    use_threads(args);
    let options = engine::Options { n_seqs: room.n_seqs, ..args.options(Some(room.n_ctx)) };
    loading(stop, |_| engine::load_cpu(gguf, &options))
}

/// Takes as many threads as asked for; before anything else uses some.
pub fn use_threads(args: &EngineArgs) {
    if let Ok(threads @ 1..) = usize::try_from(args.threads) {
        // Fails only when something used the pool before: slower or faster, but no reason to stop.
        if let Err(error) = rayon::ThreadPoolBuilder::new().num_threads(threads).build_global() {
            tracing::debug!("--threads {threads}: files are read by other threads: {error}");
        }
    }
}

/// What `load` gives, with a bar.
fn loading<T>(stop: &AtomicBool, load: impl FnOnce(engine::Progress<'_>) -> Result<T>) -> Result<T> {
    let bars = MultiProgress::new();
    let bar = bar_among(&bars, "loading", "{msg} {wide_bar} {bytes}/{total_bytes}");
    let kernels = KernelBar::new(&bars);
    let end = || {
        bar.finish_and_clear();
        signals::code()
    };
    let loaded = signals::at_once(stop, &end, |_| {
        load(&mut |done, total| {
            bar.set_length(total);
            bar.set_position(done);
        })
    });
    drop(kernels);
    bar.finish_and_clear();
    loaded
}

/// A progress bar on stderr; it stays hidden when that is no terminal.
pub fn bar(message: &'static str, template: &str) -> ProgressBar {
    style(ProgressBar::new(0), message, template)
}

/// A progress bar below others, which is not there before it has something to say.
pub fn bar_among(bars: &MultiProgress, message: &'static str, template: &str) -> ProgressBar {
    let hidden = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::hidden());
    bars.add(style(hidden, message, template))
}

fn style(bar: ProgressBar, message: &'static str, template: &str) -> ProgressBar {
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.set_message(message);
    bar
}
