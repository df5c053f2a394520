//! Prompts with pictures and sounds, from their files to logits: what stands in a prompt, and what a text model makes of it, is what
//! llama.cpp has.

use crate::util::{nmse, shared_folder};
use pumex::conversation::run_chunks;
use pumex::engine::{self, DeviceChoice, Options};
use pumex::gguf::{FileAccess, Gguf};
use pumex::model;
use pumex::projector::{shape_of, MediaOptions, MediumFile, Projector, TextSide};
use pumex::step::RowOutput;
use pumex::text::Tokenizer;
use serde_json::Value as Json;
use std::path::Path;
use std::sync::atomic::AtomicBool;

fn floats(path: &Path) -> Vec<f32> {
    let raw = std::fs::read(path).unwrap();
    raw.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

/// A WAV file of samples.
fn wav(samples: &[f32], rate: u32) -> Vec<u8> {
    let data: Vec<u8> = samples.iter().flat_map(|s| s.to_le_bytes()).collect();
    let mut out = b"RIFF".to_vec();
    out.extend((36 + data.len() as u32).to_le_bytes());
    out.extend(b"WAVEfmt ");
    out.extend(16u32.to_le_bytes());
    out.extend([3u16, 1].iter().flat_map(|n| n.to_le_bytes()));
    out.extend([rate, rate * 4].iter().flat_map(|n| n.to_le_bytes()));
    out.extend([4u16, 32].iter().flat_map(|n| n.to_le_bytes()));
    out.extend(b"data");
    out.extend((data.len() as u32).to_le_bytes());
    out.extend(data);
    out
}

/// A medium's file; of JPEGs what they decode to.
fn medium(images: &Path, name: &str) -> MediumFile {
    let picture = !name.ends_with(".pcm");
    let bytes = match name.strip_suffix(".jpg") {
        Some(stem) => std::fs::read(images.join(format!("{stem}.decoded.png"))).unwrap(),
        None if picture => std::fs::read(images.join(name)).unwrap(),
        None => wav(&floats(&images.join(name)), if name.contains("24k") { 24_000 } else { 16_000 }),
    };
    MediumFile { picture, bytes: bytes.into(), bare: false, max_tokens: None }
}

#[test]
fn prompts_with_files_of_media_give_what_llama_cpp_computed() {
    let Some(shared) = shared_folder() else { return };
    let vision = shared.join("golden/vision");
    let mut paths: Vec<_> = std::fs::read_dir(vision.join("e2e")).unwrap().map(|e| e.unwrap().path()).collect();
    // Two frames of a video are one medium, which no prompt says of two pictures.
    paths
        .retain(|path| path.extension().is_some_and(|end| end == "json") && !path.to_string_lossy().contains("_video"));
    paths.sort();
    assert!(paths.len() >= 18, "{} prompts", paths.len());
    let options = Options { device: DeviceChoice::Cpu, exact_on_cpu: true, n_ctx: Some(768), ..Options::default() };
    for path in paths {
        let case: Json = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let file =
            |folder: &str, key: &str| vision.join(folder).join(case[key].as_str().unwrap()).with_extension("gguf");
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let mmproj = vision.join("mmproj").join(format!("{}.gguf", case["mmproj"].as_str().unwrap()));
        let projector = Projector::open(&mmproj, FileAccess::default(), MediaOptions::default(), &options).unwrap();
        let gguf = Gguf::open(&file("text", "text_model")).unwrap();
        let tokenizer = Tokenizer::from_gguf(&gguf).unwrap();
        let (n_embd, m_rope) = shape_of(&gguf, &model::plan(&gguf).unwrap()).unwrap();
        let side = TextSide { tokenizer: &tokenizer, n_embd, m_rope };
        let media = case["media"].as_array().unwrap().iter().map(|m| m["file"].as_str().unwrap());
        let media: Vec<MediumFile> = media.map(|name| medium(&vision.join("images"), name)).collect();
        let feed = projector.feed(case["prompt"].as_str().unwrap(), &media, &side).unwrap();
        let mut at = 0;
        for chunk in case["chunks"].as_array().unwrap() {
            let n = chunk["n_tokens"].as_u64().unwrap() as usize;
            let found =
                feed.ids.get(at..at + n).unwrap_or_else(|| panic!("{name}: {} ids, more expected", feed.ids.len()));
            if let Some(tokens) = chunk["tokens"].as_array() {
                let tokens: Vec<u32> = tokens.iter().map(|t| t.as_u64().unwrap() as u32).collect();
                assert_eq!(found, tokens, "{name}: the text at {at}");
            } else {
                assert!(feed.media.row(at).is_some_and(|row| row.index == 0), "{name}: a medium at {at}");
            }
            at += n;
        }
        assert_eq!(at, feed.ids.len(), "{name}");
        let mut runner = engine::load(&gguf, &options, &mut |_, _| ()).unwrap();
        let last = |at: usize| if at + 1 == feed.ids.len() { RowOutput::Logits } else { RowOutput::None };
        let mut found = Vec::new();
        run_chunks(&mut *runner, &feed.rows(0, last), &AtomicBool::new(false), &mut |output| {
            found.extend(output.logits);
            Ok(())
        })
        .unwrap();
        let expected = floats(&path.with_file_name(case["logits"].as_str().unwrap()));
        let error = nmse(&found, &expected[..found.len()]);
        println!("{name}: NMSE {error:.2e}");
        assert!(error <= 1e-5, "{name}: NMSE {error:e}");
    }
}

/// `docs/projectors.md` (`PUMEX_BLESS=1` writes it) lists what there is an encoder for.
#[test]
fn the_list_of_projectors_is_that_of_the_encoders() {
    let mut text = String::from(
        "# Projectors\n\nValues of `clip.projector_type`, in the file beside a text model (`mmproj-*.gguf`), that run. \
         Made by `make test`.\n\n\
         | projector | takes | of models |\n|---|---|---|\n",
    );
    for (name, modality, models) in pumex_media::encode::table() {
        let takes = if modality == pumex_media::Modality::Vision { "pictures" } else { "sounds" };
        text.push_str(&format!("| {name} | {takes} | {models} |\n"));
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/projectors.md");
    if std::env::var_os("PUMEX_BLESS").is_some() {
        std::fs::write(&file, &text).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap_or_default(), text);
}

/// What a command says, with flags behind those of a small model's projector.
fn run_with_projector(args: &[&str]) -> (bool, String) {
    let out = crate::cli::pumex(args);
    (out.status.success(), format!("{}{}", crate::cli::stdout(&out), crate::cli::stderr(&out)))
}

#[test]
fn commands_take_media_and_refuse_what_goes_with_none() {
    let Some(shared) = shared_folder() else { return };
    let vision = shared.join("golden/vision");
    let path = |name: &str| vision.join(name).to_string_lossy().into_owned();
    let (mmproj, model) = (path("mmproj/qwen2vl.gguf"), path("text/tiny-qwen2vl.gguf"));
    let [a, d] = ["a_gradient_224x224", "d_checker_33x20"].map(|name| path(&format!("images/{name}.png")));
    let out = std::env::temp_dir().join(format!("pumex-projector-{}", std::process::id()));
    let file = out.to_string_lossy().into_owned();
    let rows = |flags: &[&str]| {
        let given = ["embed", "--device", "cpu", "--mmproj", &mmproj, "--image", &a, "--out", &file];
        let (well, text) = run_with_projector(&[&given[..], flags].concat());
        assert!(well, "{text}");
        std::fs::metadata(&out).unwrap().len() / (64 * 4)
    };
    assert_eq!(rows(&["--no-mmproj-offload"]), 64);
    assert_eq!(rows(&["--mmproj-auto", "--no-mmproj-offload", "--mmproj-offload"]), 64);
    assert!(rows(&["--image-max-tokens", "40"]) <= 40);
    assert!(rows(&["--image-min-tokens", "100"]) >= 100);
    let answer = |image: &str| {
        let (well, text) = run_with_projector(&[
            "run",
            "-m",
            &model,
            "--mmproj",
            &mmproj,
            "--image",
            image,
            "-p",
            "hi<__media__>ok",
            "-n",
            "6",
            "--temp",
            "0",
            "--device",
            "cpu",
            "--no-display-prompt",
            "-no-cnv",
        ]);
        assert!(well, "{text}");
        text.lines().next().unwrap_or_default().to_string()
    };
    assert_ne!(answer(&a), answer(&d), "the answer follows from the picture");
    let bench = ["bench", "-m", &model, "--mmproj", &mmproj, "--image", &a, "-p", "0", "-n", "0", "-r", "1"];
    let out_json = crate::cli::pumex(&[&bench[..], &["--device", "cpu", "-o", "json"]].concat());
    let tests: Json = serde_json::from_str(crate::cli::stdout(&out_json)).unwrap();
    let told = |i: usize| (tests[i]["picture"].as_str().unwrap_or("").to_string(), tests[i]["n_prompt"].clone());
    assert_eq!(told(0), ("encoder a_gradient_224x224.png".into(), 64.into()));
    assert_eq!(told(1), ("picture a_gradient_224x224.png".into(), 64.into()));
    let sound = path("images/s_sound_16k.pcm");
    for (args, words) in [
        (&["embed", "--mmproj", &mmproj, "--audio", &sound][..], "takes no sounds"),
        (&["embed", "--mmproj", &mmproj], "expected --image FILE or --audio FILE"),
        (&["embed", "--mmproj", &model, "--image", &a], "expected clip"),
        (&["bench", "--synthetic-mmproj", "none"], "expected one of gemma3, qwen2.5vl-7b"),
        (&["bench", "-m", &model, "--mmproj", &model, "--image", &a], "expected clip"),
        (&["embed", "--mmproj-url", "http://127.0.0.1:9/mmproj.gguf", "--image", &a], "127.0.0.1:9"),
        (&["run", "-m", &model, "--no-mmproj", "--image", &a, "-p", "hi"], "expected a projector"),
        (&["run", "-m", &model, "--mmproj", &mmproj, "--image", &a, "-p", "<__media__> <__media__>"], "found 2 marks"),
        (&["run", "-m", &model, "--mmproj", &mmproj, "--image", &model, "-p", "hi"], "expected PNG, JPEG"),
        (
            &["embed", "--mmproj", &mmproj, "--image", &a, "--image-min-tokens", "9", "--image-max-tokens", "8"],
            "at most",
        ),
        (&["serve", "--allow-remote-media", "--media-path", "absent"], "expected a folder"),
    ] {
        let (well, text) = run_with_projector(args);
        assert!(!well && text.contains(words), "{args:?}: {text}");
    }
    std::fs::remove_file(out).unwrap();
}
