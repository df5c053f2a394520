//! Outputs of every command: an input under any name is refused as one before anything is written, and what is no file stays there.

use std::collections::BTreeSet;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::cli::{pumex, stderr, stdout};
use crate::{full_disk, util};

/// A command that writes: its name, how it is given with OUT in the output's place, the flag that names it (none: its place does),
/// its inputs, and whether it is run to its end.
struct WritingCommand(&'static str, &'static str, Option<&'static str>, &'static [&'static str], bool);

const WRITERS: &[WritingCommand] = &[
    WritingCommand(
        "run",
        "-m m.gguf -f text -no-cnv --device cpu -n 1 --prompt-cache OUT",
        Some("--prompt-cache"),
        &["m.gguf", "text"],
        false,
    ),
    #[cfg(feature = "serve")]
    WritingCommand(
        "serve",
        "-m m.gguf --lora lora --api-key-file text --log-steps OUT",
        Some("--log-steps"),
        &["m.gguf", "lora", "text"],
        false,
    ),
    #[cfg(feature = "serve")]
    WritingCommand("bench-serve", "--prompts text --picture OUT", Some("--picture"), &["text"], false),
    WritingCommand("embed", "-m m.gguf --device cpu -f text --out OUT", Some("--out"), &["m.gguf", "text"], true),
    WritingCommand(
        "logits",
        "-m m.gguf --lora lora --device cpu -f text --out OUT",
        Some("--out"),
        &["m.gguf", "lora", "text"],
        true,
    ),
    WritingCommand(
        "perplexity",
        "-m m.gguf --lora-scaled lora:0.5 --device cpu -f text -c 32 --chunks 1 --kl-divergence-base OUT",
        Some("--kl-divergence-base"),
        &["m.gguf", "lora", "text"],
        true,
    ),
    WritingCommand(
        "profile",
        "-m m.gguf --lora lora --device cpu -r 1 --html OUT",
        Some("--html"),
        &["m.gguf", "lora"],
        true,
    ),
    WritingCommand(
        "imatrix",
        "-m m.gguf --device cpu -f text -c 32 --chunks 1 -o OUT",
        Some("--out"),
        &["m.gguf", "text"],
        true,
    ),
    WritingCommand("quantize", "m.gguf OUT Q8_0 --allow-requantize", None, &["m.gguf"], true),
    WritingCommand(
        "quantize",
        "--allow-requantize --imatrix im --tensor-type-file types m.gguf OUT Q8_0",
        None,
        &["m.gguf", "im", "types"],
        false,
    ),
    WritingCommand(
        "quantize",
        "set-00001-of-00002.gguf OUT COPY",
        None,
        &["set-00001-of-00002.gguf", "set-00002-of-00002.gguf"],
        true,
    ),
    WritingCommand("split", "m.gguf OUT --split-max-tensors 9999", None, &["m.gguf"], true),
    WritingCommand(
        "merge",
        "set-00001-of-00002.gguf OUT",
        None,
        &["set-00001-of-00002.gguf", "set-00002-of-00002.gguf"],
        true,
    ),
    WritingCommand("merge-lora", "-m m.gguf --lora lora OUT", None, &["m.gguf", "lora"], true),
];

/// Outputs that are folders.
const FOLDERS: [(&str, &str); 2] = [("serve", "--slot-save-path"), ("man", "--out")];

fn run(folder: &Path, command: &str, line: &str, out: &str) -> Output {
    let mut started = Command::new(env!("CARGO_BIN_EXE_pumex"));
    started.arg(command).args(line.split(' ').map(|word| if word == "OUT" { out } else { word }));
    started.current_dir(folder).stdin(Stdio::null()).env_remove("RUST_LOG").output().unwrap()
}

/// A folder with an input of every kind.
fn inputs(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("pumex-outputs-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let demo = util::demo_path();
    std::fs::copy(&demo, folder.join("m.gguf")).unwrap();
    std::fs::write(folder.join("lora"), full_disk::adapter(&demo)).unwrap();
    std::fs::write(folder.join("text"), "And it came to pass that the people of the land ".repeat(8)).unwrap();
    std::fs::write(folder.join("types"), "ffn_up=q4_0").unwrap();
    let made = run(&folder, "imatrix", "-m m.gguf --device cpu -f text -c 32 --chunks 1 -o OUT", "im");
    assert!(made.status.success(), "{}", stderr(&made));
    let made = run(&folder, "split", "m.gguf OUT --split-max-tensors 28", "set");
    assert!(made.status.success(), "{}", stderr(&made));
    folder
}

fn names(folder: &Path) -> BTreeSet<String> {
    std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn every_flag_that_names_an_output_is_tried() {
    let listed = pumex(&["flags", "--json"]);
    let flags: Vec<Value> = serde_json::from_str(stdout(&listed)).unwrap();
    for flag in flags.iter().filter(|flag| flag["writes"] == true) {
        let of = (flag["command"].as_str().unwrap(), flag["flag"].as_str().unwrap());
        let tried = WRITERS.iter().any(|WritingCommand(command, _, name, ..)| (*command, *name) == (of.0, Some(of.1)));
        assert!(tried || FOLDERS.contains(&of), "{of:?}: expected a row of WRITERS");
    }
}

#[test]
fn an_input_under_any_name_is_no_output() {
    let folder = inputs("same");
    let there = names(&folder);
    for WritingCommand(command, line, _, victims, _) in WRITERS {
        for victim in *victims {
            let before = std::fs::read(folder.join(victim)).unwrap();
            std::fs::hard_link(folder.join(victim), folder.join("hard")).unwrap();
            symlink(victim, folder.join("soft")).unwrap();
            for out in [victim, format!("./{victim}").as_str(), "hard", "soft"] {
                let refused = run(&folder, command, line, out);
                let told = stderr(&refused);
                assert_eq!(refused.status.code(), Some(2), "{command} onto {out} ({victim}): {told}");
                assert!(told.contains("expected an output other than the inputs"), "{command} onto {out}: {told}");
                assert!(std::fs::read(folder.join(victim)).unwrap() == before, "{command} onto {out}");
            }
            assert!(folder.join("soft").is_symlink());
            std::fs::remove_file(folder.join("soft")).unwrap();
            std::fs::remove_file(folder.join("hard")).unwrap();
            assert_eq!(names(&folder), there, "{command} onto {victim}");
        }
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn what_stdin_comes_from_is_an_input() {
    let folder = inputs("stdin");
    let before = std::fs::read(folder.join("text")).unwrap();
    let mut started = Command::new(env!("CARGO_BIN_EXE_pumex"));
    started.args(["logits", "-m", "m.gguf", "--device", "cpu", "--out", "text"]).current_dir(&folder);
    let refused = started.stdin(std::fs::File::open(folder.join("text")).unwrap()).output().unwrap();
    assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
    assert!(std::fs::read(folder.join("text")).unwrap() == before);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn devices_stay_and_files_are_there_whole_or_as_they_were() {
    let folder = inputs("device");
    symlink("/dev/null", folder.join("null")).unwrap();
    let there = names(&folder);
    for WritingCommand(command, line, _, _, ends) in WRITERS.iter().filter(|writer| writer.4 || writer.0 == "run") {
        let done = run(&folder, command, line, "null");
        // A sequence is read again, so that its file is no device.
        assert_eq!(done.status.success(), *ends, "{command}: {}", stderr(&done));
        assert!(folder.join("null").is_symlink() && !Path::new("/dev/null").is_file(), "{command}");
        assert_eq!(names(&folder), there, "{command}");
        let nowhere = run(&folder, command, line, "no/folder/out");
        assert!(!nowhere.status.success() && stderr(&nowhere).contains("no/folder/out"), "{command}");
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_saved_sequence_takes_no_other_files_place() {
    let folder = inputs("sequence");
    std::fs::write(folder.join("other"), "notes").unwrap();
    let line = "-m m.gguf -f text -no-cnv --device cpu -n 1 --prompt-cache OUT";
    let refused = run(&folder, "run", line, "other");
    assert!(!refused.status.success() && stderr(&refused).contains("no_state"), "{}", stderr(&refused));
    assert_eq!(std::fs::read_to_string(folder.join("other")).unwrap(), "notes");
    for _ in 0..2 {
        let done = run(&folder, "run", line, "sequence");
        assert!(done.status.success(), "{}", stderr(&done));
    }
    std::fs::remove_dir_all(folder).unwrap();
}
