//! Drawing an id: the largest logits, the largest probabilities, the temperature, and the draw itself.

use super::twister::Twister;

/// A candidate.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    /// Id.
    pub id: u32,
    /// Logit.
    pub logit: f32,
    /// Probability, once it is drawn from.
    pub p: f32,
}

/// Logits as candidates, by rising id.
pub fn candidates(logits: &[f32]) -> Vec<Candidate> {
    (0u32..).zip(logits).map(|(id, &logit)| Candidate { id, logit, p: 0.0 }).collect()
}

/// Gumbel noise of that temperature for `n` logits; what there are none of draws all the same.
pub fn add_gumbel(rng: &mut Twister, (temperature, n): (f32, usize), logits: Option<&mut [f32]>) {
    let noise: Vec<f64> = (0..n).map(|_| (-rng.double().max(1e-20).ln()).powf(f64::from(temperature))).collect();
    if let Some(logits) = logits {
        logits.iter_mut().zip(noise).for_each(|(x, noise)| *x = (f64::from(x.exp()) / noise) as f32);
    }
}

/// A chain of samplers with a generator of its own.
pub struct Chain {
    rng: Twister,
    top_k: usize,
    top_p: f32,
    temperature: f32,
}

impl Chain {
    /// A chain; a `top_k` of 0 or below, a `top_p` of 1 and a `temperature` of 0 leave candidates as they are.
    pub fn new(seed: u32, top_k: i32, top_p: f32, temperature: f32) -> Chain {
        Chain { rng: Twister::new(seed), top_k: usize::try_from(top_k).unwrap_or(0), top_p, temperature }
    }

    /// Draws; gives the candidates that are left, with their probabilities, and which of them it is.
    pub fn draw(&mut self, mut all: Vec<Candidate>) -> (Vec<Candidate>, usize) {
        let sorts = self.top_k > 0 || self.top_p < 1.0;
        let largest = largest(&all);
        let sum: f32 = all.iter().map(|c| (c.logit - largest).exp()).sum();
        if sorts {
            all.sort_by(|a, b| b.logit.total_cmp(&a.logit));
        }
        if self.top_k > 0 {
            all.truncate(self.top_k);
        }
        if self.top_p < 1.0 {
            // Of those that are left, the sum goes from the largest down; of all, by id, which rounds otherwise.
            let sum = if self.top_k > 0 { all.iter().map(|c| (c.logit - largest).exp()).sum() } else { sum };
            let mut reached = 0.0f32;
            let kept = all.iter().position(|c| {
                reached += (c.logit - largest).exp() / sum;
                reached >= self.top_p
            });
            all.truncate(kept.map_or(all.len(), |at| at + 1));
        }
        if self.temperature > 0.0 {
            all.iter_mut().for_each(|c| c.logit /= self.temperature);
        }
        let at = self.pick(&mut all);
        (all, at)
    }

    /// Which of the candidates the generator gives, with their probabilities set.
    fn pick(&mut self, all: &mut [Candidate]) -> usize {
        let target = self.rng.double();
        let largest = largest(all);
        all.iter_mut().for_each(|c| c.p = (c.logit - largest).exp());
        let sum: f64 = all.iter().map(|c| f64::from(c.p)).sum();
        let mut reached = 0.0;
        let at = all.iter().position(|c| {
            reached += f64::from(c.p);
            reached >= sum * target
        });
        all.iter_mut().for_each(|c| c.p = (f64::from(c.p) / sum) as f32);
        at.unwrap_or(all.len().saturating_sub(1))
    }
}

fn largest(all: &[Candidate]) -> f32 {
    all.iter().map(|c| c.logit).fold(f32::NEG_INFINITY, f32::max)
}
