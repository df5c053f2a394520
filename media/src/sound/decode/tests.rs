//! Files of sounds, whole, cut short and damaged.

use super::*;
use fixtures::{flac, mp3, tone, vorbis, wav};

mod fixtures;

fn decode(bytes: &[u8]) -> Result<Vec<f32>> {
    decode_sound(bytes, 16_000, &SoundLimits::default())
}

/// How often samples go from below 0 to above, which is twice what a tone swings.
fn swings(samples: &[f32]) -> usize {
    samples.windows(2).filter(|w| (w[0] < 0.0) != (w[1] < 0.0)).count()
}

#[test]
fn a_wav_of_the_wanted_rate_gives_its_samples() {
    let samples = tone(16_000, 440.0, 0.1);
    let found = decode(&wav(&samples, 1, 16_000)).unwrap();
    assert_eq!(found.len(), samples.len());
    assert!(found.iter().zip(&samples).all(|(a, b)| (a - f32::from(*b) / 32_768.0).abs() < 1e-6));
}

#[test]
fn channels_are_averaged() {
    let frames: Vec<i16> = (0..1_600).flat_map(|_| [8_192, -4_096]).collect();
    let found = decode(&wav(&frames, 2, 16_000)).unwrap();
    assert_eq!(found, vec![0.0625; 1_600]);
}

#[test]
fn every_format_gives_the_sound_it_holds() {
    let samples = tone(44_100, 1_000.0, 0.5);
    for (name, bytes) in [("wav", wav(&samples, 1, 44_100)), ("flac", flac(&samples, 44_100))] {
        let found = decode(&bytes).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(found.len().abs_diff(8_000) <= 1, "{name}: {}", found.len());
        assert!(swings(&found).abs_diff(1_000) <= 2, "{name}: {}", swings(&found));
    }
    let found = decode(&mp3(40, true)).unwrap();
    assert!(found.len().abs_diff(40 * 1_152 * 160 / 441) <= 1_000, "{}", found.len());
    assert!(found.iter().any(|s| s.abs() > 1e-3), "a loud MP3 is silent");
    assert!(decode(&mp3(40, false)).unwrap().iter().all(|s| *s == 0.0));
    let found = decode(&vorbis(20)).unwrap();
    assert!(found.len() > 500 && found.iter().all(|s| s.is_finite()), "{}", found.len());
}

#[test]
fn what_begins_as_no_sound_is_none() {
    assert!(is_sound(&wav(&[0; 4], 1, 16_000)) && is_sound(&mp3(1, false)) && is_sound(&vorbis(1)));
    for bytes in [&b""[..], b"\x89PNG\r\n\x1a\n", b"RIFF\0\0\0\0WEBP", b"\xff\xd8\xff\xe0", b"GIF89a"] {
        assert!(!is_sound(bytes));
        assert!(decode(bytes).unwrap_err().to_string().contains("expected WAV, MP3, FLAC or Ogg Vorbis"));
    }
}

#[test]
fn more_than_the_limits_is_an_error_before_it_is_decoded() {
    let bytes = wav(&vec![0; 32_000], 1, 16_000);
    let limits = |bytes, seconds| SoundLimits { bytes, seconds };
    let error = decode_sound(&bytes, 16_000, &limits(1_000, 60)).unwrap_err().to_string();
    assert!(error.contains("at most 1000 bytes"), "{error}");
    let error = decode_sound(&bytes, 16_000, &limits(1 << 20, 1)).unwrap_err().to_string();
    assert!(error.contains("at most 1 seconds, found"), "{error}");
    assert!(decode_sound(&bytes, 16_000, &limits(1 << 20, 2)).is_ok());
    let frames = mp3(100, false);
    assert!(decode_sound(&frames, 16_000, &limits(1 << 20, 1)).is_err(), "without a length in its header");
}

#[test]
fn files_that_are_cut_off_are_errors() {
    let samples = tone(16_000, 300.0, 0.5);
    for (name, bytes) in [("wav", wav(&samples, 1, 16_000)), ("flac", flac(&samples, 16_000)), ("ogg", vorbis(20))] {
        for keep in [10, bytes.len() / 4, bytes.len() / 2, bytes.len() - 3] {
            assert!(decode(&bytes[..keep]).is_err(), "{name} of {keep} bytes of {}", bytes.len());
        }
    }
}

#[test]
fn files_without_samples_are_errors() {
    assert!(decode(&wav(&[], 1, 16_000)).is_err());
    assert!(decode(&mp3(0, false)).is_err());
}

#[test]
fn wrong_rates_and_channels_are_errors() {
    let mut bytes = wav(&[0; 64], 1, 16_000);
    bytes[24..28].copy_from_slice(&1u32.to_le_bytes());
    assert!(decode(&bytes).is_err());
    let mut bytes = wav(&[0; 640], 64, 16_000);
    assert!(decode(&bytes).is_err());
    bytes[22..24].copy_from_slice(&0u16.to_le_bytes());
    assert!(decode(&bytes).is_err());
}

#[test]
fn a_wav_whose_lengths_were_not_known_ends_where_the_file_does() {
    let samples = tone(16_000, 440.0, 0.1);
    let mut bytes = wav(&samples, 1, 16_000);
    bytes[4..8].fill(0xff);
    bytes[40..44].fill(0xff);
    assert_eq!(decode(&bytes).unwrap().len(), samples.len());
}

#[test]
fn a_flac_whose_samples_have_another_checksum_is_an_error() {
    let samples = tone(16_000, 440.0, 0.2);
    let good = flac(&samples, 16_000);
    assert!(decode(&good).is_ok());
    let mut bytes = good.clone();
    bytes[8 + 18] ^= 1;
    assert!(decode(&bytes).is_err(), "a wrong MD5 in the header");
}

#[test]
fn mutated_files_end_in_samples_or_an_error() {
    let samples = tone(16_000, 440.0, 0.05);
    let files = [wav(&samples, 1, 16_000), flac(&samples, 16_000), mp3(4, true), vorbis(4)];
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below.max(1) as u64) as usize
    };
    let limits = SoundLimits { bytes: 1 << 20, seconds: 10 };
    for file in &files {
        for _ in 0..1_000 {
            let mut bytes = file.clone();
            for _ in 0..1 + random(8) {
                // Headers are at the front, so that is where most changes are.
                let at = match random(3) {
                    0 => random(bytes.len()),
                    _ => random(bytes.len().min(200)),
                };
                bytes[at] = match random(4) {
                    0 => 0xff,
                    1 => 0,
                    _ => random(256) as u8,
                };
            }
            if random(4) == 0 {
                bytes.truncate(random(bytes.len()));
            }
            if let Err(Error::Medium(message)) = decode_sound(&bytes, 16_000, &limits) {
                assert!(!message.contains('\n'), "{message}");
            }
        }
    }
}
