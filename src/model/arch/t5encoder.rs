//! The encoder of T5: attention without rotation and scale, whose scores have a number added by distance; gated or not; embeddings
//! come out.

use crate::gguf::Gguf;
use crate::model::config::{Config, Reader};
use crate::model::weights::Weights;
use crate::plan::{
    Act, AttentionSpec, Builder, KvSpec, LayerState, Mask, MatPart, Plan, Rope, RopeNorm, RopeStyle, Weight, BIAS_REACH,
};
use crate::Result;

/// Distance from which on all have the last bucket.
const FAR: usize = 128;

struct Layer {
    attn_norm: Weight,
    qkv: Vec<MatPart>,
    output: MatPart,
    ffn_norm: Weight,
    gate: Option<MatPart>,
    up: MatPart,
    down: MatPart,
}

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let (c, r) = (Config::from_gguf(gguf)?, Reader::new(gguf)?);
    let buckets = r.int("attention.relative_buckets_count", None, 4, 1 << 16)?;
    let (heads, dim) = (c.n_head[0], c.n_embd);
    if c.n_head.iter().chain(&c.n_head_kv).any(|n| *n != heads || *n == 0) {
        return Err(r.bad("attention.head_count", "as many heads of keys, in every layer", format!("{:?}", c.n_head)));
    }
    let mut w = Weights::new(gguf);
    ["output.", "cls"].iter().for_each(|prefix| w.ignore(prefix));
    let embedding = w.matrix("token_embd.weight", w.vocab_rows(), dim);
    let layers: Vec<Layer> = (0..c.n_layer).map(|i| layer(&mut w, &c, i)).collect();
    // A layer without a table takes the first one's.
    let mut tables = vec![Vec::new()];
    let mut table_of = Vec::new();
    for i in 0..c.n_layer {
        let name = format!("enc.blk.{i}.attn_rel_b.weight");
        if i == 0 || w.has(&name) {
            let table = w.floats(&name, &[heads, buckets]);
            tables.push(biases(&w.floats_of(table), heads, buckets));
        }
        table_of.push(if w.has(&name) { tables.len() - 1 } else { 1 });
    }
    let norm = w.vector("enc.output_norm.weight", dim);

    let mut p = Builder::new(w.finish()?);
    let mut x = p.embed(embedding); // [n, dim]
    for (i, l) in layers.iter().enumerate() {
        let h = p.rms_norm(x, l.attn_norm, c.eps);
        let mut spec = AttentionSpec::causal(i, heads, heads, c.k_dim);
        (spec.v_dim, spec.mask, spec.biases) = (c.v_dim, Mask::Full, Some(table_of[i]));
        let qkv = p.matmul("qkv", h, l.qkv.clone()); // [n, heads * (2 * k_dim + v_dim)]
        let rope = Rope { style: RopeStyle::Neox, dims: 0, table: 0, norm_eps: c.eps };
        p.rope_kv(qkv, spec, RopeNorm { rope, q_norm: None, k_norm: None });
        let out = p.attend(qkv, spec, 1.0); // [n, heads * v_dim]
        x = p.matmul_add(out, l.output, x);
        let h = p.rms_norm(x, l.ffn_norm, c.eps);
        let hidden = match l.gate {
            Some(gate) => {
                let both = p.matmul("gate_up", h, vec![gate, l.up]);
                p.glu(both, Act::Gelu, c.n_ff[i])
            }
            None => {
                let up = p.matmul("up", h, vec![l.up]);
                p.act(up, Act::Relu, 1.0)
            }
        }; // [n, ffn]
        x = p.matmul_add(hidden, l.down, x);
    }
    let out = p.rms_norm_output(x, norm, c.eps); // [w, dim]
    let kept = KvSpec { kv_heads: heads, k_dim: c.k_dim, v_dim: c.v_dim, window: None };
    let states = vec![LayerState::KeysValues(kept); c.n_layer];
    Ok(p.finish(gguf.meta().arch()?, out, states, tables, c.n_ctx_train))
}

fn layer(w: &mut Weights<'_>, c: &Config, i: usize) -> Layer {
    let (dim, heads, ffn) = (c.n_embd, c.n_head[i], c.n_ff[i]);
    let name = |part: &str| format!("enc.blk.{i}.{part}");
    let widths = [("attn_q", c.k_dim), ("attn_k", c.k_dim), ("attn_v", c.v_dim)];
    Layer {
        attn_norm: w.vector(&name("attn_norm.weight"), dim),
        qkv: widths.iter().map(|(part, width)| w.linear(&name(part), heads * width, dim)).collect(),
        output: w.linear(&name("attn_o"), dim, heads * c.v_dim),
        ffn_norm: w.vector(&name("ffn_norm.weight"), dim),
        gate: w.has(&name("ffn_gate.weight")).then(|| w.linear(&name("ffn_gate"), ffn, dim)),
        up: w.linear(&name("ffn_up"), ffn, dim),
        down: w.linear(&name("ffn_down"), dim, ffn),
    }
}

/// `[buckets, heads]` → `[heads, 2 * BIAS_REACH + 1]`, by distance.
fn biases(table: &[f32], heads: usize, buckets: usize) -> Vec<f32> {
    let at = |head: usize, i: usize| {
        let bucket = bucket(i.abs_diff(BIAS_REACH), buckets / 2) + if i > BIAS_REACH { buckets / 2 } else { 0 };
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
        let by_distance = biases(&table, 2, 32);
        let of = |head, own, pos| AttentionSpec::bias(&by_distance, head, own, pos);
        assert_eq!((of(0, 5, 5), of(1, 5, 5)), (0.0, 1.0));
        assert_eq!((of(0, 5, 3), of(0, 3, 5)), (4.0, 36.0), "behind and before differ");
        assert_eq!((of(0, 500, 0), of(0, 0, 500)), (30.0, 62.0));
    }
}
