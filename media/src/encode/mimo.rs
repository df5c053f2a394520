//! The tower of MiMo-VL: bands of rows or of columns of cells, with sinks.

use super::pieces::{cells, join_cells, places, vision_angles};
use super::vit::{embed_patches, mlp, Turn, Vit};
use super::Context;
use crate::graph::{Act, NormKind, RotationPairs, Val};
use crate::{Attention, Builder, Error, Result};

/// The base of the rotation's frequencies.
const THETA: f32 = 10_000.0;

/// What a block sees.
#[derive(Clone, Copy, PartialEq)]
enum Mode {
    /// Everything.
    Whole,
    /// A band of cells row by row.
    Rows,
    /// A band of cells column by column.
    Columns,
}

fn modes(of: &Context<'_>) -> Result<Vec<Mode>> {
    let modes = of.keys.list("wa_pattern_mode")?;
    let mode = |n: &i64| match n {
        -1 => Some(Mode::Whole),
        0 => Some(Mode::Rows),
        1 => Some(Mode::Columns),
        _ => None,
    };
    let known: Vec<Mode> = modes.iter().filter_map(mode).collect();
    match known.len() == of.clip.blocks && modes.len() == of.clip.blocks {
        true => Ok(known),
        false => Err(Error::Key(format!(
            "clip.vision.wa_pattern_mode: expected -1, 0 or 1 for each of {} blocks, found {modes:?}",
            of.clip.blocks
        ))),
    }
}

/// MiMo-VL.
pub(super) fn build(b: &mut Builder<'_>, of: &Context<'_>) -> Result<Val> {
    let merge = of.keys.size_or("spatial_merge_size", 2)?;
    let ([w, h], size) = (of.patches()?, merge * merge);
    let by_rows = cells([w, h], merge)?;
    let (across, down) = (w / merge, h / merge);
    // Place of each row in the other order, whole cells together.
    let to_columns: Vec<i32> = (0..across * down)
        .flat_map(|u| {
            let cell = u % down * across + u / down;
            (0..size).map(move |i| (cell * size + i) as i32)
        })
        .collect();
    let mut to_rows = vec![0; to_columns.len()];
    to_columns.iter().enumerate().for_each(|(i, row)| to_rows[*row as usize] = i as i32);
    let by_columns: Vec<i32> = to_columns.iter().map(|i| by_rows[*i as usize]).collect();
    let tower = |order: &[i32]| tower(b, of, &places(order, w));
    let (rows, columns) = (tower(&by_rows)?, tower(&by_columns)?);
    let (modes, window) = (modes(of)?, of.keys.size("window_size")?);
    let band = |i: usize| [i.saturating_sub(window) as u32, (i + window + 1).min(w * h) as u32];
    let spans = b.spans((0..w * h).map(band).collect());
    let x = embed_patches(b, of)?;
    let mut x = b.reorder(x, &by_rows)?;
    let mut turned = false;
    for (index, mode) in modes.into_iter().enumerate() {
        if turned != (mode == Mode::Columns) {
            x = b.reorder(x, if turned { &to_rows } else { &to_columns })?;
            turned = !turned;
        }
        let vit = if turned { &columns } else { &rows };
        let rules = match mode {
            Mode::Whole => vit.rules(),
            _ => {
                let sinks = b.vector(&format!("v.blk.{index}.attn_sinks"), vit.heads)?;
                Attention { spans: Some(spans), sinks: Some(sinks), ..vit.rules() }
            }
        };
        x = vit.block_by(b, x, index, &rules)?;
    }
    if turned {
        x = b.reorder(x, &to_rows)?;
    }
    let x = b.norm(NormKind::Layer, x, "v.post_ln", 1e-6)?;
    let x = join_cells(b, x, merge)?;
    mlp(b, x, "mm.0", Act::Gelu, "mm.2")
}

/// A tower for rows at these places. The length of a head is that of the product: `head_dim` is often not said.
fn tower(b: &Builder<'_>, of: &Context<'_>, places: &[[usize; 2]]) -> Result<Vit> {
    let mut vit = Vit { norm: NormKind::Rms, ..Vit::new(of.clip) };
    let len: usize = b.shape("v.blk.0.attn_qkv.weight")?.iter().product();
    let (rows, heads) = (len / vit.width, vit.heads + 2 * vit.kv_heads);
    if !rows.is_multiple_of(heads * 4) {
        return Err(Error::Shape(format!("v.blk.0.attn_qkv.weight: expected rows of {heads} heads, found {rows}")));
    }
    vit.head_dim = rows / heads;
    vit.scale = 1.0 / (vit.head_dim as f32).sqrt();
    let angles = vision_angles(places, vit.head_dim, THETA);
    vit.turns = vec![Turn { columns: (0, vit.head_dim), pairs: RotationPairs::Halves, angles }];
    Ok(vit)
}
