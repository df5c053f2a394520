//! `/metrics`: Prometheus' text, under llama.cpp's, vLLM's and OpenTelemetry's names.

use crate::engine::{Adapter, Holder, Metrics};
use crate::errors::{unsupported, Result};
use crate::http::App;
use crate::latency::{Histogram, Times};
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{header, HeaderValue};
use axum::response::Response;
use std::fmt::Write;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::UNIX_EPOCH;

/// What the scrape before this one saw: two gauges are of the time between.
#[derive(Debug, Default)]
pub(crate) struct Before(Mutex<Vec<(String, Metrics)>>);

/// One series and its help.
struct Series {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    value: f64,
}

/// Models whose last scrape is kept.
const MODELS: usize = 1024;

/// All counters and gauges.
pub(crate) async fn metrics(State(app): State<Arc<App>>, request: Request) -> Result<Response> {
    if !app.settings.metrics {
        return Err(unsupported("This server does not support metrics endpoint. Start it with `--metrics`"));
    }
    let asked = crate::http::query(&request, "model");
    let model = app.find_loaded(asked.as_deref());
    let name = model.as_ref().map(|m| m.properties().name.clone());
    let adapters = model.as_ref().map(|m| m.adapters(&Holder::default())).unwrap_or_default();
    let now = match model {
        Some(model) => model.metrics(),
        None => app.engine.past(asked.as_deref()),
    };
    let name = name.or(asked).unwrap_or_default();
    let before = {
        let mut scraped = app.scraped.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = scraped.iter_mut().find(|(model, _)| *model == name).map(|(_, before)| before);
        match known {
            Some(before) => std::mem::replace(before, now.clone()),
            None => {
                // There are no more names than models, but for those that requests make up.
                if scraped.len() < MODELS {
                    scraped.push((name.clone(), now.clone()));
                }
                Metrics::default()
            }
        }
    };
    let mut text = String::new();
    rows(&now, &before, app.counts.panics.load(Ordering::Relaxed)).iter().for_each(|row| row.write(&mut text, &name));
    if !now.draft_accepted_at.is_empty() {
        by_position(&mut text, &now);
    }
    write_adapters(&mut text, &adapters);
    histograms(&mut text, &app.latencies.snapshot(), &name);
    let started = app.started.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    process(started).iter().for_each(|row| row.write(&mut text, ""));
    let mut response = Response::new(Body::from(text));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; version=0.0.4"));
    response.headers_mut().insert("process-start-time-unix", HeaderValue::from(started));
    Ok(response)
}

impl Series {
    /// vLLM's series carry the model's name.
    fn write(&self, text: &mut String, model: &str) {
        let Series { name, kind, help, value } = self;
        let label = if name.starts_with("vllm:") {
            format!("{{model_name=\"{}\"}}", escape_label(model))
        } else {
            String::new()
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name}{label} {value}");
    }
}

fn escape_label(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Writes which adapters are at work, in vLLM's form for routers; the value is the time.
fn write_adapters(text: &mut String, adapters: &[Adapter]) {
    if adapters.is_empty() {
        return;
    }
    let stem = |adapter: &Adapter| {
        let stem = std::path::Path::new(&adapter.path).file_stem().map(|stem| stem.to_string_lossy().into_owned());
        stem.unwrap_or_default()
    };
    let running: Vec<String> = adapters.iter().filter(|adapter| adapter.scale != 0.0).map(stem).collect();
    let (name, most, running) = ("vllm:lora_requests_info", adapters.len(), escape_label(&running.join(",")));
    let labels = format!("max_lora=\"{most}\",running_lora_adapters=\"{running}\",waiting_lora_adapters=\"\"");
    let now = std::time::SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64());
    let help = "Adapters that have an effect where requests name none.";
    // Writing to a string cannot fail.
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge\n{name}{{{labels}}} {now}");
}

fn share(part: f64, whole: f64) -> f64 {
    match whole > 0.0 {
        true => part / whole,
        false => 0.0,
    }
}

fn rows(now: &Metrics, before: &Metrics, panics: u64) -> Vec<Series> {
    // An engine that came up again counts from 0.
    let since = |now: u64, before: u64| now.saturating_sub(before) as f64;
    let spent = |now: f64, before: f64| (now - before).max(0.0);
    let prompt_rate =
        share(since(now.prompt_tokens, before.prompt_tokens), spent(now.prompt_seconds, before.prompt_seconds));
    let predicted_rate = share(
        since(now.predicted_tokens, before.predicted_tokens),
        spent(now.predicted_seconds, before.predicted_seconds),
    );
    let used = share(now.blocks_used as f64, now.blocks_total as f64);
    let n = |n: u64| n as f64;
    let counter = |name, help, value| Series { name, kind: "counter", help, value };
    let gauge = |name, help, value| Series { name, kind: "gauge", help, value };
    vec![
        counter("llamacpp:prompt_tokens_total", "Prompt tokens that were computed.", n(now.prompt_tokens)),
        counter(
            "llamacpp:prompt_tokens_cached_total",
            "Prompt tokens that were found in the cache.",
            n(now.prompt_tokens_cached),
        ),
        counter("llamacpp:prompt_seconds_total", "Time of prompts in seconds.", now.prompt_seconds),
        counter("llamacpp:tokens_predicted_total", "Tokens that were generated.", n(now.predicted_tokens)),
        counter("llamacpp:tokens_predicted_seconds_total", "Time of generation in seconds.", now.predicted_seconds),
        counter("llamacpp:n_decode_total", "Steps of the model.", n(now.steps)),
        counter("llamacpp:n_tokens_max", "Most positions that a sequence held.", n(now.n_tokens_max)),
        counter("llamacpp:spec_decode_num_drafts_total", "Drafts.", n(now.drafts)),
        counter("llamacpp:spec_decode_num_draft_tokens_total", "Tokens that drafts proposed.", n(now.draft_tokens)),
        counter(
            "llamacpp:spec_decode_num_accepted_tokens_total",
            "Of these, tokens that stood.",
            n(now.draft_accepted),
        ),
        gauge("llamacpp:prompt_tokens_seconds", "Prompt tokens a second since the last scrape.", prompt_rate),
        gauge("llamacpp:predicted_tokens_seconds", "Generated tokens a second since the last scrape.", predicted_rate),
        gauge("llamacpp:requests_processing", "Requests at work.", n(now.requests_running)),
        gauge("llamacpp:requests_deferred", "Requests in the queue.", n(now.requests_waiting)),
        gauge(
            "llamacpp:n_busy_slots_per_decode",
            "Sequences at work per step.",
            share(n(now.busy_slot_steps), n(now.steps)),
        ),
        gauge("vllm:num_requests_waiting", "Requests in the queue.", n(now.requests_waiting)),
        gauge("vllm:num_requests_running", "Requests at work.", n(now.requests_running)),
        gauge("vllm:kv_cache_usage_perc", "Share of the cache's blocks that running requests hold, from 0 to 1.", used),
        counter(
            "vllm:prompt_tokens_total",
            "Prompt tokens, computed or cached.",
            n(now.prompt_tokens + now.prompt_tokens_cached),
        ),
        counter("vllm:generation_tokens_total", "Tokens that were generated.", n(now.predicted_tokens)),
        counter("vllm:num_preemptions_total", "Requests that had to make room.", n(now.preemptions)),
        counter(
            "vllm:prefix_cache_queries_total",
            "Prompt tokens that were looked for in the cache.",
            n(now.prompt_tokens + now.prompt_tokens_cached),
        ),
        counter("vllm:prefix_cache_hits_total", "Of these, tokens that were found.", n(now.prompt_tokens_cached)),
        counter("pumex:requests_done_total", "Requests that ended well.", n(now.requests_done)),
        counter("pumex:requests_cancelled_total", "Requests whose client went away.", n(now.requests_cancelled)),
        counter("pumex:requests_failed_total", "Requests that failed.", n(now.requests_failed)),
        counter("pumex:requests_refused_total", "Requests that found the queue full.", n(now.requests_refused)),
        counter("pumex:step_seconds_total", "Time of the model's steps in seconds.", now.step_seconds),
        counter("pumex:handler_panics_total", "Requests at which the server itself failed.", n(panics)),
        gauge("pumex:blocks_used", "Blocks of the cache that running requests hold.", n(now.blocks_used)),
        gauge("pumex:blocks_cached", "Blocks that are kept for prompts to come.", n(now.blocks_cached)),
        gauge("pumex:blocks_total", "Blocks of the cache.", n(now.blocks_total)),
    ]
}

/// What the process takes, under the names of Prometheus' own clients, as far as the system tells.
fn process(started: u64) -> Vec<Series> {
    let gauge = |name, help, value| Series { name, kind: "gauge", help, value };
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let of = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
        line.split_whitespace().next()?.parse::<f64>().ok()
    };
    let files = std::fs::read_dir("/proc/self/fd").ok().map(|files| files.count() as f64);
    let kib = |key| of(key).map(|kib| 1024.0 * kib);
    let all = [
        ("process_start_time_seconds", "Seconds since 1970 at its start.", Some(started as f64)),
        ("process_resident_memory_bytes", "Memory that the process holds.", kib("VmRSS")),
        ("process_anonymous_memory_bytes", "Of it, what no file stands behind.", kib("RssAnon")),
        ("process_virtual_memory_bytes", "Addresses that the process takes.", kib("VmSize")),
        ("process_open_fds", "Files and sockets that are open.", files),
        ("process_threads", "Threads.", of("Threads")),
    ];
    all.into_iter().filter_map(|(name, help, value)| Some(gauge(name, help, value?))).collect()
}

fn by_position(text: &mut String, now: &Metrics) {
    let name = "llamacpp:spec_decode_num_accepted_tokens_per_pos_total";
    let _ = writeln!(text, "# HELP {name} Draft tokens that stood, by position.\n# TYPE {name} counter");
    for (position, count) in now.draft_accepted_at.iter().enumerate() {
        let _ = writeln!(text, "{name}{{position=\"{position}\"}} {count}");
    }
}

/// Each under the name that vLLM's dashboards look for, and under OpenTelemetry's where that has one.
fn histograms(text: &mut String, times: &Times, model: &str) {
    let vllm = format!("model_name=\"{}\"", escape_label(model));
    let otel = format!(
        "gen_ai_request_model=\"{}\",gen_ai_operation_name=\"chat\",gen_ai_provider_name=\"pumex\"",
        escape_label(model)
    );
    let all = [
        ("vllm:time_to_first_token_seconds", &vllm, &times.first_token, "Time to the first token in seconds."),
        ("vllm:inter_token_latency_seconds", &vllm, &times.between_tokens, "Time between tokens in seconds."),
        ("vllm:time_per_output_token_seconds", &vllm, &times.between_tokens, "Time between tokens in seconds."),
        ("vllm:e2e_request_latency_seconds", &vllm, &times.whole, "Time of a whole answer in seconds."),
        ("vllm:request_queue_time_seconds", &vllm, &times.queued, "Time in the queue in seconds."),
        ("gen_ai_server_time_to_first_token_seconds", &otel, &times.first_token, "Time to the first token in seconds."),
        (
            "gen_ai_server_time_per_output_token_seconds",
            &otel,
            &times.between_tokens,
            "Time between tokens in seconds.",
        ),
        ("gen_ai_server_request_duration_seconds", &otel, &times.whole, "Time of a whole answer in seconds."),
    ];
    for (name, labels, histogram, help) in all {
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} histogram");
        write_histogram(text, name, labels, histogram);
    }
}

fn write_histogram(text: &mut String, name: &str, labels: &str, histogram: &Histogram) {
    let mut below = 0;
    for (i, count) in histogram.counts.iter().enumerate() {
        below += count;
        let bound = histogram.bounds.get(i).map_or("+Inf".to_string(), f64::to_string);
        let _ = writeln!(text, "{name}_bucket{{{labels},le=\"{bound}\"}} {below}");
    }
    let _ = writeln!(text, "{name}_sum{{{labels}}} {}\n{name}_count{{{labels}}} {below}", histogram.sum);
}
