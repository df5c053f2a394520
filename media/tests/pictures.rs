//! Every picture of the reference files: pieces, sizes, positions and pixels are those that the reference made.
#![allow(clippy::unwrap_used)]

mod gguf;

use pumex_media::{
    place, prepare_pair, prepare_picture, Clip, EncoderInput, Medium, Modality, Picture, PictureLimits,
    PreprocessOptions, PromptPiece, TextModel,
};
use serde_json::Value;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The folder of reference files, or another of that form that `PUMEX_VISION_CASES` names; nothing, with a line that says so, where it
/// is missing.
fn reference() -> Option<PathBuf> {
    let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/golden/vision");
    let folder = std::env::var_os("PUMEX_VISION_CASES").map_or(shared, PathBuf::from);
    if !folder.is_dir() {
        let required = std::env::var("PUMEX_REQUIRE").unwrap_or_default();
        assert!(!required.contains("shared"), "expected ../shared/golden/vision, found no such folder");
        println!("skipped: no ../shared/golden/vision");
        return None;
    }
    Some(folder)
}

fn read_json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn number(value: &Value) -> usize {
    value.as_u64().unwrap() as usize
}

fn open_picture(folder: &Path, name: &str) -> Picture {
    let stem = name.rsplit_once('.').unwrap().0;
    let decoded = folder.join(format!("images/{stem}.decoded.png"));
    let path = if decoded.exists() { decoded } else { folder.join("images").join(name) };
    Picture::decode(&std::fs::read(path).unwrap(), &PictureLimits::default()).unwrap()
}

fn options(text: &str) -> PreprocessOptions {
    let words: Vec<&str> = text.split_whitespace().collect();
    let of = |flag: &str| words.iter().position(|w| *w == flag).map(|i| words[i + 1].parse().unwrap());
    PreprocessOptions { image_min_tokens: of("--image-min-tokens"), image_max_tokens: of("--image-max-tokens") }
}

/// What a case has between two media: its texts in one string, without the token that begins a prompt.
fn text_of(chunk: &Value) -> String {
    let pieces: Vec<&str> = chunk["pieces"].as_array().unwrap().iter().map(|p| p.as_str().unwrap()).collect();
    pieces.concat().trim_start_matches("<s>").into()
}

/// Bits of pixels that differ from the reference's, as the place of the first one and both values.
fn compare_pixels(folder: &Path, clip: &Clip, input: &EncoderInput, expected: &Value) -> Result<(), String> {
    let file = folder.join(expected["file"].as_str().unwrap());
    let bytes = std::fs::read(file).unwrap();
    let (values, stride) = match expected["format"].as_str().unwrap() {
        "png_u8" => {
            let picture = Picture::decode(&bytes, &PictureLimits::default()).unwrap();
            assert_eq!([picture.width(), picture.height()], [input.width, input.height]);
            let value = |(i, v): (usize, &u8)| (f32::from(*v) / 255.0 - clip.mean[i % 3]) / clip.std[i % 3];
            (picture.pixels().iter().enumerate().map(value).collect::<Vec<f32>>(), 1)
        }
        "rgb_f32_gz" => {
            let mut raw = Vec::new();
            flate2::read::GzDecoder::new(&bytes[..]).read_to_end(&mut raw).unwrap();
            (raw.as_chunks().0.iter().map(|c| f32::from_le_bytes(*c)).collect(), number(&expected["row_stride"]))
        }
        other => panic!("pixels of the format {other}"),
    };
    let found = input.values.chunks_exact(input.width * 3).step_by(stride).flatten();
    assert_eq!(values.len(), input.height.div_ceil(stride) * input.width * 3);
    match found.zip(&values).position(|(a, b)| a.to_bits() != b.to_bits()) {
        None => Ok(()),
        Some(at) => Err(format!("value {at}: {:?} expected {}", input.values.get(at), values[at])),
    }
}

fn compare_medium(folder: &Path, clip: &Clip, medium: &Medium, chunk: &Value, index: usize) -> Result<(), String> {
    let same = |what: &str, found: Value, expected: &Value| {
        if found == *expected {
            Ok(())
        } else {
            Err(format!("{what}: {found} expected {expected}"))
        }
    };
    let inputs = chunk["inputs"].as_array().unwrap();
    same("inputs", medium.inputs.len().into(), &inputs.len().into())?;
    for (input, expected) in medium.inputs.iter().zip(inputs) {
        same("w", input.width.into(), &expected["w"])?;
        same("h", input.height.into(), &expected["h"])?;
        same("lead_pad", input.lead_pad.into(), &expected["lead_pad"])?;
        same("add_viewsep", input.view_separator.into(), &expected["add_viewsep"])?;
        same("grid", input.tiles.to_vec().into(), &expected["grid"])?;
        if expected.get("pixels").is_some() {
            compare_pixels(folder, clip, input, &expected["pixels"])?;
        }
    }
    same("n_tokens", medium.rows.into(), &chunk["n_tokens"])?;
    same("nx", medium.grid[0].into(), &chunk["nx"])?;
    same("ny", medium.grid[1].into(), &chunk["ny"])?;
    same("non_causal", medium.bidirectional.into(), &chunk["non_causal"])?;
    same("n_pos", medium.positions.advance(medium.grid, medium.rows).into(), &chunk["n_pos"])?;
    if chunk.get("positions_tyxz").is_some_and(|p| !p.is_null()) {
        let streams = medium.positions.streams(medium.grid, medium.rows, number(&chunk["pos_0"]), index);
        same("positions", serde_json::to_value(streams).unwrap(), &chunk["positions_tyxz"])?;
    }
    Ok(())
}

/// A prompt's pieces against a case's chunks: texts between media joined, media one by one.
fn compare(folder: &Path, clip: &Clip, mut pieces: Vec<PromptPiece>, case: &Value) -> Result<(), String> {
    let (mut text, mut before, mut index) = (String::new(), 0, 0);
    let mut chunks = case["chunks"].as_array().unwrap().iter().peekable();
    let begins = chunks.peek().is_some_and(|c| c["pieces"][0] == "<s>");
    pieces.push(PromptPiece::Text(String::new()));
    let last = pieces.len() - 1;
    for (i, piece) in pieces.iter_mut().enumerate() {
        match piece {
            PromptPiece::Text(more) | PromptPiece::Token(more) => text += more,
            PromptPiece::Medium(_) => {}
        }
        if i < last && !matches!(piece, PromptPiece::Medium(_)) {
            continue;
        }
        let expected = match chunks.peek() {
            Some(chunk) if chunk["type"] == "text" => {
                before += number(&chunk["n_tokens"]);
                chunks.next().map(text_of).unwrap_or_default()
            }
            _ => String::new(),
        };
        if text != expected {
            return Err(format!("text {text:?} expected {expected:?}"));
        }
        text.clear();
        if let PromptPiece::Medium(medium) = piece {
            let chunk = chunks.next().ok_or("more media than expected")?;
            place(clip, medium, before - usize::from(begins));
            compare_medium(folder, clip, medium, chunk, index)?;
            before += medium.rows;
            index += 1;
        }
    }
    chunks.next().map_or(Ok(()), |chunk| Err(format!("expected one more chunk: {}", chunk["type"])))
}

fn run(folder: &Path, case: &Value) -> Result<(), String> {
    let name = case["mmproj"].as_str().unwrap();
    let file = gguf::MemoryFile::open(&folder.join(format!("mmproj/{name}.gguf")));
    let clips = Clip::all(&file).map_err(|e| e.to_string())?;
    let clip = clips.iter().find(|c| c.modality == Modality::Vision).ok_or("no encoder of pictures")?;
    let m_rope = case["text_model"].as_str().unwrap().contains("qwen");
    let model = TextModel { n_embd: number(&case["n_embd_inp_text"]), m_rope, has_token: &|_| false };
    let options = options(case["options"].as_str().unwrap_or_default());
    let pictures: Vec<Picture> = case["media"]
        .as_array()
        .unwrap()
        .iter()
        .map(|m| {
            let picture = open_picture(folder, m["file"].as_str().unwrap());
            assert_eq!([picture.width(), picture.height()], [number(&m["w"]), number(&m["h"])]);
            picture
        })
        .collect();
    let media = |made: pumex_media::Result<Vec<PromptPiece>>| made.map_err(|e| e.to_string());
    let mut prompt: Vec<Vec<PromptPiece>> = if case["case"].as_str().is_some_and(|c| c.ends_with("_video")) {
        vec![media(prepare_pair(clip, &file, [&pictures[0], &pictures[1]], &options, &model))?, Vec::new()]
    } else {
        pictures.iter().map(|p| media(prepare_picture(clip, &file, p, &options, &model))).collect::<Result<_, _>>()?
    };
    let mut pieces = Vec::new();
    for (i, text) in case["prompt"].as_str().unwrap().split("<__media__>").enumerate() {
        if i > 0 {
            pieces.append(&mut prompt[i - 1]);
        }
        pieces.push(PromptPiece::Text(text.into()));
    }
    compare(folder, clip, pieces, case)
}

/// The cases of a folder that have pictures only.
fn cases(folder: &Path) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(cases(&path));
        } else if path.extension().is_some_and(|e| e == "json") && path.file_stem().unwrap() != "trace" {
            let case = read_json(&path);
            let sound = |m: &Value| m["file"].as_str().unwrap().ends_with(".pcm");
            if !case["media"].as_array().unwrap().iter().any(sound) {
                found.push((path.display().to_string(), case));
            }
        }
    }
    found
}

fn run_all(folder: &Path, below: &str, least: usize) {
    let cases = cases(&folder.join(below));
    assert!(cases.len() >= least, "expected at least {least} cases, found {}", cases.len());
    let bad: Vec<String> =
        cases.iter().filter_map(|(n, c)| run(folder, c).err().map(|e| format!("{n}: {e}"))).collect();
    assert!(bad.is_empty(), "{} of {} cases differ:\n{}", bad.len(), cases.len(), bad.join("\n"));
}

#[test]
fn pictures_become_what_the_reference_made_of_them() {
    if let Some(folder) = reference() {
        run_all(&folder, "cases", 144);
    }
}

#[test]
fn whole_prompts_have_the_chunks_of_the_reference() {
    if let Some(folder) = reference() {
        run_all(&folder, "e2e", 17);
    }
}
