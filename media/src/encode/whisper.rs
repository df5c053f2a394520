//! Whisper's encoder and the projectors behind it: Ultravox, Voxtral, Qwen2-Audio, GLM-ASR, MERaLiON and Music Flamingo.

use super::sound::{add_first_positions, conv_of_three, frames, gate_by_second, stack_rows};
use super::vit::{mlp, norm_if, Vit};
use super::Context;
use crate::graph::{Act, NormKind, Val};
use crate::{Builder, Result};

/// The epsilon of the norms of Ultravox' projector.
const EPS: f32 = 1e-6;

/// Rows of the encoder, of two frames each; with `pooled` the means of pairs of them.
fn tower(b: &mut Builder<'_>, of: &Context<'_>, pooled: bool) -> Result<Val> {
    let x = frames(b, of)?;
    let x = conv_of_three(b, x, "a.conv1d.1", 1)?;
    let x = b.act(Act::GeluErf, x)?;
    let x = conv_of_three(b, x, "a.conv1d.2", 2)?;
    let x = b.act(Act::GeluErf, x)?;
    let rows = b.rows(x);
    let x = add_first_positions(b, x, "a.position_embd.weight", rows)?;
    let x = Vit { act: Act::GeluErf, ..Vit::new(of.clip) }.run(b, x, of.clip.blocks)?;
    let x = match pooled {
        true => {
            let entries = (0..rows / 2 * 2).map(|row| (row as i32, 0.5)).collect();
            let pairs = b.picks(2, entries);
            b.pick(x, pairs)?
        }
        false => x,
    };
    norm_if(b, NormKind::Layer, x, "a.post_ln", of.clip.eps)
}

fn stack_frames(b: &mut Builder<'_>, of: &Context<'_>, x: Val) -> Result<Val> {
    stack_rows(b, x, of.keys.size("projector.stack_factor")?)
}

/// Ultravox.
pub(super) fn ultravox(b: &mut Builder<'_>, of: &Context<'_>) -> Result<Val> {
    let x = tower(b, of, false)?;
    let x = stack_frames(b, of, x)?;
    let x = b.norm(NormKind::Rms, x, "mm.a.norm_pre", EPS)?;
    let x = b.linear(x, "mm.a.mlp.1")?;
    let x = gate_by_second(b, Act::Silu, x)?;
    let x = b.norm(NormKind::Rms, x, "mm.a.norm_mid", EPS)?;
    b.linear(x, "mm.a.mlp.2")
}

/// Voxtral.
pub(super) fn voxtral(b: &mut Builder<'_>, of: &Context<'_>) -> Result<Val> {
    let x = tower(b, of, true)?;
    let x = stack_frames(b, of, x)?;
    mlp(b, x, "mm.a.mlp.1", Act::GeluErf, "mm.a.mlp.2")
}

/// Qwen2-Audio.
pub(super) fn qwen2a(b: &mut Builder<'_>, of: &Context<'_>) -> Result<Val> {
    let x = tower(b, of, true)?;
    b.linear(x, "mm.a.fc")
}

/// Music Flamingo.
pub(super) fn music_flamingo(b: &mut Builder<'_>, of: &Context<'_>) -> Result<Val> {
    let x = tower(b, of, true)?;
    mlp(b, x, "mm.a.mlp.1", Act::GeluErf, "mm.a.mlp.2")
}

/// MERaLiON.
pub(super) fn meralion(b: &mut Builder<'_>, of: &Context<'_>) -> Result<Val> {
    let x = tower(b, of, false)?;
    let x = stack_frames(b, of, x)?;
    let x = b.norm(NormKind::Layer, x, "mm.a.norm_pre", of.clip.eps)?;
    let x = b.linear(x, "mm.a.mlp.0")?;
    let x = b.act(Act::Silu, x)?;
    let (gate, up) = (b.linear(x, "mm.a.mlp.1")?, b.linear(x, "mm.a.mlp.2")?);
    let x = b.gate(Act::Silu, gate, up)?;
    b.linear(x, "mm.a.mlp.3")
}

/// GLM-ASR: rows in front and behind.
pub(super) fn glma(b: &mut Builder<'_>, of: &Context<'_>) -> Result<Val> {
    let x = tower(b, of, false)?;
    let x = b.norm(NormKind::Layer, x, "mm.a.norm_pre", of.clip.eps)?;
    let x = stack_frames(b, of, x)?;
    let x = mlp(b, x, "mm.a.mlp.1", Act::GeluErf, "mm.a.mlp.2")?;
    let cols = b.cols(x);
    let (first, last) = (b.load("v.boi", 1, cols)?, b.load("v.eoi", 1, cols)?);
    b.stack(&[first, x, last])
}
