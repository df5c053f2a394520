//! HunyuanVL: a perceiver of convolutions, a row at the end of each line, rows around the picture.

use super::pieces::{sample_square_table, Sampling};
use super::vit::{embed_patches, norm_if, Vit};
use super::Context;
use crate::graph::{Act, NormKind, Val, Window};
use crate::{Builder, Result};

/// Rows `[w * h, cols]` with `line` behind each line of `w`.
///
/// # Errors
/// Different columns.
pub(super) fn end_lines(b: &mut Builder<'_>, x: Val, w: usize, line: Val) -> Result<Val> {
    let h = b.rows(x) / w;
    let x = b.stack(&[x, line])?;
    let order: Vec<i32> =
        (0..h).flat_map(|y| (0..=w).map(move |c| if c < w { y * w + c } else { w * h } as i32)).collect();
    b.reorder(x, &order)
}

/// HunyuanVL.
pub(super) fn build(b: &mut Builder<'_>, of: &Context<'_>) -> Result<Val> {
    let grid = of.patches()?;
    let merge = of.keys.size_or("spatial_merge_size", 2)?;
    let x = embed_patches(b, of)?;
    let positions = sample_square_table(b, "v.position_embd.weight", of.clip.width, grid, Sampling::Stretched)?;
    let x = b.add(x, positions)?;
    let x = norm_if(b, NormKind::Layer, x, "v.pre_ln", of.clip.eps)?;
    let x = Vit { act: Act::Gelu, ..Vit::new(of.clip) }.run(b, x, of.clip.blocks)?;
    let x = norm_if(b, NormKind::Layer, x, "v.post_ln", of.clip.eps)?;
    let x = b.norm(NormKind::Rms, x, "mm.pre_norm", of.clip.eps)?;
    let out = grid.map(|n| n / merge);
    let window = Window { size: grid, kernel: [merge; 2], stride: [merge; 2], before: [0; 2], out };
    let x = b.conv(x, "mm.0", window)?;
    let x = b.act(Act::Gelu, x)?;
    let x = b.linear(x, "mm.2")?;
    let line = b.load("v.image_newline", 1, b.cols(x))?;
    let x = end_lines(b, x, out[0], line)?;
    let x = b.linear(x, "mm.model.fc")?;
    let begin = b.load("mm.image_begin", 1, b.cols(x))?;
    let end = b.load("mm.image_end", 1, b.cols(x))?;
    let x = b.stack(&[begin, x, end])?;
    b.norm(NormKind::Rms, x, "mm.post_norm", of.clip.eps)
}
