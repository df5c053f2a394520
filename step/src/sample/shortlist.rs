//! The best of a row's logits, for chains that run on the host while the logits stay on a device.
//!
//! Steps before a chain's first cut only change ids that they name (biases, bans, penalties, DRY). So the largest logits, those of
//! the named ids and the sum over all decide what that cut leaves, where it leaves few: by rank, by summed probability, by a share
//! of the best one's, or by mirostat's surprise or its estimate of that. Where it leaves more, nothing is sampled, and all logits
//! must be read.

use std::collections::BTreeSet;

use super::choosers::{rank_of_surprise, ESTIMATE_OF};
use super::steps::{self, best_first, Candidate};
use super::{Allowed, SamplerOptions, Step};

/// Most of the largest logits that a runner lists.
pub const MAX_LISTED: usize = 128;
/// Most ids that are wanted beside them.
pub const MAX_WANTED: usize = 1024;
/// Candidates that a cut by rank may leave, where some of those listed may be lowered.
const MOST_KEPT: usize = 100;

/// What is to be listed of a row.
#[derive(Clone, Debug, PartialEq)]
pub struct ShortlistRequest {
    /// Ids whose logits are wanted in any case, each once, rising, all in the vocabulary.
    pub ids: Vec<u32>,
    /// Ids among which the largest logits are looked for.
    pub allowed: Allowed,
    /// Divides logits in the sum of their exponentials; above 0.
    pub temperature: f32,
}

/// What was listed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shortlist {
    /// The largest logits of the ids that are allowed, best first, the lowest id of equals first; at most [`MAX_LISTED`].
    pub best: Vec<Candidate>,
    /// The wanted ids with their logits, rising.
    pub wanted: Vec<Candidate>,
    /// Natural logarithm of the sum of `exp(logit / temperature)` over all ids that are allowed.
    pub ln_sum: f64,
    /// Size of the vocabulary.
    pub n_vocab: usize,
}

impl Shortlist {
    /// The shortlist of a row of logits, `[vocab]`.
    pub fn of(logits: &[f32], request: &ShortlistRequest) -> Shortlist {
        let mut best = Vec::new();
        super::steps::collect(logits, &mut best);
        if let Allowed::These(bits) = &request.allowed {
            super::steps::allow(&mut best, bits);
        }
        super::steps::top_k(&mut best, MAX_LISTED as i32);
        let allowed = |id: u32| request.allowed.has(id);
        let t = f64::from(request.temperature);
        let top = best.first().map_or(0.0, |c| f64::from(c.logit));
        let terms =
            logits.iter().zip(0u32..).filter(|(_, id)| allowed(*id)).map(|(x, _)| ((f64::from(*x) - top) / t).exp());
        let ln_sum = top / t + terms.sum::<f64>().ln();
        let wanted = request.ids.iter().filter_map(|id| Some(Candidate { id: *id, logit: *logits.get(*id as usize)? }));
        Shortlist { wanted: wanted.collect(), best, ln_sum, n_vocab: logits.len() }
    }

    /// The shortlist that a kernel lists as pairs of a logit's bits and an id: `most` of the best, of which those with an id of the
    /// vocabulary
    /// count; the best logit and the sum of the exponentials of what all are above it, over the temperature; the logits of the
    /// wanted ids.
    pub fn from_pairs(pairs: &[[u32; 2]], most: usize, request: &ShortlistRequest, n_vocab: usize) -> Shortlist {
        let (best, rest) = pairs.split_at(most.min(pairs.len()));
        let of = |[logit, id]: &[u32; 2]| Candidate { id: *id, logit: f32::from_bits(*logit) };
        let best = best.iter().map(of).filter(|c| (c.id as usize) < n_vocab).take(n_vocab).collect();
        let ln_sum = rest.first().map_or(0.0, |sums| {
            let [top, sum] = sums.map(|bits| f64::from(f32::from_bits(bits)));
            top / f64::from(request.temperature) + sum.ln()
        });
        let wanted = request.ids.iter().zip(rest.iter().skip(1));
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

    /// Cuts `list`, which has [`Shortlist::candidates`] after what comes before the cut, as the cut would all ids; `before` has them as
    /// they were. False if that takes more ids than are listed.
    pub(super) fn cut(&self, cut: FirstCut, before: &[Candidate], list: &mut Vec<Candidate>) -> bool {
        let least = self.best.last().map_or(f32::NEG_INFINITY, |c| c.logit);
        list.sort_unstable_by(best_first);
        // What is not listed may be as large as the least of the best, and have a lower id than one that was changed to that.
        let sure = list.iter().take_while(|c| c.logit > least).count();
        let all = least == f32::NEG_INFINITY; // what is not listed is impossible
        let fits = |keep: usize| keep <= sure || all && sure > 0;
        let probability = |t: f32| {
            let (sum, t) = (self.ln_sum_of(before, list, t), f64::from(t));
            move |c: &Candidate| (f64::from(c.logit) / t - sum).exp()
        };
        let keep = match cut {
            FirstCut::Rank(k) => k,
            FirstCut::Mass { p, min_keep } => {
                let (of, mut sum) = (probability(1.0), 0.0);
                let reached = list.iter().position(|c| {
                    sum += of(c);
                    sum >= f64::from(p)
                });
                let Some(last) = reached else { return false };
                (last + 1).max(min_keep)
            }
            FirstCut::Share { p, min_keep } => {
                let best = list.first().map_or(f32::NEG_INFINITY, |c| c.logit);
                let floor = (best + p.ln()).min(best);
                let above = list.iter().take_while(|c| c.logit >= floor).count();
                if above < min_keep || floor <= least && !all {
                    return false;
                }
                above
            }
            FirstCut::Surprise { mu, temperature } => {
                let of = probability(temperature);
                let taken = |c: &Candidate| -of(c).log2() <= mu;
                if !all && taken(&Candidate { id: 0, logit: least }) {
                    return false;
                }
                let kept = list.iter().take_while(|c| taken(c)).count();
                kept.max(1)
            }
            FirstCut::Zipf { mu, temperature } => {
                let mut tempered = list[..sure].to_vec();
                steps::temperature(&mut tempered, temperature);
                // The estimate is made once more when one of them is chosen.
                list.truncate(sure);
                let estimated = all || sure >= ESTIMATE_OF;
                return estimated && fits(rank_of_surprise(&tempered, mu, self.n_vocab).max(1));
            }
        };
        if !fits(keep) {
            return false;
        }
        list.truncate(keep);
        if matches!(cut, FirstCut::Share { .. }) {
            list.sort_unstable_by_key(|c| c.id); // as that step leaves them
        }
        true
    }

    /// [`Shortlist::ln_sum`] after the listed candidates changed from `before` to `now`.
    fn ln_sum_of(&self, before: &[Candidate], now: &[Candidate], t: f32) -> f64 {
        let terms = |list: &[Candidate]| {
            list.iter().map(|c| (f64::from(c.logit) / f64::from(t) - self.ln_sum).exp()).sum::<f64>()
        };
        let rest = (1.0 - terms(before)).max(0.0);
        self.ln_sum + (rest + terms(now)).ln()
    }
}

/// A chain's first cut.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum FirstCut {
    /// The best ones.
    Rank(usize),
    /// The fewest with so much probability.
    Mass { p: f32, min_keep: usize },
    /// Candidates with a share of the best one's probability.
    Share { p: f32, min_keep: usize },
    /// Candidates up to a surprise in bits, at a temperature: mirostat 2.
    Surprise { mu: f64, temperature: f32 },
    /// Number of candidates that Zipf's law, by the best ones, gives that surprise: mirostat 1.
    Zipf { mu: f64, temperature: f32 },
}

impl SamplerOptions {
    /// The chain's first cut and how many active steps come before it, if it can be made on a [`Shortlist`]. `mu`: mirostat's.
    pub(super) fn first_cut(&self, mu: f64) -> Option<(FirstCut, usize)> {
        let lowers = |step: &Step| matches!(step, Step::Penalties | Step::Dry);
        let before = self.active().take_while(lowers).count();
        if self.active().filter(lowers).count() > before {
            return None;
        }
        let cut = match self.active().nth(before) {
            _ if self.is_greedy() => FirstCut::Rank(1),
            _ if self.mirostat > 0 && self.temperature.is_nan() => return None,
            _ if self.mirostat == 1 => FirstCut::Zipf { mu, temperature: self.temperature },
            _ if self.mirostat > 1 => FirstCut::Surprise { mu, temperature: self.temperature },
            Some(Step::TopK) => FirstCut::Rank(usize::try_from(self.top_k).ok().filter(|k| *k <= MOST_KEPT)?),
            Some(Step::TopP) => FirstCut::Mass { p: self.top_p, min_keep: self.min_keep },
            Some(Step::MinP) => FirstCut::Share { p: self.min_p, min_keep: self.min_keep },
            _ => return None,
        };
        Some((cut, before))
    }
}
