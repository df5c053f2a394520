//! Clients that do harm as well as they can within what a server accepts: hostile bodies and schemas, scales of adapters that change,
//! streams that are cancelled.

use super::load::nonce;
use super::process::{ask_as, connect, request_as, rest};
use serde_json::{json, Value};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

/// Kinds of attacks.
pub const ATTACKS: usize = 8;
/// Longer than a server takes to answer an attack; whoever waits longer goes away.
const PATIENCE: Duration = Duration::from_secs(60);

/// A schema of so many properties.
fn wide_schema(n: usize) -> Value {
    let properties: serde_json::Map<String, Value> = (0..n).map(|i| (format!("p{i}"), json!(true))).collect();
    json!({"type": "object", "properties": properties})
}

/// A schema that refers to itself in many ways, or nests as deep as it can.
fn tangled_schema(i: usize) -> Value {
    if i.is_multiple_of(2) {
        let own = json!({"$ref": "#/$defs/a"});
        let of: Vec<Value> = (0..200).map(|n| json!({"allOf": [own, {"minLength": n}], "items": own})).collect();
        return json!({"$defs": {"a": {"anyOf": of}}, "$ref": "#/$defs/a"});
    }
    (0..120).fold(json!({"type": "string"}), |inner, _| json!({"type": "array", "items": inner, "minItems": 3}))
}

/// Sends one attack and waits for whatever comes; gives the status, none where nothing came.
pub async fn attack(address: SocketAddr, key: &str, i: usize) -> Option<u16> {
    let one = |more: Value| {
        let mut body = json!({"prompt": format!("And {}", nonce(i)), "n_predict": 2, "temperature": 0});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let work = async {
        match i % ATTACKS {
            0 => ask_as(address, key, "/completion", &one(json!({"json_schema": wide_schema(4900)}))).await,
            1 => ask_as(address, key, "/completion", &one(json!({"json_schema": tangled_schema(i / ATTACKS)}))).await,
            // A body of 4 MB of numbers.
            2 => ask_as(address, key, "/completion", &one(json!({"prompt": vec![1; 2_000_000]}))).await,
            3 => cancelled_stream(address, key, i).await,
            4 => {
                let scale = [0.0, 0.5, 1.0, 1e3, 1e4, -1e4, 1e30][i / ATTACKS % 7];
                ask_as(address, key, "/completion", &one(json!({"lora": [{"id": 0, "scale": scale}]}))).await
            }
            5 => ask_as(address, key, "/lora-adapters", &json!([{"id": 0, "scale": (i % 5) as f32}])).await,
            6 => nested_body(address, key).await,
            _ => {
                let grammar = format!("root ::= {}", "(\"a\" | ".repeat(2000) + "\"b\"" + &")".repeat(2000));
                ask_as(address, key, "/completion", &one(json!({"grammar": grammar}))).await
            }
        }
    };
    let text = timeout(PATIENCE, work).await.ok()?;
    text.split(' ').nth(1)?.parse().ok()
}

/// A stream of which a little is read.
async fn cancelled_stream(address: SocketAddr, key: &str, i: usize) -> String {
    let Some(mut connection) = connect(address).await else { return String::new() };
    let body = json!({"prompt": nonce(i), "n_predict": 100_000, "ignore_eos": true, "stream": true});
    let mut some = [0; 512];
    let sent = connection.write_all(&request_as(key, "/completion", &body)).await;
    let read = if sent.is_ok() { connection.read(&mut some).await.unwrap_or(0) } else { 0 };
    String::from_utf8_lossy(&some[..read]).into_owned()
}

/// A body of a million brackets, which is no request.
async fn nested_body(address: SocketAddr, key: &str) -> String {
    let Some(mut connection) = connect(address).await else { return String::new() };
    let head = format!(
        "Host: localhost\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\nConnection: close"
    );
    let body = "[".repeat(1 << 20);
    let text = format!("POST /completion HTTP/1.1\r\n{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    // It may be refused before all of it was sent.
    let _ = connection.write_all(text.as_bytes()).await;
    rest(&mut connection).await
}
