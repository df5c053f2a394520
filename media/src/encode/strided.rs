//! Towers of sounds behind three convolutions in time and frequency: Qwen3-ASR and the ears of dots3.note.

use super::sound::{angles, frames, halving, time_across};
use super::vit::{activation, mlp, norm_if, Turn, Vit};
use super::Context;
use crate::graph::{Act, NormKind, RotationPairs, Val};
use crate::{Builder, Error, Result};

/// Frames that Qwen3-ASR sees at once.
const CHUNK: usize = 100;
/// The base of the rotation's frequencies.
const THETA: f32 = 10_000.0;

/// Three convolutions of a picture that is as wide as there are frames: a row for every eighth of these, channel by channel.
fn convolve(b: &mut Builder<'_>, mut x: Val, mut size: [usize; 2]) -> Result<Val> {
    for index in 1..=3 {
        let window = halving(size);
        x = b.conv(x, &format!("a.conv2d.{index}"), window)?;
        x = b.act(Act::GeluErf, x)?;
        size = window.out;
    }
    let ([across, down], channels) = (size, b.cols(x));
    b.permute(x, &[(across, channels), (channels, 1), (down, across * channels)], across, channels * down)
}

/// Qwen3-ASR: chunks that begin anew, and see each other in the blocks.
pub(super) fn qwen3a(b: &mut Builder<'_>, of: &Context<'_>) -> Result<Val> {
    let x = frames(b, of)?;
    let (frames, bins) = (b.rows(x), b.cols(x));
    if !frames.is_multiple_of(CHUNK) {
        return Err(Error::Medium(format!("sound: expected a multiple of {CHUNK} frames, found {frames}")));
    }
    let x = b.reshape(x, frames * bins, 1)?;
    let mut chunks = Vec::new();
    for chunk in 0..frames / CHUNK {
        let place = |i: usize| ((chunk * CHUNK + i % CHUNK) * bins + i / CHUNK) as i32;
        let part = b.reorder(x, &(0..CHUNK * bins).map(place).collect::<Vec<i32>>())?;
        chunks.push(convolve(b, part, [CHUNK, bins])?);
    }
    let each = b.rows(chunks[0]);
    let x = b.stack(&chunks)?;
    let x = b.linear(x, "a.conv_out")?;
    let x = super::sound::add_first_positions(b, x, "a.position_embd.weight", each)?;
    let x = Vit { act: Act::GeluErf, ..Vit::new(of.clip) }.run(b, x, of.clip.blocks)?;
    let x = norm_if(b, NormKind::Layer, x, "a.post_ln", of.clip.eps)?;
    mlp(b, x, "mm.a.mlp.1", Act::GeluErf, "mm.a.mlp.2")
}

/// dots3.note: half of each head turns by the row.
pub(super) fn dots3note(b: &mut Builder<'_>, of: &Context<'_>) -> Result<Val> {
    let x = frames(b, of)?;
    let size = [b.rows(x), b.cols(x)];
    let x = time_across(b, x)?;
    let x = convolve(b, x, size)?;
    let x = b.linear(x, "a.conv_out")?;
    let half = of.clip.head_dim / 2;
    let turn = Turn { columns: (0, half), pairs: RotationPairs::Halves, angles: angles(0..b.rows(x), half, THETA) };
    let vit = Vit { norm: NormKind::Rms, act: activation(of.clip), turns: vec![turn], ..Vit::new(of.clip) };
    let x = vit.run(b, x, of.clip.blocks)?;
    let x = norm_if(b, NormKind::Rms, x, "a.post_ln", of.clip.eps)?;
    let x = b.norm(NormKind::Layer, x, "mm.a.norm_pre", 1e-5)?;
    mlp(b, x, "mm.a.mlp.1", Act::GeluErf, "mm.a.mlp.3")
}
