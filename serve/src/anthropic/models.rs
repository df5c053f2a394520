//! `/v1/models`, which clients of two APIs ask: as Anthropic lists them where its header came, else as OpenAI does.

use crate::engine::{Offer, RefusalKind};
use crate::errors::{invalid, refusal, ErrorShape, Result};
use crate::http::{blocking, json, query, App};
use crate::id;
use crate::openai::models as openai;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{json, Value};
use std::sync::Arc;

/// All models that requests may name.
pub(crate) async fn models(State(app): State<Arc<App>>, request: Request) -> Result<Response> {
    if ErrorShape::of(request.uri().path(), request.headers()) != ErrorShape::Anthropic {
        return openai::models(State(app), request).await;
    }
    let engine = app.engine.clone();
    let offers = blocking(move || {
        engine.rescan(false);
        Ok(engine.offers())
    });
    Ok(json(StatusCode::OK, &page(&offers.await?, &request)?))
}

/// One of them.
pub(crate) async fn one(State(app): State<Arc<App>>, Path(name): Path<String>, request: Request) -> Result<Response> {
    if ErrorShape::of(request.uri().path(), request.headers()) != ErrorShape::Anthropic {
        return openai::one(State(app), Path(name)).await;
    }
    let offers = app.engine.offers();
    let offer = offers.iter().find(|offer| offer.is_named(&name));
    let offer = offer.ok_or_else(|| refusal(RefusalKind::NotFound, format!("model: {name}")))?;
    Ok(json(StatusCode::OK, &model(offer)))
}

/// Models of a page where nobody says, and most of them.
const USUAL: usize = 20;
const MOST: usize = 1000;

/// The page of all models that a request asks for by `limit`, `after_id` and `before_id`.
///
/// # Errors
/// A limit out of its range; an id that no model has.
fn page(offers: &[Offer], request: &Request) -> Result<Value> {
    let limit = match query(request, "limit") {
        None => USUAL,
        Some(text) => text.parse().ok().filter(|n| (1..=MOST).contains(n)).ok_or_else(|| {
            invalid("limit", format!("limit: expected a whole number from 1 to {MOST}, found {text:?}"))
        })?,
    };
    let place = |name: &str| match query(request, name) {
        None => Ok(None),
        Some(id) => match offers.iter().position(|offer| offer.is_named(&id)) {
            Some(at) => Ok(Some(at)),
            None => Err(invalid(name, format!("{name}: expected the id of a model, found {id:?}"))),
        },
    };
    let from = place("after_id")?.map_or(0, |at| at + 1);
    let to = place("before_id")?.unwrap_or(offers.len()).max(from);
    let all = &offers[from..to];
    // Before a model, the page is the one that ends there.
    let own = match query(request, "before_id") {
        Some(_) => &all[all.len().saturating_sub(limit)..],
        None => &all[..limit.min(all.len())],
    };
    let id = |offer: Option<&Offer>| offer.map(|offer| offer.name.clone());
    Ok(json!({
        "data": own.iter().map(model).collect::<Value>(),
        "has_more": own.len() < all.len(),
        "first_id": id(own.first()),
        "last_id": id(own.last()),
    }))
}

/// One model.
fn model(offer: &Offer) -> Value {
    json!({
        "type": "model",
        "id": offer.name,
        "display_name": offer.name,
        "created_at": id::date(offer.created),
    })
}
