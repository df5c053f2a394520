//! Mamba 1 and 2: a convolution over the last rows, then a state per column or per head that fades by a step of its own.

use super::{Family, LayerNorm, LayerSpec, Mixer, MixerSpec, Recurrent, Rows};
use crate::weights::Weights;
use pumex_plan::{
    Act, Arg, Builder, Cols, Conv, General, Join, LayerState, MatPart, NormGate, NormKind, Normalize, Scan, ScanKind,
    Val, Weight,
};

/// Mamba 1.
#[derive(Debug)]
pub struct Mamba1(pub Recurrent);

/// Mamba 2.
#[derive(Debug)]
pub struct Mamba2(pub Recurrent);

impl MixerSpec for Mamba1 {
    fn state(&self, _f: &Family, _l: &LayerSpec) -> LayerState {
        self.0.keep(self.0.inner, self.0.inner, 1)
    }

    fn declare(&self, w: &mut Weights<'_>, f: &Family, i: usize) -> Box<dyn Mixer> {
        Box::new(MambaWeights::declare(w, f, (i, self.0), false))
    }
}

impl MixerSpec for Mamba2 {
    fn state(&self, _f: &Family, _l: &LayerSpec) -> LayerState {
        self.0.keep(self.0.channels(), self.0.heads, self.0.v_dim())
    }

    fn declare(&self, w: &mut Weights<'_>, f: &Family, i: usize) -> Box<dyn Mixer> {
        Box::new(MambaWeights::declare(w, f, (i, self.0), true))
    }
}

/// Weights of a layer.
struct MambaWeights {
    sizes: Recurrent,
    second: bool,
    /// Mamba 1: `[2 * inner, dim]`, columns and gate. Mamba 2: gate, columns with keys and queries, steps.
    input: MatPart,
    /// `[channels, k]`
    conv: Weight,
    conv_bias: Option<Weight>,
    /// Mamba 1: `[rank + 2 * state, inner]`.
    x: Option<MatPart>,
    /// Mamba 1: `[inner, rank]` with its bias.
    dt: Option<MatPart>,
    /// Mamba 2: `[heads]`.
    dt_bias: Option<Weight>,
    /// Norms of the step, of keys and of queries.
    norms: [Option<LayerNorm>; 3],
    a: Weight,
    d: Weight,
    /// Mamba 2: `[groups, inner / groups]`.
    norm: Option<Weight>,
    /// `[dim, inner]`
    output: MatPart,
}

impl MambaWeights {
    /// Declares `blk.N.ssm_*`.
    fn declare(w: &mut Weights<'_>, f: &Family, (i, r): (usize, Recurrent), second: bool) -> MambaWeights {
        let dim = f.c.n_embd;
        let name = |part: &str| format!("blk.{i}.ssm_{part}");
        let channels = if second { r.channels() } else { r.inner };
        let input = if second { r.inner + channels + r.heads } else { 2 * r.inner };
        let norm_dims = w.dims(&format!("{}.weight", name("norm")));
        let a_dims = w.dims(&name("a"));
        let norm = |w: &mut Weights<'_>, part: &str, len: usize| LayerNorm::declare(w, &name(part), len);
        MambaWeights {
            sizes: r,
            second,
            input: w.linear(&name("in"), input, dim),
            conv: w.table(&format!("{}.weight", name("conv1d")), &[r.conv, channels]),
            conv_bias: w.opt_vector(&format!("{}.bias", name("conv1d")), channels),
            x: (!second).then(|| w.linear(&name("x"), r.heads + 2 * r.state, r.inner)),
            dt: (!second).then(|| w.narrow(&name("dt"), r.inner, r.heads)),
            dt_bias: second.then(|| w.vector(&format!("{}.bias", name("dt")), r.heads)),
            norms: [norm(w, "dt_norm", r.heads), norm(w, "b_norm", r.state), norm(w, "c_norm", r.state)],
            a: match (second, a_dims.len()) {
                (false, _) => w.table(&name("a"), &[r.state, r.inner]),
                (true, 1) => w.table(&name("a"), &[r.heads]),
                (true, _) => w.table(&name("a"), &[1, r.heads]),
            },
            d: match (second, w.dims(&name("d")).len()) {
                (false, _) => w.table(&name("d"), &[r.inner]),
                (true, 1) => w.table(&name("d"), &[r.heads]),
                (true, _) => w.table(&name("d"), &[1, r.heads]),
            },
            norm: match (second, norm_dims.len()) {
                (true, 2) => Some(w.table(&format!("{}.weight", name("norm")), &[r.inner / r.groups.max(1), r.groups])),
                (true, 1) => Some(w.table(&format!("{}.weight", name("norm")), &[r.inner])),
                _ => None,
            },
            output: w.linear(&name("out"), dim, r.inner),
        }
    }
}

impl Mixer for MambaWeights {
    fn output(&self) -> MatPart {
        self.output
    }

    /// Normed rows `[n, dim]` → `[n, inner]`.
    fn run(&self, p: &mut Builder, f: &Family, Rows { h, state: layer, .. }: Rows<'_>) -> Val {
        let r = &self.sizes;
        let projected = p.matmul("ssm_in", h, vec![self.input]);
        let cols = |val: Val, at: usize, stride: usize| Cols { val, at, stride };
        let (gate_at, x_at) = if self.second { (0, r.inner) } else { (r.inner, 0) };
        let channels = if self.second { r.channels() } else { r.inner };
        let x = p.parts("ssm_x", channels);
        p.general(General::Conv(Conv {
            x: cols(projected, x_at, channels),
            channels,
            weight: self.conv,
            bias: self.conv_bias,
            silu: true,
            layer,
            at: 0,
            out: cols(x, 0, channels),
            norm: None,
        }));
        let state_at = (r.conv - 1) * channels;
        let (heads, v_dim, groups, k, q, (rate, soft)) = match (&self.x, &self.dt) {
            (Some(down), Some(dt)) => {
                let steps = p.matmul("ssm_dbc", x, vec![*down]); // [n, rank + 2 * state]
                let (k, q) = (cols(steps, r.heads, r.state), cols(steps, r.heads + r.state, r.state));
                let small = p.parts("ssm_rank", r.heads);
                p.copy_into(cols(steps, 0, r.heads), cols(small, 0, r.heads), 1, r.heads);
                for (norm, (x, len)) in
                    self.norms.iter().zip([(cols(small, 0, r.heads), r.heads), (k, r.state), (q, r.state)])
                {
                    if let Some(LayerNorm { weight, bias }) = *norm {
                        let eps = f.c.eps;
                        let norm =
                            Normalize { kind: NormKind::Rms, x, groups: 1, len, weight, bias, gate: None, eps, out: x };
                        p.general(General::Normalize(norm));
                    }
                }
                let rate = p.parts("ssm_dt", r.inner);
                p.narrow_matmul(small, dt.weight, r.heads, rate);
                (r.inner, 1, 1, k, q, (cols(rate, 0, 1), dt.bias))
            }
            _ => {
                let rate = cols(projected, 2 * r.inner + 2 * r.groups * r.state, 1);
                let keys = cols(x, r.inner, r.state);
                let queries = cols(x, r.inner + r.groups * r.state, r.state);
                (r.heads, r.inner / r.heads, r.groups, keys, queries, (rate, self.dt_bias))
            }
        };
        if soft.is_none() {
            p.map_into(rate, (1, heads), (Act::Softplus, Arg::Cols(rate), 1.0), (Join::Add, Arg::Number(0.0)));
        }
        let y = p.parts("ssm_y", r.inner);
        let (v, out) = (cols(x, 0, v_dim), cols(y, 0, v_dim));
        p.general(General::Scan(Scan {
            kind: ScanKind::Mamba,
            heads,
            v_dim,
            k_dim: r.state,
            groups,
            tiled: false,
            q,
            k,
            v,
            decay: None,
            decay_per_column: false,
            rate: Some(rate),
            a: None,
            b: None,
            factor: Some(self.a),
            soft,
            skip: Some(self.d),
            scale: 1.0,
            layer,
            at: state_at,
            out,
        }));
        // The gate, then a norm per group.
        let Some(weight) = self.norm else {
            let (all, by) = (p.all(y), Arg::Cols(cols(projected, gate_at, r.inner)));
            p.map_into(all, (1, r.inner), (Act::Silu, by, 1.0), (Join::Mul, Arg::Cols(all)));
            return y;
        };
        let len = r.inner / r.groups.max(1);
        let (x, eps) = (cols(y, 0, len), f.c.eps);
        let (kind, groups) = (NormKind::Rms, r.groups);
        let gate = Some(NormGate { cols: cols(projected, gate_at, len), act: Act::Silu, first: true });
        let norm = Normalize { kind, x, groups, len, weight: Some(weight), bias: None, gate, eps, out: x };
        p.general(General::Normalize(norm));
        y
    }
}
