//! Models at hand: `pull`, `list`, `show` and `rm` over the cache and a folder, and a server that fetches into its folder.
#![cfg(all(feature = "download", feature = "serve"))]

#[path = "../cli/src/help.rs"]
#[allow(dead_code)]
mod help;
#[path = "../cli/src/ollama_sidecar.rs"]
#[allow(dead_code)]
mod ollama_sidecar;

use serde_json::{json, Value};
use sha2::{Digest, Sha256};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// A folder of the test's own, gone at the end.
struct TemporaryFolder(PathBuf);

impl TemporaryFolder {
    fn new(name: &str) -> TemporaryFolder {
        let folder = std::env::temp_dir().join(format!("pumex-at-hand-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        TemporaryFolder(folder)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_string()
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect()
}

/// A registry with the demo model as `demo:tiny`, which is to sample greedily; its address.
fn registry() -> String {
    let model = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/assets/demo.gguf")).unwrap();
    let params = br#"{"temperature":0,"stop":["x"]}"#.to_vec();
    let layers = [("model", model), ("params", params), ("system", b"Be brief.".to_vec())];
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let layer = |(kind, data): &(&str, Vec<u8>)| {
            json!({"mediaType": format!("application/vnd.ollama.image.{kind}"), "size": data.len(),
                "digest": format!("sha256:{}", hex(data))})
        };
        let manifest = json!({"layers": layers.iter().map(layer).collect::<Vec<Value>>()}).to_string();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = String::new();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            while reader.read_line(&mut head).unwrap_or(0) > 2 {}
            let path = head.split(' ').nth(1).unwrap_or("");
            let blob = layers.iter().find(|(_, data)| path.ends_with(&format!("/blobs/sha256:{}", hex(data))));
            let (status, body): (&str, &[u8]) = match (path, blob) {
                ("/v2/library/demo/manifests/tiny", _) => ("200 OK", manifest.as_bytes()),
                (_, Some((_, data))) => ("200 OK", data),
                _ => ("404 Not Found", b"{}"),
            };
            let head = format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
            let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
        }
    });
    address
}

fn command(address: &str, cache: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pumex"));
    for key in ["RUST_LOG", "HF_TOKEN", "HF_ENDPOINT", "LLAMA_CACHE", "LLAMA_ARG_MODEL", "LLAMA_ARG_HF_REPO"] {
        command.env_remove(key);
    }
    command.env("PUMEX_OLLAMA", address).env("HF_HUB_CACHE", cache).stdin(Stdio::null());
    command
}

fn texts(output: &Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn models_are_pulled_listed_shown_and_removed_by_name() {
    let (folder, address) = (TemporaryFolder::new("cache"), registry());
    let cache = folder.0.join("cache");
    let run = |args: &[&str]| texts(&command(&address, &cache).args(args).output().unwrap());
    let json = |args: &[&str]| -> Value {
        let (code, out, told) = run(args);
        assert_eq!(code, 0, "{args:?}: {told}");
        serde_json::from_str(&out).unwrap()
    };
    let (code, out, told) = run(&["list"]);
    assert!(code == 0 && out.is_empty() && told.contains("no models yet"), "{out} {told}");
    let (code, path, _) = run(&["pull", "ollama:demo:tiny"]);
    assert!(code == 0 && path.ends_with("demo-tiny.gguf\n"), "{path}");
    let listed = json(&["list", "--json"]);
    assert_eq!((&listed[0]["name"], listed.as_array().unwrap().len()), (&json!("ollama:demo:tiny"), 1));
    assert!(run(&["list"]).1.contains("ollama:demo:tiny  "), "{}", run(&["list"]).1);
    // What the registry says of the sampler holds wherever the model runs: greedy, though nobody says so.
    let text = |more: &[&str]| {
        let args = ["run", "-no-cnv", "--device", "cpu", "-hf", "ollama:demo:tiny", "-p", "And it came", "-n", "12"];
        run(&[&args, more].concat()).1
    };
    assert_eq!(text(&["--seed", "1"]), text(&["--temp", "0"]));
    let shown = json(&["show", "ollama:demo:tiny", "--json"]);
    assert_eq!((&shown["parameters"]["temperature"], &shown["system"]), (&json!(0), &json!("Be brief.")));
    assert_eq!(json(&["show", path.trim(), "--json"])["model"], shown["model"]);
    let table = run(&["show", "ollama:demo:tiny"]).1;
    assert!(table.contains("million") && table.contains("Be brief."), "{table}");
    // A folder, in which names stand without their host.
    let models = folder.path("models");
    let (code, path, told) = run(&["pull", "ollama:demo:tiny", "--models-dir", &models]);
    assert!(code == 0 && path.contains("demo%3Atiny"), "{path} {told}");
    assert_eq!(json(&["list", "--models-dir", &models, "--json"])[0]["name"], "demo:tiny");
    assert_eq!(json(&["show", "demo:tiny", "--models-dir", &models, "--json"])["system"], "Be brief.");
    assert_eq!(json(&["rm", "demo:tiny", "--models-dir", &models, "--json"])[0]["files"], 2);
    assert_eq!(json(&["list", "--models-dir", &models, "--json"]), json!([]));
    assert!(run(&["rm", "ollama:demo:tiny"]).1.contains("are free"));
    assert_eq!(json(&["list", "--json"]), json!([]));
    for (args, exit, words) in [
        (&["pull", "demo:tiny"][..], 1, "ollama:demo:tiny is the model of Ollama's registry"),
        (&["pull", "ollama:demo:huge"], 1, "404"),
        (&["pull", "https://x/y.gguf", "--hf-file", "z"], 2, "expected a repository"),
        (&["rm", "ollama:demo:tiny"], 1, "found none"),
        (&["rm"], 2, "NAME"),
        (&["show", "ollama:demo:tiny"], 1, "no network"),
        (&["show", "absent.gguf"], 1, "absent.gguf"),
        (&["list", "--models-dir", "absent"], 2, "expected a folder"),
    ] {
        let (code, out, told) = run(args);
        assert!(code == exit && out.is_empty() && told.contains(words), "{args:?}: {code} {out} {told}");
    }
}

/// A server that ends with the test.
struct ServerProcess(Child);

impl Drop for ServerProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn ask(address: &str, method: &str, path: &str, body: &Value) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    let body = body.to_string();
    let head = "Host: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n";
    write!(stream, "{method} {path} HTTP/1.1\r\n{head}Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let status = text.split(' ').nth(1).unwrap().parse().unwrap();
    (status, text.split_once("\r\n\r\n").unwrap().1.to_string())
}

#[test]
fn a_server_fetches_into_its_folder_and_tells_of_requests() {
    let (folder, registry) = (TemporaryFolder::new("served"), registry());
    let models = folder.path("models");
    std::fs::create_dir_all(&models).unwrap();
    let mut command = command(&registry, &folder.0.join("cache"));
    command.args([
        "serve",
        "--device",
        "cpu",
        "-t",
        "1",
        "--port",
        "0",
        "--models-dir",
        &models,
        "--log-requests",
        "on",
    ]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let _served = ServerProcess(child);
    let mut told = Vec::new();
    let address = loop {
        let line = lines.next().expect("the server listens");
        match line.strip_prefix("listening on http://") {
            Some(address) => break address.trim().to_string(),
            None => told.push(line),
        }
    };
    assert!(told.iter().any(|line| line.starts_with("models: 0")), "{told:?}");
    let (status, text) = ask(&address, "POST", "/api/pull", &json!({"model": "demo:tiny"}));
    assert!(status == 200 && text.contains(r#""status":"success""#), "{text}");
    let line = lines.find(|line| line.contains("/api/pull")).unwrap();
    assert!(line.starts_with("POST /api/pull 200 ") && line.ends_with(" ms"), "{line}");
    std::thread::spawn(move || lines.for_each(drop));
    let (status, text) = ask(&address, "POST", "/api/create", &json!({"model": "other", "from": "demo:tiny"}));
    assert_eq!(status, 200, "{text}");
    let tags = || ask(&address, "GET", "/api/tags", &json!({})).1;
    assert!(tags().contains("\"demo:tiny\"") && tags().contains("\"other\""), "{}", tags());
    let prompt = json!({"model": "demo:tiny", "prompt": "And it came", "raw": true, "stream": false,
        "options": {"num_predict": 4}});
    let (status, text) = ask(&address, "POST", "/api/generate", &prompt);
    assert!(status == 200 && text.contains("\"response\""), "{text}");
    let copy = json!({"source": "other", "destination": "third"});
    assert_eq!(ask(&address, "POST", "/api/copy", &copy).0, 200);
    for name in ["demo:tiny", "other"] {
        assert_eq!(ask(&address, "DELETE", "/api/delete", &json!({ "model": name })).0, 200, "{name}");
    }
    assert!(!tags().contains("demo:tiny") && tags().contains("\"third\""), "{}", tags());
    assert_eq!(ask(&address, "DELETE", "/api/delete", &json!({"model": "other"})).0, 404);
    assert_eq!(ask(&address, "POST", "/api/copy", &json!({"source": "third", "destination": "../x"})).0, 404);
}

#[test]
fn doctor_says_what_runs_where_and_comparisons_are_of_known_models() {
    let folder = TemporaryFolder::new("doctor");
    let run = |args: &[&str]| texts(&command("http://127.0.0.1:1", &folder.0).args(args).output().unwrap());
    let (code, out, told) = run(&["doctor", "--json"]);
    assert_eq!(code, 0, "{told}");
    let found: Value = serde_json::from_str(&out).unwrap();
    assert!(found["runs_on"].is_string() && found["cpu"]["threads"].as_u64().unwrap() > 0, "{found}");
    let models = found["caches"][0]["path"].as_str().unwrap();
    assert_eq!(models.trim_end_matches('/'), folder.0.to_str().unwrap());
    let (code, out, _) = run(&["doctor"]);
    assert!(code == 0 && out.contains("models run on") && out.contains("which fit"), "{out}");
    for (args, words) in [
        (&["bench", "--compare", "--synthetic", "tiny"][..], "expected --synthetic with one of llama-1b, llama-8b"),
        (&["bench", "--compare", "-p", "8"], "cannot be used with"),
        (&["bench", "--synthetic", "lama-8b"], "did you mean llama-8b?"),
        (&["bench", "--synthetic", "tiny", "--type", "Q4KM"], "did you mean Q4_K_M?"),
        (&["quantize", "--dry-run", "in.gguf", "Q4KM"], "did you mean Q4_K_M?"),
    ] {
        let (code, _, told) = run(args);
        assert!(code == 2 && told.contains(words), "{args:?}: {code} {told}");
    }
}

#[test]
fn help_is_short_unless_all_is_asked_for_and_pages_have_examples() {
    let folder = TemporaryFolder::new("help");
    let run = |args: &[&str]| texts(&command("http://127.0.0.1:1", &folder.0).args(args).output().unwrap());
    let flags: Vec<Value> = serde_json::from_str(&run(&["flags", "--json"]).1).unwrap();
    let commands: std::collections::BTreeSet<&str> = flags.iter().filter_map(|f| f["command"].as_str()).collect();
    for command in commands {
        let short = run(&[command, "-h"]).1;
        assert!(short.lines().count() <= 60, "{command}: {} lines", short.lines().count());
        let lines = help::examples(command).unwrap_or_else(|| panic!("{command} has no examples"));
        let known = |word: &str| {
            let own = flags.iter().filter(|flag| flag["command"] == command);
            let names = own.flat_map(|flag| flag["names"].as_array().unwrap().iter().chain([&flag["flag"]]));
            names.filter_map(Value::as_str).any(|name| name == word)
        };
        for line in lines {
            assert!(short.contains(line) && line.starts_with(&format!("pumex {command}")), "{command}: {line}");
            let mut words = line.split(' ').filter(|word| word.starts_with('-') && word.len() > 1);
            assert!(words.all(known), "{line}");
        }
    }
    let long = run(&["serve", "--help"]).1;
    for heading in ["Model:", "Sampling:", "Device:", "Server:", "Examples:"] {
        assert!(long.contains(&format!("\n{heading}\n")), "{heading}");
    }
    assert_eq!(run(&["man", "--out", &folder.path("pages")]).0, 0);
    let page = std::fs::read_to_string(folder.path("pages/pumex-run.1")).unwrap();
    for section in [".SH EXAMPLES", ".SH ENVIRONMENT", ".SH \"EXIT STATUS\""] {
        assert!(page.contains(section), "{section}");
    }
}

#[test]
fn published_figures_are_those_of_the_record() {
    let read = |name: &str| std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap();
    let (source, record) = (read("cli/src/bench/compare.rs"), read("benches/RECORD.md"));
    let lines: Vec<&str> = source.lines().filter(|line| line.trim().starts_with("line(\"")).collect();
    assert!(lines.len() > 5);
    for line in lines {
        let figures: Vec<&str> = line.split('"').skip(1).step_by(2).skip(2).collect();
        assert_eq!(figures.len(), 2, "{line}");
        assert!(figures.iter().all(|figure| record.contains(figure)), "{line}: not in the record");
    }
}
