//! Which positions rows attend to, by scores of small heads.

use super::Env;
use crate::cpu::ops::dot;
use crate::plan::{ChoosePositions, Cols};
use std::cmp::Ordering;

impl Env<'_> {
    pub(super) fn choose_positions(&mut self, c: &ChoosePositions) {
        let (chosen, width) = (c.chosen, self.width(c.chosen.list));
        let list = Cols { val: chosen.list, at: 0, stride: width };
        self.write(list, 1, width, |env, row, out| {
            let (seq, pos) = (env.rows[row].seq, env.rows[row].pos as usize);
            if chosen.sees_all(pos) {
                return;
            }
            let mut key = vec![0.0; c.dim];
            let score = |block: usize| -> f32 {
                env.keys.key(c.layer, seq, (block + 1) * chosen.every - 1, &mut key);
                let weight = |h: usize| c.weights.map_or(1.0, |w| env.cols(w, row, h, 1)[0]);
                (0..c.heads).map(|h| weight(h) * dot(env.cols(c.q, row, h, c.dim), &key).max(0.0)).sum()
            };
            let scores: Vec<f32> = (0..chosen.whole(pos)).map(score).collect();
            let best = best(&scores, chosen.budget(pos).div_ceil(chosen.every), chosen.budget(pos) / chosen.every);
            out.iter_mut().zip(best).for_each(|(out, block)| *out = f32::from_bits(block as u32));
        });
    }
}

/// The `count` largest, of equals the first ones: `whole` of them in order, then the others, the largest first.
fn best(scores: &[f32], count: usize, whole: usize) -> Vec<usize> {
    let larger = |a: &usize, b: &usize| -> Ordering { scores[*b].total_cmp(&scores[*a]).then(a.cmp(b)) };
    let mut order: Vec<usize> = (0..scores.len()).collect();
    if count > 0 && count < order.len() {
        order.select_nth_unstable_by(count - 1, larger);
    }
    order.truncate(count);
    order.sort_unstable_by(larger);
    order[..whole.min(count)].sort_unstable();
    order
}

#[cfg(test)]
mod tests {
    use super::best;

    #[test]
    fn the_first_of_equals_are_chosen_and_listed_in_order() {
        assert_eq!(best(&[1.0, 3.0, 1.0, 2.0, 1.0], 3, 3), [0, 1, 3]);
        assert_eq!(best(&[1.0, 2.0, 1.0, 3.0, 1.0], 3, 2), [1, 3, 0]);
        assert_eq!(best(&[0.0, -0.5, 0.0], 2, 2), [0, 2]);
    }
}
