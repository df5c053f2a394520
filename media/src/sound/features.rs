//! What each projector's encoder takes of a sound.

use super::spectrum::{centre, hann, Bank, Floor, Log, Scale, Spectrum};
use crate::{Clip, Error, Result, Source};

/// Frames of a spectrum, or of samples.
pub(super) struct Features {
    /// In time.
    pub(super) frames: usize,
    /// In each.
    pub(super) bins: usize,
    /// `[frames, bins]`
    pub(super) values: Vec<f32>,
}

/// Samples per second of all but one projector.
const RATE: usize = 16_000;
const HOP: usize = 160;
/// The least value of Whisper's bins, 2^-24.
const FLOOR: f64 = 5.960464477539063e-08;

/// Bins of spectra: more than 256 are a lie.
fn bins(clip: &Clip) -> Result<usize> {
    match clip.mel_bins {
        n @ 1..=256 => Ok(n),
        n => Err(Error::Key(format!("clip.audio.num_mel_bins: expected from 1 to 256, found {n}"))),
    }
}

fn short(least: usize, found: usize) -> Error {
    Error::Medium(format!("sound: expected at least {least} samples, found {found}"))
}

/// The spectrum that Whisper and its heirs take.
fn whisper_spectrum(bins: usize) -> Spectrum {
    Spectrum {
        window: hann(400, true),
        hop: HOP,
        bank: Bank::new(bins, 400, RATE as u32, Scale::Slaney),
        magnitude: false,
        floor: Floor::Least(FLOOR),
        log: Log::Ten,
    }
}

/// Cuts what is 8 powers of ten below the loudest, and moves the rest to about -1 to 1.
fn scale_to_loudest(values: &mut [f32]) {
    let least = values.iter().fold(-1e20, |most, v| f64::max(most, f64::from(*v))) - 8.0;
    values.iter_mut().for_each(|v| *v = ((f64::from(*v).max(least) + 4.0) / 4.0) as f32);
}

/// What stands around samples so that windows can stand on each of them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Edge {
    /// The samples in reverse, the outermost not twice; zeros beyond them.
    Reflect,
    /// The samples in reverse, the outermost not twice; beyond them the last one.
    ReflectOrRepeat,
    Zero,
}

fn pad(samples: &[f32], len: usize, edges: [Edge; 2]) -> Vec<f32> {
    let value = |edge: Edge, i: Option<usize>, outermost: usize| match (edge, i.and_then(|i| samples.get(i))) {
        (Edge::Zero, _) | (Edge::Reflect, None) => 0.0,
        (_, Some(sample)) => *sample,
        (Edge::ReflectOrRepeat, None) => samples.get(outermost).copied().unwrap_or(0.0),
    };
    let n = samples.len();
    let mut padded = Vec::with_capacity(n + 2 * len);
    padded.extend((1..=len).rev().map(|i| value(edges[0], Some(i), n.saturating_sub(1))));
    padded.extend_from_slice(samples);
    padded.extend((0..len).map(|i| value(edges[1], n.checked_sub(2 + i), 0)));
    padded
}

/// Inputs of 3,000 frames, 30 seconds. Those are kept that begin within the sound or its first 30 seconds of silence, as the
/// models were given them.
pub(super) fn whisper(clip: &Clip, _: &dyn Source, samples: &[f32]) -> Result<Vec<Features>> {
    const FRAMES: usize = 3_000;
    let bins = bins(clip)?;
    let mut whole = samples.to_vec();
    whole.resize(samples.len().max(201), 0.0);
    whole.resize(whole.len() + 30 * RATE, 0.0);
    let mut values = whisper_spectrum(bins).log_mel(&pad(&whole, 200, [Edge::Reflect, Edge::Zero]));
    scale_to_loudest(&mut values);
    let inputs = values.chunks_exact(FRAMES * bins);
    Ok(inputs.map(|values| Features { frames: FRAMES, bins, values: values.to_vec() }).collect())
}

/// Frames that the convolutions of Qwen3 take at once.
pub(super) const QWEN3A_CHUNK: usize = 100;

/// Inputs of at most 800 frames, filled up with zeros to a multiple of 100.
pub(super) fn qwen3a(clip: &Clip, _: &dyn Source, samples: &[f32]) -> Result<Vec<Features>> {
    let bins = bins(clip)?;
    let mut values = whisper_spectrum(bins).log_mel(&pad(samples, 200, [Edge::Reflect; 2]));
    scale_to_loudest(&mut values);
    let input = |values: &[f32]| {
        let frames = (values.len() / bins).next_multiple_of(QWEN3A_CHUNK);
        let mut values = values.to_vec();
        values.resize(frames * bins, 0.0);
        Features { frames, bins, values }
    };
    Ok(values.chunks(800 * bins).map(input).collect())
}

/// Inputs of at most 60 seconds, each scaled by itself; a last part shorter than a frame is left out.
pub(super) fn dots3note_a(clip: &Clip, _: &dyn Source, samples: &[f32]) -> Result<Vec<Features>> {
    const SAMPLES: usize = 60 * RATE;
    let bins = bins(clip)?;
    let spectrum = whisper_spectrum(bins);
    let input = |part: &[f32]| {
        // A part that is not whole has silence behind.
        let end = if part.len() == SAMPLES { Edge::Reflect } else { Edge::Zero };
        let frames = part.len() / HOP;
        let mut values = spectrum.log_mel(&pad(part, 200, [Edge::Reflect, end]));
        values.truncate(frames * bins);
        scale_to_loudest(&mut values);
        Features { frames, bins, values }
    };
    match samples.len() {
        n if n < HOP => Err(short(HOP, n)),
        _ => Ok(samples.chunks(SAMPLES).filter(|part| part.len() >= HOP).map(input).collect()),
    }
}

/// One input at 24,000 samples a second.
pub(super) fn mimo_audio(clip: &Clip, _: &dyn Source, samples: &[f32]) -> Result<Vec<Features>> {
    let bins = bins(clip)?;
    let spectrum = Spectrum {
        window: hann(960, true),
        hop: 240,
        bank: Bank::new(bins, 960, 24_000, Scale::Htk),
        magnitude: true,
        floor: Floor::Least(1e-7),
        log: Log::Natural,
    };
    let values = spectrum.log_mel(&pad(samples, 480, [Edge::Reflect; 2]));
    Ok(vec![Features { frames: values.len() / bins, bins, values }])
}

/// Inputs of at most 30 seconds, with 160 zeros in front.
pub(super) fn gemma4a(clip: &Clip, _: &dyn Source, samples: &[f32]) -> Result<Vec<Features>> {
    const WINDOW: usize = 320;
    const FFT: usize = 512;
    let bins = bins(clip)?;
    let mut window = hann(WINDOW, true);
    window.resize(FFT, 0.0);
    let spectrum = Spectrum {
        window,
        hop: HOP,
        bank: Bank::new(bins, FFT, RATE as u32, Scale::Htk),
        magnitude: true,
        floor: Floor::Least(f64::from(0.001f32)),
        log: Log::Natural,
    };
    let input = |part: &[f32]| {
        // A frame is there if the window and one more sample are; a part shorter than that has one.
        let frames = (part.len() + WINDOW / 2).saturating_sub(WINDOW + 1) / HOP + 1;
        let mut padded = vec![0.0; WINDOW / 2];
        padded.extend_from_slice(part);
        padded.resize((frames - 1) * HOP + FFT, 0.0);
        Features { frames, bins, values: spectrum.log_mel(&padded) }
    };
    Ok(samples.chunks(30 * RATE).map(input).collect())
}

/// Samples as they are, 640 in a frame.
pub(super) fn gemma4ua(_: &Clip, _: &dyn Source, samples: &[f32]) -> Result<Vec<Features>> {
    const FRAME: usize = 640;
    let frames = samples.len().div_ceil(FRAME);
    let mut values = samples.to_vec();
    values.resize(frames * FRAME, 0.0);
    Ok(vec![Features { frames, bins: FRAME, values }])
}

/// Two frames on one another, the last left out if it has none to stand with.
pub(super) fn granite_speech(clip: &Clip, _: &dyn Source, samples: &[f32]) -> Result<Vec<Features>> {
    const FFT: usize = 512;
    let bins = match clip.mel_bins {
        n if n.is_multiple_of(2) => bins(clip)?,
        n => return Err(Error::Key(format!("clip.audio.num_mel_bins: expected an even number, found {n}"))),
    };
    let spectrum = Spectrum {
        window: centre(&hann(400, true), FFT),
        hop: HOP,
        bank: Bank::new(bins / 2, FFT, RATE as u32, Scale::Htk),
        magnitude: false,
        floor: Floor::Least(1e-10),
        log: Log::Ten,
    };
    let mut values = spectrum.log_mel(&pad(samples, FFT / 2, [Edge::ReflectOrRepeat; 2]));
    scale_to_loudest(&mut values);
    let frames = values.len() / bins;
    values.truncate(frames * bins);
    match frames {
        0 => Err(short(HOP, samples.len())),
        _ => Ok(vec![Features { frames, bins, values }]),
    }
}

/// What differs from one sample to the next, 0.97 of what was left out.
fn emphasize(samples: &[f32]) -> Vec<f32> {
    let mut emphasized = samples.to_vec();
    emphasized.iter_mut().skip(1).zip(samples).for_each(|(s, before)| *s -= 0.97 * before);
    emphasized
}

/// Makes each bin's mean over the first frames 0 and its deviation 1.
fn normalize(values: &mut [f32], bins: usize, frames: usize) {
    for bin in 0..bins {
        let mean = values.chunks(bins).take(frames).map(|f| f64::from(f[bin])).sum::<f64>() / frames as f64;
        let squares = values.chunks(bins).take(frames).map(|f| (f64::from(f[bin]) - mean).powi(2)).sum::<f64>();
        let deviation = (squares / (frames - 1) as f64).sqrt() + 1e-5;
        values.chunks_mut(bins).for_each(|f| f[bin] = ((f64::from(f[bin]) - mean) / deviation) as f32);
    }
}

/// Frames that a deviation can be told of.
fn frames_to_normalize(samples: usize) -> Result<usize> {
    match samples / HOP {
        0 | 1 => Err(short(2 * HOP, samples)),
        frames => Ok(frames),
    }
}

/// One input; frames that reach beyond the sound are zeros.
pub(super) fn lfm2a(clip: &Clip, _: &dyn Source, samples: &[f32]) -> Result<Vec<Features>> {
    const FFT: usize = 512;
    let (bins, sound) = (bins(clip)?, frames_to_normalize(samples.len())?);
    let spectrum = Spectrum {
        window: centre(&hann(400, false), FFT),
        hop: HOP,
        bank: Bank::new(bins, FFT, RATE as u32, Scale::Slaney),
        magnitude: false,
        floor: Floor::Added(FLOOR),
        log: Log::Natural,
    };
    let mut values = spectrum.log_mel(&pad(&emphasize(samples), FFT / 2, [Edge::Zero; 2]));
    normalize(&mut values, bins, sound);
    values[sound * bins..].fill(0.0);
    Ok(vec![Features { frames: values.len() / bins, bins, values }])
}

/// A tensor of the file's own front end, which is f32.
fn read_tensor(source: &dyn Source, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
    let tensor = source.tensor(name).ok_or_else(|| Error::MissingTensor(name.into()))?;
    let format = pumex_quant::all().find(|f| f.id == tensor.format);
    match format {
        Some(format) if format.name == "F32" && tensor.shape == shape => {
            let number = |b: &[u8]| b.try_into().map(f32::from_le_bytes).unwrap_or(0.0);
            Ok(tensor.data.chunks_exact(4).map(number).collect())
        }
        _ => Err(Error::Shape(format!(
            "{name}: expected F32 {shape:?}, found {} {:?}",
            format.map_or("another format", |f| f.name),
            tensor.shape
        ))),
    }
}

/// One input; window and bins come from the file.
pub(super) fn parakeet(clip: &Clip, source: &dyn Source, samples: &[f32]) -> Result<Vec<Features>> {
    const FFT: usize = 512;
    let (bins, sound) = (bins(clip)?, frames_to_normalize(samples.len())?);
    let bank = read_tensor(source, "a.mel_filters", &[FFT / 2 + 1, bins])?;
    let spectrum = Spectrum {
        window: centre(&read_tensor(source, "a.window", &[400])?, FFT),
        hop: HOP,
        bank: Bank::from_weights(&bank, FFT),
        magnitude: false,
        floor: Floor::Added(FLOOR),
        log: Log::Natural,
    };
    let mut values = spectrum.log_mel(&pad(&emphasize(samples), FFT / 2, [Edge::Zero; 2]));
    normalize(&mut values, bins, sound);
    Ok(vec![Features { frames: values.len() / bins, bins, values }])
}
