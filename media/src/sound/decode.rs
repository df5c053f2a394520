//! Files of sounds to samples.

use super::resample::Resample;
use crate::{Error, Result};
use std::io::Cursor;
use symphonia::core::audio::AudioSpec;
use symphonia::core::codecs::audio::AudioDecoderOptions;
use symphonia::core::errors::Error as Wrong;
use symphonia::core::formats::probe::Hint;
use symphonia::core::formats::{FormatReader, Track, TrackType};
use symphonia::core::io::MediaSourceStream;

/// The most that a sound may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SoundLimits {
    /// The most bytes of the file.
    pub bytes: usize,
    /// The longest sound, seconds.
    pub seconds: u32,
}

impl Default for SoundLimits {
    fn default() -> SoundLimits {
        SoundLimits { bytes: 128 << 20, seconds: 1_800 }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Container {
    Wav,
    Flac,
    Ogg,
    Mp3,
}

impl Container {
    /// By what files begin with.
    fn of(bytes: &[u8]) -> Option<Container> {
        match bytes {
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'A', b'V', b'E', ..] => Some(Container::Wav),
            [b'f', b'L', b'a', b'C', ..] => Some(Container::Flac),
            [b'O', b'g', b'g', b'S', ..] => Some(Container::Ogg),
            [b'I', b'D', b'3', ..] => Some(Container::Mp3),
            // Layer III of any version; layer bits of 01.
            [0xff, second, ..] if second & 0xe6 == 0xe2 => Some(Container::Mp3),
            _ => None,
        }
    }
}

/// Whether bytes begin as one of the formats does that [`decode_sound`] takes.
pub fn is_sound(bytes: &[u8]) -> bool {
    Container::of(bytes).is_some()
}

fn wrong(what: impl std::fmt::Display) -> Error {
    Error::Medium(format!("sound: {what}"))
}

/// The samples of a WAV, MP3, FLAC or Ogg Vorbis file: mono, the mean of its channels, full scale from -1 to 1, `rate` a second.
///
/// # Errors
/// Another format, a file that is broken, incomplete or not as long as it says, no samples, more than the limits allow.
pub fn decode_sound(bytes: &[u8], rate: u32, limits: &SoundLimits) -> Result<Vec<f32>> {
    if bytes.len() > limits.bytes {
        return Err(wrong(format_args!("expected at most {} bytes, found {}", limits.bytes, bytes.len())));
    }
    let kind =
        Container::of(bytes).ok_or_else(|| wrong("expected WAV, MP3, FLAC or Ogg Vorbis, found another format"))?;
    if kind == Container::Ogg {
        check_pages(bytes)?;
    }
    if let (Container::Wav, Some(channels)) = (kind, wav_channels(bytes).filter(|n| !(1..=MOST_CHANNELS).contains(n))) {
        return Err(unlikely_channels(channels));
    }
    let endless = (kind == Container::Wav).then(|| end_wav(bytes)).flatten();
    let bytes = endless.as_deref().unwrap_or(bytes);
    // Decoders of others' making meet bytes of anyone's making here: a bug of theirs is an error of this file.
    std::panic::catch_unwind(|| Decoding::start(bytes, kind, rate, limits)?.run())
        .unwrap_or_else(|_| Err(wrong("the file makes its decoder fail")))
}

/// Channels of a WAV whose first chunk is its format, as in nearly all files.
fn wav_channels(bytes: &[u8]) -> Option<usize> {
    match bytes.get(12..24)? {
        [b'f', b'm', b't', b' ', _, _, _, _, _, _, low, high] => Some(usize::from(u16::from_le_bytes([*low, *high]))),
        _ => None,
    }
}

/// A copy of a WAV whose lengths were not known when it was begun, with those that it has.
fn end_wav(bytes: &[u8]) -> Option<Vec<u8>> {
    let unknown = |at: usize| matches!(bytes.get(at..at + 4), Some([0xff, 0xff, 0xff, 0xff]));
    let (mut at, mut chunks) = (12usize, 0);
    while bytes.get(at..at.checked_add(8)?)?.first_chunk::<4>()? != b"data" {
        let len = u32::from_le_bytes(*bytes[at + 4..].first_chunk()?) as usize;
        at = at.checked_add(8)?.checked_add(len.checked_add(len % 2)?)?;
        chunks += 1;
        if chunks > 1_000 {
            return None;
        }
    }
    if !unknown(at + 4) {
        return None;
    }
    let mut ended = bytes.to_vec();
    let len = |from: usize| u32::try_from(bytes.len() - from).ok().map(u32::to_le_bytes);
    ended[4..8].copy_from_slice(&len(8)?);
    ended[at + 4..at + 8].copy_from_slice(&len(at + 8)?);
    Some(ended)
}

/// Pages of an Ogg file stand right behind each other up to its end: one that does not fit was cut off.
fn check_pages(bytes: &[u8]) -> Result<()> {
    let mut at = 0;
    while let Some(page) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
        let cut =
            || wrong(format_args!("expected a page of Ogg at byte {at} that the file holds, found the file's end"));
        let header = page.get(..27).filter(|h| h.starts_with(b"OggS")).ok_or_else(cut)?;
        let lengths = page.get(27..27 + usize::from(header[26])).ok_or_else(cut)?;
        let len = 27 + lengths.len() + lengths.iter().map(|l| usize::from(*l)).sum::<usize>();
        if len > page.len() {
            return Err(cut());
        }
        at += len;
    }
    Ok(())
}

/// Rates that sounds have; others are lies.
const RATES: std::ops::RangeInclusive<u32> = 1_000..=768_000;
const MOST_CHANNELS: usize = 32;

struct Decoding<'a> {
    format: Box<dyn FormatReader + 'a>,
    decoder: Box<dyn symphonia::core::codecs::audio::AudioDecoder>,
    kind: Container,
    track: u32,
    /// Samples that the file says it has.
    says: Option<u64>,
    seconds: u32,
    target: u32,
    /// Rate and channels, known from the first packet on.
    spec: Option<(u32, usize)>,
    resample: Option<Resample>,
    taken: u64,
}

impl<'a> Decoding<'a> {
    fn start(bytes: &'a [u8], kind: Container, rate: u32, limits: &SoundLimits) -> Result<Decoding<'a>> {
        let stream = MediaSourceStream::new(Box::new(Cursor::new(bytes)), Default::default());
        let format = symphonia::default::get_probe()
            .probe(&Hint::new(), stream, Default::default(), Default::default())
            .map_err(wrong)?;
        let track: &Track = format.default_track(TrackType::Audio).ok_or_else(|| wrong("expected a track"))?;
        let params = track.codec_params.as_ref().and_then(|p| p.audio());
        let params = params.ok_or_else(|| wrong("expected a track whose parameters are known"))?;
        let channels = params.channels.as_ref().map(|c| c.count());
        let decoder = match (params.sample_rate, channels) {
            (Some(rate), _) if !RATES.contains(&rate) => Err(unlikely_rate(rate)),
            (_, Some(channels)) if channels > MOST_CHANNELS => Err(unlikely_channels(channels)),
            _ => symphonia::default::get_codecs()
                .make_audio_decoder(params, &AudioDecoderOptions::default().verify(kind == Container::Flac))
                .map_err(wrong),
        }?;
        let (says, track_rate, id) = (track.num_frames, params.sample_rate, track.id);
        if let (Some(says), Some(rate)) = (says, track_rate) {
            check_length(says, rate, limits.seconds)?;
        }
        Ok(Decoding {
            format,
            decoder,
            kind,
            track: id,
            says,
            seconds: limits.seconds,
            target: rate,
            spec: None,
            resample: None,
            taken: 0,
        })
    }

    fn run(mut self) -> Result<Vec<f32>> {
        let (mut samples, mut mono) = (Vec::new(), Vec::new());
        while let Some(packet) = self.format.next_packet().map_err(wrong)? {
            if packet.track_id != self.track {
                continue;
            }
            let buffer = match self.decoder.decode(&packet) {
                Ok(buffer) => buffer,
                // The first frames of an MP3 that was cut out of a longer one need what came before them.
                Err(Wrong::DecodeError(_)) if self.kind == Container::Mp3 && self.taken == 0 => continue,
                Err(error) => return Err(wrong(error)),
            };
            let spec = of_spec(buffer.spec())?;
            buffer.copy_to_vec_interleaved(&mut samples);
            match self.spec {
                None => {
                    self.spec = Some(spec);
                    self.resample = Some(Resample::new(spec.0, self.target)?);
                }
                Some(before) if before != spec => {
                    return Err(wrong(format_args!(
                        "expected {} samples a second of {} channels as before, found {} of {}",
                        before.0, before.1, spec.0, spec.1
                    )))
                }
                Some(_) => {}
            }
            let (rate, channels) = spec;
            mono.clear();
            mono.extend(samples.chunks_exact(channels).map(|c: &[f32]| c.iter().sum::<f32>() / channels as f32));
            if let Some(sample) = mono.iter().find(|s| !s.is_finite()) {
                return Err(wrong(format_args!("expected finite samples, found {sample}")));
            }
            self.taken += mono.len() as u64;
            check_length(self.taken, rate, self.seconds)?;
            if let Some(resample) = &mut self.resample {
                resample.push(&mono)?;
            }
        }
        if self.decoder.finalize().verify_ok == Some(false) {
            return Err(wrong("the samples are not those that the file's checksum was made of"));
        }
        self.finish()
    }

    fn finish(self) -> Result<Vec<f32>> {
        // An MP3's own count may include what encoders add at both ends.
        let slack = if self.kind == Container::Mp3 { 2 * 1_152 } else { 0 };
        match (self.says, self.resample) {
            (_, None) => Err(wrong("expected samples, found none")),
            (Some(says), _) if says > self.taken + slack => {
                Err(wrong(format_args!("the file says it has {says} samples, found {}", self.taken)))
            }
            (_, Some(_)) if self.taken == 0 => Err(wrong("expected samples, found none")),
            (_, Some(resample)) => resample.finish(),
        }
    }
}

fn unlikely_rate(rate: u32) -> Error {
    wrong(format_args!("expected from {} to {} samples a second, found {rate}", RATES.start(), RATES.end()))
}

fn unlikely_channels(channels: usize) -> Error {
    wrong(format_args!("expected from 1 to {MOST_CHANNELS} channels, found {channels}"))
}

fn of_spec(spec: &AudioSpec) -> Result<(u32, usize)> {
    match (spec.rate(), spec.channels().count()) {
        (rate, _) if !RATES.contains(&rate) => Err(unlikely_rate(rate)),
        (_, channels) if channels == 0 || channels > MOST_CHANNELS => Err(unlikely_channels(channels)),
        spec => Ok(spec),
    }
}

fn check_length(samples: u64, rate: u32, seconds: u32) -> Result<()> {
    match samples > u64::from(rate) * u64::from(seconds) {
        true => {
            let found = samples as f64 / f64::from(rate);
            Err(wrong(format_args!("expected at most {seconds} seconds, found {found:.1}")))
        }
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests;
