//! MiniMax M3, Muse Glimmer and Step3-VL: rotations of parts of a head by column or row.

use super::pieces::{cells, frequency, join_cells, join_channels, places, raster, sample_square_table};
use super::pieces::{vision_angles, Sampling};
use super::qwen::{window_spans, windows};
use super::vit::{embed_patches, mlp, norm_if, Turn, Vit};
use super::Context;
use crate::graph::{Act, NormKind, RotationPairs, Val, Window};
use crate::{Builder, Error, Result};

/// The base of the rotations' frequencies.
const THETA: f32 = 10_000.0;

/// MiniMax M3: a third of a head stands for time and stays, the next turns by the row, the last by the column.
pub(super) fn minimax(b: &mut Builder<'_>, of: &Context<'_>) -> Result<Val> {
    let ([w, h], merge) = (of.patches()?, of.keys.size_or("spatial_merge_size", 2)?);
    let order = cells([w, h], merge)?;
    let x = embed_patches(b, of)?;
    let x = b.reorder(x, &order)?;
    let mut vit = Vit { act: Act::GeluErf, ..Vit::new(of.clip) };
    let third = 2 * ((2 * (vit.head_dim / 2) / 3) / 2);
    if third == 0 {
        return Err(Error::Key(format!("clip.vision.attention.head_dim: expected at least 6, found {}", vit.head_dim)));
    }
    let places = places(&order, w);
    let turn = |at: usize, axis: usize| {
        let angle = |place: &[usize; 2], j: usize| place[axis] as f32 * frequency(THETA, 2 * j, third);
        let angles = places.iter().flat_map(|p| (0..third / 2).map(move |j| angle(p, j))).collect();
        Turn { columns: (at, third), pairs: RotationPairs::Halves, angles }
    };
    vit.turns = vec![turn(third, 1), turn(2 * third, 0)];
    let x = norm_if(b, NormKind::Layer, x, "v.pre_ln", of.clip.eps)?;
    let x = vit.run(b, x, of.clip.blocks)?;
    let x = norm_if(b, NormKind::Layer, x, "v.post_ln", of.clip.eps)?;
    let x = mlp(b, x, "mm.1", Act::GeluErf, "mm.2")?;
    let x = join_cells(b, x, merge)?;
    mlp(b, x, "mm.merger.fc1", Act::GeluErf, "mm.merger.fc2")
}

/// A rotation of neighbours: the first half of a head by the column, the second by the row, each counted from `first`.
fn by_column_and_row(vit: &Vit, order: &[i32], w: usize, first: usize) -> Turn {
    let swapped: Vec<[usize; 2]> = places(order, w).iter().map(|[x, y]| [y + first, x + first]).collect();
    let angles = vision_angles(&swapped, vit.head_dim, THETA);
    Turn { columns: (0, vit.head_dim), pairs: RotationPairs::Adjacent, angles }
}

/// Each how many blocks of Muse Glimmer one sees the whole picture; the last does as well.
const WHOLE_EACH: usize = 4;

/// Muse Glimmer: windows as large as the table of positions.
pub(super) fn muse(b: &mut Builder<'_>, of: &Context<'_>) -> Result<Val> {
    let ([w, h], merge) = (of.patches()?, of.keys.size_or("spatial_merge_size", 2)?);
    let width = of.clip.width;
    let x = embed_patches(b, of)?;
    let positions = sample_square_table(b, "v.position_embd.weight", width, [w, h], Sampling::Linear)?;
    let x = b.add(x, positions)?;
    let len: usize = b.shape("v.position_embd.weight")?.iter().product();
    let (order, sizes) = windows([w, h], (len / width).isqrt().max(1));
    let order: Vec<i32> = order.into_iter().map(|i| i as i32).collect();
    let x = b.reorder(x, &order)?;
    let mut vit = Vit { act: Act::GeluErf, ..Vit::new(of.clip) };
    vit.turns = vec![by_column_and_row(&vit, &order, w, 1)];
    let spans = b.spans(window_spans(sizes.into_iter()));
    let mut x = norm_if(b, NormKind::Layer, x, "v.pre_ln", of.clip.eps)?;
    for index in 0..of.clip.blocks {
        let whole = (index + 1) % WHOLE_EACH == 0 || index + 1 == of.clip.blocks;
        x = vit.block(b, x, index, (!whole).then_some(spans))?;
    }
    let x = norm_if(b, NormKind::Layer, x, "v.post_ln", of.clip.eps)?;
    let mut at = vec![0; order.len()];
    order.iter().enumerate().for_each(|(i, patch)| at[*patch as usize] = i as i32);
    let joined: Vec<i32> = cells([w, h], merge)?.into_iter().map(|patch| at[patch as usize]).collect();
    let x = b.reorder(x, &joined)?;
    let x = join_channels(b, x, merge)?;
    let x = mlp(b, x, "mm.0", Act::GeluErf, "mm.1")?;
    let x = b.act(Act::GeluErf, x)?;
    b.linear(x, "mm.2")
}

/// Step3-VL: two convolutions that halve the grid.
pub(super) fn step3(b: &mut Builder<'_>, of: &Context<'_>) -> Result<Val> {
    let mut grid = of.patches()?;
    let x = embed_patches(b, of)?;
    let positions = sample_square_table(b, "v.position_embd.weight", of.clip.width, grid, Sampling::Antialias)?;
    let x = b.add(x, positions)?;
    let x = norm_if(b, NormKind::Layer, x, "v.pre_ln", of.clip.eps)?;
    let mut vit = Vit::new(of.clip);
    vit.turns = vec![by_column_and_row(&vit, &raster(grid[0] * grid[1]), grid[0], 0)];
    let x = vit.run(b, x, of.clip.blocks)?;
    let mut x = norm_if(b, NormKind::Layer, x, "v.post_ln", of.clip.eps)?;
    for name in ["mm.0", "mm.1"] {
        let out = grid.map(|n| n.div_ceil(2));
        x = b.conv(x, name, Window { size: grid, kernel: [3; 2], stride: [2; 2], before: [1; 2], out })?;
        grid = out;
    }
    b.linear(x, "mm.model.fc")
}
