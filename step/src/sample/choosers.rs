//! What stands for the draw and learns from each of its choices: mirostat 1 and 2, adaptive-p.

use super::steps::{best_first, count_best, draw, softmax, Candidate};
use super::SamplerOptions;

/// Candidates from which mirostat 1 estimates how fast probabilities fall.
pub(super) const ESTIMATE_OF: usize = 100;

/// Mirostat: keeps the surprise of tokens near a target.
#[derive(Clone, Debug, PartialEq)]
pub struct Mirostat {
    /// Surprise up to which candidates are kept, in bits.
    pub mu: f64,
}

impl Mirostat {
    /// At the start of a text.
    pub fn new(o: &SamplerOptions) -> Self {
        Mirostat { mu: 2.0 * f64::from(o.mirostat_tau) }
    }

    /// The id at `unit` among those it keeps, and learns from it. `n_vocab`: size of the vocabulary.
    pub fn choose(&mut self, list: &mut Vec<Candidate>, o: &SamplerOptions, n_vocab: usize, unit: f64) -> u32 {
        let keep = if o.mirostat == 1 {
            list.sort_unstable_by(best_first);
            rank_of_surprise(list, self.mu, n_vocab).min(list.len())
        } else {
            count_best(list, |p| -p.log2() <= self.mu)
        };
        list.truncate(keep.max(1));
        let id = draw(list, unit);
        let probabilities = softmax(list);
        let surprise = list.iter().position(|c| c.id == id).map_or(f64::NAN, |i| -probabilities[i].log2());
        let learned = self.mu - f64::from(o.mirostat_eta) * (surprise - f64::from(o.mirostat_tau));
        if learned.is_finite() {
            self.mu = learned;
        }
        id
    }
}

/// How many of the best have a surprise up to `mu`, if probabilities fall by Zipf's law with the exponent that fits the best ones
/// of `list`, which stand first; more than the vocabulary has means all.
pub(super) fn rank_of_surprise(list: &[Candidate], mu: f64, n_vocab: usize) -> usize {
    let (mut products, mut squares) = (0.0, 0.0);
    let best = list.first().map_or(0.0, |c| f64::from(c.logit));
    // Only what they are to each other counts, so that the others need not be known.
    let part = |c: &Candidate| (f64::from(c.logit) - best).exp();
    for (i, pair) in list.windows(2).take(ESTIMATE_OF - 1).enumerate() {
        let [a, b] = [part(&pair[0]), part(&pair[1])];
        if b <= 0.0 || b.is_nan() || a.is_nan() {
            break;
        }
        let ranks = ((i + 2) as f64 / (i + 1) as f64).ln();
        products += ranks * (a / b).ln();
        squares += ranks * ranks;
    }
    if squares <= 0.0 {
        return 1;
    }
    let exponent: f64 = products / squares;
    let (beyond, size) = (exponent - 1.0, (n_vocab as f64).ln());
    // 1 - n^-e for a small e, too; their quotient's limit is 1 / ln n.
    let scale = if beyond.abs() < 1e-12 { 1.0 / size } else { beyond / -(-beyond * size).exp_m1() };
    let rank = (scale * mu.exp2()).powf(1.0 / exponent);
    if rank.is_nan() {
        1
    } else {
        rank.min(n_vocab as f64) as usize
    }
}

/// Adaptive-p: draws near a target probability, so that the mean over the tokens so far comes to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Adaptive {
    sum: f64,
    weight: f64,
    /// The last choice and its probability, until it is accepted.
    pending: Option<(u32, f64)>,
}

impl Adaptive {
    /// At the start of a text.
    pub fn new(o: &SamplerOptions) -> Self {
        let weight = 1.0 / (1.0 - decay(o));
        Adaptive { sum: f64::from(o.adaptive_target) * weight, weight, pending: None }
    }

    /// The id at `unit` along the changed distribution.
    pub fn choose(&mut self, list: &mut [Candidate], o: &SamplerOptions, unit: f64) -> u32 {
        let probabilities = softmax(list);
        let target = f64::from(o.adaptive_target).clamp(0.0, 1.0);
        let aim = (2.0 * target - self.sum / self.weight).clamp(0.0, 1.0);
        for (candidate, p) in list.iter_mut().zip(&probabilities).filter(|(c, _)| c.logit > f32::NEG_INFINITY) {
            let off = (p - aim).abs() / 0.3;
            candidate.logit = (5.0 - 10.0 * off * off / (1.0 + off)) as f32;
        }
        let id = draw(list, unit);
        self.pending = list.iter().position(|c| c.id == id).map(|i| (id, probabilities[i]));
        id
    }

    /// Learns from an id if it was the last choice.
    pub fn accept(&mut self, id: u32, o: &SamplerOptions) {
        if let Some((_, p)) = self.pending.take().filter(|(chosen, _)| *chosen == id) {
            self.sum = p + decay(o) * self.sum;
            self.weight = 1.0 + decay(o) * self.weight;
        }
    }
}

fn decay(o: &SamplerOptions) -> f64 {
    f64::from(o.adaptive_decay.clamp(0.0, 0.99))
}
