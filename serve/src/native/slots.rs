//! `/slots`: what each slot does, and its contents saved, restored or erased.

use crate::engine::{Holder, Model, RefusalKind, SlotStatus};
use crate::errors::{refusal, unsupported, Result};
use crate::fields::Fields;
use crate::http::{json, query, read, App, Caller};
use crate::timings;
use axum::extract::{Extension, Path, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{json, Value};
use std::sync::Arc;
use std::time::Instant;

fn check_allowed(app: &App) -> Result<()> {
    match app.settings.slots {
        true => Ok(()),
        false => Err(unsupported("This server does not support slots endpoint. Start it with `--slots`")),
    }
}

/// What each slot does. With `fail_on_no_slot`, a server whose slots are all at work is unavailable.
pub(crate) async fn slots(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response> {
    check_allowed(&app)?;
    let whose = caller.holder(&app);
    let model = app.find_loaded(query(&request, "model").as_deref());
    let slots = model.map(|m| m.slots(&whose)).unwrap_or_default();
    if query(&request, "fail_on_no_slot").is_some() && slots.iter().all(|s| s.busy) {
        return Err(refusal(RefusalKind::Unavailable, "no slot available").into());
    }
    Ok(json(StatusCode::OK, &slots.iter().map(slot).collect::<Value>()))
}

fn slot(s: &SlotStatus) -> Value {
    let remaining = match (s.busy, s.remaining) {
        (true, Some(n)) => n as i64,
        _ => -1,
    };
    let decoded = if s.busy { s.generated } else { 0 };
    let mut value = json!({
        "id": s.id,
        "n_ctx": s.n_ctx,
        "speculative": s.timings.draft_tokens > 0,
        "is_processing": s.busy,
        "next_token": [{"has_next_token": s.busy, "has_new_line": false, "n_remain": remaining, "n_decoded": decoded}],
        "n_held": s.held,
        "n_prompt_tokens": s.prompt_tokens,
        "n_prompt_tokens_processed": s.prompt_done,
    });
    if let Some(request) = s.request {
        value["id_task"] = request.into();
    }
    if let Some(settings) = &s.settings {
        value["params"] = settings.clone();
        value["timings"] = timings::json(&s.timings);
    }
    value
}

/// `POST /slots/N?action=save|restore|erase`.
pub(crate) async fn act(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response> {
    check_allowed(&app)?;
    let whose = caller.holder(&app);
    let slot: usize = id.parse().map_err(|_| crate::errors::invalid("", "Invalid slot ID"))?;
    let action = query(&request, "action").unwrap_or_default();
    let begun = Instant::now();
    let (model, name) = match action.as_str() {
        "save" | "restore" => {
            let body = read(&app, request).await?;
            let fields = Fields::of(&body)?;
            (app.model(fields.text("model")?).await?, fields.require_text("filename")?.to_string())
        }
        "erase" => (app.model(query(&request, "model").as_deref()).await?, String::new()),
        _ => return Err(crate::errors::invalid("action", "action: expected one of save, restore, erase")),
    };
    let value = app.work(move || change((model.as_ref(), &whose), &action, slot, &name, begun)).await?;
    Ok(json(StatusCode::OK, &value))
}

fn change(
    (model, whose): (&dyn Model, &Holder),
    action: &str,
    slot: usize,
    name: &str,
    begun: Instant,
) -> std::result::Result<Value, crate::engine::Refusal> {
    let ms = || begun.elapsed().as_secs_f64() * 1e3;
    Ok(match action {
        "save" => {
            let (tokens, bytes) = model.save_slot(slot, name, whose)?;
            json!({"id_slot": slot, "filename": name, "n_saved": tokens, "n_written": bytes, "timings": {"save_ms": ms()}})
        }
        "restore" => {
            let (tokens, bytes) = model.restore_slot(slot, name, whose)?;
            json!({"id_slot": slot, "filename": name, "n_restored": tokens, "n_read": bytes, "timings": {"restore_ms": ms()}})
        }
        _ => json!({"id_slot": slot, "n_erased": model.erase_slot(slot, whose)?}),
    })
}
