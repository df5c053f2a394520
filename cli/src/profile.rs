//! `pumex profile`: where the time of a decode step goes, by kind of op and by layer, as tables, JSON or a page; or that of an encoder
//! of pictures.

mod encoder;
mod page;

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use pumex_engine as engine;
use pumex_engine::profile::{Cost, OnCpu, Profile, ProfileOptions, Roof, TimedRunner, FLAG_OVER};
use pumex_engine::{profile, ModelInfo};
use pumex_gguf::{Error, Result};

use super::adapters::AdapterArgs;
use super::bench::PictureArgs;
use super::options::{EngineArgs, SourceArgs};
use super::{files, output, session, CommandEnd};

/// Options of `profile`.
#[derive(clap::Args)]
#[command(mut_arg("batch_size", |arg| arg.short(None).hide(true)))]
pub struct Args {
    #[command(flatten)]
    model: SourceArgs,
    #[command(flatten)]
    adapters: AdapterArgs,
    #[command(flatten)]
    engine: EngineArgs,
    #[command(flatten)]
    pictures: PictureArgs,
    /// Rows of the step, of one sequence: 1 is a decode step, more a chunk of a prompt
    #[arg(short = 'b', long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    rows: u32,
    /// Sequences that the step has a row of each, whose ids are all wanted (-np), instead of rows of one
    #[arg(long, value_name = "N", conflicts_with = "rows", value_parser = clap::value_parser!(u32).range(1..))]
    parallel: Option<u32>,
    /// Tokens in the cache before the step
    #[arg(short, long, value_name = "N", default_value_t = 0)]
    depth: u32,
    /// Timed steps with and without stamps [default: 40 of up to 16 rows, else 6]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    repetitions: Option<u32>,
    /// Draw the id by the default sampler chain, instead of taking that of the largest logit
    #[arg(long)]
    draw: bool,
    /// Also print a line per layer
    #[arg(long)]
    layers: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Also write a page with a bar per layer, a roofline and all ops
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// What the step ran on.
#[derive(serde::Serialize)]
struct About {
    model: ModelInfo,
    device: String,
    cache_types: [&'static str; 2],
}

/// The JSON object.
#[derive(serde::Serialize)]
struct ProfileReport<'a> {
    #[serde(flatten)]
    about: &'a About,
    #[serde(flatten)]
    profile: &'a Profile,
}

/// Measures and prints.
pub fn main(args: &Args, stop: &AtomicBool) -> Result<CommandEnd> {
    if args.pictures.some() {
        return encoder::main(args);
    }
    let (rows, flag) = args.parallel.map_or((args.rows, "--rows"), |n| (n, "--parallel"));
    let n_ctx = args.depth.checked_add(rows);
    let n_ctx = n_ctx.ok_or_else(|| Error::Usage(format!("--depth {}: expected fewer positions", args.depth)))?;
    let most = args.engine.rows().max(args.engine.rows_with_room());
    if rows > most {
        let found = rows;
        return Err(Error::Usage(format!("{flag}: expected at most {most} (--ubatch-size), found {found}")));
    }
    let gguf = args.adapters.attach(session::open_source(&args.model)?)?;
    let page = args.html.as_deref().map(files::create).transpose()?;
    if pumex_model::plan(&gguf)?.encoder.is_some() {
        let what =
            "profile: expected a model whose steps are all alike, found one with an encoder; bench times its parts";
        return Err(Error::Usage(what.into()));
    }
    let model = engine::model_info(&gguf)?;
    let sequences = args.parallel.unwrap_or(1);
    let room = session::SequenceRoom { n_ctx, n_seqs: sequences };
    let (mut runner, roof): (Box<dyn TimedRunner + '_>, Roof) = match engine::device(&args.engine.options(None))? {
        Some(device) => {
            // Before the weights take the memory it needs.
            let roof = Roof::gpu(engine::bandwidth::load_or_measure(&device)?);
            (Box::new(session::load_vulkan(&gguf, device, &args.engine, room, stop)?), roof)
        }
        None => {
            let runner = session::load_cpu(&gguf, &args.engine, room, stop)?;
            let roof = Roof::cpu(runner.rates(rows as usize));
            (Box::new(OnCpu { runner, cache_types: args.engine.options(None).cache_types() }), roof)
        }
    };
    if runner.runner().max_rows() < rows as usize {
        let (most, found) = (runner.runner().max_rows(), rows);
        return Err(Error::Usage(format!(
            "{flag}: expected at most {most} on this device (--ubatch-size) with this vocabulary, found {found}"
        )));
    }
    let usual = if rows <= 16 { 40 } else { 6 };
    let repetitions = args.repetitions.unwrap_or(usual) as usize;
    let parallel = args.parallel.is_some();
    let (rows, depth) = (rows as usize, args.depth as usize);
    let options = ProfileOptions { rows, depth, repetitions, draw: args.draw, parallel };
    let bar = session::bar("profile", "{msg} {wide_bar} {pos}/{len}");
    let found = profile::measure(&mut *runner, options, roof, stop, &mut |done, of| {
        bar.set_length(of as u64);
        bar.set_position(done as u64);
    });
    bar.finish_and_clear();
    let Some(profile) = found? else { return Ok(CommandEnd::Interrupted) };
    let (k, v) = runner.cache_types();
    let about = About { model, device: runner.runner().device(), cache_types: [k.name(), v.name()] };
    if let Some(mut file) = page {
        file.write(page::html(&about, &profile).as_bytes())?;
        file.finish()?;
    }
    if args.json {
        output::json(&ProfileReport { about: &about, profile: &profile })?;
    } else {
        output::text(&text(&about, &profile, args.layers))?;
    }
    Ok(CommandEnd::Done)
}

/// What stands above the tables, in lines.
fn head(about: &About, p: &Profile) -> Vec<String> {
    let rows = if p.rows == 1 { "1 row".to_string() } else { format!("{} rows", p.rows) };
    let rows = if p.parallel { format!("{rows}, each of its own sequence,") } else { rows };
    let flagged = p.ops.iter().filter(|op| op.cost.over_floor).count();
    let mb = |bytes: u64| bytes as f64 / 1e6;
    let bandwidth = p.roof.bandwidth;
    let rate = |c: profile::Compute| {
        format!("; multiply-adds of floats reach {:.0} GFLOP/s, of bytes {:.0} Gop/s", c.floats / 1e9, c.bytes / 1e9)
    };
    let instructions = p.roof.compute.map_or(String::new(), rate);
    let floor = if p.roof.compute.is_some() {
        "bytes at the read's speed or multiply-adds"
    } else {
        "bytes at the read's speed"
    };
    let start = if p.roof.compute.is_some() { "to start an op" } else { "a dispatch" };
    let mut lines = vec![
        format!("{} on {}", about.model.description, about.device),
        format!("{rows} at depth {}, cache {} and {}", p.depth, about.cache_types[0], about.cache_types[1]),
        format!("memory reads at {:.1} GB/s, copies at {:.1}{instructions}", bandwidth.read / 1e9, bandwidth.copy / 1e9),
        format!(
            "step {:.1} us for {:.1} MB (weights {:.1}, cache {:.1}, activations {:.1}): {:.1} GB/s, {:.1} % of the read, {:.1} Gop/s",
            p.token_us,
            mb(p.cost.bytes),
            mb(p.parts.weights),
            mb(p.parts.cache),
            mb(p.parts.activations),
            p.cost.gb_per_s,
            100.0 * p.cost.share,
            p.cost.gflop_per_s
        ),
        format!(
            "ops {:.1} us, {:.1} % of the step; with {} stamps it took {:.1} us, so up to {:.2} us are off every op",
            p.ops_us,
            100.0 * p.ops_us / p.token_us,
            p.ops.len(),
            p.stamped_us,
            p.stamp_us
        ),
        format!(
            "{flagged} of {} ops took over {FLAG_OVER} times their floor (!): {floor}, {:.1} us {start}",
            p.ops.len(),
            p.roof.start_us
        ),
    ];
    if let Some(us) = p.megakernel_us {
        lines.insert(
            4,
            format!("with products that follow each other in one dispatch, as decoding does it: {us:.1} us"),
        );
    }
    lines
}

const COST: [&str; 7] = ["us", "MB", "GB/s", "share", "Gop/s", "floor us", "x floor"];

fn cells(c: &Cost) -> [String; 7] {
    [
        format!("{:.1}", c.us),
        format!("{:.2}", c.bytes as f64 / 1e6),
        format!("{:.1}", c.gb_per_s),
        format!("{:.1} %", 100.0 * c.share),
        format!("{:.1}", c.gflop_per_s),
        format!("{:.1}", c.floor_us),
        format!("{:.1}{}", c.times_floor, if c.over_floor { "!" } else { " " }),
    ]
}

/// Heading and lines of the table by kind of op.
fn kinds(p: &Profile) -> Vec<Vec<String>> {
    let mut rows = vec![["op", "types", "count"].iter().chain(&COST).map(ToString::to_string).collect::<Vec<_>>()];
    for k in &p.kinds {
        rows.push([k.op.clone(), k.types.clone(), k.count.to_string()].into_iter().chain(cells(&k.cost)).collect());
    }
    rows
}

/// Heading and lines of the table by layer.
fn layers(p: &Profile) -> Vec<Vec<String>> {
    let mut rows = vec![["layer"].iter().chain(&COST).map(ToString::to_string).collect::<Vec<_>>()];
    rows.extend(p.layers.iter().map(|l| std::iter::once(l.layer.clone()).chain(cells(&l.cost)).collect()));
    rows
}

fn text(about: &About, p: &Profile, with_layers: bool) -> String {
    let mut out = head(about, p).join("\n") + "\n\n";
    out += &output::table(&kinds(p), &[&[false, false][..], &[true; 8]].concat());
    if with_layers {
        out += "\n";
        out += &output::table(&layers(p), &[&[false][..], &[true; 7]].concat());
    }
    out
}
