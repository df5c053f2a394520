//! A client on a bare socket, which can be as rude as a test needs, and a server for it.

use pumex_serve::engine::Engine;
use pumex_serve::http::{Address, ConnectionLimits, HttpSettings, Server, Stopper};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// A server that runs until it is dropped.
pub struct RunningServer {
    pub address: SocketAddr,
    pub addresses: Vec<Address>,
    pub stopper: Stopper,
    thread: Option<JoinHandle<()>>,
}

/// Times that a test can wait for.
pub fn limits() -> ConnectionLimits {
    ConnectionLimits {
        header_time: Duration::from_millis(300),
        body_time: Duration::from_millis(900),
        idle_time: Duration::from_millis(600),
        write_time: Duration::from_millis(300),
        drain: Duration::from_millis(500),
        ..ConnectionLimits::default()
    }
}

/// Settings of a server on a free port.
pub fn settings() -> HttpSettings {
    HttpSettings { port: 0, ..HttpSettings::default() }
}

pub fn run(engine: Arc<dyn Engine>, settings: HttpSettings) -> RunningServer {
    let server = Server::bind(engine, settings).unwrap();
    let addresses = server.addresses().to_vec();
    let address =
        addresses.iter().find_map(|a| if let Address::Tcp { address, .. } = a { Some(*address) } else { None });
    let stopper = server.stopper();
    let thread = Some(std::thread::spawn(move || server.run().unwrap()));
    RunningServer { address: address.unwrap_or_else(|| ([127, 0, 0, 1], 0).into()), addresses, stopper, thread }
}

impl RunningServer {
    /// Waits until it is over.
    pub fn join(&mut self) {
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        self.stopper.stop();
        self.stopper.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// An answer.
#[derive(Debug)]
pub struct ServerReply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl ServerReply {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e}: {}", self.text()))
    }

    /// Events of a stream: each with its name, or nothing; the mark of the end is a string.
    pub fn events(&self) -> Vec<(String, Value)> {
        let text = self.text();
        let mut events = Vec::new();
        for block in text.split("\n\n").filter(|b| !b.is_empty() && !b.starts_with(':')) {
            let field = |name: &str| block.lines().find_map(|l| l.strip_prefix(name));
            let data = field("data: ").unwrap_or_else(|| panic!("no data in {block:?}"));
            let value = serde_json::from_str(data).unwrap_or_else(|_| Value::from(data));
            events.push((field("event: ").unwrap_or_default().to_string(), value));
        }
        events
    }

    /// Values of a stream of lines.
    pub fn lines(&self) -> Vec<Value> {
        self.text().lines().map(|l| serde_json::from_str(l).unwrap()).collect()
    }
}

/// A connection on which nothing was sent; reads give up after a while.
pub fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
}

/// Reads one answer to its end; the connection may be closed instead.
pub fn read_reply(stream: &mut impl Read) -> Option<ServerReply> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(1) => head.push(byte[0]),
            _ => return None,
        }
    }
    let head = String::from_utf8(head).unwrap();
    let mut lines = head.lines();
    let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    let headers = lines.filter_map(|l| l.split_once(": ")).map(|(n, v)| (n.to_string(), v.to_string())).collect();
    let mut reply = ServerReply { status, headers, body: Vec::new() };
    if reply.header("transfer-encoding").is_some() {
        loop {
            let mut line = Vec::new();
            while !line.ends_with(b"\r\n") {
                stream.read_exact(&mut byte).ok()?;
                line.push(byte[0]);
            }
            let size = usize::from_str_radix(std::str::from_utf8(&line).unwrap().trim(), 16).unwrap();
            let mut chunk = vec![0; size + 2];
            stream.read_exact(&mut chunk).ok()?;
            reply.body.extend_from_slice(&chunk[..size]);
            if size == 0 {
                break;
            }
        }
    } else if let Some(length) = reply.header("content-length") {
        reply.body = vec![0; length.parse().unwrap()];
        stream.read_exact(&mut reply.body).ok()?;
    }
    Some(reply)
}

/// The text of a request.
pub fn request_text(method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut text = format!("{method} {path} HTTP/1.1\r\n");
    if !headers.iter().any(|(n, _)| n.eq_ignore_ascii_case("host")) {
        text.push_str("Host: localhost\r\n");
    }
    headers.iter().for_each(|(name, value)| text.push_str(&format!("{name}: {value}\r\n")));
    if !body.is_empty() {
        text.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    text.push_str("\r\n");
    [text.as_bytes(), body].concat()
}

/// One request on a connection of its own.
pub fn send(address: SocketAddr, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> ServerReply {
    let mut stream = connect(address);
    stream.write_all(&request_text(method, path, headers, body)).unwrap();
    read_reply(&mut stream).unwrap_or_else(|| panic!("{method} {path}: no answer"))
}

pub fn get(address: SocketAddr, path: &str) -> ServerReply {
    send(address, "GET", path, &[], b"")
}

pub fn post(address: SocketAddr, path: &str, body: &Value) -> ServerReply {
    send(address, "POST", path, &[("Content-Type", "application/json")], body.to_string().as_bytes())
}
