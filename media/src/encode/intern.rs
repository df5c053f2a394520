//! The towers of InternVL and Llama 4: a class row behind the patches.

use super::pieces::{cells, frequency, join_cells, places, raster, unshuffle};
use super::vit::{add_positions, embed_patches, norm_if, Turn, Vit};
use super::Context;
use crate::graph::{Act, NormKind, RotationPairs, Val};
use crate::{Builder, Result};

/// The base of the rotation's frequencies in Llama 4.
const THETA: f32 = 10_000.0;
/// Width and blocks of the one InternViT whose norms are by the root of the mean square.
const LARGEST: (usize, usize) = (3200, 45);

/// Patches, and the class row behind them, if the file has one, with their positions in that order.
pub(super) fn with_class(b: &mut Builder<'_>, x: Val) -> Result<Val> {
    let cols = b.cols(x);
    let x = if b.has("v.class_embd") {
        let class = b.load("v.class_embd", 1, cols)?;
        b.stack(&[x, class])?
    } else {
        x
    };
    if b.has("v.position_embd.weight") {
        add_positions(b, x)
    } else {
        Ok(x)
    }
}

/// The first rows.
pub(super) fn first_rows(b: &mut Builder<'_>, x: Val, count: usize) -> Result<Val> {
    if b.rows(x) == count {
        Ok(x)
    } else {
        b.reorder(x, &raster(count))
    }
}

/// InternVL.
pub(super) fn internvl(b: &mut Builder<'_>, of: &Context<'_>) -> Result<Val> {
    let (clip, grid) = (of.clip, of.patches()?);
    let x = embed_patches(b, of)?;
    let x = with_class(b, x)?;
    let mut vit = Vit::new(clip);
    if (clip.width, clip.blocks) == LARGEST {
        vit.norm = NormKind::Rms;
    }
    let x = norm_if(b, vit.norm, x, "v.pre_ln", clip.eps)?;
    let x = vit.run(b, x, clip.blocks)?;
    let x = norm_if(b, vit.norm, x, "v.post_ln", clip.eps)?;
    let x = first_rows(b, x, grid[0] * grid[1])?;
    let x = unshuffle(b, x, grid, of.keys.size_or("projector.scale_factor", 1)?)?;
    let x = b.norm(NormKind::Layer, x, "mm.model.mlp.0", 1e-5)?;
    let x = b.linear(x, "mm.model.mlp.1")?;
    let x = b.act(Act::Gelu, x)?;
    b.linear(x, "mm.model.mlp.3")
}

/// Llama 4: cells come column by column.
pub(super) fn llama4(b: &mut Builder<'_>, of: &Context<'_>) -> Result<Val> {
    let (clip, [w, h]) = (of.clip, of.patches()?);
    let x = embed_patches(b, of)?;
    let x = with_class(b, x)?;
    let mut at: Vec<[usize; 2]> = places(&raster(w * h), w).iter().map(|[x, y]| [x + 1, y + 1]).collect();
    at.resize(b.rows(x), [0, 0]);
    let half = clip.head_dim / 2;
    let turn = |axis: usize| {
        let angle = |p: &[usize; 2], j: usize| p[axis] as f32 * frequency(THETA, 4 * j, clip.head_dim);
        let angles = at.iter().flat_map(|p| (0..half / 2).map(move |j| angle(p, j))).collect();
        Turn { columns: (axis * half, half), pairs: RotationPairs::Adjacent, angles }
    };
    let mut vit = Vit::new(clip);
    vit.turns = vec![turn(0), turn(1)];
    let x = norm_if(b, NormKind::Layer, x, "v.pre_ln", clip.eps)?;
    let x = vit.run(b, x, clip.blocks)?;
    let x = norm_if(b, NormKind::Layer, x, "v.post_ln", clip.eps)?;
    let m = of.keys.size_or("projector.scale_factor", 1)?;
    let (cells, [across, down]) = (cells([w, h], m)?, [w / m, h / m]);
    let by_column = (0..across * down).map(|i| i % down * across + i / down);
    let order: Vec<i32> = by_column.flat_map(|c| cells[c * m * m..][..m * m].iter().copied()).collect();
    let x = b.reorder(x, &order)?;
    let x = join_cells(b, x, m)?;
    let x = b.linear(x, "mm.model.mlp.1")?;
    let x = b.act(Act::Gelu, x)?;
    let x = b.linear(x, "mm.model.mlp.2")?;
    let x = b.act(Act::Gelu, x)?;
    b.linear(x, "mm.model.fc")
}
