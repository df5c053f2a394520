//! `/v1/audio/transcriptions`: what is said in a sound, by a model that hears.

use crate::answers::AnswerParts;
use crate::engine::{Chat, Event, Finish, Generate, Phase, Prompt, Reasoning, MEDIA_MARK};
use crate::errors::{invalid, ErrorShape, RequestFault, Result};
use crate::frames::{Format, Frames};
use crate::http::{json, read_form, truth, App, Caller, FormPart};
use crate::media;
use crate::running_requests::Flow;
use crate::stream::{self, Script};
use axum::body::Body;
use axum::extract::{Extension, Request, State};
use axum::http::{header, HeaderValue, StatusCode};
use axum::response::Response;
use serde_json::{json, Value};
use std::sync::Arc;

/// What a model is asked for where the request does not say.
const ASKED: &str = "Transcribe audio to text";

/// A form's fields.
struct TranscriptionFields<'a>(&'a [FormPart<'a>]);

impl<'a> TranscriptionFields<'a> {
    fn bytes(&self, name: &str) -> Option<&'a [u8]> {
        self.0.iter().find(|part| part.name == name).map(|part| part.bytes)
    }

    /// A text that is not empty.
    fn text(&self, name: &str) -> Result<Option<&'a str>> {
        let text = self.bytes(name).map(std::str::from_utf8).transpose();
        let text = text.map_err(|_| invalid(name, format!("/{name}: expected UTF-8, found other bytes")))?;
        Ok(text.map(str::trim).filter(|text| !text.is_empty()))
    }

    /// What a text says.
    fn value<T>(&self, name: &str, expected: &str, read: impl Fn(&str) -> Option<T>) -> Result<Option<T>> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        match read(text) {
            Some(value) => Ok(Some(value)),
            None => Err(invalid(name, format!("/{name}: expected {expected}, found \"{text:.50}\""))),
        }
    }
}

/// Writes down what is said in a file.
pub(crate) async fn transcriptions(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response> {
    let body = read_form(&app, request).await?;
    let parts = body.parts()?;
    let form = TranscriptionFields(&parts);
    let file = form.bytes("file").ok_or_else(|| invalid("file", "/file: this field is required"))?;
    let plain = form.value("response_format", "json or text", |word| match word {
        "json" => Some(false),
        "text" => Some(true),
        _ => None,
    })?;
    for name in ["timestamp_granularities[]", "include[]", "chunking_strategy"] {
        if form.text(name)?.is_some() {
            return Err(invalid(name, format!("/{name}: is not supported: models here tell texts alone")));
        }
    }
    let streams = form.value("stream", "true or false", truth)?.unwrap_or(false);
    let mut request = build_question(&form, &caller)?;
    let model = app.model(form.text("model")?).await?;
    let sound = media::sound(&app, model.properties(), "file", file)?;
    if let Prompt::Chat(chat) = &mut request.prompt {
        chat.media.push(sound);
    }
    let flow = Flow::start(&app, model, vec![request]).await?;
    if streams {
        return Ok(stream::response(&app, flow, TranscriptionStream::default(), Format::ServerSent));
    }
    let answer = flow.collect().await?.pop().and_then(|mut a| a.list.pop()).unwrap_or_default();
    if plain.unwrap_or(false) {
        let mut response = Response::new(Body::from(answer.text().trim().to_string() + "\n"));
        let kind = HeaderValue::from_static("text/plain; charset=utf-8");
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        return Ok(response);
    }
    Ok(json(StatusCode::OK, &whole(&answer)))
}

/// The question to a model.
fn build_question(form: &TranscriptionFields, caller: &Caller) -> Result<Generate> {
    let prompt = form.text("prompt")?.unwrap_or(ASKED);
    if prompt.contains(MEDIA_MARK) {
        return Err(invalid(
            "prompt",
            format!("/prompt: {MEDIA_MARK} stands for the sound, and cannot stand in a text"),
        ));
    }
    let language = form.value("language", "a language as en", |word| {
        let is_name = word.len() <= 20 && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
        is_name.then(|| format!(" (language: {word})"))
    })?;
    let text = format!("{prompt}{}{MEDIA_MARK}", language.unwrap_or_default());
    let mut request = Generate::new(Prompt::Chat(Chat {
        messages: vec![json!({"role": "user", "content": text})],
        add_generation_prompt: true,
        reasoning: Reasoning { enabled: Some(false), ..Reasoning::default() },
        ..Chat::default()
    }));
    let number = |word: &str| word.parse::<f32>().ok().filter(|t| t.is_finite() && *t >= 0.0);
    request.sampling.temperature = Some(form.value("temperature", "a number from 0 on", number)?.unwrap_or(0.0));
    request.sampling.seed = form.value("seed", "a whole number", |word| word.parse().ok())?;
    request.max_tokens = form.value("max_tokens", "a whole number", |word| word.parse().ok())?;
    request.user = caller.key.map(|key| key.to_string());
    Ok(request)
}

fn usage(finish: &Finish) -> Value {
    json!({
        "type": "tokens",
        "input_tokens": finish.prompt_tokens,
        "output_tokens": finish.completion_tokens,
        "total_tokens": finish.prompt_tokens + finish.completion_tokens,
        "input_tokens_details": {"cached_tokens": finish.cached_tokens},
    })
}

fn whole(answer: &AnswerParts) -> Value {
    let mut value = json!({"text": answer.text().trim()});
    if let Some(finish) = &answer.finish {
        value["usage"] = usage(finish);
    }
    value
}

/// Writes pieces.
#[derive(Default)]
struct TranscriptionStream(AnswerParts);

impl Script for TranscriptionStream {
    fn event(&mut self, _: usize, event: Event, out: &mut Frames) {
        match &event {
            Event::Piece { phase: Phase::Content, text, .. } if !text.is_empty() => {
                out.data(&json!({"type": "transcript.text.delta", "delta": text}));
            }
            _ => {}
        }
        self.0.take(event);
    }

    fn end(&mut self, out: &mut Frames) {
        let mut value = json!({"type": "transcript.text.done"});
        if let (Value::Object(value), Value::Object(rest)) = (&mut value, whole(&self.0)) {
            value.extend(rest);
        }
        out.data(&value);
    }

    fn write_failure(&mut self, fault: &RequestFault, out: &mut Frames) {
        out.data(&ErrorShape::OpenAi.body(fault));
    }
}
