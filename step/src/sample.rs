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
mod shortlist;
pub mod steps;

use std::collections::VecDeque;
use std::sync::Arc;

use choosers::{Adaptive, Mirostat};
pub use dry::{Breakers, DryOptions};
pub use logprobs::{logprobs, logprobs_listed, Logprobs, MAX_LOGPROBS};
pub use options::{SamplerOptions, Step};
pub use request::{Allowed, SampleRequest};
pub use rng::Rng;
use shortlist::FirstCut;
pub use shortlist::{Shortlist, ShortlistRequest, MAX_LISTED, MAX_WANTED};
use steps::Candidate;

/// Ids from here on stand for rows of pictures and sounds in lists of ids: no vocabulary has them, and chains pass over them.
pub const MEDIA_IDS: u32 = 1 << 31;

/// A sampler chain with its recent ids and its generator.
#[derive(Clone, Debug)]
pub struct Sampler {
    /// The options as they were given.
    asked: SamplerOptions,
    /// The options in force, with neutral steps disabled.
    options: Arc<SamplerOptions>,
    recent: VecDeque<u32>,
    rng: Rng,
    seed: u64,
    candidates: Vec<Candidate>,
    mirostat: Mirostat,
    adaptive: Adaptive,
    /// Log-probabilities of the id that was sampled last, and of those accepted.
    noted: Option<Logprobs>,
    logprobs: Vec<Logprobs>,
}

impl Sampler {
    /// A fresh chain. A negative seed is replaced by one from the clock, see [`Sampler::seed`].
    pub fn new(options: SamplerOptions) -> Self {
        let seed = u64::try_from(options.seed).unwrap_or_else(|_| rng::seed_from_clock());
        let (asked, options) = (options.clone(), Arc::new(options.disable_neutral_steps()));
        Sampler {
            mirostat: Mirostat::new(&options),
            adaptive: Adaptive::new(&options),
            asked,
            options,
            recent: VecDeque::new(),
            rng: Rng::new(seed),
            seed,
            candidates: Vec::new(),
            noted: None,
            logprobs: Vec::new(),
        }
    }

    /// From now on does what other options say, and keeps what it knows: recent ids, random numbers unless the seed is another, and
    /// what mirostat and adaptive-p learned unless they are switched on now or aim at another surprise.
    pub fn change(&mut self, asked: SamplerOptions) {
        if asked == self.asked {
            return;
        }
        let options = asked.clone().disable_neutral_steps();
        if asked.seed != self.asked.seed {
            self.seed = u64::try_from(asked.seed).unwrap_or_else(|_| rng::seed_from_clock());
            self.rng = Rng::new(self.seed);
        }
        if (options.mirostat, options.mirostat_tau) != (self.options.mirostat, self.options.mirostat_tau) {
            self.mirostat = Mirostat::new(&options);
        }
        if options.does(Step::AdaptiveP) && !self.options.does(Step::AdaptiveP) {
            self.adaptive = Adaptive::new(&options);
        }
        (self.asked, self.options) = (asked, Arc::new(options));
    }

    /// The options as they were given.
    pub fn given_options(&self) -> &SamplerOptions {
        &self.asked
    }

    /// Draws from now on with the `n`-th series of random numbers of its seed; that of a fresh chain is number 0.
    pub fn redraw(&mut self, n: u64) {
        self.rng = Rng::of_series(self.seed, n);
    }

    /// The text so far is `ids` and nothing else: what steps that look back see.
    pub fn look_back(&mut self, ids: &[u32]) {
        let most = self.most_recent().unwrap_or(ids.len());
        self.recent.clear();
        self.recent.extend(ids[ids.len().saturating_sub(most)..].iter().filter(|id| **id < MEDIA_IDS));
    }

    /// Recent ids that steps look at; none: all.
    fn most_recent(&self) -> Option<usize> {
        let dry = if self.options.does(Step::Dry) { self.options.dry.last_n as usize } else { 0 };
        usize::try_from(self.options.repeat_last_n).ok().map(|limit| limit.max(dry))
    }

    /// The seed in use, to repeat a run.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// What the chain does, [without its neutral steps](SamplerOptions::disable_neutral_steps).
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
        let recent = self.penalized_ids(one_unread);
        SampleRequest { options: self.options.clone(), recent, unit, allowed: Allowed::All }
    }

    /// The recent ids that penalties see, oldest first, with room for one more if `one_unread`.
    fn penalized_ids(&self, one_unread: bool) -> Vec<u32> {
        if !self.options.has_penalties() {
            return Vec::new();
        }
        let most = usize::try_from(self.options.repeat_last_n).map_or(usize::MAX, |n| n - usize::from(one_unread));
        self.recent.iter().skip(self.recent.len().saturating_sub(most)).copied().collect()
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
        self.sample_of(logits, Allowed::All)
    }

    /// Picks the next id from one row of logits, `[vocab]`, among the ids that are allowed, without remembering it.
    ///
    /// # Panics
    /// When `logits` is empty.
    pub fn sample_of(&mut self, logits: &[f32], allowed: Allowed) -> Option<u32> {
        assert!(!logits.is_empty(), "the sampler needs at least one logit");
        let request = SampleRequest { allowed, ..self.request(false) };
        let id = match self.options.needs_sampler() {
            Some(_) => {
                if !steps::collect(logits, &mut self.candidates) {
                    return None;
                }
                if let Allowed::These(bits) = &request.allowed {
                    steps::allow(&mut self.candidates, bits);
                }
                let recent = || request.recent.iter().copied();
                let history: &[u32] = if self.options.does(Step::Dry) { self.recent.make_contiguous() } else { &[] };
                let done = chain::lower(&mut self.candidates, &self.options, &recent, history);
                self.choose(&request, logits.len(), done)
            }
            None => request.pick(logits, None, &mut self.candidates)?,
        };
        self.noted = self.options.logprobs.and_then(|n| logprobs(logits, id, n));
        Some(id)
    }

    /// What the chain left when it chose `id` of all logits: ids with their probabilities, best first.
    pub fn left(&self, id: u32) -> Vec<(u32, f64)> {
        if self.options.is_greedy() {
            return vec![(id, 1.0)];
        }
        let mut list = self.candidates.clone();
        list.sort_unstable_by(steps::best_first);
        list.iter().map(|c| c.id).zip(steps::softmax(&list)).collect()
    }

    /// What a runner is to list for [`Sampler::sample_listed`]; none if the chain needs all logits.
    pub fn shortlist(&self, allowed: Allowed) -> Option<ShortlistRequest> {
        let o = &*self.options;
        let whole = o.logprobs.is_some() && (allowed != Allowed::All || o.mirostat > 0); // they are of all ids, at 1
        let (cut, _) = o.first_cut(self.mirostat.mu).filter(|_| !whole)?;
        let temperature = if let FirstCut::Surprise { temperature, .. } = cut { temperature } else { 1.0 };
        let raises = o.repeat_penalty < 1.0 || o.frequency_penalty < 0.0 || o.presence_penalty < 0.0;
        // By rank, what is only lowered need not be known: it is below the best either way.
        let all = !matches!(cut, FirstCut::Rank(_));
        let mut ids: Vec<u32> = o.bias.iter().filter(|b| all || b.1 > 0.0).map(|b| b.0).collect();
        ids.extend(self.penalized_ids(false).into_iter().filter(|_| all || raises));
        if all {
            ids.extend(&o.banned);
            if o.does(Step::Dry) {
                ids.extend(dry::penalties(&self.recent.iter().copied().collect::<Vec<_>>(), &o.dry).keys());
            }
        }
        ids.sort_unstable();
        ids.dedup();
        (ids.len() <= MAX_WANTED).then_some(ShortlistRequest { ids, allowed, temperature })
    }

    /// Picks the next id as [`Sampler::sample_of`] does from all logits, and with the same random numbers. None, and nothing has
    /// changed, if the list does not suffice.
    pub fn sample_listed(&mut self, listed: &Shortlist, allowed: &Allowed) -> Option<u32> {
        let options = self.options.clone();
        let (cut, before) = options.first_cut(self.mirostat.mu)?;
        let mut list = std::mem::take(&mut self.candidates);
        listed.candidates(allowed, &mut list);
        let (recent, known) = (self.penalized_ids(false), list.clone());
        let history: &[u32] = if options.does(Step::Dry) { self.recent.make_contiguous() } else { &[] };
        chain::lower(&mut list, &options, &|| recent.iter().copied(), history);
        let whole = known.len() == listed.n_vocab;
        let suffices = !list.is_empty() && (whole || listed.cut(cut, &known, &mut list));
        self.candidates = list;
        if !suffices {
            return None;
        }
        let request = self.request(false);
        // The cut itself is done; mirostat's is no step.
        let done = before + usize::from(!whole && !options.is_greedy() && options.mirostat == 0);
        let id = self.choose(&request, listed.n_vocab, done);
        self.noted = options.logprobs.and_then(|n| logprobs_listed(listed, id, n));
        Some(id)
    }

    /// Runs the chain on the candidates, but for what is `done` already.
    fn choose(&mut self, request: &SampleRequest, n_vocab: usize, done: usize) -> u32 {
        let o = &*self.options;
        let chance = if o.does(Step::Xtc) { self.rng.unit() } else { 1.0 };
        let list = &mut self.candidates;
        let history: &[u32] = if o.does(Step::Dry) { self.recent.make_contiguous() } else { &[] };
        let recent = || request.recent.iter().copied();
        match chain::rest(list, o, done, &recent, history, chance) {
            Some(best) => best,
            None if o.mirostat > 0 => self.mirostat.choose(list, o, n_vocab, request.unit),
            None if o.does(Step::AdaptiveP) => self.adaptive.choose(list, o, request.unit),
            None => steps::draw(list, request.unit),
        }
    }

    /// Remembers an id (of the prompt, or sampled) for the steps that look back, unless it stands for a row of a picture.
    pub fn accept(&mut self, id: u32) {
        if id >= MEDIA_IDS {
            return;
        }
        self.recent.push_back(id);
        if let Some(most) = self.most_recent() {
            while self.recent.len() > most {
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
