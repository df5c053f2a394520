//! PaddleOCR-VL, dots.ocr and the pictures of dots3.note: rotations by row and column in raster order, a merger of cells.

use super::pieces::{places, raster, sample_square_table, unshuffle, vision_angles, Sampling};
use super::vit::{activation, embed_patches, mlp, norm_if, Turn, Vit};
use super::Context;
use crate::graph::{Act, Arg, Join, NormKind, Op, RotationPairs, Val};
use crate::{Builder, Error, Result};

/// The base of the rotation's frequencies.
const THETA: f32 = 10_000.0;

/// A tower with rotations by row and column, patches in raster order.
pub(super) fn build_rotary_vit(of: &Context<'_>) -> Result<Vit> {
    let [w, h] = of.patches()?;
    let mut vit = Vit::new(of.clip);
    let angles = vision_angles(&places(&raster(w * h), w), vit.head_dim, THETA);
    vit.turns = vec![Turn { columns: (0, vit.head_dim), pairs: RotationPairs::Halves, angles }];
    Ok(vit)
}

/// PaddleOCR-VL.
pub(super) fn paddle(b: &mut Builder<'_>, of: &Context<'_>) -> Result<Val> {
    let grid = of.patches()?;
    let x = embed_patches(b, of)?;
    let positions = sample_square_table(b, "v.position_embd.weight", of.clip.width, grid, Sampling::Antialias)?;
    let x = b.add(x, positions)?;
    let x = norm_if(b, NormKind::Layer, x, "v.pre_ln", of.clip.eps)?;
    let x = build_rotary_vit(of)?.run(b, x, of.clip.blocks)?;
    let x = norm_if(b, NormKind::Layer, x, "v.post_ln", of.clip.eps)?;
    let x = b.norm(NormKind::Layer, x, "mm.input_norm", 1e-5)?;
    let x = unshuffle(b, x, grid, 2)?;
    mlp(b, x, "mm.1", activation(of.clip), "mm.2")
}

/// dots.ocr.
pub(super) fn dots(b: &mut Builder<'_>, of: &Context<'_>) -> Result<Val> {
    dots_by(b, of, of.keys.size("projector.scale_factor")?, 0)
}

/// The pictures of dots3.note: some blocks have experts.
pub(super) fn dots_note(b: &mut Builder<'_>, of: &Context<'_>) -> Result<Val> {
    dots_by(b, of, of.keys.size("spatial_merge_size")?, of.keys.size("expert_used_count")?)
}

fn dots_by(b: &mut Builder<'_>, of: &Context<'_>, merge: usize, used: usize) -> Result<Val> {
    let grid = of.patches()?;
    let mut vit = build_rotary_vit(of)?;
    vit.norm = NormKind::Rms;
    let x = embed_patches(b, of)?;
    let mut x = norm_if(b, NormKind::Rms, x, "v.pre_ln", of.clip.eps)?;
    for index in 0..of.clip.blocks {
        x = match b.has(&format!("v.blk.{index}.ffn_gate_exps.weight")) {
            true => block_of_experts(b, &vit, x, index, used)?,
            false => vit.block(b, x, index, None)?,
        };
    }
    let x = b.norm(NormKind::Rms, x, "mm.post_norm", of.clip.eps)?;
    let x = b.norm(NormKind::Layer, x, "mm.input_norm", 1e-6)?;
    let x = unshuffle(b, x, grid, merge)?;
    mlp(b, x, "mm.0", Act::GeluErf, "mm.2")
}

fn block_of_experts(b: &mut Builder<'_>, vit: &Vit, x: Val, index: usize, used: usize) -> Result<Val> {
    let name = |part: &str| format!("v.blk.{index}.{part}");
    let normed = b.norm(vit.norm, x, &name("ln1"), vit.eps)?;
    let attended = vit.attention(b, normed, index, &vit.rules())?;
    let x = b.add(x, attended)?;
    let normed = b.norm(vit.norm, x, &name("ln2"), vit.eps)?;
    let fed = experts(b, vit, normed, &format!("v.blk.{index}"), used)?;
    b.add(x, fed)
}

/// The feed-forward part by experts: each row takes `used` of them. All experts are computed, and those that a row does not take
/// count 0 times.
fn experts(b: &mut Builder<'_>, vit: &Vit, x: Val, prefix: &str, used: usize) -> Result<Val> {
    let name = |part: &str| format!("{prefix}.{part}");
    let scores = b.linear(x, &name("ffn_gate_inp"))?;
    let scores = b.act(Act::Sigmoid, scores)?;
    let (rows, count, cols) = (b.rows(x), b.cols(scores), b.cols(x));
    let bias = b.vector_if(&name("exp_probs_b.weight"), count)?;
    if used == 0 {
        return Err(Error::Key(format!("clip.vision.expert_used_count: expected at least 1 of {count}, found 0")));
    }
    let shares = b.value(rows, count)?;
    b.push(Op::Choose { x: scores, bias, k: used.min(count), out: shares });
    let gate = b.linear(x, &name("ffn_gate_exps"))?;
    let up = b.linear(x, &name("ffn_up_exps"))?;
    let fed = b.gate(vit.act, gate, up)?;
    let hidden = b.cols(fed) / count;
    let each = b.reshape(fed, rows * count, hidden)?;
    let shares = b.reshape(shares, rows * count, 1)?;
    let shares = b.all(shares);
    let each = b.map(Act::Same, each, 1.0, Some((Join::Mul, Arg::Part(shares))))?;
    let fed = b.reshape(each, rows, count * hidden)?;
    // Columns of all experts side by side: the sum over experts is then one product.
    let down = b.load(&name("ffn_down_exps.weight"), count * cols, hidden)?;
    let down = b.permute(down, &[(cols, hidden), (count, cols * hidden), (hidden, 1)], cols, count * hidden)?;
    let out = b.value(rows, cols)?;
    let (a, whole) = (b.all(fed), b.all(down));
    b.push(Op::HeadProducts { a, b: whole, heads: 1, out });
    Ok(out)
}
