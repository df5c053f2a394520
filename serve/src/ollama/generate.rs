//! `/api/generate`.

use super::lines::{LineFrame, LineShape, OllamaLines};
use super::request;
use crate::engine::{Chat, Prompt, PromptPart};
use crate::errors::Result;
use crate::fields::Fields;
use crate::frames::Format;
use crate::http::{json, read, App, Caller};
use crate::media::BodyMedia;
use crate::running_requests::Flow;
use crate::{known_fields, stream};
use axum::extract::{Extension, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::json;
use std::sync::Arc;
use std::time::Instant;

/// Answers a prompt, as a stream unless the body says no; without one, loads or unloads the model.
pub(crate) async fn generate(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response> {
    let begun = Instant::now();
    let body = read(&app, request).await?;
    let fields = Fields::of(&body)?;
    known_fields::check(&fields, &known_fields::GENERATE)?;
    let mut request = request::generate(&fields, &caller)?;
    let mut media = BodyMedia::default();
    let prompt = prompt(&fields, &mut media)?;
    let streams = fields.boolean("stream")?.unwrap_or(true);
    let mut frame =
        LineFrame { kind: LineShape::Generate, model: String::new(), begun, probabilities: request.logprobs.is_some() };
    let Some(prompt) = prompt else {
        let (name, reason) = request::load(&app, &fields).await?;
        frame.model = name;
        return Ok(json(StatusCode::OK, &frame.load_line(reason)));
    };
    request.prompt = prompt;
    let model = app.model(fields.text("model")?).await?;
    frame.model = model.properties().name.clone();
    media.settle(&app, model.properties(), &mut request.prompt).await?;
    let flow = Flow::start(&app, model, vec![request]).await?;
    request::unload_behind(&app, &fields)?;
    if streams {
        return Ok(stream::response(&app, flow, OllamaLines::new(frame), Format::Lines));
    }
    let answer = flow.collect().await?.pop().and_then(|mut a| a.list.pop()).unwrap_or_default();
    Ok(json(StatusCode::OK, &frame.whole(&answer)))
}

/// The prompt: raw text, a gap before a suffix, or a user's message; none where there is no text.
fn prompt<'a>(fields: &Fields<'a>, media: &mut BodyMedia<'a>) -> Result<Option<Prompt>> {
    let marks = request::images(fields, media)?;
    let text = fields.text("prompt")?.unwrap_or_default();
    let suffix = fields.text("suffix")?.unwrap_or_default();
    let system = fields.text("system")?;
    let raw = fields.boolean("raw")?.unwrap_or(false);
    let (reasoning, template_kwargs) = request::think(fields)?;
    if text.is_empty() && marks.is_empty() {
        return Ok(None);
    }
    if !suffix.is_empty() {
        media.refuse("none stands in a gap before a suffix")?;
        let (prefix, suffix) = (text.to_string(), suffix.to_string());
        return Ok(Some(Prompt::Infill { prefix, suffix, prompt: String::new(), extra: Vec::new() }));
    }
    if raw {
        return Ok(Some(Prompt::Parts(vec![PromptPart::Text(marks + text)])));
    }
    let system = system.map(|s| json!({"role": "system", "content": s}));
    let messages = system.into_iter().chain([json!({"role": "user", "content": marks + text})]).collect();
    Ok(Some(Prompt::Chat(Chat {
        messages,
        reasoning,
        template_kwargs,
        add_generation_prompt: true,
        ..Chat::default()
    })))
}
