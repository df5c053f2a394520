//! A feed-forward block that all rows take, gated or not.

use super::{Family, LayerNorm, Limit};
use crate::weights::Weights;
use pumex_plan::{Act, Arg, Builder, Cols, Gate, Join, MatPart, Val, Weight};

/// Weights of a dense block.
pub struct Dense {
    /// `[ffn, dim]`; none where `up` has both or there is no gate.
    gate: Option<MatPart>,
    /// `[ffn, dim]`, or `[2 * ffn, dim]`: gate and up.
    up: MatPart,
    /// `[dim, ffn]`
    pub down: MatPart,
    sub_norm: Option<LayerNorm>,
    /// `[ffn]`: what comes of the activation is divided by these.
    act_scales: Option<Weight>,
    /// Whether `up` has both.
    fused: bool,
    ffn: usize,
    /// Limit of gate and up.
    limit: Option<Limit>,
    /// Gates that are less than so many deviations above their mean are none.
    sparse: Option<f32>,
}

impl Dense {
    /// Declares `blk.N.ffn_{gate,up,down}SUFFIX`.
    pub fn declare(w: &mut Weights<'_>, (i, suffix): (usize, &str), dim: usize, ffn: usize) -> Dense {
        let name = |part: &str| format!("blk.{i}.ffn_{part}{suffix}");
        let gated = w.has(&format!("{}.weight", name("gate")));
        let rows = w.dims(&format!("{}.weight", name("up"))).get(1).copied();
        let fused = !gated && rows == Some(2 * ffn);
        Dense {
            gate: gated.then(|| w.linear(&name("gate"), ffn, dim)),
            up: w.linear(&name("up"), if fused { 2 * ffn } else { ffn }, dim),
            down: w.linear(&name("down"), dim, ffn),
            sub_norm: LayerNorm::declare(w, &name("sub_norm"), ffn),
            act_scales: w.opt_vector(&format!("blk.{i}.ffn.act.scales"), ffn),
            fused,
            ffn,
            limit: None,
            sparse: None,
        }
    }

    /// Limits gates.
    pub fn limit_by(self, limit: Option<Limit>) -> Dense {
        Dense { limit, ..self }
    }

    /// Cuts gates off that are less than so many deviations above their mean.
    pub fn cut_below(self, sparse: Option<f32>) -> Dense {
        Dense { sparse, ..self }
    }

    /// How gate and up meet, if one op multiplies with both.
    fn find_gate(&self, act: Act) -> Option<Gate> {
        let apart =
            self.limit.is_some() || self.sparse.is_some() || late(&self.up) || self.gate.is_some_and(|g| late(&g));
        Gate::of(act).filter(|_| !apart)
    }

    /// Normed rows `[n, dim]` → `[n, ffn]`, what `down` takes.
    pub fn multiply_in(&self, p: &mut Builder, f: &Family, h: Val, act: Act) -> Val {
        let hidden = match (self.gate, self.find_gate(act)) {
            (Some(gate), Some(by)) => p.matmul_gated(h, gate, self.up, by),
            (Some(gate), None) => {
                let both = p.matmul("gate_up", h, vec![early(gate), early(self.up)]);
                scale_late(p, both, 0, self.ffn, &gate);
                scale_late(p, both, self.ffn, self.ffn, &self.up);
                let half = |at| Cols { val: both, at, stride: self.ffn };
                if let Some(deviations) = self.sparse {
                    cut(p, half(0), self.ffn, deviations);
                }
                raise(p, half(self.ffn), (1, self.ffn), act);
                let act = limit(p, [half(0), half(self.ffn)], (1, self.ffn), act, self.limit);
                p.glu(both, act, self.ffn)
            }
            (None, _) => {
                let up = p.matmul("up", h, vec![early(self.up)]);
                scale_late(p, up, 0, p.width_of(up), &self.up);
                match self.fused {
                    true => p.glu(up, act, self.ffn),
                    false => {
                        let out = p.act(up, act, 1.0);
                        if let Some(scales) = self.act_scales {
                            let all = p.all(out);
                            let by = (Act::Inverse, Arg::Weight(scales), 1.0);
                            p.map_into(all, (1, all.stride), by, (Join::Mul, Arg::Cols(all)));
                        }
                        out
                    }
                }
            }
        };
        match self.sub_norm {
            Some(LayerNorm { weight, bias }) => p.normalize(f.norms.kind, hidden, weight, bias, f.c.eps),
            None => hidden,
        }
    }
}

/// Columns become what they are above their mean plus so many of their deviations, else 0.
fn cut(p: &mut Builder, x: Cols, len: usize, deviations: f32) {
    let of = (1, len);
    let mean = p.dot(of, Arg::Cols(x), Arg::Number(1.0), (Act::Same, -1.0 / len as f32));
    let one = |val| Arg::PerGroup(Cols { val, at: 0, stride: 1 });
    p.map_into(x, of, (Act::Same, Arg::Cols(x), 1.0), (Join::Add, one(mean)));
    let deviation = p.dot(of, Arg::Cols(x), Arg::Cols(x), (Act::Sqrt, 1.0 / (len as f32 - 1.0)));
    p.scale(deviation, -deviations);
    p.map_into(x, of, (Act::Same, Arg::Cols(x), 1.0), (Join::Add, one(deviation)));
    p.map_into(x, of, (Act::Relu, Arg::Cols(x), 1.0), (Join::Add, Arg::Number(0.0)));
}

/// gpt-oss: up is limited as its gate is, and has 1 added: `cols` of it, `len` in each of `groups`.
pub fn raise(p: &mut Builder, up: Cols, shape: (usize, usize), act: Act) {
    if let Act::SiluClamped(_, limit) = act {
        let clamp = (Act::Clamp(-limit, limit), Arg::Cols(up), 1.0);
        p.map_into(up, shape, clamp, (Join::Add, Arg::Number(1.0)));
    }
}

/// Limits up and gate, and says which activation is left to do: `cols` of gate and up, `len` in each of `groups`.
pub fn limit(p: &mut Builder, [gate, up]: [Cols; 2], shape: (usize, usize), act: Act, limit: Option<Limit>) -> Act {
    let (most, first, then) = match limit {
        None => return act,
        Some(Limit::Cap(cap)) => {
            p.map_into(up, shape, (Act::SoftCap(cap), Arg::Cols(up), 1.0), (Join::Add, Arg::Number(0.0)));
            return act;
        }
        Some(Limit::Before(most)) => (most, Act::Clamp(f32::MIN, most), act),
        Some(Limit::After(most)) => (most, act, Act::Clamp(f32::MIN, most)),
    };
    p.map_into(up, shape, (Act::Clamp(-most, most), Arg::Cols(up), 1.0), (Join::Add, Arg::Number(0.0)));
    p.map_into(gate, shape, (first, Arg::Cols(gate), 1.0), (Join::Add, Arg::Number(0.0)));
    then
}

/// Whether a product's scale counts for its bias too, so that it must come afterwards.
pub fn late(part: &MatPart) -> bool {
    part.bias.is_some() && part.scale != 1.0
}

/// A product without a scale that comes afterwards.
pub fn early(part: MatPart) -> MatPart {
    MatPart { scale: if late(&part) { 1.0 } else { part.scale }, ..part }
}

/// Multiplies columns of a product with its scale, if that comes afterwards.
fn scale_late(p: &mut Builder, product: Val, at: usize, len: usize, part: &MatPart) {
    if late(part) {
        let cols = Cols { val: product, at, stride: len };
        p.map_into(cols, (1, len), (Act::Same, Arg::Cols(cols), part.scale), (Join::Add, Arg::Number(0.0)));
    }
}
