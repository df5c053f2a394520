//! A disk that fills up while a file is written: one line that names the file, and nothing half-written at its place.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use pumex::gguf::write::{header, Entry, ALIGNMENT};
use pumex::gguf::{Gguf, Value};

use crate::util;

/// Runs the program where no file may be longer than so many KiB, in place of a full disk; none without a shell that can say so.
fn run_with_file_limit(kib: u32, args: &[&str], stdin: &str, folder: &Path) -> Option<Output> {
    use std::io::Write;
    let script = format!("trap '' XFSZ; ulimit -f {kib} && exec \"$@\"");
    let command = ["-c", &script, "bash", env!("CARGO_BIN_EXE_pumex")];
    let mut started = Command::new("bash");
    started.args(command).args(args).current_dir(folder).env_remove("RUST_LOG");
    started.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let Ok(mut child) = started.spawn() else {
        eprintln!("skipped: no bash");
        return None;
    };
    child.stdin.take()?.write_all(stdin.as_bytes()).ok()?;
    child.wait_with_output().ok()
}

/// An adapter of rank 1 for one of the model's matrices.
pub fn adapter(model: &Path) -> Vec<u8> {
    let gguf = Gguf::open(model).unwrap();
    let (name, dims) =
        gguf.tensors().iter().find(|t| t.name.ends_with("attn_q.weight")).map(|t| (&t.name, &t.dims)).unwrap();
    let half = |end: &str, dims: [u64; 2]| {
        let len_bytes = 4 * dims[0] * dims[1];
        Entry { name: format!("{name}.lora_{end}"), dims: dims.to_vec(), type_id: 0, len_bytes }
    };
    let halves = [half("a", [dims[0], 1]), half("b", [1, dims[1]])];
    let text = |text: &str| Value::Str(text.into());
    let meta = [
        ("general.type", text("adapter")),
        ("general.architecture", text(gguf.meta().arch().unwrap())),
        ("adapter.type", text("lora")),
        ("adapter.lora.alpha", Value::F32(1.0)),
    ];
    let mut bytes = header(meta.iter().map(|(key, value)| (*key, value)), &halves, ALIGNMENT);
    for half in &halves {
        bytes.resize(bytes.len() + half.len_bytes.next_multiple_of(ALIGNMENT) as usize, 0);
    }
    bytes
}

#[test]
fn files_that_do_not_fit_are_refused_by_name_and_not_there() {
    let folder = std::env::temp_dir().join(format!("pumex-full-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let demo = util::demo_path();
    let lora = folder.join("lora");
    std::fs::write(&lora, adapter(&demo)).unwrap();
    let (demo, lora) = (demo.to_str().unwrap(), lora.to_str().unwrap());
    let long = "And it came to pass that the people of the land ".repeat(8);
    let talk = format!("{}\n/save talk.json\n/exit\n", "king ".repeat(2000));
    let chat = ["run", "-m", demo, "-cnv", "--chat-template", "chatml", "-n", "1", "-c", "4096", "--device", "cpu"];
    let cached = ["run", "-m", demo, "-p", &long, "-n", "1", "--device", "cpu", "--prompt-cache", "seq.bin"];
    let cases: [(&str, &[&str], &str, i32); 6] = [
        ("q4.gguf", &["quantize", "--allow-requantize", demo, "q4.gguf", "Q4_0"], "", 1),
        ("sum.gguf", &["merge-lora", "-m", demo, "--lora", lora, "sum.gguf"], "", 1),
        ("sum.gguf", &["merge-lora", "-m", demo, "--lora", lora, "sum.gguf", "Q4_0"], "", 1),
        ("out-00001-of-", &["split", "--split-max-size", "3M", demo, "out"], "", 1),
        ("seq.bin", &cached, "", 1),
        ("talk.json", &chat, &talk, 0),
    ];
    for (name, args, stdin, code) in cases {
        let Some(output) = run_with_file_limit(8, args, stdin, &folder) else { return };
        let told = String::from_utf8_lossy(&output.stderr);
        let lines: Vec<&str> = told.lines().filter(|line| line.contains("File too large")).collect();
        assert!(lines.len() == 1 && lines[0].contains(name), "{args:?}: {told}");
        assert_eq!(output.status.code(), Some(code), "{args:?}: {told}");
        let left: Vec<PathBuf> = std::fs::read_dir(&folder).unwrap().map(|e| e.unwrap().path()).collect();
        assert_eq!(left, [PathBuf::from(lora)], "{args:?}");
    }
    let _ = std::fs::remove_dir_all(&folder);
}

/// A page that does not fit leaves the one that was there.
#[test]
fn manual_pages_are_there_whole_or_as_they_were() {
    let folder = std::env::temp_dir().join(format!("pumex-full-man-{}", std::process::id()));
    let pages = folder.join("pages");
    std::fs::create_dir_all(&pages).unwrap();
    std::fs::write(pages.join("pumex-run.1"), "former").unwrap();
    let Some(output) = run_with_file_limit(8, &["man", "--out", "pages"], "", &folder) else { return };
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && told.lines().count() == 1 && told.contains("File too large"), "{told}");
    for page in std::fs::read_dir(&pages).unwrap().map(|entry| entry.unwrap().path()) {
        let text = std::fs::read_to_string(&page).unwrap();
        let whole = text.contains(".TH") && text.len() <= 8 << 10;
        assert!(whole || (page.ends_with("pumex-run.1") && text == "former"), "{}: {}", page.display(), text.len());
    }
    assert!(run_with_file_limit(4096, &["man", "--out", "pages"], "", &folder).unwrap().status.success());
    assert!(std::fs::read_to_string(pages.join("pumex-run.1")).unwrap().contains(".TH"));
    let _ = std::fs::remove_dir_all(&folder);
}
