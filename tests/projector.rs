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

#[test]
fn files_are_told_with_their_encoders_and_memory() {
    let Some(shared) = shared_folder() else { return };
    let path = |name: &str| shared.join("golden/vision").join(name).to_string_lossy().into_owned();
    let (mmproj, model, sounds) =
        (path("mmproj/qwen2vl.gguf"), path("text/tiny-qwen2vl.gguf"), path("mmproj/qwen2a.gguf"));
    let told = |args: &[&str]| {
        let (well, text) = run_with_projector(args);
        assert!(well, "{args:?}: {text}");
        text
    };
    let alone = told(&["inspect", &mmproj]);
    for words in
        ["projector: qwen2vl_merger, takes pictures (Qwen2-VL)", "\n224 x 224        64      1\n", "rows of 64 columns"]
    {
        assert!(alone.contains(words), "{words}: {alone}");
    }
    assert!(told(&["inspect", &sounds]).contains("projector: qwen2a, takes sounds"));
    assert!(told(&["inspect", "-m", &model, "--mmproj", &mmproj]).contains("its rows suit the model: 64 columns"));
    let wide = path("text/tiny-llama128.gguf");
    assert!(told(&["inspect", "-m", &wide, "--mmproj", &mmproj]).contains("do not suit the model, which takes 128"));
    let json: Json = serde_json::from_str(&told(&["inspect", "-m", &model, "--mmproj", &mmproj, "--json"])).unwrap();
    assert_eq!(json["mmproj"]["encoders"][0]["tokens"][0]["tokens"], 64);
    assert_eq!(json["mmproj"]["model_row_width"], json["mmproj"]["encoders"][0]["row_width"]);

    let explained = told(&["explain", "--mmproj", &mmproj, "--profile", "h200"]);
    for words in ["= matmul v", "v.blk.0.attn_q.weight[", "gemm_tile.", "= attend v", "tower_attend", "dispatches,"] {
        assert!(explained.contains(words), "{words}: {explained}");
    }
    let picture = path("images/d_checker_33x20.png");
    let small = told(&["explain", "-mm", &mmproj, "--image", &picture, "--profile", "h200", "--json"]);
    let small: Json = serde_json::from_str(&small).unwrap();
    assert!(small["encoder"]["dispatches"].as_array().unwrap().len() > 10, "{small}");
    let sound = path("images/s_sound_16k.pcm");
    assert!(told(&["explain", "--mmproj", &sounds, "--audio", &sound, "--profile", "h200"]).contains("a.blk.0."));

    let fit = |flags: &[&str]| -> Json {
        let args = [&["explain", "--fit", "-m", &model, "--profile", "h200", "--json"][..], flags].concat();
        serde_json::from_str(&told(&args)).unwrap()
    };
    let encoder = |fit: &Json| {
        let shares = fit["fit"]["shares"].as_array().unwrap();
        shares.iter().find(|s| s["what"] == "encoder of media, at most").unwrap()["bytes"].as_u64().unwrap()
    };
    let (without, with) = (fit(&[]), fit(&["--mmproj", &mmproj]));
    assert_eq!(encoder(&without), 0);
    let file = std::fs::metadata(&mmproj).unwrap().len();
    assert!(encoder(&with) > file && encoder(&with) < (1 << 30), "{with}");
    assert!(with["fit"]["longest"].as_u64() <= without["fit"]["longest"].as_u64());
    for (args, words) in [
        (&["explain", "--mmproj", &mmproj, "--audio", &sound, "--profile", "h200"][..], "takes no sounds"),
        (&["explain", "--mmproj", &mmproj, "-m", &model, "--profile", "h200"], "--model: expected --fit"),
        (&["explain", "--mmproj", &model, "--profile", "h200"], "expected clip"),
        (&["run", "-m", &model, "--mmproj", &mmproj, "--video", &picture, "-p", "hi"], "video input is not supported"),
    ] {
        let (well, text) = run_with_projector(args);
        assert!(!well && text.contains(words), "{args:?}: {text}");
    }
}

#[test]
fn media_stand_in_the_order_of_the_command_line() {
    let Some(shared) = shared_folder() else { return };
    let path = |name: &str| shared.join("golden/vision").join(name).to_string_lossy().into_owned();
    let mmproj = path("mmproj/gemma4-va.gguf");
    let (a, d, s) =
        (path("images/a_gradient_224x224.png"), path("images/d_checker_33x20.png"), path("images/s_sound_16k.pcm"));
    let out = std::env::temp_dir().join(format!("pumex-order-{}", std::process::id()));
    let file = out.to_string_lossy().into_owned();
    let rows = |flags: &[&str]| {
        let given = ["embed", "--device", "cpu", "--mmproj", &mmproj, "--out", &file];
        let (well, text) = run_with_projector(&[&given[..], flags].concat());
        assert!(well, "{text}");
        floats(&out)
    };
    let [first, second, sound] = [["--image", &a], ["--image", &d], ["--audio", &s]].map(|flags| rows(&flags));
    assert_eq!(rows(&["--image", &a, "--audio", &s, "--image", &d]), [&first[..], &sound, &second].concat());
    assert_eq!(rows(&["--audio", &s, "--image", &format!("{d},{a}")]), [&sound[..], &second, &first].concat());
    std::fs::remove_file(out).unwrap();
}

#[test]
fn parts_and_pictures_of_one_size_go_in_few_runs_of_the_encoder() {
    let Some(shared) = shared_folder() else { return };
    let vision = shared.join("golden/vision");
    let options = Options { device: DeviceChoice::Cpu, ..Options::default() };
    let gguf = Gguf::open(&vision.join("text/tiny-llama.gguf")).unwrap();
    let tokenizer = Tokenizer::from_gguf(&gguf).unwrap();
    let (n_embd, m_rope) = shape_of(&gguf, &model::plan(&gguf).unwrap()).unwrap();
    let side = TextSide { tokenizer: &tokenizer, n_embd, m_rope };
    let open = || {
        let mmproj = vision.join("mmproj/llava16.gguf");
        Projector::open(&mmproj, FileAccess::default(), MediaOptions::default(), &options).unwrap()
    };
    let [a, d] = ["a_gradient_224x224.png", "d_checker_33x20.png"].map(|name| medium(&vision.join("images"), name));
    let rows = |projector: &Projector, media: &[MediumFile]| {
        let feed = projector.feed("hi", media, &side).unwrap();
        feed.media.iter().flat_map(|(_, m)| (0..m.rows()).flat_map(|row| m.vector(row).to_vec())).collect::<Vec<f32>>()
    };
    // Four tiles of the first picture and what both look like as a whole.
    let together = open();
    let both = rows(&together, &[a.clone(), d.clone()]);
    assert_eq!(together.runs(), 2, "six parts are four and two");
    let alone = [a.clone(), d].map(|file| open().rows(&file).unwrap().0);
    let error = nmse(&both, &alone.concat());
    assert!(error <= 1e-12, "NMSE {error:e}");
    rows(&together, &[a]);
    assert_eq!(together.runs(), 2, "what was encoded before is kept");
    // Many at a time: each gets its own rows.
    let many = open();
    std::thread::scope(|scope| {
        let (projector, rows) = (&many, &rows);
        let (a, d) = (
            medium(&vision.join("images"), "a_gradient_224x224.png"),
            medium(&vision.join("images"), "d_checker_33x20.png"),
        );
        let ask = |i: usize| {
            let (file, own) =
                if i.is_multiple_of(2) { (a.clone(), alone[0].clone()) } else { (d.clone(), alone[1].clone()) };
            scope.spawn(move || {
                let error = nmse(&rows(projector, &[file]), &own);
                assert!(error <= 1e-12, "NMSE {error:e}");
            })
        };
        let threads: Vec<_> = (0..6).map(ask).collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(projector.runs() <= 12, "{}", projector.runs());
    });
}
