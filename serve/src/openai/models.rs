//! `/v1/models`.

use crate::engine::{Offer, RefusalKind};
use crate::errors::{refusal, Result};
use crate::http::{blocking, json, query, truth, App};
use crate::native::props::meta;
use crate::native::router::status;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{json, Value};
use std::sync::Arc;

/// All models that requests may name, as they are now; with `reload`, those that are loaded too.
pub(crate) async fn models(State(app): State<Arc<App>>, request: Request) -> Result<Response> {
    let running = query(&request, "reload").and_then(|word| truth(&word)).unwrap_or(false);
    let engine = app.engine.clone();
    let offers = blocking(move || {
        engine.rescan(running);
        Ok(engine.offers())
    });
    let data: Value = offers.await?.iter().map(model).collect();
    Ok(json(StatusCode::OK, &json!({"object": "list", "data": data})))
}

/// One of them.
pub(crate) async fn one(State(app): State<Arc<App>>, Path(name): Path<String>) -> Result<Response> {
    let offers = app.engine.offers();
    let offer = offers.iter().find(|offer| offer.is_named(&name));
    let offer = offer.ok_or_else(|| refusal(RefusalKind::NotFound, format!("The model {name:?} does not exist")))?;
    Ok(json(StatusCode::OK, &model(offer)))
}

fn model(offer: &Offer) -> Value {
    let takes = offer.properties.as_deref().map_or([false; 2], |p| [p.vision, p.audio]);
    let more = ["image", "audio"].into_iter().zip(takes).filter(|(_, takes)| *takes).map(|(name, _)| name);
    let inputs: Vec<&str> = std::iter::once("text").chain(more).collect();
    json!({
        "id": offer.name,
        "aliases": offer.aliases,
        "tags": offer.tags,
        "object": "model",
        "created": offer.created,
        "owned_by": "pumex",
        "path": offer.path,
        "architecture": {"input_modalities": inputs, "output_modalities": ["text"]},
        "status": status(offer.state, offer.failure.as_deref()),
        "meta": offer.properties.as_deref().map(meta),
    })
}
