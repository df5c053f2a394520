//! The forms of bench results: llama-bench's Markdown table, JSON, JSON lines and CSV.
//!
//! Fields and their order are llama-bench's, so that scripts written for it read these. Takes what is measured, gives
//! text for stdout, one piece per test.

use std::time::{SystemTime, UNIX_EPOCH};

use pumex_engine::{CacheType, ModelInfo};
use pumex_gguf::Gguf;
use pumex_step::Runner;
use serde_json::{json, Value};

use super::super::options::Switch;
use super::{Args, BenchResult, ResultFormat, Test};

/// What all tests share.
#[derive(Default)]
pub struct About {
    fields: Vec<(&'static str, Value)>,
    model: String,
    size: f64,
    params: f64,
    cpu: bool,
    /// Whether some tests are of a picture.
    pictures: bool,
}

impl About {
    /// Collects the fields before the tests' own.
    pub fn new(args: &Args, gguf: &Gguf, info: &ModelInfo, runner: &dyn Runner) -> Self {
        let e = &args.engine;
        // Auto may have chosen the CPU, which has no queues to submit to and counts nothing.
        let cpu = e.is_cpu() || runner.device().to_ascii_lowercase().starts_with("cpu");
        let gpu = if cpu { String::new() } else { runner.device() };
        let (layers, reads) = (
            gguf.meta().opt_u32(&format!("{}.block_count", gguf.meta().arch().unwrap_or_default())),
            args.model.model.access(),
        );
        let (n_cpu_moe, overrides) = e.placement_text(layers.ok().flatten().unwrap_or(0) as usize);
        let load_mode = match (reads.read, reads.lock) {
            (false, false) => "mmap",
            (false, true) => "mmap+mlock",
            (true, true) => "mlock",
            (true, false) => "none",
        };
        let (mut k, mut v) = e.options(None).cache_types();
        if runner.device().starts_with("CPU reference") {
            (k, v) = (e.cache_type_k.unwrap_or(CacheType::F32), e.cache_type_v.unwrap_or(CacheType::F32));
        }
        let fields = vec![
            ("build_commit", json!(commit())),
            ("build_number", json!(0)),
            ("cpu_info", json!(cpu_name())),
            ("gpu_info", json!(gpu)),
            ("backends", json!(if cpu { "CPU" } else { "Vulkan" })),
            ("model_filename", json!(gguf.path().display().to_string())),
            ("model_type", json!(info.description)),
            ("model_size", json!(info.size_bytes)),
            ("model_n_params", json!(info.n_params)),
            ("n_batch", json!(e.batch_size)),
            ("n_ubatch", json!(e.ubatch_size.map_or(runner.max_rows(), |rows| rows as usize))),
            ("n_threads", json!(e.cpu_threads())),
            ("cpu_mask", json!(e.mask_text())),
            ("cpu_strict", json!(e.cpu_strict.unwrap_or(0) != 0)),
            ("poll", json!(e.poll.unwrap_or(0))),
            ("type_k", json!(k.name())),
            ("type_v", json!(v.name())),
            ("n_gpu_layers", e.gpu_layers.0.map_or(json!(-1), |n| json!(n))),
            ("n_cpu_moe", json!(n_cpu_moe)),
            ("split_mode", json!("none")),
            ("main_gpu", json!(0)),
            ("no_kv_offload", json!(false)),
            ("flash_attn", json!(e.flash_attn != Switch::Off)),
            ("devices", json!(e.device)),
            ("tensor_split", json!("0.00")),
            ("tensor_buft_overrides", json!(overrides)),
            ("load_mode", json!(load_mode)),
            ("lazy_mode", json!(false)),
            ("embeddings", json!(false)),
            ("no_op_offload", json!(0)),
            ("no_host", json!(false)),
            ("repack", json!(cpu && e.repacks())),
            ("fit_target", json!(0)),
            ("fit_min_ctx", json!(0)),
        ];
        About {
            fields,
            model: info.description.clone(),
            size: info.size_bytes as f64,
            params: info.n_params as f64,
            cpu,
            pictures: args.pictures.some(),
        }
    }

    fn get(&self, name: &str) -> String {
        self.fields.iter().find(|(key, _)| *key == name).map(|(_, value)| plain(value)).unwrap_or_default()
    }
}

/// Turns measurements into text.
pub struct Printer {
    form: ResultFormat,
    about: About,
    printed: usize,
    /// Columns that the table has whatever their values are.
    listed: Vec<&'static str>,
}

impl Printer {
    /// Nothing is printed yet.
    pub fn new(form: ResultFormat, listed: Vec<&'static str>) -> Self {
        Printer { form, about: About::default(), printed: 0, listed }
    }

    /// What the next tests share.
    pub fn take(&mut self, about: About) {
        self.about = about;
    }

    /// The text for one test, with what goes before the first.
    pub fn result(&mut self, measured: &BenchResult) -> String {
        let first = self.printed == 0;
        self.printed += 1;
        match self.form {
            ResultFormat::Md => self.table(measured, first),
            ResultFormat::Csv => {
                let fields = self.fields(measured, false);
                let line = |cells: Vec<String>| cells.join(",") + "\n";
                let head =
                    if first { line(fields.iter().map(|(k, _)| k.to_string()).collect()) } else { String::new() };
                head + &line(fields.iter().map(|(_, v)| quote_csv(&plain(v))).collect())
            }
            ResultFormat::Jsonl => object(&self.fields(measured, true), ", ", "") + "\n",
            ResultFormat::Json => {
                let object = object(&self.fields(measured, true), ",\n    ", "\n    ");
                format!("{}  {object}", if first { "[\n" } else { ",\n" })
            }
        }
    }

    /// What goes after the last test.
    pub fn end(&self) -> String {
        match self.form {
            ResultFormat::Md => format!("\nbuild: {} (0)\n", commit()),
            ResultFormat::Json if self.printed == 0 => "[]\n".into(),
            ResultFormat::Json => "\n]\n".into(),
            ResultFormat::Csv | ResultFormat::Jsonl => String::new(),
        }
    }

    fn fields(&self, measured: &BenchResult, samples: bool) -> Vec<(&'static str, Value)> {
        let ns: Vec<f64> = measured.samples_ns.iter().map(|&ns| ns as f64).collect();
        let ts = speeds(measured);
        let ((avg_ns, dev_ns), (avg_ts, dev_ts)) = (mean_and_deviation(&ns), mean_and_deviation(&ts));
        let mut out = self.about.fields.clone();
        out.extend([
            ("n_prompt", json!(measured.test.n_prompt)),
            ("n_gen", json!(measured.test.n_gen)),
            ("n_depth", json!(measured.test.n_depth)),
        ]);
        out.extend(self.about.pictures.then(|| ("picture", json!(measured.picture.clone().unwrap_or_default()))));
        out.extend([
            ("test_time", json!(measured.time)),
            ("avg_ns", json!(avg_ns.round() as u64)),
            ("stddev_ns", json!(dev_ns.round() as u64)),
            ("avg_ts", json!(avg_ts)),
            ("stddev_ts", json!(dev_ts)),
        ]);
        if samples {
            out.push(("samples_ns", json!(measured.samples_ns)));
            out.push(("samples_ts", json!(ts)));
        }
        out
    }

    fn table(&self, measured: &BenchResult, first: bool) -> String {
        let a = &self.about;
        let (mean, deviation) = mean_and_deviation(&speeds(measured));
        // Heading, cell, width, whether left-aligned.
        let mut columns = vec![
            ("model", a.model.clone(), 30, true),
            ("size", size(a.size), 10, false),
            ("params", params(a.params), 10, false),
            ("backend", a.get("backends"), 10, true),
        ];
        columns.push(if a.cpu {
            ("threads", a.get("n_threads"), 7, false)
        } else {
            ("ngl", a.get("n_gpu_layers"), 3, false)
        });
        for (name, usual, width) in
            [("n_batch", "2048", 7), ("n_ubatch", "512", 8), ("type_k", "f16", 6), ("type_v", "f16", 6)]
        {
            if a.get(name) != usual || self.listed.contains(&name) {
                columns.push((name, a.get(name), width, false));
            }
        }
        for (name, width) in [("n_cpu_moe", 9), ("devices", 12)] {
            if self.listed.contains(&name) {
                columns.push((name, a.get(name), width, false));
            }
        }
        columns.push(("test", measured.picture.clone().unwrap_or_else(|| name(measured.test)), 15, false));
        columns.push(("t/s", format!("{mean:.2} ± {deviation:.2}"), 20, false));
        let mut out = String::new();
        if first {
            for (head, _, width, left) in &columns {
                out += &pad(head, *width, *left);
            }
            out += "|\n";
            for (_, _, width, left) in &columns {
                out += &if *left {
                    format!("| {} ", "-".repeat(*width))
                } else {
                    format!("| {}: ", "-".repeat(width - 1))
                };
            }
            out += "|\n";
        }
        for (_, cell, width, left) in &columns {
            out += &pad(cell, *width, *left);
        }
        out + "|\n"
    }
}

fn pad(cell: &str, width: usize, left: bool) -> String {
    if left {
        format!("| {cell:<width$} ")
    } else {
        format!("| {cell:>width$} ")
    }
}

fn name(test: Test) -> String {
    let what = match (test.n_prompt, test.n_gen) {
        (n_prompt, 0) => format!("pp{n_prompt}"),
        (0, n_gen) => format!("tg{n_gen}"),
        (n_prompt, n_gen) => format!("pp{n_prompt}+tg{n_gen}"),
    };
    if test.n_depth > 0 {
        format!("{what} @ d{}", test.n_depth)
    } else {
        what
    }
}

fn size(bytes: f64) -> String {
    const MIB: f64 = 1024.0 * 1024.0;
    if bytes < 1024.0 * MIB {
        format!("{:.2} MiB", bytes / MIB)
    } else {
        format!("{:.2} GiB", bytes / (1024.0 * MIB))
    }
}

fn params(n: f64) -> String {
    if n < 1e9 {
        format!("{:.2} M", n / 1e6)
    } else {
        format!("{:.2} B", n / 1e9)
    }
}

/// Tokens per second of each sample.
fn speeds(measured: &BenchResult) -> Vec<f64> {
    let tokens = f64::from(measured.test.n_prompt + measured.test.n_gen);
    measured.samples_ns.iter().map(|&ns| tokens * 1e9 / ns.max(1) as f64).collect()
}

fn mean_and_deviation(samples: &[f64]) -> (f64, f64) {
    let n = samples.len() as f64;
    let mean = samples.iter().sum::<f64>() / n;
    if samples.len() < 2 {
        return (mean, 0.0);
    }
    let squares: f64 = samples.iter().map(|x| (x - mean).powi(2)).sum();
    (mean, (squares / (n - 1.0)).sqrt())
}

/// A JSON object with the fields in their order, which a map of serde_json would sort.
fn object(fields: &[(&str, Value)], between: &str, around: &str) -> String {
    let inner: Vec<String> = fields.iter().map(|(key, value)| format!("\"{key}\": {value}")).collect();
    let close = if around.is_empty() { "}" } else { "\n  }" };
    format!("{{{around}{}{close}", inner.join(between))
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn quote_csv(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}

fn commit() -> &'static str {
    option_env!("PUMEX_COMMIT").unwrap_or(concat!("v", env!("CARGO_PKG_VERSION")))
}

fn cpu_name() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("model name"));
    line.and_then(|line| line.split_once(':'))
        .map_or_else(|| std::env::consts::ARCH.to_string(), |(_, v)| v.trim().to_string())
}

/// The time now as `2026-01-31T23:59:59Z`.
pub fn now() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let (mut days, second) = (seconds / 86_400, seconds % 86_400);
    let mut year = 1970;
    let leap = |y: u64| y.is_multiple_of(4) && (!y.is_multiple_of(100) || y.is_multiple_of(400));
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let february = 28 + u64::from(leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    let (hour, minute) = (second / 3600, second / 60 % 60);
    format!("{year}-{month:02}-{:02}T{hour:02}:{minute:02}:{:02}Z", days + 1, second % 60)
}
