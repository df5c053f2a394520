//! The towers of Qwen2-VL, Qwen2.5-VL, Qwen3-VL and Ling 3: patches in cells of 2 x 2, rotations by row and column, a merger of cells.

use super::pieces::{cells, join_cells, places, sample_square_table, vision_angles, Sampling};
use super::vit::{embed_patches, mlp, norm_if, Turn, Vit};
use super::Context;
use crate::graph::{Act, NormKind, RotationPairs, Val};
use crate::{Builder, Error, Result};

/// Patches that are merged, to a side.
const MERGE: usize = 2;
/// The base of the rotation's frequencies.
const THETA: f32 = 10_000.0;
/// Pixels of a window of Qwen2.5-VL, to a side.
const WINDOW: usize = 112;

fn build_rotary_vit(of: &Context<'_>, order: &[i32]) -> Result<Vit> {
    let mut vit = Vit::new(of.clip);
    let [w, _] = of.patches()?;
    let angles = vision_angles(&places(order, w), vit.head_dim, THETA);
    vit.turns = vec![Turn { columns: (0, vit.head_dim), pairs: RotationPairs::Halves, angles }];
    Ok(vit)
}

/// Qwen2-VL.
pub(super) fn two(b: &mut Builder<'_>, of: &Context<'_>) -> Result<Val> {
    let order = cells(of.patches()?, MERGE)?;
    let x = embed_patches(b, of)?;
    let x = b.reorder(x, &order)?;
    let mut vit = build_rotary_vit(of, &order)?;
    vit.swapped = true;
    let x = vit.run(b, x, of.clip.blocks)?;
    let x = norm_if(b, NormKind::Layer, x, "v.post_ln", of.clip.eps)?;
    let x = join_cells(b, x, MERGE)?;
    mlp(b, x, "mm.0", Act::Gelu, "mm.2")
}

/// Places of a grid window by window, and how many each window has.
pub(super) fn windows([w, h]: [usize; 2], side: usize) -> (Vec<usize>, Vec<usize>) {
    let (mut order, mut sizes) = (Vec::with_capacity(w * h), Vec::new());
    for y in (0..h).step_by(side) {
        for x in (0..w).step_by(side) {
            let before = order.len();
            for row in y..h.min(y + side) {
                order.extend((x..w.min(x + side)).map(|col| row * w + col));
            }
            sizes.push(order.len() - before);
        }
    }
    (order, sizes)
}

/// Keys that the rows of windows see: those of their own window.
pub(super) fn window_spans(sizes: impl Iterator<Item = usize>) -> Vec<[u32; 2]> {
    let mut seen = Vec::new();
    for len in sizes {
        let from = seen.len() as u32;
        seen.extend(std::iter::repeat_n([from, from + len as u32], len));
    }
    seen
}

/// Qwen2.5-VL: most blocks see windows only.
pub(super) fn two_five(b: &mut Builder<'_>, of: &Context<'_>) -> Result<Val> {
    let pattern = of.keys.whole("n_wa_pattern")?;
    let pattern = pattern
        .ok_or_else(|| Error::Key("clip.vision.n_wa_pattern: expected a whole number, found no such key".into()))?;
    build_windowed(b, of, pattern)
}

/// EXAONE 4.5: as Qwen2.5-VL, with fewer heads of k and v; without the key no block has windows.
pub(super) fn exaone(b: &mut Builder<'_>, of: &Context<'_>) -> Result<Val> {
    build_windowed(b, of, of.keys.whole("n_wa_pattern")?.unwrap_or(0))
}

/// Blocks that see windows, but each `pattern`-th; with 0 none does.
fn build_windowed(b: &mut Builder<'_>, of: &Context<'_>, pattern: usize) -> Result<Val> {
    let [w, h] = of.patches()?;
    let raster = cells([w, h], MERGE)?;
    let merged = [w / MERGE, h / MERGE];
    let side = (WINDOW / of.clip.patch / MERGE).max(1);
    let (window_order, sizes) = match pattern {
        0 => ((0..merged[0] * merged[1]).collect(), vec![]),
        _ => windows(merged, side),
    };
    let size = MERGE * MERGE;
    let order: Vec<i32> = window_order.iter().flat_map(|c| raster[c * size..][..size].iter().copied()).collect();
    let x = embed_patches(b, of)?;
    let mut x = b.reorder(x, &order)?;
    let mut vit = build_rotary_vit(of, &order)?;
    (vit.norm, vit.swapped, vit.act) = (NormKind::Rms, true, super::vit::activation(of.clip));
    let seen = window_spans(sizes.iter().map(|cells| cells * size));
    let spans = (pattern > 0).then(|| b.spans(seen));
    for index in 0..of.clip.blocks {
        let windowed = pattern > 0 && (index + 1) % pattern != 0;
        x = vit.block(b, x, index, spans.filter(|_| windowed))?;
    }
    let x = norm_if(b, NormKind::Rms, x, "v.post_ln", of.clip.eps)?;
    let x = join_cells(b, x, MERGE)?;
    let x = mlp(b, x, "mm.0", Act::Gelu, "mm.2")?;
    let mut back = vec![0; window_order.len()];
    window_order.iter().enumerate().for_each(|(i, cell)| back[*cell] = i as i32);
    b.reorder(x, &back)
}

/// Qwen3-VL and Ling 3: a table of positions besides, and streams of some blocks beside the rows.
pub(super) fn three(b: &mut Builder<'_>, of: &Context<'_>) -> Result<Val> {
    let grid = of.patches()?;
    let order = cells(grid, MERGE)?;
    let x = embed_patches(b, of)?;
    let positions = sample_square_table(b, "v.position_embd.weight", of.clip.width, grid, Sampling::Corners)?;
    let x = b.add(x, positions)?;
    let mut x = b.reorder(x, &order)?;
    let vit = Vit { act: Act::Gelu, ..build_rotary_vit(of, &order)? };
    let mut streams = Vec::new();
    for index in 0..of.clip.blocks {
        x = vit.block(b, x, index, None)?;
        let name = |part: &str| format!("v.deepstack.{index}.{part}");
        if b.has(&name("fc1.weight")) {
            let joined = join_cells(b, x, MERGE)?;
            let normed = b.norm(NormKind::Layer, joined, &name("norm"), of.clip.eps)?;
            streams.push(mlp(b, normed, &name("fc1"), Act::Gelu, &name("fc2"))?);
        }
    }
    let x = norm_if(b, NormKind::Layer, x, "v.post_ln", of.clip.eps)?;
    let x = norm_if(b, NormKind::Layer, x, "mm.input_norm", of.clip.eps)?;
    let x = join_cells(b, x, MERGE)?;
    let x = mlp(b, x, "mm.0", Act::Gelu, "mm.2")?;
    streams.insert(0, x);
    if streams.len() == 1 {
        Ok(x)
    } else {
        b.join(&streams)
    }
}
