//! Norms of rows, by what kind a family has.

use super::Family;
use crate::weights::Weights;
use pumex_plan::{Builder, Cols, General, NormKind, Normalize, Val, Weight};

/// Norms of rows: of what kind they are, and where they stand.
#[derive(Clone, Copy, Debug)]
pub struct Norms {
    /// Their kind, which norms of q and k have too unless told.
    pub kind: NormKind,
    /// Parts of a row that are normed apart.
    pub groups: usize,
    /// Whether they have no weights.
    pub bare: bool,
    /// Whether rows are normed before attention and feed-forward block.
    pub before: bool,
    /// Name of the norm before the feed-forward block.
    pub ffn: &'static str,
    /// Names of the norms of what attention and what the feed-forward block gives, if these are normed.
    pub after: Option<[&'static str; 2]>,
    /// Whether the residual stream itself is normed behind attention and behind each layer, as in BERT.
    pub stream: bool,
    /// Epsilon of norms of what blocks give, where it is one of their own.
    pub after_eps: Option<f32>,
    /// Name of the last norm, if there is one.
    pub last: Option<&'static str>,
}

impl Norms {
    /// Usual names of norms of what blocks give.
    pub const AFTER: [&'static str; 2] = ["post_attention_norm", "post_ffw_norm"];

    /// RMS norms before each block and behind the last layer.
    pub const USUAL: Norms = Norms {
        kind: NormKind::Rms,
        groups: 1,
        bare: false,
        before: true,
        ffn: "ffn_norm",
        after: None,
        stream: false,
        after_eps: None,
        last: Some("output_norm"),
    };
}

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
    pub fn normalize(&self, p: &mut Builder, norm: Option<LayerNorm>, x: Val) -> Val {
        self.normalize_by(p, norm, self.c.eps, x)
    }

    /// Rows through a norm with an epsilon of its own.
    pub(super) fn normalize_by(&self, p: &mut Builder, norm: Option<LayerNorm>, eps: f32, x: Val) -> Val {
        match norm {
            None => x,
            Some(norm) if self.norms.groups > 1 => self.normalize_parts(p, norm, eps, (x, false)),
            Some(LayerNorm { weight: Some(weight), bias: None }) if self.norms.kind == NormKind::Rms => {
                p.rms_norm(x, weight, eps)
            }
            Some(LayerNorm { weight, bias }) => p.normalize(self.norms.kind, x, weight, bias, eps),
        }
    }

    /// Rows through a norm, each part of a row apart; `output` takes the output rows alone.
    pub(super) fn normalize_parts(&self, p: &mut Builder, norm: LayerNorm, eps: f32, (x, output): (Val, bool)) -> Val {
        let out = if output { p.outputs("h_out", p.width_of(x)) } else { p.parts("h", p.width_of(x)) };
        let len = p.width_of(x) / self.norms.groups;
        let (x, to) = (Cols { val: x, at: 0, stride: len }, Cols { val: out, at: 0, stride: len });
        let LayerNorm { weight, bias } = norm;
        let groups = self.norms.groups;
        p.general(General::Normalize(Normalize {
            kind: self.norms.kind,
            x,
            groups,
            len,
            weight,
            bias,
            gate: None,
            eps,
            out: to,
        }));
        out
    }

    /// The output rows through a norm, `[w, dim]`.
    pub fn normalize_output(&self, p: &mut Builder, norm: LayerNorm, x: Val) -> Val {
        match norm {
            norm if self.norms.groups > 1 => self.normalize_parts(p, norm, self.c.eps, (x, true)),
            LayerNorm { weight: Some(weight), bias: None } if self.norms.kind == NormKind::Rms => {
                p.rms_norm_output(x, weight, self.c.eps)
            }
            LayerNorm { weight, bias } => p.normalize_output(self.norms.kind, x, weight, bias, self.c.eps),
        }
    }
}
