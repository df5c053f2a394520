//! Sounds of Gemma 4: a conformer whose rows see a few before them, and samples that go straight to the text model.

use super::sound::{
    add_half_feed, bias_of_distance, constant, conv_of_channels, frames, gate_by_second, halving, head_products, parts,
    qkv,
};
use super::vit::norm_if;
use super::Context;
use crate::graph::{Act, Arg, Join, NormKind, Val};
use crate::{Attention, Builder, Result};

/// The epsilon of all norms, whatever the files say.
const EPS: f32 = 1e-6;
/// Rows that a row sees, itself among them; there is a position for one more.
const SEEN: usize = 12;
/// The cap of the scores: `CAP * tanh(score / CAP)`.
const CAP: f32 = 50.0;
/// Length of the convolutions by channel.
const KERNEL: usize = 5;

/// Samples.
pub(super) fn build_from_samples(b: &mut Builder<'_>, of: &Context<'_>) -> Result<Val> {
    let x = frames(b, of)?;
    embed(b, x)
}

/// Rows for the text model.
fn embed(b: &mut Builder<'_>, x: Val) -> Result<Val> {
    let cols = b.cols(x);
    let weight = b.vector_if("mm.a.soft_emb_norm.weight", cols)?;
    let part = b.all(x);
    let x = b.norm_with(NormKind::Rms, part, 1, (weight, None), EPS)?;
    b.linear(x, "mm.a.input_projection")
}

/// Sines of distances from `SEEN` down to 0, then cosines, at frequencies from 1 to a ten-thousandth.
fn sines_and_cosines(width: usize) -> Vec<f32> {
    let half = width / 2;
    let step = 10_000f32.ln() / half.saturating_sub(1).max(1) as f32;
    let angle = |distance: usize, i: usize| distance as f32 * (-(i as f32) * step).exp();
    let row = |distance: usize| {
        let sines = (0..half).map(move |i| angle(distance, i).sin());
        sines.chain((0..half).map(move |i| angle(distance, i).cos())).collect::<Vec<f32>>()
    };
    (0..=SEEN).rev().flat_map(row).collect()
}

/// A conformer.
pub(super) fn conformer(b: &mut Builder<'_>, of: &Context<'_>) -> Result<Val> {
    let x = frames(b, of)?;
    let mut size = [b.cols(x), b.rows(x)];
    let mut x = b.reshape(x, size[0] * size[1], 1)?;
    for index in 0..2 {
        let window = halving(size);
        x = b.conv(x, &format!("a.conv1d.{index}"), window)?;
        x = norm_if(b, NormKind::Layer, x, &format!("a.conv1d.{index}.norm"), EPS)?;
        x = b.act(Act::Relu, x)?;
        size = window.out;
    }
    let cols = b.cols(x) * size[0];
    let x = b.reshape(x, size[1], cols)?;
    let mut x = b.linear(x, "a.input_projection")?;
    let positions = sines_and_cosines(b.cols(x));
    let positions = constant(b, x, positions)?;
    let seen = |row: u32| [(row + 1).saturating_sub(SEEN as u32), row + 1];
    let spans = b.spans((0..size[1] as u32).map(seen).collect());
    for index in 0..of.clip.blocks {
        let prefix = format!("a.blk.{index}");
        x = add_half_feed(b, x, NormKind::Rms, EPS, &prefix, "")?;
        let rules = Attention { spans: Some(spans), ..rules(of) };
        x = attend(b, x, &prefix, positions, rules)?;
        x = convolve(b, x, &prefix)?;
        x = add_half_feed(b, x, NormKind::Rms, EPS, &prefix, "_1")?;
        x = norm_if(b, NormKind::Rms, x, &format!("{prefix}.ln2"), EPS)?;
    }
    let x = if b.has("a.pre_encode.out.weight") { b.linear(x, "a.pre_encode.out")? } else { x };
    embed(b, x)
}

fn rules(of: &Context<'_>) -> Attention {
    let heads = of.clip.heads;
    Attention { heads, kv_heads: heads, scale: 1.0, soft_cap: Some(CAP), ..Attention::default() }
}

/// `scale * x`, and each head times the weight of that name, if there is one.
fn scale_heads(b: &mut Builder<'_>, x: Val, scale: f32, name: &str) -> Result<Val> {
    let join = match b.has(name) {
        true => {
            let len: usize = b.shape(name)?.iter().product();
            Some((Join::Mul, Arg::Weight(b.vector(name, len)?)))
        }
        false => None,
    };
    b.map(Act::Same, x, scale, join)
}

fn attend(b: &mut Builder<'_>, x: Val, prefix: &str, positions: Val, mut rules: Attention) -> Result<Val> {
    let name = |part: &str| format!("{prefix}.{part}");
    let norm = if b.has(&name("attn_pre_norm.weight")) { "attn_pre_norm" } else { "ln1" };
    let normed = norm_if(b, NormKind::Rms, x, &name(norm), EPS)?;
    let [q, k, v] = qkv(b, normed, prefix)?;
    let head = (b.cols(q) / rules.heads) as f32;
    let two = std::f32::consts::LN_2;
    let q = scale_heads(b, q, 1.0 / head.sqrt() / two, &name("per_dim_scale.weight"))?;
    let k = scale_heads(b, k, 1f32.exp().ln_1p() / two, &name("per_dim_k_scale.weight"))?;
    if b.has(&name("attn_k_rel.weight")) {
        let weight = b.matrix(&name("attn_k_rel.weight"), b.cols(positions))?;
        let all = b.all(positions);
        let turned = b.product(all, weight, None)?;
        let scores = head_products(b, q, turned, rules.heads)?;
        rules.biases = vec![bias_of_distance(b, scores, rules.heads, SEEN, b.rows(q))];
    }
    let attended = b.attend(parts(b, [q, k, v]), &rules)?;
    let attended = b.linear(attended, &name("attn_out"))?;
    let attended = norm_if(b, NormKind::Rms, attended, &name("attn_post_norm"), EPS)?;
    b.add(x, attended)
}

/// A convolution over each row and those before it. The names of its two norms are swapped in files.
fn convolve(b: &mut Builder<'_>, x: Val, prefix: &str) -> Result<Val> {
    let name = |part: &str| format!("{prefix}.{part}");
    let conv = b.norm(NormKind::Rms, x, &name("conv_norm"), EPS)?;
    let conv = b.linear(conv, &name("conv_pw1"))?;
    let conv = gate_by_second(b, Act::Sigmoid, conv)?;
    let conv = conv_of_channels(b, conv, &name("conv_dw"), KERNEL, KERNEL - 1)?;
    let conv = norm_if(b, NormKind::Rms, conv, &name("norm_conv"), EPS)?;
    let conv = b.act(Act::Silu, conv)?;
    let conv = b.linear(conv, &name("conv_pw2"))?;
    b.add(x, conv)
}
