//! Gated delta nets of Qwen3-Next and Qwen3.5, and Kimi's delta attention: a convolution over the last rows, keys and queries of
//! length one, a state per head that a delta rule writes.

use super::{Family, LayerSpec, Mixer, MixerSpec, Recurrent, Rows};
use crate::config::Reader;
use crate::weights::Weights;
use pumex_gguf::Result;
use pumex_plan::{
    Act, Arg, Builder, Cols, Conv, General, Join, LayerState, MatPart, NormGate, NormKind, Normalize, Scan, ScanKind,
    Val, Weight,
};

/// A gated delta net.
#[derive(Clone, Copy, Debug)]
pub struct DeltaNet {
    /// Sizes.
    pub sizes: Recurrent,
    /// Whether heads take groups in turn instead of side by side.
    pub tiled: bool,
    /// What becomes of the gate of what heads give.
    pub gate: Act,
}

impl MixerSpec for DeltaNet {
    fn state(&self, _f: &Family, _l: &LayerSpec) -> LayerState {
        self.sizes.keep(self.sizes.channels(), self.sizes.heads, self.sizes.v_dim())
    }

    fn declare(&self, w: &mut Weights<'_>, f: &Family, i: usize) -> Box<dyn Mixer> {
        Box::new(Delta::declare(w, f, i, *self))
    }
}

/// Weights of a gated delta net.
struct Delta {
    spec: DeltaNet,
    /// `[2 * groups * state + inner, dim]`: queries, keys, values.
    qkv: Option<(MatPart, MatPart)>,
    /// In older files: queries, keys, values and gates, group by group.
    qkvz: Option<MatPart>,
    /// `[heads, dim]`: how much is written, how much fades.
    beta_alpha: Option<[MatPart; 2]>,
    /// In older files: both, group by group.
    ba: Option<MatPart>,
    conv: Weight,
    dt: Weight,
    a: Weight,
    norm: Weight,
    /// `[dim, inner]`
    output: MatPart,
}

fn cols(val: Val, at: usize, stride: usize) -> Cols {
    Cols { val, at, stride }
}

impl Delta {
    /// Declares `blk.N.ssm_*`, `attn_qkv` and `attn_gate`.
    fn declare(w: &mut Weights<'_>, f: &Family, i: usize, spec: DeltaNet) -> Delta {
        let (r, dim) = (&spec.sizes, f.c.n_embd);
        let name = |part: &str| format!("blk.{i}.ssm_{part}");
        let channels = r.channels();
        let linear = |w: &mut Weights<'_>, name: &str, rows: usize| w.linear(name, rows, dim);
        let (qkv, gate) = (format!("blk.{i}.attn_qkv"), format!("blk.{i}.attn_gate"));
        let split = w.has_rather(&format!("{qkv}.weight"), &format!("{}.weight", name("in")));
        let qkv = split.then(|| (linear(w, &qkv, channels), linear(w, &gate, r.inner)));
        let qkvz = (!split).then(|| linear(w, &name("in"), channels + r.inner));
        w.ignore(&name("in")); // where there are both
        let one = w.has_rather(&format!("{}.weight", name("ba")), &format!("{}.weight", name("beta")));
        Delta {
            spec,
            qkv,
            qkvz,
            beta_alpha: (!one).then(|| ["beta", "alpha"].map(|part| linear(w, &name(part), r.heads))),
            ba: one.then(|| linear(w, &name("ba"), 2 * r.heads)),
            conv: w.table(&format!("{}.weight", name("conv1d")), &[r.conv, channels]),
            dt: w.vector(&format!("{}.bias", name("dt")), r.heads),
            a: w.vector(&name("a"), r.heads),
            norm: w.vector(&format!("{}.weight", name("norm")), r.inner / r.heads.max(1)),
            output: w.linear(&name("out"), dim, r.inner),
        }
    }
}

impl Mixer for Delta {
    fn output(&self) -> MatPart {
        self.output
    }

    /// Normed rows `[n, dim]` → `[n, inner]`.
    fn run(&self, p: &mut Builder, f: &Family, Rows { h, state: layer, .. }: Rows<'_>) -> Val {
        let r = &self.spec.sizes;
        let (keys, v_dim, each) = (r.groups * r.state, r.inner / r.heads, r.heads / r.groups);
        let channels = r.channels();
        let (mixed, gate) = match (&self.qkv, &self.qkvz) {
            (Some((qkv, gate)), _) => (p.matmul("qkv", h, vec![*qkv]), p.matmul("z", h, vec![*gate])),
            (None, Some(both)) => {
                let all = p.matmul("qkvz", h, vec![*both]);
                let (mixed, gate) = (p.parts("qkv", channels), p.parts("z", r.inner));
                let (group, wide) = (2 * r.state + 2 * each * v_dim, each * v_dim);
                p.copy_into(cols(all, 0, group), cols(mixed, 0, r.state), r.groups, r.state);
                p.copy_into(cols(all, r.state, group), cols(mixed, keys, r.state), r.groups, r.state);
                p.copy_into(cols(all, 2 * r.state, group), cols(mixed, 2 * keys, wide), r.groups, wide);
                p.copy_into(cols(all, 2 * r.state + wide, group), cols(gate, 0, wide), r.groups, wide);
                (mixed, gate)
            }
            (None, None) => (h, h),
        };
        let steps = match (&self.beta_alpha, &self.ba) {
            (Some(parts), _) => p.matmul("beta_alpha", h, parts.to_vec()),
            (None, ba) => {
                let steps = p.parts("steps", 2 * r.heads);
                if let Some(ba) = ba {
                    let both = p.matmul("beta_alpha", h, vec![*ba]);
                    p.copy_into(cols(both, 0, 2 * each), cols(steps, 0, each), r.groups, each);
                    p.copy_into(cols(both, each, 2 * each), cols(steps, r.heads, each), r.groups, each);
                }
                steps
            }
        };
        let (beta, alpha) = (cols(steps, 0, 1), cols(steps, r.heads, 1));
        let x = p.parts("conv", channels);
        let conv = Conv {
            x: cols(mixed, 0, channels),
            channels,
            weight: self.conv,
            bias: None,
            silu: true,
            layer,
            at: 0,
            out: cols(x, 0, channels),
            norm: None,
        };
        p.general(General::Conv(conv));
        let (q, k) = (cols(x, 0, r.state), cols(x, keys, r.state));
        make_unit(p, f.c.eps, q, (2 * r.groups, r.state)); // keys follow queries
        let y = p.parts("delta", r.inner);
        let out = cols(y, 0, v_dim);
        p.general(General::Scan(Scan {
            kind: ScanKind::Delta,
            heads: r.heads,
            v_dim,
            k_dim: r.state,
            groups: r.groups,
            tiled: self.spec.tiled,
            q,
            k,
            v: cols(x, 2 * keys, v_dim),
            decay: Some(alpha),
            decay_per_column: false,
            rate: Some(beta),
            a: None,
            b: None,
            factor: Some(self.a),
            soft: Some(self.dt),
            skip: None,
            scale: 1.0 / (r.state as f32).sqrt(),
            layer,
            at: (r.conv - 1) * channels,
            out,
        }));
        normalize_heads(p, f, out, (r.heads, v_dim), self.norm, (self.spec.gate, cols(gate, 0, v_dim)));
        y
    }
}

/// Groups of columns of length one: `x / sqrt(Σ x² + eps)`.
fn make_unit(p: &mut Builder, eps: f32, x: Cols, (groups, len): (usize, usize)) {
    let kind = NormKind::Unit;
    p.general(General::Normalize(Normalize {
        kind,
        x,
        groups,
        len,
        weight: None,
        bias: None,
        gate: None,
        eps,
        out: x,
    }));
}

/// A norm of each head's columns, gated afterwards.
fn normalize_heads(
    p: &mut Builder,
    f: &Family,
    x: Cols,
    (groups, len): (usize, usize),
    weight: Weight,
    (act, by): (Act, Cols),
) {
    let (kind, weight, eps) = (NormKind::Rms, Some(weight), f.c.eps);
    let gate = Some(NormGate { cols: by, act, first: false });
    p.general(General::Normalize(Normalize { kind, x, groups, len, weight, bias: None, gate, eps, out: x }));
}

/// A product, or two after each other; their names, from the last one on.
fn multiply_all(p: &mut Builder, h: Val, parts: &[MatPart], names: [&'static str; 2]) -> Val {
    let names = names.iter().take(parts.len()).rev();
    parts.iter().zip(names).fold(h, |x, (part, name)| p.matmul(name, x, vec![*part]))
}

/// Kimi's delta attention, with a decay for each column.
#[derive(Clone, Copy, Debug)]
pub struct KimiDelta {
    /// Sizes.
    pub sizes: Recurrent,
    /// What columns fade by at most, below 0, and the sign of what `ssm_a` is in the file; without it they fade by softplus.
    pub bound: Option<(f32, f32)>,
    /// Added to the square of keys' and queries' length.
    pub eps: f32,
}

impl KimiDelta {
    /// Reads sizes; columns fade by softplus.
    ///
    /// # Errors
    /// `bad_hparam`.
    pub fn read(f: &Family, r: &Reader<'_>) -> Result<KimiDelta> {
        let conv = r.int("ssm.conv_kernel", None, 2, 64)?;
        let state = r.int("kda.head_dim", None, 1, 512)?;
        let heads = f.c.n_head.iter().copied().max().unwrap_or(0);
        let sizes = Recurrent { conv, inner: heads * state, state, heads, groups: heads };
        Ok(KimiDelta { sizes, bound: None, eps: f.c.eps })
    }

    /// Reads the bound of fading, if there is one.
    ///
    /// # Errors
    /// `bad_hparam`.
    pub fn bounded(self, r: &Reader<'_>) -> Result<KimiDelta> {
        let bound = r.float("kda.gate_lower_bound", Some(f32::NEG_INFINITY), f32::NEG_INFINITY, 0.0)?;
        // The file's factors have the sign that softplus wants.
        Ok(KimiDelta { bound: (bound > f32::NEG_INFINITY).then_some((bound, -1.0)), ..self })
    }
}

impl MixerSpec for KimiDelta {
    fn state(&self, _f: &Family, _l: &LayerSpec) -> LayerState {
        let r = &self.sizes;
        r.keep(3 * r.inner, r.heads, r.state)
    }

    fn declare(&self, w: &mut Weights<'_>, f: &Family, i: usize) -> Box<dyn Mixer> {
        Box::new(Kda::declare(w, f, i, *self))
    }
}

/// Weights of Kimi's delta attention.
struct Kda {
    spec: KimiDelta,
    /// Queries, keys, values.
    qkv: Vec<MatPart>,
    convs: [Weight; 3],
    /// How much each column fades: one product, or down and up.
    fade: Vec<MatPart>,
    dt: Weight,
    /// `[heads]`
    a: Weight,
    beta: MatPart,
    /// The gate: one product, or down and up.
    gate: Vec<MatPart>,
    norm: Weight,
    /// `[dim, heads * state]`
    output: MatPart,
}

impl Kda {
    /// Declares `blk.N.ssm_*` and `attn_{q,k,v,output}`.
    fn declare(w: &mut Weights<'_>, f: &Family, i: usize, spec: KimiDelta) -> Kda {
        let (r, dim) = (&spec.sizes, f.c.n_embd);
        let name = |part: &str| format!("blk.{i}.ssm_{part}");
        let conv = |w: &mut Weights<'_>, part: &str| {
            let name = format!("{}.weight", name(&format!("conv1d_{part}")));
            let dims = w.dims(&name);
            w.table(&name, &dims)
        };
        let products = |w: &mut Weights<'_>, names: [String; 2]| match w.has(&format!("{}.weight", names[1])) {
            true => vec![w.linear(&names[0], r.state, dim), w.linear(&names[1], r.inner, r.state)],
            false => vec![w.linear(&names[0], r.inner, dim)],
        };
        let whole = w.has(&format!("{}.weight", name("g")));
        let gate = if whole { ["g", ""] } else { ["g_a", "g_b"] }.map(name);
        let a_dims = w.dims(&name("a"));
        let beta_dims = w.dims(&format!("{}.weight", name("beta")));
        w.ignore(&format!("{}.", name("beta")));
        Kda {
            spec,
            qkv: ["q", "k", "v"].map(|part| w.linear(&format!("blk.{i}.attn_{part}"), r.inner, dim)).to_vec(),
            convs: ["q", "k", "v"].map(|part| conv(w, part)),
            fade: products(w, ["f_a", "f_b"].map(name)),
            dt: w.vector(&format!("{}.bias", name("dt")), r.inner),
            a: w.table(&name("a"), &a_dims),
            beta: match beta_dims.len() {
                1 => MatPart { weight: w.row(&format!("{}.weight", name("beta")), dim), bias: None, scale: 1.0 },
                _ => w.linear(&name("beta"), r.heads, dim),
            },
            gate: products(w, gate),
            norm: w.vector(&format!("{}.weight", name("norm")), r.state),
            output: w.linear_unscaled(&format!("blk.{i}.attn_output"), dim, r.inner),
        }
    }
}

impl Mixer for Kda {
    fn output(&self) -> MatPart {
        self.output
    }

    /// Normed rows `[n, dim]` → `[n, heads * state]`.
    fn run(&self, p: &mut Builder, f: &Family, Rows { h, state: layer, .. }: Rows<'_>) -> Val {
        let r = &self.spec.sizes;
        let mixed = p.matmul("qkv", h, self.qkv.clone()); // [n, 3 * inner]
        let x = p.parts("conv", 3 * r.inner);
        for (part, weight) in self.convs.iter().enumerate() {
            let at = (r.conv - 1) * part * r.inner;
            let (from, out) = (cols(mixed, part * r.inner, r.inner), cols(x, part * r.inner, r.inner));
            let (channels, weight) = (r.inner, *weight);
            p.general(General::Conv(Conv {
                x: from,
                channels,
                weight,
                bias: None,
                silu: true,
                layer,
                at,
                out,
                norm: None,
            }));
        }
        let fade = multiply_all(p, h, &self.fade, ["fade", "fade_a"]); // [n, inner]
        let all = p.all(fade);
        p.map_into(all, (1, r.inner), (Act::Same, Arg::Cols(all), 1.0), (Join::Add, Arg::Weight(self.dt)));
        let heads = cols(fade, 0, r.state);
        let (shape, by) = ((r.heads, r.state), (Join::Mul, Arg::GroupWeight(self.a)));
        match self.spec.bound {
            None => p.map_into(heads, shape, (Act::Softplus, Arg::Cols(heads), 1.0), by),
            Some((bound, sign)) => {
                p.map_into(heads, shape, (Act::Same, Arg::Cols(heads), sign), by);
                let bounded = (Act::Sigmoid, Arg::Cols(heads), bound);
                p.map_into(heads, shape, bounded, (Join::Add, Arg::Number(0.0)));
            }
        }
        let beta = p.matmul("beta", h, vec![self.beta]); // [n, heads]
        let rate = cols(beta, 0, 1);
        p.map_into(rate, (1, r.heads), (Act::Sigmoid, Arg::Cols(rate), 1.0), (Join::Add, Arg::Number(0.0)));
        let (q, k, v) = (cols(x, 0, r.state), cols(x, r.inner, r.state), cols(x, 2 * r.inner, r.state));
        make_unit(p, self.spec.eps, q, (2 * r.heads, r.state)); // keys follow queries
        let y = p.parts("delta", r.inner);
        let out = cols(y, 0, r.state);
        p.general(General::Scan(Scan {
            kind: ScanKind::Delta,
            heads: r.heads,
            v_dim: r.state,
            k_dim: r.state,
            groups: r.heads,
            tiled: false,
            q,
            k,
            v,
            decay: Some(heads),
            decay_per_column: true,
            rate: Some(rate),
            a: None,
            b: None,
            factor: None,
            soft: None,
            skip: None,
            scale: 1.0 / (r.state as f32).sqrt(),
            layer,
            at: (r.conv - 1) * 3 * r.inner,
            out,
        }));
        let gate = multiply_all(p, h, &self.gate, ["gate", "gate_a"]);
        normalize_heads(p, f, out, (r.heads, r.state), self.norm, (Act::Sigmoid, cols(gate, 0, r.state)));
        y
    }
}
