//! A pleasant start: models by their names on a Hub, what the environment says, scripts for shells, manual pages.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A program's folder, gone at the end.
struct TemporaryFolder(PathBuf);

impl TemporaryFolder {
    fn new(name: &str) -> TemporaryFolder {
        let folder = std::env::temp_dir().join(format!("pumex-start-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        TemporaryFolder(folder)
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn pumex(args: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pumex"));
    for key in ["RUST_LOG", "HF_TOKEN", "HF_ENDPOINT", "LLAMA_CACHE", "LLAMA_ARG_MODEL", "LLAMA_ARG_HF_REPO"] {
        command.env_remove(key);
    }
    command.args(args).envs(variables.iter().copied()).stdin(Stdio::null()).output().unwrap()
}

fn texts(output: &Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// A Hub with the demo model in one repository, until the test ends; its address.
fn hub() -> String {
    let model = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/assets/demo.gguf")).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = String::new();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            while reader.read_line(&mut head).unwrap_or(0) > 2 {}
            let path = head.split(' ').nth(1).unwrap_or("");
            let size = model.len();
            let file = format!(r#"{{"rfilename":"demo-Q8_0.gguf","size":{size},"blobId":"{COMMIT}"}}"#);
            let listing = format!(r#"{{"sha":"{COMMIT}","siblings":[{file}]}}"#);
            let (status, body): (&str, &[u8]) = match path {
                "/api/models/some/demo/revision/main?blobs=true" => ("200 OK", listing.as_bytes()),
                _ if path.ends_with("/demo-Q8_0.gguf") => ("200 OK", &model),
                _ => ("404 Not Found", b""),
            };
            let head = format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
            let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
        }
    });
    address
}

#[test]
fn a_model_of_the_hub_is_downloaded_once_and_then_used_without_a_network() {
    if !cfg!(feature = "download") {
        return;
    }
    let (folder, address) = (TemporaryFolder::new("hub"), hub());
    let variables = [("HF_ENDPOINT", address.as_str()), ("HF_HUB_CACHE", folder.0.to_str().unwrap())];
    let ask = |repo| pumex(&["tokenize", "-hf", repo, "-p", "In the beginning", "--ids"], &variables);
    let (code, ids, told) = texts(&ask("some/demo"));
    assert_eq!((code, told.as_str()), (0, "downloading demo-Q8_0.gguf\n"));
    let (code, again, told) = texts(&ask("some/demo:q8_0"));
    assert_eq!((code, again.as_str(), told.as_str()), (0, ids.as_str(), ""));
    let gone = [("HF_ENDPOINT", "http://127.0.0.1:1"), variables[1]];
    let offline = pumex(&["tokenize", "-hf", "some/demo", "--offline", "-p", "In the beginning", "--ids"], &gone);
    assert_eq!(texts(&offline), (0, ids.clone(), String::new()));
    let named = [variables[0], variables[1], ("LLAMA_ARG_HF_REPO", "some/demo")];
    assert_eq!(texts(&pumex(&["tokenize", "-p", "In the beginning", "--ids"], &named)).1, ids);
    for (repo, exit, words) in [
        ("some/demo:Q4_K_M", 1, "expected a file of type Q4_K_M, found demo-Q8_0.gguf"),
        ("some/other", 1, "404, no such repository or file"),
        ("demo", 1, "expected user/name"),
    ] {
        let (code, out, told) = texts(&ask(repo));
        assert!((code, out.as_str()) == (exit, "") && told.contains(words) && told.lines().count() == 1, "{told}");
    }
    for bad in [&["-hf", "a/b", "-m", "x"][..], &["-hff", "x"], &["-hf", "a/b", "-mu", "http://x/y"]] {
        assert_eq!(texts(&pumex(&[&["inspect"], bad].concat(), &[])).0, 2, "{bad:?}");
    }
}

#[test]
fn flags_come_before_the_environment() {
    let run = ["run", "--device", "cpu", "--temp", "0", "-p", "In the beginning", "--json"];
    let tokens = |args: &[&str], variables: &[(&str, &str)]| {
        let (code, out, told) = texts(&pumex(&[&run, args].concat(), variables));
        assert_eq!(code, 0, "{told}");
        serde_json::from_str::<serde_json::Value>(&out).unwrap()["generated_tokens"].as_u64().unwrap()
    };
    let variables = [("LLAMA_ARG_N_PREDICT", "3"), ("LLAMA_ARG_CTX_SIZE", "64"), ("LLAMA_ARG_CACHE_TYPE_K", "q8_0")];
    assert_eq!((tokens(&[], &variables), tokens(&["-n", "2"], &variables)), (3, 2));
    let (code, _, told) = texts(&pumex(&run, &[("LLAMA_ARG_THREADS", "many")]));
    assert!(code == 2 && told.contains("--threads"), "{told}");
    let (code, _, told) = texts(&pumex(&["inspect"], &[("LLAMA_ARG_MODEL", "absent.gguf")]));
    assert!(code == 1 && told.starts_with("error: absent.gguf"), "{told}");
    let demo = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/demo.gguf");
    assert_eq!(texts(&pumex(&["inspect", "-m", demo], &[("LLAMA_ARG_MODEL", "absent.gguf")])).0, 0);
}

fn is_here(program: &str) -> bool {
    Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

#[test]
fn shells_read_their_completions_with_llama_cpps_flags() {
    let folder = TemporaryFolder::new("completions");
    for (shell, wants) in [
        ("bash", "--gpu-layers|-ngl)"),
        ("zsh", "'-ngl+["),
        ("fish", " -o fa -d 'Fused attention (-fa): it always is' -r -f -a \"on\\t'Always'\noff\\t"),
        ("powershell", "'-ngl'"),
        ("elvish", "cand -ngl "),
    ] {
        let (code, script, told) = texts(&pumex(&["completions", shell], &[]));
        assert_eq!((code, told.as_str()), (0, ""));
        assert!(script.contains(wants) && script.contains("perplexity"), "{shell}");
        let file = folder.0.join(shell);
        std::fs::write(&file, &script).unwrap();
        let checks = ["bash", "zsh", "fish"].contains(&shell);
        if checks && !is_here(shell) {
            eprintln!("skipped: no {shell} that would read its script");
        } else if checks {
            let read = Command::new(shell).arg("-n").arg(&file).output().unwrap();
            assert!(
                read.status.success() && read.stderr.is_empty(),
                "{shell}: {}",
                String::from_utf8_lossy(&read.stderr)
            );
        }
    }
    assert_eq!(texts(&pumex(&["completions", "abacus"], &[])).0, 2);
}

#[test]
fn manual_pages_are_pages() {
    let folder = TemporaryFolder::new("man");
    let (code, page, _) = texts(&pumex(&["man"], &[]));
    assert!(code == 0 && page.contains(".TH pumex 1"), "{page}");
    assert_eq!(texts(&pumex(&["man", "--out", folder.0.to_str().unwrap()], &[])), (0, String::new(), String::new()));
    let pages: Vec<PathBuf> = std::fs::read_dir(&folder.0).unwrap().map(|e| e.unwrap().path()).collect();
    assert!(pages.contains(&folder.0.join("pumex.1")) && pages.contains(&folder.0.join("pumex-run.1")), "{pages:?}");
    for page in pages.iter().filter(|_| is_here("groff")) {
        let read = Command::new("groff").args(["-man", "-Tutf8", "-ww"]).arg(page).output().unwrap();
        let told = String::from_utf8_lossy(&read.stderr);
        assert!(read.status.success() && told.is_empty() && read.stdout.len() > 200, "{}: {told}", page.display());
    }
    let nowhere = pumex(&["man", "--out", "/dev/null/x"], &[]);
    assert_eq!(texts(&nowhere).0, if Path::new("/dev/null").exists() { 1 } else { 0 });
}
