//! `/v1/responses`. Of earlier ones their items alone are known, for a while.

mod events;
mod input;
mod item_store;
mod object;
mod tools;

pub(crate) use item_store::ItemStore;

use crate::context_fit::fitting;
use crate::engine::{Generate, Prompt};
use crate::errors::Result;
use crate::fields::Fields;
use crate::frames::Format;
use crate::http::{json, read, App, Caller};
use crate::media::BodyMedia;
use crate::running_requests::Flow;
use crate::{known_fields, options, stream, timings};
use axum::extract::{Extension, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use events::ResponseEvents;
use object::{Keeper, ResponseFrame};
use serde_json::json;
use std::sync::Arc;

/// Tokens told at a position, as OpenAI bounds them.
const TOP: usize = 20;

/// Answers a conversation.
pub(crate) async fn responses(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response> {
    let body = read(&app, request).await?;
    let fields = Fields::of(&body)?;
    let mut media = BodyMedia::default();
    let mut request = generate(&fields, &caller, &app, &mut media)?;
    let truncates = fields.choice("truncation", &[("disabled", false), ("auto", true)])?.unwrap_or(false);
    let streams = fields.boolean("stream")?.unwrap_or(false);
    let metered = fields.boolean("timings_per_token")?.unwrap_or(false);
    let model = app.model(fields.text("model")?).await?;
    media.settle(&app, model.properties(), &mut request.prompt).await?;
    if let (Prompt::Chat(chat), true) = (&mut request.prompt, truncates) {
        *chat = fitting(&app, &model, std::mem::take(chat), None).await?;
    }
    let keeps = fields.boolean("store")?.unwrap_or(true);
    let keeper = keeps.then(|| Keeper { app: app.clone(), key: caller.key });
    let frame = ResponseFrame::new(&model.properties().name, &fields, request.logprobs.is_some(), keeper)?;
    let flow = Flow::start(&app, model, vec![request]).await?;
    if streams {
        return Ok(stream::response(&app, flow, ResponseEvents::new(frame, metered), Format::ServerSent));
    }
    let answer = flow.collect().await?.pop().and_then(|mut a| a.list.pop()).unwrap_or_default();
    let mut value = frame.finished_response(&answer, &frame.ids(&answer));
    if let Some(finish) = &answer.finish {
        value["timings"] = timings::json(&finish.timings);
    }
    Ok(json(StatusCode::OK, &value))
}

/// What a body asks for.
fn generate<'a>(fields: &Fields<'a>, caller: &Caller, app: &App, media: &mut BodyMedia<'a>) -> Result<Generate> {
    known_fields::check(fields, &known_fields::RESPONSES)?;
    let chat = input::chat(fields, &|id| app.kept.find(caller.key, id), media)?;
    let mut request = Generate::new(Prompt::Chat(chat));
    options::read(fields, caller, &mut request)?;
    if let Some(most) = options::max_tokens(fields, &["max_output_tokens"])? {
        request.max_tokens = Some(most);
    }
    let text = fields.object("text")?;
    if let Some(format) = text.map(|t| t.object("format")).transpose()?.flatten() {
        if let Some(constraint) = options::response_format(&format)? {
            (request.constraint, request.constraint_field) = (Some(constraint), "text/format");
        }
    }
    let included = fields.texts("include")?.iter().any(|i| i == "message.output_text.logprobs");
    let top = fields.count("top_logprobs", 0..=TOP)?;
    request.logprobs = (included || top.is_some_and(|t| t > 0)).then(|| top.unwrap_or(0));
    Ok(request)
}

/// `/v1/responses/input_tokens`: how many tokens a conversation is.
pub(crate) async fn input_tokens(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response> {
    let body = read(&app, request).await?;
    let fields = Fields::of(&body)?;
    let mut media = BodyMedia::default();
    let mut chat = input::chat(&fields, &|id| app.kept.find(caller.key, id), &mut media)?;
    let model = app.model(fields.text("model")?).await?;
    media.bring(&app, model.properties(), &mut chat).await?;
    let (_, tokens) = app.work(move || model.render(&chat)).await?;
    Ok(json(StatusCode::OK, &json!({"object": "response.input_tokens", "input_tokens": tokens})))
}
