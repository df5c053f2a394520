//! Norms of rows, by what kind a family has.

use super::Family;
use crate::weights::Weights;
use pumex_plan::{Builder, NormKind, Val, Weight};

/// Factors of a norm, and what it adds.
#[derive(Clone, Copy, Debug)]
pub struct LayerNorm {
    /// `[dim]`
    pub weight: Option<Weight>,
    /// `[dim]`
    pub bias: Option<Weight>,
}

impl LayerNorm {
    /// Without factors.
    pub const BARE: LayerNorm = LayerNorm { weight: None, bias: None };

    /// `NAME.weight` and, if it is there, `NAME.bias`; none without a tensor, unless the file has no norms of that kind at all.
    pub fn declare(w: &mut Weights<'_>, name: &str, dim: usize) -> Option<LayerNorm> {
        let weight = w.opt_vector(&format!("{name}.weight"), dim);
        let bias = w.opt_vector(&format!("{name}.bias"), dim);
        weight.is_some().then_some(LayerNorm { weight, bias })
    }
}

impl Family {
    /// Rows through a norm; without one, as they are.
    pub(super) fn normed(&self, p: &mut Builder, norm: Option<LayerNorm>, x: Val) -> Val {
        self.normed_by(p, norm, self.c.eps, x)
    }

    /// Likewise, with an epsilon of its own.
    pub(super) fn normed_by(&self, p: &mut Builder, norm: Option<LayerNorm>, eps: f32, x: Val) -> Val {
        match norm {
            None => x,
            Some(LayerNorm { weight: Some(weight), bias: None }) if self.norm == NormKind::Rms => {
                p.rms_norm(x, weight, eps)
            }
            Some(LayerNorm { weight, bias }) => p.normalize(self.norm, x, weight, bias, eps),
        }
    }
}
