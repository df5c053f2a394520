//! Steps that look at the shape of the whole distribution: top-n-sigma, typical, XTC, dynamic temperature.

use super::steps::{best_first, largest, softmax, temperature, Candidate};

/// Makes candidates impossible whose logit is more than `n` standard deviations below the best; `n <= 0` keeps all. The deviation
/// is that of all logits that are possible.
pub fn top_n_sigma(list: &mut [Candidate], n: f32) {
    let best = largest(list);
    if n <= 0.0 || list.len() <= 1 || !best.is_finite() {
        return;
    }
    let possible = || list.iter().map(|c| f64::from(c.logit)).filter(|x| x.is_finite());
    let count = possible().count() as f64;
    let mean = possible().sum::<f64>() / count;
    let deviation = (possible().map(|x| (x - mean).powi(2)).sum::<f64>() / count).sqrt();
    let least = (f64::from(best) - f64::from(n) * deviation).min(f64::from(best));
    for candidate in list.iter_mut().filter(|c| f64::from(c.logit) < least) {
        candidate.logit = f32::NEG_INFINITY;
    }
}

/// Keeps those whose surprise is closest to the expected one, the fewest whose probabilities sum to more than `p`, at least
/// `min_keep`; `p >= 1` keeps all. The most typical comes first.
pub fn typical(list: &mut Vec<Candidate>, p: f32, min_keep: usize) {
    if p >= 1.0 {
        return;
    }
    list.sort_unstable_by(best_first);
    let probabilities = softmax(list);
    let entropy = entropy(&probabilities);
    let off = |p: f64| if p > 0.0 { (-p.ln() - entropy).abs() } else { f64::INFINITY };
    let mut order: Vec<(f64, f64, Candidate)> =
        probabilities.iter().zip(&*list).map(|(p, c)| (off(*p), *p, *c)).collect();
    order.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut sum = 0.0;
    let keep = order.iter().position(|(_, probability, _)| {
        sum += probability;
        sum > f64::from(p)
    });
    order.truncate(keep.map_or(order.len(), |last| (last + 1).max(min_keep)));
    list.clear();
    list.extend(order.into_iter().map(|(_, _, c)| c));
}

/// If `chance` (in `[0, 1)`) is at most `probability`, drops all candidates that reach the `threshold` but the least probable of
/// them, unless fewer than `min_keep` would be left.
pub fn xtc(list: &mut Vec<Candidate>, probability: f32, threshold: f32, min_keep: usize, chance: f64) {
    if probability <= 0.0 || threshold > 0.5 || list.len() < 2 || chance > f64::from(probability) {
        return;
    }
    list.sort_unstable_by(best_first);
    let probabilities = softmax(list);
    let likely = probabilities.iter().take_while(|p| **p >= f64::from(threshold) && **p > 0.0).count();
    let drop = likely.saturating_sub(1);
    if list.len() - drop >= min_keep {
        list.drain(..drop);
    }
}

/// Divides logits by a temperature that lies up to `range` around `t`: low where the distribution is sharp, high where it is flat.
/// Its place between both is the entropy, as a part of the most there can be, to the power of `exponent`.
pub fn dynamic_temperature(list: &mut [Candidate], t: f32, range: f32, exponent: f32) {
    if list.len() <= 1 {
        return;
    }
    let (low, high) = (f64::from((t - range).max(0.0)), f64::from(t + range));
    let normalized = (entropy(&softmax(list)) / (list.len() as f64).ln()).clamp(0.0, 1.0);
    let found = low + (high - low) * normalized.powf(f64::from(exponent));
    temperature(list, if found.is_nan() { t } else { found.min(f64::from(f32::MAX)) as f32 });
}

/// Expected surprise, in nats.
fn entropy(probabilities: &[f64]) -> f64 {
    probabilities.iter().filter(|p| **p > 0.0).map(|p| -p * p.ln()).sum()
}
