//! `/v1/chat/completions`.

use super::chunks::{ChunkFrame, Chunks, Says};
use super::usage::usage;
use super::{functions, messages};
use crate::answers::{AnswerBlock, AnswerParts, Answers};
use crate::engine::{Generate, Prompt};
use crate::errors::Result;
use crate::fields::Fields;
use crate::frames::Format;
use crate::http::{json, read, App, Caller};
use crate::media::BodyMedia;
use crate::running_requests::Flow;
use crate::{id, known_fields, logprobs, options, stream, timings};
use axum::extract::{Extension, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{json, Value};
use std::sync::Arc;

/// Tokens told at a position, as OpenAI bounds them.
const TOP: usize = 20;

/// Answers a conversation.
pub(crate) async fn chat(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response> {
    let body = read(&app, request).await?;
    let fields = Fields::of(&body)?;
    let mut media = BodyMedia::default();
    let mut request = generate(&fields, &caller, app.settings.prefills, &mut media)?;
    let streams = fields.boolean("stream")?.unwrap_or(false);
    let with_usage = match fields.object("stream_options")? {
        Some(options) => options.boolean("include_usage")?.unwrap_or(false),
        None => false,
    };
    let metered = fields.boolean("timings_per_token")?.unwrap_or(false);
    let verbose = fields.boolean("verbose")?.unwrap_or(false) || app.settings.verbose;
    let (answers, probabilities) = (request.n, request.logprobs.is_some());
    let old = functions::are_given(&fields);
    let model = app.model(fields.text("model")?).await?;
    media.settle(&app, model.properties(), &mut request.prompt).await?;
    let frame = ChunkFrame::new("chatcmpl-", &app, &model.properties().name);
    if fields.boolean("reasoning_control")?.unwrap_or(false) {
        request.end_reasoning = Some(app.controls.add(&frame.id, caller.key));
    }
    let flow = Flow::start(&app, model, vec![request]).await?;
    if streams {
        let says = Says { with_usage, metered, probabilities, verbose, old };
        let chunks = Chunks::new(frame, answers, says);
        return Ok(stream::response(&app, flow, chunks, Format::ServerSent));
    }
    let answers = flow.collect().await?.pop().unwrap_or_default();
    Ok(json(StatusCode::OK, &whole(&frame, &answers, Extras { probabilities, verbose, legacy: old })))
}

/// What a body asks for.
///
/// # Errors
/// A field of a wrong type, shape or range.
fn generate<'a>(fields: &Fields<'a>, caller: &Caller, prefills: bool, media: &mut BodyMedia<'a>) -> Result<Generate> {
    known_fields::check(fields, &known_fields::CHAT)?;
    let chat = messages::chat(fields, prefills, media)?;
    let tools = !chat.tools.is_empty();
    let mut request = Generate::new(Prompt::Chat(chat));
    options::read(fields, caller, &mut request)?;
    request.logprobs = probabilities(fields)?;
    if tools && fields.text("grammar")?.is_some_and(|g| !g.is_empty()) {
        return Err(fields.refuse("grammar", "cannot be given with tools, which have a grammar of their own"));
    }
    Ok(request)
}

/// How many tokens are told at each position: OpenAI's two fields, or llama.cpp's.
fn probabilities(fields: &Fields) -> Result<Option<usize>> {
    let asked = fields.boolean("logprobs")?;
    let top = fields.count("top_logprobs", 0..=TOP)?;
    let native = fields.count("n_probs", 0..=options::TOP)?.filter(|n| *n > 0);
    match (asked, top) {
        (Some(true), top) => Ok(Some(top.unwrap_or(0))),
        (_, Some(1..)) => Err(fields.refuse("top_logprobs", "needs logprobs to be true")),
        _ => Ok(native),
    }
}

/// What a whole answer has beside its messages.
#[derive(Clone, Copy, Debug)]
struct Extras {
    /// Log-probabilities of its ids.
    probabilities: bool,
    /// The prompt and the settings, under `__verbose`.
    verbose: bool,
    /// Calls as `function_call`, the older shape.
    legacy: bool,
}

/// The answer as a whole.
fn whole(frame: &ChunkFrame, answers: &Answers, extras: Extras) -> Value {
    let Extras { probabilities, verbose, legacy: old } = extras;
    let choices: Vec<Value> = answers.list.iter().enumerate().map(|(i, a)| choice(i, a, probabilities, old)).collect();
    let mut value = frame.object("chat.completion", choices);
    value["usage"] = usage(std::iter::once(answers.list.iter().filter_map(|a| a.finish.as_ref()).collect()));
    if let Some(finish) = answers.finish() {
        value["timings"] = timings::json(&finish.timings);
    }
    if verbose {
        value["__verbose"] = json!({"prompt": answers.prompt, "generation_settings": answers.settings});
    }
    value
}

fn choice(index: usize, answer: &AnswerParts, probabilities: bool, old: bool) -> Value {
    let mut choice = json!({
        "finish_reason": functions::reason_of(&answer.reason(), old),
        "index": index,
        "message": message(answer),
        "logprobs": null,
    });
    if old {
        functions::to_legacy_function_call(&mut choice["message"]);
    }
    if probabilities {
        let content: Vec<Value> = answer.text_tokens().map(logprobs::position).collect();
        choice["logprobs"] = json!({ "content": content, "refusal": null });
    }
    choice
}

/// An answer as the message that it is.
pub(crate) fn message(answer: &AnswerParts) -> Value {
    let (text, reasoning) = (answer.text(), answer.reasoning());
    let calls: Vec<Value> = answer.blocks.iter().filter_map(call).collect();
    let content = if text.is_empty() && !calls.is_empty() { Value::Null } else { Value::String(text) };
    let mut message = json!({"role": "assistant", "content": content});
    if !reasoning.is_empty() {
        message["reasoning_content"] = reasoning.into();
    }
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    message
}

fn call(block: &AnswerBlock) -> Option<Value> {
    let AnswerBlock::Call { id, name, arguments } = block else { return None };
    Some(json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}))
}

/// `/v1/chat/completions/input_tokens`: how many tokens a conversation is.
pub(crate) async fn input_tokens(State(app): State<Arc<App>>, request: Request) -> Result<Response> {
    let body = read(&app, request).await?;
    let fields = Fields::of(&body)?;
    let mut media = BodyMedia::default();
    let mut chat = messages::chat(&fields, app.settings.prefills, &mut media)?;
    let model = app.model(fields.text("model")?).await?;
    media.bring(&app, model.properties(), &mut chat).await?;
    let (_, tokens) = app.work(move || model.render(&chat)).await?;
    Ok(json(StatusCode::OK, &json!({"object": "response.input_tokens", "input_tokens": tokens})))
}

/// A new name for an answer and what all its parts share.
impl ChunkFrame {
    pub fn new(prefix: &str, app: &App, model: &str) -> ChunkFrame {
        ChunkFrame {
            id: id::new(prefix),
            created: id::seconds(),
            model: model.to_string(),
            fingerprint: format!("pumex-{}", app.settings.version),
        }
    }
}
