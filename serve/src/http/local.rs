//! All endpoints without a socket, for those in the same process: a request's body in, an answer's bytes out.

use super::{app::App, router, stop::Stopper, Caller, Error, HttpSettings};
use crate::engine::Engine;
use axum::body::Body;
use axum::http::{header, Method, Request};
use axum::Router;
use http_body_util::BodyExt;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;
use tower_service::Service;

/// All endpoints of an engine.
pub struct Local {
    router: Router,
    runtime: Runtime,
    stopper: Stopper,
}

/// An answer under way. To drop it ends its request.
pub struct InProcessAnswer {
    /// The status.
    pub status: u16,
    /// Whether it comes in server-sent events; else it is one JSON text.
    pub streams: bool,
    body: Body,
}

impl Local {
    /// The endpoints of an engine. Addresses and keys of the settings mean nothing.
    ///
    /// # Errors
    /// The system has no threads.
    pub fn new(engine: Arc<dyn Engine>, settings: HttpSettings) -> Result<Local, Error> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("local")
            .enable_all()
            .build()
            .map_err(Error::io("threads for requests"))?;
        let stopper = Stopper::new();
        let app = Arc::new(App::new(engine, settings, &stopper)?);
        Ok(Local { router: router::router(app), runtime, stopper })
    }

    /// Posts a body of JSON to a path. Waits for the status, and calls `pause` from time to time: what it gives ends the wait, and the
    /// request.
    ///
    /// # Errors
    /// What `pause` gives.
    pub fn post<E>(
        &self,
        path: &str,
        body: Vec<u8>,
        pause: impl FnMut() -> Result<(), E>,
    ) -> Result<InProcessAnswer, E> {
        let mut request = Request::new(Body::from(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = path.parse().unwrap_or_default();
        let headers = request.headers_mut();
        headers.insert(header::HOST, header::HeaderValue::from_static("localhost"));
        headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
        request.extensions_mut().insert(Caller { peer: None, key: None });
        let mut router = self.router.clone();
        let answer = self.wait(async move { router.call(request).await }, pause)?;
        let (head, body) = match answer {
            Ok(answer) => answer.into_parts(),
            Err(never) => match never {},
        };
        let kind = head.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        Ok(InProcessAnswer { status: head.status.as_u16(), streams: kind.starts_with("text/event-stream"), body })
    }

    /// More bytes of an answer; none when it is over. Waits as [`Local::post`] does.
    ///
    /// # Errors
    /// What `pause` gives.
    pub fn more<E>(
        &self,
        answer: &mut InProcessAnswer,
        pause: impl FnMut() -> Result<(), E>,
    ) -> Result<Option<Vec<u8>>, E> {
        // What breaks off says so in its last bytes.
        let frame = self.wait(answer.body.frame(), pause)?;
        Ok(frame.and_then(Result::ok).and_then(|frame| frame.into_data().ok()).map(|bytes| bytes.to_vec()))
    }

    fn wait<T, E>(
        &self,
        work: impl std::future::Future<Output = T>,
        mut pause: impl FnMut() -> Result<(), E>,
    ) -> Result<T, E> {
        self.runtime.block_on(async {
            let mut work = std::pin::pin!(work);
            loop {
                match tokio::time::timeout(PAUSE, &mut work).await {
                    Ok(done) => return Ok(done),
                    Err(_) => pause()?,
                }
            }
        })
    }
}

/// How often it is asked whether to go on waiting.
const PAUSE: Duration = Duration::from_millis(50);

impl Drop for Local {
    fn drop(&mut self) {
        self.stopper.stop();
    }
}
