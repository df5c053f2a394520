//! Whole encoders of the stored files, for sizes of the stored pictures and sounds.

use super::{gguf, inputs, largest_difference};
use crate::util::{device, exhaustive, shared_folder};
use pumex::engine::Tower;
use pumex_media::interpret::Interpreter;
use pumex_media::{encode, Clip, EncoderInput, Modality};
use serde_json::Value;
use std::collections::BTreeMap;

/// Pixels or frames of an input beyond which a sample leaves it out.
const SMALL: usize = 40_000;

fn input_of(of: &Value, original: [usize; 2]) -> EncoderInput {
    let number = |key: &str| of[key].as_u64().unwrap_or(0) as usize;
    EncoderInput {
        width: number("w"),
        height: number("h"),
        values: Vec::new(),
        tiles: [0, 1].map(|i| of["grid"][i].as_u64().unwrap_or(0) as usize),
        original,
        view_separator: of["add_viewsep"].as_bool().unwrap_or(false),
        lead_pad: number("lead_pad"),
    }
}

#[test]
fn encoders_on_a_device_agree_with_the_interpreter() {
    let (Some(folder), Some(device)) = (shared_folder().map(|s| s.join("golden/vision")), device(false)) else {
        return;
    };
    let only = std::env::var("PUMEX_PROJECTOR").unwrap_or_default();
    let (mut wrong, mut seen) = (Vec::new(), 0);
    let mut cases: Vec<_> = std::fs::read_dir(folder.join("cases")).unwrap().map(|case| case.unwrap().path()).collect();
    cases.sort();
    for case in cases.iter().filter(|case| case.to_string_lossy().contains(&only)) {
        let name = case.file_name().unwrap().to_string_lossy().to_string();
        let file = gguf::MemoryFile::open(&folder.join(format!("mmproj/{}.gguf", name.split('@').next().unwrap())));
        let Ok(clips) = Clip::all(&file) else { continue };
        let mut sizes = BTreeMap::new();
        for picture in std::fs::read_dir(case).unwrap().map(|file| file.unwrap().path()) {
            if picture.extension().is_none_or(|e| e != "json") || picture.ends_with("trace.json") {
                continue;
            }
            let of: Value = serde_json::from_slice(&std::fs::read(&picture).unwrap()).unwrap();
            let original = [0, 1].map(|i| of["media"][0][["w", "h"][i]].as_u64().unwrap_or(0) as usize);
            for chunk in of["chunks"].as_array().unwrap().iter().filter(|c| c["type"] != "text") {
                let all = chunk["inputs"].as_array().unwrap();
                let all: Vec<EncoderInput> = all.iter().map(|of| input_of(of, original)).collect();
                let size: usize = all.iter().map(|input| input.width * input.height).sum();
                sizes.insert((size, chunk["type"] == "audio"), all);
            }
        }
        let sample = if exhaustive() { usize::MAX } else { 1 };
        let (interpreter, mut tower) = (Interpreter::new(&file), Tower::new(&device, &file).unwrap());
        for ((size, sound), all) in sizes.into_iter().take(sample) {
            let Some(clip) = clips.iter().find(|c| (c.modality == Modality::Audio) == sound) else { continue };
            let Ok(graph) = encode::build(&file, clip, &all) else { continue };
            if size > SMALL && !exhaustive() {
                continue;
            }
            let given = inputs(&graph, 11);
            let given: Vec<&[f32]> = given.iter().map(|x| &x[..]).collect();
            let truth = interpreter.run(&graph, &given).unwrap();
            let begun = std::time::Instant::now();
            let told = match tower.encode(&graph, &given) {
                Ok(found) => largest_difference(&found, &truth),
                Err(e) => {
                    wrong.push(format!("{name}: {e}"));
                    continue;
                }
            };
            println!("{name} of {size}: off by {told:.1e}, {} ms", begun.elapsed().as_millis());
            seen += 1;
            if told > 1e-3 {
                wrong.push(format!("{name} of {size}: off by {told:.1e}"));
            }
        }
    }
    assert!(seen > 0, "no case of `{only}`");
    assert!(wrong.is_empty(), "{} of {seen}:\n{}", wrong.len(), wrong.join("\n"));
    crate::util::assert_silent_on(&device);
}
