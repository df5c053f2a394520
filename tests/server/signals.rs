//! Signals at every moment of a server's life: the process ends, and says how.

use super::process::{connect, get, request, Process};
use crate::util::demo_path;
use serde_json::json;
use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::net::TcpListener;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Sends a signal by its name.
fn send(name: &str, child: &Child) {
    let sent = Command::new("kill").args([&format!("-{name}"), &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

/// Waits for the end, which a process that heeds no signal never comes to.
fn end(child: &mut Child, what: &str) -> ExitStatus {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if begun.elapsed() > Duration::from_secs(300) {
            let _ = child.kill();
            panic!("{what}: it goes on");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A server that starts, and its lines.
fn starting(args: &[&str], variables: &[(&str, &str)]) -> (Child, Lines<BufReader<ChildStderr>>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pumex"));
    command.args(["serve", "--port", "0"]).args(args).envs(variables.iter().copied());
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    (child, lines)
}

/// A Hub that has everything, and sends nothing of it; its address.
fn silent_hub() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = [0; 4096];
            let n = stream.read(&mut head).unwrap_or(0);
            let path = String::from_utf8_lossy(&head[..n]).into_owned();
            let commit = "0123456789abcdef0123456789abcdef01234567";
            let file = format!(r#"{{"rfilename":"demo-Q8_0.gguf","size":1000000,"blobId":"{commit}"}}"#);
            let listing = format!(r#"{{"sha":"{commit}","siblings":[{file}]}}"#);
            let (length, body) = match path.contains("/api/models/") {
                true => (listing.len(), listing),
                false => (1_000_000, "GGUF".into()),
            };
            let _ = write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}");
            // Open to the end of the test.
            std::mem::forget(stream);
        }
    });
    address
}

#[test]
fn a_signal_during_the_download_ends_the_start() {
    if !cfg!(all(unix, feature = "download")) {
        return;
    }
    let (hub, folder) = (silent_hub(), std::env::temp_dir().join(format!("pumex-signals-{}", std::process::id())));
    let variables = [("HF_ENDPOINT", hub.as_str()), ("HF_HUB_CACHE", folder.to_str().unwrap())];
    for (signal, code) in [("TERM", 0), ("INT", 130)] {
        let (mut child, mut lines) = starting(&["--device", "cpu", "-hf", "some/demo"], &variables);
        let begins = lines.by_ref().map_while(Result::ok).any(|line| line.contains("downloading"));
        assert!(begins, "the download begins");
        send(signal, &child);
        assert_eq!(end(&mut child, signal).code(), Some(code), "{signal}");
        let told: Vec<String> = lines.map_while(Result::ok).collect();
        assert!(!told.iter().any(|line| line.contains("listening")), "{told:?}");
    }
    let _ = std::fs::remove_dir_all(folder);
}

#[test]
fn a_signal_at_any_moment_of_a_start_ends_it() {
    let vulkan = pumex::vk::list().is_ok_and(|found| !found.is_empty());
    let moments: &[(&str, &[u64])] = &[("cpu", &[0, 1, 3, 10, 30, 100]), ("vulkan", &[100, 300, 1000, 3000])];
    let model = demo_path();
    for (device, moments) in moments.iter().filter(|(device, _)| cfg!(unix) && (vulkan || *device == "cpu")) {
        for ms in *moments {
            // Pipelines are built anew, so that there is much to interrupt.
            let variables = [("MESA_SHADER_CACHE_DISABLE", "true"), ("XDG_CACHE_HOME", "/dev/null")];
            let (mut child, lines) = starting(&["--device", device, "-m", model.to_str().unwrap(), "-v"], &variables);
            std::thread::sleep(Duration::from_millis(*ms));
            send("TERM", &child);
            let status = end(&mut child, &format!("{device}, {ms} ms"));
            let told: Vec<String> = lines.map_while(Result::ok).collect();
            // Before the program has told the system what it heeds, that ends it.
            assert!(status.code().is_none_or(|code| code == 0), "{device}, {ms} ms: {status}, {told:?}");
            assert!(status.code().is_some() || told.is_empty(), "{device}, {ms} ms: {status}, {told:?}");
        }
    }
}

#[tokio::test]
async fn the_second_signal_does_not_wait_for_answers() {
    if !cfg!(unix) {
        return;
    }
    let mut server = Process::start(0, &["--context-shift", "-c", "256"]);
    let mut stream = connect(server.address).await.unwrap();
    let body = json!({"prompt": "And", "n_predict": -1, "stream": true, "ignore_eos": true});
    stream.write_all(&request("/completion", &body)).await.unwrap();
    let mut some = [0; 64];
    // Nothing more is read: the answer goes on for as long as the server waits for its reader.
    assert!(stream.read(&mut some).await.unwrap() > 0);
    send("TERM", server.child());
    while get(server.address, "/health").await.contains("200 OK") {}
    send("TERM", server.child());
    assert_eq!(end(server.child(), "the second signal").code(), Some(130));
}

#[tokio::test]
async fn ctrl_c_does_not_wait_for_answers() {
    if !cfg!(unix) {
        return;
    }
    let mut server = Process::start(0, &["--context-shift", "-c", "256"]);
    let mut stream = connect(server.address).await.unwrap();
    let body = json!({"prompt": "And", "n_predict": -1, "stream": true, "ignore_eos": true});
    stream.write_all(&request("/completion", &body)).await.unwrap();
    let mut some = [0; 64];
    assert!(stream.read(&mut some).await.unwrap() > 0);
    let begun = Instant::now();
    send("INT", server.child());
    assert_eq!(end(server.child(), "Ctrl-C").code(), Some(130));
    // It has 2 s; the rest is a busy machine's.
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}
