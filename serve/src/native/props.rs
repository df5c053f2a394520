//! `/props`, and what routers ask for: `/server_info`, `/model_info`.

use crate::engine::RefusalKind;
use crate::engine::{ModelProperties, ModelState, Offer, MEDIA_MARK};
use crate::errors::{refusal, unsupported, Result};
use crate::http::{json, query, App};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{json, Value};
use std::sync::Arc;

/// What is known of the model that a request's query names, without waking it: of one that was never loaded, its offer alone.
fn model_properties(app: &App, request: &Request) -> Result<(Offer, Option<ModelProperties>)> {
    let name = query(request, "model").filter(|name| !name.is_empty());
    let offers = app.engine.offers();
    let loaded = app.find_loaded(name.as_deref()).map(|model| model.properties().clone());
    let named = |name: &str| offers.iter().find(|offer| offer.is_named(name));
    let only = || offers.first().filter(|_| offers.len() == 1 && app.engine.router().is_none());
    let offer = match (&loaded, name.as_deref()) {
        (Some(properties), _) => named(&properties.name),
        (None, Some(name)) => named(name).or_else(only),
        (None, None) => offers.first(),
    };
    let missing =
        || refusal(RefusalKind::NotFound, format!("there is no model {:.200}", name.clone().unwrap_or_default()));
    let offer = offer.ok_or_else(missing)?.clone();
    let properties = loaded.or_else(|| offer.properties.as_deref().cloned());
    Ok((offer, properties))
}

/// What is known of the model that a request's query names, which was loaded once.
fn properties(app: &App, request: &Request) -> Result<ModelProperties> {
    let (_, properties) = model_properties(app, request)?;
    properties.ok_or_else(|| refusal(RefusalKind::Unavailable, "Loading model").into())
}

/// How the server and its model are set up.
pub(crate) async fn props(State(app): State<Arc<App>>, request: Request) -> Result<Response> {
    let router = app.engine.router();
    let mut value = match router.filter(|_| query(&request, "model").is_none_or(|name| name.is_empty())) {
        Some(router) => json!({
            "role": "router",
            "max_instances": router.most,
            "models_autoload": router.autoload,
            "default_generation_settings": {"params": {}, "n_ctx": 0},
            "model_alias": "pumex",
            "model_path": "none",
        }),
        None => match model_properties(&app, &request)? {
            (offer, Some(properties)) => model_props(properties, offer.state),
            (_, None) if router.is_none() => return Err(refusal(RefusalKind::Unavailable, "Loading model").into()),
            (offer, None) => json!({
                "default_generation_settings": {"params": {}, "n_ctx": 0},
                "model_alias": offer.name,
                "model_path": offer.path,
                "is_sleeping": true,
            }),
        },
    };
    value["endpoint_slots"] = app.settings.slots.into();
    value["endpoint_props"] = false.into();
    value["endpoint_metrics"] = app.settings.metrics.into();
    value["ui"] = app.settings.page.into();
    value["build_info"] = format!("pumex-{}", app.settings.version).into();
    Ok(json(StatusCode::OK, &value))
}

fn model_props(p: ModelProperties, state: ModelState) -> Value {
    json!({
        "default_generation_settings": {"params": p.default_settings, "n_ctx": p.n_ctx},
        "total_slots": p.n_slots,
        "model_alias": p.name,
        "model_path": p.path,
        "modalities": {"vision": p.vision, "audio": p.audio, "video": false},
        "media_marker": MEDIA_MARK,
        "chat_template": p.chat_template.unwrap_or_default(),
        "chat_template_error": p.chat_template_error,
        "chat_template_caps": {"supports_tools": p.tools, "supports_reasoning": p.reasoning},
        "bos_token": p.bos_token,
        "eos_token": p.eos_token,
        "is_sleeping": matches!(state, ModelState::Sleeping | ModelState::Unloaded),
        "device": p.device,
    })
}

/// Properties are not changed over HTTP.
pub(crate) async fn set_props() -> Result<Response> {
    Err(unsupported("This server does not support changing global properties."))
}

/// What sglang-router asks for.
pub(crate) async fn server_info(State(app): State<Arc<App>>, request: Request) -> Result<Response> {
    let p = properties(&app, &request)?;
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

/// What sglang-router asks a server for.
pub(crate) async fn model_info(State(app): State<Arc<App>>, request: Request) -> Result<Response> {
    let p = properties(&app, &request)?;
    Ok(json(
        StatusCode::OK,
        &json!({"model_path": p.path, "is_generation": p.embeds.is_none(), "served_model_name": p.name}),
    ))
}

/// `meta` of a model in lists.
pub(crate) fn meta(p: &ModelProperties) -> Value {
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
