//! What every request passes before its handler: sizes, names, pages, keys; and what every answer gets.

use super::app::{AUTOLOAD, WARNINGS};
use super::worker_pool::KEY;
use super::{proxies, query, truth, App};
use crate::auth::Verdict;
use crate::cors;
use crate::engine::Holder;
use crate::errors::{Cause, ErrorShape, RequestFault, Result};
use crate::id;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{header, HeaderMap, HeaderName, HeaderValue, Method, Version};
use axum::middleware::Next;
use axum::response::Response;
use bytes::Bytes;
use std::future::Future;
use std::net::IpAddr;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::pin::{pin, Pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

/// Who asks.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    /// The address, where the connection has one.
    pub peer: Option<IpAddr>,
    /// The number of the key, where one is needed.
    pub key: Option<usize>,
}

impl Caller {
    /// Whose what is kept for the request is. With several keys each has a folder, by the key itself: their order may change.
    pub fn holder(&self, app: &App) -> Holder {
        let key = self.key.map(|key| key.to_string()).unwrap_or_default();
        Holder { key, folder: self.key.filter(|_| app.keys.len() > 1).and_then(|key| app.keys.folder(key)) }
    }
}

/// Paths that need no key: what tells whether the server lives, and the page, which asks for the key itself.
const OPEN: &[&str] = &["/health", "/v1/health", "/live", "/ready"];

/// Lets a request through to its handler, or refuses it; renders faults.
pub(super) async fn guard(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Response {
    let shape = ErrorShape::of(request.uri().path(), request.headers());
    let id = id::new("req_");
    let origin = request.headers().get(header::ORIGIN).cloned();
    let ends = request.headers().contains_key(header::TRANSFER_ENCODING);
    let unread = Unread::watch(&mut request);
    let preflight = request.method() == Method::OPTIONS;
    let autoload = query(&request, "autoload").and_then(|word| truth(&word));
    let warnings = Arc::new(Mutex::new(Vec::new()));
    let answer = match check(&app, &mut request) {
        Ok(()) if preflight => Ok(Response::new(Body::empty())),
        Ok(()) => {
            let key = request.extensions().get::<Caller>().and_then(|caller| caller.key);
            let handler = KEY.scope(key, AUTOLOAD.scope(autoload, WARNINGS.scope(warnings.clone(), next.run(request))));
            catch_panics(handler).await.inspect_err(|_| app.count_panic())
        }
        Err(fault) => Err(fault),
    };
    let mut answer = match answer {
        Ok(answer) => match answer.extensions().get::<RequestFault>() {
            Some(fault) => shape.response(fault, &id),
            None => answer,
        },
        Err(fault) => shape.response(&fault, &id),
    };
    let headers = answer.headers_mut();
    if let (Some(name), Ok(id)) = (shape.id_header(), HeaderValue::from_str(&id)) {
        headers.insert(HeaderName::from_static(name), id);
    }
    tell(headers, &warnings.lock().unwrap_or_else(PoisonError::into_inner));
    if let Some(origin) = origin.filter(|o| o.to_str().is_ok_and(|o| cors::allows(&app.settings.cors, o))) {
        cors::allow(headers, &origin);
        if preflight {
            cors::allow_methods(headers);
        }
    }
    // A body in chunks may have come with a length beside, which another program between may have believed. What is left of a body that
    // was not read would be taken for the next request.
    if ends || unread.is_some_and(|unread| unread.is_left()) || app.stops() {
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    answer
}

/// Longest text of warnings in a header.
const LONGEST: usize = 2000;

/// Tells in a header what of a request is not done as it says.
fn tell(headers: &mut HeaderMap, warnings: &[String]) {
    if warnings.is_empty() {
        return;
    }
    let plain = |c: char| if c.is_ascii() && !c.is_ascii_control() { c } else { '?' };
    let text: String = warnings.join("; ").chars().map(plain).take(LONGEST).collect();
    tracing::warn!("a request is not done as it says: {text}");
    if let Ok(text) = HeaderValue::from_str(&text) {
        headers.insert(HeaderName::from_static("x-pumex-warning"), text);
    }
}

/// A body, and whether its end was seen.
struct Unread(Arc<AtomicBool>);

impl Unread {
    /// Watches a request's body; none where it has none.
    fn watch(request: &mut Request) -> Option<Unread> {
        if http_body::Body::is_end_stream(request.body()) {
            return None;
        }
        let over = Arc::new(AtomicBool::new(false));
        let body = std::mem::take(request.body_mut());
        *request.body_mut() = Body::new(GuardedBody { body, over: over.clone() });
        Some(Unread(over))
    }

    fn is_left(&self) -> bool {
        !self.0.load(Ordering::Relaxed)
    }
}

/// A body that tells when it is over.
struct GuardedBody {
    body: Body,
    over: Arc<AtomicBool>,
}

impl http_body::Body for GuardedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context,
    ) -> Poll<Option<std::result::Result<http_body::Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        if matches!(polled, Poll::Ready(None)) || http_body::Body::is_end_stream(&self.body) {
            self.over.store(true, Ordering::Relaxed);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        http_body::Body::is_end_stream(&self.body)
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.body.size_hint()
    }
}

/// All that a request can be refused for before its body is read.
fn check(app: &App, request: &mut Request) -> Result<()> {
    let limits = &app.settings.limits;
    let length = request.uri().path_and_query().map_or(0, |p| p.as_str().len());
    if length > limits.uri {
        return Err(RequestFault::new(
            Cause::UriTooLong,
            format!("the path has {length} bytes of at most {}", limits.uri),
        ));
    }
    let headers = request.headers();
    let length: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
    if length > limits.headers {
        let text = format!("the headers have {length} bytes of at most {}", limits.headers);
        return Err(RequestFault::new(Cause::HeadersTooLong, text));
    }
    // With several, or none, programs between may have believed another one.
    let hosts = headers.get_all(header::HOST).iter().count();
    if hosts > 1 || (hosts == 0 && request.version() == Version::HTTP_11) {
        return Err(crate::errors::invalid("", format!("expected one header Host, found {hosts}")));
    }
    let host = headers.get(header::HOST).map(|h| h.to_str().unwrap_or_default());
    let peer = request.extensions().get::<Caller>().and_then(|c| c.peer);
    // Nobody's page reaches a Unix socket.
    if peer.is_some() && host.is_some_and(|h| !cors::host_is_known(&app.settings, h)) {
        return Err(RequestFault::new(Cause::Forbidden, "the header Host names another site (see --allowed-hosts)"));
    }
    let changes = !matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
    if let Some(origin) = headers.get(header::ORIGIN).filter(|_| changes && app.keys.len() == 0) {
        let origin = origin.to_str().unwrap_or_default();
        if !cors::is_own(origin, host) && !cors::allows(&app.settings.cors, origin) {
            return Err(RequestFault::new(Cause::Forbidden, "pages of another site may not ask (see --cors-origins)"));
        }
    }
    let path = request.uri().path();
    if request.method() == Method::OPTIONS || OPEN.contains(&path) || super::pages::is_page(path) {
        return Ok(());
    }
    let verdict = app.keys.judge(key(headers), proxies::client(peer, headers, &app.settings.trusted_proxies));
    match verdict {
        Verdict::Open => Ok(()),
        Verdict::Key(number) => {
            request.extensions_mut().insert(Caller { peer, key: Some(number) });
            Ok(())
        }
        Verdict::Wrong => Err(RequestFault::new(Cause::BadKey, "Invalid API Key")),
        Verdict::Barred => Err(RequestFault::new(Cause::TooManyFailures, "too many wrong keys came from this address")),
    }
}

/// The key that a request brings, in either of two headers.
fn key(headers: &HeaderMap) -> Option<&[u8]> {
    let bearer = headers.get(header::AUTHORIZATION).and_then(|v| {
        let (scheme, key) = v.as_bytes().split_at_checked(7)?;
        scheme.eq_ignore_ascii_case(b"bearer ").then(|| key.trim_ascii())
    });
    bearer.or_else(|| headers.get("x-api-key").map(HeaderValue::as_bytes))
}

/// A handler's answer; a panic is a fault of this request alone.
async fn catch_panics(handler: impl Future<Output = Response>) -> Result<Response> {
    let mut handler = pin!(handler);
    std::future::poll_fn(move |cx| match catch_unwind(AssertUnwindSafe(|| handler.as_mut().poll(cx))) {
        Ok(poll) => poll.map(Ok),
        Err(_) => Poll::Ready(Err(RequestFault::new(Cause::Panic, "the server failed at this request"))),
    })
    .await
}
