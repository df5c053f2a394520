//! A request for one id: the chain, the recent ids and the random number, so that it can be sampled anywhere.

use std::sync::Arc;

use super::steps::{self, Candidate};
use super::{chain, SamplerOptions};

/// Which ids may be sampled.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Allowed {
    /// All.
    #[default]
    All,
    /// Ids whose bit is set: a bit for each id, from the lowest bit of the first word on. What has no bit is not allowed.
    These(Arc<[u32]>),
    /// It is said after the step was started, by [`Runner::allow`](crate::Runner::allow).
    Later,
}

impl Allowed {
    /// Whether an id may be sampled, as far as it is known yet.
    pub fn has(&self, id: u32) -> bool {
        match self {
            Allowed::These(bits) => bits.get(id as usize / 32).is_some_and(|word| word >> (id % 32) & 1 == 1),
            Allowed::All | Allowed::Later => true,
        }
    }
}

/// Everything but the logits that decides on one row's id.
#[derive(Clone, Debug, PartialEq)]
pub struct SampleRequest {
    /// The chain.
    pub options: Arc<SamplerOptions>,
    /// Ids that the penalties see, oldest first; empty if the chain has none. A row that starts from
    /// [`Token::Sampled`](crate::Token) adds that id: who makes the request may not know it yet.
    pub recent: Vec<u32>,
    /// Random number in `[0, 1)`; not used at a temperature of 0 or below.
    pub unit: f64,
    /// Which ids may be sampled.
    pub allowed: Allowed,
}

impl SampleRequest {
    /// Whether the id is the plain argmax of the logits.
    pub fn is_argmax(&self) -> bool {
        self.options.is_argmax() && self.allowed == Allowed::All
    }

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
        if let Allowed::These(bits) = &self.allowed {
            steps::allow(list, bits);
        }
        let recent = || self.recent.iter().copied().chain(unread);
        Some(match chain::filter(list, o, &recent, &[], 1.0) {
            Some(id) => id,
            None => steps::draw(list, self.unit),
        })
    }
}
