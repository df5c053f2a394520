//! `pumex explain`: what a step would run on a device, which need not be there: ops, the dispatches they become, and their bytes.

use pumex::lower::dump::{explain, DispatchText, DryRun, Explained};
use pumex::policy::devices;
use pumex::vk::{self, Caps, Select};
use pumex::{model, Error, Result};

use super::options::{EngineArgs, SourceArgs};
use super::{output, session, End};

/// Options of `explain`.
#[derive(clap::Args)]
#[command(mut_arg("batch_size", |arg| arg.short(None).hide(true)))]
pub struct Args {
    #[command(flatten)]
    model: SourceArgs,
    #[command(flatten)]
    engine: EngineArgs,
    /// A device that need not be there, by a short name, in place of --device
    #[arg(long = "as", value_name = "NAME", value_parser = made_up)]
    made_up: Option<&'static str>,
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
    /// Print one JSON object, with constants and push constants
    #[arg(long)]
    json: bool,
}

fn made_up(name: &str) -> std::result::Result<&'static str, String> {
    let all = devices::all();
    let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
    let found = names.iter().copied().find(|known| *known == name);
    found.ok_or_else(|| format!("expected one of {}", names.join(", ")))
}

/// The device whose choices are shown.
fn caps(args: &Args) -> Result<Caps> {
    if let Some(name) = args.made_up {
        let found = devices::all().into_iter().find(|(known, _)| *known == name);
        return found.map(|(_, caps)| caps).ok_or_else(|| Error::Usage(format!("--as {name}: no such device")));
    }
    let mut list = vk::list()?;
    let select = match args.engine.device.to_ascii_lowercase().as_str() {
        "cpu" => {
            let what =
                "explain: expected a Vulkan device, found the CPU, which has no dispatches; --as h200 needs no device";
            return Err(Error::Usage(what.into()));
        }
        "auto" | "vulkan" => Select::Any,
        name => name.parse().map_or_else(|_| Select::Name(name.to_string()), Select::Index),
    };
    let (index, _) = vk::choose(&list, &select)?;
    Ok(list.swap_remove(index))
}

/// Prints what would run.
pub fn main(args: &Args) -> Result<End> {
    let gguf = session::open_source(&args.model)?;
    let (plan, caps) = (model::plan(&gguf)?, caps(args)?);
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
        cache_types: (args.engine.cache_type_k, args.engine.cache_type_v),
        source: args.source,
        len: args.depth as usize + args.parallel.map_or(rows, |_| 1),
    })?;
    if args.json {
        output::json(&serde_json::json!({ "device": caps.name, "step": explained }))?;
    } else {
        output::text(&as_text(&caps, &explained))?;
    }
    Ok(End::Done)
}

/// An op a line, and under it a line for each of its dispatches.
fn as_text(caps: &Caps, explained: &Explained) -> String {
    let mut out = format!("device: {}\n", caps.name);
    for (i, op) in explained.ops.iter().enumerate() {
        out += &format!("{op}\n");
        for d in explained.dispatches.iter().filter(|d| d.op == i) {
            out += &format!("    {}\n", line(d));
        }
    }
    let bytes: u64 = explained.dispatches.iter().map(|d| d.read_bytes).sum();
    let barriers = explained.dispatches.iter().filter(|d| d.barrier).count();
    let count = explained.dispatches.len();
    out + &format!("{count} dispatches, {barriers} barriers, {:.1} MiB read\n", bytes as f64 / f64::from(1 << 20))
}

fn line(d: &DispatchText) -> String {
    let constants: Vec<String> = d.constants.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let [x, y, z] = d.grid;
    let kib = |bytes: u64| format!("{:.1} KiB", bytes as f64 / 1024.0);
    let (read, written) = (kib(d.read_bytes), kib(d.written_bytes));
    format!("{} [{x}, {y}, {z}] {} reads {read}, writes {written}", d.module, constants.join(" "))
}
