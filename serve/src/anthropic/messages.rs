//! `/v1/messages` and `/v1/messages/count_tokens`.

use super::{events::MessageEvents, request};
use crate::answers::{AnswerBlock, AnswerParts};
use crate::engine::{Finish, FinishReason};
use crate::errors::Result;
use crate::fields::Fields;
use crate::frames::Format;
use crate::http::{json, read, App, Caller};
use crate::media::BodyMedia;
use crate::running_requests::Flow;
use crate::{id, stream};
use axum::extract::{Extension, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{json, Value};
use std::sync::Arc;

/// Answers a conversation.
pub(crate) async fn messages(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response> {
    let body = read(&app, request).await?;
    let fields = Fields::of(&body)?;
    let mut media = BodyMedia::default();
    let mut request = request::generate(&fields, &caller, &mut media)?;
    let streams = fields.boolean("stream")?.unwrap_or(false);
    let model = app.model(fields.text("model")?).await?;
    media.settle(&app, model.properties(), &mut request.prompt).await?;
    let (id, name) = (id::new("msg_"), model.properties().name.clone());
    let flow = Flow::start(&app, model, vec![request]).await?;
    if streams {
        return Ok(stream::response(&app, flow, MessageEvents::new(id, name), Format::ServerSent));
    }
    let answer = flow.collect().await?.pop().and_then(|mut a| a.list.pop()).unwrap_or_default();
    let mut value = message(&id, &name);
    value["content"] = answer.blocks.iter().map(block).collect();
    end(&mut value, &answer);
    if let Some(finish) = &answer.finish {
        value["usage"] = usage(finish);
    }
    Ok(json(StatusCode::OK, &value))
}

/// How many tokens a conversation is.
pub(crate) async fn count_tokens(State(app): State<Arc<App>>, request: Request) -> Result<Response> {
    let body = read(&app, request).await?;
    let fields = Fields::of(&body)?;
    let mut media = BodyMedia::default();
    let mut chat = request::chat(&fields, &mut media)?;
    let model = app.model(fields.text("model")?).await?;
    media.bring(&app, model.properties(), &mut chat).await?;
    let (_, tokens) = app.work(move || model.render(&chat)).await?;
    Ok(json(StatusCode::OK, &json!({ "input_tokens": tokens })))
}

/// A message without content.
pub(super) fn message(id: &str, model: &str) -> Value {
    json!({
        "id": id,
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": null,
        "stop_sequence": null,
    })
}

/// A block of a message.
fn block(block: &AnswerBlock) -> Value {
    match block {
        AnswerBlock::Text(text) => json!({"type": "text", "text": text}),
        AnswerBlock::Reasoning(text) => json!({"type": "thinking", "thinking": text, "signature": ""}),
        AnswerBlock::Call { id, name, arguments } => {
            let input: Value = serde_json::from_str(arguments).unwrap_or_else(|_| json!({}));
            json!({"type": "tool_use", "id": id, "name": name, "input": input})
        }
    }
}

/// Why a message is over.
pub(super) fn end(value: &mut Value, answer: &AnswerParts) {
    let (reason, sequence) = match answer.reason() {
        FinishReason::End => ("end_turn", None),
        FinishReason::Stop(text) => ("stop_sequence", Some(text)),
        FinishReason::Length => ("max_tokens", None),
        FinishReason::ContextFull => ("model_context_window_exceeded", None),
        FinishReason::ToolCalls => ("tool_use", None),
    };
    value["stop_reason"] = reason.into();
    value["stop_sequence"] = sequence.into();
}

/// `usage`: tokens read from the cache are counted beside those that were computed.
pub(super) fn usage(finish: &Finish) -> Value {
    json!({
        "input_tokens": finish.prompt_tokens.saturating_sub(finish.cached_tokens),
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": finish.cached_tokens,
        "output_tokens": finish.completion_tokens,
    })
}
