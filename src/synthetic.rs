//! Models of real shapes without a file, to measure speed with: the metadata and tensors that a file of the shape and type
//! would have, and weights that repeat a few random rows. What they compute is finite and means nothing.

use crate::gguf::write::Entry;
use crate::gguf::{Gguf, Value};
use crate::quantize::recipe::Recipe;
use crate::quantize::{self, Options};
use crate::sample::rng::Rng;
use crate::{Error, Result};
use pumex_quant::{find as find_format, Format, FormatId};
use rayon::prelude::*;
use std::path::Path;

/// A model's hyper-parameters.
#[derive(Debug)]
pub struct Shape {
    /// As on the command line.
    pub name: &'static str,
    /// `general.architecture`.
    pub arch: &'static str,
    /// `general.size_label`; none has the size counted.
    pub label: Option<&'static str>,
    /// Width of the residual stream.
    pub n_embd: u32,
    /// Layers.
    pub n_layer: u32,
    /// Width of the feed-forward layer.
    pub n_ff: u32,
    /// Query heads.
    pub n_head: u32,
    /// Key/value heads.
    pub n_head_kv: u32,
    /// Width of a head.
    pub head_dim: u32,
    /// Tokens.
    pub n_vocab: u32,
    /// Base of RoPE's series.
    pub rope_base: f32,
    /// Experts of a layer, how many of them a row uses, and the width of one.
    pub experts: Option<(u32, u32, u32)>,
}

const LLAMA_8B: Shape = Shape {
    name: "llama-8b",
    arch: "llama",
    label: Some("8B"),
    n_embd: 4096,
    n_layer: 32,
    n_ff: 14336,
    n_head: 32,
    n_head_kv: 8,
    head_dim: 128,
    n_vocab: 128_256,
    rope_base: 5e5,
    experts: None,
};
const QWEN3_8B: Shape =
    Shape { name: "qwen3-8b", arch: "qwen3", n_layer: 36, n_ff: 12288, n_vocab: 151_936, rope_base: 1e6, ..LLAMA_8B };
const TINY: Shape = Shape {
    name: "tiny",
    label: None,
    n_embd: 256,
    n_layer: 4,
    n_ff: 768,
    n_head: 4,
    n_head_kv: 2,
    head_dim: 64,
    ..LLAMA_8B
};

/// Every shape there is. All have an output matrix of their own.
pub const SHAPES: &[Shape] = &[
    Shape { name: "llama-1b", label: Some("1B"), n_embd: 2048, n_layer: 16, n_ff: 8192, head_dim: 64, ..LLAMA_8B },
    LLAMA_8B,
    Shape { name: "llama-70b", label: Some("70B"), n_embd: 8192, n_layer: 80, n_ff: 28672, n_head: 64, ..LLAMA_8B },
    Shape { name: "qwen3-0.6b", label: Some("0.6B"), n_embd: 1024, n_layer: 28, n_ff: 3072, n_head: 16, ..QWEN3_8B },
    QWEN3_8B,
    Shape {
        name: "qwen3-30b-a3b",
        arch: "qwen3moe",
        label: Some("30B.A3B"),
        n_embd: 2048,
        n_layer: 48,
        n_ff: 6144,
        n_head_kv: 4,
        experts: Some((128, 8, 768)),
        ..QWEN3_8B
    },
    TINY,
    Shape { name: "tiny-moe", arch: "qwen3moe", rope_base: 1e6, experts: Some((16, 4, 256)), ..TINY },
];

/// The shape of that name.
pub fn find(name: &str) -> Option<&'static Shape> {
    SHAPES.iter().find(|s| s.name.eq_ignore_ascii_case(name))
}

/// Positions that all shapes claim to be trained for.
const N_CTX_TRAIN: u32 = 131_072;
/// Random weights held per format; a tensor has at least half of them: nine rows of the widest matrix, or a row for each of
/// 128 experts' wishes, so that these differ.
const RANDOM: usize = 1 << 19;
/// Of which so many are coded, and their blocks then dealt out at random: some encoders search long.
const CODED: usize = 1 << 15;
/// Standard deviation of the random weights, near that of trained ones.
const DEVIATION: f64 = 0.02;

impl Shape {
    /// The model of this shape with weights of the recipe's types.
    ///
    /// # Errors
    /// A row that no block of the recipe's types divides.
    pub fn model(&self, recipe: &'static Recipe) -> Result<Gguf> {
        let name = format!("{}-{} (synthetic)", self.name, recipe.name);
        let described = Gguf::without_file(Path::new(&name), self.meta(), self.tensors(), Vec::new());
        // The types are those that `quantize` gives a file of floats.
        let options = Options { recipe: Some(recipe), ..Options::default() };
        let plan = quantize::Plan::new(&described, &options)?;
        let mut formats: Vec<&'static Format> = Vec::new();
        let mut tensors = Vec::new();
        for (i, job) in plan.jobs().enumerate() {
            let entry = job.entry.clone();
            if entry.dims.len() == 1 {
                tensors.push((entry, (0, 0)));
                continue;
            }
            let known = find_format(entry.type_id);
            let format = known.ok_or_else(|| Error::Request(format!("type {}: no such format", entry.type_id)))?;
            let at = formats.iter().position(|f| f.id == format.id).unwrap_or_else(|| {
                formats.push(format);
                formats.len() - 1
            });
            // Tensors start at different blocks, so that no two are the same matrix.
            let blocks = RANDOM / 2 / format.block_len;
            tensors.push((entry, (1 + at, i * 61 % blocks * format.block_bytes)));
        }
        let ones = 1f32.to_le_bytes().repeat(self.n_embd.max(self.head_dim) as usize);
        let made = std::iter::once(ones).chain(formats.iter().map(|f| random(f))).collect();
        Ok(Gguf::without_file(Path::new(&name), plan.meta, tensors, made))
    }

    fn meta(&self) -> Vec<(String, Value)> {
        let text = |t: &str| Value::Str(t.as_bytes().to_vec());
        let (experts, used, n_ff_exp) = self.experts.unwrap_or_default();
        let general =
            [("architecture", self.arch), ("name", self.name)].map(|(k, v)| (format!("general.{k}"), text(v)));
        let label = self.label.map(|label| ("general.size_label".to_string(), text(label)));
        let own = [
            ("context_length", N_CTX_TRAIN),
            ("embedding_length", self.n_embd),
            ("block_count", self.n_layer),
            ("feed_forward_length", self.n_ff),
            ("attention.head_count", self.n_head),
            ("attention.head_count_kv", self.n_head_kv),
            ("attention.key_length", self.head_dim),
            ("attention.value_length", self.head_dim),
            ("rope.dimension_count", self.head_dim),
            ("expert_count", experts),
            ("expert_used_count", used),
            ("expert_feed_forward_length", n_ff_exp),
        ];
        let floats = [("attention.layer_norm_rms_epsilon", 1e-5), ("rope.freq_base", self.rope_base)];
        let own = own.map(|(k, v)| (k, Value::U32(v))).into_iter().filter(|(_, v)| !matches!(v, Value::U32(0)));
        let own = own.chain(floats.map(|(k, v)| (k, Value::F32(v)))).map(|(k, v)| (format!("{}.{k}", self.arch), v));
        general.into_iter().chain(label).chain(own).collect()
    }

    /// Every tensor as a file of half floats has it.
    fn tensors(&self) -> Vec<(Entry, (usize, usize))> {
        let (dim, heads) = (self.n_embd, self.n_head * self.head_dim);
        let kv = self.n_head_kv * self.head_dim;
        let mut all = vec![("token_embd".to_string(), vec![dim, self.n_vocab])];
        for i in 0..self.n_layer {
            let mut add = |name: &str, dims: &[u32]| all.push((format!("blk.{i}.{name}"), dims.to_vec()));
            add("attn_norm", &[dim]);
            add("attn_q", &[dim, heads]);
            add("attn_k", &[dim, kv]);
            add("attn_v", &[dim, kv]);
            add("attn_output", &[heads, dim]);
            if self.arch.starts_with("qwen3") {
                add("attn_q_norm", &[self.head_dim]);
                add("attn_k_norm", &[self.head_dim]);
            }
            add("ffn_norm", &[dim]);
            match self.experts {
                None => {
                    add("ffn_gate", &[dim, self.n_ff]);
                    add("ffn_up", &[dim, self.n_ff]);
                    add("ffn_down", &[self.n_ff, dim]);
                }
                Some((count, _, ff)) => {
                    add("ffn_gate_inp", &[dim, count]);
                    add("ffn_gate_exps", &[dim, ff, count]);
                    add("ffn_up_exps", &[dim, ff, count]);
                    add("ffn_down_exps", &[ff, dim, count]);
                }
            }
        }
        all.push(("output_norm".to_string(), vec![dim]));
        all.push(("output".to_string(), vec![dim, self.n_vocab]));
        let entry = |(name, dims): (String, Vec<u32>)| {
            let float = if dims.len() == 1 || name.ends_with("ffn_gate_inp") { FormatId::F32 } else { FormatId::F16 };
            let dims: Vec<u64> = dims.into_iter().map(u64::from).collect();
            let format = float.format();
            let len_bytes = dims.iter().product::<u64>() * format.block_bytes as u64;
            (Entry { name: format!("{name}.weight"), dims, type_id: format.ggml_id, len_bytes }, (0, 0))
        };
        all.into_iter().map(entry).collect()
    }
}

/// [`RANDOM`] weights, coded.
fn random(format: &Format) -> Vec<u8> {
    let mut rng = Rng::new(u64::from(format.ggml_id) + 1);
    // Twelve uniform numbers add up to a spread of one.
    let mut normal = || DEVIATION * ((0..12).map(|_| rng.unit()).sum::<f64>() - 6.0);
    let x: Vec<f32> = (0..CODED).map(|_| normal() as f32).collect();
    let even = vec![1f32; format.block_len];
    let count = CODED / format.block_len;
    let mut coded = vec![0; count * format.block_bytes];
    let blocks = coded.par_chunks_exact_mut(format.block_bytes).zip(x.par_chunks_exact(format.block_len));
    blocks.for_each(|(out, x)| format.encode_row(x, &even, out));
    let mut out = Vec::with_capacity(RANDOM / format.block_len * format.block_bytes);
    for _ in 0..RANDOM / format.block_len {
        let at = rng.below(count as u32) as usize * format.block_bytes;
        out.extend(&coded[at..][..format.block_bytes]);
    }
    out
}
