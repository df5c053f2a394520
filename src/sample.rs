//! The sampler: logits of one row in, one token id out.
//!
//! The chain keeps llama.cpp's order and defaults: banned ids, penalties, top-k, top-p, min-p, temperature, seeded
//! draw. Temperature 0 or below picks the largest logit (the lowest id of equals). The same seed, options and logits
//! give the same ids; a seed of -1 takes one from the clock.
//!
//! Each step is a pure function in [`steps`]; [`rng`] is the generator behind the draw. [`Sampler::sample`] runs the chain
//! here; a [`SampleRequest`] is all that a device needs to do the same.

mod request;
pub mod rng;
pub mod steps;

use std::collections::VecDeque;
use std::sync::Arc;

pub use request::SampleRequest;
pub use rng::Rng;
use steps::Candidate;

/// What the chain does; the defaults are llama.cpp's.
#[derive(Clone, Debug, PartialEq)]
pub struct SamplerOptions {
    /// Divides the logits; 0 or below means greedy.
    pub temperature: f32,
    /// Candidates kept by rank; 0 or below keeps all.
    pub top_k: i32,
    /// Smallest set of candidates whose probability reaches this; 1 or above keeps all.
    pub top_p: f32,
    /// Candidates kept need this share of the best one's probability; 0 keeps all.
    pub min_p: f32,
    /// Divides positive and multiplies negative logits of recent ids; 1 is off.
    pub repeat_penalty: f32,
    /// How many recent ids the penalties see; 0 none, negative all.
    pub repeat_last_n: i32,
    /// Subtracted once per recent occurrence; 0 is off.
    pub frequency_penalty: f32,
    /// Subtracted once if the id occurred recently; 0 is off.
    pub presence_penalty: f32,
    /// Seed of the draw; -1 takes one from the clock.
    pub seed: i64,
    /// Ids that are never sampled (`--ignore-eos` puts the end ids here).
    pub banned: Vec<u32>,
}

impl Default for SamplerOptions {
    fn default() -> Self {
        SamplerOptions {
            temperature: 0.8,
            top_k: 40,
            top_p: 0.95,
            min_p: 0.05,
            repeat_penalty: 1.0,
            repeat_last_n: 64,
            frequency_penalty: 0.0,
            presence_penalty: 0.0,
            seed: -1,
            banned: Vec::new(),
        }
    }
}

impl SamplerOptions {
    /// Whether the largest logit is taken.
    pub fn is_greedy(&self) -> bool {
        self.temperature <= 0.0
    }

    /// Whether recent ids matter.
    pub fn has_penalties(&self) -> bool {
        let off = self.repeat_penalty == 1.0 && self.frequency_penalty == 0.0 && self.presence_penalty == 0.0;
        self.repeat_last_n != 0 && !off
    }

    /// Whether the id is the plain argmax of the logits.
    pub fn is_argmax(&self) -> bool {
        self.is_greedy() && !self.has_penalties() && self.banned.is_empty()
    }
}

/// A sampler chain with its recent ids and its generator.
#[derive(Clone, Debug)]
pub struct Sampler {
    options: Arc<SamplerOptions>,
    recent: VecDeque<u32>,
    rng: Rng,
    seed: u64,
    candidates: Vec<Candidate>,
}

impl Sampler {
    /// A fresh chain. A negative seed is replaced by one from the clock, see [`Sampler::seed`].
    pub fn new(options: SamplerOptions) -> Self {
        let seed = u64::try_from(options.seed).unwrap_or_else(|_| rng::seed_from_clock());
        let (options, recent, rng) = (Arc::new(options), VecDeque::new(), Rng::new(seed));
        Sampler { options, recent, rng, seed, candidates: Vec::new() }
    }

    /// The seed in use, to repeat a run.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// What the chain does.
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
        request.pick(logits, None, &mut self.candidates)
    }

    /// Remembers an id (of the prompt, or sampled) for the penalties.
    pub fn accept(&mut self, id: u32) {
        self.recent.push_back(id);
        if let Ok(limit) = usize::try_from(self.options.repeat_last_n) {
            while self.recent.len() > limit {
                self.recent.pop_front();
            }
        }
    }
}
