//! `/v1/models`.

use crate::engine::RefusalKind;
use crate::engine::{ModelState, Offer};
use crate::errors::{refusal, Result};
use crate::http::{json, App};
use crate::native::props::meta;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{json, Value};
use std::sync::Arc;

/// All models that requests may name.
pub(crate) async fn models(State(app): State<Arc<App>>) -> Result<Response> {
    let data: Value = app.engine.offers().iter().map(model).collect();
    Ok(json(StatusCode::OK, &json!({"object": "list", "data": data})))
}

/// One of them.
pub(crate) async fn one(State(app): State<Arc<App>>, Path(name): Path<String>) -> Result<Response> {
    let offers = app.engine.offers();
    let offer = offers.iter().find(|o| o.name == name || o.aliases.contains(&name));
    let offer = offer.ok_or_else(|| refusal(RefusalKind::NotFound, format!("The model {name:?} does not exist")))?;
    Ok(json(StatusCode::OK, &model(offer)))
}

fn model(offer: &Offer) -> Value {
    let state = match offer.state {
        ModelState::Unloaded => "unloaded",
        ModelState::Loading => "loading",
        ModelState::Loaded => "loaded",
        ModelState::Sleeping => "sleeping",
        ModelState::Failed => "failed",
    };
    json!({
        "id": offer.name,
        "aliases": offer.aliases,
        "tags": offer.tags,
        "object": "model",
        "created": offer.created,
        "owned_by": "pumex",
        "status": {"value": state},
        "meta": offer.properties.as_ref().map(meta),
    })
}
