//! How a request's ids are chosen: its fields over the server's, with llama.cpp's names, ranges and listing.

use pumex_dialogue::vocabulary;
use pumex_serve::engine::{Generate, Prompt, PromptPart, Refusal, Sampling};
use pumex_step::sample::{SamplerOptions, Step, MAX_LOGPROBS};
use pumex_text::Tokenizer;
use serde_json::{json, Value};
use std::sync::Arc;

use super::refusal::invalid;

/// Texts that end repetitions for DRY where nobody says.
const BREAKERS: [&str; 4] = ["\n", ":", "\"", "*"];

fn number(value: Option<f32>, usual: f32, field: &str, holds: impl Fn(f32) -> bool) -> Result<f32, Refusal> {
    match value {
        None => Ok(usual),
        Some(x) if x.is_finite() && holds(x) => Ok(x),
        Some(x) => Err(invalid(field, format!("{field}: {x} is out of range"))),
    }
}

fn order(names: &[String]) -> Vec<Step> {
    if let [letters] = names {
        if let Ok(steps) = Step::from_names(letters).or_else(|_| Step::from_letters(letters)) {
            return steps;
        }
    }
    // As llama.cpp, which passes over names that are none, or none any more.
    names.iter().flat_map(|name| Step::from_names(name).unwrap_or_default()).collect()
}

fn biases(given: &[(PromptPart, f32)], tokenizer: &Tokenizer) -> Result<Vec<(u32, f32)>, Refusal> {
    let mut all = Vec::new();
    for (part, by) in given {
        if by.is_nan() || *by == f32::INFINITY {
            return Err(invalid("logit_bias", "logit_bias: expected finite numbers, or false".into()));
        }
        match part {
            PromptPart::Token(id) if (*id as usize) < tokenizer.n_vocab() => all.push((*id, *by)),
            // As llama.cpp, which passes over ids that are none.
            PromptPart::Token(_) | PromptPart::Medium(_) => {}
            PromptPart::Text(text) => {
                let ids = tokenizer.encode(text, false, false).map_err(|e| invalid("logit_bias", e.to_string()))?;
                all.extend(ids.into_iter().map(|id| (id, *by)));
            }
        }
    }
    Ok(all)
}

/// The chain of a request over the server's.
///
/// # Errors
/// Numbers out of their range, unknown names.
pub fn options(request: &Generate, usual: &SamplerOptions, tokenizer: &Tokenizer) -> Result<SamplerOptions, Refusal> {
    let s: &Sampling = &request.sampling;
    let (any, positive) = (|_: f32| true, |x: f32| x >= 0.0);
    let mut o = usual.clone();
    o.temperature = number(s.temperature, o.temperature, "temperature", any)?;
    o.dynatemp_range = number(s.dynatemp_range, o.dynatemp_range, "dynatemp_range", positive)?;
    o.dynatemp_exponent = number(s.dynatemp_exponent, o.dynatemp_exponent, "dynatemp_exponent", positive)?;
    o.top_k = s.top_k.unwrap_or(o.top_k);
    o.top_p = number(s.top_p, o.top_p, "top_p", any)?;
    o.min_p = number(s.min_p, o.min_p, "min_p", any)?;
    o.top_n_sigma = number(s.top_n_sigma, o.top_n_sigma, "top_n_sigma", any)?;
    o.typical_p = number(s.typical_p, o.typical_p, "typical_p", any)?;
    let share = |x: f32| (0.0..=1.0).contains(&x);
    o.xtc_probability = number(s.xtc_probability, o.xtc_probability, "xtc_probability", share)?;
    o.xtc_threshold = number(s.xtc_threshold, o.xtc_threshold, "xtc_threshold", share)?;
    let factor = |x: f32| x > 0.0 && (1.0 / x).is_finite();
    o.repeat_penalty = number(s.repeat_penalty, o.repeat_penalty, "repeat_penalty", factor)?;
    o.repeat_last_n = s.repeat_last_n.unwrap_or(o.repeat_last_n);
    if o.repeat_last_n < -1 {
        return Err(invalid("repeat_last_n", "repeat_last_n: expected at least -1".into()));
    }
    o.presence_penalty = number(s.presence_penalty, o.presence_penalty, "presence_penalty", any)?;
    o.frequency_penalty = number(s.frequency_penalty, o.frequency_penalty, "frequency_penalty", any)?;
    o.dry.multiplier = number(s.dry_multiplier, o.dry.multiplier, "dry_multiplier", any)?;
    o.dry.base = number(s.dry_base, o.dry.base, "dry_base", positive)?;
    let whole = |x: i32| u32::try_from(x).unwrap_or(0);
    o.dry.allowed_length = s.dry_allowed_length.map_or(o.dry.allowed_length, whole);
    o.dry.last_n = match s.dry_penalty_last_n {
        Some(-1) => u32::try_from(i32::MAX).unwrap_or(0),
        Some(n) if n >= 0 => whole(n),
        Some(_) => return Err(invalid("dry_penalty_last_n", "dry_penalty_last_n: expected at least -1".into())),
        None => o.dry.last_n,
    };
    if s.dry_sequence_breakers.as_ref().is_some_and(Vec::is_empty) {
        let what = "dry_sequence_breakers: expected a list of texts with at least one";
        return Err(invalid("dry_sequence_breakers", what.into()));
    }
    if o.dry.is_active() && (s.dry_sequence_breakers.is_some() || !usual.dry.is_active()) {
        let own = || BREAKERS.map(String::from).to_vec();
        let texts = s.dry_sequence_breakers.clone().unwrap_or_else(own);
        o.dry.breakers = Arc::new(vocabulary::breakers(&texts, tokenizer));
    }
    o.mirostat = s.mirostat.unwrap_or(o.mirostat);
    if o.mirostat > 2 {
        return Err(invalid("mirostat", format!("mirostat: expected 0, 1 or 2, found {}", o.mirostat)));
    }
    o.mirostat_tau = number(s.mirostat_tau, o.mirostat_tau, "mirostat_tau", positive)?;
    o.mirostat_eta = number(s.mirostat_eta, o.mirostat_eta, "mirostat_eta", positive)?;
    o.adaptive_target = number(s.adaptive_target, o.adaptive_target, "adaptive_target", any)?;
    o.adaptive_decay = number(s.adaptive_decay, o.adaptive_decay, "adaptive_decay", share)?;
    o.min_keep = s.min_keep.unwrap_or(o.min_keep);
    o.seed = s.seed.unwrap_or(o.seed);
    if let Some(names) = &s.samplers {
        o.order = order(names);
    }
    if o.order.contains(&Step::Infill) && o.words.is_none() {
        o.words = Some(Arc::new(vocabulary::words(tokenizer)));
    }
    o.bias.extend(biases(&s.logit_bias, tokenizer)?);
    match s.ignore_eos {
        Some(true) => o.banned.extend(vocabulary::ends(tokenizer)),
        Some(false) => o.banned.retain(|id| !tokenizer.is_end(*id)),
        None => {}
    }
    o.logprobs = request.logprobs.map(|n| n.min(MAX_LOGPROBS));
    Ok(o)
}

/// The chain of plain data over the defaults.
///
/// # Errors
/// As `options`.
pub fn of_plain(sampling: &Sampling, tokenizer: &Tokenizer) -> pumex_gguf::Result<SamplerOptions> {
    let request = Generate { sampling: sampling.clone(), ..Generate::new(Prompt::Parts(Vec::new())) };
    options(&request, &SamplerOptions::default(), tokenizer)
        .map_err(|refusal| pumex_gguf::Error::Request(refusal.message))
}

/// A chain under llama.cpp's names.
pub fn describe_chain(o: &SamplerOptions, seed: u64) -> Value {
    let names: Vec<&str> =
        o.order.iter().filter_map(|step| Step::ALL.iter().find(|s| s.0 == *step)).map(|s| s.1).collect();
    let bias: Vec<Value> = o
        .bias
        .iter()
        .map(|(id, by)| json!({ "token": id, "bias": by }))
        .chain(o.banned.iter().map(|id| json!({ "token": id, "bias": null })))
        .collect();
    json!({
        "seed": seed, "temperature": o.temperature, "dynatemp_range": o.dynatemp_range,
        "dynatemp_exponent": o.dynatemp_exponent, "top_k": o.top_k, "top_p": o.top_p, "min_p": o.min_p,
        "top_n_sigma": o.top_n_sigma, "xtc_probability": o.xtc_probability, "xtc_threshold": o.xtc_threshold,
        "typical_p": o.typical_p, "repeat_last_n": o.repeat_last_n, "repeat_penalty": o.repeat_penalty,
        "presence_penalty": o.presence_penalty, "frequency_penalty": o.frequency_penalty,
        "dry_multiplier": o.dry.multiplier, "dry_base": o.dry.base, "dry_allowed_length": o.dry.allowed_length,
        "dry_penalty_last_n": o.dry.last_n, "mirostat": o.mirostat, "mirostat_tau": o.mirostat_tau,
        "mirostat_eta": o.mirostat_eta, "adaptive_target": o.adaptive_target, "adaptive_decay": o.adaptive_decay,
        "min_keep": o.min_keep, "ignore_eos": !o.banned.is_empty(), "logit_bias": bias, "samplers": names,
        "n_probs": o.logprobs.unwrap_or(0),
    })
}
