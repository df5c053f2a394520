//! The host sampler: logits of one row in, one token id out.
//!
//! The chain keeps llama.cpp's order and defaults: banned ids, penalties, top-k, top-p, min-p, temperature, seeded
//! draw. Temperature 0 or below picks the largest logit (the lowest id of equals). The same seed, options and logits
//! give the same ids; a seed of -1 takes one from the clock.
//!
//! Each step is a pure function in [`steps`]; [`rng`] is the generator behind the draw.

pub mod rng;
pub mod steps;

use std::collections::VecDeque;

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

/// A sampler chain with its recent ids and its generator.
#[derive(Clone, Debug)]
pub struct Sampler {
    options: SamplerOptions,
    recent: VecDeque<u32>,
    rng: Rng,
    seed: u64,
    candidates: Vec<Candidate>,
}

impl Sampler {
    /// A fresh chain. A negative seed is replaced by one from the clock, see [`Sampler::seed`].
    pub fn new(options: SamplerOptions) -> Self {
        let seed = u64::try_from(options.seed).unwrap_or_else(|_| rng::seed_from_clock());
        Sampler { options, recent: VecDeque::new(), rng: Rng::new(seed), seed, candidates: Vec::new() }
    }

    /// The seed in use, to repeat a run.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Whether the id is the plain argmax of the logits wherever that id is not banned,
    /// so that a device may pick it without the logits reaching the host.
    pub fn is_plain_greedy(&self) -> bool {
        self.options.temperature <= 0.0 && !self.has_penalties()
    }

    /// Whether `id` is never sampled.
    pub fn is_banned(&self, id: u32) -> bool {
        self.options.banned.contains(&id)
    }

    /// Picks the next id from one row of logits, `[vocab]`, without remembering it: see [`Sampler::accept`].
    ///
    /// # Panics
    /// When `logits` is empty.
    pub fn sample(&mut self, logits: &[f32]) -> u32 {
        assert!(!logits.is_empty(), "the sampler needs at least one logit");
        let list = &mut self.candidates;
        steps::collect(logits, list);
        steps::ban(list, &self.options.banned);
        if self.options.repeat_last_n != 0 {
            steps::penalize(
                list,
                self.recent.iter().copied(),
                self.options.repeat_penalty,
                self.options.frequency_penalty,
                self.options.presence_penalty,
            );
        }
        if self.options.temperature <= 0.0 {
            return steps::argmax(list);
        }
        steps::top_k(list, self.options.top_k);
        steps::top_p(list, self.options.top_p);
        steps::min_p(list, self.options.min_p);
        steps::temperature(list, self.options.temperature);
        steps::draw(list, self.rng.unit())
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

    fn has_penalties(&self) -> bool {
        let o = &self.options;
        o.repeat_last_n != 0 && (o.repeat_penalty != 1.0 || o.frequency_penalty != 0.0 || o.presence_penalty != 0.0)
    }
}
