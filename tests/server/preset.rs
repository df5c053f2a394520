//! `--models-preset`: options of each model, and what is said of a file that is wrong.

use super::load::runtime;
use super::process::{ask, get, Process};
use crate::util::demo_path;
use serde_json::{json, Value};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

/// A file that goes with the test.
struct TemporaryFile(PathBuf);

impl TemporaryFile {
    fn new(name: &str, text: &str) -> TemporaryFile {
        let path = std::env::temp_dir().join(format!("pumex-preset-{}-{name}.ini", std::process::id()));
        std::fs::write(&path, text.replace("DEMO", &demo_path().to_string_lossy())).unwrap();
        TemporaryFile(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

async fn value(address: SocketAddr, path: &str) -> Value {
    let reply = get(address, path).await;
    serde_json::from_str(reply.split_once("\r\n\r\n").unwrap().1).unwrap()
}

async fn state(address: SocketAddr, model: &str) -> String {
    let all = value(address, "/v1/models").await;
    let found = all["data"].as_array().unwrap().iter().find(|m| m["id"] == model).unwrap().clone();
    found["status"]["value"].as_str().unwrap().to_string()
}

const TEXT: &str = "version = 1

[*]
c = 512
LLAMA_ARG_N_PARALLEL = 2
temp = 0.5
np-unused-comment-lines-are-none = 1
";

#[test]
fn each_model_has_its_options_behind_the_command_lines() {
    let text = TEXT.replace("np-unused-comment-lines-are-none = 1\n", "; a comment\n# another\n");
    let text = text
        + "
[one]
model = DEMO
ctx-size = 1024
kv_unified = false
alias = first,second
tags = small
load-on-startup = true
chat-template = {{ messages[0]['content'] }}#one

[two]
model = DEMO
kv-unified = on
top-k = 7
stop-timeout = 5
";
    let file = TemporaryFile::new("good", &text);
    let server = Process::start(0, &["--models-preset", file.path(), "--temp", "0.25"]);
    let address = server.address;
    runtime().block_on(async {
        while state(address, "one").await != "loaded" {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(state(address, "two").await, "unloaded");
        for model in ["one", "two"] {
            let reply = ask(address, "/completion", &json!({"model": model, "prompt": "And", "n_predict": 1})).await;
            assert!(reply.starts_with("HTTP/1.1 200"), "{reply}");
        }
        let facts = |model: &'static str| async move {
            let props = value(address, &format!("/props?model={model}")).await;
            let settings = &props["default_generation_settings"];
            let numbers = [&settings["n_ctx"], &props["total_slots"], &settings["params"]["top_k"]];
            let numbers = numbers.map(|number| number.as_u64().unwrap());
            (numbers, settings["params"]["temperature"].as_f64().unwrap())
        };
        assert_eq!(facts("one").await, ([512, 2, 40], 0.25), "two slots share 1024 positions");
        assert_eq!(facts("two").await, ([512, 2, 7], 0.25), "each of two slots may have all 512");
        let all = value(address, "/v1/models").await;
        assert_eq!(
            (&all["data"][0]["aliases"], &all["data"][0]["tags"]),
            (&json!(["first", "second"]), &json!(["small"]))
        );
        assert_eq!(all["data"][1]["aliases"], json!([]));
        let talk = json!({"model": "second", "messages": [{"role": "user", "content": "Hello"}]});
        let reply = ask(address, "/apply-template", &talk).await;
        assert!(reply.ends_with("{\"prompt\":\"Hello#one\"}"), "{reply}");
        // A file that changes is read again; what runs stays as it is.
        std::fs::write(&file.0, format!("[three]\nmodel = {}\n", demo_path().display())).unwrap();
        assert_eq!(state(address, "three").await, "unloaded");
        assert_eq!(state(address, "two").await, "loaded");
    });
}

#[test]
fn what_is_wrong_is_told_with_file_line_and_key() {
    for (i, (text, what)) in [
        (TEXT, ":7: [*] np-unused-comment-lines-are-none: there is no such option"),
        ("[a]\nmodel = x\n\nctxsize = 3\n", ":4: [a] ctxsize: there is no such option"),
        ("[a]\nctx-size = many\n", ":2: [a] ctx-size: invalid value 'many'"),
        ("[a]\nkv-unified = perhaps\n", ":2: [a] kv-unified: expected true or false, found perhaps"),
        ("[a]\nport = 80\n", ":2: [a] port: this option is the whole server's"),
        ("[a]\nstop-timeout = soon\n", ":2: [a] stop-timeout: expected seconds"),
        ("c = 3\n", ":1: c: expected version = 1 or a section"),
        ("[a]\n[b]\n[a]\n", ":3: [a]: expected a name"),
        ("[a]\nc = 1\nc = 2\n", ":3: [a] c: it is given twice"),
        ("[a]\nmodel\n", ":2: expected [a section], key = value"),
        ("\n[a]\nc = 5\n", ":2: [a]: expected model, hf-repo or model-url"),
        ("[a]\nmodel = x\nchat-template = x\nchat-template-file = y\n", ":1: [a]: the argument '--chat-template"),
    ]
    .into_iter()
    .enumerate()
    {
        let file = TemporaryFile::new(&format!("bad{i}"), text);
        let mut command = Command::new(env!("CARGO_BIN_EXE_pumex"));
        command.args(["serve", "--port", "0", "--models-preset", file.path()]).stdin(Stdio::null());
        let done = command.output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(said.contains(what) && said.contains(file.path()), "{text:?}: {said}");
        assert_eq!(done.status.code(), Some(2), "{text:?}");
    }
}
