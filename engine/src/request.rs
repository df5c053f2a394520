//! Sample requests as words of StepParams, for the kernel that samples. Here stands which chains that kernel takes.

use pumex_gguf::{Error, Result};
use pumex_shaders::block::Block;
use pumex_shaders::step::request::{GREEDY, JOINS, LAST, LISTED, MIN_P, TOP_P};
use pumex_shaders::step::{SampleRequestWords, BANNED};
use pumex_step::sample::{Allowed, SampleRequest, SamplerOptions, ShortlistRequest, Step, MAX_LISTED, MAX_WANTED};
use pumex_step::{Row, RowOutput, Token};
use std::collections::BTreeMap;

/// Words of a request.
pub const REQUEST_WORDS: usize = SampleRequestWords::LAYOUT.len_bytes() / 4;
pub use pumex_lower::MAX_K;
const _: () = assert!(MAX_K == MAX_LISTED);
/// Most ids of a row that are banned, biased, recent or wanted.
pub const MAX_IDS: usize = MAX_WANTED;
/// Words of such an id.
pub const ID_WORDS: usize = 3;
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
    if !o.is_greedy() && (!o.keeps_order() || o.dynatemp_range > 0.0 || o.min_keep > 1 && sets) {
        return Some("other orders, dynamic temperature and a least number of candidates are the host's".into());
    }
    if numbers.iter().chain(o.bias.iter().map(|(_, by)| by)).any(|x| !x.is_finite()) {
        return Some("an option of the sampler is infinite or no number".into());
    }
    if !o.is_greedy() && !usize::try_from(o.top_k).is_ok_and(|k| (1..=MAX_K).contains(&k)) {
        return Some(format!("top-k {}: from 1 to {MAX_K} are sampled on the device", o.top_k));
    }
    let mut ids = o.banned.len() + o.bias.len();
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
    (ids > MAX_IDS).then(|| format!("{ids} banned, biased and recent ids: at most {MAX_IDS} are changed on the device"))
}

/// A number in `[0, 1)` as a share of 2^32, rounded down.
fn to_fixed_point(x: f64) -> u32 {
    (x.max(0.0) * 4_294_967_296.0) as u32
}

/// What the requests of a step need beside their words, in bytes, or where that lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SamplingMemory {
    /// A bit for each id, for each output row that may not give any id.
    pub masks: u64,
    /// What is listed.
    pub lists: u64,
}

/// Words of a mask.
pub fn mask_words(n_vocab: usize) -> usize {
    n_vocab.div_ceil(32)
}

/// Bytes of what is listed of a row: the best, two sums, the wanted ids.
fn list_bytes(wanted: usize) -> u64 {
    8 * (MAX_K + 1 + wanted) as u64
}

/// What an output row's words name beside them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RowSampling {
    /// Byte of the masks where its own is.
    pub mask: Option<u64>,
    /// Byte of the lists where its own is, and what is wanted.
    pub list: Option<(u64, ShortlistRequest)>,
}

/// What the output rows of a step have beside the words of their requests, as the step lists them.
#[derive(Debug, Default)]
pub struct SamplingInputs {
    /// Masks and lists.
    pub beside: Vec<RowSampling>,
    /// The host has yet to say which ids are allowed.
    pub waits: bool,
}

/// What each output row has beside its words, and the bytes of all that.
pub fn sampling_inputs(outputs: &[&Row], n_vocab: usize) -> (Vec<RowSampling>, SamplingMemory) {
    let mut all = SamplingMemory::default();
    let mut of = |row: &&Row| {
        let mask = (*row.allowed_ids() != Allowed::All).then_some(all.masks);
        all.masks += mask.map_or(0, |_| 4 * mask_words(n_vocab) as u64);
        let list = match &row.output {
            RowOutput::Shortlist(request) => Some((all.lists, request.clone())),
            _ => None,
        };
        all.lists += list.as_ref().map_or(0, |(_, wanted)| list_bytes(wanted.ids.len()));
        RowSampling { mask, list }
    };
    (outputs.iter().map(&mut of).collect(), all)
}

/// The bits of a mask; of ids that are told later, all.
pub fn mask(allowed: &Allowed, n_vocab: usize) -> Vec<u32> {
    let mut words = match allowed {
        Allowed::These(bits) => bits.iter().copied().take(mask_words(n_vocab)).collect(),
        Allowed::All | Allowed::Later => vec![u32::MAX; mask_words(n_vocab)],
    };
    words.resize(mask_words(n_vocab), 0);
    words
}

/// The words of a step's requests: one for each output row, then the ids they name. `outputs`: the output rows as the step
/// lists them, and what they have beside their words, from the addresses `beside_at` on; one that samples nothing takes the largest
/// logit. The words will lie at word `at`.
///
/// # Errors
/// A request that is refused, with the reason.
pub fn pack(
    outputs: &[&Row],
    beside: &[RowSampling],
    beside_at: SamplingMemory,
    n_vocab: usize,
    at: usize,
) -> Result<Vec<u32>> {
    let mut last: BTreeMap<u32, (u32, usize)> = BTreeMap::new();
    outputs.iter().enumerate().for_each(|(i, row)| {
        let known = last.entry(row.seq).or_default();
        *known = (row.pos, i).max(*known);
    });
    let mut words = vec![0u32; outputs.len() * REQUEST_WORDS];
    for (i, (row, beside)) in outputs.iter().zip(beside).enumerate() {
        let flag = |bit: u32, set: bool| if set { bit } else { 0 };
        let ids_at = (at + words.len()) as u32;
        let usual = SampleRequestWords {
            seq: row.seq,
            flags: flag(LAST, last[&row.seq].1 == i) | GREEDY,
            k: 1,
            ids_at,
            mask: beside.mask.map_or(0, |from| beside_at.masks + from),
            listed_at: beside.list.as_ref().map_or(0, |(from, _)| beside_at.lists + from),
            ..Default::default()
        };
        let words_of = match &row.output {
            RowOutput::Sample(request) => {
                if let Some(reason) = refusal_reason(request, n_vocab) {
                    return Err(Error::Request(format!("sample request {i} of a step: {reason}")));
                }
                let changed = changed_ids(request);
                words.extend(changed.iter().flat_map(|(id, (times, bias))| [*id, *times, bias.to_bits()]));
                let joins = request.options.has_penalties() && row.token == Token::Sampled;
                sampler_words(usual, request, changed.len() as u32, joins)
            }
            RowOutput::Shortlist(request) => {
                if request.ids.len() > MAX_IDS || request.ids.iter().any(|id| *id as usize >= n_vocab) {
                    let what = format!("shortlist of output row {i}: expected at most {MAX_IDS} ids of the vocabulary");
                    return Err(Error::Request(what));
                }
                words.extend(request.ids.iter().flat_map(|id| [*id, 0, 0]));
                let k = MAX_K.min(n_vocab) as u32;
                let (flags, ids, temperature) = (usual.flags | LISTED, request.ids.len() as u32, request.temperature);
                SampleRequestWords { flags, k, ids, temperature, ..usual }
            }
            _ => usual,
        };
        words[i * REQUEST_WORDS..][..REQUEST_WORDS].copy_from_slice(&words_of.words());
    }
    Ok(words)
}

/// Ids whose logits a request changes: how often they occurred, or that they are banned, and their bias.
fn changed_ids(request: &SampleRequest) -> BTreeMap<u32, (u32, f32)> {
    let mut changed: BTreeMap<u32, (u32, f32)> = BTreeMap::new();
    request.recent.iter().for_each(|id| changed.entry(*id).or_default().0 += 1);
    request.options.bias.iter().for_each(|(id, by)| changed.entry(*id).or_default().1 += by);
    changed.extend(request.options.banned.iter().map(|id| (*id, (BANNED, 0.0)))); // a ban outdoes all else
    changed
}

/// The words of a request of a chain.
fn sampler_words(usual: SampleRequestWords, request: &SampleRequest, ids: u32, joins: bool) -> SampleRequestWords {
    let o = &*request.options;
    let flag = |bit: u32, set: bool| if set { bit } else { 0 };
    let greedy = o.is_greedy();
    let flags = flag(JOINS, joins) | flag(TOP_P, o.top_p < 1.0) | flag(MIN_P, o.min_p > 0.0);
    SampleRequestWords {
        flags: flags | usual.flags & LAST | flag(GREEDY, greedy),
        k: if greedy { 1 } else { o.top_k as u32 },
        ids,
        unit: to_fixed_point(request.unit),
        p: to_fixed_point(f64::from(o.top_p)),
        ln_min_p: o.min_p.max(f32::MIN_POSITIVE).ln(),
        temperature: o.temperature,
        repeat: o.repeat_penalty,
        frequency: o.frequency_penalty,
        presence: o.presence_penalty,
        ..usual
    }
}

/// Why the kernel does not take a request; none if it does.
fn refusal_reason(request: &SampleRequest, n_vocab: usize) -> Option<String> {
    let o = &*request.options;
    let many = request.recent.len() + o.banned.len() + o.bias.len() > MAX_IDS;
    refusal(o, n_vocab).or_else(|| many.then(|| "too many recent ids".to_string()))
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
        assert!(
            refused(&|o| (o.repeat_penalty, o.repeat_last_n) = (1.1, 2000)).contains("2000 banned, biased and recent")
        );
        assert!(refused(&|o| o.repeat_penalty = 0.0).contains("repeat penalty above 0"));
        assert!(refused(&|o| o.banned = (0..1025).collect()).contains("1025 banned"));
        assert!(refusal(&SamplerOptions::default(), 2 << 20).is_some_and(|r| r.contains("vocabulary")));
    }
}
