//! Models loaded and unloaded by name: llama.cpp's router.

use crate::errors::Result;
use crate::fields::Fields;
use crate::http::{blocking, json, read, App};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::json;
use std::sync::Arc;

/// `POST /models/load`: returns when it is loaded.
pub(crate) async fn load(State(app): State<Arc<App>>, request: Request) -> Result<Response> {
    let body = read(&app, request).await?;
    let name = Fields::of(&body)?.required_text("model")?.to_string();
    let engine = app.engine.clone();
    app.ready()?;
    app.unless_stopping(blocking(move || engine.model(Some(&name)).map(drop))).await?;
    Ok(json(StatusCode::OK, &json!({"success": true})))
}

/// `POST /models/unload`: returns when its requests are over and it is unloaded.
pub(crate) async fn unload(State(app): State<Arc<App>>, request: Request) -> Result<Response> {
    let body = read(&app, request).await?;
    let name = Fields::of(&body)?.required_text("model")?.to_string();
    let engine = app.engine.clone();
    blocking(move || engine.unload(&name)).await?;
    Ok(json(StatusCode::OK, &json!({"success": true})))
}
