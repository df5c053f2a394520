//! The tower of Pixtral, Mistral Small 3 and LightOnOCR: rotations by row and column in turn, a row behind each row of tokens.

use super::pieces::{cells, frequency, join_channels, places, raster};
use super::vit::{embed_patches, mlp, norm_if, Turn, Vit};
use super::Context;
use crate::graph::{Act, NormKind, RotationPairs, Val};
use crate::{Builder, Result};

/// The base of the rotation's frequencies.
const THETA: f32 = 10_000.0;

/// Rows of tokens, with the break behind each row but the last where the file has one.
pub(super) fn pixtral(b: &mut Builder<'_>, of: &Context<'_>) -> Result<Val> {
    let (x, grid) = tower(b, of)?;
    let name = "v.token_embd.img_break";
    if !b.has(name) {
        return Ok(x);
    }
    let cols = b.cols(x);
    let rest = b.load(name, 1, cols)?;
    let all = b.stack(&[x, rest])?;
    let at = (grid[0] * grid[1]) as i32;
    let mut order: Vec<i32> = Vec::with_capacity((grid[0] + 1) * grid[1]);
    for y in 0..grid[1] {
        order.extend((0..grid[0]).map(|x| (y * grid[0] + x) as i32));
        order.push(at);
    }
    order.pop();
    b.reorder(all, &order)
}

/// Without breaks.
pub(super) fn lighton(b: &mut Builder<'_>, of: &Context<'_>) -> Result<Val> {
    Ok(tower(b, of)?.0)
}

fn tower(b: &mut Builder<'_>, of: &Context<'_>) -> Result<(Val, [usize; 2])> {
    let (clip, grid) = (of.clip, of.patches()?);
    let x = embed_patches(b, of)?;
    let x = norm_if(b, NormKind::Rms, x, "v.pre_ln", clip.eps)?;
    let places = places(&raster(grid[0] * grid[1]), grid[0]);
    let half = clip.head_dim / 2;
    let turn = |axis: usize, shift: usize| {
        let angle = |p: &[usize; 2], j: usize| p[axis] as f32 * frequency(THETA, 4 * j + shift, clip.head_dim);
        places.iter().flat_map(|p| (0..half / 2).map(move |j| angle(p, j))).collect::<Vec<f32>>()
    };
    let mut vit = Vit { norm: NormKind::Rms, ..Vit::new(clip) };
    vit.turns = vec![
        Turn { columns: (0, half), pairs: RotationPairs::Adjacent, angles: turn(1, 0) },
        Turn { columns: (half, half), pairs: RotationPairs::Adjacent, angles: turn(0, 2) },
    ];
    let mut x = vit.run(b, x, clip.blocks)?;
    let mut grid = grid;
    if b.has("mm.patch_merger.weight") {
        let merge = of.keys.size_or("spatial_merge_size", 1)?;
        x = b.norm(NormKind::Rms, x, "mm.input_norm", clip.eps)?;
        let order = cells(grid, merge)?;
        x = b.reorder(x, &order)?;
        x = join_channels(b, x, merge)?;
        x = b.linear(x, "mm.patch_merger")?;
        grid = [grid[0] / merge, grid[1] / merge];
    }
    Ok((mlp(b, x, "mm.1", Act::Gelu, "mm.2")?, grid))
}
