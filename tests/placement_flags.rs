//! Options that say where a model runs: layers and tensors on a GPU or the CPU, threads and the processors they run on. Right use gives
//! the same text; what is wrong ends with exit code 2 and says what was expected.

use std::process::{Command, Output, Stdio};

fn pumex(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pumex"));
    command.args(args).stdin(Stdio::null()).env_remove("RUST_LOG").output().unwrap()
}

/// Eight tokens of the demo model; 40 of the prompt are steps of several rows.
fn text(more: &[&str]) -> String {
    let prompt = "In the beginning there was a house at the edge of the wood. ".repeat(4);
    let args = ["run", "-p", &prompt, "-n", "8", "--temp", "0", "-c", "128", "-no-cnv"];
    let done = pumex(&[&args[..], more].concat());
    assert!(done.status.success(), "{more:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

#[test]
fn threads_and_processors_change_no_text() {
    let plain = text(&["--device", "cpu", "-t", "1"]);
    assert!(!plain.is_empty());
    for more in [
        &["-t", "2"][..],
        &["-t", "0"],
        &["-t", "1", "-tb", "3"],
        &["-t", "3", "--threads-batch", "1"],
        &["-C", "1", "-t", "2"],
        &["--cpu-mask", "0x3"],
        &["--numa", "distribute"],
        &["--numa", "isolate"],
        &["--numa", "numactl"],
        &["--prio", "-1"],
        &["--prio", "2"],
        &["--no-repack"],
    ] {
        assert_eq!(text(&[&["--device", "cpu"], more].concat()), plain, "{more:?}");
    }
}

/// Without a GPU there is nothing to place, and flags for one are as right as with it.
#[test]
fn places_are_accepted_without_a_gpu() {
    let plain = text(&["--device", "cpu"]);
    for more in [
        &["-ngl", "3"][..],
        &["-ngl", "all"],
        &["-ngl", "auto"],
        &["-ngl", "0"],
        &["--cpu-moe"],
        &["--n-cpu-moe", "2"],
        &["-ot", r"blk\.[0-2]\.ffn=CPU"],
        &["-ot", "ffn_up=CPU,attn=GPU"],
    ] {
        assert_eq!(text(&[&["--device", "cpu"], more].concat()), plain, "{more:?}");
    }
}

#[test]
fn layers_and_tensors_go_where_they_are_told() {
    if !crate::util::has_device() {
        return;
    }
    for (more, says) in [
        (&["-ngl", "2"][..], "for 4 layers,"),
        (&["-ngl", "0"], "running on CPU with"),
        (&["-ot", r"blk\.1\.ffn_down=CPU"], "for 0 layers and parts of 1,"),
    ] {
        let args = ["-v", "logits", "--device", "vulkan", "--tokens", "1,2,3", "--activations", "q8", "-o"];
        let out = std::env::temp_dir().join(format!("pumex-places-{}", std::process::id()));
        let done = pumex(&[&args[..], &[out.to_str().unwrap()], more].concat());
        let stderr = String::from_utf8_lossy(&done.stderr);
        let _ = std::fs::remove_file(out);
        assert!(done.status.success() && stderr.contains(says), "{more:?}: {stderr}");
    }
}

#[test]
fn wrong_places_and_threads_are_refused_with_what_was_expected() {
    for (more, says) in [
        (&["-ngl", "many"][..], "expected a number, all or auto"),
        (&["--n-cpu-moe", "some"], "--n-cpu-moe"),
        (&["-ot", "ffn_up"], "expected PATTERN=CPU or PATTERN=GPU"),
        (&["-ot", "ffn_up=TPU"], "expected CPU or GPU after the pattern, found TPU"),
        (&["-ot", "(ffn=CPU"], "expected a regular expression, found (ffn"),
        (&["-ot", "ffn_sideways=CPU"], "ffn_sideways: expected a pattern that matches a tensor's name, such as"),
        (&["--numa", "everywhere"], "expected distribute, isolate or numactl"),
        (&["--prio", "4"], "--prio"),
        (&["--prio", "-2"], "--prio"),
        (&["-tb", "few"], "--threads-batch"),
        (&["--cpu-mask", "0xg"], "expected hexadecimal digits"),
        (&["-C", "0"], "expected a processor at least"),
        (&["-C", ""], "expected a processor at least"),
    ] {
        let args = ["logits", "--device", "cpu", "--tokens", "1", "--out", "/dev/null"];
        let done = pumex(&[&args[..], more].concat());
        let stderr = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(2), "{more:?}: {stderr}");
        assert!(done.stdout.is_empty() && stderr.contains(says), "{more:?}: {stderr}");
    }
}
