//! The best of a row's logits, for chains that run on the host while the logits stay on a device.
//!
//! A chain whose steps before its first cut only change ids that it names (biases, bans, penalties, DRY) needs the largest logits
//! and those of the named ids: no other logit is above the least of the largest. Where that does not suffice, because the steps
//! lowered too many of them, [`Shortlist::suffices`] says so, and all logits must be read.

use std::collections::BTreeSet;

use super::steps::Candidate;
use super::{Allowed, SamplerOptions, Step};

/// Most of the largest logits that a runner lists.
pub const MAX_LISTED: usize = 128;
/// Most ids that are wanted beside them.
pub const MAX_WANTED: usize = 1024;
/// Candidates that a cut by rank may leave, where some of those listed may be lowered.
const MOST_KEPT: i32 = 100;

/// What is to be listed of a row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ShortlistRequest {
    /// Ids whose logits are wanted in any case, each once, rising, all in the vocabulary.
    pub ids: Vec<u32>,
    /// Of which ids the largest logits are.
    pub allowed: Allowed,
}

/// What was listed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shortlist {
    /// The largest logits of the ids that are allowed, best first, the lowest id of equals first; at most [`MAX_LISTED`].
    pub best: Vec<Candidate>,
    /// The wanted ids with their logits, rising.
    pub wanted: Vec<Candidate>,
    /// Natural logarithm of the sum of `exp(logit)` over all ids that are allowed.
    pub ln_sum: f64,
    /// Size of the vocabulary.
    pub n_vocab: usize,
}

impl Shortlist {
    /// Of a row of logits, `[vocab]`.
    pub fn of(logits: &[f32], request: &ShortlistRequest) -> Shortlist {
        let mut best = Vec::new();
        super::steps::collect(logits, &mut best);
        if let Allowed::These(bits) = &request.allowed {
            super::steps::allow(&mut best, bits);
        }
        super::steps::top_k(&mut best, MAX_LISTED as i32);
        let allowed = |id: u32| request.allowed.has(id);
        let top = best.first().map_or(0.0, |c| f64::from(c.logit));
        let terms = logits.iter().zip(0u32..).filter(|(_, id)| allowed(*id)).map(|(x, _)| (f64::from(*x) - top).exp());
        let ln_sum = top + terms.sum::<f64>().ln();
        let wanted = request.ids.iter().filter_map(|id| Some(Candidate { id: *id, logit: *logits.get(*id as usize)? }));
        Shortlist { wanted: wanted.collect(), best, ln_sum, n_vocab: logits.len() }
    }

    /// Of what a kernel lists as pairs of a logit's bits and an id: `most` of the best, of which those with an id of the vocabulary
    /// count; the best logit and the sum of the exponentials of what all are above it; the logits of `wanted` ids.
    pub fn from_pairs(pairs: &[[u32; 2]], most: usize, wanted: &[u32], n_vocab: usize) -> Shortlist {
        let (best, rest) = pairs.split_at(most.min(pairs.len()));
        let of = |[logit, id]: &[u32; 2]| Candidate { id: *id, logit: f32::from_bits(*logit) };
        let best = best.iter().map(of).filter(|c| (c.id as usize) < n_vocab).take(n_vocab).collect();
        let ln_sum = rest.first().map_or(0.0, |sums| {
            let [top, sum] = sums.map(|bits| f64::from(f32::from_bits(bits)));
            top + sum.ln()
        });
        let wanted = wanted.iter().zip(rest.iter().skip(1));
        let wanted = wanted.map(|(id, [logit, _])| Candidate { id: *id, logit: f32::from_bits(*logit) }).collect();
        Shortlist { best, wanted, ln_sum, n_vocab }
    }

    /// All that are known, in id order; the wanted ones that are not allowed are impossible.
    pub(super) fn candidates(&self, allowed: &Allowed, list: &mut Vec<Candidate>) {
        list.clear();
        list.extend(&self.best);
        let best: BTreeSet<u32> = self.best.iter().map(|c| c.id).collect();
        list.extend(self.wanted.iter().filter(|c| !best.contains(&c.id)).map(|c| match allowed.has(c.id) {
            true => *c,
            false => Candidate { logit: f32::NEG_INFINITY, ..*c },
        }));
        list.sort_unstable_by_key(|c| c.id);
    }

    /// Whether the best `keep` of `list`, which are [`Shortlist::candidates`] some of which were changed, are the best of all ids.
    pub(super) fn suffices(&self, list: &[Candidate], keep: usize) -> bool {
        let Some(least) = self.best.last().filter(|_| self.best.len() < self.n_vocab) else { return true };
        // What is not listed may be as large as the least of the best, and have a lower id than one that was changed to that.
        let above = list.iter().filter(|c| c.logit > least.logit).count();
        above >= keep || least.logit == f32::NEG_INFINITY && above > 0
    }
}

impl SamplerOptions {
    /// How many candidates the chain looks at, if it can run on a [`Shortlist`]: those that its first cut leaves. None if it needs
    /// all logits.
    pub fn looks_at(&self) -> Option<usize> {
        if self.mirostat > 0 || self.logprobs.is_some_and(|n| n > MAX_LISTED) {
            return None;
        }
        if self.is_greedy() {
            return Some(1);
        }
        let cut = self.active().find(|step| !matches!(step, Step::Penalties | Step::Dry))?;
        let again = self.active().filter(|step| matches!(step, Step::Penalties | Step::Dry)).count();
        let before = self.active().take_while(|step| matches!(step, Step::Penalties | Step::Dry)).count();
        let fits = cut == Step::TopK && again == before && (1..=MOST_KEPT).contains(&self.top_k);
        fits.then_some(self.top_k as usize)
    }
}
