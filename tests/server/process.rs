//! `pumex serve` as a process of its own, and a client that can be as rude as a test needs.

use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A server that ends with the test.
pub struct Process {
    pub address: SocketAddr,
    child: Child,
}

impl Process {
    /// Serves the demo model on a port; 0 takes a free one.
    pub fn start(port: u16, flags: &[&str]) -> Process {
        Process::of(Command::new(env!("CARGO_BIN_EXE_pumex")), port, flags)
    }

    /// Serves the demo model where no file may be longer than so many KiB; none without a shell that can say so.
    pub fn start_with_file_limit(kib: u32, flags: &[&str]) -> Option<Process> {
        let mut command = Command::new("bash");
        command.args(["-c", &format!("trap '' XFSZ; ulimit -f {kib} && exec \"$@\""), "bash"]);
        command.arg(env!("CARGO_BIN_EXE_pumex"));
        if Command::new("bash").arg("--version").output().is_err() {
            eprintln!("skipped: no bash");
            return None;
        }
        Some(Process::of(command, 0, flags))
    }

    fn of(mut command: Command, port: u16, flags: &[&str]) -> Process {
        command.args(["serve", "--device", "cpu", "-t", "1", "--metrics", "--port", &port.to_string()]).args(flags);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let address = lines
            .by_ref()
            .map_while(Result::ok)
            .find_map(|line| line.strip_prefix("listening on http://").map(|address| address.trim().parse().unwrap()));
        // What it says later must not fill the pipe.
        std::thread::spawn(move || lines.for_each(drop));
        Process { address: address.expect("the server listens"), child }
    }

    /// The process.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Ends it as the kernel does where memory runs out: without a word.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The text of a request whose connection ends with it.
pub fn request(path: &str, body: &Value) -> Vec<u8> {
    request_as("", path, body)
}

/// Likewise with a key.
pub fn request_as(key: &str, path: &str, body: &Value) -> Vec<u8> {
    let body = body.to_string();
    let head = format!("{}Content-Type: application/json\r\n", head_of(key));
    format!("POST {path} HTTP/1.1\r\n{head}Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

/// Lines of every request's head, with a key if there is one.
fn head_of(key: &str) -> String {
    let bearer = if key.is_empty() { String::new() } else { format!("Authorization: Bearer {key}\r\n") };
    format!("Host: localhost\r\n{bearer}Connection: close\r\n")
}

/// A connection; none where there is no server.
pub async fn connect(address: SocketAddr) -> Option<TcpStream> {
    TcpStream::connect(address).await.ok()
}

/// All that comes, to the end of the connection.
pub async fn rest(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    // A connection that breaks ends what comes.
    let _ = stream.read_to_end(&mut bytes).await;
    String::from_utf8_lossy(&bytes).into_owned()
}

/// What comes of a request; empty where there is no server.
pub async fn ask(address: SocketAddr, path: &str, body: &Value) -> String {
    ask_as(address, "", path, body).await
}

/// Likewise with a key.
pub async fn ask_as(address: SocketAddr, key: &str, path: &str, body: &Value) -> String {
    let Some(mut stream) = connect(address).await else { return String::new() };
    match stream.write_all(&request_as(key, path, body)).await {
        Ok(()) => rest(&mut stream).await,
        Err(_) => String::new(),
    }
}

/// What comes of a request without a body; empty where there is no server.
pub async fn get(address: SocketAddr, path: &str) -> String {
    get_as(address, "", path).await
}

/// Likewise with a key.
pub async fn get_as(address: SocketAddr, key: &str, path: &str) -> String {
    let Some(mut stream) = connect(address).await else { return String::new() };
    let asked = format!("GET {path} HTTP/1.1\r\n{}\r\n", head_of(key));
    match stream.write_all(asked.as_bytes()).await {
        Ok(()) => rest(&mut stream).await,
        Err(_) => String::new(),
    }
}

/// A number of `/metrics`.
pub async fn metric(address: SocketAddr, name: &str) -> f64 {
    metric_as(address, "", name).await
}

/// Likewise with a key.
pub async fn metric_as(address: SocketAddr, key: &str, name: &str) -> f64 {
    let text = get_as(address, key, "/metrics").await;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
}
