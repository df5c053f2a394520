//! `pumex explain`: what a step would run on a device, which need not be there: ops, the dispatches they become, and their bytes.

use pumex_dialogue::projector::{MediaOptions, Projector};
use pumex_engine as engine;
use pumex_gguf::{Error, Gguf, Result};
use pumex_lower::dump::{explain, DispatchText, DryRun, Explained};
use pumex_lower::policy;
use pumex_lower::policy::devices;
use pumex_model as model;
use pumex_vk as vk;
use pumex_vk::{Caps, Select};
use std::path::{Path, PathBuf};

use super::options::{EngineArgs, SourceArgs};
use super::{media, output, session, CommandEnd};

/// Options of `explain`.
#[derive(clap::Args)]
#[command(mut_arg("batch_size", |arg| arg.short(None).hide(true)))]
pub struct Args {
    #[command(flatten)]
    model: SourceArgs,
    #[command(flatten)]
    engine: EngineArgs,
    /// A device that need not be there, in place of --device: a file that `pumex devices --json` wrote, or a short name
    #[arg(long, alias = "as", value_name = "FILE|NAME")]
    profile: Option<String>,
    /// Rows of the step, of one sequence: 1 is a decode step, more a chunk of a prompt
    #[arg(short = 'b', long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=4096))]
    rows: u32,
    /// Sequences that the step has a row of each (-np), instead of rows of one
    #[arg(long, value_name = "N", conflicts_with = "rows", value_parser = clap::value_parser!(u32).range(1..=4096))]
    parallel: Option<u32>,
    /// Tokens in the cache before the step
    #[arg(short, long, value_name = "N", default_value_t = 0)]
    depth: u32,
    /// The rows are those of a source, which the model's encoder sees
    #[arg(long)]
    source: bool,
    /// Projector of pictures and sounds (-mm): its encoder's ops instead of a step's; with --fit, what it takes beside the model
    #[arg(long, value_name = "FILE", conflicts_with_all = ["rows", "depth", "source"])]
    mmproj: Option<PathBuf>,
    /// Picture whose encoder is shown [default: a white one of the projector's size]
    #[arg(long, value_name = "FILE", requires = "mmproj", conflicts_with = "fit")]
    image: Option<PathBuf>,
    /// Sound whose encoder is shown
    #[arg(long, value_name = "FILE", requires = "mmproj", conflicts_with_all = ["fit", "image"])]
    audio: Option<PathBuf>,
    /// Show what the model would take of the device's memory and where, and which context fits (-c, -np), instead of a step
    #[arg(long, conflicts_with_all = ["rows", "depth", "source"])]
    fit: bool,
    /// Positions that a sequence is to have (with --fit) [default: the model's, or as many as fit]
    #[arg(short, long, value_name = "N", requires = "fit")]
    ctx_size: Option<u32>,
    /// Print one JSON object, with constants and push constants
    #[arg(long)]
    json: bool,
}

/// A device of a short name, or of a file.
fn profile(name: &str) -> Result<Caps> {
    if let Some(caps) = devices::find(name) {
        return Ok(caps);
    }
    let file = Path::new(name);
    let text = std::fs::read_to_string(file).map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => {
            let names: Vec<&str> = devices::names().collect();
            Error::Usage(format!("--profile {name}: expected a file or one of {}", names.join(", ")))
        }
        _ => Error::io(file, e),
    })?;
    devices::parse(&text, file).map(policy::as_used)
}

/// The device whose choices are shown.
fn caps(args: &Args) -> Result<Caps> {
    if let Some(name) = &args.profile {
        return profile(name);
    }
    let mut list = vk::list()?;
    let select = match args.engine.device.to_ascii_lowercase().as_str() {
        "cpu" => {
            let what =
                "explain: expected a Vulkan device, found the CPU, which has no dispatches; --profile h200 needs no device";
            return Err(Error::Usage(what.into()));
        }
        "auto" | "vulkan" => Select::Any,
        name => name.parse().map_or_else(|_| Select::Name(name.to_string()), Select::Index),
    };
    let (index, _) = vk::choose(&list, &select)?;
    let caps = policy::as_used(list.swap_remove(index));
    Ok(Caps { tuned: engine::tune::known(&caps), ..caps })
}

/// Prints what would run.
pub fn main(args: &Args) -> Result<CommandEnd> {
    if let Some(mmproj) = args.mmproj.as_ref().filter(|_| !args.fit) {
        return encoder(mmproj, args);
    }
    let gguf = session::open_source(&args.model)?;
    let caps = args.engine.options(None).mask_capabilities(caps(args)?);
    if args.fit {
        return fit(&gguf, &caps, args);
    }
    let plan = model::plan(&gguf)?;
    if args.source && plan.encoder.is_none() {
        return Err(Error::Usage("--source: expected a model with an encoder, found none".into()));
    }
    let rows = args.parallel.unwrap_or(args.rows) as usize;
    let explained = explain(&DryRun {
        plan: &plan,
        caps: &caps,
        rows,
        decode_batch: args.parallel.is_some(),
        outputs: args.parallel.map_or(1, |n| n as usize),
        cache_types: args.engine.options(None).cache_types(),
        source: args.source,
        len: args.depth as usize + args.parallel.map_or(rows, |_| 1),
    })?;
    if args.json {
        output::json(&serde_json::json!({ "device": caps.name, "step": explained }))?;
    } else {
        output::text(&as_text(&caps, &explained))?;
    }
    Ok(CommandEnd::Done)
}

/// A projector whose encoder runs on no device here.
fn open_projector(path: &Path, args: &Args) -> Result<Projector> {
    let engine = engine::Options { device: engine::DeviceChoice::Cpu, ..engine::Options::default() };
    Projector::open(path, args.model.model.access(), MediaOptions::default(), &engine)
}

/// What an encoder would run.
fn encoder(mmproj: &Path, args: &Args) -> Result<CommandEnd> {
    let given = [(args.model.synthetic.is_some(), "--synthetic"), (args.model.model.model.is_some(), "--model")];
    if let Some((_, flag)) = given.into_iter().find(|(given, _)| *given) {
        let what = format!(
            "{flag}: expected --fit, or a projector alone, found --mmproj, whose encoder has no text model's step"
        );
        return Err(Error::Usage(what));
    }
    let projector = open_projector(mmproj, args)?;
    let file = match (&args.image, &args.audio) {
        (Some(path), _) => Some(media::read(path, true)?),
        (None, Some(path)) => Some(media::read(path, false)?),
        (None, None) => None,
    };
    let caps = args.engine.options(None).mask_capabilities(caps(args)?);
    let explained = projector.explain(file.as_ref(), &caps)?;
    match args.json {
        true => output::json(&serde_json::json!({ "device": caps.name, "encoder": explained }))?,
        false => output::text(&as_text(&caps, &explained))?,
    }
    Ok(CommandEnd::Done)
}

/// What the model would take of the device's memory.
fn fit(gguf: &Gguf, caps: &Caps, args: &Args) -> Result<CommandEnd> {
    let mut options = args.engine.options(args.ctx_size);
    options.n_seqs = args.parallel.unwrap_or(1);
    // As `run` and `serve` take the one beside the model.
    let beside = match &args.mmproj {
        Some(path) => Some(open_projector(path, args)?),
        None if model::plan(gguf)?.vector_limits().is_none() => None,
        None => media::find_projector(gguf.path())?.and_then(|path| open_projector(&path, args).ok()),
    };
    let encoder = beside.map(|projector| projector.device_bytes(Some(caps))).transpose()?;
    options.reserved_bytes = encoder.map_or(0, engine::EncoderBytes::all);
    let fit = engine::fit::fit(gguf, caps, &options)?;
    if args.json {
        output::json(&serde_json::json!({ "device": caps.name, "fit": fit }))?;
        return Ok(CommandEnd::Done);
    }
    let mut rows = vec![["what", "bytes", "where"].map(String::from).to_vec()];
    for share in fit.shares.iter().filter(|share| share.bytes > 0) {
        rows.push(vec![share.what.to_string(), share.bytes.to_string(), share.lies.clone()]);
    }
    let table = output::table(&rows, &[false, true]);
    let (taken, free) = (fit.at_start, fit.free);
    output::text(&format!(
        "device: {}\n{table}{taken} bytes once loaded, of {free} that are free\ncontext: {} positions; {} would fit\n",
        caps.name, fit.n_ctx, fit.longest
    ))?;
    Ok(CommandEnd::Done)
}

/// An op a line, and under it a line for each of its dispatches.
fn as_text(caps: &Caps, explained: &Explained) -> String {
    let mut out = format!("device: {}\n", caps.name);
    for (i, op) in explained.ops.iter().enumerate() {
        out += &format!("{op}\n");
        for d in explained.dispatches.iter().filter(|d| d.op == i) {
            out += &format!("    {}\n", line(d));
            out += &explain_choice(d).map_or(String::new(), |why| format!("        {why}\n"));
        }
    }
    let bytes: u64 = explained.dispatches.iter().map(|d| d.read_bytes).sum();
    let barriers = explained.dispatches.iter().filter(|d| d.barrier).count();
    let count = explained.dispatches.len();
    out + &format!("{count} dispatches, {barriers} barriers, {:.1} MiB read\n", bytes as f64 / f64::from(1 << 20))
}

/// The row that gave the kernel's shape, and why kernels before it were passed over.
fn explain_choice(d: &DispatchText) -> Option<String> {
    let taken = d.variants.iter().position(|v| v.passed_over.is_none())?;
    let row = d.variants[taken].row.as_ref().map(|(name, evidence)| format!("row \"{name}\" ({evidence})"));
    let passed =
        d.variants[..taken].iter().map(|v| format!("{}: {}", v.kernel, v.passed_over.as_deref().unwrap_or("")));
    let passed: Vec<String> = passed.collect();
    let passed = (!passed.is_empty()).then(|| format!("passed over: {}", passed.join("; ")));
    let parts: Vec<String> = row.into_iter().chain(passed).collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

fn line(d: &DispatchText) -> String {
    let constants: Vec<String> = d.constants.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let [x, y, z] = d.grid;
    let kib = |bytes: u64| format!("{:.1} KiB", bytes as f64 / 1024.0);
    let (read, written) = (kib(d.read_bytes), kib(d.written_bytes));
    let subgroup = d.subgroup.map_or(String::new(), |threads| format!(" subgroups of {threads}"));
    format!("{} [{x}, {y}, {z}] {}{subgroup} reads {read}, writes {written}", d.module, constants.join(" "))
}
