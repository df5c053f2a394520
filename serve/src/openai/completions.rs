//! `/v1/completions`.

use super::chunks::ChunkFrame;
use super::usage::{reason, usage};
use crate::answers::Answers;
use crate::engine::{Event, Finish, Generate, Model, Phase, Prompt, PromptPart, MEDIA_MARK};
use crate::errors::{ErrorShape, RequestFault, Result};
use crate::fields::Fields;
use crate::frames::{Format, Frames};
use crate::http::{json, read, App, Caller};
use crate::native::prompts;
use crate::running_requests::Flow;
use crate::stream::{self, Script};
use crate::timings::{self, Meter};
use crate::{known_fields, logprobs, options};
use axum::extract::{Extension, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{json, Value};
use std::sync::Arc;

/// Tokens told at a position, as OpenAI's later limit has it.
const TOP: usize = 20;

/// Continues one prompt or several.
pub(crate) async fn completions(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response> {
    let body = read(&app, request).await?;
    let fields = Fields::of(&body)?;
    known_fields::check(&fields, &known_fields::COMPLETIONS)?;
    let prompts = prompts::read(&fields, "prompt")?.list;
    let told = match fields.value("logprobs") {
        // Some clients send chat's field.
        Some(Value::Bool(asked)) => asked.then_some(0),
        _ => fields.count("logprobs", 0..=TOP)?,
    };
    let told = told.or(fields.count("n_probs", 0..=options::TOP)?.filter(|n| *n > 0));
    let best = fields.count("best_of", 1..=TOP)?;
    let echo = fields.boolean("echo")?.unwrap_or(false);
    let of_prompt = fields.count("prompt_logprobs", 0..=TOP)?;
    let (prompts, media): (Vec<_>, Vec<_>) = prompts.into_iter().unzip();
    let shown = prompts.clone();
    let each = prompts.into_iter().map(|prompt| {
        let mut request = Generate::new(Prompt::Parts(prompt));
        options::read(&fields, &caller, &mut request)?;
        // OpenAI's own default is 16; llama.cpp's clients count on none.
        request.logprobs = told;
        request.prompt_logprobs = of_prompt.max(told.filter(|_| echo));
        Ok(request)
    });
    let mut requests: Vec<Generate> = each.collect::<Result<_>>()?;
    let n = requests.first().map_or(1, |r| r.n);
    if best.is_some_and(|b| b != n) {
        return Err(fields.refuse("best_of", format!("other values than n ({n}) are not supported")));
    }
    let streams = fields.boolean("stream")?.unwrap_or(false);
    let with_usage = match fields.object("stream_options")? {
        Some(options) => options.boolean("include_usage")?.unwrap_or(false),
        None => false,
    };
    let metered = fields.boolean("timings_per_token")?.unwrap_or(false);
    let model = app.model(fields.text("model")?).await?;
    for (request, media) in requests.iter_mut().zip(media) {
        media.settle(&app, model.properties(), &mut request.prompt).await?;
    }
    let frame = ChunkFrame::new("cmpl-", &app, &model.properties().name);
    let runs = requests.len();
    let echo = match echo {
        true => Some(shown.iter().map(|prompt| text(prompt, &*model)).collect::<Result<Vec<_>>>()?),
        false => None,
    };
    let flow = Flow::start(&app, model, requests).await?;
    let form = CompletionForm { frame, n, probabilities: told.is_some(), of_prompt, echo };
    if streams {
        return Ok(stream::response(
            &app,
            flow,
            CompletionStream::new(form, runs, with_usage, metered),
            Format::ServerSent,
        ));
    }
    Ok(json(StatusCode::OK, &form.whole(&flow.collect().await?)))
}

/// A prompt's text: that of its ids, too.
fn text(prompt: &[PromptPart], model: &dyn Model) -> Result<String> {
    let mut bytes = Vec::new();
    for part in prompt {
        match part {
            PromptPart::Text(text) => bytes.extend_from_slice(text.as_bytes()),
            PromptPart::Token(id) => bytes.extend(model.pieces(&[*id])?.concat()),
            PromptPart::Medium(_) => bytes.extend_from_slice(MEDIA_MARK.as_bytes()),
        }
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// What the body says of the answer's form.
struct CompletionForm {
    frame: ChunkFrame,
    /// Answers to each prompt.
    n: usize,
    probabilities: bool,
    /// How many tokens are told at each position of the prompt in vLLM's shape.
    of_prompt: Option<usize>,
    /// The prompts, which stand before the answers.
    echo: Option<Vec<String>>,
}

impl CompletionForm {
    fn choice(&self, index: usize, text: &str, reason: Option<&str>) -> Value {
        json!({"text": text, "index": index, "logprobs": null, "finish_reason": reason})
    }

    fn prompt(&self, run: usize) -> &str {
        self.echo.as_ref().and_then(|e| e.get(run)).map_or("", String::as_str)
    }

    fn whole(&self, all: &[Answers]) -> Value {
        let mut choices = Vec::new();
        for (run, answers) in all.iter().enumerate() {
            for (i, answer) in answers.list.iter().enumerate() {
                let text = format!("{}{}", self.prompt(run), answer.text());
                let mut choice = self.choice(run * self.n + i, &text, Some(reason(&answer.reason())));
                if self.probabilities {
                    let own = answers.prompt_tokens.iter().filter(|_| self.echo.is_some());
                    let mut offset = if self.echo.is_some() { 0 } else { self.prompt(run).chars().count() };
                    choice["logprobs"] = logprobs::columns(own.chain(answer.text_tokens()), &mut offset);
                }
                if self.of_prompt.is_some() {
                    choice["prompt_logprobs"] = answers.prompt_tokens.iter().map(logprobs::prompt_position).collect();
                }
                choices.push(choice);
            }
        }
        let mut value = self.frame.object("text_completion", choices);
        value["usage"] = usage(all.iter().map(|a| a.list.iter().filter_map(|a| a.finish.as_ref()).collect()));
        if let Some(finish) = all.first().and_then(Answers::finish) {
            value["timings"] = timings::json(&finish.timings);
        }
        value
    }
}

/// Writes pieces.
struct CompletionStream {
    form: CompletionForm,
    with_usage: bool,
    metered: bool,
    meters: Vec<Meter>,
    /// For each answer, how many characters were sent.
    offsets: Vec<usize>,
    finishes: Vec<Vec<Finish>>,
}

impl CompletionStream {
    fn new(form: CompletionForm, runs: usize, with_usage: bool, metered: bool) -> CompletionStream {
        let answers = runs * form.n;
        let meters = std::iter::repeat_with(Meter::new).take(answers).collect();
        CompletionStream {
            form,
            with_usage,
            metered,
            meters,
            offsets: vec![0; answers],
            finishes: vec![Vec::new(); runs],
        }
    }

    fn chunk(&self, choices: Vec<Value>) -> Value {
        let mut chunk = self.form.frame.object("text_completion", choices);
        if self.with_usage {
            chunk["usage"] = Value::Null;
        }
        chunk
    }

    fn last(&self, chunk: &mut Value) {
        if let Some(finish) = self.finishes.iter().flatten().next() {
            chunk["timings"] = timings::json(&finish.timings);
        }
    }
}

impl Script for CompletionStream {
    fn event(&mut self, run: usize, event: Event, out: &mut Frames) {
        let first = run * self.form.n;
        match &event {
            Event::Started { .. } => {
                for answer in first..first + self.form.n {
                    self.meters[answer].note(&event);
                    let prompt = self.form.prompt(run);
                    if self.form.probabilities && self.form.echo.is_some() {
                        // It comes with its tokens.
                        continue;
                    }
                    self.offsets[answer] = prompt.chars().count();
                    if !prompt.is_empty() {
                        out.data(&self.chunk(vec![self.form.choice(answer, prompt, None)]));
                    }
                }
            }
            Event::Prompt { tokens } => {
                for answer in first..first + self.form.n {
                    let (echoed, ranked) = (self.form.probabilities && self.form.echo.is_some(), self.form.of_prompt);
                    let mut choice = self.form.choice(answer, if echoed { self.form.prompt(run) } else { "" }, None);
                    if echoed {
                        choice["logprobs"] = logprobs::columns(tokens.iter(), &mut self.offsets[answer]);
                    }
                    if ranked.is_some() {
                        choice["prompt_logprobs"] = tokens.iter().map(logprobs::prompt_position).collect();
                    }
                    out.data(&self.chunk(vec![choice]));
                }
            }
            Event::Progress { total, cached, processed, ms } => {
                let mut chunk = self.chunk(vec![self.form.choice(first, "", None)]);
                chunk["prompt_progress"] = timings::progress(*total, *cached, *processed, *ms);
                out.data(&chunk);
            }
            Event::Piece { answer, phase: Phase::Content, text, tokens } => {
                let index = first + answer;
                let times = self.meters[index].note(&event);
                let mut choice = self.form.choice(index, text, None);
                if self.form.probabilities && !tokens.is_empty() {
                    choice["logprobs"] = logprobs::columns(tokens.iter(), &mut self.offsets[index]);
                } else if text.is_empty() {
                    return;
                }
                let mut chunk = self.chunk(vec![choice]);
                if self.metered {
                    chunk["timings"] = timings::json(&times);
                }
                out.data(&chunk);
            }
            Event::Finished { answer, finish } => {
                self.finishes[run].push(finish.clone());
                let choice = self.form.choice(first + answer, "", Some(reason(&finish.reason)));
                let mut chunk = self.chunk(vec![choice]);
                let over = self.finishes.iter().map(Vec::len).sum::<usize>() == self.meters.len();
                if over && !self.with_usage {
                    chunk["usage"] = usage(self.finishes.iter().map(|f| f.iter().collect()));
                    self.last(&mut chunk);
                }
                out.data(&chunk);
            }
            _ => {}
        }
    }

    fn end(&mut self, out: &mut Frames) {
        if self.with_usage {
            let mut chunk = self.chunk(Vec::new());
            chunk["usage"] = usage(self.finishes.iter().map(|f| f.iter().collect()));
            self.last(&mut chunk);
            out.data(&chunk);
        }
        out.write_done();
    }

    fn write_failure(&mut self, fault: &RequestFault, out: &mut Frames) {
        out.data(&ErrorShape::OpenAi.body(fault));
    }
}
