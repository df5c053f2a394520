//! Every flag of every command does something that a test sees, or says that it has no effect.

mod reach;

use crate::cli::{pumex, stderr, stdout};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

const DEMO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/demo.gguf");

/// Flags of which no test but their values' parsing can see an effect so far. None is added: a new flag gets a test.
const UNSEEN: &[&str] = &[
    // What a fetched model, a page of another origin or a loaded server would show.
    "--hf-token",
    "--completions",
    "--goal-between-tokens",
    "--goal-first-token",
    "--goal-request",
    "--heed-eos",
    "--input-length",
    "--input-spread",
    "--output-length",
    "--rate",
    "--requests",
    "--shared-length",
    "--timeout",
    "--url",
    "--users",
    "--allowed-hosts",
    "--cors-origins",
    "--gpu-layers-draft",
    "--kv-unified",
    "--lora-init-without-apply",
    "--models-max",
    "--no-models-autoload",
    "--no-slots",
    "--no-ui",
    "--prompt-rows",
    "--share-prefixes",
    "--sleep-idle-seconds",
    "--spec-draft-n-max",
    "--spec-draft-n-min",
    "--spec-type",
    "--tags",
    "--threads-http",
    // What takes seconds on a device.
    "--measure",
    "--self-test",
    "--blind",
    "--shapes-only",
    "--draw",
    // Files of adapters and quantized sets; the library's tests have what they do.
    "--control-vector",
    "--control-vector-layer-range",
    "--control-vector-scaled",
    "--lora-scaled",
    "--allow-nonfinite",
    "--exclude-weights",
    "--include-weights",
    "--keep-split",
    "--leave-output-tensor",
    "--split-max-tensors",
    "--reasoning-effort",
    "--system-prompt-file",
    "--no-parse-special",
    // States to go back to in a conversation, which change times alone.
    "--ctx-checkpoints",
];

/// All flags, as the program lists them.
fn flags() -> Vec<Value> {
    let listed = pumex(&["flags", "--json"]);
    assert!(listed.status.success(), "{}", stderr(&listed));
    serde_json::from_str(stdout(&listed)).unwrap()
}

fn text<'a>(flag: &'a Value, key: &str) -> &'a str {
    flag[key].as_str().unwrap_or_default()
}

/// What stands in a string of a test: all sources of tests, without the list of this file that says what they lack.
fn tests() -> String {
    fn walk(folder: &Path, found: &mut String) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let is_source = path.extension().is_some_and(|e| ["rs", "py", "sh", "mjs"].iter().any(|known| e == *known));
            if path.is_dir() {
                walk(&path, found);
            } else if is_source {
                let text = std::fs::read_to_string(&path).unwrap();
                found.push_str(if path.ends_with("tests/flags.rs") {
                    text.split_once("/// All flags, as the program").unwrap().1
                } else {
                    &text
                });
            }
        }
    }
    let mut found = String::new();
    for folder in ["tests", "serve/tests", "hub/tests"] {
        walk(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder), &mut found);
    }
    found
}

#[test]
fn every_flag_is_seen_by_a_test_or_has_no_effect_and_says_so() {
    let (flags, tests) = (flags(), tests());
    assert!(flags.len() > 300, "{}", flags.len());
    let is_given = |name: &str| {
        let ends = ['"', ' ', '=', '\\', '\''];
        tests.match_indices(name).any(|(at, _)| {
            let after = tests[at + name.len()..].chars().next();
            tests[..at].ends_with(['"', ' ', '\'']) && after.is_some_and(|c| ends.contains(&c))
        })
    };
    let (mut missing, mut known) = (BTreeSet::new(), BTreeSet::new());
    for flag in &flags {
        let names = flag["names"].as_array().unwrap().iter().filter_map(Value::as_str);
        let seen = names.chain([text(flag, "flag")]).any(is_given);
        if UNSEEN.contains(&text(flag, "flag")) {
            known.insert(text(flag, "flag"));
        } else if !seen && flag["no_effect"].is_null() {
            missing.insert(format!("{} {}", text(flag, "command"), text(flag, "flag")));
        }
    }
    assert!(missing.is_empty(), "no test gives these flags: {missing:?}");
    let gone: Vec<_> = UNSEEN.iter().filter(|flag| !known.contains(*flag)).collect();
    assert!(gone.is_empty(), "no command has these flags: {gone:?}");
}

/// A value that a flag takes.
fn value(flag: &str) -> &'static str {
    match flag {
        "--flash-attn" => "off",
        "--activations" => "q16",
        "--cpu-mask" => "1",
        "--numa" => "isolate",
        "--override-tensor" => "blk=CPU",
        _ => "1",
    }
}

#[test]
fn flags_without_an_effect_say_so_in_one_line_each() {
    let mut by_command: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for flag in flags().into_iter().filter(|flag| flag["no_effect"].is_string()) {
        by_command.entry(text(&flag, "command").into()).or_default().push(flag);
    }
    assert!(by_command.len() >= 9, "{:?}", by_command.keys());
    for (command, flags) in by_command {
        let given = |flag: &Value| match (text(flag, "flag"), flag["takes_value"] == true) {
            (name, true) => format!("{name}={}", value(name)),
            (name, false) => name.to_string(),
        };
        for flag in &flags {
            let given = given(flag);
            let mut args = vec![command.as_str(), &given, "--model=absent.gguf"];
            if command == "logits" {
                args.extend(["--tokens=1", "--out=absent/file"]);
            }
            if command == "tune" {
                args.push("--device=absent");
            }
            let said = pumex(&args);
            assert!(!said.status.success(), "{command} {given}: there is no such model");
            let line = format!("{} has no effect here: {}", given.replace("=off", " off"), text(flag, "no_effect"));
            let line = if flag["only"].is_null() { line.replace(&given, text(flag, "flag")) } else { line };
            let lines: Vec<&str> = stderr(&said).lines().filter(|l| l.contains("no effect")).collect();
            assert_eq!(lines, [format!("note: {line}")], "{command} {given}");
        }
    }
    // Beside what gives it an effect, and with another value, a flag says nothing.
    for args in [
        &["run", "-fa", "on", "-m", "absent.gguf"][..],
        &["explain", "--fit", "-ub", "64", "-m", "absent.gguf"],
        &["bench", "--no-warmup", "-m", "absent.gguf"],
        &["run", "--no-mmap", "-m", "absent.gguf"],
    ] {
        let said = pumex(args);
        assert_eq!(stderr(&said).lines().count(), 1, "{args:?}: {}", stderr(&said));
    }
}

/// A folder of a test's own.
fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("pumex-flags-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// A line of the log, of what was made of flags.
fn log_line<'a>(log: &'a str, what: &str) -> &'a str {
    log.lines().find(|line| line.contains(what)).unwrap_or_else(|| panic!("no {what} in {log}"))
}

/// Flags that change what a command prints, or its error.
#[test]
fn other_flags_change_what_comes_out() {
    let folder = folder("other");
    let path = |name: &str, text: &str| {
        std::fs::write(folder.join(name), text).unwrap();
        folder.join(name).to_str().unwrap().to_string()
    };
    let (grammar, schema) = (path("g.gbnf", "root ::= \"xyz\""), path("s.json", r#"{"type": "boolean"}"#));
    let run: &[&str] = &["run", "--device", "cpu", "-m", DEMO, "-n", "8", "--temp", "0", "-p", "a\\n"];
    let quantize: &[&str] = &["quantize", "--allow-requantize", "--dry-run", DEMO, "Q4_K_M"];
    let explain: &[&str] = &["explain", "--profile", "h200", "-m", DEMO];
    let tokenize: &[&str] = &["tokenize", "-m", DEMO, "-p", "a b"];
    for (base, flags) in [
        (run, &["--grammar-file", &grammar][..]),
        (run, &["--json-schema-file", &schema]),
        (run, &["--no-escape"]),
        (run, &["--no-display-prompt"]),
        (run, &["--samplers", "x"]),
        (run, &["--sampler-seq", "1"]),
        (quantize, &["--pure"]),
        (quantize, &["--output-tensor-type", "F16"]),
        (quantize, &["--token-embedding-type", "F16"]),
        (explain, &["--no-subgroups"]),
        (explain, &["--no-halves"]),
        (explain, &["--without-kernels", "gemv_dot"]),
        (explain, &["--fit"]),
        (tokenize, &["--show-count"]),
    ] {
        let (usual, changed) = (pumex(base), pumex(&[base, flags].concat()));
        assert_ne!((stdout(&usual), usual.status), (stdout(&changed), changed.status), "{base:?} {flags:?}")
    }
    // Texts that end a repetition are for a penalty that is on.
    let sampler = |more: &[&str]| {
        let out = pumex(&[run, &["-vv", "--dry-multiplier", "3"], more].concat());
        log_line(stderr(&out), "sampling: Sampler").split_once("sampling: ").unwrap().1.to_string()
    };
    assert_ne!(sampler(&[]), sampler(&["--dry-sequence-breaker", "e"]));
    // A text has one source.
    assert_eq!(pumex(&[tokenize, &["--stdin"]].concat()).status.code(), Some(2));
    std::fs::remove_dir_all(folder).unwrap();
}

/// Facts in place of a file's change what its model computes.
#[test]
fn facts_of_files_can_be_said_otherwise() {
    let folder = folder("facts");
    let ids: Vec<String> = (1..24).map(|id| (id * 7).to_string()).collect();
    let logits = |flags: &[&str]| {
        let out = folder.join("logits").to_str().unwrap().to_string();
        let ids = format!("--tokens={}", ids.join(","));
        let said = pumex(&[&["logits", "--device", "cpu", "-m", DEMO, &ids, "--out", &out], flags].concat());
        assert!(said.status.success(), "{flags:?}: {}", stderr(&said));
        std::fs::read(&out).unwrap()
    };
    let usual = logits(&[]);
    let yarn = ["--rope-scaling", "yarn", "--rope-scale", "4"];
    let stretched = logits(&yarn);
    assert_ne!(usual, stretched);
    for flags in [
        &["--rope-freq-base", "20000"][..],
        &["--rope-freq-scale", "0.5"],
        &["--rope-scaling", "linear", "--rope-scale", "4"],
    ] {
        assert!(![&usual, &stretched].contains(&&logits(flags)), "{flags:?}");
    }
    for flags in [
        ["--yarn-orig-ctx", "8"],
        ["--yarn-ext-factor", "0"],
        ["--yarn-attn-factor", "2"],
        ["--yarn-beta-slow", "4"],
        ["--yarn-beta-fast", "8"],
    ] {
        assert_ne!(logits(&[&yarn[..], &flags].concat()), stretched, "{flags:?}");
    }
    assert_eq!(logits(&["--rope-freq-scale", "0.25", "--rope-scaling", "linear"]), logits(&["--rope-scale", "4"]));
    let tokenize =
        |more: &[&str]| stdout(&pumex(&[&["tokenize", "-m", DEMO, "-p", "a", "--ids"], more].concat())).to_string();
    let off = tokenize(&["--override-kv", "tokenizer.ggml.add_bos_token=bool:false"]);
    assert_ne!(off, tokenize(&["--override-kv", "tokenizer.ggml.add_bos_token=bool:true"]));
    for wrong in ["x", "a=b", "a=int:x", "a=list:1"] {
        assert_eq!(
            pumex(&["tokenize", "-m", DEMO, "-p", "a", "--override-kv", wrong]).status.code(),
            Some(2),
            "{wrong}"
        );
    }
    std::fs::remove_dir_all(folder).unwrap();
}

/// What is wrong with a server's flags is told before it serves.
#[test]
fn a_server_says_which_flag_it_cannot_serve_with() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let serve = |more: &[&str]| {
        let out = pumex(&[&["serve", "--device", "cpu", "-m", DEMO, "--port", &port], more].concat());
        assert!(!out.status.success(), "{more:?}");
        stderr(&out).to_string()
    };
    let usual = serve(&[]);
    assert!(!usual.contains("absent") && !usual.contains("--insecure"), "{usual}");
    for flags in [
        &["--api-key-file", "absent"][..],
        &["--ssl-cert-file", "absent", "--ssl-key-file", "absent"],
        &["--slot-save-path", "absent"],
        &["--media-path", "absent"],
        &["--model-draft", "absent.gguf"],
        &["--grammar-file", "absent"],
        &["--api-prefix", "absent"],
        &["--reasoning-format", "absent"],
        &["--embd-normalize", "absent"],
    ] {
        let said = serve(flags);
        assert!(said.contains("absent"), "{flags:?}: {said}");
    }
    assert!(serve(&["--host", "0.0.0.0"]).contains("--insecure"));
    assert!(!serve(&["--host", "127.0.0.1", "--insecure"]).contains("--insecure"));
    let models = pumex(&["serve", "--models-dir", "absent"]);
    assert!(stderr(&models).contains("absent"), "{}", stderr(&models));
}

#[test]
fn files_are_mapped_read_and_locked_as_flags_say() {
    let opened = |flags: &[&str]| stderr(&pumex(&[&["inspect", "-vv", "-m", DEMO], flags].concat())).to_string();
    let bytes = std::fs::metadata(DEMO).unwrap().len();
    for (flags, how) in [
        (&[][..], "mapped"),
        (&["--no-mmap"], "read"),
        (&["--mmap", "--no-mmap"], "read"),
        (&["--no-mmap", "--mmap"], "mapped"),
    ] {
        let said = opened(flags);
        assert!(said.contains(&format!("{DEMO}: {bytes} bytes {how}")), "{flags:?}: {said}");
    }
    // Locked, or a line says what the system allows.
    let said = opened(&["--mlock"]);
    let refused = format!("{DEMO}: --mlock: {bytes} bytes are not locked");
    assert!(said.contains(&format!("{DEMO}: {bytes} bytes locked")) || said.contains(&refused), "{said}");
    let usual = opened(&[]);
    assert!(!usual.contains("locked"), "{usual}");
}

/// A file that was read is the model's, whatever is written over it then.
#[test]
fn a_file_that_was_read_may_change_and_go() {
    use pumex::gguf::{FileAccess, Gguf};
    let folder = folder("read");
    let path = folder.join("model.gguf");
    std::fs::copy(DEMO, &path).unwrap();
    let read = Gguf::open_with(&path, FileAccess { read: true, lock: false }).unwrap();
    let truth = Gguf::open(Path::new(DEMO)).unwrap();
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(64).unwrap();
    std::fs::remove_dir_all(folder).unwrap();
    for (read_tensor, tensor) in read.tensors().iter().zip(truth.tensors()) {
        assert!(read.data(read_tensor) == truth.data(tensor), "{}", tensor.name);
    }
}

#[test]
fn bench_tells_the_flags_it_was_given() {
    let base = ["bench", "--device", "cpu", "-m", DEMO, "-p", "1", "-n", "0", "-r", "1", "-o", "json"];
    let told = |flags: &[&str]| {
        let out = pumex(&[&base[..], flags].concat());
        assert!(out.status.success(), "{}", stderr(&out));
        serde_json::from_str::<Value>(stdout(&out)).unwrap()[0].clone()
    };
    let usual = told(&[]);
    let flags = ["-ncmoe", "2", "-C", "0x3", "-ot", "blk.0=CPU,blk.1=GPU", "-fa", "off", "-nr", "-ctk", "q8_0"];
    let more = ["--cpu-strict", "1", "--poll", "50", "--no-mmap", "-b", "64", "-ub", "32", "-t", "1", "--no-warmup"];
    let given = told(&[&flags[..], &more].concat());
    for (field, default, value) in [
        ("n_cpu_moe", Value::from(0), Value::from(2)),
        ("cpu_mask", "0x0".into(), "0x3".into()),
        ("tensor_buft_overrides", "none".into(), "blk.0=CPU;blk.1=GPU".into()),
        ("flash_attn", true.into(), false.into()),
        ("cpu_strict", false.into(), true.into()),
        ("poll", 0.into(), 50.into()),
        ("repack", true.into(), false.into()),
        ("load_mode", "mmap".into(), "none".into()),
        ("n_batch", 2048.into(), 64.into()),
        ("n_ubatch", 512.into(), 32.into()),
        ("type_k", "f16".into(), "q8_0".into()),
        ("type_v", "f16".into(), "f16".into()),
    ] {
        assert_eq!((&usual[field], &given[field]), (&default, &value), "{field}");
    }
    assert_eq!(told(&["--cpu-moe"])["n_cpu_moe"], 6, "all layers of the demo model");
    assert_eq!(told(&["--activations", "q16"])["type_k"], "f32");
    // Of a checkout, the program is built of a commit.
    let commit = text(&usual, "build_commit");
    let in_checkout =
        Path::new(env!("CARGO_MANIFEST_DIR")).join(".git").exists() && std::env::var_os("PUMEX_COMMIT").is_none();
    let is_commit = commit.len() >= 7 && commit.bytes().all(|b| b.is_ascii_hexdigit());
    assert!(is_commit || !in_checkout, "{commit}");
}
