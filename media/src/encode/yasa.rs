//! Yasa 2: ConvNeXt V2, pooled to a grid of 8 x 8.

use super::vit::{embed_patches, mlp};
use super::Context;
use crate::graph::{Act, NormKind, Op, Val, Window};
use crate::{Builder, Result};

/// Side of the pooled grid.
const SIDE: usize = 8;

/// Yasa 2.
pub(super) fn build(b: &mut Builder<'_>, of: &Context<'_>) -> Result<Val> {
    let (mut grid, eps) = (of.patches()?, of.clip.eps);
    let x = embed_patches(b, of)?;
    let mut x = b.norm(NormKind::Layer, x, "v.patch_ln", eps)?;
    for stage in 0.. {
        let name = |part: &str| format!("v.stage.{stage}.{part}");
        let narrows = b.has(&name("down.conv.weight"));
        if !narrows && !b.has(&name("blk.0.dw.weight")) {
            break;
        }
        if narrows {
            x = b.norm(NormKind::Layer, x, &name("down.ln"), eps)?;
            let out = grid.map(|n| n / 2);
            x = b.conv(
                x,
                &name("down.conv"),
                Window { size: grid, kernel: [2; 2], stride: [2; 2], before: [0; 2], out },
            )?;
            grid = out;
        }
        for block in 0.. {
            let prefix = name(&format!("blk.{block}"));
            if !b.has(&format!("{prefix}.dw.weight")) {
                break;
            }
            x = convnext(b, x, &prefix, grid, eps)?;
        }
    }
    let (rows, cols) = (b.rows(x), b.cols(x));
    if b.has("v.vision_pos_embed") && b.shape("v.vision_pos_embed")?.iter().product::<usize>() == rows * cols {
        x = b.add_weight(x, "v.vision_pos_embed", rows, cols)?;
    }
    let x = pool(b, x, grid)?;
    mlp(b, x, "mm.0", Act::GeluErf, "mm.2")
}

fn convnext(b: &mut Builder<'_>, x: Val, prefix: &str, grid: [usize; 2], eps: f32) -> Result<Val> {
    let name = |part: &str| format!("{prefix}.{part}");
    let window = Window { size: grid, kernel: [7; 2], stride: [1; 2], before: [3; 2], out: grid };
    let y = b.depthwise(x, &name("dw"), window)?;
    let y = b.norm(NormKind::Layer, y, &name("ln"), eps)?;
    let y = b.linear(y, &name("pw1"))?;
    let y = b.act(Act::GeluErf, y)?;
    let (rows, cols) = (b.rows(y), b.cols(y));
    let (weight, bias) = (b.vector(&name("grn.weight"), cols)?, b.vector(&name("grn.bias"), cols)?);
    let out = b.value(rows, cols)?;
    b.push(Op::GlobalResponse { x: y, weight, bias, eps: 1e-6, out });
    let y = b.linear(out, &name("pw2"))?;
    b.add(x, y)
}

/// Means of equal windows: eight to a side, or one for each place of a smaller grid. What is left at the far edges is dropped.
fn pool(b: &mut Builder<'_>, x: Val, [w, h]: [usize; 2]) -> Result<Val> {
    let (kw, kh) = (w / w.min(SIDE), h / h.min(SIDE));
    let share = 1.0 / (kw * kh) as f32;
    let mut entries = Vec::with_capacity(w * h);
    for i in 0..(w / kw) * (h / kh) {
        let (x, y) = (i % (w / kw) * kw, i / (w / kw) * kh);
        entries.extend((0..kw * kh).map(|k| (((y + k / kw) * w + x + k % kw) as i32, share)));
    }
    let picks = b.picks(kw * kh, entries);
    b.pick(x, picks)
}
