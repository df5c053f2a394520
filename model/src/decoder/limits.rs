//! Limits of gates, by layer.

use super::Family;
use crate::config::Reader;
use pumex_gguf::Result;

/// A limit of a gate and of what it is multiplied with.
#[derive(Clone, Copy, Debug)]
pub enum Limit {
    /// Both are at most this, the gate before its activation.
    Before(f32),
    /// Both are at most this, the gate after its activation.
    After(f32),
    /// What is multiplied with the gate becomes `cap * tanh(x / cap)`.
    Cap(f32),
}

/// Which block of a layer is limited: an index of a layer's limits.
#[derive(Clone, Copy, Debug)]
pub enum Limited {
    /// Experts.
    Experts = 0,
    /// The block that all rows take.
    Dense = 1,
}

impl Family {
    /// Limits gates as `key` has it for each layer, where that is not 0.
    ///
    /// # Errors
    /// `bad_hparam`.
    pub fn limit(&mut self, r: &Reader<'_>, key: &str, which: Limited, limit: fn(f32) -> Limit) -> Result<()> {
        let most = r.floats(key, self.c.n_layer, 0.0)?;
        for (layer, most) in self.layers.iter_mut().zip(most).filter(|(_, most)| *most > 1e-6) {
            layer.ffn.limits[which as usize] = Some(limit(most));
        }
        Ok(())
    }

    /// Limits gates before their activation; those of blocks that all rows take as the experts' unless told.
    ///
    /// # Errors
    /// `bad_hparam`.
    pub fn limit_experts(&mut self, r: &Reader<'_>) -> Result<()> {
        let [own, shared] = ["swiglu_clamp_exp", "swiglu_clamp_shexp"];
        self.limit(r, own, Limited::Experts, Limit::Before)?;
        self.limit(r, if r.has(shared) { shared } else { own }, Limited::Dense, Limit::Before)
    }
}
