//! Malformed files: every one is answered with one clear error, and nothing panics, hangs or takes large memory.

use crate::util::{cpu_ms, demo_path};
use pumex::engine::{self, DeviceChoice, Options};
use pumex::gguf::{header, Gguf};
use pumex::text::Tokenizer;
use pumex::{Error, Result};
use std::path::Path;

/// All that loading does short of a device.
fn load(path: &Path) -> Result<usize> {
    let gguf = Gguf::open(path)?;
    let tokenizer = Tokenizer::from_gguf(&gguf)?;
    let options = Options { device: DeviceChoice::Cpu, ..Options::default() };
    engine::load(&gguf, &options, &mut |_, _| ())?;
    Ok(gguf.warnings().len() + tokenizer.warnings().len())
}

fn code(result: Result<usize>) -> String {
    match result {
        Ok(_) => "accepted".into(),
        Err(Error::File { code, .. }) => code.into(),
        Err(other) => other.to_string(),
    }
}

/// A change of the demo file's bytes, and the codes that answer it.
type Case = (&'static str, fn(&mut Vec<u8>), &'static [&'static str]);

fn put(at: usize, bytes: &[u8]) -> impl Fn(&mut Vec<u8>) + '_ {
    move |file| file[at..at + bytes.len()].copy_from_slice(bytes)
}

/// First byte after the first occurrence of `text`.
fn position_after(file: &[u8], text: &str) -> usize {
    file.windows(text.len()).position(|w| w == text.as_bytes()).unwrap() + text.len()
}

/// Sets the 4 bytes of a scalar whose key is `key`.
fn scalar(file: &mut [u8], key: &str, bytes: [u8; 4]) {
    let at = position_after(file, key) + 4;
    file[at..at + 4].copy_from_slice(&bytes);
}

const CASES: &[Case] = &[
    ("empty", |f| f.clear(), &["not_gguf"]),
    ("magic", |f| f[0] = b'X', &["not_gguf"]),
    ("LFS pointer", |f| *f = b"version https://git-lfs.github.com/spec/v1\n".to_vec(), &["not_gguf"]),
    ("version 1", |f| put(4, &[1, 0, 0, 0])(f), &["bad_version"]),
    ("big-endian", |f| put(4, &[0, 0, 0, 3])(f), &["big_endian"]),
    ("tensor count of 2^64 - 1", |f| put(8, &[255; 8])(f), &["count_exceeds_file"]),
    ("key count of 2^64 - 1", |f| put(16, &[255; 8])(f), &["count_exceeds_file"]),
    ("key length of 2^64 - 1", |f| put(24, &[255; 8])(f), &["length_exceeds_file"]),
    ("header alone", |f| f.truncate(24), &["truncated_metadata", "count_exceeds_file"]),
    ("cut in the metadata", |f| f.truncate(200), &["truncated_metadata", "length_exceeds_file", "count_exceeds_file"]),
    ("cut in the tensor data", |f| f.truncate(3_000_000), &["truncated_data", "offset_out_of_file"]),
    ("last byte missing", |f| f.truncate(f.len() - 1), &["truncated_data", "accepted"]),
    (
        "unknown value type",
        |f| {
            let at = position_after(f, "llama.block_count");
            put(at, &[13, 0, 0, 0])(f)
        },
        &["bad_value_type"],
    ),
    ("no layers", |f| scalar(f, "llama.block_count", [0; 4]), &["bad_hparam"]),
    ("a layer too many", |f| scalar(f, "llama.block_count", [7, 0, 0, 0]), &["missing_tensor"]),
    ("a layer too few", |f| scalar(f, "llama.block_count", [5, 0, 0, 0]), &["unknown_tensor"]),
    ("no heads", |f| scalar(f, "llama.attention.head_count", [0; 4]), &["bad_hparam"]),
    ("kv heads that do not divide", |f| scalar(f, "llama.attention.head_count_kv", [3, 0, 0, 0]), &["bad_hparam"]),
    ("negative epsilon", |f| scalar(f, "layer_norm_rms_epsilon", (-1f32).to_le_bytes()), &["bad_hparam"]),
    ("NaN epsilon", |f| scalar(f, "layer_norm_rms_epsilon", f32::NAN.to_le_bytes()), &["bad_hparam"]),
    ("odd rope dimensions", |f| scalar(f, "llama.rope.dimension_count", [33, 0, 0, 0]), &["bad_hparam"]),
    ("wrong width", |f| scalar(f, "llama.embedding_length", [0, 2, 0, 0]), &["wrong_shape"]),
    (
        "unknown architecture",
        |f| {
            let at = position_after(f, "general.architecture") + 12;
            put(at, b"llbma")(f)
        },
        &["unknown_arch"],
    ),
    (
        "removed tensor type",
        |f| {
            let at = position_after(f, "blk.0.attn_q.weight") + 20;
            put(at, &[4, 0, 0, 0])(f)
        },
        &["removed_tensor_type"],
    ),
    (
        "intermediate tensor type",
        |f| {
            let at = position_after(f, "blk.0.attn_q.weight") + 20;
            put(at, &[15, 0, 0, 0])(f)
        },
        &["type_not_storable"],
    ),
    (
        "tensor type that is no weight's",
        |f| {
            let at = position_after(f, "blk.0.attn_norm.weight") + 12;
            put(at, &[26, 0, 0, 0])(f)
        },
        &["type_not_allowed_for_role"],
    ),
    (
        "five dimensions",
        |f| {
            let at = position_after(f, "blk.0.attn_q.weight");
            put(at, &[5, 0, 0, 0])(f)
        },
        &["bad_n_dims"],
    ),
    (
        "a dimension of 0",
        |f| {
            let at = position_after(f, "blk.0.attn_q.weight") + 4;
            put(at, &[0; 8])(f)
        },
        &["zero_dim"],
    ),
    (
        "a dimension of 2^64 - 1",
        |f| {
            let at = position_after(f, "blk.0.attn_q.weight") + 4;
            put(at, &[255; 8])(f)
        },
        &["dim_overflow"],
    ),
    (
        "misaligned offset",
        |f| {
            let at = position_after(f, "blk.0.attn_q.weight") + 24;
            f[at] = 1
        },
        &["offset_misaligned"],
    ),
    (
        "offset of 2^64 - 1",
        |f| {
            let at = position_after(f, "blk.0.attn_q.weight") + 24;
            put(at, &[255; 8])(f)
        },
        &["offset_out_of_file"],
    ),
];

fn check(name: &str, path: &Path, expected: &[&str]) {
    let before = cpu_ms();
    let found = code(load(path));
    let ms = cpu_ms() - before;
    assert!(expected.contains(&found.as_str()), "{name}: expected {expected:?}, found {found}");
    assert!(ms < 1000, "{name} took {ms} ms");
}

#[test]
fn each_fault_of_a_file_is_named() {
    let good = std::fs::read(demo_path()).unwrap();
    let folder = std::env::temp_dir().join(format!("pumex-bad-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    for (name, edit, expected) in CASES {
        let mut file = good.clone();
        edit(&mut file);
        let path = folder.join("case.gguf");
        std::fs::write(&path, file).unwrap();
        check(name, &path, expected);
    }
    check("a folder", &folder, &["not_gguf"]);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn no_change_of_a_few_bytes_makes_the_header_parser_panic() {
    let good = std::fs::read(demo_path()).unwrap()[..120_000].to_vec();
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for _ in 0..300 {
        let mut file = good.clone();
        for _ in 0..=random() % 4 {
            let at = if random() % 2 == 0 { random() % 1200 } else { random() % file.len() as u64 } as usize;
            file[at] = [0, 1, 127, 128, 255, random() as u8][random() as usize % 6];
        }
        if random() % 8 == 0 {
            file.truncate(random() as usize % good.len());
        }
        let _ = header::parse(&file, Path::new("random"));
    }
}

/// The whole corpus, where its generator is there.
#[test]
fn every_file_of_the_corpus_is_answered_as_its_manifest_says() {
    let Some(shared) = crate::util::shared_folder() else { return };
    let folder = std::env::temp_dir().join(format!("pumex-corpus-{}", std::process::id()));
    let made =
        std::process::Command::new("python3").arg(shared.join("reference/bad_gguf/gen.py")).arg(&folder).output();
    if !made.is_ok_and(|o| o.status.success()) {
        eprintln!("skipped: no python3 to make the corpus");
        return;
    }
    let manifest: serde_json::Value =
        serde_json::from_slice(&std::fs::read(folder.join("manifest.json")).unwrap()).unwrap();
    let mut wrong = Vec::new();
    for entry in manifest["files"].as_array().unwrap() {
        if entry.get("part_of").is_some() {
            continue;
        }
        let file = entry["file"].as_str().unwrap();
        let before = cpu_ms();
        let result = load(&folder.join(file));
        let ms = cpu_ms() - before;
        let text = result.as_ref().err().map(ToString::to_string).unwrap_or_default();
        let ok = match entry["verdict"].as_str().unwrap() {
            "must_reject" => result.is_err() && !text.contains('\n'),
            _ if entry["valid"] == true => result.is_ok(),
            _ => true,
        };
        println!("{file}: {}", if text.is_empty() { "accepted" } else { &text });
        if !ok || ms > 1000 {
            wrong.push(format!("{file} ({}): {text} in {ms} ms", entry["wrong"]));
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Kernels keep a row's experts in shared memory.
#[test]
fn counts_of_experts_that_no_device_could_hold_are_refused_by_name() {
    let file = std::fs::read(crate::util::fixture("qwen3moe").with_extension("gguf")).unwrap();
    for (key, value, says) in [
        ("qwen3moe.expert_count", 2049, "0 to 2048"),
        ("qwen3moe.expert_used_count", 65, "0 to 64"),
        ("qwen3moe.expert_used_count", 64, "at most expert_count"),
        ("qwen3moe.expert_used_count", 0, "1 to expert_count"),
    ] {
        let mut changed = file.clone();
        scalar(&mut changed, key, u32::to_le_bytes(value));
        let path = std::env::temp_dir().join(format!("pumex-experts-{}.gguf", std::process::id()));
        std::fs::write(&path, changed).unwrap();
        let error = pumex::model::plan(&Gguf::open(&path).unwrap()).unwrap_err().to_string();
        std::fs::remove_file(&path).unwrap();
        assert!(error.contains(key) && error.contains(says) && error.contains(&value.to_string()), "{error}");
    }
}
