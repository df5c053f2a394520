//! The towers of GLM-4.1V and GLM-5V.

use super::pieces::{cells, join_channels, places, sample_square_table, vision_angles, Sampling};
use super::vit::{embed_patches, norm_if, Turn, Vit};
use super::Context;
use crate::graph::{Act, NormKind, RotationPairs, Val};
use crate::{Builder, Result};

/// The base of the rotation's frequencies.
const THETA: f32 = 10_000.0;

/// Both: GLM-5V clamps its gated feed-forward parts.
pub(super) fn glm(b: &mut Builder<'_>, of: &Context<'_>) -> Result<Val> {
    let (clip, grid) = (of.clip, of.patches()?);
    let merge = of.keys.size_or("spatial_merge_size", 2)?;
    let order = cells(grid, merge)?;
    let x = embed_patches(b, of)?;
    let x = norm_if(b, NormKind::Rms, x, "v.norm_embd", clip.eps)?;
    let positions = sample_square_table(b, "v.position_embd.weight", clip.width, grid, Sampling::Cubic)?;
    let x = b.add(x, positions)?;
    let x = b.reorder(x, &order)?;
    let mut vit = Vit { norm: NormKind::Rms, ..Vit::new(clip) };
    if clip.projector == "glm5v" {
        vit.clamp = Some(of.keys.float("swiglu_clamp")?);
    }
    let angles = vision_angles(&places(&order, grid[0]), clip.head_dim, THETA);
    vit.turns = vec![Turn { columns: (0, clip.head_dim), pairs: RotationPairs::Halves, angles }];
    let x = vit.run(b, x, clip.blocks)?;
    let x = norm_if(b, NormKind::Rms, x, "v.post_ln", clip.eps)?;
    let x = join_channels(b, x, merge)?;
    let x = b.linear(x, "mm.patch_merger")?;
    let x = b.linear(x, "mm.model.fc")?;
    let x = b.norm(NormKind::Layer, x, "mm.post_norm", 1e-5)?;
    let x = b.act(Act::GeluErf, x)?;
    let (gate, up) = (b.linear(x, "mm.gate")?, b.linear(x, "mm.up")?);
    let x = Vit { act: Act::Silu, ..vit }.gate_activation(b, gate, up)?;
    b.linear(x, "mm.down")
}
