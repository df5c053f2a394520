//! Projectors of real shapes without a file: encoders of pictures with matrices in halves.

use std::path::Path;

use pumex_quant::FormatId;

use super::{random, RANDOM};
use pumex_gguf::meta::ValueType;
use pumex_gguf::write::Entry;
use pumex_gguf::{Gguf, Value};
use pumex_step::sample::rng::Rng;

/// Tensors by name, with their dimensions.
type Named = Vec<(String, Vec<u32>)>;

/// An encoder's hyper-parameters.
#[derive(Debug)]
pub struct ProjectorShape {
    /// As on the command line.
    pub name: &'static str,
    /// Width and height in pixels of the picture that its speed is measured with.
    pub side: usize,
    projector: &'static str,
    /// `image_size` of the metadata.
    image_size: u32,
    n_embd: u32,
    n_ff: u32,
    n_layer: u32,
    n_head: u32,
    /// Width of the text models' embeddings.
    projection: u32,
    mean: [f32; 3],
    deviation: [f32; 3],
    /// Flags that the family sets.
    flags: &'static [&'static str],
    /// Integers that it has beside the above.
    keys: &'static [(&'static str, u32)],
    tensors: fn(&ProjectorShape, u32) -> Named,
}

/// Every shape there is, from the models' published configurations.
pub const PROJECTORS: &[ProjectorShape] = &[
    ProjectorShape {
        name: "gemma3",
        side: 896,
        projector: "gemma3",
        image_size: 896,
        n_embd: 1152,
        n_ff: 4304,
        n_layer: 27,
        n_head: 16,
        projection: 3840,
        mean: [0.5; 3],
        deviation: [0.5; 3],
        flags: &["clip.use_gelu"],
        keys: &[],
        tensors: gemma3,
    },
    ProjectorShape {
        name: "qwen2.5vl-7b",
        side: 1024,
        projector: "qwen2.5vl_merger",
        image_size: 560,
        n_embd: 1280,
        n_ff: 3420,
        n_layer: 32,
        n_head: 16,
        projection: 3584,
        mean: [0.481_455, 0.457_828, 0.408_211],
        deviation: [0.268_63, 0.261_303, 0.275_777],
        flags: &["clip.use_silu"],
        keys: &[("spatial_merge_size", 2), ("n_wa_pattern", 8)],
        tensors: qwen25vl,
    },
];

/// The projector of that name.
pub fn find_projector(name: &str) -> Option<&'static ProjectorShape> {
    PROJECTORS.iter().find(|shape| shape.name.eq_ignore_ascii_case(name))
}

const PATCH: u32 = 14;

/// A matrix and its bias.
fn product(out: &mut Named, name: &str, cols: u32, rows: u32) {
    out.push((format!("{name}.weight"), vec![cols, rows]));
    out.push((format!("{name}.bias"), vec![rows]));
}

/// Norms of a layer, without their biases, and its attention.
fn attention(out: &mut Named, layer: u32, dim: u32) {
    out.extend(["ln1", "ln2"].map(|norm| (format!("v.blk.{layer}.{norm}.weight"), vec![dim])));
    for name in ["attn_q", "attn_k", "attn_v", "attn_out"] {
        product(out, &format!("v.blk.{layer}.{name}"), dim, dim);
    }
}

fn gemma3(s: &ProjectorShape, width: u32) -> Named {
    let (dim, patches) = (s.n_embd, (s.image_size / PATCH).pow(2));
    let mut out = vec![
        ("v.patch_embd.weight".to_string(), vec![PATCH, PATCH, 3, dim]),
        ("v.patch_embd.bias".into(), vec![dim]),
        ("v.position_embd.weight".into(), vec![dim, patches]),
        ("v.post_ln.weight".into(), vec![dim]),
        ("v.post_ln.bias".into(), vec![dim]),
        ("mm.input_projection.weight".into(), vec![width, dim]),
        ("mm.soft_emb_norm.weight".into(), vec![dim]),
    ];
    for layer in 0..s.n_layer {
        attention(&mut out, layer, dim);
        out.extend(["ln1", "ln2"].map(|norm| (format!("v.blk.{layer}.{norm}.bias"), vec![dim])));
        product(&mut out, &format!("v.blk.{layer}.ffn_up"), dim, s.n_ff);
        product(&mut out, &format!("v.blk.{layer}.ffn_down"), s.n_ff, dim);
    }
    out
}

fn qwen25vl(s: &ProjectorShape, width: u32) -> Named {
    let (dim, merged) = (s.n_embd, 4 * s.n_embd);
    let mut out = vec![
        ("v.patch_embd.weight".to_string(), vec![PATCH, PATCH, 3, dim]),
        ("v.patch_embd.weight.1".into(), vec![PATCH, PATCH, 3, dim]),
        ("v.post_ln.weight".into(), vec![dim]),
    ];
    product(&mut out, "mm.0", merged, merged);
    product(&mut out, "mm.2", merged, width);
    for layer in 0..s.n_layer {
        attention(&mut out, layer, dim);
        product(&mut out, &format!("v.blk.{layer}.ffn_gate"), dim, s.n_ff);
        product(&mut out, &format!("v.blk.{layer}.ffn_up"), dim, s.n_ff);
        product(&mut out, &format!("v.blk.{layer}.ffn_down"), s.n_ff, dim);
    }
    out
}

impl ProjectorShape {
    fn meta(&self, width: u32) -> Vec<(String, Value)> {
        let text = |text: &str| Value::Str(text.as_bytes().to_vec());
        let texts = [
            ("general.architecture", text("clip")),
            ("general.type", text("mmproj")),
            ("general.name", text(self.name)),
            ("clip.projector_type", text(self.projector)),
            ("clip.has_vision_encoder", Value::Bool(true)),
            ("clip.vision.attention.layer_norm_epsilon", Value::F32(1e-6)),
        ];
        let counts = [
            ("image_size", self.image_size),
            ("patch_size", PATCH),
            ("embedding_length", self.n_embd),
            ("feed_forward_length", self.n_ff),
            ("projection_dim", width),
            ("block_count", self.n_layer),
            ("attention.head_count", self.n_head),
        ];
        let numbers = [("image_mean", self.mean), ("image_std", self.deviation)];
        let texts = texts.into_iter().map(|(key, value)| (key.to_string(), value));
        let counts = counts.iter().chain(self.keys).map(|(key, n)| (format!("clip.vision.{key}"), Value::U32(*n)));
        let numbers = numbers.into_iter().map(|(key, x)| {
            let raw = x.iter().flat_map(|x| x.to_le_bytes()).collect();
            (format!("clip.vision.{key}"), Value::Array { element: ValueType::F32, raw })
        });
        let flags = self.flags.iter().map(|key| (key.to_string(), Value::Bool(true)));
        texts.chain(counts).chain(numbers).chain(flags).collect()
    }

    /// The projector of this shape, for a text model with embeddings of `n_embd`, none that of the shape: matrices of random
    /// halves, vectors of ones.
    pub fn model(&self, n_embd: Option<u32>) -> Gguf {
        let width = n_embd.unwrap_or(self.projection);
        let (halves, floats) = (FormatId::F16.format(), FormatId::F32.format());
        let mut tensors = Vec::new();
        for (i, (name, dims)) in (self.tensors)(self, width).into_iter().enumerate() {
            let vector = dims.len() == 1;
            let of = if vector { floats } else { halves };
            let dims: Vec<u64> = dims.into_iter().map(u64::from).collect();
            let count: u64 = dims.iter().product();
            let len_bytes = count * of.block_bytes as u64;
            let at = if vector { (0, 0) } else { (1, i * 61 % (RANDOM / 2) * of.block_bytes) };
            tensors.push((Entry { name, dims, type_id: of.ggml_id, len_bytes }, at));
        }
        let end = |file: usize| {
            let ends = tensors.iter().filter(|(_, at)| at.0 == file).map(|(e, at)| at.1 + e.len_bytes as usize);
            ends.max().unwrap_or(0)
        };
        let ones = 1f32.to_le_bytes().repeat(end(0).div_ceil(4));
        let random = random(halves);
        let numbers = random.repeat(end(1).div_ceil(random.len()));
        let name = format!("mmproj-{}-F16 (synthetic)", self.name);
        Gguf::without_file(Path::new(&name), self.meta(width), tensors, vec![ones, numbers])
    }
}

/// A picture of `side` by `side` pixels of noise, as a BMP file.
pub fn noise(side: usize) -> Vec<u8> {
    let (row, mut rng) = ((3 * side).next_multiple_of(4), Rng::new(1));
    let mut out = b"BM".to_vec();
    // Bytes of the file, none, where the pixels start; bytes of the second header, width, height; planes, bits; no compression.
    let words = [54 + row * side, 0, 54, 40, side, side, 1 | 24 << 16, 0, row * side, 0, 0, 0, 0];
    words.iter().for_each(|word| out.extend((*word as u32).to_le_bytes()));
    out.resize_with(54 + row * side, || rng.next_below(256) as u8);
    out
}
