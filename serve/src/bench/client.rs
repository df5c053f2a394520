//! One request, and when its tokens come.

use super::{Error, Load, RequestTimes};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::{Request, Uri};
use hyper_util::rt::TokioIo;
use serde_json::{json, Value};
use std::time::{Duration, Instant};
use tokio::net::TcpStream;

/// Whom to ask, and how.
pub(super) struct LoadTarget {
    host: String,
    address: (String, u16),
    path: String,
    chat: bool,
    key: Option<String>,
    body: Value,
    timeout: Duration,
}

impl LoadTarget {
    pub fn new(load: &Load) -> Result<LoadTarget, Error> {
        let wrong = |what: &str| Error(format!("{}: {what}", load.url));
        let uri: Uri = load.url.trim_end_matches('/').parse().map_err(|_| wrong("expected a URL"))?;
        if uri.scheme_str() != Some("http") {
            return Err(wrong("expected a URL that begins with http://"));
        }
        let authority = uri.authority().ok_or_else(|| wrong("expected a host"))?;
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_string();
        let endpoint = if load.chat { "/v1/chat/completions" } else { "/v1/completions" };
        let prefix = uri.path().trim_end_matches('/').trim_end_matches("/v1");
        let mut body = json!({
            "max_tokens": load.output_tokens,
            "temperature": 0,
            "stream": true,
            "stream_options": {"include_usage": true},
        });
        if load.ignore_eos {
            body["ignore_eos"] = true.into();
        }
        if let Some(model) = &load.model {
            body["model"] = model.as_str().into();
        }
        Ok(LoadTarget {
            host: authority.to_string(),
            address: (host, authority.port_u16().unwrap_or(80)),
            path: format!("{prefix}{endpoint}"),
            chat: load.chat,
            key: load.key.clone(),
            body,
            timeout: load.timeout,
        })
    }

    /// Asks once. `begun` is when the whole load began.
    pub async fn ask(&self, prompt: &str, begun: Instant) -> RequestTimes {
        let mut sample = RequestTimes { start: begun.elapsed(), ..RequestTimes::default() };
        let result = tokio::time::timeout(self.timeout, self.stream(prompt, begun, &mut sample)).await;
        sample.end = begun.elapsed();
        sample.error = match result {
            Ok(Ok(())) if sample.pieces.is_empty() => Some("an answer without text".into()),
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error),
            Err(_) => Some(format!("no answer in {} s", self.timeout.as_secs_f64())),
        };
        sample
    }

    async fn stream(&self, prompt: &str, begun: Instant, sample: &mut RequestTimes) -> Result<(), String> {
        let mut body = self.body.clone();
        match self.chat {
            true => body["messages"] = json!([{"role": "user", "content": prompt}]),
            false => body["prompt"] = prompt.into(),
        }
        let mut request = Request::post(&self.path).header(HOST, &self.host).header(CONTENT_TYPE, "application/json");
        if let Some(key) = &self.key {
            request = request.header(AUTHORIZATION, format!("Bearer {key}"));
        }
        let request = request.body(Full::new(Bytes::from(body.to_string()))).map_err(|e| e.to_string())?;
        let (host, port) = &self.address;
        let socket = TcpStream::connect((host.as_str(), *port)).await.map_err(|e| e.to_string())?;
        // Small pieces are not held back; a socket that refuses works as well.
        let _ = socket.set_nodelay(true);
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(socket)).await.map_err(|e| e.to_string())?;
        // Ends with the sender; what goes wrong is told there.
        tokio::spawn(async move { drop(connection.await) });
        let response = sender.send_request(request).await.map_err(|e| e.to_string())?;
        let status = response.status();
        let mut body = response.into_body();
        if !status.is_success() {
            let text = body.collect().await.map(|b| b.to_bytes()).unwrap_or_default();
            let value: Value = serde_json::from_slice(&text).unwrap_or_default();
            let said = value["error"]["message"].as_str().unwrap_or_default();
            return Err(format!("{status}: {said}"));
        }
        let mut lines = LineReader::default();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|e| e.to_string())?;
            lines.take(&frame.into_data().unwrap_or_default());
            while let Some(line) = lines.next() {
                if let Some(data) = line.strip_prefix("data:") {
                    self.event(data.trim_start(), begun, sample)?;
                }
            }
        }
        Ok(())
    }

    /// One event of the stream.
    fn event(&self, data: &str, begun: Instant, sample: &mut RequestTimes) -> Result<(), String> {
        if data == "[DONE]" {
            return Ok(());
        }
        let value: Value = serde_json::from_str(data).map_err(|e| format!("an event that is no JSON: {e}"))?;
        if let Some(error) = value.get("error") {
            return Err(error["message"].as_str().unwrap_or("an error without a message").to_string());
        }
        let choice = &value["choices"][0];
        let texts = [&choice["text"], &choice["delta"]["content"], &choice["delta"]["reasoning_content"]];
        let says = texts.iter().any(|t| t.as_str().is_some_and(|t| !t.is_empty()));
        if says || choice["delta"]["tool_calls"].is_array() {
            sample.pieces.push(begun.elapsed());
        }
        let count = |name: &str| value["usage"][name].as_u64().and_then(|n| usize::try_from(n).ok());
        sample.prompt_tokens = count("prompt_tokens").unwrap_or(sample.prompt_tokens);
        sample.output_tokens = count("completion_tokens").or(sample.output_tokens);
        Ok(())
    }
}

/// Lines as bytes come.
#[derive(Default)]
struct LineReader(Vec<u8>);

impl LineReader {
    fn take(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn next(&mut self) -> Option<String> {
        let end = self.0.iter().position(|b| *b == b'\n')?;
        let line: Vec<u8> = self.0.drain(..=end).collect();
        Some(String::from_utf8_lossy(&line).trim_end().to_string())
    }
}
