//! `pumex convert`: a Hugging Face folder becomes a model that runs, of any type, or there is an error that says what is wrong.

use crate::cli::{pumex, stderr, stdout};
use pumex::gguf::Gguf;
use std::path::{Path, PathBuf};

#[path = "../convert/tests/recipe/mod.rs"]
#[allow(dead_code)]
mod recipe;

/// A folder of its own, gone at the end.
struct TemporaryFolder(PathBuf);

impl TemporaryFolder {
    fn new(name: &str) -> TemporaryFolder {
        let path = std::env::temp_dir().join(format!("pumex-convert-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        TemporaryFolder(path)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_string_lossy().into_owned()
    }

    /// Writes the seeded folder of that name.
    fn write_seeded(&self, name: &str) -> String {
        let all = recipe::cases::all();
        let dir = all.iter().find(|folder| folder.name == name).unwrap().write(&self.0);
        dir.to_string_lossy().into_owned()
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn run_convert(args: &[&str]) -> (Option<i32>, String) {
    let out = pumex(args);
    (out.status.code(), format!("{}{}", stdout(&out), stderr(&out)))
}

fn well(args: &[&str]) -> String {
    let (code, text) = run_convert(args);
    assert_eq!(code, Some(0), "{args:?}: {text}");
    text
}

#[test]
fn a_folder_becomes_what_quantize_makes_of_its_f32_file_and_runs() {
    let scratch = TemporaryFolder::new("types");
    let dir = scratch.write_seeded("Tiny-Llama-7B-chat-v0.2");
    let [whole, quantized, own] = ["f32.gguf", "quantized.gguf", "own.gguf"].map(|name| scratch.path(name));
    well(&["convert", &dir, &whole, "F32"]);
    for kind in ["Q4_K_M", "IQ4_NL", "Q5_1"] {
        well(&["quantize", &whole, &quantized, kind]);
        let told = well(&["convert", &dir, &own, kind, "--json"]);
        assert!(told.contains("LlamaForCausalLM") && told.contains("bits_per_weight"), "{told}");
        let [a, b] = [&quantized, &own].map(|path| Gguf::open(Path::new(path)).unwrap());
        assert_eq!(a.tensors().len(), b.tensors().len());
        for tensor in a.tensors() {
            let same = b.tensor(&tensor.name).unwrap();
            assert_eq!((tensor.type_id, &tensor.dims), (same.type_id, &same.dims), "{kind}: {}", tensor.name);
            assert!(a.data(tensor) == b.data(same), "{kind}: {}", tensor.name);
        }
        let file_type = |gguf: &Gguf| gguf.meta().opt_u32("general.file_type").unwrap();
        assert_eq!(file_type(&a), file_type(&b), "{kind}");
    }
    let text = well(&["run", "-m", &own, "-p", "a", "-n", "2", "--temp", "0", "--device", "cpu", "-no-cnv"]);
    assert!(!text.is_empty());
}

#[test]
fn a_folder_runs_as_a_model_and_is_converted_once_as_long_as_it_stays_as_it_is() {
    let scratch = TemporaryFolder::new("model");
    let (dir, cache) = (scratch.write_seeded("Tiny-Llama-7B-chat-v0.2"), scratch.path("cache"));
    let run = || {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_pumex"));
        command.args(["run", &dir, "a", "-n", "2", "--temp", "0", "--device", "cpu", "-no-cnv"]);
        let out = command.env("XDG_CACHE_HOME", &cache).output().unwrap();
        assert!(out.status.success(), "{}", stderr(&out));
        (stdout(&out).to_string(), stderr(&out).contains("converting"))
    };
    let files = || std::fs::read_dir(scratch.0.join("cache/pumex/converted")).unwrap().count();
    let (text, converts) = run();
    assert!(!text.is_empty() && converts);
    assert_eq!((run(), files()), ((text.clone(), false), 1));
    std::fs::write(Path::new(&dir).join("chat_template.jinja"), "{{ messages[0].content }}").unwrap();
    assert_eq!((run(), files()), ((text, true), 1));
}

#[test]
fn a_conversion_that_cannot_be_says_what_it_needs() {
    let scratch = TemporaryFolder::new("errors");
    let (llama, qwen) =
        (scratch.write_seeded("Tiny-Llama-7B-chat-v0.2"), scratch.write_seeded("Qwen2.5-0.5B-Instruct"));
    let (adapter, out) = (scratch.write_seeded("qwen-adapter"), scratch.path("out.gguf"));
    let weights = format!("{llama}/model.safetensors");
    for (args, expected, words) in [
        (&["convert", &llama, &out, "Q4KM"][..], 2, "expected one of AUTO"),
        (&["convert", &adapter, &out], 1, "--base DIR"),
        (&["convert", &qwen, &out], 1, "--pre NAME"),
        (&["convert", &llama, &weights], 2, "model.safetensors"),
        (&["convert", "no-such-folder", &out], 1, "no-such-folder"),
    ] {
        let (code, text) = run_convert(args);
        assert!(code == Some(expected) && text.contains(words), "{args:?}: {code:?} {text}");
        assert!(!Path::new(&out).exists(), "{args:?}");
    }
    well(&["convert", &qwen, &out, "--pre", "qwen2"]);
    well(&["convert", &adapter, &scratch.path("adapter.gguf"), "--base", &qwen]);
}
