//! CogVLM and Nemotron Nano VL: towers with rows besides the patches.

use super::pieces::{raster, unshuffle};
use super::vit::{add_positions, embed_patches, mlp, norm_if, Vit};
use super::Context;
use crate::graph::{Act, NormKind, Val};
use crate::{Builder, Result};

/// CogVLM: norms behind attention and feed-forward, a class row behind the patches, rows around the result.
pub(super) fn build(b: &mut Builder<'_>, of: &Context<'_>) -> Result<Val> {
    let [w, h] = of.patches()?;
    let x = embed_patches(b, of)?;
    let class = b.load("v.class_embd", 1, of.clip.width)?;
    let x = b.stack(&[x, class])?;
    let mut x = add_positions(b, x)?;
    let vit = Vit::new(of.clip);
    for index in 0..of.clip.blocks {
        let name = |part: &str| format!("v.blk.{index}.{part}");
        let attended = vit.attention(b, x, index, &vit.rules())?;
        let attended = b.norm(NormKind::Layer, attended, &name("ln1"), of.clip.eps)?;
        x = b.add(x, attended)?;
        let fed = vit.feed(b, x, &format!("v.blk.{index}"))?;
        let fed = b.norm(NormKind::Layer, fed, &name("ln2"), of.clip.eps)?;
        x = b.add(x, fed)?;
    }
    let x = b.reorder(x, &raster(w * h))?;
    let x = b.linear(x, "mm.model.fc")?;
    let x = b.norm(NormKind::Layer, x, "mm.post_fc_norm", 1e-5)?;
    let x = b.act(Act::Gelu, x)?;
    let up = b.linear(x, "mm.up")?;
    let gate = b.linear(x, "mm.gate")?;
    let x = b.gate(Act::Silu, gate, up)?;
    let x = b.linear(x, "mm.down")?;
    let begin = b.load("v.boi", 1, b.cols(x))?;
    let end = b.load("v.eoi", 1, b.cols(x))?;
    b.stack(&[begin, x, end])
}

/// Nemotron Nano VL 2: class rows in front of the patches, without positions.
pub(super) fn nemotron(b: &mut Builder<'_>, of: &Context<'_>) -> Result<Val> {
    let grid = of.patches()?;
    let x = embed_patches(b, of)?;
    let patches = b.rows(x);
    let x = add_positions(b, x)?;
    let len: usize = b.shape("v.class_embd")?.iter().product();
    let classes = len / of.clip.width;
    let class = b.load("v.class_embd", classes, of.clip.width)?;
    let x = b.stack(&[class, x])?;
    let x = norm_if(b, NormKind::Layer, x, "v.pre_ln", of.clip.eps)?;
    let x = Vit::new(of.clip).run(b, x, of.clip.blocks)?;
    let x = norm_if(b, NormKind::Layer, x, "v.post_ln", of.clip.eps)?;
    let order: Vec<i32> = raster(classes + patches).split_off(classes);
    let x = b.reorder(x, &order)?;
    let x = unshuffle(b, x, grid, of.keys.size_or("projector.scale_factor", 1)?)?;
    let x = b.norm(NormKind::Rms, x, "mm.model.mlp.0", 1e-6)?;
    mlp(b, x, "mm.model.mlp.1", Act::ReluSquared, "mm.model.mlp.3")
}
