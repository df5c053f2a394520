//! How a model's template writes messages, and where its answers end.

use pumex_chat::reply::{Calls, Format};
use pumex_chat::{ArgumentForm, Json, RenderedPrompt, Request, Template};

use super::message::Message;
use pumex_engine::conversation::MARK;
use pumex_gguf::{Error, Result};
use pumex_text::Tokenizer;

/// A template beside the vocabulary that it writes for.
#[derive(Clone, Debug)]
pub struct Style {
    template: Template,
    format: Format,
    form: ArgumentForm,
    bos: String,
    eos: String,
    /// Ids that end an answer beside those that the file names.
    ends: Vec<u32>,
    /// Text that does, where the template has no token for it.
    stop: Option<String>,
    /// Whether the template reads a message's content as a list of parts alone.
    needs_parts: bool,
    /// Whether the model is told of functions in words, as its template knows none.
    is_taught: bool,
    /// Functions that the model may call.
    pub tools: Option<Json>,
    /// Further variables of the template.
    pub variables: Vec<(String, Json)>,
}

/// How reasoning was switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoReasoning {
    /// The template has a switch.
    ByTemplate,
    /// It has none, so reasoning must be ended as soon as it begins.
    ByBudget,
    /// The model does not reason.
    Never,
}

impl Style {
    /// Reads a template's source. `bos` and `eos` are the texts of those tokens.
    ///
    /// # Errors
    /// A source that is no template.
    pub fn of(source: &str, (bos, eos): (&str, &str), tokenizer: &Tokenizer) -> Result<Style> {
        let template = Template::parse(source).map_err(|e| Error::Request(e.to_string()))?;
        let format = Format::of(&template);
        let form = template.argument_form();
        let (bos, eos) = (bos.to_string(), eos.to_string());
        let (ends, stop, tools, variables) = (Vec::new(), None, None, Vec::new());
        let mut style = Style {
            template,
            format,
            form,
            bos,
            eos,
            ends,
            stop,
            needs_parts: false,
            is_taught: false,
            tools,
            variables,
        };
        style.needs_parts = style.finds_parts_alone();
        style.find_end(tokenizer);
        Ok(style)
    }

    /// How replies are written.
    pub fn format(&self) -> &Format {
        &self.format
    }

    /// Text that ends an answer, where no token does.
    pub fn stop(&self) -> Option<&str> {
        self.stop.as_deref()
    }

    /// Whether an id ends an answer, by what the template writes behind one.
    pub fn is_end(&self, id: u32) -> bool {
        self.ends.contains(&id)
    }

    /// Ids that end an answer.
    pub fn ends(&self) -> &[u32] {
        &self.ends
    }

    /// Gives the model functions to call. One whose template knows none is told of them in words.
    pub fn with_tools(&mut self, tools: Json) {
        if self.format.calls == Calls::None {
            let known = Format::known_format(super::tool_prompt::FORMAT, None);
            self.is_taught = known.is_some();
            self.format.calls = known.map_or(Calls::None, |known| known.calls);
            self.format.name = super::tool_prompt::FORMAT.to_string();
        }
        self.tools = Some(tools);
    }

    /// Finds what stands between an answer and the next question.
    fn find_end(&mut self, tokenizer: &Tokenizer) {
        const ANSWER: &str = "Pumexanswer";
        const QUESTION: &str = "Pumexquestion";
        if matches!(self.format.calls, Calls::Harmony) {
            return; // its ends of messages are not ends of answers; those are known by name
        }
        let talk = [Message::new("user", "u"), Message::new("assistant", ANSWER), Message::new("user", QUESTION)];
        let Ok(prompt) = self.render_messages(&talk, false) else { return };
        let between = prompt.text.split_once(ANSWER).and_then(|(_, rest)| rest.split_once(QUESTION));
        let Some((between, _)) = between else { return };
        let Ok(ids) = tokenizer.encode(between, false, true) else { return };
        let special = |id: &&u32| {
            let text = String::from_utf8_lossy(tokenizer.token_text(**id));
            let looks = text.len() > 2 && text.starts_with('<') && text.ends_with('>');
            (tokenizer.piece(**id).is_empty() || looks) && !self.format.has_mark(&text)
        };
        match ids.iter().find(special) {
            Some(id) => self.ends = vec![*id],
            None => self.stop = Some(between.trim_end().to_string()).filter(|text| text.trim().len() > 1),
        }
    }

    /// Whether the template writes the text of a part, and that of a message whose content is a text not.
    fn finds_parts_alone(&self) -> bool {
        const TEXT: &str = "Pumextext";
        let writes = |content: Json| {
            let pair = |key: &str, value: Json| (key.to_string(), value);
            let message = Json::Object(vec![pair("role", Json::Str("user".into())), pair("content", content)]);
            self.render(vec![message], true).is_ok_and(|prompt| prompt.text.contains(TEXT))
        };
        let pair = |key: &str, value: &str| (key.to_string(), Json::Str(value.to_string()));
        let part = Json::Object(vec![pair("type", "text"), pair("text", TEXT)]);
        !writes(Json::Str(TEXT.into())) && writes(Json::Array(vec![part]))
    }

    fn render_messages(&self, messages: &[Message], generation: bool) -> Result<RenderedPrompt> {
        self.render(messages.iter().map(|message| join_parts(message.json(), self.needs_parts)).collect(), generation)
    }

    fn render(&self, messages: Vec<Json>, generation: bool) -> Result<RenderedPrompt> {
        let mut request = Request::new(Json::Array(messages));
        request.bring_arguments(self.form);
        request.add_generation_prompt = generation;
        request.tools.clone_from(&self.tools);
        request.variables.clone_from(&self.variables);
        (request.bos, request.eos) = (self.bos.clone(), self.eos.clone());
        self.template.render(&request).map_err(|e| Error::Request(e.to_string()))
    }

    /// The prompt for an answer to messages. A template that refuses system messages gets that text before the first question.
    ///
    /// # Errors
    /// The template's own.
    pub fn prompt(&self, messages: &[Message]) -> Result<RenderedPrompt> {
        self.prompt_of(messages.iter().map(Message::json).collect(), true)
    }

    /// The prompt for messages as OpenAI's API has them; without `generation` the prompt does not open an answer.
    ///
    /// # Errors
    /// The template's own.
    pub fn prompt_of(&self, messages: Vec<Json>, generation: bool) -> Result<RenderedPrompt> {
        let messages = messages.into_iter().map(|message| join_parts(message, self.needs_parts)).collect();
        let messages = match self.tools.as_ref().filter(|_| self.is_taught) {
            Some(tools) => super::tool_prompt::add_tool_prompt(messages, tools),
            None => messages,
        };
        let text = |message: Option<&Json>, role: &str| {
            let message = message.filter(|m| m.get("role").and_then(Json::as_str) == Some(role))?;
            message.get("content").and_then(Json::as_str).map(str::to_string)
        };
        let merged = text(messages.first(), "system").zip(text(messages.get(1), "user"));
        let merged = merged.map(|(system, user)| Message::new("user", format!("{system}\n\n{user}")).json());
        let rest = messages.get(2..).map(<[Json]>::to_vec).unwrap_or_default();
        let whole = self.render(messages, generation);
        match merged {
            Some(first) if whole.is_err() => {
                self.render(std::iter::once(first).chain(rest).collect(), generation).or(whole)
            }
            _ => whole,
        }
    }

    /// The bytes of a generated id that a parser of replies is to see: control tokens only where they mean something to it.
    pub fn visible_bytes<'a>(&self, tokenizer: &'a Tokenizer, id: u32) -> &'a [u8] {
        let (piece, text) = (tokenizer.piece(id), tokenizer.token_text(id));
        let marks = piece.is_empty() && std::str::from_utf8(text).is_ok_and(|text| self.format.has_mark(text));
        if marks {
            text
        } else {
            piece
        }
    }

    /// The ids of a prompt: special tokens are read only where the template wrote them.
    ///
    /// # Errors
    /// As for [`Tokenizer::encode`].
    pub fn ids(&self, tokenizer: &Tokenizer, prompt: &RenderedPrompt) -> Result<Vec<u32>> {
        tokenizer.encode_marked(&prompt.text, &|range| prompt.is_own(range), tokenizer.add_bos())
    }

    /// How many ids stand before the first question: what stays when a context is full.
    pub fn count_opening_ids(&self, tokenizer: &Tokenizer, messages: &[Message]) -> usize {
        let system: Vec<Message> = messages.first().filter(|m| m.role == "system").cloned().into_iter().collect();
        let ids = |text: &str| {
            let talk: Vec<Message> = system.iter().cloned().chain([Message::new("user", text)]).collect();
            self.prompt(&talk).and_then(|prompt| self.ids(tokenizer, &prompt)).unwrap_or_default()
        };
        ids("a").iter().zip(&ids("b")).take_while(|(a, b)| a == b).count()
    }

    /// Sets a variable of the template, unless it is set.
    fn set(&mut self, name: &str, value: Json) {
        if !self.variables.iter().any(|(known, _)| known == name) {
            self.variables.push((name.to_string(), value));
        }
    }

    /// Asks the template for answers without reasoning.
    pub fn without_reasoning(&mut self) -> NoReasoning {
        let source = self.template.source().to_string();
        if self.format.end_of_reasoning(false).is_none() {
            return NoReasoning::Never;
        }
        let switches = ["enable_thinking", "thinking"].into_iter().filter(|name| has_word(&source, name));
        let switches: Vec<&str> = switches.collect();
        switches.iter().for_each(|name| self.set(name, Json::Bool(false)));
        if has_word(&source, "thinking_budget") {
            self.set("thinking_budget", Json::Int(0));
        }
        let effort = self.asks_effort();
        if effort {
            let none = source.contains("'none'") || source.contains("\"none\"");
            self.set("reasoning_effort", Json::Str(if none { "none" } else { "low" }.to_string()));
        }
        let switched = effort || switches.contains(&"enable_thinking") || has_word(&source, "thinking is defined");
        if switched {
            NoReasoning::ByTemplate
        } else {
            NoReasoning::ByBudget
        }
    }

    /// Asks the template for reasoning, where it has a switch.
    pub fn with_reasoning(&mut self) {
        let source = self.template.source().to_string();
        for name in ["enable_thinking", "thinking"].into_iter().filter(|name| has_word(&source, name)) {
            self.set(name, Json::Bool(true));
        }
    }

    /// Asks the template for so much reasoning.
    pub fn with_effort(&mut self, effort: &str) {
        self.variables.retain(|(name, _)| name != "reasoning_effort");
        self.set("reasoning_effort", Json::Str(effort.to_string()));
    }

    /// Whether the template reads how hard the model is to reason.
    pub fn asks_effort(&self) -> bool {
        has_word(self.template.source(), "reasoning_effort")
    }
}

/// What stands between the texts of a message that become one. Around the mark of a medium stands nothing.
const BETWEEN: &str = "\n";

/// A message whose parts are one text, if they are texts. For a template that reads `parts` alone, a text is one part, and so are parts
/// with media among them.
fn join_parts(message: Json, parts: bool) -> Json {
    let Json::Object(mut pairs) = message else { return message };
    for (_, content) in pairs.iter_mut().filter(|(key, _)| key == "content") {
        let whole = match content {
            Json::Str(text) if parts && !text.is_empty() => Json::Str(std::mem::take(text)),
            Json::Array(all) => {
                let texts = all.iter().map(|part| part.get("text").and_then(Json::as_str));
                let Some(texts) = texts.collect::<Option<Vec<&str>>>() else { continue };
                if parts && !texts.contains(&MARK) {
                    continue;
                }
                Json::Str(one_text(&texts))
            }
            _ => continue,
        };
        *content = match parts {
            true => {
                let pair = |key: &str, value: Json| (key.to_string(), value);
                let part = vec![pair("type", Json::Str("text".into())), pair("text", whole)];
                Json::Array(vec![Json::Object(part)])
            }
            false => whole,
        };
    }
    Json::Object(pairs)
}

/// Texts and marks of media as one text.
fn one_text(texts: &[&str]) -> String {
    let mut whole = String::new();
    let mut behind_mark = false;
    for text in texts {
        let is_mark = *text == MARK;
        if !is_mark && !behind_mark && !whole.is_empty() {
            whole.push_str(BETWEEN);
        }
        whole.push_str(text);
        behind_mark = is_mark;
    }
    whole
}

/// Whether a word stands in a text, and not as part of a longer one or behind a dot.
fn has_word(text: &str, word: &str) -> bool {
    let part = |c: char| c == '_' || c.is_alphanumeric();
    text.match_indices(word).any(|(at, _)| {
        !text[..at].ends_with(|c: char| part(c) || c == '.') && !text[at + word.len()..].starts_with(part)
    })
}
