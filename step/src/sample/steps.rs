//! The sampler's steps, each a pure function over a list of candidates.
//!
//! A list starts as the whole vocabulary in id order. Steps only lower logits or drop candidates, and every step
//! leaves at least one. Order among equal logits is by id, so results do not depend on the sort.

use std::cmp::Ordering;
use std::collections::BTreeMap;

/// One token that may still be sampled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// Token id.
    pub id: u32,
    /// Its logit after the steps so far.
    pub logit: f32,
}

/// Fills `list` from one row of logits; false if one of them is NaN, of which nothing can be sampled.
pub fn collect(logits: &[f32], list: &mut Vec<Candidate>) -> bool {
    list.clear();
    list.extend(logits.iter().zip(0u32..).map(|(&logit, id)| Candidate { id, logit }));
    logits.iter().all(|logit| !logit.is_nan())
}

/// The candidate of an id, at once if the list is the whole vocabulary in id order.
pub(super) fn find(list: &mut [Candidate], id: u32) -> Option<&mut Candidate> {
    let whole = list.get(id as usize).is_some_and(|c| c.id == id);
    let at = if whole { Some(id as usize) } else { list.iter().position(|c| c.id == id) };
    at.and_then(|at| list.get_mut(at))
}

/// Makes ids impossible.
pub fn ban(list: &mut [Candidate], banned: &[u32]) {
    for &id in banned {
        if let Some(candidate) = find(list, id) {
            candidate.logit = f32::NEG_INFINITY;
        }
    }
}

/// Adds to ids' logits.
pub fn bias(list: &mut [Candidate], biases: &[(u32, f32)]) {
    for &(id, by) in biases {
        if let Some(candidate) = find(list, id).filter(|c| c.logit > f32::NEG_INFINITY) {
            candidate.logit += by;
        }
    }
}

/// Makes ids impossible whose bit is not set, or missing.
pub fn allow(list: &mut [Candidate], allowed: &[u32]) {
    for candidate in list {
        let word = allowed.get(candidate.id as usize / 32).copied().unwrap_or(0);
        if word >> (candidate.id % 32) & 1 == 0 {
            candidate.logit = f32::NEG_INFINITY;
        }
    }
}

/// Lowers the logits of `recent` ids.
pub fn penalize(list: &mut [Candidate], recent: impl Iterator<Item = u32>, repeat: f32, frequency: f32, presence: f32) {
    if repeat == 1.0 && frequency == 0.0 && presence == 0.0 {
        return;
    }
    let mut counts: BTreeMap<u32, u32> = BTreeMap::new();
    for id in recent {
        *counts.entry(id).or_default() += 1;
    }
    for (id, count) in counts {
        let Some(candidate) = find(list, id) else {
            continue;
        };
        // Dividing a negative logit would raise it.
        if candidate.logit <= 0.0 {
            candidate.logit *= repeat;
        } else {
            candidate.logit /= repeat;
        }
        candidate.logit -= count as f32 * frequency + presence;
    }
}

/// The id with the largest logit, the lowest id of equals.
pub fn argmax(list: &[Candidate]) -> u32 {
    list.iter().copied().reduce(|best, c| if c.logit > best.logit { c } else { best }).map_or(0, |c| c.id)
}

/// Keeps the `k` best, best first; `k <= 0` keeps all in their order.
pub fn top_k(list: &mut Vec<Candidate>, k: i32) {
    let Ok(k) = usize::try_from(k) else { return };
    if k == 0 {
        return;
    }
    if k < list.len() {
        list.select_nth_unstable_by(k - 1, best_first);
        list.truncate(k);
    }
    list.sort_unstable_by(best_first);
}

/// Keeps the fewest best candidates whose probabilities sum to at least `p`, and at least `min_keep`; `p >= 1` keeps all.
pub fn top_p(list: &mut Vec<Candidate>, p: f32, min_keep: usize) {
    if p >= 1.0 {
        return;
    }
    let mut sum = 0.0;
    let keep = count_best(list, |probability| {
        let short = sum < f64::from(p);
        sum += probability;
        short
    });
    list.truncate(keep.max(min_keep).max(1));
}

/// Sorts as many candidates, best first, as it takes to find the first one whose probability `take` refuses; gives how many it takes.
/// `take` sees each of the best once, in order. What comes after them is in any order, but for the next few.
pub(super) fn count_best(list: &mut [Candidate], mut take: impl FnMut(f64) -> bool) -> usize {
    const AT_FIRST: usize = 256;
    let probabilities = Probabilities::of(list);
    let (mut sorted, mut count, mut room) = (0, 0, AT_FIRST);
    while sorted < list.len() {
        let next = room.min(list.len());
        let rest = &mut list[sorted..];
        if next - sorted < rest.len() {
            rest.select_nth_unstable_by(next - sorted - 1, best_first);
        }
        rest[..next - sorted].sort_unstable_by(best_first);
        for candidate in &list[sorted..next] {
            if !take(probabilities.one(candidate)) {
                return count;
            }
            count += 1;
        }
        (sorted, room) = (next, room * 16);
    }
    count
}

/// Keeps candidates with at least `p` times the best one's probability, and at least the `min_keep` best; `p <= 0` keeps all.
pub fn min_p(list: &mut Vec<Candidate>, p: f32, min_keep: usize) {
    if p <= 0.0 {
        return;
    }
    let best = largest(list);
    // At p > 1 nothing would stay, so the best always does.
    let floor = (best + p.ln()).min(best);
    if list.iter().filter(|c| c.logit >= floor).count() < min_keep {
        top_k(list, i32::try_from(min_keep).unwrap_or(i32::MAX));
    } else {
        list.retain(|c| c.logit >= floor);
    }
}

/// Divides logits by `t`; 0 or below makes all but the best impossible.
pub fn temperature(list: &mut [Candidate], t: f32) {
    let best = argmax(list);
    let most = largest(list);
    // What would be infinite is counted from the best.
    let from = if most.is_finite() && t > 0.0 && !(most / t).is_finite() { most } else { 0.0 };
    for candidate in list {
        if t > 0.0 {
            candidate.logit = (candidate.logit - from) / t;
        } else if candidate.id != best {
            candidate.logit = f32::NEG_INFINITY;
        }
    }
}

/// The candidate at `unit` (in `[0, 1)`) along the candidates' summed probabilities.
pub fn draw(list: &[Candidate], unit: f64) -> u32 {
    let mut left = unit;
    let mut last_possible = argmax(list);
    for (candidate, probability) in list.iter().zip(softmax(list)) {
        if probability > 0.0 {
            last_possible = candidate.id;
            if left < probability {
                break;
            }
        }
        left -= probability;
    }
    last_possible
}

/// Probabilities of the candidates, in their order; they sum to 1 (all 0 when every candidate is impossible). An infinite logit
/// has it all, that of the first if there are more.
pub fn softmax(list: &[Candidate]) -> Vec<f64> {
    let of = Probabilities::of(list);
    list.iter().map(|c| of.one(c)).collect()
}

/// What probabilities of a list follow from.
struct Probabilities {
    best: f64,
    sum: f64,
    /// The id of an infinite logit, which has all of the probability.
    only: Option<u32>,
}

impl Probabilities {
    fn of(list: &[Candidate]) -> Probabilities {
        let best = f64::from(largest(list));
        let only = (best == f64::INFINITY).then(|| argmax(list));
        let sum = if best.is_finite() { list.iter().map(|c| (f64::from(c.logit) - best).exp()).sum() } else { 1.0 };
        Probabilities { best, sum, only }
    }

    /// The probability of one candidate of the list.
    fn one(&self, c: &Candidate) -> f64 {
        match self.only {
            Some(id) => f64::from(u8::from(c.id == id)),
            None if self.best == f64::NEG_INFINITY => 0.0,
            None => (f64::from(c.logit) - self.best).exp() / self.sum,
        }
    }
}

pub(super) fn largest(list: &[Candidate]) -> f32 {
    list.iter().map(|c| c.logit).fold(f32::NEG_INFINITY, f32::max)
}

pub(super) fn best_first(a: &Candidate, b: &Candidate) -> Ordering {
    b.logit.total_cmp(&a.logit).then(a.id.cmp(&b.id))
}
