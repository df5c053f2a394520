//! Multi-head latent attention in its absorbed form: one head of compressed keys, whose first columns are the values too.

use super::indexer::{Index, Indexed};
use super::{Family, LayerNorm, LayerSpec, Mixer, MixerSpec, Rows};
use crate::weights::Weights;
use pumex_plan::{
    Act, Arg, AttentionSpec, Builder, Cols, General, HeadMatMul, Join, KvSpec, LayerState, MatPart, NormKind,
    Normalize, Rope, RopeNorm, Rotate, Val, Weight,
};

/// Sizes of latent attention.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sizes {
    /// Compressed columns of keys and values.
    pub rank: usize,
    /// Compressed columns of queries; 0 if they are not.
    pub q_rank: usize,
    /// Rotated columns.
    pub rope: usize,
    /// Columns of a query's head.
    pub k_dim: usize,
    /// Columns of a value's head.
    pub v_dim: usize,
    /// Whether keys and values of all heads come of one product, as in older files, and are kept as they are.
    pub expanded: bool,
}

/// Attention over compressed keys and values.
#[derive(Clone, Copy, Debug)]
pub struct LatentAttention(pub Sizes);

impl MixerSpec for LatentAttention {
    fn state(&self, _f: &Family, l: &LayerSpec) -> LayerState {
        let Sizes { rank, rope, k_dim, v_dim, expanded, .. } = self.0;
        let (kv_heads, k_dim, v_dim) = if expanded { (l.heads, k_dim, v_dim) } else { (1, rank + rope, rank) };
        LayerState::KeysValues(KvSpec { kv_heads, k_dim, v_dim, window: l.window() })
    }

    fn declare(&self, w: &mut Weights<'_>, f: &Family, i: usize) -> Box<dyn Mixer> {
        Box::new(Mla::declare(w, f, i, self.0))
    }
}

/// Weights of a layer.
struct Mla {
    sizes: Sizes,
    /// Down to `q_rank` and its norm, if there is one.
    q_a: Option<(MatPart, Weight)>,
    /// `[heads * k_dim, q_rank or dim]`
    q: MatPart,
    /// `[rank + rope, dim]`
    kv_a: MatPart,
    kv_norm: LayerNorm,
    /// `[rope]`, of the key's rotated columns, before their rotation.
    rope_norm: Option<Weight>,
    sinks: Option<Weight>,
    /// `[heads, dim]` or `[heads * v_dim, dim]`: what heads give is multiplied with its sigmoid.
    gate: Option<MatPart>,
    /// `[heads, rank, k_dim - rope]` and `[heads, v_dim, rank]`
    up: Option<[Weight; 2]>,
    /// Or both in one, `[heads * (k_dim - rope + v_dim), rank]`.
    kv_b: Option<MatPart>,
    index: Option<Indexed>,
    /// `[dim, heads * v_dim]`
    output: MatPart,
}

impl Mla {
    /// Declares `blk.N.attn_*`.
    fn declare(w: &mut Weights<'_>, f: &Family, i: usize, s: Sizes) -> Mla {
        let (dim, heads) = (f.c.n_embd, f.layers[i].heads);
        let name = |part: &str| format!("blk.{i}.attn_{part}");
        let narrow = s.k_dim - s.rope;
        // Small models do without; an indexer's queries are products of what is compressed.
        let compressed = s.q_rank > 0 || !matches!(f.layers[i].index, Index::Nothing);
        let q_a = compressed.then(|| {
            let norm = w.vector(&format!("{}.weight", name("q_a_norm")), s.q_rank);
            (w.linear(&name("q_a"), s.q_rank, dim), norm)
        });
        let q = match q_a {
            Some(_) => w.linear(&name("q_b"), heads * s.k_dim, s.q_rank),
            None => w.linear(&name("q"), heads * s.k_dim, dim),
        };
        let gate_dims = w.dims(&format!("{}.weight", name("gate")));
        Mla {
            sizes: s,
            q_a,
            q,
            kv_a: w.linear(&name("kv_a_mqa"), s.rank + s.rope, dim),
            kv_norm: LayerNorm { weight: Some(w.vector(&format!("{}.weight", name("kv_a_norm")), s.rank)), bias: None },
            rope_norm: (s.rope > 0).then(|| w.opt_vector(&format!("{}.weight", name("k_norm")), s.rope)).flatten(),
            sinks: w.opt_vector(&format!("{}.weight", name("sinks")), heads),
            gate: match gate_dims[..] {
                [] => None,
                // Of one head the file has a vector.
                [_] if heads == 1 => {
                    let weight = w.row(&format!("{}.weight", name("gate")), dim);
                    Some(MatPart { weight, bias: None, scale: 1.0 })
                }
                [_, rows] if rows == heads => Some(w.linear(&name("gate"), heads, dim)),
                _ => Some(w.linear(&name("gate"), heads * s.v_dim, dim)),
            },
            up: (!s.expanded).then(|| {
                let k_b = w.heads(&format!("{}.weight", name("k_b")), heads, s.rank, narrow);
                [k_b, w.heads(&format!("{}.weight", name("v_b")), heads, s.v_dim, s.rank)]
            }),
            kv_b: s.expanded.then(|| w.linear(&name("kv_b"), heads * (narrow + s.v_dim), s.rank)),
            index: Indexed::declare(w, f, i, s.q_rank),
            output: w.linear(&name("output"), dim, heads * s.v_dim),
        }
    }

    /// Attention of normed rows `[n, dim]`, before the gate: `[n, heads * v_dim]`.
    fn attend(
        &self,
        p: &mut Builder,
        f: &Family,
        l: &LayerSpec,
        layer: usize,
        (h, list): (Val, &mut Option<Val>),
    ) -> Val {
        let (s, heads) = (self.sizes, l.heads);
        let (wide, narrow) = (s.rank + s.rope, s.k_dim - s.rope);
        let q = match self.q_a {
            Some((down, norm)) => {
                let q = p.matmul("q_a", h, vec![down]); // [n, q_rank]
                let q = p.rms_norm(q, norm, f.c.eps);
                if let Some(index) = &self.index {
                    *list = index.run(p, f, l, (h, q));
                }
                p.matmul("q", q, vec![self.q])
            }
            None => p.matmul("q", h, vec![self.q]),
        }; // [n, heads * k_dim]
        let kv = p.matmul("kv", h, vec![self.kv_a]); // [n, rank + rope]

        let (k_b, v_b) = match (self.up, self.kv_b) {
            (_, Some(kv_b)) => return self.expand(p, f, l, layer, (q, kv, kv_b, *list)),
            (Some([k_b, v_b]), None) => (k_b, v_b),
            (None, None) => return h,
        };
        // Side by side: queries of all heads, the key, the value.
        let qkv = p.parts("qkv", heads * wide + wide + s.rank);
        let group = |at: usize| Cols { val: qkv, at, stride: wide };
        let (weight, out) = (k_b, group(0));
        let x = Cols { val: q, at: 0, stride: s.k_dim };
        p.general(General::HeadMatMul(HeadMatMul { x, weight, heads, out }));
        let table = l.rope.map(|t| f.rotation.tables[t]).filter(|t| t.dims > 0);
        // What is rotated whole need not be copied first.
        let turns_all = table.is_some_and(|t| t.dims == s.rope);
        let q_turned = Cols { at: narrow, ..x };
        if s.rope > 0 && !turns_all {
            p.copy_into(q_turned, group(s.rank), heads, s.rope);
        }
        let LayerNorm { weight, bias } = self.kv_norm;
        let (key, value) = (group(heads * wide), group(heads * wide + wide));
        let x = p.all(kv);
        let norm = Normalize {
            kind: NormKind::Rms,
            x,
            groups: 1,
            len: s.rank,
            weight,
            bias,
            gate: None,
            eps: f.c.eps,
            out: key,
        };
        p.general(General::Normalize(norm));
        p.general(General::Normalize(Normalize { out: value, ..norm }));
        let (x, out) = (Cols { at: s.rank, ..x }, Cols { at: key.at + s.rank, ..key });
        match self.rope_norm {
            None if s.rope == 0 || turns_all => {}
            None => p.copy_into(x, out, 1, s.rope),
            weight => p.general(General::Normalize(Normalize { x, len: s.rope, weight, bias: None, out, ..norm })),
        }
        let rope = Rope {
            style: f.rotation.style,
            dims: table.map_or(0, |t| t.dims),
            table: l.rope.unwrap_or(0),
            norm_eps: f.c.eps,
        };
        let magnitude = table.map_or(1.0, |t| t.scaling.magnitude);
        let turned = |x: Cols, from: Option<Cols>, groups: usize| Rotate {
            x,
            from: from.filter(|_| turns_all),
            groups,
            rope,
            back: false,
            every: 1,
            magnitude,
            temperature: None,
            len: 0,
        };
        if rope.dims > 0 {
            let key = Some(x).filter(|_| self.rope_norm.is_none());
            p.general(General::Rotate(turned(group(s.rank), Some(q_turned), heads)));
            p.general(General::Rotate(turned(group(heads * wide + s.rank), key, 1)));
        }
        if let Some(temperature) = l.temperature {
            let none = Rope { dims: 0, ..rope };
            let all = Rotate { rope: none, temperature: Some(temperature), len: wide, ..turned(group(0), None, heads) };
            p.general(General::Rotate(all));
        }
        let mut spec = AttentionSpec::causal(layer, heads, 1, wide);
        (spec.v_dim, spec.mask, spec.sinks) = (s.rank, l.mask, self.sinks);
        spec.chosen = l.index.choose(*list);
        let kept = RopeNorm { rope: Rope { dims: 0, table: 0, ..rope }, q_norm: None, k_norm: None };
        p.rope_kv(qkv, spec, kept);
        let scale = f.attention.scale.unwrap_or(1.0 / (s.k_dim as f32).sqrt());
        let out = p.attend(qkv, spec, scale); // [n, heads * rank]
        let wide = p.parts("attn_v", heads * s.v_dim);
        let x = Cols { val: out, at: 0, stride: s.rank };
        let out = Cols { val: wide, at: 0, stride: s.v_dim };
        p.general(General::HeadMatMul(HeadMatMul { x, weight: v_b, heads, out }));
        wide
    }

    /// The form of older files: keys and values of every head, `[n, heads * v_dim]`.
    fn expand(
        &self,
        p: &mut Builder,
        f: &Family,
        l: &LayerSpec,
        layer: usize,
        (q, kv, kv_b, list): (Val, Val, MatPart, Option<Val>),
    ) -> Val {
        let (s, heads) = (self.sizes, l.heads);
        let narrow = s.k_dim - s.rope;
        let latent = p.parts("latent", s.rank);
        let (x, out, eps) = (p.all(kv), p.all(latent), f.c.eps);
        let LayerNorm { weight, bias } = self.kv_norm;
        let kind = NormKind::Rms;
        p.general(General::Normalize(Normalize {
            kind,
            x,
            groups: 1,
            len: s.rank,
            weight,
            bias,
            gate: None,
            eps,
            out,
        }));
        let both = p.matmul("kv_b", latent, vec![kv_b]); // [n, heads * (narrow + v_dim)]
        let mut spec = AttentionSpec::causal(layer, heads, heads, s.k_dim);
        (spec.v_dim, spec.mask, spec.sinks) = (s.v_dim, l.mask, self.sinks);
        spec.chosen = l.index.choose(list);
        let qkv = p.parts("qkv", spec.qkv_width());
        let at = |at: usize, stride: usize| Cols { val: qkv, at, stride };
        let (each, keys) = (narrow + s.v_dim, heads * s.k_dim);
        let from = |at: usize| Cols { val: both, at, stride: each };
        p.copy_into(Cols { val: q, at: 0, stride: s.k_dim }, at(0, s.k_dim), heads, s.k_dim);
        p.copy_into(from(0), at(keys, s.k_dim), heads, narrow);
        if s.rope > 0 {
            p.copy_into(Cols { at: s.rank, stride: 0, ..x }, at(keys + narrow, s.k_dim), heads, s.rope);
        }
        p.copy_into(from(narrow), at(spec.v_at(), s.v_dim), heads, s.v_dim);
        let table = l.rope.map(|t| f.rotation.tables[t]).filter(|t| t.dims > 0);
        let dims = table.map_or(0, |t| t.dims);
        let rope = Rope { style: f.rotation.style, dims, table: l.rope.unwrap_or(0), norm_eps: eps };
        if let Some(table) = table {
            let (x, magnitude) = (at(narrow, s.k_dim), table.scaling.magnitude);
            // Keys follow queries, head by head.
            let groups = 2 * heads;
            p.general(General::Rotate(Rotate {
                x,
                from: None,
                groups,
                rope,
                back: false,
                every: 1,
                magnitude,
                temperature: None,
                len: 0,
            }));
        }
        let kept = RopeNorm { rope: Rope { dims: 0, table: 0, ..rope }, q_norm: None, k_norm: None };
        p.rope_kv(qkv, spec, kept);
        p.attend(qkv, spec, f.attention.scale.unwrap_or(1.0 / (s.k_dim as f32).sqrt()))
    }
}

impl Mixer for Mla {
    fn output(&self) -> MatPart {
        self.output
    }

    /// Normed rows `[n, dim]` → `[n, heads * v_dim]`.
    fn run(&self, p: &mut Builder, f: &Family, Rows { h, layer: l, state, handed }: Rows<'_>) -> Val {
        let out = self.attend(p, f, l, state, (h, handed));
        let Some(gate) = self.gate else { return out };
        let (gate, v_dim) = (p.matmul("gate", h, vec![gate]), self.sizes.v_dim);
        let all = Cols { val: out, at: 0, stride: v_dim };
        let by = match p.width_of(gate) == l.heads {
            true => Arg::PerGroup(Cols { val: gate, at: 0, stride: 1 }),
            false => Arg::Cols(Cols { val: gate, at: 0, stride: v_dim }),
        };
        p.map_into(all, (l.heads, v_dim), (Act::Sigmoid, by, 1.0), (Join::Mul, Arg::Cols(all)));
        out
    }
}
