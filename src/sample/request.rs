//! A request for one id: the chain, the recent ids and the random number, so that it can be sampled anywhere.

use std::sync::Arc;

use super::steps::{self, Candidate};
use super::{chain, SamplerOptions};

/// Everything but the logits that decides on one row's id.
#[derive(Clone, Debug, PartialEq)]
pub struct SampleRequest {
    /// The chain.
    pub options: Arc<SamplerOptions>,
    /// Ids that the penalties see, oldest first; empty if the chain has none. A row that starts from
    /// [`Token::Sampled`](crate::step::Token) adds that id: who makes the request may not know it yet.
    pub recent: Vec<u32>,
    /// Random number in `[0, 1)`; not used at a temperature of 0 or below.
    pub unit: f64,
    /// A bit for each id, from the lowest bit of the first word on: whether it may be sampled. None: all may.
    pub allowed: Option<Arc<[u32]>>,
}

impl SampleRequest {
    /// The id sampled from one row of logits, `[vocab]`, with `unread` as newest of the recent ids; none if a logit is NaN.
    /// `list` is room to work in. A chain that [needs its sampler](SamplerOptions::needs_sampler) goes without what only that has.
    ///
    /// # Panics
    /// When `logits` is empty.
    pub fn pick(&self, logits: &[f32], unread: Option<u32>, list: &mut Vec<Candidate>) -> Option<u32> {
        assert!(!logits.is_empty(), "the sampler needs at least one logit");
        let o = &*self.options;
        if !steps::collect(logits, list) {
            return None;
        }
        if let Some(allowed) = &self.allowed {
            steps::allow(list, allowed);
        }
        let recent = || self.recent.iter().copied().chain(unread);
        Some(match chain::filter(list, o, &recent, &[], 1.0) {
            Some(id) => id,
            None => steps::draw(list, self.unit),
        })
    }
}
