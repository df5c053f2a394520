//! `pumex quantize IN [OUT] TYPE [THREADS]`, `pumex split IN OUT` and `pumex merge FIRST OUT`: model files from model files.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use pumex_gguf::imatrix::Imatrix;
use pumex_gguf::{type_name, Error, Gguf, Result, Value};
use pumex_model::quantize;
use pumex_model::quantize::{recipe, Options, Parts, Plan};
use serde_json::json;

use super::help::expected_one_of;
use super::{files, output, session, CommandEnd};

/// Options of `quantize`.
#[derive(clap::Args)]
#[command(after_help = types_help())]
pub struct Args {
    /// IN.gguf [OUT.gguf] TYPE [THREADS]; OUT is ggml-model-TYPE.gguf beside IN unless given
    #[arg(value_name = "FILES AND TYPE", required = true, num_args = 2..=4)]
    positional: Vec<String>,
    /// Importance matrix (GGUF or the older format): errors of important columns count more
    #[arg(long, value_name = "FILE")]
    imatrix: Option<PathBuf>,
    /// Use the matrix only for tensors whose name holds TEXT
    #[arg(long, value_name = "TEXT", conflicts_with = "exclude_weights")]
    include_weights: Vec<String>,
    /// Do not use the matrix for tensors whose name holds TEXT
    #[arg(long, value_name = "TEXT")]
    exclude_weights: Vec<String>,
    /// The type itself for every tensor, without the recipe's exceptions
    #[arg(long)]
    pure: bool,
    /// A type for tensors whose name the pattern matches; may come often, the first match counts
    #[arg(long, value_name = "PATTERN=TYPE")]
    tensor_type: Vec<String>,
    /// A file of such PATTERN=TYPE, separated by white space
    #[arg(long, value_name = "FILE")]
    tensor_type_file: Option<PathBuf>,
    /// Type of token_embd.weight
    #[arg(long, value_name = "TYPE")]
    token_embedding_type: Option<String>,
    /// Type of output.weight
    #[arg(long, value_name = "TYPE")]
    output_tensor_type: Option<String>,
    /// Leave output.weight as it is
    #[arg(long)]
    leave_output_tensor: bool,
    /// Quantize tensors that are quantized already; more is lost than from the original
    #[arg(long)]
    allow_requantize: bool,
    /// Code NaN and infinite weights as 0 and count them, instead of stopping
    #[arg(long)]
    allow_nonfinite: bool,
    /// Set metadata: KEY=int:1, KEY=float:0.5, KEY=bool:true or KEY=str:text
    #[arg(long, value_name = "KEY=TYPE:VALUE")]
    override_kv: Vec<String>,
    /// Write as many files as the input has
    #[arg(long)]
    keep_split: bool,
    /// Leave out these layers
    #[arg(long, value_name = "N,N,...", value_delimiter = ',')]
    prune_layers: Vec<usize>,
    /// Only print the table of tensors, types and sizes
    #[arg(long)]
    dry_run: bool,
    /// Threads; 0 takes all cores
    #[arg(short, long, value_name = "N", default_value_t = 0)]
    threads: usize,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Options of `split`.
#[derive(clap::Args)]
pub struct SplitArgs {
    /// The file to split
    input: PathBuf,
    /// OUT-00001-of-0000N.gguf and so on are written
    output: PathBuf,
    /// Most tensors in each file
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = positive)]
    split_max_tensors: usize,
    /// Most bytes of data in each file, as 300M or 2G
    #[arg(long, value_name = "SIZE", conflicts_with = "split_max_tensors")]
    split_max_size: Option<String>,
    /// Only print the table of tensors and files
    #[arg(long)]
    dry_run: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Options of `merge`.
#[derive(clap::Args)]
pub struct MergeArgs {
    /// The first file of the set
    input: PathBuf,
    /// The file to write
    output: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

fn positive(text: &str) -> std::result::Result<usize, String> {
    text.parse().ok().filter(|n| *n > 0).ok_or_else(|| "expected a number of at least 1".into())
}

fn types_help() -> String {
    let rows = recipe::RECIPES.iter().map(|r| format!("  {:<10} {}\n", r.name, r.about));
    format!("Types:\n{}  COPY       every tensor as it is", rows.collect::<String>())
}

fn usage<T>(what: String) -> Result<T> {
    Err(Error::Usage(what))
}

fn format_id(flag: &str, name: &str) -> Result<pumex_quant::FormatId> {
    match quantize::format_named(name) {
        Some(format) => Ok(format.id),
        None => {
            let names: Vec<&str> = pumex_quant::FORMATS.iter().map(|f| f.name).collect();
            usage(format!("{flag}: {}, found {name}", expected_one_of(name, &names)))
        }
    }
}

fn pattern(text: &str) -> Result<(regex::Regex, pumex_quant::FormatId)> {
    let Some((pattern, name)) = text.rsplit_once('=') else {
        return usage(format!("--tensor-type: expected PATTERN=TYPE, found {text}"));
    };
    let regex = regex::Regex::new(pattern).map_err(|e| Error::Usage(format!("--tensor-type {pattern}: {e}")))?;
    Ok((regex, format_id("--tensor-type", name)?))
}

fn override_of(text: &str) -> Result<(String, Value)> {
    let parsed = text.split_once('=').and_then(|(key, rest)| {
        let (kind, value) = rest.split_once(':')?;
        let value = match kind {
            "int" => value.parse().ok().map(Value::I64)?,
            "float" => value.parse().ok().map(Value::F64)?,
            "bool" => value.parse().ok().map(Value::Bool)?,
            "str" => Value::Str(value.as_bytes().to_vec()),
            _ => return None,
        };
        Some((key.to_string(), value))
    });
    // Readers ask for 32 bits where 32 bits do.
    let parsed = parsed.map(|(key, value)| match value {
        Value::I64(v) => (key, u32::try_from(v).map_or(Value::I64(v), Value::U32)),
        Value::F64(v) => (key, Value::F32(v as f32)),
        other => (key, other),
    });
    parsed.map_or_else(|| usage(format!("--override-kv: expected KEY=int|float|bool|str:VALUE, found {text}")), Ok)
}

/// Input, output, recipe (none: copy) and threads of the positional arguments.
fn positional(args: &Args) -> Result<(PathBuf, PathBuf, Option<&'static recipe::Recipe>, usize)> {
    let mut words: Vec<&str> = args.positional.iter().map(String::as_str).collect();
    let mut threads = args.threads;
    let known = |name: &str| name.eq_ignore_ascii_case("COPY") || recipe::find(name).is_some();
    if let [.., kind, last] = words[..] {
        if let (true, Ok(n), true) = (words.len() > 2, last.parse(), known(kind)) {
            threads = n;
            words.pop();
        }
    }
    let Some(kind) = words.pop() else { return usage("expected IN [OUT] TYPE".into()) };
    if !known(kind) {
        let names: Vec<&str> = recipe::RECIPES.iter().map(|r| r.name).collect();
        return usage(format!("type: {}, COPY, found {kind}", expected_one_of(kind, &names)));
    }
    let found = recipe::find(kind);
    let (input, output) = match words[..] {
        [input] => {
            let name = format!("ggml-model-{}.gguf", found.map_or("COPY", |r| r.name));
            (PathBuf::from(input), Path::new(input).with_file_name(name))
        }
        [input, output] => (PathBuf::from(input), PathBuf::from(output)),
        _ => return usage(format!("expected IN [OUT] TYPE [THREADS], found {} arguments", args.positional.len())),
    };
    Ok((input, output, found, threads))
}

impl Args {
    /// Whether the matrix counts for a tensor.
    fn weighs(&self, name: &str) -> bool {
        let named = |list: &[String]| list.iter().any(|text| name.contains(text.as_str()));
        (self.include_weights.is_empty() || named(&self.include_weights)) && !named(&self.exclude_weights)
    }
}

/// Quantizes a file.
pub fn main(args: &Args, stop: &AtomicBool) -> Result<CommandEnd> {
    let (input, target, recipe, threads) = positional(args)?;
    let mut options = Options {
        recipe,
        pure: args.pure,
        leave_output: args.leave_output_tensor,
        allow_requantize: args.allow_requantize,
        allow_nonfinite: args.allow_nonfinite,
        prune_layers: args.prune_layers.clone(),
        parts: if args.keep_split { Parts::Kept } else { Parts::One },
        ..Options::default()
    };
    options.token_embedding =
        args.token_embedding_type.as_deref().map(|n| format_id("--token-embedding-type", n)).transpose()?;
    options.output = args.output_tensor_type.as_deref().map(|n| format_id("--output-tensor-type", n)).transpose()?;
    options.override_kv = args.override_kv.iter().map(|t| override_of(t)).collect::<Result<_>>()?;
    options.tensor_types = args.tensor_type.iter().map(|t| pattern(t)).collect::<Result<_>>()?;
    if let Some(path) = &args.tensor_type_file {
        let text = std::fs::read_to_string(path).map_err(|e| Error::io(path, e))?;
        for word in text.split_whitespace() {
            options.tensor_types.push(pattern(word)?);
        }
    }
    if let Some(path) = &args.imatrix {
        let mut imatrix = Imatrix::open(path)?;
        imatrix.entries.retain(|name, _| args.weighs(name));
        options.imatrix = Some((imatrix, path.clone()));
    }
    if threads > 0 && rayon::ThreadPoolBuilder::new().num_threads(threads).build_global().is_err() {
        tracing::warn!("--threads {threads} has no effect: threads are running already");
    }
    let gguf = Gguf::open(&input)?;
    let mut plan = Plan::new(&gguf, &options)?;
    if !options.prune_layers.is_empty() {
        let keys = pumex_model::pruning::check(&gguf, &options.prune_layers)?;
        if !keys.is_empty() {
            // What the user sets counts more, and comes later.
            options.override_kv.splice(0..0, keys);
            plan = Plan::new(&gguf, &options)?;
        }
    }
    for line in quantize::gaps(&gguf, &plan, &options, &|name| args.weighs(name)) {
        output::say(format_args!("warning: {line}\n"));
    }
    if args.dry_run {
        return table(&gguf, &plan, args.json);
    }
    convert(&gguf, &plan, &options, &target, args.json, stop)
}

/// Splits a file.
pub fn split(args: &SplitArgs, stop: &AtomicBool) -> Result<CommandEnd> {
    let parts = match &args.split_max_size {
        Some(text) => Parts::Bytes(size(text)?),
        None => Parts::Tensors(args.split_max_tensors),
    };
    let options = Options { parts, ..Options::default() };
    let gguf = Gguf::open(&args.input)?;
    let plan = Plan::new(&gguf, &options)?;
    if args.dry_run {
        return table(&gguf, &plan, args.json);
    }
    convert(&gguf, &plan, &options, &args.output, args.json, stop)
}

/// Merges a split set.
pub fn merge(args: &MergeArgs, stop: &AtomicBool) -> Result<CommandEnd> {
    let gguf = Gguf::open(&args.input)?;
    let options = Options::default();
    let plan = Plan::new(&gguf, &options)?;
    convert(&gguf, &plan, &options, &args.output, args.json, stop)
}

fn size(text: &str) -> Result<u64> {
    let (digits, unit) = text.split_at(text.len() - usize::from(text.ends_with(['M', 'G', 'm', 'g'])));
    let factor = match unit {
        "M" | "m" => 1_000_000,
        "G" | "g" => 1_000_000_000,
        _ => 1,
    };
    let bytes = digits.parse::<u64>().ok().filter(|n| *n > 0).and_then(|n| n.checked_mul(factor));
    bytes.map_or_else(|| usage(format!("--split-max-size: expected a size as 300M or 2G, found {text}")), Ok)
}

/// Prints what would be written.
fn table(gguf: &Gguf, plan: &Plan, as_json: bool) -> Result<CommandEnd> {
    let count = plan.parts.len();
    let row = |part: usize, job: &quantize::Job| {
        let dims: Vec<String> = job.entry.dims.iter().map(u64::to_string).collect();
        json!({
            "name": job.entry.name, "dims": job.entry.dims, "shape": dims.join(" x "), "from": type_name(job.from),
            "to": type_name(job.entry.type_id), "bytes": job.entry.len_bytes, "file": part, "note": job.note,
        })
    };
    let rows: Vec<_> =
        plan.parts.iter().enumerate().flat_map(|(i, jobs)| jobs.iter().map(move |j| row(i, j))).collect();
    let sizes = json!({"bytes_in": plan.bytes_in(gguf), "bytes_out": plan.bytes_out(), "files": count});
    if as_json {
        output::json(&json!({"tensors": rows, "size": sizes}))?;
        return Ok(CommandEnd::Done);
    }
    let text = |v: &serde_json::Value| v.as_str().map_or_else(|| v.to_string(), String::from).replace("null", "");
    let keys = ["name", "shape", "from", "to", "bytes", "note"];
    let mut lines = vec![keys.map(String::from).to_vec()];
    lines.extend(rows.iter().map(|r| keys.iter().map(|k| text(&r[k])).collect()));
    output::text(&output::table(&lines, &[false, false, false, false, true]))?;
    output::text(&format!("{}\n", summary(plan.bytes_in(gguf), plan.bytes_out(), weights(gguf, plan))))?;
    Ok(CommandEnd::Done)
}

fn weights(gguf: &Gguf, plan: &Plan) -> u64 {
    plan.jobs().map(|j| gguf.tensors()[j.tensor].elements()).sum()
}

fn summary(bytes_in: u64, bytes_out: u64, weights: u64) -> String {
    let (mib, bits) = (|b: u64| b as f64 / f64::from(1 << 20), |b: u64| 8.0 * b as f64 / weights.max(1) as f64);
    let (from, to) = (mib(bytes_in), mib(bytes_out));
    format!("{from:.2} MiB ({:.2} bits per weight) -> {to:.2} MiB ({:.2})", bits(bytes_in), bits(bytes_out))
}

/// Writes the plan with a progress bar, and reports.
pub fn convert(
    gguf: &Gguf,
    plan: &Plan,
    options: &Options,
    target: &Path,
    as_json: bool,
    stop: &AtomicBool,
) -> Result<CommandEnd> {
    files::reads(gguf.path());
    (0..plan.parts.len()).try_for_each(|part| files::check(&quantize::part_path(target, part, plan.parts.len())))?;
    for job in plan.jobs() {
        if let Some(note) = &job.note {
            tracing::warn!("{}: {} instead: {note}", job.entry.name, type_name(job.entry.type_id));
        }
    }
    let bar = session::bar("writing", "{msg} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta} left");
    bar.set_length(plan.bytes_in(gguf));
    let begun = Instant::now();
    let report = quantize::write(gguf, plan, options, target, &mut |done| {
        bar.set_position(done);
        !stop.load(Ordering::Relaxed)
    });
    bar.finish_and_clear();
    let Some(report) = report? else { return Ok(CommandEnd::Interrupted) };
    if report.nonfinite > 0 {
        output::say(format_args!("warning: {} NaN or infinite weights were coded as 0\n", report.nonfinite));
    }
    let seconds = begun.elapsed().as_secs_f64();
    if as_json {
        let files: Vec<String> = (0..plan.parts.len())
            .map(|i| quantize::part_path(target, i, plan.parts.len()).display().to_string())
            .collect();
        output::json(&json!({"files": files, "report": report, "seconds": seconds}))?;
    } else {
        let line = summary(report.bytes_in, report.bytes_out, weights(gguf, plan));
        files::report_written(target, &format!("{}: {line} in {seconds:.2} s\n", target.display()))?;
    }
    Ok(CommandEnd::Done)
}
