//! Projectors on SigLIP's tower: Idefics 3, LFM2-VL, Phi-4, Janus.

use super::pieces::{join_cells, sample_square_table, unshuffle, Sampling};
use super::vit::{activation, add_positions, embed_patches, mlp, norm_if, Vit};
use super::Context;
use crate::graph::{Act, NormKind, Val};
use crate::{Builder, Result};

/// The tower; positions are sampled for the picture's grid.
fn build_sampled_positions(b: &mut Builder<'_>, of: &Context<'_>) -> Result<Val> {
    let x = embed_patches(b, of)?;
    let positions =
        sample_square_table(b, "v.position_embd.weight", of.clip.width, of.patches()?, Sampling::Antialias)?;
    let x = b.add(x, positions)?;
    let x = Vit::new(of.clip).run(b, x, of.clip.blocks)?;
    norm_if(b, NormKind::Layer, x, "v.post_ln", of.clip.eps)
}

/// The tower; the picture has as many patches as there are positions.
fn build_fixed_positions(b: &mut Builder<'_>, of: &Context<'_>, swapped: bool) -> Result<Val> {
    let x = embed_patches(b, of)?;
    let x = add_positions(b, x)?;
    let x = Vit { swapped, ..Vit::new(of.clip) }.run(b, x, of.clip.blocks)?;
    norm_if(b, NormKind::Layer, x, "v.post_ln", of.clip.eps)
}

/// Idefics 3 and SmolVLM.
pub(super) fn idefics3(b: &mut Builder<'_>, of: &Context<'_>) -> Result<Val> {
    let x = build_fixed_positions(b, of, true)?;
    let x = unshuffle(b, x, of.patches()?, of.keys.size_or("projector.scale_factor", 1)?)?;
    b.linear(x, "mm.model.fc")
}

/// LFM2-VL: cells at the right and the lower edge are filled up with zeros.
pub(super) fn lfm2(b: &mut Builder<'_>, of: &Context<'_>) -> Result<Val> {
    let (x, [w, h]) = (build_sampled_positions(b, of)?, of.patches()?);
    let m = of.keys.size_or("projector.scale_factor", 1)?;
    let [across, down] = [w.div_ceil(m), h.div_ceil(m)];
    let mut order = Vec::with_capacity(across * down * m * m);
    for cell in 0..across * down {
        for i in 0..m * m {
            let (col, row) = (cell % across * m + i % m, cell / across * m + i / m);
            order.push(if col < w && row < h { (row * w + col) as i32 } else { -1 });
        }
    }
    let x = b.reorder(x, &order)?;
    let x = join_cells(b, x, m)?;
    let x = norm_if(b, NormKind::Layer, x, "mm.input_norm", 1e-5)?;
    mlp(b, x, "mm.1", Act::Gelu, "mm.2")
}

/// Phi-4.
pub(super) fn phi4(b: &mut Builder<'_>, of: &Context<'_>) -> Result<Val> {
    let x = build_sampled_positions(b, of)?;
    mlp(b, x, "mm.0", Act::Gelu, "mm.2")
}

/// Janus-Pro.
pub(super) fn janus(b: &mut Builder<'_>, of: &Context<'_>) -> Result<Val> {
    let x = build_fixed_positions(b, of, false)?;
    mlp(b, x, "mm.0", activation(of.clip), "mm.1")
}
