//! The pages for the browser, sent.

use super::App;
use crate::errors::{Cause, RequestFault, Result};
use crate::page;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{header, HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// Whether a path is a page's or one of its files: these need no key, even where there are none.
pub(super) fn is_page(path: &str) -> bool {
    page::find(path).is_some()
}

/// A page's file, or that there is none.
pub(super) async fn page(State(app): State<Arc<App>>, request: Request) -> Result<Response> {
    let path = request.uri().path();
    let asset = page::find(path).filter(|_| app.settings.page && matches!(request.method().as_str(), "GET" | "HEAD"));
    let asset = asset.ok_or_else(|| RequestFault::new(Cause::NoSuchPath, format!("there is no {path}")))?;
    let digest = Sha256::digest(asset.bytes);
    let tag = format!("\"{}\"", digest[..16].iter().map(|b| format!("{b:02x}")).collect::<String>());
    let known = request.headers().get(header::IF_NONE_MATCH).is_some_and(|t| t.as_bytes() == tag.as_bytes());
    let mut response = Response::new(if known { Body::empty() } else { Body::from(asset.bytes) });
    if known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let headers = response.headers_mut();
    for (name, value) in page::HEADERS {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(asset.content_type()));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(asset.cache_control()));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        headers.insert(header::ETAG, tag);
    }
    Ok(response)
}
