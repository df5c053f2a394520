//! The towers of Gemma 3 and Gemma 4.

use super::pieces::{frequency, mean_cells, places, raster};
use super::vit::{add_positions, embed_patches, norm_if, Turn, Vit};
use super::Context;
use crate::graph::{Act, Arg, Join, NormKind, RotationPairs, Val, Window};
use crate::{Builder, Error, Result};

/// The base of the rotation's frequencies in Gemma 4.
const THETA: f32 = 100.0;

/// Gemma 3: SigLIP, means of cells, a matrix that is stored as `[in, out]`.
pub(super) fn three(b: &mut Builder<'_>, of: &Context<'_>) -> Result<Val> {
    let x = embed_patches(b, of)?;
    let x = add_positions(b, x)?;
    let mut vit = Vit::new(of.clip);
    vit.swapped = true;
    let x = vit.run(b, x, of.clip.blocks)?;
    let x = norm_if(b, NormKind::Layer, x, "v.post_ln", of.clip.eps)?;
    let x = mean_cells(b, x, of.patches()?, of.keys.size_or("projector.scale_factor", 4)?)?;
    let x = b.norm(NormKind::Rms, x, "mm.soft_emb_norm", of.clip.eps)?;
    let weight = b.matrix_transposed("mm.input_projection.weight", of.clip.width)?;
    let x = b.all(x);
    b.product(x, weight, None)
}

/// Adds the rows of two tables, of the column and of the row of each patch: `v.position_embd.weight` `[width, size, 2]`.
fn add_both_positions(b: &mut Builder<'_>, x: Val, grid: [usize; 2]) -> Result<Val> {
    let name = "v.position_embd.weight";
    let (cols, shape) = (b.cols(x), b.shape(name)?);
    let size = match shape[..] {
        [width, size, 2] if width == cols && size >= grid[0].max(grid[1]) => size,
        _ => {
            return Err(Error::Shape(format!(
                "{name}: expected two tables of {cols} columns for {} x {} patches, found {shape:?}",
                grid[0], grid[1]
            )))
        }
    };
    let table = b.load(name, 2 * size, cols)?;
    let places = places(&raster(grid[0] * grid[1]), grid[0]);
    let entries = places.iter().flat_map(|[x, y]| [(*x as i32, 1.0), ((size + y) as i32, 1.0)]).collect();
    let picks = b.picks(2, entries);
    let positions = b.pick(table, picks)?;
    b.add(x, positions)
}

/// Gemma 4.
pub(super) fn four(b: &mut Builder<'_>, of: &Context<'_>) -> Result<Val> {
    let (clip, grid) = (of.clip, of.patches()?);
    let [width, height] = [of.inputs[0].width, of.inputs[0].height];
    let window =
        Window { size: [width, height], kernel: [clip.patch; 2], stride: [clip.patch; 2], before: [0; 2], out: grid };
    let pixels = b.input(width * height, 3)?;
    let pixels = b.map(Act::Same, pixels, 2.0, Some((Join::Add, Arg::Number(-1.0))))?;
    let x = b.conv(pixels, "v.patch_embd", window)?;
    let x = add_both_positions(b, x, grid)?;
    let places = places(&raster(grid[0] * grid[1]), grid[0]);
    let half = clip.head_dim / 2;
    let turn = |axis: usize| {
        let angle = |p: &[usize; 2], j: usize| p[axis] as f32 * frequency(THETA, 2 * j, half);
        let angles = places.iter().flat_map(|p| (0..half / 2).map(move |j| angle(p, j))).collect();
        Turn { columns: (axis * half, half), pairs: RotationPairs::Halves, angles }
    };
    let mut vit = Vit { norm: NormKind::Rms, scale: 1.0, norm_v: true, ..Vit::new(clip) };
    vit.turns = vec![turn(0), turn(1)];
    let x = vit.run(b, x, clip.blocks)?;
    let merge = of.keys.size_or("projector.scale_factor", 3)?;
    let x = mean_cells(b, x, grid, merge)?;
    let mut x = b.scale(x, (clip.width as f32).sqrt())?;
    if b.has("v.std_bias") && b.has("v.std_scale") {
        let bias = b.load("v.std_bias", 1, clip.width)?;
        let bias = b.scale(bias, -1.0)?;
        x = b.add(x, bias)?;
        x = b.mul_weight(x, "v.std_scale", 1, clip.width)?;
    }
    let x = b.all(x);
    let x = b.norm_with(NormKind::Rms, x, 1, (None, None), clip.eps)?;
    b.linear(x, "mm.input_projection")
}

/// Gemma 4 without a tower: patches of a cell's size, norms and a product.
pub(super) fn four_unified(b: &mut Builder<'_>, of: &Context<'_>) -> Result<Val> {
    /// The epsilon of the norms by mean and deviation.
    const EPS: f32 = 1e-5;
    let patch = of.clip.patch * of.keys.size_or("projector.scale_factor", 3)?;
    let [width, height] = [of.inputs[0].width, of.inputs[0].height];
    let grid = [width / patch, height / patch];
    let window = Window { size: [width, height], kernel: [patch; 2], stride: [patch; 2], before: [0; 2], out: grid };
    let pixels = b.input(width * height, 3)?;
    let x = b.unfold(pixels, window)?;
    let x = b.norm(NormKind::Layer, x, "v.patch_norm.1", EPS)?;
    let x = b.linear(x, "v.patch_embd")?;
    let x = b.norm(NormKind::Layer, x, "v.patch_norm.2", EPS)?;
    let x = add_both_positions(b, x, grid)?;
    let x = b.norm(NormKind::Layer, x, "v.patch_norm.3", EPS)?;
    let x = b.all(x);
    let x = b.norm_with(NormKind::Rms, x, 1, (None, None), of.clip.eps)?;
    b.linear(x, "mm.input_projection")
}
