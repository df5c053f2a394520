//! Which kinds of state the layers of a model keep: a store of blocks for each kind, shared by all layers that keep it.
//!
//! A sequence has a block table of its own in each. A window's is a ring, whose blocks are used again.

use super::Rule;
use pumex_plan::LayerState;

/// The stores of a model. The first is that of all positions, whether a layer keeps them or not: it says how many positions a
/// session has room for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stores {
    rules: Vec<Rule>,
    of_layer: Vec<Option<usize>>,
}

impl Stores {
    /// The stores that the states of these layers need.
    pub fn of(layers: &[LayerState]) -> Stores {
        let mut rules = vec![Rule::Paged];
        let store = |layer: &LayerState| {
            let rule = match layer {
                LayerState::Nothing => return None,
                LayerState::KeysValues(kv) => {
                    kv.window.map_or(Rule::Paged, |window| Rule::Ring { window: window.max(1) })
                }
                LayerState::Recurrent(_) => Rule::Recurrent,
            };
            let known = rules.iter().position(|r| *r == rule);
            Some(known.unwrap_or_else(|| {
                rules.push(rule);
                rules.len() - 1
            }))
        };
        let of_layer = layers.iter().map(store).collect();
        Stores { rules, of_layer }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.rules.len()
    }

    /// The store of a layer; none of one that keeps nothing.
    pub fn of_layer(&self, layer: usize) -> Option<usize> {
        self.of_layer.get(layer).copied().flatten()
    }

    /// Rule and blocks of each: `blocks` of the first, of the others as many as `n_seqs` sequences can take.
    pub fn store_blocks(&self, blocks: usize, n_seqs: usize, n_ctx: usize, max_rows: usize) -> Vec<(Rule, usize)> {
        let of = |rule: &Rule| if *rule == Rule::Paged { blocks } else { n_seqs * rule.most_blocks(n_ctx, max_rows) };
        self.rules.iter().map(|rule| (*rule, of(rule))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pumex_plan::{KvSpec, RecurrentSpec};

    #[test]
    fn layers_of_one_kind_share_a_store() {
        let kv = |window| LayerState::KeysValues(KvSpec { kv_heads: 1, k_dim: 64, v_dim: 64, window });
        let recurrent = LayerState::Recurrent(RecurrentSpec { parts: vec![("conv", vec![3, 8])] });
        let stores = Stores::of(&[kv(Some(40)), recurrent, LayerState::Nothing, kv(None), kv(Some(40)), kv(Some(7))]);
        let of: Vec<_> = (0..7).map(|layer| stores.of_layer(layer)).collect();
        assert_eq!(of, [Some(1), Some(2), None, Some(0), Some(1), Some(3), None]);
        let ring = |window| Rule::Ring { window };
        let sized = stores.store_blocks(100, 2, 4096, 8);
        assert_eq!(sized, [(Rule::Paged, 100), (ring(40), 8), (Rule::Recurrent, 2), (ring(7), 6)]);
        assert_eq!(Stores::of(&[]).store_blocks(5, 1, 64, 1), [(Rule::Paged, 5)]);
    }
}
