//! Sample requests as words of StepParams, for the kernel that samples. Here stands which chains that kernel takes.

use crate::sample::{SampleRequest, SamplerOptions, Step};
use crate::step::{Row, RowOutput, Token};
use crate::{Error, Result};
use pumex_shaders::block::Block;
use pumex_shaders::step::request::{GREEDY, JOINS, LAST, MIN_P, TOP_P};
use pumex_shaders::step::SampleRequestWords;
use std::collections::BTreeMap;

/// Words of a request.
pub const REQUEST_WORDS: usize = SampleRequestWords::LAYOUT.len_bytes() / 4;
pub use crate::lower::MAX_K;
/// Most ids of a row that are banned or recent.
pub const MAX_IDS: usize = 1024;
/// Largest vocabulary: its parts must meet in one workgroup, also with the smallest parts there are.
pub const MAX_VOCAB: usize = 1 << 20;
/// Largest penalty: the sum of as many as there are recent ids stays finite.
const MAX_PENALTY: f32 = 1e30;

/// Why the kernel does not take a chain; none if it does. Everything else is sampled on the host, from logits.
pub fn refusal(o: &SamplerOptions, n_vocab: usize) -> Option<String> {
    let numbers = [o.temperature, o.top_p, o.min_p, o.repeat_penalty, o.frequency_penalty, o.presence_penalty];
    if n_vocab > MAX_VOCAB {
        return Some(format!("a vocabulary of {n_vocab} ids: at most {MAX_VOCAB} are sampled on the device"));
    }
    let own = [Step::Penalties, Step::TopK, Step::TopP, Step::MinP, Step::Temperature];
    let other = |step: &Step| if o.is_greedy() { *step == Step::Dry } else { !own.contains(step) };
    if let Some(reason) = o.needs_sampler() {
        return Some(reason.into());
    }
    if let Some(step) = o.active().find(other) {
        return Some(format!("the step {step:?} is the host's"));
    }
    let sets = o.top_p < 1.0 || o.min_p > 0.0;
    if !o.bias.is_empty() || !o.is_greedy() && (!o.keeps_order() || o.dynatemp_range > 0.0 || o.min_keep > 1 && sets) {
        return Some(
            "biases, other orders, dynamic temperature and a least number of candidates are the host's".into(),
        );
    }
    if numbers.iter().any(|x| !x.is_finite()) {
        return Some("an option of the sampler is infinite or no number".into());
    }
    if !o.is_greedy() && !usize::try_from(o.top_k).is_ok_and(|k| (1..=MAX_K).contains(&k)) {
        return Some(format!("top-k {}: from 1 to {MAX_K} are sampled on the device", o.top_k));
    }
    let mut ids = o.banned.len();
    if o.has_penalties() {
        if o.repeat_penalty <= 0.0 || o.frequency_penalty.abs().max(o.presence_penalty.abs()) > MAX_PENALTY {
            return Some(format!("penalties: a repeat penalty above 0, and none above {MAX_PENALTY:e}, on the device"));
        }
        match usize::try_from(o.repeat_last_n) {
            Ok(n) => ids = ids.saturating_add(n),
            Err(_) => {
                return Some("penalties of all ids so far: the device sees a limited number of recent ones".into())
            }
        }
    }
    (ids > MAX_IDS).then(|| format!("{ids} banned and recent ids: at most {MAX_IDS} are lowered on the device"))
}

/// A number in `[0, 1)` as a share of 2^32, rounded down.
fn fixed(x: f64) -> u32 {
    (x.max(0.0) * 4_294_967_296.0) as u32
}

/// The words of a step's requests: one for each output row, then the ids they lower. `outputs`: the output rows as the step
/// lists them; one that samples nothing takes the largest logit. The words will lie at word `at`.
///
/// # Errors
/// A request that is refused, with the reason.
pub fn pack(outputs: &[&Row], n_vocab: usize, at: usize) -> Result<Vec<u32>> {
    let mut last: BTreeMap<u32, (u32, usize)> = BTreeMap::new();
    outputs.iter().enumerate().for_each(|(i, row)| {
        let known = last.entry(row.seq).or_default();
        *known = (row.pos, i).max(*known);
    });
    let mut words = vec![0u32; outputs.len() * REQUEST_WORDS];
    for (i, row) in outputs.iter().enumerate() {
        let flag = |bit: u32, set: bool| if set { bit } else { 0 };
        let is_last = flag(LAST, last[&row.seq].1 == i);
        let (ids_at, word) = (at + words.len(), i * REQUEST_WORDS);
        let RowOutput::Sample(request) = &row.output else {
            words[word..][..3].copy_from_slice(&[row.seq, is_last | GREEDY, 1]);
            continue;
        };
        let o = &*request.options;
        let joins = o.has_penalties() && row.token == Token::Sampled;
        if let Some(reason) = refused(request, n_vocab) {
            return Err(Error::Request(format!("sample request {i} of a step: {reason}")));
        }
        let mut times: BTreeMap<u32, u32> = BTreeMap::new();
        request.recent.iter().for_each(|id| *times.entry(*id).or_default() += 1);
        times.extend(o.banned.iter().map(|id| (*id, 0))); // a ban outdoes penalties
        let ids = times.len();
        words.extend(times.into_iter().flat_map(|(id, n)| [id, n]));
        let greedy = o.is_greedy();
        let flags = is_last
            | flag(JOINS, joins)
            | flag(TOP_P, o.top_p < 1.0)
            | flag(MIN_P, o.min_p > 0.0)
            | flag(GREEDY, greedy);
        let k = if greedy { 1 } else { o.top_k as u32 };
        let words_of = SampleRequestWords {
            seq: row.seq,
            flags,
            k,
            ids_at: ids_at as u32,
            ids: ids as u32,
            unit: fixed(request.unit),
            p: fixed(f64::from(o.top_p)),
            ln_min_p: o.min_p.max(f32::MIN_POSITIVE).ln(),
            temperature: o.temperature,
            repeat: o.repeat_penalty,
            frequency: o.frequency_penalty,
            presence: o.presence_penalty,
        };
        words[word..][..REQUEST_WORDS].copy_from_slice(&words_of.words());
    }
    Ok(words)
}

/// Why the kernel does not take a request; none if it does.
fn refused(request: &SampleRequest, n_vocab: usize) -> Option<String> {
    let many = request.recent.len() + request.options.banned.len() > MAX_IDS;
    let some = request.allowed.is_some().then(|| "only some ids are allowed".to_string());
    some.or_else(|| refusal(&request.options, n_vocab)).or_else(|| many.then(|| "too many recent ids".to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_takes_the_defaults_and_says_what_it_does_not_take() {
        let refused = |change: &dyn Fn(&mut SamplerOptions)| {
            let mut o = SamplerOptions::default();
            change(&mut o);
            refusal(&o, 150_000).unwrap_or_default()
        };
        assert_eq!(refused(&|_| ()), "");
        assert_eq!(refused(&|o| o.repeat_last_n = -1), "", "without penalties the window does not matter");
        assert_eq!(refused(&|o| (o.temperature, o.top_k) = (0.0, 0)), "", "nor top-k without a temperature");
        assert!(refused(&|o| o.top_k = 0).contains("top-k 0"));
        assert!(refused(&|o| o.top_k = 129).contains("top-k 129"));
        assert!(refused(&|o| o.top_p = f32::NAN).contains("no number"));
        assert!(refused(&|o| (o.repeat_penalty, o.repeat_last_n) = (1.1, -1)).contains("all ids"));
        assert!(refused(&|o| (o.repeat_penalty, o.repeat_last_n) = (1.1, 2000)).contains("2000 banned and recent"));
        assert!(refused(&|o| o.repeat_penalty = 0.0).contains("repeat penalty above 0"));
        assert!(refused(&|o| o.banned = (0..1025).collect()).contains("1025 banned"));
        assert!(refusal(&SamplerOptions::default(), 2 << 20).is_some_and(|r| r.contains("vocabulary")));
    }
}
