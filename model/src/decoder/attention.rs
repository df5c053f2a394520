//! Attention of the shared decoder: one product or three, norms of q and k, rotation, gates.

use super::indexer::Indexed;
use super::{Family, LayerNorm, LayerSpec, Mixer, MixerSpec, Rows};
use crate::weights::Weights;
use pumex_plan::{
    Act, Arg, AttentionSpec, Builder, Cols, General, Join, KvSpec, LayerState, MatPart, NormKind, Normalize, Rope,
    RopeNorm, Rotate, Val, Weight,
};
use std::fmt::Debug;

/// What attention of all layers has.
#[derive(Clone, Copy, Debug)]
pub struct AttentionOptions {
    /// Factor of scores; none takes the root of the head's width.
    pub scale: Option<f32>,
    /// Scores become `cap * tanh(x / cap)`.
    pub cap: Option<f32>,
    /// Largest bias of ALiBi.
    pub alibi: Option<f32>,
    /// Limit of q, k and v.
    pub clamp: Option<f32>,
    /// Norms of q and k.
    pub qk_norm: QkNorm,
    /// Whether values are normed, without weights.
    pub v_norm: bool,
    /// Whether queries come with a gate of what heads give, side by side.
    pub q_gated: bool,
    /// What becomes of the gate of what heads give, where that has a product of its own.
    pub gate: HeadGate,
}

impl AttentionOptions {
    /// Llama's.
    pub const USUAL: AttentionOptions = AttentionOptions {
        scale: None,
        cap: None,
        alibi: None,
        clamp: None,
        qk_norm: QkNorm { kind: None, by_head: false, place: QkPlace::Before },
        v_norm: false,
        q_gated: false,
        gate: HeadGate::Sigmoid,
    };
}

/// What becomes of a gate `x` before it is multiplied with what heads give.
#[derive(Clone, Copy, Debug)]
pub enum HeadGate {
    /// Its sigmoid.
    Sigmoid,
    /// `ln(1 + e^x)`
    Softplus,
    /// `log2(1 + 2^x)`
    SoftplusOf2,
}

impl HeadGate {
    /// The activation, and what `x` is multiplied with before and divided by afterwards.
    fn act(self) -> (Act, f32) {
        match self {
            HeadGate::Sigmoid => (Act::Sigmoid, 1.0),
            HeadGate::Softplus => (Act::Softplus, 1.0),
            // Softplus of x * ln 2, divided by ln 2.
            HeadGate::SoftplusOf2 => (Act::Softplus, std::f32::consts::LN_2),
        }
    }
}

/// Norms of q and k, which are there if the file has their weights.
#[derive(Clone, Copy, Debug)]
pub struct QkNorm {
    /// Their kind and epsilon, where these are not those of rows.
    pub kind: Option<(NormKind, f32)>,
    /// Whether heads have norms of their own, which the file has one after the other.
    pub by_head: bool,
    /// Where they stand.
    pub place: QkPlace,
}

/// Where norms of q and k stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QkPlace {
    /// Before their rotation.
    Before,
    /// After their rotation.
    After,
    /// After their rotation and without weights, where they rotate.
    AfterWithoutWeights,
}

/// What gives values in place of a product.
pub trait Values: Debug {
    /// Declares the weights of layer `i`.
    fn declare(&self, w: &mut Weights<'_>, f: &Family, i: usize) -> Box<dyn GiveValues>;
}

/// What gives values, with a layer's weights.
pub trait GiveValues {
    /// Normed rows `h` `[n, dim]` → the columns `v` `[n, kv_heads * v_dim]`.
    fn run(&self, p: &mut Builder, f: &Family, h: Val, v: Cols);
}

/// Attention over heads.
#[derive(Debug)]
pub struct Attention;

impl MixerSpec for Attention {
    fn state(&self, _f: &Family, l: &LayerSpec) -> LayerState {
        match l.kv_of {
            Some(_) => LayerState::Nothing,
            None => LayerState::KeysValues(KvSpec {
                kv_heads: l.kv_heads,
                k_dim: l.k_dim,
                v_dim: l.v_dim,
                window: l.window(),
            }),
        }
    }

    fn declare(&self, w: &mut Weights<'_>, f: &Family, i: usize) -> Box<dyn Mixer> {
        Box::new(AttentionWeights::declare(w, f, i))
    }
}

/// Weights of one attention block.
struct AttentionWeights {
    /// q, k and v, side by side; one or three matrices.
    qkv: Vec<MatPart>,
    /// Biases of q, of k and of v, where the matrix is one and the biases are three.
    biases: [Option<Weight>; 3],
    /// Whether keys are the values too, before their norm.
    keys_are_values: bool,
    /// What gives values instead of the product with v.
    values: Option<Box<dyn GiveValues>>,
    q_norm: Option<HeadNorm>,
    k_norm: Option<HeadNorm>,
    /// `[heads]`, of queries after all else.
    q_gain: Option<Weight>,
    sinks: Option<Weight>,
    /// `[heads * v_dim]`, of what heads give.
    sub_norm: Option<LayerNorm>,
    /// `[heads * v_dim, dim]` or `[heads, dim]`: what heads give is multiplied with its sigmoid.
    gate: Option<MatPart>,
    index: Option<Indexed>,
    /// `[dim, heads * v_dim]`
    output: MatPart,
}

/// A norm of q or of k.
#[derive(Clone, Copy)]
struct HeadNorm {
    norm: LayerNorm,
    /// Whether one goes over all heads together.
    whole: bool,
    /// Whether all heads have the same factors.
    shared: bool,
}

impl HeadNorm {
    fn declare(w: &mut Weights<'_>, name: &str, heads: usize, dim: usize, by_head: bool) -> Option<HeadNorm> {
        let dims = w.dims(&format!("{name}.weight"));
        let (whole, shared) = match dims[..] {
            [] | [1, _] => return None,
            [_] if by_head => (false, false),
            [len] => (len != dim && len == heads * dim, len == dim),
            _ => (false, false),
        };
        let shape = match (whole, shared) {
            _ if by_head => vec![heads * dim],
            (true, _) => vec![heads * dim],
            (_, true) => vec![dim],
            _ => vec![dim, heads],
        };
        let norm = LayerNorm {
            weight: Some(w.table(&format!("{name}.weight"), &shape)),
            bias: w.opt_table(&format!("{name}.bias"), &shape),
        };
        Some(HeadNorm { norm, whole, shared })
    }

    /// Whether rotation can take it along.
    fn folds(&self, f: &Family) -> bool {
        let kind = f.attention.qk_norm.kind.map_or(f.norms.kind, |(kind, _)| kind);
        self.shared && self.norm.bias.is_none() && kind == NormKind::Rms && f.attention.qk_norm.place != QkPlace::After
    }
}

impl AttentionWeights {
    /// Declares `blk.N.attn_*`.
    fn declare(w: &mut Weights<'_>, f: &Family, i: usize) -> AttentionWeights {
        let (l, dim) = (&f.layers[i], f.c.n_embd);
        let name = |part: &str| format!("blk.{i}.attn_{part}");
        let rows =
            [l.heads * l.k_dim * (1 + usize::from(f.attention.q_gated)), l.kv_heads * l.k_dim, l.kv_heads * l.v_dim];
        let mut biases = [None; 3];
        let weight = |part: &str| format!("{}.weight", name(part));
        let values = l.values.as_ref().map(|values| values.declare(w, f, i));
        let qkv = if w.has_rather(&weight("qkv"), &weight("q")) {
            let fused = w.linear(&name("qkv"), rows.iter().sum(), dim);
            if fused.bias.is_none() {
                // Only all three together are read.
                let parts = [0, 1, 2].map(|j| w.opt_vector(&format!("{}.bias", name(["q", "k", "v"][j])), rows[j]));
                biases = if parts.iter().all(Option::is_some) { parts } else { [None; 3] };
            }
            vec![fused]
        } else {
            let parts = match l.kv_of {
                Some(_) => &["q"][..],
                None if values.is_some() => &["q", "k"],
                None if !w.has(&weight("v")) && f.attention.v_norm => &["q", "k"],
                None => &["q", "k", "v"],
            };
            if l.kv_of.is_some() {
                for part in ["k", "v", "k_norm"] {
                    w.pass_over(&weight(part));
                    w.ignore(&format!("{}.", name(part)));
                }
            }
            parts.iter().zip(rows).map(|(part, rows)| w.linear(&name(part), rows, dim)).collect::<Vec<_>>()
        };
        let gate_rows = w.dims(&format!("{}.weight", name("gate"))).get(1).copied().unwrap_or(0);
        AttentionWeights {
            keys_are_values: l.kv_of.is_none() && qkv.len() == 2 && values.is_none(),
            values,
            qkv,
            biases,
            q_norm: HeadNorm::declare(w, &name("q_norm"), l.heads, l.k_dim, f.attention.qk_norm.by_head),
            q_gain: (w.dims(&format!("{}.weight", name("q_norm"))).first() == Some(&1))
                .then(|| w.table(&format!("{}.weight", name("q_norm")), &[1, l.heads])),
            k_norm: match l.kv_of {
                Some(_) => None,
                None => HeadNorm::declare(w, &name("k_norm"), l.kv_heads, l.k_dim, f.attention.qk_norm.by_head),
            },
            sinks: w.opt_vector(&format!("{}.weight", name("sinks")), l.heads),
            sub_norm: LayerNorm::declare(w, &name("sub_norm"), l.heads * l.v_dim),
            gate: [l.heads * l.v_dim, l.heads].contains(&gate_rows).then(|| w.linear(&name("gate"), gate_rows, dim)),
            index: Indexed::declare(w, f, i, dim),
            output: w.linear(&name("output"), dim, l.heads * l.v_dim),
        }
    }

    /// Queries, keys and values of normed rows `h` `[n, dim]`: the product, and `[n, heads * k_dim + kv_heads * (k_dim + v_dim)]`, which
    /// is the product if that has them side by side.
    fn multiply(&self, p: &mut Builder, f: &Family, l: &LayerSpec, (h, spec): (Val, &AttentionSpec)) -> (Val, Val) {
        let product = p.matmul("qkv", h, self.qkv.clone()); // [n, heads * k_dim + kv_heads * (k_dim + v_dim)]
        let qkv = match f.attention.q_gated {
            true => part_gates(p, spec, product),
            false if p.width_of(product) < spec.qkv_width() => {
                let (all, wide) = (p.parts("qkv", spec.qkv_width()), p.width_of(product));
                p.copy_into(p.all(product), p.all(all), 1, wide);
                all
            }
            false => product,
        };
        if self.keys_are_values {
            let k = Cols { val: qkv, at: l.heads * l.k_dim, stride: 0 };
            p.copy_into(k, Cols { at: spec.v_at(), ..k }, 1, l.kv_heads * l.v_dim);
        }
        if let Some(values) = &self.values {
            let v = Cols { val: qkv, at: spec.v_at(), stride: l.kv_heads * l.v_dim };
            values.run(p, f, h, v);
        }
        if f.attention.v_norm && l.kv_of.is_none() {
            let v = Cols { val: qkv, at: spec.v_at(), stride: l.v_dim };
            let bare = HeadNorm { norm: LayerNorm { weight: None, bias: None }, whole: false, shared: true };
            self.normalize_heads(p, f, Some(bare), v, l.kv_heads, l.v_dim);
        }
        self.add_biases(p, f, l, qkv);
        (product, qkv)
    }

    /// Norms and rotates queries and keys in place, and keeps keys and values; says what scores are to be multiplied with.
    fn rotate(&self, p: &mut Builder, f: &Family, l: &LayerSpec, (qkv, spec): (Val, AttentionSpec)) -> f32 {
        let table = l.rope.map(|t| f.rotation.tables[t]);
        let magnitude = table.map_or(1.0, |t| t.scaling.magnitude);
        let whole = table.is_some_and(|t| t.dims == l.k_dim);
        let (temperature, place) = (l.temperature, f.attention.qk_norm.place);
        let folds = [self.q_norm, self.k_norm].iter().flatten().all(|n| n.folds(f));
        let plain = folds && temperature.is_none() && (magnitude == 1.0 || whole);
        let root = 1.0 / (l.k_dim as f32).sqrt();
        let mut scale = f.attention.scale.unwrap_or(root);
        let rope = Rope {
            style: f.rotation.style,
            dims: table.map_or(0, |t| t.dims),
            table: l.rope.unwrap_or(0),
            norm_eps: f.c.eps,
        };
        if plain && place != QkPlace::AfterWithoutWeights && l.kv_of.is_none() {
            scale *= magnitude * magnitude;
            let norm = |n: Option<HeadNorm>| n.and_then(|n| n.norm.weight);
            p.rope_kv(qkv, spec, RopeNorm { rope, q_norm: norm(self.q_norm), k_norm: norm(self.k_norm) });
        } else {
            let q = Cols { val: qkv, at: 0, stride: l.k_dim };
            let k = Cols { at: l.heads * l.k_dim, ..q };
            let turned = Rotate {
                x: q,
                from: None,
                groups: l.heads,
                rope,
                back: false,
                every: 1,
                magnitude,
                temperature,
                len: l.k_dim,
            };
            let norms = |p: &mut Builder| {
                self.normalize_heads(p, f, self.q_norm, q, l.heads, l.k_dim);
                self.normalize_heads(p, f, self.k_norm, k, l.kv_heads, l.k_dim);
            };
            if place != QkPlace::After {
                norms(p);
            }
            if rope.dims > 0 || temperature.is_some() {
                p.general(General::Rotate(turned));
            }
            if rope.dims > 0 && l.kv_of.is_none() {
                p.general(General::Rotate(Rotate { x: k, groups: l.kv_heads, temperature: None, ..turned }));
            }
            if place == QkPlace::After {
                norms(p);
            }
            if place == QkPlace::AfterWithoutWeights && rope.dims > 0 {
                let bare = Some(HeadNorm { norm: LayerNorm { weight: None, bias: None }, whole: false, shared: true });
                self.normalize_heads(p, f, bare, q, l.heads, l.k_dim);
                self.normalize_heads(p, f, bare, k, l.kv_heads, l.k_dim);
            }
            if let Some(gain) = self.q_gain {
                p.map_into(q, (l.heads, l.k_dim), (Act::Same, Arg::Cols(q), 1.0), (Join::Mul, Arg::GroupWeight(gain)));
            }
            let kept = RopeNorm { rope: Rope { dims: 0, table: 0, ..rope }, q_norm: None, k_norm: None };
            if l.kv_of.is_none() {
                p.rope_kv(qkv, spec, kept);
            }
        }
        scale
    }

    /// Adds biases that the products have not, and limits what comes out.
    fn add_biases(&self, p: &mut Builder, f: &Family, l: &LayerSpec, qkv: Val) {
        let widths = [l.heads * l.k_dim, l.kv_heads * l.k_dim, l.kv_heads * l.v_dim];
        let mut at = 0;
        for (bias, width) in self.biases.iter().zip(widths) {
            if let Some(bias) = bias {
                let cols = Cols { val: qkv, at, stride: width };
                p.map_into(cols, (1, width), (Act::Same, Arg::Cols(cols), 1.0), (Join::Add, Arg::Weight(*bias)));
            }
            at += width;
        }
        if let Some(limit) = f.attention.clamp {
            let all = p.all(qkv);
            let clamp = (Act::Clamp(-limit, limit), Arg::Cols(all), 1.0);
            p.map_into(all, (1, all.stride), clamp, (Join::Add, Arg::Number(0.0)));
        }
    }

    fn normalize_heads(&self, p: &mut Builder, f: &Family, norm: Option<HeadNorm>, x: Cols, heads: usize, dim: usize) {
        let Some(HeadNorm { norm: LayerNorm { weight, bias }, whole, .. }) = norm else { return };
        let (groups, len) = if whole { (1, heads * dim) } else { (heads, dim) };
        let (kind, eps) = f.attention.qk_norm.kind.unwrap_or((f.norms.kind, f.c.eps));
        p.general(General::Normalize(Normalize { kind, x, groups, len, weight, bias, gate: None, eps, out: x }));
    }

    fn gate(&self, p: &mut Builder, f: &Family, l: &LayerSpec, h: Val, out: Val) -> Val {
        if let Some(gate) = self.gate {
            let (act, scale) = f.attention.gate.act();
            let gate = p.matmul("gate", h, vec![MatPart { scale: gate.scale * scale, ..gate }]);
            let all = Cols { val: out, at: 0, stride: l.v_dim };
            let by = match p.width_of(gate) == l.heads {
                true => Arg::PerGroup(Cols { val: gate, at: 0, stride: 1 }),
                false => Arg::Cols(Cols { val: gate, at: 0, stride: l.v_dim }),
            };
            p.map_into(all, (l.heads, l.v_dim), (act, by, 1.0 / scale), (Join::Mul, Arg::Cols(all)));
        }
        match self.sub_norm {
            Some(LayerNorm { weight, bias }) => p.normalize(f.norms.kind, out, weight, bias, f.c.eps),
            None => out,
        }
    }
}

impl Mixer for AttentionWeights {
    fn output(&self) -> MatPart {
        self.output
    }

    /// Attention of normed rows `h` `[n, dim]` → `[n, heads * v_dim]`.
    fn run(&self, p: &mut Builder, f: &Family, rows: Rows<'_>) -> Val {
        let Rows { h, layer: l, state: layer, handed: list } = rows;
        if let Some(index) = &self.index {
            *list = index.run(p, f, l, (h, h));
        }
        let mut spec = AttentionSpec::causal(l.kv_of.unwrap_or(layer), l.heads, l.kv_heads, l.k_dim);
        spec.v_dim = l.v_dim;
        spec.mask = l.mask;
        spec.soft_cap = f.attention.cap;
        spec.sinks = self.sinks;
        spec.alibi = f.attention.alibi;
        spec.chosen = l.index.choose(*list);
        let (product, qkv) = self.multiply(p, f, l, (h, &spec));
        let scale = self.rotate(p, f, l, (qkv, spec));
        let out = p.attend(qkv, spec, scale); // [n, heads * v_dim]
        if f.attention.q_gated {
            let all = Cols { val: out, at: 0, stride: l.v_dim };
            let by = Arg::Cols(Cols { val: product, at: l.k_dim, stride: 2 * l.k_dim });
            p.map_into(all, (l.heads, l.v_dim), (Act::Sigmoid, by, 1.0), (Join::Mul, Arg::Cols(all)));
        }
        self.gate(p, f, l, h, out)
    }
}

/// q, k and v of a product in which each query's head has its gate behind it.
fn part_gates(p: &mut Builder, s: &AttentionSpec, product: Val) -> Val {
    let (hd, q) = (s.head_dim, s.heads * s.head_dim);
    let qkv = p.parts("qkv", s.qkv_width());
    p.copy_into(Cols { val: product, at: 0, stride: 2 * hd }, Cols { val: qkv, at: 0, stride: hd }, s.heads, hd);
    let rest = s.qkv_width() - q;
    p.copy_into(Cols { val: product, at: 2 * q, stride: rest }, Cols { val: qkv, at: q, stride: rest }, 1, rest);
    qkv
}
