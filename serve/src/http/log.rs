//! A line for each request.

use super::App;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use std::sync::Arc;
use std::time::Instant;

/// Tells method, path, status, and milliseconds until the answer began, where that is wanted.
pub(super) async fn log(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let Some(log) = app.settings.log else { return next.run(request).await };
    let (begun, method, path) = (Instant::now(), request.method().clone(), request.uri().path().to_string());
    let response = next.run(request).await;
    let (status, ms) = (response.status().as_u16(), begun.elapsed().as_secs_f64() * 1e3);
    log(format_args!("{method} {path:.200} {status} {ms:.0} ms\n"));
    response
}
