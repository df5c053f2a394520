//! Encoders against stored results: the rows of every picture and sound of every small projector's file.
#![allow(clippy::unwrap_used)]

mod gguf;
mod schemas;

use pumex_media::interpret::{Interpreter, Products};
use pumex_media::{encode, Clip, EncoderInput, Modality};
use pumex_quant::FormatId;
use serde_json::Value;
use std::path::{Path, PathBuf};

fn golden() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/golden/vision");
    if folder.is_dir() {
        return Some(folder);
    }
    let required = std::env::var("PUMEX_REQUIRE").unwrap_or_default();
    assert!(!required.split(',').any(|r| r == "shared"), "{} is not there", folder.display());
    println!("skipped: {} is not there", folder.display());
    None
}

/// The encoder's input of a case: pixels after resizing, normalised as the file says; a spectrum as it is stored.
fn input(folder: &Path, clip: &Clip, of: &Value) -> Option<EncoderInput> {
    let (w, h) = (of["w"].as_u64().unwrap() as usize, of["h"].as_u64().unwrap() as usize);
    let file = folder.join(of["pixels"]["file"].as_str().unwrap());
    let values = match of["pixels"]["format"].as_str().unwrap() {
        "png_u8" => {
            let pixels = image::open(file).unwrap().to_rgb8();
            let normal = |i: usize, p: u8| (f32::from(p) / 255.0 - clip.mean[i % 3]) / clip.std[i % 3];
            pixels.iter().enumerate().map(|(i, p)| normal(i, *p)).collect()
        }
        "mel_f32" => {
            let bytes = std::fs::read(file).unwrap();
            let stored: Vec<f32> = bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect();
            let frames = stored.len() / h;
            (0..w * h).map(|i| stored[(i % h) * frames + (i / h).min(frames - 1)]).collect()
        }
        _ => return None,
    };
    let pair = |v: &Value| [0, 1].map(|i| v[i].as_u64().unwrap_or(0) as usize);
    Some(EncoderInput {
        width: w,
        height: h,
        values,
        tiles: pair(&of["grid"]),
        original: [0; 2],
        view_separator: of["add_viewsep"].as_bool().unwrap_or(false),
        lead_pad: of["lead_pad"].as_u64().unwrap_or(0) as usize,
    })
}

/// Products number by number, from a matrix's own bytes.
struct Plain;

impl Products for Plain {
    fn multiply(&self, (format, bytes): (FormatId, &[u8]), [n, m, k]: [usize; 3], x: &[f32], out: &mut [f32]) {
        let mut w = vec![0.0; m * k];
        format.format().decode_row(bytes, &mut w);
        for (x, out) in x.chunks_exact(k).zip(out.chunks_exact_mut(m)).take(n) {
            for (w, out) in w.chunks_exact(k).zip(out) {
                *out = x.iter().zip(w).map(|(a, b)| a * b).sum();
            }
        }
    }
}

#[test]
fn rows_are_those_of_the_stored_results() {
    compare(&std::env::var("PUMEX_PROJECTOR").unwrap_or_default(), false);
}

#[test]
fn rows_are_the_same_with_kernels_for_the_products() {
    for projector in ["gemma3-s2", "qwen2.5vl", "youtuvl", "mimovl", "deepseekocr"] {
        if encode::names().any(|name| name.starts_with(&projector[..5])) {
            compare(projector, true);
        }
    }
}

fn compare(only: &str, kernels: bool) {
    let Some(folder) = golden() else { return };
    let mut wrong = Vec::new();
    let mut seen = 0;
    for case in std::fs::read_dir(folder.join("cases")).unwrap() {
        let case = case.unwrap().path();
        let name = case.file_name().unwrap().to_string_lossy().to_string();
        if !name.contains(only) {
            continue;
        }
        let file = gguf::MemoryFile::open(&folder.join(format!("mmproj/{}.gguf", name.split('@').next().unwrap())));
        let clips = Clip::all(&file).unwrap();
        let interpreter =
            if kernels { Interpreter::with_products(&file, Box::new(Plain)) } else { Interpreter::new(&file) };
        for picture in std::fs::read_dir(&case).unwrap() {
            let picture = picture.unwrap().path();
            if picture.extension().is_none_or(|e| e != "json") || picture.ends_with("trace.json") {
                continue;
            }
            let of: Value = serde_json::from_slice(&std::fs::read(&picture).unwrap()).unwrap();
            let original = [0, 1].map(|i| of["media"][0][["w", "h"][i]].as_u64().unwrap_or(0) as usize);
            for chunk in of["chunks"].as_array().unwrap().iter().filter(|c| c["type"] != "text") {
                let sound = chunk["type"] == "audio";
                let clip = clips.iter().find(|c| (c.modality == Modality::Audio) == sound).unwrap();
                let inputs: Option<Vec<EncoderInput>> =
                    chunk["inputs"].as_array().unwrap().iter().map(|i| input(&folder, clip, i)).collect();
                let Some(mut inputs) = inputs else { continue };
                inputs.iter_mut().for_each(|i| i.original = original);
                let expected: Vec<f32> = std::fs::read(case.join(chunk["embd"].as_str().unwrap()))
                    .unwrap()
                    .chunks_exact(4)
                    .map(|b| f32::from_le_bytes(b.try_into().unwrap()))
                    .collect();
                let rms = (expected.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>() / expected.len() as f64).sqrt();
                let ran = encode::build(&file, clip, &inputs).and_then(|graph| {
                    let values: Vec<&[f32]> = inputs.iter().map(|i| &i.values[..]).collect();
                    interpreter.run(&graph, &values)
                });
                seen += 1;
                let told = format!("{name} {} {}", picture.file_stem().unwrap().to_string_lossy(), chunk["embd"]);
                match ran {
                    Err(e) => wrong.push(format!("{told}: {e}")),
                    Ok(rows) if rows.len() != expected.len() => {
                        wrong.push(format!("{told}: {} numbers, expected {}", rows.len(), expected.len()))
                    }
                    Ok(rows) => {
                        let off = rows.iter().zip(&expected).map(|(a, b)| f64::from((a - b).abs())).fold(0.0, f64::max);
                        if off.is_nan() || off > 1e-3 * rms {
                            wrong.push(format!("{told}: off by {:.2e} of {rms:.3}", off / rms));
                        }
                    }
                }
            }
        }
    }
    assert!(seen > 0, "no case of `{only}`");
    assert!(wrong.is_empty(), "{} of {seen} cases:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn every_projector_builds_from_its_schema() {
    let Some(folder) = golden() else { return };
    let listed: Value = serde_json::from_slice(&std::fs::read(folder.join("schemas.json")).unwrap()).unwrap();
    let only = std::env::var("PUMEX_PROJECTOR").unwrap_or_default();
    let mut wrong = Vec::new();
    for (name, of) in listed.as_object().unwrap().iter().filter(|(name, _)| name.contains(&only)) {
        let made = schemas::SchemaProjector::new(of);
        for clip in Clip::all(&made).unwrap() {
            let picture = clip.modality == Modality::Vision;
            let Some((_, _, [width, height], expected)) = schemas::SIZES.iter().find(|s| s.0 == name && s.1 == picture)
            else {
                wrong.push(format!("{name}: no size for its encoder `{}`", clip.projector));
                continue;
            };
            let channels = if picture { 3 } else { 1 };
            let values: Vec<f32> =
                (0..width * height * channels).map(|i| ((i * 37 % 101) as f32 - 50.0) / 50.0).collect();
            let (width, height) = (*width, *height);
            let cut = clip.projector == "granite4_vision";
            let tiles = if cut { [2, 2] } else { [0; 2] };
            let input =
                EncoderInput { width, height, values, tiles, original: [224; 2], view_separator: false, lead_pad: 0 };
            let graph = match encode::build(&made, &clip, std::slice::from_ref(&input)) {
                Ok(graph) => graph,
                Err(e) => {
                    wrong.push(format!("{name}: {e}"));
                    continue;
                }
            };
            let out = graph.view(graph.out.unwrap());
            if [out.rows, out.cols] != *expected {
                wrong.push(format!("{name}: {} x {} numbers, expected {expected:?}", out.rows, out.cols));
            }
            match Interpreter::new(&made).run(&graph, &[&input.values]) {
                Err(e) => wrong.push(format!("{name}: {e}")),
                Ok(rows) if !rows.iter().all(|x| x.is_finite()) => wrong.push(format!("{name}: rows are not finite")),
                Ok(_) => {}
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Projectors whose windows overlap in a picture's height, or that norm over rows: their media are encoded one by one.
const ONE_BY_ONE: &[&str] = &[
    "deepseekocr2",
    "dots3note_a",
    "gemma3nv",
    "gemma4a",
    "granite_speech",
    "ldp",
    "ldpv2",
    "lfm2a",
    "parakeet",
    "qwen3a",
    "step3vl",
    "yasa2",
];

#[test]
fn media_of_one_size_are_encoded_together_as_each_alone() {
    let Some(folder) = golden() else { return };
    let listed: Value = serde_json::from_slice(&std::fs::read(folder.join("schemas.json")).unwrap()).unwrap();
    let only = std::env::var("PUMEX_PROJECTOR").unwrap_or_default();
    let (mut wrong, mut one_by_one) = (Vec::new(), std::collections::BTreeSet::new());
    for (name, of) in listed.as_object().unwrap().iter().filter(|(name, _)| name.contains(&only)) {
        let made = schemas::SchemaProjector::new(of);
        for clip in Clip::all(&made).unwrap() {
            let picture = clip.modality == Modality::Vision;
            let Some((_, _, [width, height], _)) = schemas::SIZES.iter().find(|s| s.0 == name && s.1 == picture) else {
                continue;
            };
            let channels = if picture { 3 } else { 1 };
            let numbers = |seed: usize| -> Vec<f32> {
                (0..width * height * channels).map(|i| (((i + seed) * 37 % 101) as f32 - 50.0) / 50.0).collect()
            };
            let tiles = if clip.projector == "granite4_vision" { [2, 2] } else { [0; 2] };
            let input = EncoderInput {
                width: *width,
                height: *height,
                values: numbers(0),
                tiles,
                original: [224; 2],
                ..EncoderInput::default()
            };
            let graph = encode::build(&made, &clip, std::slice::from_ref(&input)).unwrap();
            let Some(batched) = graph.batched(2) else {
                one_by_one.insert(clip.projector.clone());
                continue;
            };
            let interpreter = Interpreter::new(&made);
            let all = [numbers(0), numbers(5)];
            let alone: Vec<f32> = all.iter().flat_map(|x| interpreter.run(&graph, &[x]).unwrap()).collect();
            match interpreter.run(&batched, &[&all.concat()]) {
                Err(e) => wrong.push(format!("{name}: {e}")),
                Ok(together) if together.len() != alone.len() => {
                    wrong.push(format!("{name}: {} numbers", together.len()))
                }
                Ok(together) => {
                    let off = together.iter().zip(&alone).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
                    if off > 0.0 {
                        wrong.push(format!("{name}: off by {off:e}"));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    if only.is_empty() {
        assert!(one_by_one.iter().eq(ONE_BY_ONE), "{one_by_one:?}");
    }
}
