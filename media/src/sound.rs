//! Sounds: bytes to samples, samples to what an encoder takes.

mod decode;
mod features;
mod resample;
mod spectrum;

pub use decode::{decode_sound, is_sound, SoundLimits};

use crate::{Clip, EncoderInput, Error, Medium, Positions, ProjectorKeys, PromptPiece, Result, Source, TextModel};
use features::Features;

/// Spectra of samples, one for each input of the encoder.
type Spectra = fn(&Clip, &dyn Source, &[f32]) -> Result<Vec<Features>>;

/// What a projector wants of a sound.
struct Sound {
    projector: &'static str,
    /// Samples per second.
    rate: u32,
    /// Texts in front and behind.
    texts: [&'static str; 2],
    /// Samples to inputs of the encoder.
    features: Spectra,
    /// Rows that the encoder makes of that many frames.
    rows: fn(&Clip, &ProjectorKeys<'_>, usize) -> Result<usize>,
}

/// All projectors of sounds.
const SOUNDS: &[Sound] = &[
    sound("ultravox", ["", ""], features::whisper, stacks),
    sound("voxtral", ["[BEGIN_AUDIO]", ""], features::whisper, stacks_of_pairs),
    sound("qwen2a", ["<|audio_bos|>", "<|audio_eos|>"], features::whisper, |_, _, frames| Ok(frames / 4)),
    sound("qwen3a", ["<|audio_start|>", "<|audio_end|>"], features::qwen3a, |_, _, frames| {
        Ok(frames / features::QWEN3A_CHUNK * 13)
    }),
    sound("glma", ["", ""], features::whisper, |clip, keys, frames| Ok(stacks(clip, keys, frames)? + 2)),
    sound("meralion", ["", ""], features::whisper, stacks),
    sound("musicflamingo", ["<sound>", ""], features::whisper, |_, _, frames| Ok(frames / 4)),
    sound("lfm2a", ["", ""], features::lfm2a, |_, _, frames| Ok(frames.div_ceil(8))),
    sound("gemma4a", ["<|audio>", "<audio|>"], features::gemma4a, |_, _, frames| Ok(frames.div_ceil(4))),
    sound("gemma4ua", ["<|audio>", "<audio|>"], features::gemma4ua, |_, _, frames| Ok(frames)),
    sound("dots3note_a", ["<|audio_comp_start|>", "<|audio_comp_end|>"], features::dots3note_a, |_, _, frames| {
        Ok(frames.div_ceil(8))
    }),
    sound("granite_speech", ["", ""], features::granite_speech, windows_of_queries),
    Sound {
        rate: 24_000,
        ..sound("mimo_audio", ["<|mimo_audio_start|>", "<|mimo_audio_end|>"], features::mimo_audio, groups_of_codes)
    },
    sound("parakeet", ["", ""], features::parakeet, |_, keys, frames| {
        Ok(frames.div_ceil(keys.size("subsampling_factor")?))
    }),
];

const fn sound(
    projector: &'static str,
    texts: [&'static str; 2],
    features: Spectra,
    rows: fn(&Clip, &ProjectorKeys<'_>, usize) -> Result<usize>,
) -> Sound {
    Sound { projector, rate: 16_000, texts, features, rows }
}

/// The second convolution of Whisper halves the frames; an incomplete last stack is left out.
fn stacks(_: &Clip, keys: &ProjectorKeys<'_>, frames: usize) -> Result<usize> {
    Ok(frames / 2 / keys.size("projector.stack_factor")?)
}

fn stacks_of_pairs(clip: &Clip, keys: &ProjectorKeys<'_>, frames: usize) -> Result<usize> {
    stacks(clip, keys, frames / 2)
}

fn windows_of_queries(_: &Clip, keys: &ProjectorKeys<'_>, frames: usize) -> Result<usize> {
    let window = keys.size("projector.window_size")?;
    Ok(frames.div_ceil(window) * (window / keys.size("projector.downsample_rate")?))
}

/// Two convolutions of stride 2, the latter without padding, then groups.
fn groups_of_codes(_: &Clip, keys: &ProjectorKeys<'_>, frames: usize) -> Result<usize> {
    Ok((frames.div_ceil(2) / 2).div_ceil(keys.size("local_group_size")?))
}

fn of(clip: &Clip) -> Result<&'static Sound> {
    SOUNDS
        .iter()
        .find(|s| s.projector == clip.projector)
        .ok_or_else(|| Error::Unsupported(format!("projector {}: expected one of sounds", clip.projector)))
}

/// The texts that stand in front of a sound and behind it, by `clip.projector_type`; nothing for a projector that takes no sounds.
pub fn sound_marks(projector: &str) -> Option<[&'static str; 2]> {
    SOUNDS.iter().find(|s| s.projector == projector).map(|s| s.texts)
}

/// Samples per second that [`prepare_sound`] expects.
///
/// # Errors
/// A projector that is not one of sounds.
pub fn sound_rate(clip: &Clip) -> Result<u32> {
    Ok(of(clip)?.rate)
}

/// What stands in the prompt for a sound: texts around it and the encoder's inputs, of which a long sound has several.
///
/// `samples` are mono, full scale is -1 to 1, and have the rate that [`sound_rate`] says.
///
/// # Errors
/// A projector that is not one of sounds, keys or tensors that it needs and that are missing or wrong, no samples or fewer than
/// the projector can make a row of, samples that are not finite.
pub fn prepare_sound(
    clip: &Clip,
    source: &dyn Source,
    samples: &[f32],
    model: &TextModel<'_>,
) -> Result<Vec<PromptPiece>> {
    let _ = model;
    let sound = of(clip)?;
    if samples.is_empty() {
        return Err(Error::Medium("sound: expected samples, found none".into()));
    }
    if let Some(wrong) = samples.iter().find(|s| !s.is_finite() || s.abs() > LOUDEST) {
        return Err(Error::Medium(format!("sound: expected samples from -1 to 1, found {wrong}")));
    }
    let keys = ProjectorKeys::new(source, clip.modality);
    let text = |text: &str| (!text.is_empty()).then(|| PromptPiece::Text(text.into()));
    let mut pieces = Vec::from_iter(text(sound.texts[0]));
    for features in (sound.features)(clip, source, samples)? {
        let rows = (sound.rows)(clip, &keys, features.frames)?;
        if rows == 0 {
            return Err(Error::Medium(format!("sound: {} samples are too few for one row", samples.len())));
        }
        pieces.push(PromptPiece::Medium(Medium {
            picture: false,
            inputs: vec![EncoderInput {
                width: features.frames,
                height: features.bins,
                values: features.values,
                ..EncoderInput::default()
            }],
            grid: [rows, 1],
            rows,
            positions: Positions::Sequential,
            bidirectional: false,
        }));
    }
    pieces.extend(text(sound.texts[1]));
    Ok(pieces)
}

/// Floats may go beyond full scale; what is this far beyond is no sound, and its power could not be added up.
const LOUDEST: f32 = 65536.0;

#[cfg(test)]
mod tests;
