//! Bodies of requests and answers.

use super::body_memory::BodyShare;
use super::form::{self, FormPart};
use super::App;
use crate::errors::{Cause, RequestFault, Result};
use crate::fields;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{header, HeaderValue, StatusCode};
use axum::response::Response;
use http_body_util::BodyExt;
use serde_json::Value;
use std::time::Duration;
use tokio::time::{timeout_at, Instant};

/// Bodies that are longer are read where that may take a while.
const LONG: usize = 64 << 10;

/// A form that a request brings, and the room that it takes for as long as it is there.
pub(crate) struct FormBody {
    kind: String,
    bytes: Vec<u8>,
    _room: BodyShare,
}

impl FormBody {
    /// Its fields.
    ///
    /// # Errors
    /// It is no form of several parts.
    pub fn parts(&self) -> Result<Vec<FormPart<'_>>> {
        form::parts(&self.kind, &self.bytes)
    }
}

/// The form that a request brings.
///
/// # Errors
/// A body that is too long or too slow; no room for it in time.
pub(crate) async fn read_form(app: &App, request: Request) -> Result<FormBody> {
    let kind = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.unwrap_or_default().to_string();
    let (bytes, until) = gather(app, request).await?;
    let room = app.room.take_bytes(bytes.len(), until).await?;
    Ok(FormBody { kind, bytes, _room: room })
}

/// The JSON that a request brings.
///
/// # Errors
/// A body that is too long, too slow, has too many values, or is no JSON; no room for it in time.
pub(crate) async fn read(app: &App, request: Request) -> Result<ParsedBody> {
    let (bytes, until) = gather(app, request).await?;
    let room = app.room.take(&bytes, app.settings.limits.values, until).await?;
    let value = match bytes.len() > LONG {
        false => fields::parse(&bytes)?,
        // Others are not to wait for it.
        true => match tokio::task::spawn_blocking(move || fields::parse(&bytes)).await {
            Ok(value) => value?,
            Err(_) => return Err(RequestFault::new(Cause::Panic, "the server failed at this request")),
        },
    };
    Ok(ParsedBody { value, _room: room })
}

/// A body's bytes, and until when room for them is waited for.
async fn gather(app: &App, request: Request) -> Result<(Vec<u8>, Instant)> {
    let limits = &app.settings.limits;
    let too_long = || {
        RequestFault::new(
            Cause::BodyTooLong,
            format!("the body is longer than the {} bytes that are read", limits.body),
        )
    };
    let length = request.headers().get(header::CONTENT_LENGTH).and_then(|l| l.to_str().ok()?.parse::<u64>().ok());
    if length.is_some_and(|l| l > limits.body as u64) {
        return Err(too_long());
    }
    let (start, mut body, mut bytes) = (Instant::now(), request.into_body(), Vec::new());
    loop {
        let earned = limits.body_time / 3 + Duration::from_secs((bytes.len() / 1024) as u64);
        let frame = timeout_at(start + earned.min(limits.body_time), body.frame()).await;
        let frame = frame.map_err(|_| RequestFault::new(Cause::BodyTimeout, "the body did not come in time"))?;
        match frame {
            None => break,
            Some(Err(e)) => return Err(crate::errors::invalid("", format!("the body breaks off: {e}"))),
            Some(Ok(frame)) => {
                let data = frame.into_data().unwrap_or_default();
                if bytes.len() + data.len() > limits.body {
                    return Err(too_long());
                }
                bytes.extend_from_slice(&data);
            }
        }
    }
    Ok((bytes, start + limits.body_time))
}

/// What a request brought, and the room that it takes for as long as it is there.
pub(crate) struct ParsedBody {
    value: Value,
    _room: BodyShare,
}

impl std::ops::Deref for ParsedBody {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.value
    }
}

/// A parameter of a path's query, decoded.
pub(crate) fn query(request: &Request, name: &str) -> Option<String> {
    let parts = request.uri().query()?.split('&');
    let value = parts.filter_map(|p| p.split_once('=').or(Some((p, "")))).find(|(key, _)| *key == name)?.1;
    let mut bytes = Vec::new();
    let mut rest = value.bytes();
    while let Some(byte) = rest.next() {
        let hex = |b: Option<u8>| b.and_then(|b| (b as char).to_digit(16));
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => u8::try_from(hex(rest.next())? * 16 + hex(rest.next())?).ok()?,
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}

/// What a parameter's word says; none if it is no truth value.
pub(crate) fn truth(word: &str) -> Option<bool> {
    match word {
        "true" | "1" => Some(true),
        "false" | "0" => Some(false),
        _ => None,
    }
}

/// An answer of JSON.
pub(crate) fn json(status: StatusCode, value: &Value) -> Response {
    let mut response = Response::new(Body::from(value.to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json; charset=utf-8"));
    response
}
