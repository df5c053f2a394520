//! `/lora-adapters`: the scales of adapters where a request of the same key names none.

use crate::errors::{invalid, Result};
use crate::fields::Fields;
use crate::http::{json, query, read, App, Caller};
use axum::extract::{Extension, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{json, Value};
use std::sync::Arc;

/// Lists them.
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response> {
    let model = app.model(query(&request, "model").as_deref()).await?;
    let each =
        model.adapters(&caller.holder(&app)).into_iter().map(|a| json!({"id": a.id, "path": a.path, "scale": a.scale}));
    Ok(json(StatusCode::OK, &each.collect::<Value>()))
}

/// Sets them: a list of ids and scales.
pub(crate) async fn set(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response> {
    let name = query(&request, "model");
    let body = json!({ "adapters": *read(&app, request).await? });
    let mut scales = Vec::new();
    if !body["adapters"].is_array() {
        return Err(invalid("", "the body must be a list of adapters with id and scale"));
    }
    for adapter in Fields::of(&body)?.objects("adapters")? {
        let id = adapter
            .count("id", 0..=i32::MAX as usize)?
            .ok_or_else(|| adapter.refuse("id", "this field is required"))?;
        scales.push((id, adapter.number("scale")?.unwrap_or(1.0)));
    }
    let model = app.model(name.as_deref()).await?;
    let whose = caller.holder(&app);
    app.work(move || model.set_adapters(&scales, &whose)).await?;
    Ok(json(StatusCode::OK, &json!({"success": true})))
}
