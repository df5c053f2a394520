//! `/health`, `/live`, `/ready`.

use crate::engine::Health;
use crate::errors::Result;
use crate::http::{json, App};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::json;
use std::sync::Arc;

/// Whether requests are served: 200, or 503 while a model is loaded, when the engine failed, and when the server stops.
pub(crate) async fn health(State(app): State<Arc<App>>) -> Result<Response> {
    app.ready()?;
    Ok(json(StatusCode::OK, &json!({"status": "ok"})))
}

/// Whether the process is worth keeping: 200 unless the engine failed.
pub(crate) async fn live(State(app): State<Arc<App>>) -> Result<Response> {
    match app.health() {
        Health::Failed(_) => app.ready().map(|()| Response::default()),
        _ => Ok(json(StatusCode::OK, &json!({"status": "ok"}))),
    }
}
