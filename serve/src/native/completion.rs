//! `/completion`: llama.cpp's own completions.

use super::prompts;
use crate::answers::{AnswerParts, Answers};
use crate::engine::{Event, Finish, FinishReason, Generate, GeneratedToken, Model, Phase, Prompt};
use crate::errors::{ErrorShape, RequestFault, Result};
use crate::fields::Fields;
use crate::frames::{Format, Frames};
use crate::http::{json, read, App, Caller};
use crate::media::BodyMedia;
use crate::running_requests::Flow;
use crate::stream::{self, Script};
use crate::timings::{self, Meter};
use crate::{known_fields, logprobs, options};
use axum::extract::{Extension, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{json, Map, Value};
use std::sync::Arc;

/// What the body says of the answer's form.
pub(super) struct CompletionForm {
    model: String,
    tokens: bool,
    metered: bool,
    /// Pointers of the fields that the answer has; none stands for all.
    fields: Vec<String>,
    sampled: bool,
    probabilities: bool,
    /// Answers to each prompt.
    n: usize,
}

/// Continues one prompt or several.
pub(crate) async fn completion(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response> {
    let body = read(&app, request).await?;
    let fields = Fields::of(&body)?;
    let prompts = prompts::read(&fields, "prompt")?;
    let each = prompts.list.into_iter().map(|(p, media)| Ok((generate(&fields, &caller, Prompt::Parts(p))?, media)));
    let requests: Vec<(Generate, BodyMedia)> = each.collect::<Result<_>>()?;
    let model = app.model(fields.text("model")?).await?;
    let mut settled = Vec::new();
    for (mut request, media) in requests {
        media.settle(&app, model.properties(), &mut request.prompt).await?;
        settled.push(request);
    }
    answer(&app, &fields, model, settled, prompts.listed).await
}

/// What a body asks for one prompt.
pub(super) fn generate(fields: &Fields, caller: &Caller, prompt: Prompt) -> Result<Generate> {
    known_fields::check(fields, &known_fields::COMPLETION)?;
    let mut request = Generate::new(prompt);
    options::read(fields, caller, &mut request)?;
    request.logprobs = fields.count("n_probs", 0..=options::TOP)?.filter(|n| *n > 0);
    Ok(request)
}

/// Runs requests, and answers as a list or alone.
pub(super) async fn answer(
    app: &Arc<App>,
    fields: &Fields<'_>,
    model: Arc<dyn Model>,
    requests: Vec<Generate>,
    listed: bool,
) -> Result<Response> {
    let first = requests.first();
    let form = CompletionForm {
        model: model.properties().name.clone(),
        tokens: fields.boolean("return_tokens")?.unwrap_or(false),
        metered: fields.boolean("timings_per_token")?.unwrap_or(false),
        fields: fields.texts("response_fields")?,
        sampled: first.is_some_and(|r| r.post_sampling_probs),
        probabilities: first.is_some_and(|r| r.logprobs.is_some()),
        n: first.map_or(1, |r| r.n),
    };
    let streams = fields.boolean("stream")?.unwrap_or(false);
    let runs = requests.len();
    let flow = Flow::start(app, model, requests).await?;
    if streams {
        return Ok(stream::response(app, flow, CompletionStream::new(form, runs), Format::ServerSent));
    }
    let all = flow.collect().await?;
    let each = all.iter().enumerate().flat_map(|(run, answers)| {
        let form = &form;
        answers.list.iter().enumerate().map(move |(i, answer)| form.select_fields(form.whole(run, i, answers, answer)))
    });
    let mut values: Vec<Value> = each.collect();
    let value = match (listed || values.len() > 1, values.pop()) {
        (false, Some(value)) => value,
        (_, last) => values.into_iter().chain(last).collect(),
    };
    Ok(json(StatusCode::OK, &value))
}

impl CompletionForm {
    fn probabilities<'a>(&self, tokens: impl Iterator<Item = &'a GeneratedToken>) -> Value {
        match self.sampled {
            true => tokens.map(logprobs::sampled_probability).collect(),
            false => tokens.map(logprobs::position).collect(),
        }
    }

    /// A finished answer.
    fn whole(&self, run: usize, index: usize, answers: &Answers, answer: &AnswerParts) -> Value {
        let mut value = json!({"index": run * self.n + index, "content": answer.text()});
        let tokens: Vec<u32> = answer.tokens.iter().map(|(_, t)| t.id).collect();
        value["tokens"] = if self.tokens { tokens.into() } else { json!([]) };
        value["id_slot"] = answers.slots.get(index).copied().map_or(json!(-1), Value::from);
        if let Some(finish) = &answer.finish {
            self.end(&mut value, answers, finish);
        }
        if self.probabilities {
            value["completion_probabilities"] = self.probabilities(answer.tokens.iter().map(|(_, t)| t));
        }
        value
    }

    /// What only the end of an answer says.
    fn end(&self, value: &mut Value, answers: &Answers, finish: &Finish) {
        let (kind, word) = match &finish.reason {
            FinishReason::End | FinishReason::ToolCalls => ("eos", ""),
            FinishReason::Stop(word) => ("word", word.as_str()),
            FinishReason::Length | FinishReason::ContextFull => ("limit", ""),
        };
        let rest = json!({
            "stop": true,
            "model": self.model,
            "tokens_predicted": finish.completion_tokens,
            "tokens_evaluated": finish.prompt_tokens,
            "generation_settings": answers.settings,
            "prompt": answers.prompt,
            "has_new_line": finish.has_new_line,
            "truncated": finish.truncated || finish.reason == FinishReason::ContextFull,
            "stop_type": kind,
            "stopping_word": word,
            "tokens_cached": finish.held,
            "timings": timings::json(&finish.timings),
        });
        if let (Value::Object(value), Value::Object(rest)) = (value, rest) {
            value.extend(rest);
        }
    }

    /// Only the fields that were asked for, each under its whole pointer.
    fn select_fields(&self, value: Value) -> Value {
        if self.fields.is_empty() {
            return value;
        }
        let found = |name: &String| value.pointer(&format!("/{name}")).map(|v| (name.clone(), v.clone()));
        Value::Object(self.fields.iter().filter_map(found).collect::<Map<_, _>>())
    }
}

/// Writes pieces.
struct CompletionStream {
    form: CompletionForm,
    /// By prompt.
    all: Vec<Answers>,
    meters: Vec<Meter>,
}

impl CompletionStream {
    fn new(form: CompletionForm, runs: usize) -> CompletionStream {
        let all = (0..runs).map(|_| Answers::new(form.n)).collect();
        let meters = (0..runs * form.n).map(|_| Meter::new()).collect();
        CompletionStream { form, all, meters }
    }
}

impl Script for CompletionStream {
    fn event(&mut self, run: usize, event: Event, out: &mut Frames) {
        let CompletionStream { form, all, meters } = self;
        let answers = &mut all[run];
        match event {
            Event::Progress { total, cached, processed, ms } => {
                let progress = timings::progress(total, cached, processed, ms);
                out.data(&json!({"index": run * form.n, "content": "", "tokens": [], "stop": false, "prompt_progress": progress}));
            }
            Event::Piece { answer, phase, ref text, ref tokens } => {
                let index = run * form.n + answer;
                let ids: Vec<u32> = tokens.iter().map(|t| t.id).collect();
                let text = if phase == Phase::Call { "" } else { text.as_str() };
                let mut value = json!({"index": index, "content": text, "tokens": ids, "stop": false});
                value["id_slot"] = answers.slots.get(answer).copied().map_or(json!(-1), Value::from);
                let times = meters.get_mut(index).map(|m| m.note(&event));
                if let Some(times) = times {
                    value["tokens_predicted"] = times.predicted_tokens.into();
                    value["tokens_evaluated"] = (times.prompt_tokens + times.cached_tokens).into();
                    if form.metered {
                        value["timings"] = timings::json(&times);
                    }
                }
                if form.probabilities && !tokens.is_empty() {
                    value["completion_probabilities"] = form.probabilities(tokens.iter());
                }
                out.data(&value);
            }
            Event::Finished { answer, ref finish } => {
                let slot = answers.slots.get(answer).copied().map_or(json!(-1), Value::from);
                let mut value = json!({"index": run * form.n + answer, "content": "", "tokens": [], "id_slot": slot});
                form.end(&mut value, answers, finish);
                out.data(&form.select_fields(value));
            }
            event => {
                let first = run * form.n;
                meters[first..first + form.n].iter_mut().for_each(|m| {
                    m.note(&event);
                });
                answers.take(event);
            }
        }
    }

    fn end(&mut self, _: &mut Frames) {}

    fn write_failure(&mut self, fault: &RequestFault, out: &mut Frames) {
        out.data(&ErrorShape::OpenAi.body(fault));
    }
}
