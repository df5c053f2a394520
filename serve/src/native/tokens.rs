//! `/tokenize`, `/detokenize`, `/apply-template`: text and ids without an answer.

use crate::errors::Result;
use crate::fields::Fields;
use crate::http::{json, read, App};
use crate::media::BodyMedia;
use crate::openai::messages;
use crate::options;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{json, Value};
use std::sync::Arc;

/// Ids of a text, with their pieces if asked for.
pub(crate) async fn tokenize(State(app): State<Arc<App>>, request: Request) -> Result<Response> {
    let body = read(&app, request).await?;
    let fields = Fields::of(&body)?;
    let text = fields.text("content")?.unwrap_or_default().to_string();
    let special = fields.boolean("add_special")?.unwrap_or(false);
    let parse = fields.boolean("parse_special")?.unwrap_or(true);
    let pieces = fields.boolean("with_pieces")?.unwrap_or(false);
    let model = app.model(fields.text("model")?).await?;
    let tokens: Value = app
        .work(move || {
            let ids = model.tokenize(&text, special, parse)?;
            Ok(match pieces {
                false => ids.into(),
                true => {
                    let mut pieces = Vec::new();
                    for (id, bytes) in ids.iter().zip(model.pieces(&ids)?) {
                        // Special tokens have no text but their names.
                        let named = bytes.is_empty().then(|| model.detokenize(&[*id])).transpose()?;
                        pieces.push(json!({"id": id, "piece": named.map_or_else(|| piece(bytes), Value::from)}));
                    }
                    pieces.into()
                }
            })
        })
        .await?;
    Ok(json(StatusCode::OK, &json!({ "tokens": tokens })))
}

/// A token's text, or its bytes where they are no whole characters.
fn piece(bytes: Vec<u8>) -> Value {
    String::from_utf8(bytes).map_or_else(|e| e.into_bytes().into(), Value::from)
}

/// The text of ids.
pub(crate) async fn detokenize(State(app): State<Arc<App>>, request: Request) -> Result<Response> {
    let body = read(&app, request).await?;
    let fields = Fields::of(&body)?;
    let ids = fields.list("tokens")?.unwrap_or_default().iter().enumerate();
    let ids: Vec<u32> = ids
        .map(|(i, v)| options::id(v).ok_or_else(|| fields.wrong(&format!("tokens/{i}"), "an id", v)))
        .collect::<Result<_>>()?;
    let model = app.model(fields.text("model")?).await?;
    let text = app.work(move || model.detokenize(&ids)).await?;
    Ok(json(StatusCode::OK, &json!({ "content": text })))
}

/// The prompt that the template makes of a conversation.
pub(crate) async fn apply_template(State(app): State<Arc<App>>, request: Request) -> Result<Response> {
    let body = read(&app, request).await?;
    let fields = Fields::of(&body)?;
    let mut media = BodyMedia::default();
    let mut chat = messages::chat(&fields, app.settings.prefills, &mut media)?;
    let model = app.model(fields.text("model")?).await?;
    media.bring(&app, model.properties(), &mut chat).await?;
    let (prompt, _) = app.work(move || model.render(&chat)).await?;
    Ok(json(StatusCode::OK, &json!({ "prompt": prompt })))
}
