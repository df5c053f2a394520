//! Chat templates: Jinja as transformers runs it with Python's jinja2, byte for byte.
//!
//! The interpreter is our own. A template comes with a file from anywhere, so its time, memory and depth must have bounds, and a
//! prompt must say which of its bytes the template wrote and which came from messages. Neither can be had from outside of an
//! interpreter; and what templates print is Python's `str`, `repr` and `json.dumps`.

mod args;
mod ast;
mod eval;
mod expression;
mod filters;
mod globals;
mod lexer;
mod methods;
mod operators;
mod parser;
mod percent;
pub(crate) mod run;
mod strings;
mod subscript;
mod tests;

use std::ops::Range;
use std::sync::Arc;

use crate::budget::{RenderBudget, RenderLimits};
use crate::clock::DateTime;
use crate::error::{Error, Result};
use crate::json::Json;
use crate::text::{Builder, Text};
use crate::value::Value;

/// Stack of a rendering's thread: enough for [`RenderLimits::depth`] levels.
const STACK: usize = 96 << 20;

/// Roles that templates know and write between their marks: not text from outside. Any other is.
const ROLES: [&str; 12] = [
    "system",
    "user",
    "assistant",
    "tool",
    "developer",
    "function",
    "ipython",
    "observation",
    "model",
    "context",
    "documents",
    "tool_response",
];

/// What a template is rendered with.
#[derive(Clone, Debug)]
pub struct Request {
    /// The messages, in the shape of OpenAI's API.
    pub messages: Json,
    /// Functions that may be called.
    pub tools: Option<Json>,
    /// Documents to answer from.
    pub documents: Option<Json>,
    /// Whether the prompt ends where the assistant is to write.
    pub add_generation_prompt: bool,
    /// Further variables, such as `enable_thinking`.
    pub variables: Vec<(String, Json)>,
    /// Text of the token that begins a text; empty where there is none.
    pub bos: String,
    /// Text of the token that ends a text.
    pub eos: String,
    /// What the clock says; none: the present, in UTC.
    pub now: Option<DateTime>,
    /// What the template may use.
    pub limits: RenderLimits,
}

impl Request {
    /// A request for an answer to messages.
    pub fn new(messages: Json) -> Request {
        Request {
            messages,
            tools: None,
            documents: None,
            add_generation_prompt: true,
            variables: Vec::new(),
            bos: String::new(),
            eos: String::new(),
            now: None,
            limits: RenderLimits::default(),
        }
    }

    /// Reads `{"messages", "tools"?, "documents"?, "add_generation_prompt"?, "chat_template_kwargs"?}`.
    ///
    /// # Errors
    /// The text is not JSON or has no messages.
    pub fn from_json(text: &str) -> Result<Request> {
        let json = Json::parse(text)?;
        let given = |key: &str| json.get(key).filter(|v| **v != Json::Null);
        let messages = given("messages").filter(|m| m.as_array().is_some());
        let mut request =
            Request::new(messages.cloned().ok_or_else(|| Error::Request("no list \"messages\"".to_string()))?);
        request.tools = given("tools").cloned();
        request.documents = given("documents").cloned();
        request.add_generation_prompt = match given("add_generation_prompt") {
            None => false,
            Some(Json::Bool(b)) => *b,
            Some(_) => return Err(Error::Request("\"add_generation_prompt\" must be true or false".to_string())),
        };
        if let Some(variables) = given("chat_template_kwargs") {
            let entries = variables.as_object();
            let entries =
                entries.ok_or_else(|| Error::Request("\"chat_template_kwargs\" must be an object".to_string()))?;
            request.variables = entries.to_vec();
        }
        Ok(request)
    }
}

/// What a template made of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenderedPrompt {
    /// The text.
    pub text: String,
    /// Byte ranges of the text that came from the request, or may have: sorted, apart from each other. A special token is one
    /// only if none of its bytes lies in them.
    pub from_outside: Vec<Range<usize>>,
}

impl RenderedPrompt {
    /// Whether a range of bytes is all the template's own: where a special token may stand.
    pub fn is_own(&self, range: Range<usize>) -> bool {
        let at = self.from_outside.partition_point(|r| r.end <= range.start);
        self.from_outside.get(at).is_none_or(|r| r.start >= range.end)
    }

    /// The text in pieces: each with whether the template wrote it itself.
    pub fn parts(&self) -> Vec<(&str, bool)> {
        let mut parts = Vec::new();
        let mut at = 0;
        for range in &self.from_outside {
            parts.push((&self.text[at..range.start], true));
            parts.push((&self.text[range.clone()], false));
            at = range.end;
        }
        parts.push((&self.text[at..], true));
        parts.retain(|(text, _)| !text.is_empty());
        parts
    }
}

/// A parsed template. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Template {
    body: Arc<ast::StatementBody>,
    source: Arc<str>,
}

impl Template {
    /// Parses a template's source.
    ///
    /// # Errors
    /// [`Error::Syntax`] with the line.
    pub fn parse(source: &str) -> Result<Template> {
        Ok(Template { body: Arc::new(parser::parse(source)?), source: source.into() })
    }

    /// The template as it was given.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Renders a request.
    ///
    /// # Errors
    /// [`Error::Refused`] with the template's own message, [`Error::Template`] where Python would raise, [`Error::Limit`].
    pub fn render(&self, request: &Request) -> Result<RenderedPrompt> {
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name("chat template".to_string()).stack_size(STACK);
            let failed = |_| Error::template("no memory for a thread");
            let rendering = thread.spawn_scoped(scope, || self.render_here(request)).map_err(failed)?;
            rendering.join().unwrap_or_else(|_| Err(Error::template("the interpreter failed")))
        })
    }

    fn render_here(&self, request: &Request) -> Result<RenderedPrompt> {
        let budget = RenderBudget::new(request.limits);
        let root = run::Scope::root();
        let machine =
            run::Machine { budget: &budget, root: root.clone(), now: request.now.unwrap_or_else(DateTime::now) };
        let optional = |json: &Option<Json>| json.as_ref().map_or(Ok(Value::None), |j| Value::from_outside(&budget, j));
        root.set(&"messages".into(), self.messages(&budget, &request.messages)?);
        root.set(&"tools".into(), optional(&request.tools)?);
        root.set(&"documents".into(), optional(&request.documents)?);
        root.set(&"add_generation_prompt".into(), Value::Bool(request.add_generation_prompt));
        root.set(&"bos_token".into(), Value::str(&request.bos));
        root.set(&"eos_token".into(), Value::str(&request.eos));
        for (name, value) in &request.variables {
            root.set(&name.as_str().into(), Value::from_outside(&budget, value)?);
        }
        let mut out = Builder::new(&budget);
        machine.run(&self.body, &root, &mut out)?;
        let (text, from_outside) = out.into_parts();
        Ok(RenderedPrompt { text, from_outside })
    }

    /// The messages as values: known roles are not marked, and reasoning goes by both its names, as transformers does it.
    fn messages(&self, budget: &RenderBudget, messages: &Json) -> Result<Value> {
        let Some(list) = messages.as_array() else { return Value::from_outside(budget, messages) };
        let message = |json: &Json| {
            let value = Value::from_outside(budget, json)?;
            let Value::Dict(map) = &value else { return Ok(value) };
            let role = json.get("role").and_then(Json::as_str);
            if let Some(role) = role.filter(|r| ROLES.contains(r)) {
                map.0.borrow_mut().insert(Value::str("role"), Value::str(role))?;
            }
            let names = ["reasoning_content", "thinking"];
            let given = names.iter().find_map(|n| json.get(n).filter(|v| matches!(v, Json::Str(_))));
            if let (Some(given), Some("assistant")) = (given, role) {
                for name in names.iter().filter(|n| json.get(n).is_none() && self.reads(n)) {
                    map.0.borrow_mut().insert(Value::Str(Text::plain(*name)), Value::from_outside(budget, given)?)?;
                }
            }
            Ok(value)
        };
        Value::list(budget, list.iter().map(message).collect::<Result<_>>()?)
    }

    /// Whether the template reads a key of messages.
    fn reads(&self, key: &str) -> bool {
        [format!(".{key}"), format!("'{key}'"), format!("\"{key}\"")].iter().any(|name| {
            let found = self.source.match_indices(name.as_str());
            found
                .into_iter()
                .any(|(at, _)| !self.source[at + name.len()..].starts_with(|c: char| c == '_' || c.is_alphanumeric()))
        })
    }
}
