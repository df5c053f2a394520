//! PLaMo 2's Mamba: gate and columns side by side in each head, steps by way of a few columns, keys and queries that are normed.

use crate::decoder::{Family, LayerSpec, Mixer, MixerSpec, Recurrent, Rows};
use crate::weights::Weights;
use pumex_plan::{
    Act, Arg, Builder, Cols, Conv, General, Join, LayerState, MatPart, NormKind, Normalize, Scan, ScanKind, Val, Weight,
};

/// PLaMo 2's Mamba.
#[derive(Debug)]
pub struct PlamoMamba(pub Recurrent);

impl MixerSpec for PlamoMamba {
    fn state(&self, _f: &Family, _l: &LayerSpec) -> LayerState {
        self.0.keep(self.0.inner, self.0.heads, self.0.v_dim())
    }

    fn declare(&self, w: &mut Weights<'_>, f: &Family, i: usize) -> Box<dyn Mixer> {
        Box::new(PlamoWeights::declare(w, f, i, self.0))
    }
}

/// Weights of a layer.
struct PlamoWeights {
    sizes: Recurrent,
    /// `[2 * inner, dim]`
    input: MatPart,
    conv: Weight,
    /// `[2 * state + few, inner]`: keys, queries and what becomes steps.
    x: MatPart,
    /// `[heads, few]`
    dt: MatPart,
    dt_bias: Weight,
    few: usize,
    /// Norms of keys, of queries and of what becomes steps.
    norms: [Weight; 3],
    /// `[heads]`
    a: Weight,
    d: Weight,
    /// `[dim, inner]`
    output: MatPart,
}

impl PlamoWeights {
    /// Declares `blk.N.ssm_*`.
    fn declare(w: &mut Weights<'_>, f: &Family, i: usize, r: Recurrent) -> PlamoWeights {
        let (dim, few) = (f.c.n_embd, (f.c.n_embd / 16).max(64));
        let name = |part: &str| format!("blk.{i}.ssm_{part}");
        PlamoWeights {
            sizes: r,
            input: w.linear(&name("in"), 2 * r.inner, dim),
            conv: w.table(&format!("{}.weight", name("conv1d")), &[r.conv, r.inner]),
            x: w.linear(&name("x"), 2 * r.state + few, r.inner),
            dt: w.narrow(&name("dt"), r.heads, few),
            dt_bias: w.vector(&format!("{}.bias", name("dt")), r.heads),
            few,
            norms: [("b_norm", r.state), ("c_norm", r.state), ("dt_norm", few)].map(|(n, len)| w.vector(&name(n), len)),
            a: w.vector(&name("a"), r.heads),
            d: w.vector(&name("d"), r.heads),
            output: w.linear(&name("out"), dim, r.inner),
        }
    }
}

impl Mixer for PlamoWeights {
    fn output(&self) -> MatPart {
        self.output
    }

    /// Normed rows `[n, dim]` → `[n, inner]`.
    fn run(&self, p: &mut Builder, f: &Family, Rows { h, state: layer, .. }: Rows<'_>) -> Val {
        let (r, few) = (&self.sizes, self.few);
        let (heads, v_dim) = (r.heads, r.inner / r.heads);
        let cols = |val: Val, at: usize, stride: usize| Cols { val, at, stride };
        let both = p.matmul("ssm_in", h, vec![self.input]); // [n, heads, gate and columns]
        let (rows, x) = (p.parts("ssm_rows", r.inner), p.parts("ssm_x", r.inner));
        p.copy_into(cols(both, v_dim, 2 * v_dim), cols(rows, 0, v_dim), heads, v_dim);
        p.general(General::Conv(Conv {
            x: p.all(rows),
            channels: r.inner,
            weight: self.conv,
            bias: None,
            silu: true,
            layer,
            at: 0,
            out: p.all(x),
            norm: None,
        }));
        let steps = p.matmul("ssm_bcdt", x, vec![self.x]); // [n, 2 * state + few]
        let small = p.parts("ssm_few", few);
        p.copy_into(cols(steps, 2 * r.state, few), cols(small, 0, few), 1, few);
        let (k, q) = (cols(steps, 0, r.state), cols(steps, r.state, r.state));
        for (x, weight) in [k, q, cols(small, 0, few)].into_iter().zip(self.norms) {
            let (kind, len, weight, eps) = (NormKind::Rms, x.stride, Some(weight), f.c.eps);
            p.general(General::Normalize(Normalize {
                kind,
                x,
                groups: 1,
                len,
                weight,
                bias: None,
                gate: None,
                eps,
                out: x,
            }));
        }
        let rate = p.parts("ssm_dt", heads);
        p.narrow_matmul(small, self.dt.weight, few, rate);
        let steps = cols(rate, 0, 1);
        let y = p.parts("ssm_y", r.inner);
        let (v, out) = (cols(x, 0, v_dim), cols(y, 0, v_dim));
        p.general(General::Scan(Scan {
            kind: ScanKind::Mamba,
            heads,
            v_dim,
            k_dim: r.state,
            groups: 1,
            tiled: false,
            q,
            k,
            v,
            decay: None,
            decay_per_column: false,
            rate: Some(steps),
            a: None,
            b: None,
            factor: Some(self.a),
            soft: Some(self.dt_bias),
            skip: Some(self.d),
            scale: 1.0,
            layer,
            at: (r.conv - 1) * r.inner,
            out,
        }));
        let gate = Arg::Cols(cols(both, 0, 2 * v_dim));
        p.map_into(out, (heads, v_dim), (Act::Silu, gate, 1.0), (Join::Mul, Arg::Cols(out)));
        y
    }
}
