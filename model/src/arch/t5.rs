//! T5: an encoder whose rows see the whole source, and a decoder whose rows see the answer so far and, by keys and values of their
//! own, the encoder's rows. Attention has neither rotation nor scale; a number is added to its scores by distance.

use crate::config::{Config, Reader};
use crate::weights::Weights;
use pumex_gguf::{Gguf, Result};
use pumex_plan::{
    Act, AttentionSpec, Builder, Cols, KvSpec, LayerState, Mask, MatPart, Plan, Rope, RopeNorm, RopeStyle, Val, Weight,
    BIAS_REACH,
};

/// Distance from which on all have the last bucket.
const FAR: usize = 128;
/// Most buckets; with more, distances beyond [`BIAS_REACH`] would differ.
const MOST_BUCKETS: u64 = 128;

/// Sizes of all layers.
pub struct Shape {
    c: Config,
    heads: usize,
    buckets: usize,
}

impl Shape {
    /// Reads the sizes of a file.
    ///
    /// # Errors
    /// What is wrong with the file's keys; heads that differ between layers, or from those of keys.
    pub fn of(gguf: &Gguf) -> Result<Shape> {
        let (c, r) = (Config::from_gguf(gguf)?, Reader::new(gguf)?);
        let buckets = r.int("attention.relative_buckets_count", None, 4, MOST_BUCKETS)?;
        let heads = c.n_head[0];
        if c.n_head.iter().chain(&c.n_head_kv).any(|n| *n != heads || *n == 0) {
            let found = format!("{:?} and {:?}", c.n_head, c.n_head_kv);
            return Err(r.bad("attention.head_count", "as many heads of keys, in every layer", found));
        }
        Ok(Shape { c, heads, buckets })
    }

    /// What attention does with keys and values of state `layer`.
    fn spec(&self, layer: usize, mask: Mask, biases: Option<usize>) -> AttentionSpec {
        let spec = AttentionSpec::causal(layer, self.heads, self.heads, self.c.k_dim);
        AttentionSpec { v_dim: self.c.v_dim, mask, biases, ..spec }
    }

    /// What a layer with attention keeps.
    fn kept(&self) -> LayerState {
        let Config { k_dim, v_dim, .. } = self.c;
        LayerState::KeysValues(KvSpec { kv_heads: self.heads, k_dim, v_dim, window: None })
    }

    /// What is done to q and k: nothing.
    fn unturned(&self) -> RopeNorm {
        let rope = Rope { style: RopeStyle::Neox, dims: 0, table: 0, norm_eps: self.c.eps };
        RopeNorm { rope, q_norm: None, k_norm: None }
    }
}

/// Weights of attention, with the norm before it.
struct Attention {
    norm: Weight,
    /// Products that give q, k and v.
    qkv: [MatPart; 3],
    output: MatPart,
}

impl Attention {
    fn declare(w: &mut Weights<'_>, s: &Shape, name: &str) -> Attention {
        let (dim, heads) = (s.c.n_embd, s.heads);
        let mut part = |part: &str, width: usize| w.linear(&format!("{name}_{part}"), heads * width, dim);
        let qkv = [part("q", s.c.k_dim), part("k", s.c.k_dim), part("v", s.c.v_dim)];
        let norm = w.vector(&format!("{name}_norm.weight"), dim);
        Attention { norm, qkv, output: w.linear(&format!("{name}_o"), dim, heads * s.c.v_dim) }
    }

    /// Rows with what they see of their own kind.
    fn run(&self, p: &mut Builder, s: &Shape, spec: AttentionSpec, x: Val) -> Val {
        let h = p.rms_norm(x, self.norm, s.c.eps);
        let qkv = p.matmul("qkv", h, self.qkv.to_vec()); // [n, heads * (2 * k_dim + v_dim)]
        p.rope_kv(qkv, spec, s.unturned());
        let out = p.attend(qkv, spec, 1.0); // [n, heads * v_dim]
        p.matmul_add(out, self.output, x)
    }

    /// Leaves keys and values of the encoder's rows, normed, in a layer's state.
    fn leave(&self, p: &mut Builder, s: &Shape, layers: &[usize], rows: Val) {
        let [_, k, v] = self.qkv;
        let kv = p.matmul("kv", rows, vec![k, v]); // [n, heads * (k_dim + v_dim)]
        for layer in layers {
            let spec = AttentionSpec { heads: 0, ..s.spec(*layer, Mask::Source, None) };
            p.rope_kv(kv, spec, s.unturned());
        }
    }

    /// Rows with what they see of the source.
    fn look(&self, p: &mut Builder, s: &Shape, layer: usize, x: Val) -> Val {
        let spec = s.spec(layer, Mask::Source, None);
        let h = p.rms_norm(x, self.norm, s.c.eps);
        let q = p.matmul("q", h, vec![self.qkv[0]]); // [n, heads * k_dim]
        let (qkv, width) = (p.parts("qkv", spec.qkv_width()), s.heads * s.c.k_dim);
        p.copy_into(p.all(q), Cols { val: qkv, at: 0, stride: width }, 1, width);
        let out = p.attend(qkv, spec, 1.0); // [n, heads * v_dim]
        p.matmul_add(out, self.output, x)
    }
}

/// A layer of either part.
struct Layer {
    attention: Attention,
    /// Attention to the source, in a decoder.
    cross: Option<Attention>,
    /// Index of its table of biases.
    biases: usize,
    ffn_norm: Weight,
    gate: Option<MatPart>,
    up: MatPart,
    down: MatPart,
}

impl Layer {
    fn feed_forward(&self, p: &mut Builder, s: &Shape, x: Val) -> Val {
        let h = p.rms_norm(x, self.ffn_norm, s.c.eps);
        let hidden = match self.gate {
            Some(gate) => {
                let both = p.matmul("gate_up", h, vec![gate, self.up]);
                p.glu(both, Act::Gelu, s.c.n_ff[0])
            }
            None => {
                let up = p.matmul("up", h, vec![self.up]);
                p.act(up, Act::Relu, 1.0)
            }
        }; // [n, ffn]
        p.matmul_add(hidden, self.down, x)
    }
}

/// Tables of biases; the first is empty, for what is rotated by none.
struct Tables(Vec<Vec<f32>>);

/// A part: `enc` or `dec`.
struct Stack {
    layers: Vec<Layer>,
    norm: Weight,
}

impl Stack {
    fn declare(w: &mut Weights<'_>, s: &Shape, part: &str, count: usize, tables: &mut Tables) -> Stack {
        let (decodes, own) = (part == "dec", tables.0.len());
        let layer = |i: usize| {
            let name = |of: &str| format!("{part}.blk.{i}.{of}");
            let (dim, ffn) = (s.c.n_embd, s.c.n_ff[0]);
            let table = name("attn_rel_b.weight");
            // A layer without one takes the first one's.
            if i == 0 || w.has(&table) {
                let floats = w.floats(&table, &[s.heads, s.buckets]);
                tables.0.push(biases(&w.floats_of(floats), s.heads, s.buckets, !decodes));
            }
            let biases = if w.has(&table) { tables.0.len() - 1 } else { own };
            w.ignore(&name("cross_attn_rel_b."));
            Layer {
                attention: Attention::declare(w, s, &name("attn")),
                cross: decodes.then(|| Attention::declare(w, s, &name("cross_attn"))),
                biases,
                ffn_norm: w.vector(&name("ffn_norm.weight"), dim),
                gate: w.has(&name("ffn_gate.weight")).then(|| w.linear(&name("ffn_gate"), ffn, dim)),
                up: w.linear(&name("ffn_up"), ffn, dim),
                down: w.linear(&name("ffn_down"), dim, ffn),
            }
        };
        let layers = (0..count).map(layer).collect();
        Stack { layers, norm: w.vector(&format!("{part}.output_norm.weight"), s.c.n_embd) }
    }

    /// All layers but the last norm of an encoder.
    fn encode(&self, p: &mut Builder, s: &Shape, embedding: Weight) -> Val {
        let mut x = p.embed(embedding); // [n, dim]
        for (i, l) in self.layers.iter().enumerate() {
            x = l.attention.run(p, s, s.spec(i, Mask::Full, Some(l.biases)), x);
            x = l.feed_forward(p, s, x);
        }
        x
    }
}

/// The encoder alone, whose rows are embeddings.
///
/// # Errors
/// Everything that is wrong with the file.
pub fn encoder(gguf: &Gguf) -> Result<Plan> {
    let (s, mut w, mut tables) = (Shape::of(gguf)?, Weights::new(gguf), Tables(vec![Vec::new()]));
    ["output.", "cls"].iter().for_each(|prefix| w.ignore(prefix));
    let embedding = w.matrix("token_embd.weight", w.vocab_rows(), s.c.n_embd);
    let stack = Stack::declare(&mut w, &s, "enc", s.c.n_layer, &mut tables);
    let mut p = Builder::new(w.finish()?);
    let x = stack.encode(&mut p, &s, embedding);
    let out = p.rms_norm_output(x, stack.norm, s.c.eps); // [w, dim]
    let states = vec![s.kept(); s.c.n_layer];
    Ok(p.finish(gguf.meta().arch()?, out, states, tables.0, s.c.n_ctx_train))
}

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let (s, r, mut tables) = (Shape::of(gguf)?, Reader::new(gguf)?, Tables(vec![Vec::new()]));
    let (encodes, decodes) = (s.c.n_layer, r.int("decoder_block_count", Some(s.c.n_layer as u64), 1, 1024)?);
    let mut w = Weights::new(gguf);
    let (dim, vocab) = (s.c.n_embd, w.vocab_rows());
    let usual = gguf.meta().opt_u32("tokenizer.ggml.bos_token_id")?.filter(|id| (*id as usize) < vocab).unwrap_or(0);
    let start = r.int("decoder_start_token_id", Some(u64::from(usual)), 0, vocab.saturating_sub(1) as u64)?;
    let embedding = w.matrix("token_embd.weight", vocab, dim);
    let encoder = Stack::declare(&mut w, &s, "enc", encodes, &mut tables);
    let decoder = Stack::declare(&mut w, &s, "dec", decodes, &mut tables);
    let head = match w.has("output.weight") {
        true => w.linear("output", vocab, dim),
        false => MatPart { weight: embedding, bias: None, scale: 1.0 },
    };

    // Each state has keys and values of the source first, of the encoder or for the decoder, and those of the answer behind them:
    // one state for an encoder's layer and the decoder's, and one for what the decoder's layer sees of the source.
    let own = encodes.max(decodes);
    let mut p = Builder::new(w.finish()?);
    let x = encoder.encode(&mut p, &s, embedding);
    let rows = p.rms_norm(x, encoder.norm, s.c.eps); // [n, dim]
    for (i, cross) in decoder.layers.iter().map(|l| &l.cross).enumerate() {
        // Kernels may read, and weigh by zero, what stands in a block before an answer: it must be numbers.
        let states = if i < encodes { vec![own + i] } else { vec![own + i, i] };
        cross.iter().for_each(|cross| cross.leave(&mut p, &s, &states, rows));
    }
    p.end_encoder(rows, start as u32);

    let mut x = p.embed(embedding); // [n, dim]
    for (i, l) in decoder.layers.iter().enumerate() {
        x = l.attention.run(&mut p, &s, s.spec(i, Mask::Answer, Some(l.biases)), x);
        if let Some(cross) = &l.cross {
            x = cross.look(&mut p, &s, own + i, x);
        }
        x = l.feed_forward(&mut p, &s, x);
        p.layer_ends(x);
    }
    let out = p.rms_norm_output(x, decoder.norm, s.c.eps); // [w, dim]
    let logits = p.matmul("logits", out, vec![head]); // [w, vocab]
    let states = vec![s.kept(); own + decodes];
    // A context has room for a source and an answer.
    let n_ctx = s.c.n_ctx_train.saturating_mul(2).min(u32::MAX as usize);
    Ok(p.finish(gguf.meta().arch()?, logits, states, tables.0, n_ctx))
}

/// `[buckets, heads]` → `[heads, 2 * BIAS_REACH + 1]`, by distance. Of rows that see later ones, these have half of the buckets.
fn biases(table: &[f32], heads: usize, buckets: usize, ahead: bool) -> Vec<f32> {
    let (all, later) = if ahead { (buckets / 2, buckets / 2) } else { (buckets, 0) };
    let at = |head: usize, i: usize| {
        let bucket = bucket(i.abs_diff(BIAS_REACH), all) + if i > BIAS_REACH { later } else { 0 };
        table.get(bucket * heads + head).copied().unwrap_or(0.0)
    };
    (0..heads).flat_map(|head| (0..=2 * BIAS_REACH).map(move |i| at(head, i))).collect()
}

/// The bucket of a distance, of so many: half of them have a distance each, the others ever more, as its logarithm grows.
fn bucket(distance: usize, buckets: usize) -> usize {
    let exact = buckets / 2;
    if distance < exact {
        return distance;
    }
    let grown = (distance as f64 / exact as f64) as f32;
    let (log, most) = (grown.ln(), (FAR as f64 / exact as f64).ln());
    let at = exact as f64 + f64::from(log * (buckets - exact) as f32) / most;
    ((at as f32).floor() as usize).min(buckets - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_positions_have_buckets_of_their_own_and_far_ones_share() {
        let buckets = [0, 1, 7, 8, 11, 12, 15, 16, 31, 32, 64, 127, 128].map(|d| bucket(d, 16));
        assert_eq!(buckets, [0, 1, 7, 8, 8, 9, 9, 10, 11, 12, 14, 15, 15]);
        let table: Vec<f32> = (0..64).map(|i| i as f32).collect(); // two heads, 32 buckets
        let by_distance = biases(&table, 2, 32, true);
        let of = |head, own, pos| AttentionSpec::bias(&by_distance, head, own, pos);
        assert_eq!((of(0, 5, 5), of(1, 5, 5)), (0.0, 1.0));
        assert_eq!((of(0, 5, 3), of(0, 3, 5)), (4.0, 36.0), "behind and before differ");
        assert_eq!((of(0, 500, 0), of(0, 0, 500)), (30.0, 62.0));
        let behind = biases(&table, 2, 32, false);
        let of = |own, pos| AttentionSpec::bias(&behind, 1, own, pos);
        assert_eq!((of(5, 3), of(20, 5), of(500, 0)), (5.0, 31.0, 63.0), "answers look back alone");
    }
}
