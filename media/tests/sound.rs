//! Sounds of the golden files: spectra, texts around them, rows.

#![allow(clippy::unwrap_used)]

mod gguf;

use pumex_media::{encode, interpret::Interpreter, prepare_sound, sound_rate, Clip, Modality, PromptPiece, TextModel};
use serde_json::Value;
use std::path::{Path, PathBuf};

fn golden() -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/golden/vision");
    let path = if path.exists() { path } else { Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/golden/vision") };
    if path.exists() {
        return Some(path);
    }
    let required = std::env::var("PUMEX_REQUIRE").is_ok_and(|r| r.split(',').any(|r| r == "shared"));
    assert!(!required, "expected {}", path.display());
    println!("skipped: no {}", path.display());
    None
}

fn floats(path: &Path) -> Vec<f32> {
    let bytes = std::fs::read(path).unwrap();
    bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
}

/// Cases of sounds: the projector's file and what is expected.
fn cases(golden: &Path) -> Vec<(String, Value)> {
    let mut cases = Vec::new();
    for folder in std::fs::read_dir(golden.join("cases")).unwrap() {
        let folder = folder.unwrap().path();
        for rate in ["16k", "24k"] {
            if let Ok(text) = std::fs::read_to_string(folder.join(format!("s_sound_{rate}.json"))) {
                let name = folder.file_name().unwrap().to_str().unwrap().to_string();
                cases.push((name, serde_json::from_str(&text).unwrap()));
            }
        }
    }
    cases.sort_by(|a, b| a.0.cmp(&b.0));
    cases
}

fn sound_of(file: &gguf::MemoryFile) -> Clip {
    Clip::all(file).unwrap().into_iter().find(|c| c.modality == Modality::Audio).unwrap()
}

#[test]
fn spectra_texts_and_rows_of_samples_are_those_of_the_golden_files() {
    let Some(golden) = golden() else { return };
    let cases = cases(&golden);
    let mut wrong = Vec::new();
    assert!(cases.len() >= 11, "{}", cases.len());
    for (name, case) in cases {
        let file = gguf::MemoryFile::open(&golden.join(format!("mmproj/{}.gguf", case["mmproj"].as_str().unwrap())));
        let clip = sound_of(&file);
        let media = case["media"][0]["file"].as_str().unwrap();
        assert_eq!(sound_rate(&clip).unwrap() == 24_000, media.contains("24k"), "{name}");
        let samples = floats(&golden.join("images").join(media));
        let text = TextModel { n_embd: 64, m_rope: false, has_token: &|_| true };
        let pieces = prepare_sound(&clip, &file, &samples, &text).unwrap();
        let chunks = case["chunks"].as_array().unwrap();
        let media: Vec<&Value> = chunks.iter().filter(|c| c["type"] == "audio").collect();
        let found: Vec<_> =
            pieces.iter().filter_map(|p| if let PromptPiece::Medium(m) = p { Some(m) } else { None }).collect();
        assert_eq!(found.len(), media.len(), "{name}");
        // What stands around the sound is between "hi" and "ok".
        let around = |chunk: &Value, front: bool| {
            let mut pieces: Vec<&str> =
                chunk["pieces"].as_array().unwrap().iter().map(|p| p.as_str().unwrap()).collect();
            pieces.retain(|p| *p != "<s>");
            let text = pieces.concat();
            let text = if front { text.strip_prefix("hi") } else { text.strip_suffix("ok") };
            text.unwrap().to_string()
        };
        let piece = |piece: Option<&PromptPiece>| match piece {
            Some(PromptPiece::Text(text)) => text.clone(),
            _ => String::new(),
        };
        assert_eq!(piece(pieces.first()), around(&chunks[0], true), "{name}");
        assert_eq!(piece(pieces.last()), around(&chunks[chunks.len() - 1], false), "{name}");
        for (medium, chunk) in found.iter().zip(media) {
            assert_eq!(medium.rows as u64, chunk["n_tokens"], "{name}");
            assert_eq!(medium.rows as u64, chunk["n_pos"], "{name}");
            assert_eq!(medium.bidirectional, chunk["non_causal"], "{name}");
            let (input, expected) = (&medium.inputs[0], &chunk["inputs"][0]);
            assert_eq!(
                (input.width as u64, input.height as u64),
                (expected["w"].as_u64().unwrap(), expected["h"].as_u64().unwrap()),
                "{name}"
            );
            let stored = expected["pixels"]["n_frames_stored"].as_u64().unwrap() as usize;
            let mel = floats(&golden.join(expected["pixels"]["file"].as_str().unwrap()));
            // Stored spectra were computed in f32. Logarithms of magnitudes show in what is near their floor how the loudest of the
            // frame was rounded; elsewhere that is far below the bound.
            let magnitudes = clip.projector == "gemma4a";
            let loudest = mel.iter().fold(f32::MIN, |m, v| m.max(*v));
            let mut worst = 0.0f32;
            for frame in 0..input.width {
                for bin in 0..input.height {
                    let found = input.values[frame * input.height + bin];
                    let wanted = mel[bin * stored + frame.min(stored - 1)];
                    let rounding = if magnitudes { f32::EPSILON * (loudest - wanted).exp() } else { 0.0 };
                    worst = worst.max((found - wanted).abs() - rounding);
                }
            }
            wrong.extend((worst > 1e-4).then(|| format!("{name}: {worst:e} off")));
            let expected = floats(&golden.join("cases").join(&name).join(chunk["embd"].as_str().unwrap()));
            let rms = (expected.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>() / expected.len() as f64).sqrt();
            let rows = encode::build(&file, &clip, &medium.inputs)
                .and_then(|graph| Interpreter::new(&file).run(&graph, &[&input.values[..]]))
                .unwrap();
            assert_eq!(rows.len(), expected.len(), "{name}");
            let off = rows.iter().zip(&expected).map(|(a, b)| f64::from((a - b).abs())).fold(0.0, f64::max) / rms;
            println!("{name}: spectrum off by {worst:e}, rows by {off:e}");
            wrong.extend((off.is_nan() || off > 1e-3).then(|| format!("{name}: rows {off:e} off")));
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}
