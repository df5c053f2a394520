//! The tower of Youtu-VL: windows of cells, of which listed blocks look beyond.

use super::pieces::{cells, join_cells, places, vision_angles};
use super::qwen::{window_spans, windows};
use super::vit::{mlp, norm_if, Turn, Vit};
use super::Context;
use crate::graph::{Act, NormKind, RotationPairs, Val};
use crate::{Builder, Error, Result};

/// Patches that are merged, to a side.
const MERGE: usize = 2;
/// The base of the rotation's frequencies.
const THETA: f32 = 10_000.0;

/// Youtu-VL.
pub(super) fn build(b: &mut Builder<'_>, of: &Context<'_>) -> Result<Val> {
    let [w, h] = of.patches()?;
    let raster = cells([w, h], MERGE)?;
    let whole = of.keys.list("wa_layer_indexes")?;
    let merged = [w / MERGE, h / MERGE];
    let (window_order, sizes) = match whole.is_empty() {
        true => ((0..merged[0] * merged[1]).collect(), vec![]),
        false => windows(merged, (of.keys.size("window_size")? / of.clip.patch / MERGE).max(1)),
    };
    let size = MERGE * MERGE;
    let order: Vec<i32> = window_order.iter().flat_map(|c| raster[c * size..][..size].iter().copied()).collect();
    let x = embed(b, of)?;
    let x = b.reorder(x, &order)?;
    let mut x = norm_if(b, NormKind::Layer, x, "v.pre_ln", of.clip.eps)?;
    let mut vit = Vit::new(of.clip);
    let angles = vision_angles(&places(&order, w), vit.head_dim, THETA);
    vit.turns = vec![Turn { columns: (0, vit.head_dim), pairs: RotationPairs::Halves, angles }];
    let spans = match whole.is_empty() {
        true => None,
        false => Some(b.spans(window_spans(sizes.iter().map(|cells| cells * size)))),
    };
    for index in 0..of.clip.blocks {
        x = vit.block(b, x, index, spans.filter(|_| !whole.contains(&(index as i64))))?;
    }
    let x = norm_if(b, NormKind::Layer, x, "v.post_ln", of.clip.eps)?;
    let x = b.norm(NormKind::Rms, x, "mm.input_norm", 1e-6)?;
    let x = join_cells(b, x, MERGE)?;
    let x = mlp(b, x, "mm.0", Act::Gelu, "mm.2")?;
    let mut back = vec![0; window_order.len()];
    window_order.iter().enumerate().for_each(|(i, cell)| back[*cell] = i as i32);
    b.reorder(x, &back)
}

/// Patches by a plain matrix: pixels of a patch row by row, red, green and blue of each.
fn embed(b: &mut Builder<'_>, of: &Context<'_>) -> Result<Val> {
    let ([w, h], p) = (of.patches()?, of.clip.patch);
    let [input] = of.inputs else {
        return Err(Error::Medium(format!("expected one picture, found {} frames", of.inputs.len())));
    };
    let pixels = b.input(input.width * input.height, 3)?;
    let line = input.width * 3;
    let patches = b.permute(pixels, &[(h, p * line), (w, p * 3), (p, line), (p * 3, 1)], w * h, p * p * 3)?;
    b.linear(patches, "v.patch_embd")
}
