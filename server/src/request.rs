//! From a request to a job: prompt, chain, grammar and answers, or what is wrong with it.

use pumex_chat::reply::Format;
use pumex_dialogue::grammar::{CallConstraint, GrammarMask, GrammarSource, ToolChoice};
use pumex_dialogue::{grammar, NoReasoning, ReplyReader, Style};
use pumex_engine::conversation::Feed;
use pumex_serve::engine::{
    Chat, Constraint, Event, EventSender, Generate, Prompt, PromptPart, Refusal, RefusalKind, RequestSwitch,
    ToolChoice as AskedChoice,
};
use pumex_step::sample::{Sampler, MAX_LOGPROBS};
use pumex_step::Medium;
use pumex_text::chat::{Json, RenderedPrompt as Written};
use pumex_text::{Characters, Stops};
use serde_json::{json, Value};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use super::answer::{Answer, AnswerPlan, Ends, OutputForm, ReasoningBudget};
use super::loaded_model::LoadedModel;
use super::media::media_rows;
use super::prefix::PrefixOwner;
use super::queue::Ticket;
use super::refusal::{invalid, refusal, source_too_long, too_long, wrong};
use super::sampling;
use super::settings::{in_scale, MOST_SCALE};

/// Most answers of a request.
const MOST_ANSWERS: usize = 256;

/// An answer of a job, with the ids that it goes on from: the prompt, and later its own.
pub struct JobAnswer {
    /// Ids.
    pub ids: Vec<u32>,
    /// The answer.
    pub answer: Answer,
}

/// A request that can be worked on.
pub struct Job {
    /// Its number.
    pub id: u64,
    /// Where its events go.
    pub events: EventSender,
    /// Answers that are not over.
    pub parts: Vec<JobAnswer>,
    /// Media that ids of its answers stand for.
    pub media: Vec<Arc<Medium>>,
    /// Ids of the prompt.
    pub prompt_tokens: usize,
    /// Ids that answers go on from, the first ones, that are a source.
    pub source: usize,
    /// Ids found in the cache when it first ran; none: it did not yet.
    pub cached: Option<usize>,
    /// The prompt's text.
    pub prompt: String,
    /// Options under llama.cpp's names.
    pub settings: Value,
    /// What it waits by.
    pub ticket: Ticket,
    /// Whose kept beginnings it may use.
    pub owner: PrefixOwner,
    /// The slot that it asks for.
    pub slot: Option<usize>,
    /// Ids that the request gave, of those that answers go on from, where answers are to be the same whoever is served beside.
    pub steady: Option<usize>,
    /// Whether it uses what is kept.
    pub uses_kept: bool,
    /// Ids that stay when the context is full; none: answers end there.
    pub keep: Option<usize>,
    /// Tokens behind those that go then; 0: half of them.
    pub discard: usize,
    /// Whether progress of the prompt is told.
    pub progress: bool,
    /// Scales of adapters.
    pub scales: Vec<f32>,
    /// When it came, and when it first ran.
    pub queued: Instant,
    /// When it first ran.
    pub started: Option<Instant>,
    /// Events for which there was no room when it last ran.
    pub backlog: VecDeque<Event>,
}

/// A prompt as ids, and how answers to it are read.
pub(super) struct PromptRequest {
    pub(super) ids: Vec<u32>,
    /// What some of the ids stand for.
    pub(super) media: Vec<Arc<Medium>>,
    pub(super) text: String,
    pub(super) chat: Option<Talk>,
}

/// How a conversation goes on.
pub(super) struct Talk {
    style: Style,
    format: Format,
    budget: ReasoningBudget,
    choice: ToolChoice,
    allowed: Option<Vec<String>>,
    parallel: bool,
    /// Whether the reply may begin with reasoning.
    may_reason: bool,
}

fn text_of(content: Option<&Value>) -> Option<String> {
    match content? {
        Value::String(text) => Some(text.clone()),
        Value::Array(parts) => {
            let texts = parts.iter().filter_map(|part| part.get("text")?.as_str());
            Some(texts.collect::<Vec<_>>().join("\n\n"))
        }
        _ => None,
    }
}

fn json_of(value: &Value, field: &str) -> Result<Json, Refusal> {
    Json::parse(&value.to_string()).map_err(|e| invalid(field, format!("{field}: {e}")))
}

impl LoadedModel {
    fn encode_parts(&self, parts: &[PromptPart]) -> Result<Vec<u32>, Refusal> {
        let n_vocab = self.properties.n_vocab.max(1);
        let mut ids = Vec::new();
        for (i, part) in parts.iter().enumerate() {
            match part {
                PromptPart::Token(id) if (*id as usize) < n_vocab => ids.push(*id),
                PromptPart::Token(id) => {
                    return Err(invalid("prompt", format!("prompt: expected ids below {n_vocab}, found {id}")));
                }
                PromptPart::Medium(medium) => return Err(super::media::no_media(medium)),
                PromptPart::Text(text) => {
                    let bos = i == 0 && self.tokenizer.add_bos();
                    ids.extend(self.tokenizer.encode(text, bos, true).map_err(wrong("prompt"))?);
                }
            }
        }
        Ok(ids)
    }

    /// The style of a conversation, with its functions and variables.
    fn style(&self, chat: &Chat) -> Result<(Style, ReasoningBudget), Refusal> {
        if self.sources.is_some() {
            let what = "messages: expected a model that holds conversations; this one answers a source text \
                        (/v1/completions, /completion)";
            return Err(invalid("messages", what.into()));
        }
        let styles = self.style.as_ref().map_err(|e| refusal(RefusalKind::Unsupported, e.clone()))?;
        let tools = !chat.tools.is_empty() && chat.tool_choice != AskedChoice::None;
        let mut style = styles[usize::from(tools)].clone();
        if tools {
            style.with_tools(json_of(&Value::Array(chat.tools.clone()), "tools")?);
        }
        for (name, value) in &chat.template_kwargs {
            style.variables.retain(|(known, _)| known != name);
            style.variables.push((name.clone(), json_of(value, "chat_template_kwargs")?));
        }
        let mut most = chat.reasoning.budget.or(self.settings.reasoning_budget);
        match chat.reasoning.enabled.or(self.settings.reasoning) {
            Some(false) => {
                let by_budget = style.without_reasoning() == NoReasoning::ByBudget;
                most = if by_budget { Some(0) } else { most };
            }
            Some(true) => style.with_reasoning(),
            None => {}
        }
        Ok((style, ReasoningBudget { most, ..ReasoningBudget::default() }))
    }

    /// The prompt that the template makes, and the style.
    fn render_prompt(&self, chat: &Chat) -> Result<(Written, Style, ReasoningBudget), Refusal> {
        let (style, budget) = self.style(chat)?;
        let is_answer = |message: &Value| message.get("role").and_then(Value::as_str) == Some("assistant");
        let last = chat.messages.last().filter(|message| is_answer(message));
        if chat.continue_final_message && chat.add_generation_prompt {
            let what = "add_generation_prompt and continue_final_message: expected at most one of them";
            return Err(invalid("continue_final_message", what.into()));
        }
        if last.is_some() && chat.messages.iter().rev().nth(1).is_some_and(is_answer) {
            let what = "messages: expected at most one message of the assistant at the end";
            return Err(invalid("messages", what.into()));
        }
        let goes_on =
            last.filter(|m| m.get("tool_calls").is_none_or(Value::is_null)).map(|m| text_of(m.get("content")));
        let count = chat.messages.len() - usize::from(goes_on.is_some());
        let messages = chat.messages[..count].iter().map(|m| json_of(m, "messages")).collect::<Result<Vec<_>, _>>()?;
        let generation = chat.add_generation_prompt || goes_on.is_some();
        let mut prompt = style.prompt_of(messages, generation).map_err(wrong("messages"))?;
        if let Some(Some(text)) = goes_on {
            let from = prompt.text.len();
            prompt.text.push_str(&text);
            if !text.is_empty() {
                prompt.from_outside.push(from..prompt.text.len());
            }
        }
        Ok((prompt, style, budget))
    }

    /// The prompt that a chat becomes, and its tokens: see [`pumex_serve::engine::Model::render`].
    pub fn render(&self, chat: &Chat) -> Result<(String, usize), Refusal> {
        let (prompt, style, _) = self.render_prompt(chat)?;
        let feed = self.build_feed(chat, &style, &prompt)?;
        Ok((prompt.text, feed.ids.len()))
    }

    /// The ids and media of a conversation's prompt.
    fn build_feed(&self, chat: &Chat, style: &Style, prompt: &Written) -> Result<Feed, Refusal> {
        let media: Vec<_> = chat.media.iter().collect();
        match media.is_empty() {
            false => self.place_media(prompt, &media),
            true => {
                let ids = style.ids(&self.tokenizer, prompt).map_err(wrong("messages"))?;
                Ok(Feed { ids, ..Feed::default() })
            }
        }
    }

    fn talk(&self, chat: &Chat, constrained: bool, end: Option<&RequestSwitch>) -> Result<PromptRequest, Refusal> {
        let (prompt, style, mut budget) = self.render_prompt(chat)?;
        budget.end = end.cloned();
        let Feed { mut ids, media } = self.build_feed(chat, &style, &prompt)?;
        let media = media_rows(&media);
        let mut text = prompt.text;
        let mut format = style.format().clone();
        let close = format.end_of_reasoning(constrained).filter(|_| budget.most.is_some() || end.is_some());
        if let Some(close) = close {
            let close_ids = self.tokenizer.encode(&close, false, true).map_err(wrong("messages"))?;
            let open = format.reasoning.as_ref().is_some_and(|r| r.is_open_at_end(&text));
            if budget.most == Some(0) && open {
                ids.extend(&close_ids);
                text.push_str(&close);
            }
            budget.close = (close, close_ids);
        }
        if chat.reasoning.inline.unwrap_or(self.settings.inline_reasoning) {
            format.reasoning = None;
        }
        let choice = match &chat.tool_choice {
            AskedChoice::Auto => ToolChoice::Auto,
            AskedChoice::None => ToolChoice::None,
            AskedChoice::Required => ToolChoice::Required,
            AskedChoice::Function(name) => ToolChoice::Function(name.clone()),
        };
        let parallel = chat.parallel_tool_calls.unwrap_or(true);
        // Nor does it begin again where the template opened or closed it, or none of it is wanted.
        let may_reason = budget.most != Some(0) && format.reasoning.as_ref().is_some_and(|r| r.may_begin(&text));
        let allowed = chat.allowed_tools.clone();
        let talk = Talk { style, format, budget, choice, allowed, parallel, may_reason };
        Ok(PromptRequest { ids, media, text, chat: Some(talk) })
    }

    /// Text of ids, special tokens by their names.
    pub fn spell_ids(&self, ids: &[u32]) -> String {
        let bytes = |id: &u32| match self.tokenizer.piece(*id) {
            [] => self.tokenizer.token_text(*id).to_vec(),
            piece => piece.to_vec(),
        };
        String::from_utf8_lossy(&ids.iter().flat_map(bytes).collect::<Vec<u8>>()).into_owned()
    }

    fn constraint(
        &self,
        (asked, field): (Option<&Constraint>, &'static str),
        talk: Option<&Talk>,
        warnings: &mut Vec<String>,
    ) -> Result<Option<GrammarMask>, Refusal> {
        let vocabulary = || self.vocabulary().map_err(|e| refusal(RefusalKind::Unsupported, e));
        let matcher = match (asked, talk) {
            (Some(asked), talk) => {
                let field = match (field, asked) {
                    ("", Constraint::Grammar(_)) => "grammar",
                    ("", _) => "json_schema",
                    (told, _) => told,
                };
                let source = match asked {
                    Constraint::Grammar(text) => GrammarSource::Gbnf(text.clone()),
                    Constraint::Schema(schema) => GrammarSource::JsonSchema(schema.to_string()),
                    Constraint::JsonObject => GrammarSource::JsonObject,
                    Constraint::Regex(text) => GrammarSource::Regex(text.clone()),
                };
                let vocabulary = vocabulary()?;
                match talk {
                    None => self.matcher_of(&source).map_err(wrong(field))?,
                    Some(talk) => {
                        let key = format!("{} {source:?}", talk.format.name);
                        let made = || grammar::answer(vocabulary, &talk.format, &source).map(Some);
                        self.matcher(key, made).map_err(wrong(field))?
                    }
                }
            }
            (None, Some(talk @ Talk { style: Style { tools: Some(tools), .. }, format, choice, .. })) => {
                let forced = !matches!(choice, ToolChoice::Auto);
                let (allowed, parallel, may_reason) = (talk.allowed.as_deref(), talk.parallel, talk.may_reason);
                let key = format!("{choice:?} {allowed:?} {parallel} {may_reason} {} {}", format.name, tools.dump());
                let asked = CallConstraint { calls: choice, allowed, parallel, may_reason };
                let vocabulary = vocabulary()?;
                let made = self.matcher(key, || grammar::calls(vocabulary, format, tools, asked));
                match made {
                    Ok(None) if forced => {
                        let what = format!(
                            "tool_choice: expected auto or none, as the way in which this model writes calls ({}) cannot be forced",
                            format.name
                        );
                        return Err(Refusal {
                            field: Some("tool_choice".into()),
                            ..refusal(RefusalKind::Unsupported, what)
                        });
                    }
                    // Schemas that are too much together are no reason not to talk.
                    Err(error) if !forced => {
                        // Its words are the request's: on one line.
                        warnings.push(format!("tools: calls are not held to their schemas: {:?}", error.to_string()));
                        None
                    }
                    made => made.map_err(wrong("tools"))?,
                }
            }
            _ => None,
        };
        if let Some(matcher) = &matcher {
            let field = if asked.is_some() { field } else { "tools" };
            warnings.extend(matcher.unenforced().iter().map(|what| format!("{field}: {what}")));
        }
        Ok(matcher.map(GrammarMask::new))
    }

    /// Ids that end answers of a request, beside those that the model says.
    fn ends(&self, request: &Generate, talk: Option<&Talk>) -> Result<Ends, Refusal> {
        let n_vocab = self.properties.n_vocab.max(1);
        if let Some(id) = request.stop_ids.iter().find(|id| **id as usize >= n_vocab) {
            let what = format!("stop_token_ids: expected ids below {n_vocab}, found {id}");
            return Err(invalid("stop_token_ids", what));
        }
        let mut ends = Ends { own: request.stop_ids.clone(), least: request.min_tokens, others: Arc::from([]) };
        if ends.least > 0 {
            let mut bits = vec![u32::MAX; n_vocab.div_ceil(32)];
            let is_end = |id: u32| self.tokenizer.is_end(id) || talk.is_some_and(|talk| talk.style.is_end(id));
            for id in (0..n_vocab as u32).filter(|id| is_end(*id) || ends.own.contains(id)) {
                bits[id as usize / 32] &= !(1 << (id % 32));
            }
            ends.others = bits.into();
        }
        Ok(ends)
    }

    /// Scales of all adapters, where a request names some.
    fn scales(&self, asked: Option<&[(usize, f32)]>, usual: &[f32]) -> Result<Vec<f32>, Refusal> {
        let Some(asked) = asked else { return Ok(usual.to_vec()) };
        let mut scales = vec![0.0; usual.len()];
        for (id, scale) in asked {
            match scales.get_mut(*id) {
                Some(known) if in_scale(*scale) => *known = *scale,
                None if usual.is_empty() => {
                    return Err(invalid("lora", "lora: the server was started without adapters (--lora)".into()));
                }
                None => return Err(invalid("lora", format!("lora: expected ids below {}, found {id}", usual.len()))),
                Some(_) => {
                    let what = format!("lora: expected a scale from -{MOST_SCALE} to {MOST_SCALE}, found {scale}");
                    return Err(invalid("lora", what));
                }
            }
        }
        Ok(scales)
    }

    /// Whether a request's answers are to be steady.
    ///
    /// # Errors
    /// They are, and cannot be.
    pub fn steady(&self, asked: Option<bool>) -> Result<bool, Refusal> {
        let steady = asked.unwrap_or(self.settings.deterministic);
        match &self.unsteady {
            Some(why) if steady && asked.is_some() => Err(invalid("deterministic", format!("deterministic: {why}"))),
            Some(why) if steady => Err(refusal(RefusalKind::Unsupported, format!("--deterministic: {why}"))),
            _ => Ok(steady),
        }
    }

    /// Makes a job of a request, with the adapters' scales where it names none. What is not done as it says goes to `warnings`.
    ///
    /// # Errors
    /// Whatever is wrong with it.
    pub fn job(
        &self,
        request: Generate,
        events: EventSender,
        (id, scales): (u64, &[f32]),
        warnings: &mut Vec<String>,
    ) -> Result<Job, Refusal> {
        if self.properties.embeds.is_some() {
            let what = "this model gives vectors, not text: start the server without --embeddings";
            return Err(refusal(RefusalKind::Unsupported, what));
        }
        let queued = Instant::now();
        let n = request.n.max(1);
        if n > self.settings.slots.min(MOST_ANSWERS) {
            return Err(invalid(
                "n",
                format!("n: expected at most {} answers, as there are slots, found {n}", self.settings.slots),
            ));
        }
        if request.slot.is_some_and(|slot| slot >= self.settings.slots) {
            return Err(invalid("id_slot", format!("id_slot: expected below {}", self.settings.slots)));
        }
        let prompted = match &request.prompt {
            Prompt::Parts(parts) if parts.iter().any(|part| part.medium().is_some()) => {
                let Feed { ids, media } = self.join_prompt(parts)?;
                PromptRequest { text: self.spell_ids(&ids), ids, media: media_rows(&media), chat: None }
            }
            Prompt::Parts(parts) => {
                let mut ids = self.encode_parts(parts)?;
                if self.sources.is_some() {
                    ids.extend(self.tokenizer.closing().filter(|end| ids.last() != Some(end)));
                }
                PromptRequest { text: self.spell_ids(&ids), ids, media: Vec::new(), chat: None }
            }
            Prompt::Chat(chat) => {
                let asked = request.constraint.is_some() || self.settings.constraint.is_some();
                let constrained = asked || !chat.tools.is_empty();
                self.talk(chat, constrained, request.end_reasoning.as_ref())?
            }
            Prompt::Infill { prefix, suffix, prompt, extra } => {
                self.infill([prefix, prompt, suffix], extra, request.max_tokens)?
            }
        };
        let PromptRequest { mut ids, media, text, chat } = prompted;
        if ids.is_empty() {
            ids.extend(self.tokenizer.bos());
        }
        if ids.is_empty() {
            return Err(invalid("prompt", "prompt: it is empty, and at least one token is needed".into()));
        }
        let n_ctx = self.n_ctx();
        let prompt_tokens = ids.len();
        if let Some(sources) = self.sources {
            if ids.len() > sources.most {
                return Err(source_too_long(ids.len(), sources.most));
            }
            ids.push(sources.start);
        }
        if ids.len() >= n_ctx {
            return Err(too_long(ids.len(), n_ctx));
        }
        let steady = self.steady(request.deterministic)?;
        if !media.is_empty() && (steady || request.prompt_logprobs.is_some()) {
            let field = if steady { "deterministic" } else { "prompt_logprobs" };
            return Err(invalid(
                field,
                format!("{field}: expected a prompt of text alone, found pictures or sounds in it"),
            ));
        }
        let scales = self.scales(request.adapters.as_deref(), scales)?;
        let options = sampling::options(&request, &self.usual, &self.tokenizer)?;
        let constraint = {
            let calls = chat.as_ref().is_some_and(|talk| talk.style.tools.is_some());
            let usual = self.settings.constraint.as_ref().filter(|_| !calls);
            let asked = request.constraint.as_ref().or(usual);
            self.constraint((asked, request.constraint_field), chat.as_ref(), warnings)?
        };
        let limit = [request.max_tokens, self.settings.predict].into_iter().flatten().min();
        let ignore_ends = request.sampling.ignore_eos == Some(true);
        let limit = match request.context {
            Some(most) if most > n_ctx => {
                let what =
                    format!("num_ctx: expected at most {n_ctx}, the context of this server's slots (-c), found {most}");
                return Err(invalid("options/num_ctx", what));
            }
            Some(most) if ids.len() >= most => return Err(too_long(ids.len(), most)),
            Some(most) => Some(limit.unwrap_or(usize::MAX).min(most - ids.len())),
            None => limit,
        };
        let ends = self.ends(&request, chat.as_ref())?;
        let must_call =
            chat.as_ref().is_some_and(|talk| matches!(talk.choice, ToolChoice::Required | ToolChoice::Function(_)));
        let chat = chat.map(|talk| (Arc::new(talk.style), talk.format, talk.budget));
        let base = Sampler::new(options.clone());
        let seed = base.seed();
        let part = |number: usize| {
            let mut chain = options.clone();
            chain.seed = i64::try_from(seed.wrapping_add(number as u64) & i64::MAX as u64).unwrap_or(0);
            let mut sampler = Sampler::new(chain);
            sampler.look_back(&ids);
            let form = match &chat {
                None => OutputForm::Plain(Characters::default(), Stops::new(request.stop.iter().cloned())),
                Some((style, format, _)) => {
                    let stops = request.stop.iter().cloned().chain(style.stop().map(str::to_string));
                    let reply = ReplyReader::new(format, style.tools.as_ref(), &text, stops);
                    let reply = if must_call { reply.must_call() } else { reply };
                    OutputForm::Chat(Box::new(reply), style.clone())
                }
            };
            let plan = AnswerPlan {
                sampler,
                form,
                constraint: constraint.clone(),
                budget: chat.as_ref().map(|(_, _, budget)| budget.clone()).unwrap_or_default(),
                limit,
                most_ms: request.max_predict_ms,
                after_chain: request.post_sampling_probs && request.logprobs.is_some(),
                ignore_ends,
                ends: ends.clone(),
                // Answers share their prompt.
                prompt: request
                    .prompt_logprobs
                    .filter(|_| number == 0)
                    .map(|most| (most.min(MAX_LOGPROBS), prompt_tokens)),
            };
            JobAnswer { ids: ids.clone(), answer: Answer::new(number, plan) }
        };
        let parts: Vec<JobAnswer> = (0..n).map(part).collect();
        // A picture stays as a whole or goes as one: answers to them end where the context does.
        let keep = (self.settings.context_shift && self.sources.is_none() && media.is_empty()).then(|| {
            let asked = if request.n_keep == 0 { self.settings.keep } else { request.n_keep };
            usize::try_from(asked).unwrap_or(ids.len()).clamp(usize::from(self.tokenizer.add_bos()), ids.len())
        });
        let mut settings = sampling::describe_chain(&options, seed);
        settings["n_predict"] = limit.map_or(json!(-1), |limit| json!(limit));
        settings["n_keep"] = json!(request.n_keep);
        settings["n_discard"] = json!(request.n_discard);
        settings["stop"] = json!(request.stop);
        settings["post_sampling_probs"] = json!(request.post_sampling_probs);
        settings["grammar"] = match &request.constraint {
            Some(Constraint::Grammar(text)) => json!(text),
            _ => json!(""),
        };
        let user = request.user.unwrap_or_default();
        let owner = PrefixOwner::new(if self.settings.share_prefixes { "" } else { &user }, &scales);
        Ok(Job {
            id,
            events,
            prompt_tokens,
            source: self.sources.map_or(0, |_| prompt_tokens),
            cached: None,
            prompt: text,
            settings,
            media,
            ticket: Ticket { user, priority: request.priority },
            owner,
            slot: request.slot.filter(|_| n == 1),
            steady: steady.then_some(ids.len()),
            // A source is the whole of what an answer begins with: none is the beginning of another.
            // Nor is a prompt, of whose every position something is told.
            uses_kept: request.cache_prompt && self.sources.is_none() && request.prompt_logprobs.is_none(),
            keep,
            discard: request.n_discard,
            progress: request.progress,
            scales,
            queued,
            started: None,
            backlog: VecDeque::new(),
            parts,
        })
    }
}
