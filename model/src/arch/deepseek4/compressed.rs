//! DeepSeek 4's attention: over the last rows, and over entries that a softmax makes of each block of rows, in some layers of short
//! blocks that overlap, in others of long ones. One key of a row is all heads' key and value; heads give in groups.

use crate::decoder::{Family, LayerSpec, Mixer, MixerSpec, Rows};
use crate::weights::Weights;
use pumex_plan::{
    AttendBlocks, Builder, ChooseBlocks, Cols, Entries, General, HeadMatMul, LayerState, MatPart, NormKind, Normalize,
    Pool, RecurrentSpec, Rope, Rotate, Val, Weight, ENTRIES,
};

/// Sizes of attention over blocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Blocks {
    /// Compressed columns of queries.
    pub q_rank: usize,
    /// Rotated columns, the last ones of a head.
    pub rope: usize,
    /// Groups of heads.
    pub groups: usize,
    /// Columns that a group gives.
    pub rank: usize,
    /// Rows that a row sees.
    pub window: usize,
    /// Positions of a context.
    pub n_ctx: usize,
    /// What chooses among short blocks: heads, columns of a head, and how many are chosen.
    pub index: [usize; 3],
}

/// Blocks of so many rows overlap.
pub const OVERLAPPING: usize = 4;

/// Attention over the last rows, and over blocks of `every` rows if that is not 0.
#[derive(Debug)]
pub struct Compressed {
    /// Sizes that all layers have.
    pub blocks: Blocks,
    /// Rows of a block.
    pub every: usize,
}

/// Weights of a layer.
struct CompressedWeights {
    blocks: Blocks,
    q_a: MatPart,
    q_norm: Weight,
    q_b: MatPart,
    kv: MatPart,
    kv_norm: Weight,
    sinks: Weight,
    pool: Option<Pooled>,
    index: Option<Index>,
    every: usize,
    /// `[groups, rank, heads * dim / groups]`
    groups: Weight,
    /// `[dim, groups * rank]`
    output: MatPart,
}

/// What makes entries.
struct Pooled {
    /// Values and scores.
    parts: Vec<MatPart>,
    place: Weight,
    norm: Weight,
}

/// What chooses entries.
struct Index {
    /// `[heads * dim, q_rank]`
    q: MatPart,
    /// `[heads, dim]`
    weights: MatPart,
    pool: Pooled,
}

impl Pooled {
    fn declare(w: &mut Weights<'_>, name: &str, (every, len): (usize, usize), dim: usize) -> Pooled {
        let wide = sizes(every, len).0 / 2;
        Pooled {
            parts: ["kv", "gate"].map(|p| w.linear(&format!("{name}_{p}"), wide, dim)).to_vec(),
            place: w.table(&format!("{name}_ape.weight"), &[wide, every]),
            norm: w.vector(&format!("{name}_norm.weight"), len),
        }
    }
}

/// Columns of values and scores of a row, and rows of an entry.
fn sizes(every: usize, dim: usize) -> (usize, usize) {
    let by = if every == OVERLAPPING { 2 } else { 1 };
    (2 * by * dim, by * every)
}

impl MixerSpec for Compressed {
    /// Keys of the last rows, what entries are made of, entries.
    fn state(&self, _f: &Family, l: &LayerSpec) -> LayerState {
        let (b, dim) = (&self.blocks, l.k_dim);
        let mut parts = vec![("window", vec![b.window, dim])];
        let every = self.every;
        if every > 0 {
            let (wide, rows) = sizes(every, dim);
            parts.push(("rows", vec![rows, wide]));
            let own = if every == OVERLAPPING { b.index[1] } else { 0 };
            if own > 0 {
                let (wide, rows) = sizes(every, own);
                parts.push(("index_rows", vec![rows, wide]));
            }
            parts.push((ENTRIES, vec![b.n_ctx.div_ceil(every), dim + own]));
        }
        LayerState::Recurrent(RecurrentSpec { parts })
    }

    fn declare(&self, w: &mut Weights<'_>, f: &Family, i: usize) -> Box<dyn Mixer> {
        Box::new(self.weights(w, f, i))
    }
}

impl Compressed {
    /// Declares `blk.N.attn_*`.
    fn weights(&self, w: &mut Weights<'_>, f: &Family, i: usize) -> CompressedWeights {
        let (b, l, dim) = (&self.blocks, &f.layers[i], f.c.n_embd);
        let name = |part: &str| format!("blk.{i}.attn_{part}");
        let every = self.every;
        let pool = (every > 0).then(|| Pooled::declare(w, &name("compressor"), (every, l.k_dim), dim));
        let index = (every == OVERLAPPING).then(|| {
            let ([heads, own, _], name) = (b.index, |part: &str| format!("blk.{i}.indexer{part}"));
            Index {
                q: w.linear(&name(".attn_q_b"), heads * own, b.q_rank),
                weights: w.linear(&name(".proj"), heads, dim),
                pool: Pooled::declare(w, &name("_compressor"), (every, own), dim),
            }
        });
        let (out_a, k) = (format!("{}.weight", name("output_a")), l.heads * l.k_dim / b.groups);
        CompressedWeights {
            blocks: *b,
            q_a: w.linear(&name("q_a"), b.q_rank, dim),
            q_norm: w.vector(&format!("{}.weight", name("q_a_norm")), b.q_rank),
            q_b: w.linear(&name("q_b"), l.heads * l.k_dim, b.q_rank),
            kv: w.linear(&name("kv"), l.k_dim, dim),
            kv_norm: w.vector(&format!("{}.weight", name("kv_a_norm")), l.k_dim),
            sinks: w.vector(&format!("{}.weight", name("sinks")), l.heads),
            pool,
            index,
            every,
            groups: match w.dims(&out_a).len() {
                2 => w.matrix(&out_a, b.groups * b.rank, k),
                _ => w.heads(&out_a, b.groups, b.rank, k),
            },
            output: w.linear(&name("output_b"), dim, b.groups * b.rank),
        }
    }
}

impl Mixer for CompressedWeights {
    fn output(&self) -> MatPart {
        self.output
    }

    /// Normed rows `[n, dim]` → `[n, groups * rank]`.
    fn run(&self, p: &mut Builder, f: &Family, Rows { h, layer: l, state: layer, .. }: Rows<'_>) -> Val {
        let (b, dim, heads, eps) = (&self.blocks, l.k_dim, l.heads, f.c.eps);
        let table = l.rope.unwrap_or(0);
        let (magnitude, rope) = (1.0, Rope { style: f.rotation.style, dims: b.rope, table, norm_eps: eps });
        let turned = |val: Val, groups: usize| {
            let x = Cols { val, at: dim - b.rope, stride: dim };
            Rotate { x, from: None, groups, rope, back: false, every: 1, magnitude, temperature: None, len: 0 }
        };
        let q = p.matmul("q_a", h, vec![self.q_a]);
        let low = p.rms_norm(q, self.q_norm, eps);
        let q = p.matmul("q", low, vec![self.q_b]); // [n, heads * dim]
        let q_heads = Cols { val: q, at: 0, stride: dim };
        let bare = Normalize {
            kind: NormKind::Rms,
            x: q_heads,
            groups: heads,
            len: dim,
            weight: None,
            bias: None,
            gate: None,
            eps,
            out: q_heads,
        };
        p.general(General::Normalize(bare));
        p.general(General::Rotate(turned(q, heads)));
        let kv = p.matmul("kv", h, vec![self.kv]); // [n, dim]
        let kv = p.rms_norm(kv, self.kv_norm, eps);
        p.general(General::Rotate(turned(kv, 1)));

        let window = b.window * dim;
        // Behind the last rows: what entries are made of, then entries, with those of the index beside them.
        let ([index_heads, own, most], every) = (b.index, self.every);
        let own = if self.index.is_some() { own } else { 0 };
        let [(wide, rows), (own_wide, own_rows)] = [sizes(every, dim), sizes(every, own)];
        let (index_at, at) = (window + rows * wide, window + rows * wide + own_rows * own_wide);
        let entry = |p: &mut Builder, pool: &Pooled, (len, kept, at): (usize, usize, usize)| {
            let both = p.matmul("pool", h, pool.parts.clone());
            let entry = p.parts("entry", len);
            let (x, out, overlaps, place) = (p.all(both), p.all(entry), every == OVERLAPPING, Some(pool.place));
            p.general(General::Pool(Pool { x, place, every, overlaps, len, layer, at: kept, out }));
            let entry = p.rms_norm(entry, pool.norm, eps);
            let x = Cols { val: entry, at: len - b.rope, stride: len };
            p.general(General::Rotate(Rotate { x, every: every as u32, ..turned(entry, 1) }));
            Entries { x: p.all(entry), every, slots: b.n_ctx.div_ceil(every), at, stride: dim + own }
        };
        let chosen = self.index.as_ref().map(|index| {
            let q = p.matmul("index_q", low, vec![index.q]); // [n, heads * own]
            let x = Cols { val: q, at: own - b.rope, stride: own };
            p.general(General::Rotate(Rotate { x, ..turned(q, index_heads) }));
            let scale = 1.0 / ((own * index_heads) as f32).sqrt();
            let weights = p.matmul("index_weights", h, vec![MatPart { scale, ..index.weights }]);
            let entries = entry(p, &index.pool, (own, index_at, at + dim));
            let chosen = p.parts("chosen", entries.slots);
            let (q, weights) = (Cols { val: q, at: 0, stride: own }, Cols { val: weights, at: 0, stride: 1 });
            let (heads, out) = (index_heads, p.all(chosen));
            p.general(General::ChooseBlocks(ChooseBlocks { q, weights, heads, dim: own, entries, layer, most, out }));
            (out, most)
        });
        let entries = self.pool.as_ref().map(|pool| entry(p, pool, (dim, window, at)));
        let out = p.parts("attn", heads * dim);
        let all = Cols { val: out, at: 0, stride: dim };
        p.general(General::AttendBlocks(AttendBlocks {
            q: q_heads,
            k: p.all(kv),
            heads,
            dim,
            window: b.window,
            layer,
            at: 0,
            entries,
            chosen,
            sinks: self.sinks,
            scale: 1.0 / (dim as f32).sqrt(),
            out: all,
        }));
        p.general(General::Rotate(Rotate { back: true, ..turned(out, heads) }));
        let given = p.parts("groups", b.groups * b.rank);
        let x = Cols { val: out, at: 0, stride: heads * dim / b.groups };
        let to = Cols { val: given, at: 0, stride: b.rank };
        p.general(General::HeadMatMul(HeadMatMul { x, weight: self.groups, heads: b.groups, out: to }));
        given
    }
}
