//! Folders that are not what they should be are errors that name the file and the tensor, and never panics.

#![allow(clippy::unwrap_used, missing_docs)]

#[allow(dead_code)]
mod recipe;

use pumex_convert::{Conversion, ConversionOptions, Error};
use recipe::cases::all;
use recipe::RecipeFolder;
use std::path::{Path, PathBuf};

struct TemporaryFolder(PathBuf);

impl TemporaryFolder {
    fn new(name: &str) -> TemporaryFolder {
        let path = std::env::temp_dir().join(format!("pumex-convert-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        TemporaryFolder(path)
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn folder(name: &str) -> RecipeFolder {
    all().into_iter().find(|f| f.name == name).unwrap()
}

/// Small ones of every kind of vocabulary and of experts.
const SOME: [&str; 7] = [
    "Tiny-Llama-7B-chat-v0.2",
    "seeded-mixtral-8x7B",
    "Qwen2.5-0.5B-Instruct",
    "gemma-3-1b-it",
    "gpt-oss-20b",
    "DeepSeek-V3",
    "all-MiniLM-L2-v2",
];

fn read(folder: &RecipeFolder, dir: &Path) -> Result<Conversion, Error> {
    Conversion::new(dir, &ConversionOptions { pre: folder.pre.map(String::from), ..ConversionOptions::default() })
}

fn refusal_text(folder: &RecipeFolder, dir: &Path) -> String {
    read(folder, dir).err().map(|e| e.to_string()).unwrap_or_default()
}

/// Tensors that are left out anyway, or that files may have or not.
fn is_needless(name: &str) -> bool {
    ["rotary_emb.inv_freq", "pooler.dense", "layers.2.", "e_score_correction_bias"]
        .iter()
        .any(|part| name.contains(part))
}

#[test]
fn every_tensor_that_is_missing_is_named() {
    let scratch = TemporaryFolder::new("missing");
    for name in SOME {
        let whole = folder(name);
        for tensor in whole.tensors.keys().filter(|t| !is_needless(t)) {
            let mut less = whole.clone();
            less.tensors.remove(tensor);
            let dir = less.write(&scratch.0);
            let error = refusal_text(&less, &dir);
            let stem = tensor.trim_end_matches("_scales").trim_end_matches("_blocks");
            // Fused and renamed ones are named by what they were to become, in the same layer.
            let layer = tensor.split('.').find(|p| p.bytes().all(|b| b.is_ascii_digit())).unwrap_or("");
            assert!(
                error.contains(stem) || !layer.is_empty() && error.contains(layer) && error.contains("expected"),
                "{name} without {tensor}: {error}"
            );
        }
    }
}

#[test]
fn shapes_that_do_not_fit_are_named() {
    let scratch = TemporaryFolder::new("shapes");
    for name in SOME {
        let whole = folder(name);
        for tensor in whole
            .tensors
            .keys()
            .filter(|t| !is_needless(t) && !t.contains("position_embeddings") && !t.contains("token_type"))
        {
            let mut other = whole.clone();
            let found = other.tensors.get_mut(tensor).unwrap();
            found.shape.insert(0, 1);
            let dir = other.write(&scratch.0);
            let error = refusal_text(&other, &dir);
            assert!(error.contains("expected"), "{name} with another {tensor}: {error}");
        }
    }
}

#[test]
fn files_that_are_cut_short_are_refused_and_named() {
    let scratch = TemporaryFolder::new("short");
    let whole = folder("seeded-mistral-24b-instruct-2501");
    let dir = whole.write(&scratch.0);
    let names: Vec<PathBuf> = std::fs::read_dir(&dir).unwrap().map(|e| e.unwrap().path()).collect();
    for path in names {
        let bytes = std::fs::read(&path).unwrap();
        for len in [0, 1, 7, 8, 9, bytes.len() / 2, bytes.len() - 1] {
            std::fs::write(&path, &bytes[..len]).unwrap();
            if path.extension().is_some_and(|e| e == "safetensors" || e == "json") {
                let error = refusal_text(&whole, &dir);
                assert!(
                    error.contains(path.file_name().unwrap().to_str().unwrap()),
                    "{} of {len}: {error}",
                    path.display()
                );
            }
        }
        std::fs::remove_file(&path).unwrap();
        let error = refusal_text(&whole, &dir);
        let needed = !["chat_template.jinja", "tokenizer_config.json", "model.safetensors.index.json"]
            .iter()
            .any(|n| path.ends_with(n));
        assert!(!needed || !error.is_empty(), "without {}", path.display());
        std::fs::write(&path, &bytes).unwrap();
    }
    assert!(read(&whole, &dir).is_ok());
}

#[test]
fn headers_that_lie_are_refused() {
    let scratch = TemporaryFolder::new("headers");
    let whole = folder("Tiny-Llama-7B-chat-v0.2");
    let dir = whole.write(&scratch.0);
    let path = dir.join("model.safetensors");
    let header = |text: &str, data: usize| {
        let mut bytes = (text.len() as u64).to_le_bytes().to_vec();
        bytes.extend(text.as_bytes());
        bytes.resize(bytes.len() + data, 0);
        std::fs::write(&path, bytes).unwrap();
    };
    let rows = [
        r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}}"#,
        r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,800]}}"#,
        r#"{"a":{"dtype":"F32","shape":[4],"data_offsets":[0,8]}}"#,
        r#"{"a":{"dtype":"F32","shape":[18446744073709551615,4],"data_offsets":[0,8]}}"#,
        r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}}"#,
        r#"{"a":{"dtype":"F99","shape":[2],"data_offsets":[0,8]}}"#,
        r#"[]"#,
        "{",
    ];
    for text in rows {
        header(text, 12);
        let error = refusal_text(&whole, &dir);
        assert!(error.contains("model.safetensors"), "{text}: {error}");
    }
    let mut bytes = u64::MAX.to_le_bytes().to_vec();
    bytes.extend([0; 64]);
    std::fs::write(&path, bytes).unwrap();
    assert!(refusal_text(&whole, &dir).contains("model.safetensors"));
}

#[test]
fn what_is_not_known_is_said() {
    let scratch = TemporaryFolder::new("unknown");
    let rows = [
        ("LlamaForCausalLM", "MambaForCausalLM", "MambaForCausalLM is not known; known are LlamaForCausalLM"),
        ("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 99999999", "num_hidden_layers"),
        ("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 1", "model.layers.1."),
        ("\"num_attention_heads\": 4", "\"num_attention_heads\": 0", "expected rows of 0 heads"),
        ("\"num_attention_heads\": 4", "\"num_attention_heads\": 3", "expected"),
        ("\"vocab_size\": 272", "\"vocab_size\": 4000000000", "token_embd.weight"),
        ("\"rms_norm_eps\": 0.00001", "\"rms_norm_eps\": \"small\"", "rms_norm_eps"),
        ("\"hidden_size\": 64", "\"quantization_config\": {\"quant_method\": \"fp8\"}, \"hidden_size\": 64", "fp8"),
    ];
    for (from, to, expected) in rows {
        let mut other = folder("Tiny-Llama-7B-chat-v0.2");
        let config = String::from_utf8(other.files["config.json"].clone()).unwrap();
        let changed = config.replace(from, to);
        assert_ne!(changed, config, "{from}");
        other.text("config.json", &changed);
        let error = refusal_text(&other, &other.write(&scratch.0));
        assert!(error.contains(expected), "{to}: {error}");
    }
    // A vocabulary of nobody's needs to be told.
    let mut own = folder("Qwen2.5-0.5B-Instruct");
    own.pre = None;
    assert!(refusal_text(&own, &own.write(&scratch.0)).contains("--pre"));
    let mut adapter = folder("qwen-adapter");
    adapter.base = None;
    assert!(refusal_text(&adapter, &adapter.write(&scratch.0)).contains("--base"));
    assert!(refusal_text(&adapter, &scratch.0.join("nowhere")).contains("expected a folder"));
}

#[test]
fn a_sink_and_a_caller_can_stop_it() {
    let scratch = TemporaryFolder::new("stop");
    let whole = folder("Tiny-Llama-7B-chat-v0.2");
    let conversion = read(&whole, &whole.write(&scratch.0)).unwrap();
    let stopped = conversion.write(&mut |_| Ok(()), &mut |_| false);
    assert!(matches!(stopped, Err(Error::Stopped)));
    let full = conversion.write(&mut |_| Err("no room".into()), &mut |_| true);
    assert_eq!(full.unwrap_err().to_string(), "no room");
}
