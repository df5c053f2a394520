//! The sampler: logits of one row in, one token id out.
//!
//! The chain keeps llama.cpp's steps, order and defaults ([`Step`]): biases and bans, penalties, DRY, top-n-sigma, top-k, typical,
//! top-p, min-p, XTC, temperature, seeded draw. Mirostat or adaptive-p may stand for the draw. Temperature 0 or below picks the
//! largest logit (the lowest id of equals). The same seed, options and logits give the same ids; a seed of -1 takes one from the
//! clock. Each id takes one random number, and a second one after it if there is XTC.
//!
//! Each step is a pure function in [`steps`], [`shape`], [`dry`] and [`infill`]; [`choosers`] learn from what they choose; [`rng`] is
//! the generator behind the draw. [`Sampler::sample`] runs the chain here; a [`SampleRequest`] is all that a device needs to do
//! the same, unless the chain [needs its sampler](SamplerOptions::needs_sampler).

mod chain;
pub mod choosers;
pub mod dry;
pub mod infill;
mod logprobs;
mod options;
mod request;
pub mod rng;
pub mod shape;
pub mod steps;

use std::collections::VecDeque;
use std::sync::Arc;

use choosers::{Adaptive, Mirostat};
pub use dry::{Breakers, DryOptions};
pub use logprobs::{logprobs, Logprobs, MAX_LOGPROBS};
pub use options::{SamplerOptions, Step};
pub use request::SampleRequest;
pub use rng::Rng;
use steps::Candidate;

/// A sampler chain with its recent ids and its generator.
#[derive(Clone, Debug)]
pub struct Sampler {
    options: Arc<SamplerOptions>,
    recent: VecDeque<u32>,
    rng: Rng,
    seed: u64,
    candidates: Vec<Candidate>,
    mirostat: Mirostat,
    adaptive: Adaptive,
    /// Of the id that was sampled last, and of those accepted.
    noted: Option<Logprobs>,
    logprobs: Vec<Logprobs>,
}

impl Sampler {
    /// A fresh chain. A negative seed is replaced by one from the clock, see [`Sampler::seed`].
    pub fn new(options: SamplerOptions) -> Self {
        let seed = u64::try_from(options.seed).unwrap_or_else(|_| rng::seed_from_clock());
        let options = Arc::new(options.settled());
        Sampler {
            mirostat: Mirostat::new(&options),
            adaptive: Adaptive::new(&options),
            options,
            recent: VecDeque::new(),
            rng: Rng::new(seed),
            seed,
            candidates: Vec::new(),
            noted: None,
            logprobs: Vec::new(),
        }
    }

    /// The seed in use, to repeat a run.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// What the chain does, [settled](SamplerOptions::settled).
    pub fn options(&self) -> &SamplerOptions {
        &self.options
    }

    /// Whether `id` is never sampled.
    pub fn is_banned(&self, id: u32) -> bool {
        self.options.banned.contains(&id)
    }

    /// The request for the next id; with room among its recent ids for one that is sampled but not `accept`ed yet if
    /// `one_unread`.
    pub fn request(&mut self, one_unread: bool) -> SampleRequest {
        let unit = if self.options.is_greedy() { 0.0 } else { self.rng.unit() };
        let mut recent = Vec::new();
        if self.options.has_penalties() {
            let most = usize::try_from(self.options.repeat_last_n).map_or(usize::MAX, |n| n - usize::from(one_unread));
            recent.extend(self.recent.iter().skip(self.recent.len().saturating_sub(most)));
        }
        SampleRequest { options: self.options.clone(), recent, unit, allowed: None }
    }

    /// Undoes the last [`Sampler::request`], whose id nobody will see: the next one has its random number.
    pub fn undo_request(&mut self) {
        if !self.options.is_greedy() {
            self.rng.back();
        }
    }

    /// Picks the next id from one row of logits, `[vocab]`, without remembering it: see [`Sampler::accept`].
    /// None if a logit is NaN.
    ///
    /// # Panics
    /// When `logits` is empty.
    pub fn sample(&mut self, logits: &[f32]) -> Option<u32> {
        self.sample_of(logits, None)
    }

    /// Likewise, of the ids that are allowed ([`SampleRequest::allowed`]).
    ///
    /// # Panics
    /// When `logits` is empty.
    pub fn sample_of(&mut self, logits: &[f32], allowed: Option<Arc<[u32]>>) -> Option<u32> {
        let mut request = self.request(false);
        request.allowed = allowed;
        let id = match self.options.needs_sampler() {
            Some(_) => self.choose(logits, &request),
            None => request.pick(logits, None, &mut self.candidates),
        }?;
        self.noted = self.options.logprobs.and_then(|n| logprobs(logits, id, n));
        Some(id)
    }

    /// Runs a chain of which a part is here.
    fn choose(&mut self, logits: &[f32], request: &SampleRequest) -> Option<u32> {
        assert!(!logits.is_empty(), "the sampler needs at least one logit");
        let o = &*self.options;
        let chance = if o.does(Step::Xtc) { self.rng.unit() } else { 1.0 };
        let list = &mut self.candidates;
        if !steps::collect(logits, list) {
            return None;
        }
        if let Some(allowed) = &request.allowed {
            steps::allow(list, allowed);
        }
        let history: &[u32] = if o.does(Step::Dry) { self.recent.make_contiguous() } else { &[] };
        let recent = || request.recent.iter().copied();
        Some(match chain::filter(list, o, &recent, history, chance) {
            Some(best) => best,
            None if o.mirostat > 0 => self.mirostat.choose(list, o, logits.len(), request.unit),
            None if o.does(Step::AdaptiveP) => self.adaptive.choose(list, o, request.unit),
            None => steps::draw(list, request.unit),
        })
    }

    /// Remembers an id (of the prompt, or sampled) for the steps that look back.
    pub fn accept(&mut self, id: u32) {
        self.recent.push_back(id);
        let dry = if self.options.does(Step::Dry) { self.options.dry.last_n as usize } else { 0 };
        if let Ok(limit) = usize::try_from(self.options.repeat_last_n) {
            while self.recent.len() > limit.max(dry) {
                self.recent.pop_front();
            }
        }
        self.adaptive.accept(id, &self.options);
        self.logprobs.extend(self.noted.take().filter(|noted| noted.id == id));
    }

    /// The log-probabilities of the ids that were sampled and accepted since the last call, if the options ask for them.
    pub fn take_logprobs(&mut self) -> Vec<Logprobs> {
        std::mem::take(&mut self.logprobs)
    }
}
