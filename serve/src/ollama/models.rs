//! `/api/tags`, `/api/ps`, `/api/show`, `/api/version`.

use crate::engine::{ModelProperties, ModelState, Offer, RefusalKind};
use crate::errors::{refusal, Result};
use crate::fields::Fields;
use crate::http::{json, read, App};
use crate::id;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{json, Value};
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// Seconds that a model is said to stay: it stays until another needs its place.
const STAYS: u64 = 100 * 365 * 86_400;

/// All models.
pub(crate) async fn tags(State(app): State<Arc<App>>) -> Result<Response> {
    let engine = app.engine.clone();
    let offers = app.work(move || {
        engine.rescan(false);
        Ok(engine.offers())
    });
    let models: Value = offers.await?.iter().map(model_list).collect();
    Ok(json(StatusCode::OK, &json!({ "models": models })))
}

/// Answers `/api/ps`: the models that are loaded.
pub(crate) async fn ps(State(app): State<Arc<App>>) -> Result<Response> {
    let offers = app.engine.offers();
    let models = offers.iter().filter(|o| o.state == ModelState::Loaded).map(|offer| {
        let mut model = model_list(offer);
        model["expires_at"] = id::date(id::seconds() + STAYS).into();
        model["size_vram"] = offer.properties.as_ref().map_or(0, |p| p.n_bytes).into();
        model["context_length"] = offer.properties.as_ref().map_or(0, |p| p.n_ctx).into();
        model
    });
    Ok(json(StatusCode::OK, &json!({ "models": models.collect::<Value>() })))
}

/// One of them.
pub(crate) async fn show(State(app): State<Arc<App>>, request: Request) -> Result<Response> {
    let body = read(&app, request).await?;
    let fields = Fields::of(&body)?;
    let name = match fields.text("name")? {
        Some(name) => name,
        None => fields.require_text("model")?,
    };
    let offers = app.engine.offers();
    let known = |n: &str| offers.iter().find(|offer| offer.is_named(n));
    let offer = known(name).or_else(|| known(name.strip_suffix(":latest")?));
    let offer = offer.ok_or_else(|| refusal(RefusalKind::NotFound, format!("model '{name}' not found")))?;
    let p = offer.properties.as_deref();
    let value = json!({
        "license": "",
        "modelfile": "",
        "parameters": "",
        "template": p.and_then(|p| p.chat_template.clone()).unwrap_or_default(),
        "details": details(p),
        "model_info": p.map_or_else(|| json!({}), |p| p.metadata.clone()),
        "capabilities": p.map(capabilities).unwrap_or_default(),
        "modified_at": id::date(offer.created),
    });
    Ok(json(StatusCode::OK, &value))
}

/// The version of Ollama whose interface this is, which its clients compare with the one that they need.
const INTERFACE: &str = "0.12.11";

/// The interface's version; the program's own is in `/props`.
pub(crate) async fn version() -> Result<Response> {
    Ok(json(StatusCode::OK, &json!({ "version": INTERFACE })))
}

fn model_list(offer: &Offer) -> Value {
    // Files of gigabytes are not read for this: a name's digest tells models apart as well.
    let digest: String = Sha256::digest(offer.name.as_bytes()).iter().map(|b| format!("{b:02x}")).collect();
    json!({
        "name": offer.name,
        "model": offer.name,
        "modified_at": id::date(offer.created),
        "size": offer.file_bytes,
        "digest": digest,
        "details": details(offer.properties.as_deref()),
    })
}

fn details(p: Option<&ModelProperties>) -> Value {
    let family = p.map_or("", |p| p.architecture.as_str());
    json!({
        "parent_model": "",
        "format": "gguf",
        "family": family,
        "families": [family],
        "parameter_size": p.map_or_else(String::new, |p| count(p.n_params)),
        "quantization_level": p.map_or("", |p| p.file_type.as_str()),
    })
}

/// A number of weights, as `7.2B`.
fn count(n: u64) -> String {
    match n {
        1_000_000_000.. => format!("{:.1}B", n as f64 / 1e9),
        1_000_000.. => format!("{:.1}M", n as f64 / 1e6),
        _ => n.to_string(),
    }
}

fn capabilities(p: &ModelProperties) -> Vec<&'static str> {
    if p.embeds.is_some() {
        return vec!["embedding"];
    }
    let media = [("vision", p.vision), ("audio", p.audio)];
    let all = [("completion", true), ("tools", p.tools), ("insert", p.infills), ("thinking", p.reasoning)];
    all.into_iter().chain(media).filter(|(_, has)| *has).map(|(name, _)| name).collect()
}
