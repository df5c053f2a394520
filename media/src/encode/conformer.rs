//! FastConformer encoders with relative positions: LFM2-Audio and Parakeet.

use super::sound::{
    add_half_feed, bias_of_distance, constant, conv_of_channels, frames, gate_by_second, halving, head_products, parts,
    qkv, sines,
};
use super::vit::mlp;
use super::Context;
use crate::graph::{Act, Arg, GraphTable, Join, NormKind, Spans, Val};
use crate::{Attention, Builder, Error, Result};

/// Rows of Parakeet above which a row sees only its neighbours, and how many on each side.
const LOCAL: (usize, usize) = (8_192, 128);

/// Rows of eight frames: three convolutions that halve, two of them by channel.
fn subsample(b: &mut Builder<'_>, of: &Context<'_>) -> Result<Val> {
    let x = frames(b, of)?;
    let (frames, bins) = (b.rows(x), b.cols(x));
    let mut window = halving([bins, frames]);
    let x = b.reshape(x, frames * bins, 1)?;
    let x = b.conv(x, "a.conv1d.0", window)?;
    let mut x = b.act(Act::Relu, x)?;
    for index in [2, 5] {
        window = halving(window.out);
        x = b.depthwise(x, &format!("a.conv1d.{index}"), window)?;
        x = b.linear(x, &format!("a.conv1d.{}", index + 1))?;
        x = b.act(Act::Relu, x)?;
    }
    let ([bins, rows], channels) = (window.out, b.cols(x));
    let x = b.permute(x, &[(rows, bins * channels), (channels, 1), (bins, channels)], rows, channels * bins)?;
    b.linear(x, "a.pre_encode.out")
}

/// What all blocks share.
struct ConformerBlocks {
    heads: usize,
    eps: f32,
    /// Length of the convolutions by channel.
    kernel: usize,
    /// Sines of distances from `reach` down to `-reach`.
    positions: Val,
    reach: usize,
    spans: Option<Spans>,
}

impl ConformerBlocks {
    fn new(
        b: &mut Builder<'_>,
        of: &Context<'_>,
        x: Val,
        eps: f32,
        kernel: usize,
        local: bool,
    ) -> Result<ConformerBlocks> {
        let (rows, width) = (b.rows(x), of.clip.width);
        let heads = of.clip.heads;
        if b.cols(x) != width || !width.is_multiple_of(heads) {
            return Err(Error::Shape(format!("a.pre_encode.out: expected {width} rows, found {}", b.cols(x))));
        }
        let near = local && rows > LOCAL.0;
        let reach = if near { LOCAL.1 } else { rows - 1 };
        let span = |row: usize| [row.saturating_sub(reach) as u32, rows.min(row + reach + 1) as u32];
        let spans = near.then(|| b.spans((0..rows).map(span).collect()));
        // The scores of positions are scaled as the others are.
        let scale = 1.0 / ((width / heads) as f32).sqrt();
        let far = reach as i64;
        let positions = constant(b, x, sines((-far..=far).rev(), width, scale))?;
        Ok(ConformerBlocks { heads, eps, kernel, positions, reach, spans })
    }

    /// One block; `fold` is the convolution's norm as factors and what is added.
    fn block(&self, b: &mut Builder<'_>, x: Val, prefix: &str, fold: [Arg; 2]) -> Result<Val> {
        let name = |part: &str| format!("{prefix}.{part}");
        let x = add_half_feed(b, x, NormKind::Layer, self.eps, prefix, "")?;
        let normed = b.norm(NormKind::Layer, x, &name("ln1"), self.eps)?;
        let attended = self.attend(b, normed, prefix)?;
        let x = b.add(x, attended)?;
        let normed = b.norm(NormKind::Layer, x, &name("norm_conv"), self.eps)?;
        let conv = b.linear(normed, &name("conv_pw1"))?;
        let conv = gate_by_second(b, Act::Sigmoid, conv)?;
        let conv = conv_of_channels(b, conv, &name("conv_dw"), self.kernel, self.kernel / 2)?;
        let conv = b.map(Act::Same, conv, 1.0, Some((Join::Mul, fold[0])))?;
        let conv = b.map(Act::Same, conv, 1.0, Some((Join::Add, fold[1])))?;
        let conv = b.act(Act::Silu, conv)?;
        let conv = b.linear(conv, &name("conv_pw2"))?;
        let x = b.add(x, conv)?;
        let x = add_half_feed(b, x, NormKind::Layer, self.eps, prefix, "_1")?;
        b.norm(NormKind::Layer, x, &name("ln2"), self.eps)
    }

    fn attend(&self, b: &mut Builder<'_>, x: Val, prefix: &str) -> Result<Val> {
        let [q, k, v] = qkv(b, x, prefix)?;
        let (rows, cols) = (b.rows(q), b.cols(q));
        let of_content = b.add_weight(q, &format!("{prefix}.pos_bias_u"), 1, cols)?;
        let of_position = b.add_weight(q, &format!("{prefix}.pos_bias_v"), 1, cols)?;
        let positions = b.linear(self.positions, &format!("{prefix}.linear_pos"))?;
        let scores = head_products(b, of_position, positions, self.heads)?;
        let rules = Attention {
            heads: self.heads,
            kv_heads: self.heads,
            scale: 1.0 / ((cols / self.heads) as f32).sqrt(),
            spans: self.spans,
            biases: vec![bias_of_distance(b, scores, self.heads, self.reach, rows)],
            ..Attention::default()
        };
        let attended = b.attend(parts(b, [of_content, k, v]), &rules)?;
        b.linear(attended, &format!("{prefix}.attn_out"))
    }
}

/// LFM2-Audio.
pub(super) fn lfm2a(b: &mut Builder<'_>, of: &Context<'_>) -> Result<Val> {
    const EPS: f32 = 1e-5;
    let mut x = subsample(b, of)?;
    let blocks = ConformerBlocks::new(b, of, x, EPS, 9, false)?;
    for index in 0..of.clip.blocks {
        let prefix = format!("a.blk.{index}");
        let cols = of.clip.width;
        let factors = b.vector(&format!("{prefix}.conv_norm.weight"), cols)?;
        let added = b.vector(&format!("{prefix}.conv_norm.bias"), cols)?;
        x = blocks.block(b, x, &prefix, [Arg::Weight(factors), Arg::Weight(added)])?;
    }
    let x = b.norm(NormKind::Layer, x, "mm.a.mlp.0", EPS)?;
    mlp(b, x, "mm.a.mlp.1", Act::GeluErf, "mm.a.mlp.3")
}

/// A batch norm's factors and what is added.
fn batch_norm(b: &mut Builder<'_>, prefix: &str) -> Result<[GraphTable; 2]> {
    let floats = |part: &str| b.floats(&format!("{prefix}.{part}"));
    let (weight, bias) = (floats("conv_norm.weight")?, floats("conv_norm.bias")?);
    let (mean, variance) = (floats("conv_norm_mean")?, floats("conv_norm_var")?);
    let cols = weight.len();
    if [&bias, &mean, &variance].iter().any(|v| v.len() != cols) || variance.iter().any(|v| v.is_nan() || *v <= 0.0) {
        return Err(Error::Shape(format!("{prefix}.conv_norm: expected {cols} means and variances above 0")));
    }
    let factors: Vec<f32> = weight.iter().zip(&variance).map(|(w, v)| w / v.sqrt()).collect();
    let added = bias.iter().zip(&mean).zip(&factors).map(|((b, m), f)| b - m * f).collect();
    Ok([b.table(cols, factors), b.table(cols, added)])
}

/// Parakeet.
pub(super) fn parakeet(b: &mut Builder<'_>, of: &Context<'_>) -> Result<Val> {
    let factor = of.keys.size("subsampling_factor")?;
    if factor != 8 {
        return Err(Error::Key(format!("clip.audio.subsampling_factor: expected 8, found {factor}")));
    }
    let mut x = subsample(b, of)?;
    let blocks = ConformerBlocks::new(b, of, x, of.clip.eps, of.keys.size("conv_kernel_size")?, true)?;
    for index in 0..of.clip.blocks {
        let prefix = format!("a.blk.{index}");
        let fold = batch_norm(b, &prefix)?.map(Arg::Table);
        x = blocks.block(b, x, &prefix, fold)?;
    }
    let x = b.norm(NormKind::Rms, x, "mm.a.norm_pre", 1e-6)?;
    mlp(b, x, "mm.a.mlp.1", Act::ReluSquared, "mm.a.mlp.2")
}
