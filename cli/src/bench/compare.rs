//! `bench --compare`: the README's table for this machine, beside the figures that were published of others.
//!
//! Each model has its real shape and random weights. What does not fit the memory is left out, with a line that says so.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use pumex_gguf::{Error, Result};
use pumex_model::quantize::recipe;
use pumex_model::synthetic;
use serde_json::{json, Value};

use super::super::{doctor, output, session, CommandEnd};
use super::{once, Args, ResultFormat, Test};

/// Where published figures are from.
const H200: &str = "NVIDIA H200";
const ZEN4: &str = "two cores of a Zen 4";

/// A line of the table: a model, what it does, and tokens per second of llama.cpp 0.5.0 and of Pumex on another machine.
struct PublishedFigure {
    shape: &'static str,
    weights: &'static str,
    n_prompt: u32,
    machine: &'static str,
    llama_cpp: &'static str,
    pumex: &'static str,
}

const fn line(shape: &'static str, weights: &'static str, n_prompt: u32, of: [&'static str; 3]) -> PublishedFigure {
    PublishedFigure { shape, weights, n_prompt, machine: of[0], llama_cpp: of[1], pumex: of[2] }
}

/// Lines of one model and type stand together. All figures are those of benches/RECORD.md.
const LINES: &[PublishedFigure] = &[
    line("llama-1b", "Q4_K_M", 128, [ZEN4, "133.0", "267.5"]),
    line("llama-1b", "Q4_K_M", 0, [ZEN4, "35.3", "36.0"]),
    line("llama-1b", "IQ3_S", 0, [ZEN4, "12.4", "41.7"]),
    line("llama-8b", "Q4_K_M", 2048, [H200, "10,888", "21,289"]),
    line("llama-8b", "Q4_K_M", 0, [H200, "220.7", "635.7"]),
    line("qwen3-30b-a3b", "Q4_K_M", 2048, [H200, "10,735", "24,100"]),
    line("qwen3-30b-a3b", "Q4_K_M", 0, [H200, "221.7", "709.8"]),
    line("gpt-oss-20b", "Q4_K_M", 2048, [H200, "8,987", "30,167"]),
    line("gpt-oss-20b", "Q4_K_M", 0, [H200, "293.3", "524.3"]),
    line("gemma3-12b", "Q4_K_M", 2048, [H200, "6,411", "13,071"]),
    line("gemma3-12b", "Q4_K_M", 0, [H200, "116.9", "257.6"]),
    line("granite-4-h-small", "Q4_K_M", 2048, [H200, "4,077", "5,330"]),
    line("granite-4-h-small", "Q4_K_M", 0, [H200, "117.0", "292.4"]),
    line("mistral-small-24b", "Q4_K_M", 2048, [H200, "4,292", "7,045"]),
    line("mistral-small-24b", "Q4_K_M", 0, [H200, "109.5", "175.8"]),
];

/// Tokens of an answer that is timed first, to see how many more there is time for.
const FEW: u32 = 8;
/// Time of an answer.
const TIME: Duration = Duration::from_secs(5);

impl PublishedFigure {
    fn what(&self) -> String {
        match self.n_prompt {
            0 => "one answer".to_string(),
            n => format!("a prompt of {n}"),
        }
    }

    fn to_json(&self, here: Option<f64>) -> Value {
        json!({
            "model": format!("{} {}", self.shape, self.weights), "what": self.what(), "tokens_per_second": here,
            "published": { "machine": self.machine, "llama.cpp 0.5.0": self.llama_cpp, "pumex": self.pumex },
        })
    }
}

/// Measures all of it, or what `--synthetic` names.
pub fn main(args: &Args, stop: &AtomicBool) -> Result<CommandEnd> {
    let wanted = args.model.synthetic.map(|shape| shape.name);
    let named = |line: &&PublishedFigure| wanted.is_none_or(|name| name == line.shape);
    let lines: Vec<&PublishedFigure> = LINES.iter().filter(named).collect();
    if lines.is_empty() {
        let mut names: Vec<&str> = LINES.iter().map(|line| line.shape).collect();
        names.dedup();
        return Err(Error::Usage(format!("--compare: expected --synthetic with one of {}", names.join(", "))));
    }
    if !matches!(args.output, ResultFormat::Md | ResultFormat::Json) {
        return Err(Error::Usage("--compare: expected --output md or json".into()));
    }
    let (mut told, mut device, mut ended) = (Vec::new(), String::new(), false);
    for of in lines.chunk_by(|a, b| (a.shape, a.weights) == (b.shape, b.weights)) {
        let found = if ended { None } else { measure_model(args, of, &mut device, stop)? };
        ended |= found.as_ref().is_some_and(|found| found.len() < of.len());
        for (i, line) in of.iter().enumerate() {
            told.push((*line, found.as_ref().and_then(|found| found.get(i).copied())));
        }
    }
    if args.output == ResultFormat::Json {
        let rows: Vec<Value> = told.iter().map(|(line, here)| line.to_json(*here)).collect();
        output::json(&json!({ "device": device, "rows": rows }))?;
    } else {
        output::text(&table(&device, &told))?;
    }
    Ok(if ended { CommandEnd::Interrupted } else { CommandEnd::Done })
}

fn table(device: &str, told: &[(&PublishedFigure, Option<f64>)]) -> String {
    let mut text = format!(
        "Tokens per second here, on {device}, and as published of other machines (llama.cpp is 0.5.0)\n\n\
         | model | what | here | published of | llama.cpp | Pumex |\n|---|---|--:|---|--:|--:|\n"
    );
    for (line, here) in told {
        let here = here.map_or("-".to_string(), |rate| format!("{rate:.1}"));
        let PublishedFigure { shape, weights, machine, llama_cpp, pumex, .. } = line;
        let what = line.what();
        text += &format!("| {shape} {weights} | {what} | {here} | {machine} | {llama_cpp} | {pumex} |\n");
    }
    text
}

/// Tokens per second of a model's lines; fewer when stopped, none where it does not fit.
fn measure_model(
    args: &Args,
    lines: &[&PublishedFigure],
    device: &mut String,
    stop: &AtomicBool,
) -> Result<Option<Vec<f64>>> {
    let Some(first) = lines.first() else { return Ok(None) };
    let name = format!("{} {}", first.shape, first.weights);
    let unknown = || Error::Request(format!("--compare: {name}: there is no such model"));
    let shape = synthetic::find(first.shape).ok_or_else(unknown)?;
    let gguf = shape.model(recipe::find(first.weights).ok_or_else(unknown)?)?;
    // Weights, and room for what is computed beside them.
    let (needed, free) = (gguf.file_bytes() / 8 * 9, doctor::free_memory());
    let skipped = |why: &str| output::say(format_args!("note: {name} is left out: {why}\n"));
    if args.engine.is_cpu() && free.is_some_and(|free| free < needed) {
        skipped(&format!("it needs {} of {} free", output::bytes(needed), output::bytes(free.unwrap_or(0))));
        return Ok(None);
    }
    output::say(format_args!("measuring {name}\n"));
    let n_ctx = lines.iter().map(|line| line.n_prompt).max().unwrap_or(0).max(256);
    let mut runner = match session::load(&gguf, &args.engine, Some(n_ctx), stop) {
        Ok(runner) => runner,
        Err(error) => {
            skipped(&error.to_string());
            return Ok(None);
        }
    };
    *device = runner.device();
    let mut rates = Vec::new();
    for line in lines {
        let mut time = |n_prompt: u32, n_gen: u32, repetition: u32| {
            let test = Test { n_prompt, n_gen, n_depth: 0 };
            let taken = once(&mut *runner, test, (0, &mut 0), repetition, stop)?;
            Ok::<_, Error>(taken.map(|ns| f64::from(n_prompt + n_gen) / (ns.max(1) as f64 / 1e9)))
        };
        let rate = if line.n_prompt > 0 {
            // The first one builds pipelines.
            time(line.n_prompt, 0, 0)?.map_or(Ok(None), |_| time(line.n_prompt, 0, 1))?
        } else {
            match time(0, FEW, 0)?.map_or(Ok(None), |_| time(0, FEW, 1))? {
                Some(rate) => time(0, ((rate * TIME.as_secs_f64()) as u32).clamp(FEW, 128), 1)?,
                None => None,
            }
        };
        match rate {
            Some(rate) => rates.push(rate),
            None => break,
        }
    }
    Ok(Some(rates))
}
