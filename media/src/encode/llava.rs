//! LLaVA's projectors on CLIP's tower: two layers, MobileVLM's two downsamplers, GLM-Edge's adapter.

use super::intern::with_class;
use super::pieces::{mean_cells, raster};
use super::vit::{embed_patches, mlp, norm_if, Vit};
use super::Context;
use crate::graph::{Act, Arg, Join, NormKind, Val, Window};
use crate::{Builder, Error, Result};

/// The epsilon of the projectors' norms.
const EPS: f32 = 1e-5;
/// Patches to a side that MobileVLM's projectors take.
const SIDE: usize = 24;

/// Rows of patches after the tower. The class row stands behind the patches and rows are counted from the second one on, so that the
/// first patch is dropped and the class row kept: this is what files are run with.
fn tower(b: &mut Builder<'_>, of: &Context<'_>, all_blocks: bool) -> Result<Val> {
    let clip = of.clip;
    let x = embed_patches(b, of)?;
    let patches = b.rows(x);
    let x = with_class(b, x)?;
    let classed = b.rows(x) > patches;
    let mut x = norm_if(b, NormKind::Layer, x, "v.pre_ln", clip.eps)?;
    let features = &clip.feature_layers;
    let deepest = match features.iter().max() {
        Some(n) => usize::try_from(*n).ok().filter(|n| *n <= clip.blocks).ok_or_else(|| {
            Error::Key(format!("clip.vision.feature_layer: expected blocks up to {}, found {n}", clip.blocks))
        })?,
        None if all_blocks => clip.blocks,
        None => clip.blocks.saturating_sub(1),
    };
    let vit = Vit { swapped: true, ..Vit::new(clip) };
    let mut streams = Vec::new();
    for index in 0..deepest {
        if features.contains(&(index as i64)) {
            streams.push(x);
        }
        x = vit.block(b, x, index, None)?;
    }
    let x = norm_if(b, NormKind::Layer, x, "v.post_ln", clip.eps)?;
    let x = if streams.is_empty() {
        x
    } else {
        streams.push(x);
        b.join(&streams)?
    };
    if !classed {
        return Ok(x);
    }
    let order: Vec<i32> = raster(patches).iter().map(|row| row + 1).collect();
    b.reorder(x, &order)
}

/// Two linear layers, or four tensors with norms between (Yi-VL).
pub(super) fn two_layers(b: &mut Builder<'_>, of: &Context<'_>) -> Result<Val> {
    let x = tower(b, of, false)?;
    let x = b.linear(x, "mm.0")?;
    if b.has("mm.3.weight") {
        let x = b.norm(NormKind::Layer, x, "mm.1", EPS)?;
        let x = b.act(Act::Gelu, x)?;
        let x = b.linear(x, "mm.3")?;
        return b.norm(NormKind::Layer, x, "mm.4", EPS);
    }
    if !b.has("mm.2.weight") {
        return Ok(x);
    }
    let x = b.act(Act::Gelu, x)?;
    b.linear(x, "mm.2")
}

fn square(b: &Builder<'_>, x: Val) -> Result<()> {
    match b.rows(x) == SIDE * SIDE {
        true => Ok(()),
        false => Err(Error::Shape(format!("expected {SIDE} x {SIDE} patches, found {}", b.rows(x)))),
    }
}

/// A window of 3 x 3 over a square of `side` with a border of zeros.
fn window_3x3(side: usize, stride: usize) -> Window {
    Window { size: [side; 2], kernel: [3; 2], stride: [stride; 2], before: [1; 2], out: [side.div_ceil(stride); 2] }
}

/// MobileVLM.
pub(super) fn ldp(b: &mut Builder<'_>, of: &Context<'_>) -> Result<Val> {
    let x = tower(b, of, false)?;
    square(b, x)?;
    let x = mlp(b, x, "mm.model.mlp.1", Act::Gelu, "mm.model.mlp.3")?;
    let first = mobile_block(b, x, 1, 1)?;
    let x = b.add(x, first)?;
    mobile_block(b, x, 2, 2)
}

/// Depthwise convolution, squeeze and excitation, a linear layer.
fn mobile_block(b: &mut Builder<'_>, x: Val, index: usize, stride: usize) -> Result<Val> {
    let name = |part: &str| format!("mm.model.mb_block.{index}.block.{part}");
    let x = b.depthwise(x, &name("0.0"), window_3x3(SIDE, stride))?;
    let x = b.norm(NormKind::Layer, x, &name("0.1"), EPS)?;
    let x = b.act(Act::HardSwish, x)?;
    let rows = b.rows(x);
    let picks = b.picks(rows, raster(rows).into_iter().map(|row| (row, 1.0 / rows as f32)).collect());
    let mean = b.pick(x, picks)?;
    let share = mlp(b, mean, &name("1.fc1"), Act::Relu, &name("1.fc2"))?;
    let share = b.act(Act::HardSigmoid, share)?;
    let share = b.all(share);
    let x = b.map(Act::Same, x, 1.0, Some((Join::Mul, Arg::Part(share))))?;
    let x = b.linear(x, &name("2.0"))?;
    b.norm(NormKind::Layer, x, &name("2.1"), EPS)
}

/// MobileVLM 2.
pub(super) fn ldpv2(b: &mut Builder<'_>, of: &Context<'_>) -> Result<Val> {
    let x = tower(b, of, false)?;
    square(b, x)?;
    let x = mlp(b, x, "mm.model.mlp.0", Act::Gelu, "mm.model.mlp.2")?;
    let x = mean_cells(b, x, [SIDE; 2], 2)?;
    let nearby = b.depthwise(x, "mm.model.peg.0", window_3x3(SIDE / 2, 1))?;
    b.add(x, nearby)
}

/// GLM-Edge.
pub(super) fn adapter(b: &mut Builder<'_>, of: &Context<'_>) -> Result<Val> {
    let (x, grid) = (tower(b, of, true)?, of.patches()?);
    let out = [grid[0] / 2, grid[1] / 2];
    let window = Window { size: grid, kernel: [2; 2], stride: [2; 2], before: [0; 2], out };
    let x = b.conv(x, "adapter.conv", window)?;
    let x = b.linear(x, "adapter.linear.linear")?;
    let x = b.norm(NormKind::Layer, x, "adapter.linear.norm1", EPS)?;
    let x = b.act(Act::Gelu, x)?;
    let gate = b.linear(x, "adapter.linear.gate")?;
    let up = b.linear(x, "adapter.linear.dense_h_to_4h")?;
    let x = b.gate(Act::Silu, gate, up)?;
    let x = b.linear(x, "adapter.linear.dense_4h_to_h")?;
    let cols = b.cols(x);
    let (begin, end) = (b.load("adapter.boi", 1, cols)?, b.load("adapter.eoi", 1, cols)?);
    b.stack(&[begin, x, end])
}
