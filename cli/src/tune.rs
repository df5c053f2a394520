//! `pumex tune`: measures which shapes of kernels are fastest for a model on a device, and keeps them for later runs.

use pumex_engine as engine;
use pumex_engine::tune::{name, Found, Report, Search, WaysReport};
use pumex_engine::{tune, Options};
use pumex_gguf::{Error, Gguf, Result};
use pumex_vk::Device;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::options::{EngineArgs, SourceArgs};
use super::{output, session, CommandEnd};

/// Seconds that `--auto` takes at most.
const AUTO_SECONDS: u64 = 20;

/// Options of `tune`.
#[derive(clap::Args)]
#[command(mut_arg("batch_size", |arg| arg.short(None).hide(true)))]
pub struct Args {
    #[command(flatten)]
    model: SourceArgs,
    #[command(flatten)]
    engine: EngineArgs,
    /// Seconds to look for at most
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// Rows of the steps that are tuned: 1 is decoding, 8 a few users or drafts, 16 more of them
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "1,8", value_parser = rows)]
    rows: Vec<usize>,
    /// Start from one plain shape for all, as on a device that no table is for
    #[arg(long)]
    blind: bool,
    /// Leave kernels as they are, and find shapes alone
    #[arg(long)]
    shapes_only: bool,
    /// Keep nothing
    #[arg(long)]
    dry_run: bool,
    /// Forget what was kept for the device, and look for nothing
    #[arg(long, conflicts_with_all = ["dry_run", "blind", "rows", "seconds", "shapes_only"])]
    forget: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

fn rows(text: &str) -> std::result::Result<usize, String> {
    match text.parse() {
        Ok(rows @ (1 | 8 | 16)) => Ok(rows),
        _ => Err("expected 1, 8 or 16".into()),
    }
}

/// Measures, prints and keeps.
pub fn main(args: &Args, stop: &AtomicBool) -> Result<CommandEnd> {
    let options = args.engine.options(None);
    let Some(device) = engine::device(&options)? else {
        return Err(Error::Usage("tune: expected a Vulkan device, found the CPU, whose kernels have one shape".into()));
    };
    if args.forget {
        tune::forget(device.caps());
        return Ok(CommandEnd::Done);
    }
    let gguf = session::open_source(&args.model)?;
    let search = Search {
        rows: args.rows.clone(),
        most: Duration::from_secs(args.seconds),
        blind: args.blind,
        ways: !args.shapes_only,
    };
    let Some(found) = search_shapes(&gguf, &device, &options, &search, stop)? else {
        return Ok(CommandEnd::Interrupted);
    };
    if !args.dry_run {
        tune::keep(device.caps(), &name(&gguf), &found)?;
    }
    if args.json {
        output::json(&serde_json::json!({ "device": device.caps().name, "steps": found.steps, "ways": found.ways }))?;
    } else {
        let ways = found.ways.as_ref().map(ways_text).unwrap_or_default();
        output::text(&(found.steps.iter().map(text).collect::<String>() + &ways))?;
    }
    Ok(CommandEnd::Done)
}

/// Tunes a device for a model that it was not tuned for yet, with `--auto`.
///
/// # Errors
/// As of a load.
pub fn auto(gguf: &Gguf, device: &Device, options: &Options, stop: &AtomicBool) -> Result<()> {
    if tune::knows(device.caps(), &name(gguf)) {
        return Ok(());
    }
    output::say(format_args!("tuning {} for this model, up to {AUTO_SECONDS} s, once\n", device.caps().name));
    let search = Search { most: Duration::from_secs(AUTO_SECONDS), ..Search::default() };
    match search_shapes(gguf, device, options, &search, stop)? {
        Some(found) => tune::keep(device.caps(), &name(gguf), &found),
        None => Ok(()),
    }
}

fn search_shapes(
    gguf: &Gguf,
    device: &Device,
    options: &Options,
    search: &Search,
    stop: &AtomicBool,
) -> Result<Option<Found>> {
    let bar = session::bar("tuning", "{msg} {wide_bar} {pos}/{len}");
    let found = tune::tune(gguf, device.clone(), options, search, stop, &mut |done, of| {
        bar.set_length(of as u64);
        bar.set_position(done as u64);
    });
    bar.finish_and_clear();
    found
}

fn text(report: &Report) -> String {
    let heads = ["product", "kernel", "outputs", "inputs", "us", "tuned us", "threads", "rows", "per core"];
    let mut table = vec![heads.map(String::from).to_vec()];
    for choice in &report.choices {
        let p = &choice.product;
        let shape = choice.shape.map_or(["", "", ""].map(String::from), |s| {
            let groups = s.per_core.map_or("all".into(), |n| n.to_string());
            [s.threads.to_string(), s.rows.to_string(), groups]
        });
        let what = format!("{}{}", p.format, if p.gated { ", gated" } else { "" });
        let [us, tuned] = choice.us.map(|us| format!("{us:.1}"));
        let row = [what, p.kernel.clone(), p.outputs.to_string(), p.inputs.to_string(), us, tuned];
        table.push(row.into_iter().chain(shape).collect());
    }
    let [by_table, before, after] = report.step_us;
    let rows = if report.rows == 1 { "1 row".to_string() } else { format!("{} rows", report.rows) };
    let wrong = match report.wrong {
        0 => String::new(),
        n => format!("; {n} shapes gave other logits and were left out"),
    };
    let end = format!(
        "step of {rows}: {by_table:.1} us by the table (scatter {:.1} %), {before:.1} before, {after:.1} tuned: {}{}{wrong}\n",
        100.0 * report.scatter,
        if report.kept { "kept" } else { "no gain, left as it was" },
        if report.cut { ", though time ran out" } else { "" },
    );
    output::table(&table, &[false, false, true, true, true, true, true, true, true]) + &end
}

fn ways_text(report: &WaysReport) -> String {
    let prompt = format!("us, {} rows", report.rows);
    let mut table = vec![["kernels", prompt.as_str(), "us, 1 row", ""].map(String::from).to_vec()];
    for tried in &report.tried {
        let [prompt, one] = tried.us.map(|us| format!("{us:.1}"));
        let wrong = if tried.wrong { "other logits, left out" } else { "" };
        table.push(vec![tried.way.told(), prompt, one, wrong.into()]);
    }
    let kept = report.kept.as_ref().map_or("no gain, left as they were".into(), |way| format!("kept {}", way.told()));
    let cut = if report.cut { ", though time ran out" } else { "" };
    output::table(&table, &[false, true, true, false]) + &format!("kernels: {kept}{cut}\n")
}
