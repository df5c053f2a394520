//! The pictures of DeepSeek V4: patches merged by 3 x 3, laid out as the text model's compressor takes them.

use super::ocr::build_rotary_vit;
use super::pieces::join_channels;
use super::vit::{embed_patches, mlp, norm_if};
use super::Context;
use crate::graph::{Act, NormKind, Val};
use crate::{Builder, Result};

/// DeepSeek V4.
pub(super) fn build(b: &mut Builder<'_>, of: &Context<'_>) -> Result<Val> {
    let ([w, h], merge) = (of.patches()?, of.keys.size("projector.scale_factor")?);
    let mut vit = build_rotary_vit(of)?;
    vit.norm = NormKind::Rms;
    let x = embed_patches(b, of)?;
    let x = norm_if(b, NormKind::Rms, x, "v.pre_ln", of.clip.eps)?;
    let x = vit.run(b, x, of.clip.blocks)?;
    let x = norm_if(b, NormKind::Rms, x, "v.post_ln", of.clip.eps)?;
    // Cells that reach beyond the grid have zeros there.
    let (across, down) = (w.div_ceil(merge), h.div_ceil(merge));
    let mut order = Vec::with_capacity(across * down * merge * merge);
    for cell in 0..across * down {
        let (left, top) = (cell % across * merge, cell / across * merge);
        order.extend((0..merge * merge).map(|i| match (left + i % merge, top + i / merge) {
            (x, y) if x < w && y < h => (y * w + x) as i32,
            _ => -1,
        }));
    }
    let x = b.reorder(x, &order)?;
    let x = join_channels(b, x, merge)?;
    let x = mlp(b, x, "mm.1", Act::GeluErf, "mm.2")?;
    let cols = b.cols(x);
    let mut parts = vec![x];
    for name in ["v.token_embd.img_start", "v.token_embd.img_end", "v.image_newline", "v.token_embd.img_pad"] {
        parts.push(b.load(name, 1, cols)?);
    }
    let all = b.stack(&parts)?;
    b.reorder(all, &layout([across, down], of.inputs[0].lead_pad))
}

/// Rows of the block: of the grid, and behind these one each that starts the block, ends it, ends a line and pads. Two lines at a
/// time stand column by column.
fn layout([w, h]: [usize; 2], lead_pad: usize) -> Vec<i32> {
    let [start, end, newline, pad] = [0, 1, 2, 3].map(|i| (w * h + i) as i32);
    let mut all = vec![pad; lead_pad];
    all.push(start);
    for pair in 0..h.div_ceil(2) {
        for column in 0..=w {
            for line in [2 * pair, 2 * pair + 1] {
                all.push(match (line < h, column < w) {
                    (false, _) => pad,
                    (true, false) => newline,
                    (true, true) => (line * w + column) as i32,
                });
            }
        }
    }
    if h.div_ceil(2) * (w + 1) % 2 == 1 {
        all.extend([pad; 2]);
    }
    all.push(end);
    all
}
