//! The towers of Kimi-VL and Kimi K2.5.

use super::pieces::{frequency, places, raster, sample, sample_square_table, unshuffle, Sampling};
use super::vit::{embed_patches, mlp, norm_if, Turn, Vit};
use super::Context;
use crate::graph::{Act, NormKind, RotationPairs, Val};
use crate::{Builder, Error, Result};

/// The base of the rotation's frequencies.
const THETA: f32 = 10_000.0;

/// Kimi-VL: a square table of positions, a row for each.
pub(super) fn vl(b: &mut Builder<'_>, of: &Context<'_>) -> Result<Val> {
    let x = embed_patches(b, of)?;
    let positions =
        sample_square_table(b, "v.position_embd.weight", of.clip.width, of.patches()?, Sampling::Antialias)?;
    let x = b.add(x, positions)?;
    rest(b, of, x, 1e-5)
}

/// Kimi K2.5: a table `[width, columns, rows]`, sampled by cubics.
pub(super) fn k25(b: &mut Builder<'_>, of: &Context<'_>) -> Result<Val> {
    let (name, cols) = ("v.position_embd.weight", of.clip.width);
    let shape = b.shape(name)?;
    let side = match shape[..] {
        [width, across, down] if width == cols => [across, down],
        _ => return Err(Error::Shape(format!("{name}: expected [{cols}, columns, rows], found {shape:?}"))),
    };
    let x = embed_patches(b, of)?;
    let table = b.load(name, side[0] * side[1], cols)?;
    let positions = sample(b, table, side, of.patches()?, Sampling::Cubic)?;
    let x = b.add(x, positions)?;
    rest(b, of, x, of.clip.eps)
}

fn rest(b: &mut Builder<'_>, of: &Context<'_>, x: Val, eps: f32) -> Result<Val> {
    let (clip, grid) = (of.clip, of.patches()?);
    let places = places(&raster(grid[0] * grid[1]), grid[0]);
    let half = clip.head_dim / 2;
    let turn = |axis: usize| {
        let angle = |p: &[usize; 2], j: usize| p[axis] as f32 * frequency(THETA, 4 * j, clip.head_dim);
        let angles = places.iter().flat_map(|p| (0..half / 2).map(move |j| angle(p, j))).collect();
        Turn { columns: (axis * half, half), pairs: RotationPairs::Adjacent, angles }
    };
    let mut vit = Vit::new(clip);
    vit.turns = vec![turn(0), turn(1)];
    let x = vit.run(b, x, clip.blocks)?;
    let x = norm_if(b, NormKind::Layer, x, "v.post_ln", clip.eps)?;
    let x = norm_if(b, NormKind::Layer, x, "mm.input_norm", eps)?;
    let x = unshuffle(b, x, grid, of.keys.size_or("projector.scale_factor", 1)?)?;
    mlp(b, x, "mm.1", Act::Gelu, "mm.2")
}
