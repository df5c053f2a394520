//! Sounds of any length before every projector.

use super::*;
use crate::{Modality, StoredTensor};

/// Keys of a small projector, and a front end that Parakeet's files bring.
struct FakeProjector {
    projector: &'static str,
    window: Vec<u8>,
    filters: Vec<u8>,
}

const BINS: usize = 32;

impl FakeProjector {
    fn new(projector: &'static str) -> FakeProjector {
        let ones = |len: usize| 0.5f32.to_le_bytes().repeat(len);
        FakeProjector { projector, window: ones(400), filters: ones(257 * BINS) }
    }
}

impl Source for FakeProjector {
    fn text(&self, key: &str) -> Option<String> {
        (key == "clip.projector_type").then(|| self.projector.into())
    }

    fn number(&self, key: &str) -> Option<f64> {
        match key.trim_start_matches("clip.").trim_start_matches("audio.") {
            "has_audio_encoder" | "block_count" => Some(1.0),
            "embedding_length" | "feed_forward_length" | "num_mel_bins" => Some(BINS as f64),
            "attention.head_count" | "projector.stack_factor" | "local_group_size" => Some(4.0),
            "attention.layer_norm_epsilon" => Some(1e-5),
            "projector.window_size" => Some(15.0),
            "projector.downsample_rate" => Some(5.0),
            "subsampling_factor" => Some(8.0),
            _ => None,
        }
    }

    fn numbers(&self, _: &str) -> Option<Vec<f64>> {
        None
    }

    fn tensor(&self, name: &str) -> Option<StoredTensor<'_>> {
        let format = pumex_quant::all().find(|f| f.name == "F32")?.id;
        match name {
            "a.window" => Some(StoredTensor { shape: vec![400], format, data: &self.window }),
            "a.mel_filters" => Some(StoredTensor { shape: vec![257, BINS], format, data: &self.filters }),
            _ => None,
        }
    }
}

fn prepare(projector: &'static str, samples: &[f32]) -> Result<Vec<PromptPiece>> {
    let source = FakeProjector::new(projector);
    let clip = Clip::all(&source)?.remove(0);
    assert_eq!(clip.modality, Modality::Audio);
    prepare_sound(&clip, &source, samples, &TextModel { n_embd: 64, m_rope: false, has_token: &|_| true })
}

fn media(pieces: &[PromptPiece]) -> Vec<&Medium> {
    pieces.iter().filter_map(|p| if let PromptPiece::Medium(m) = p { Some(m) } else { None }).collect()
}

#[test]
fn every_projector_of_sounds_has_an_encoder_and_stands_once() {
    for (i, sound) in SOUNDS.iter().enumerate() {
        assert!(crate::encode::names().any(|name| name == sound.projector), "{}", sound.projector);
        assert!(SOUNDS[..i].iter().all(|s| s.projector != sound.projector), "{}", sound.projector);
    }
}

#[test]
fn sounds_of_any_length_give_finite_inputs_or_an_error() {
    for sound in SOUNDS {
        for len in [1, 2, 159, 160, 161, 320, 321, 400, 479, 2_000, 12_345] {
            let samples: Vec<f32> = (0..len).map(|i| ((i * i) as f32).sin()).collect();
            let pieces = match prepare(sound.projector, &samples) {
                Ok(pieces) => pieces,
                Err(error) => {
                    assert!(len < 2_000 && matches!(error, Error::Medium(_)), "{} of {len}: {error}", sound.projector);
                    continue;
                }
            };
            for medium in media(&pieces) {
                let input = &medium.inputs[0];
                assert_eq!(input.values.len(), input.width * input.height, "{} of {len}", sound.projector);
                assert!(input.values.iter().all(|v| v.is_finite()), "{} of {len}", sound.projector);
                assert!(medium.rows > 0 && medium.grid == [medium.rows, 1], "{} of {len}", sound.projector);
            }
        }
    }
}

#[test]
fn silence_gives_finite_inputs() {
    for sound in SOUNDS {
        let pieces = prepare(sound.projector, &[0.0; 4_000]).unwrap();
        let finite = |m: &&Medium| m.inputs[0].values.iter().all(|v| v.is_finite());
        assert!(media(&pieces).iter().all(finite), "{}", sound.projector);
    }
}

#[test]
fn long_sounds_give_several_inputs_where_encoders_take_pieces() {
    let seconds = |projector: &'static str, seconds: usize| {
        let pieces = prepare(projector, &vec![0.1; seconds * 16_000]).unwrap();
        media(&pieces).iter().map(|m| m.inputs[0].width).collect::<Vec<usize>>()
    };
    assert_eq!(seconds("ultravox", 29), [3_000]);
    assert_eq!(seconds("ultravox", 31), [3_000, 3_000]);
    assert_eq!(seconds("qwen3a", 10), [800, 300]);
    assert_eq!(seconds("gemma4a", 31), [2_999, 99]);
    assert_eq!(seconds("dots3note_a", 61), [6_000, 100]);
    assert_eq!(seconds("lfm2a", 31), [3_101]);
}

#[test]
fn what_is_no_sound_is_an_error() {
    assert!(prepare("ultravox", &[]).unwrap_err().to_string().contains("found none"));
    for wrong in [f32::NAN, f32::INFINITY, 1e30] {
        assert!(prepare("ultravox", &[0.0, wrong]).unwrap_err().to_string().contains("from -1 to 1"));
    }
    let source = FakeProjector::new("ultravox");
    let clip = Clip { projector: "gemma3".into(), ..Clip::all(&source).unwrap().remove(0) };
    assert!(matches!(sound_rate(&clip), Err(Error::Unsupported(_))));
}
