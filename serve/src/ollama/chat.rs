//! `/api/chat`.

use super::lines::{LineFrame, LineShape, OllamaLines};
use super::request;
use crate::context_fit::fitting;
use crate::engine::{Chat, Prompt};
use crate::errors::Result;
use crate::fields::Fields;
use crate::frames::Format;
use crate::http::{json, read, App, Caller};
use crate::media::BodyMedia;
use crate::openai::tools::check_function;
use crate::running_requests::Flow;
use crate::{known_fields, stream};
use axum::extract::{Extension, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{json, Value};
use std::sync::Arc;
use std::time::Instant;

/// Answers a conversation, as a stream unless the body says no; without messages, loads or unloads the model.
pub(crate) async fn chat(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response> {
    let begun = Instant::now();
    let body = read(&app, request).await?;
    let fields = Fields::of(&body)?;
    known_fields::check(&fields, &known_fields::OLLAMA_CHAT)?;
    let mut request = request::generate(&fields, &caller)?;
    let mut media = BodyMedia::default();
    let mut conversation = conversation(&fields, &mut media)?;
    let streams = fields.boolean("stream")?.unwrap_or(true);
    let mut frame =
        LineFrame { kind: LineShape::Chat, model: String::new(), begun, probabilities: request.logprobs.is_some() };
    if conversation.messages.is_empty() {
        let (name, reason) = request::load(&app, &fields).await?;
        frame.model = name;
        return Ok(json(StatusCode::OK, &frame.load_line(reason)));
    }
    let model = app.model(fields.text("model")?).await?;
    frame.model = model.properties().name.clone();
    media.bring(&app, model.properties(), &mut conversation).await?;
    let conversation = match fields.boolean("truncate")?.unwrap_or(true) {
        true => fitting(&app, &model, conversation, request.context).await?,
        false => conversation,
    };
    request.prompt = Prompt::Chat(conversation);
    let flow = Flow::start(&app, model, vec![request]).await?;
    request::unload_behind(&app, &fields)?;
    if streams {
        return Ok(stream::response(&app, flow, OllamaLines::new(frame), Format::Lines));
    }
    let answer = flow.collect().await?.pop().and_then(|mut a| a.list.pop()).unwrap_or_default();
    Ok(json(StatusCode::OK, &frame.whole(&answer)))
}

fn conversation<'a>(fields: &Fields<'a>, media: &mut BodyMedia<'a>) -> Result<Chat> {
    let mut messages = Vec::new();
    for message in fields.objects("messages")? {
        messages.push(self::message(&message, media)?);
    }
    let mut tools = Vec::new();
    for tool in fields.objects("tools")? {
        let function = tool.object("function")?.ok_or_else(|| tool.refuse("function", "this field is required"))?;
        check_function(&function)?;
        tools.push(json!({"type": "function", "function": function.map()}));
    }
    let (reasoning, template_kwargs) = request::think(fields)?;
    let continues = messages.last().is_some_and(|m| m["role"] == "assistant" && m.get("tool_calls").is_none());
    Ok(Chat {
        messages,
        tools,
        reasoning,
        template_kwargs,
        add_generation_prompt: !continues,
        continue_final_message: continues,
        ..Chat::default()
    })
}

/// A message in OpenAI's shape: arguments become text, `thinking` and `tool_name` take their other names.
fn message<'a>(fields: &Fields<'a>, media: &mut BodyMedia<'a>) -> Result<Value> {
    let content = request::images(fields, media)? + fields.text("content")?.unwrap_or_default();
    let mut message = json!({"role": fields.require_text("role")?, "content": content});
    if let Some(thinking) = fields.text("thinking")? {
        message["reasoning_content"] = thinking.into();
    }
    if let Some(name) = fields.text("tool_name")? {
        message["name"] = name.into();
    }
    if let Some(id) = fields.text("tool_call_id")? {
        message["tool_call_id"] = id.into();
    }
    let mut calls = Vec::new();
    for (i, call) in fields.objects("tool_calls")?.iter().enumerate() {
        let function = call.object("function")?.ok_or_else(|| call.refuse("function", "this field is required"))?;
        let arguments =
            function.object("arguments")?.map_or_else(|| "{}".into(), |a| Value::Object(a.map().clone()).to_string());
        let id = call.text("id")?.map_or_else(|| format!("call_{i}"), String::from);
        let function = json!({"name": function.require_text("name")?, "arguments": arguments});
        calls.push(json!({"id": id, "type": "function", "function": function}));
    }
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    Ok(message)
}
