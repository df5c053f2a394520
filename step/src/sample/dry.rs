//! DRY: lowers tokens that would go on with a repetition, the more the longer it is. Breakers end repetitions: what stands before
//! one is no part of what comes after it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::steps::{find, Candidate};

/// Bytes of a breaker that count.
const MAX_BYTES: usize = 40;
/// Ids behind a breaker's first one that count.
const MAX_TAIL: usize = 20;

/// What DRY does; the defaults are llama.cpp's, in which it is off.
#[derive(Clone, Debug, PartialEq)]
pub struct DryOptions {
    /// Factor of the penalties; 0 is off.
    pub multiplier: f32,
    /// Each further token of a repetition multiplies its penalty by this; below 1 is off.
    pub base: f32,
    /// Repetitions of at least so many tokens are lowered.
    pub allowed_length: u32,
    /// Recent ids that are seen; 0 is off.
    pub last_n: u32,
    /// What ends repetitions.
    pub breakers: Arc<Breakers>,
}

impl Default for DryOptions {
    fn default() -> Self {
        DryOptions { multiplier: 0.0, base: 1.75, allowed_length: 2, last_n: 64, breakers: Arc::default() }
    }
}

impl DryOptions {
    /// Whether anything is lowered.
    pub fn is_active(&self) -> bool {
        self.multiplier != 0.0 && self.base >= 1.0 && self.last_n > 0
    }
}

/// Sequences of ids that hold a breaker: the first id with what may follow it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Breakers(BTreeMap<u32, BTreeSet<Vec<u32>>>);

impl Breakers {
    /// Breakers of these texts: ids whose bytes, `pieces(id)`, hold one, and ids that end with the beginning of one, followed by
    /// the ids of its rest, `encode(rest)`.
    pub fn of_texts(
        texts: &[impl AsRef<[u8]>],
        n_vocab: u32,
        pieces: impl Fn(u32) -> Vec<u8>,
        encode: impl Fn(&[u8]) -> Vec<u32>,
    ) -> Self {
        let mut breakers = Breakers::default();
        let texts: Vec<&[u8]> = texts.iter().map(|t| &t.as_ref()[..t.as_ref().len().min(MAX_BYTES)]).collect();
        let texts: Vec<&[u8]> = texts.into_iter().filter(|t| !t.is_empty()).collect();
        for id in 0..n_vocab {
            let piece = pieces(id);
            for text in &texts {
                if piece.windows(text.len()).any(|w| w == *text) {
                    breakers.add(id, Vec::new());
                    continue;
                }
                for len in (1..text.len().min(piece.len() + 1)).filter(|len| piece.ends_with(&text[..*len])) {
                    let mut tail = encode(&text[len..]);
                    tail.truncate(MAX_TAIL);
                    breakers.add(id, tail);
                }
            }
        }
        breakers
    }

    /// Adds a sequence: `head`, then `tail`.
    pub fn add(&mut self, head: u32, tail: Vec<u32>) {
        self.0.entry(head).or_default().insert(tail);
    }

    /// Whether `id` alone is a breaker.
    fn is_breaker(&self, id: u32) -> bool {
        self.0.get(&id).is_some_and(|tails| tails.contains(&[][..]))
    }

    /// Ids after the last breaker in `recent`; all if there is none.
    fn free(&self, recent: &[u32]) -> usize {
        for (i, id) in recent.iter().enumerate().rev() {
            let Some(tails) = self.0.get(id) else { continue };
            let after = &recent[i + 1..];
            let longest = tails.iter().filter(|tail| after.starts_with(tail)).map(Vec::len).max();
            if let Some(len) = longest {
                return after.len() - len;
            }
        }
        recent.len()
    }
}

/// How much of the end of `recent` stands before and with each of its ids: `[recent]`, of the last id 0.
fn repeats(recent: &[u32]) -> Vec<usize> {
    let n = recent.len();
    let back = |i: usize| recent[n - 1 - i];
    let mut lengths = vec![0; n]; // from the end
    let (mut from, mut to) = (0, 0); // the match that reaches furthest
    for k in 1..n {
        let mut len = if k < to { lengths[k - from].min(to - k) } else { 0 };
        while k + len < n && back(len) == back(k + len) {
            len += 1;
        }
        lengths[k] = len;
        if k + len > to {
            (from, to) = (k, k + len);
        }
    }
    lengths.reverse();
    lengths
}

/// What DRY takes off ids' logits after `recent`, oldest first.
pub fn penalties(recent: &[u32], o: &DryOptions) -> BTreeMap<u32, f32> {
    let recent = &recent[recent.len().saturating_sub(o.last_n as usize)..];
    let allowed = o.allowed_length as usize;
    let limit = o.breakers.free(recent);
    if !o.is_active() || recent.len() <= allowed || limit < allowed {
        return BTreeMap::new();
    }
    let mut longest: BTreeMap<u32, usize> = BTreeMap::new();
    for (len, next) in repeats(recent).into_iter().zip(&recent[1..]) {
        let len = len.min(limit);
        if len >= allowed && !o.breakers.is_breaker(*next) {
            let known = longest.entry(*next).or_default();
            *known = len.max(*known);
        }
    }
    // No power is larger than a float can be.
    let most = if o.base > 1.000_001 { (f64::from(f32::MAX).ln() / f64::from(o.base).ln()) as usize } else { 0 };
    let of = |len: usize| {
        let power = if most > 0 { (len - allowed).min(most) } else { len - allowed };
        let penalty = f64::from(o.multiplier) * f64::from(o.base).powf(power as f64);
        penalty.clamp(f64::from(f32::MIN), f64::from(f32::MAX)) as f32
    };
    longest.into_iter().map(|(id, len)| (id, of(len))).collect()
}

/// Lowers what would go on with a repetition at the end of `recent`, oldest first.
pub fn dry(list: &mut [Candidate], recent: &[u32], o: &DryOptions) {
    for (id, penalty) in penalties(recent, o) {
        if let Some(candidate) = find(list, id) {
            candidate.logit -= penalty;
        }
    }
}
