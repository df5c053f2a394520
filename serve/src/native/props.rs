//! `/props`, and what routers ask for: `/server_info`, `/model_info`.

use crate::engine::RefusalKind;
use crate::engine::{ModelState, Properties};
use crate::errors::{refusal, unsupported, Result};
use crate::http::{json, query, App};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{json, Value};
use std::sync::Arc;

/// What is known of the model that a request's query names, without waking it.
fn properties(app: &App, request: &Request) -> Result<(Properties, ModelState)> {
    let name = query(request, "model");
    if let Some(model) = app.loaded(name.as_deref()) {
        return Ok((model.properties().clone(), ModelState::Loaded));
    }
    let offers = app.engine.offers();
    let named = |n: &str| offers.iter().find(|o| o.name == n || o.aliases.iter().any(|a| a == n));
    let offer = match name.as_deref().filter(|n| !n.is_empty()) {
        Some(name) => {
            named(name).ok_or_else(|| refusal(RefusalKind::NotFound, format!("there is no model {name:?}")))?
        }
        None => offers.first().ok_or_else(|| refusal(RefusalKind::NotFound, "there is no model"))?,
    };
    match &offer.properties {
        Some(properties) => Ok((properties.clone(), offer.state)),
        None => Err(refusal(RefusalKind::Unavailable, "Loading model").into()),
    }
}

/// How the server and its model are set up.
pub(crate) async fn props(State(app): State<Arc<App>>, request: Request) -> Result<Response> {
    let (p, state) = properties(&app, &request)?;
    let value = json!({
        "default_generation_settings": {"params": p.default_settings, "n_ctx": p.n_ctx},
        "total_slots": p.n_slots,
        "model_alias": p.name,
        "model_path": p.path,
        "modalities": {"vision": false, "audio": false, "video": false},
        "endpoint_slots": app.settings.slots,
        "endpoint_props": false,
        "endpoint_metrics": app.settings.metrics,
        "ui": app.settings.page,
        "chat_template": p.chat_template.unwrap_or_default(),
        "chat_template_error": p.chat_template_error,
        "chat_template_caps": {"supports_tools": p.tools, "supports_reasoning": p.reasoning},
        "bos_token": p.bos_token,
        "eos_token": p.eos_token,
        "build_info": format!("pumex-{}", app.settings.version),
        "is_sleeping": matches!(state, ModelState::Sleeping | ModelState::Unloaded),
        "device": p.device,
    });
    Ok(json(StatusCode::OK, &value))
}

/// Properties are not changed over HTTP.
pub(crate) async fn set_props() -> Result<Response> {
    Err(unsupported("This server does not support changing global properties."))
}

/// What sglang-router asks for.
pub(crate) async fn server_info(State(app): State<Arc<App>>, request: Request) -> Result<Response> {
    let (p, _) = properties(&app, &request)?;
    let value = json!({
        "model_path": p.path,
        "served_model_name": p.name,
        "version": app.settings.version,
        "max_total_num_tokens": p.n_ctx * p.n_slots,
        "max_running_requests": p.n_slots,
        "context_length": p.n_ctx,
    });
    Ok(json(StatusCode::OK, &value))
}

/// Likewise.
pub(crate) async fn model_info(State(app): State<Arc<App>>, request: Request) -> Result<Response> {
    let (p, _) = properties(&app, &request)?;
    Ok(json(
        StatusCode::OK,
        &json!({"model_path": p.path, "is_generation": p.embeds.is_none(), "served_model_name": p.name}),
    ))
}

/// `meta` of a model in lists.
pub(crate) fn meta(p: &Properties) -> Value {
    json!({
        "vocab_type": p.vocab_type,
        "n_vocab": p.n_vocab,
        "n_ctx": p.n_ctx,
        "n_ctx_train": p.n_ctx_train,
        "n_embd": p.n_embd,
        "n_params": p.n_params,
        "size": p.n_bytes,
        "ftype": p.file_type,
    })
}
