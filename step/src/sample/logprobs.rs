//! Log-probabilities of the chosen id and of the best ones, of the logits as the model gave them, before the chain.

use super::steps::{self, Candidate};
use super::Shortlist;

/// Most ids listed for a position.
pub const MAX_LOGPROBS: usize = 20;

/// Natural logarithms of probabilities at one position.
#[derive(Clone, Debug, PartialEq)]
pub struct Logprobs {
    /// The chosen id.
    pub id: u32,
    /// The log-probability of the chosen id.
    pub logprob: f64,
    /// The best ids, best first, the lowest id of equals first.
    pub top: Vec<(u32, f64)>,
}

/// The chosen `id` of one row of logits, `[vocab]`, and the `n` best. None if the id is not in the vocabulary.
pub fn logprobs(logits: &[f32], id: u32, n: usize) -> Option<Logprobs> {
    let best = f64::from(logits.iter().copied().fold(f32::NEG_INFINITY, f32::max));
    let sum: f64 = logits.iter().map(|x| (f64::from(*x) - best).exp()).sum();
    let of = |logit: f32| f64::from(logit) - best - sum.ln();
    let logprob = of(*logits.get(id as usize)?);
    let mut list: Vec<Candidate> = Vec::new();
    if n > 0 {
        steps::collect(logits, &mut list);
        steps::top_k(&mut list, i32::try_from(n.min(MAX_LOGPROBS)).unwrap_or(0));
    }
    Some(Logprobs { id, logprob, top: list.iter().map(|c| (c.id, of(c.logit))).collect() })
}

/// The chosen `id` of a [`Shortlist`] of all ids and the `n` best, from a list which has at least `n`. None if the id is not in it.
pub fn logprobs_listed(list: &Shortlist, id: u32, n: usize) -> Option<Logprobs> {
    let of = |logit: f32| f64::from(logit) - list.ln_sum;
    let chosen = list.best.iter().chain(&list.wanted).find(|c| c.id == id)?;
    let top = list.best.iter().take(n.min(MAX_LOGPROBS)).map(|c| (c.id, of(c.logit))).collect();
    Some(Logprobs { id, logprob: of(chosen.logit), top })
}
