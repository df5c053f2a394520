//! The endpoints without sockets.

use super::{router, App, Error, HttpSettings, Stopper};
use crate::engine::Engine;
use axum::body::Body;
use axum::extract::Request;
use axum::http::header;
use axum::Router;
use http_body_util::BodyExt;
use std::sync::Arc;
use tower_service::Service;

/// The endpoints without sockets, for programs that have these themselves. Limits of connections do not hold here.
pub struct Endpoints {
    router: Router,
    runtime: tokio::runtime::Runtime,
    /// Keeps the server from stopping.
    _stopper: Stopper,
}

impl Endpoints {
    /// The endpoints of an engine.
    ///
    /// # Errors
    /// The system has no threads.
    pub fn new(engine: Arc<dyn Engine>, settings: HttpSettings) -> Result<Endpoints, Error> {
        let stopper = Stopper::new();
        let app = Arc::new(App::new(engine, settings, &stopper)?);
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.map_err(Error::io("threads for requests"))?;
        Ok(Endpoints { router: router::router(app), runtime, _stopper: stopper })
    }

    /// Status and body of the answer to one request; none if the path is none. Blocks until the answer is whole.
    pub fn ask(&self, method: &str, path: &str, body: Vec<u8>) -> Option<(u16, Vec<u8>)> {
        let request = Request::builder().method(method).uri(path).header(header::HOST, "localhost");
        let mut request = request.body(Body::from(body)).ok()?;
        request.extensions_mut().insert(super::Caller { peer: None, key: None });
        let mut router = self.router.clone();
        self.runtime.block_on(async move {
            let Ok(answer) = router.call(request).await;
            let status = answer.status().as_u16();
            let body = answer.into_body().collect().await.ok()?;
            Some((status, body.to_bytes().to_vec()))
        })
    }
}
