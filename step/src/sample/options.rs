//! What a chain does, and in which order; the defaults are llama.cpp's.

use std::sync::Arc;

use super::dry::DryOptions;
use super::infill::TokenWords;

/// A step of the chain that an order can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// Repeat, frequency and presence penalties.
    Penalties,
    /// Penalties of tokens that would go on with a repetition.
    Dry,
    /// Logits within some deviations of the best.
    TopNSigma,
    /// The best by rank.
    TopK,
    /// Locally typical candidates.
    Typical,
    /// The best by summed probability.
    TopP,
    /// Keeps candidates with a share of the best one's probability.
    MinP,
    /// By chance, all but the least probable of the likely ones go.
    Xtc,
    /// Temperature, fixed or dynamic.
    Temperature,
    /// What fills a gap in a text: ends sooner than else, and pieces with one beginning count together.
    Infill,
    /// Draws near a target probability; stands for the draw.
    AdaptiveP,
}

impl Step {
    /// Every step with its name and its letter in llama.cpp's orders; the first nine are the default, in its order.
    pub const ALL: [(Step, &'static str, char); 11] = [
        (Step::Penalties, "penalties", 'e'),
        (Step::Dry, "dry", 'd'),
        (Step::TopNSigma, "top_n_sigma", 's'),
        (Step::TopK, "top_k", 'k'),
        (Step::Typical, "typ_p", 'y'),
        (Step::TopP, "top_p", 'p'),
        (Step::MinP, "min_p", 'm'),
        (Step::Xtc, "xtc", 'x'),
        (Step::Temperature, "temperature", 't'),
        (Step::Infill, "infill", 'i'),
        (Step::AdaptiveP, "adaptive_p", 'a'),
    ];
    const OTHER_NAMES: [(&'static str, Step); 4] =
        [("nucleus", Step::TopP), ("temp", Step::Temperature), ("typ", Step::Typical), ("typical_p", Step::Typical)];

    /// The default order.
    pub fn defaults() -> Vec<Step> {
        Step::ALL[..9].iter().map(|s| s.0).collect()
    }

    /// An order of names with `;` between them; names may have `-` for `_`, or neither.
    ///
    /// # Errors
    /// An unknown name, with the known ones.
    pub fn from_names(names: &str) -> Result<Vec<Step>, String> {
        let plain = |name: &str| name.replace(['_', '-'], "");
        let one = |name: &str| {
            let name = name.trim();
            let other = Step::OTHER_NAMES.iter().find(|n| n.0 == name).map(|n| n.1);
            let known = Step::ALL.iter().find(|s| plain(s.1) == plain(name)).map(|s| s.0);
            known.or(other).ok_or_else(|| {
                let all: Vec<&str> = Step::ALL.iter().map(|s| s.1).collect();
                format!("sampler {name:?}: expected one of {}", all.join(", "))
            })
        };
        names.split(';').filter(|name| !name.trim().is_empty()).map(one).collect()
    }

    /// An order of letters.
    ///
    /// # Errors
    /// An unknown letter, with the known ones.
    pub fn from_letters(letters: &str) -> Result<Vec<Step>, String> {
        let one = |letter: char| {
            Step::ALL.iter().find(|s| s.2 == letter).map(|s| s.0).ok_or_else(|| {
                let all: Vec<String> = Step::ALL.iter().map(|s| format!("{} {}", s.2, s.1)).collect();
                format!("sampler {letter:?}: expected one of {}", all.join(", "))
            })
        };
        letters.chars().map(one).collect()
    }
}

/// What the chain does; the defaults are llama.cpp's.
#[derive(Clone, Debug, PartialEq)]
pub struct SamplerOptions {
    /// Divides the logits; 0 or below leaves the best alone.
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
    /// Added to the logits of ids before all steps; negative infinity bans.
    pub bias: Vec<(u32, f32)>,
    /// The steps, in this order.
    pub order: Vec<Step>,
    /// Candidates that top-p, min-p, typical and XTC leave at least.
    pub min_keep: usize,
    /// Logits further than so many standard deviations below the best go; 0 or below is off.
    pub top_n_sigma: f32,
    /// Probability of locally typical candidates kept; 1 or above keeps all.
    pub typical_p: f32,
    /// How probable it is that XTC does something; 0 is off.
    pub xtc_probability: f32,
    /// Candidates at least as probable are likely for XTC; above 0.5 is off.
    pub xtc_threshold: f32,
    /// The temperature goes up and down by this, with the entropy; 0 is off.
    pub dynatemp_range: f32,
    /// Power of the normalized entropy.
    pub dynatemp_exponent: f32,
    /// Penalties of repetitions.
    pub dry: DryOptions,
    /// 1 or 2: mirostat after temperature stands for all steps; 0 is off.
    pub mirostat: u8,
    /// Surprise that mirostat aims at, in bits.
    pub mirostat_tau: f32,
    /// How fast mirostat learns.
    pub mirostat_eta: f32,
    /// Probability near which adaptive-p draws; negative draws as usual.
    pub adaptive_target: f32,
    /// How much of the past adaptive-p keeps at each token, 0 to 0.99.
    pub adaptive_decay: f32,
    /// What ids write, for infill; without it, infill does nothing.
    pub words: Option<Arc<TokenWords>>,
    /// How many of the best ids are noted with their log-probabilities at each position, beside the chosen one's; none: nothing
    /// is noted. See [`Sampler::take_logprobs`](super::Sampler::take_logprobs).
    pub logprobs: Option<usize>,
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
            bias: Vec::new(),
            order: Step::defaults(),
            min_keep: 0,
            top_n_sigma: -1.0,
            typical_p: 1.0,
            xtc_probability: 0.0,
            xtc_threshold: 0.1,
            dynatemp_range: 0.0,
            dynatemp_exponent: 1.0,
            dry: DryOptions::default(),
            mirostat: 0,
            mirostat_tau: 5.0,
            mirostat_eta: 0.1,
            adaptive_target: -1.0,
            adaptive_decay: 0.9,
            words: None,
            logprobs: None,
        }
    }
}

impl SamplerOptions {
    /// This chain with what it does not do switched off: steps that its order lacks, or all under mirostat; and with biases
    /// that ban as bans.
    pub fn disable_neutral_steps(mut self) -> Self {
        if self.mirostat > 0 {
            self.order = vec![Step::Temperature];
            self.dynatemp_range = 0.0;
        }
        let lacks = |step: Step| !self.order.contains(&step);
        if lacks(Step::Penalties) {
            (self.repeat_penalty, self.frequency_penalty, self.presence_penalty) = (1.0, 0.0, 0.0);
        }
        if lacks(Step::TopK) {
            self.top_k = 0;
        }
        if lacks(Step::TopP) {
            self.top_p = 1.0;
        }
        if lacks(Step::MinP) {
            self.min_p = 0.0;
        }
        if lacks(Step::Temperature) {
            (self.temperature, self.dynatemp_range) = (1.0, 0.0);
        }
        self.banned.extend(self.bias.iter().filter(|b| b.1 == f32::NEG_INFINITY).map(|b| b.0));
        self.bias.retain(|b| b.1 != f32::NEG_INFINITY && b.1 != 0.0);
        self
    }

    /// Whether a step of the order does anything.
    pub fn is_active(&self, step: Step) -> bool {
        match step {
            Step::Penalties => self.has_penalties(),
            Step::Dry => self.dry.is_active(),
            Step::TopNSigma => self.top_n_sigma > 0.0,
            Step::TopK => self.top_k > 0,
            Step::Typical => self.typical_p < 1.0,
            Step::TopP => self.top_p < 1.0,
            Step::MinP => self.min_p > 0.0,
            Step::Xtc => self.xtc_probability > 0.0 && self.xtc_threshold <= 0.5,
            Step::Temperature => true,
            Step::Infill => self.words.is_some(),
            Step::AdaptiveP => self.adaptive_target >= 0.0,
        }
    }

    /// The steps that do anything, in order.
    pub fn active(&self) -> impl Iterator<Item = Step> + '_ {
        self.order.iter().copied().filter(|step| self.is_active(*step))
    }

    /// Whether a step of the order is there and does anything.
    pub fn does(&self, step: Step) -> bool {
        self.is_active(step) && self.order.contains(&step)
    }

    /// Whether the active steps come in the default's order, each once.
    pub fn keeps_order(&self) -> bool {
        let rank = |step: Step| Step::ALL.iter().position(|s| s.0 == step);
        let ranks: Vec<_> = self.active().map(rank).collect();
        ranks.windows(2).all(|pair| pair[0] < pair[1])
    }

    /// Whether the largest logit is taken, after penalties.
    pub fn is_greedy(&self) -> bool {
        let may_drop_the_best = [Step::Typical, Step::Xtc, Step::Infill];
        let order = || !may_drop_the_best.iter().any(|s| self.does(*s)) && self.keeps_order();
        self.temperature <= 0.0 && self.dynatemp_range <= 0.0 && order()
    }

    /// Whether recent ids matter to the penalties.
    pub fn has_penalties(&self) -> bool {
        let off = self.repeat_penalty == 1.0 && self.frequency_penalty == 0.0 && self.presence_penalty == 0.0;
        self.repeat_last_n != 0 && !off
    }

    /// Whether the id is the plain argmax of the logits.
    pub fn is_argmax(&self) -> bool {
        let changes = self.has_penalties() || self.does(Step::Dry) || !self.bias.is_empty();
        self.is_greedy() && !changes && self.banned.is_empty() && self.logprobs.is_none()
    }

    /// Why a request alone, without the sampler that made it, cannot decide on an id; none if it can.
    pub fn needs_sampler(&self) -> Option<&'static str> {
        match self {
            o if o.logprobs.is_some() => Some("log-probabilities come of logits"),
            o if o.does(Step::Dry) => Some("DRY sees many recent ids"),
            o if o.is_greedy() => None,
            o if o.mirostat > 0 => Some("mirostat has a state"),
            o if o.does(Step::AdaptiveP) => Some("adaptive-p has a state"),
            o if o.does(Step::Xtc) => Some("XTC has a random number of its own"),
            _ => None,
        }
    }
}
