//! MiniMax M3's calls: `<invoke name="f">`, then a tag for each argument, with tags for what is in it; a prefix before every tag.

use crate::json::Json;
use crate::reply::call::Emit;
use crate::reply::params::{take, value, Type, Types};

/// Tags inside each other that are followed.
const DEPTH: usize = 64;

pub(super) struct Tags {
    prefix: String,
    /// None, while the name is read.
    function: Option<String>,
    text: String,
}

impl Tags {
    pub fn new(prefix: &str) -> Tags {
        Tags { prefix: prefix.to_string(), function: None, text: String::new() }
    }

    /// Goes on; true when the call has ended. Arguments are given when all are there.
    pub fn run(&mut self, pending: &mut String, types: &Types, emit: &mut Emit) -> bool {
        let function = match &self.function {
            Some(function) => function.clone(),
            None => {
                if !take(pending, "\">", &mut self.text) {
                    return false;
                }
                let head = std::mem::take(&mut self.text);
                let function = head.rsplit_once('"').map_or(head.as_str(), |(_, name)| name).to_string();
                emit.start(&function, None);
                self.function.insert(function).clone()
            }
        };
        if !take(pending, &format!("{}</invoke>", self.prefix), &mut self.text) {
            return false;
        }
        let mut reader = TagReader { prefix: &self.prefix, text: &self.text, at: 0 };
        let arguments = reader.entries(&|key| types.of(&function, key), 0);
        emit.arguments(&Json::Object(arguments).dump());
        emit.end(true);
        true
    }
}

struct TagReader<'a> {
    prefix: &'a str,
    text: &'a str,
    at: usize,
}

impl TagReader<'_> {
    /// Elements up to a closing tag or the end.
    fn entries(&mut self, of: &dyn Fn(&str) -> Type, depth: usize) -> Vec<(String, Json)> {
        let mut entries: Vec<(String, Json)> = Vec::new();
        while let Some(name) = self.open() {
            let item = self.element(&name, of(&name), depth);
            entries.push((name, item));
        }
        entries
    }

    /// The name of the tag that opens here.
    fn open(&mut self) -> Option<String> {
        let rest = self.text[self.at..].trim_start();
        let inner = rest.strip_prefix(self.prefix)?.strip_prefix('<')?;
        let end = inner.find('>').filter(|_| !inner.starts_with('/'))?;
        self.at = self.text.len() - inner.len() + end + 1;
        Some(inner[..end].to_string())
    }

    /// What stands in a tag, and goes behind its end.
    fn element(&mut self, name: &str, of: Type, depth: usize) -> Json {
        let close = format!("{}</{name}>", self.prefix);
        let rest = &self.text[self.at..];
        let nested =
            rest.trim_start().strip_prefix(self.prefix).is_some_and(|r| r.starts_with('<') && !r.starts_with("</"));
        if nested && depth < DEPTH && of != Type::Text {
            let entries = self.entries(&|_| Type::Unknown, depth + 1);
            let rest = self.text[self.at..].trim_start();
            self.at = self.text.len() - rest.strip_prefix(&close).unwrap_or(rest).len();
            return match entries.iter().all(|(name, _)| name == "item") {
                true => Json::Array(entries.into_iter().map(|(_, item)| item).collect()),
                false => Json::Object(entries),
            };
        }
        let end = rest.find(&close).unwrap_or(rest.len());
        let text = &rest[..end];
        self.at = (self.at + end + close.len()).min(self.text.len());
        Json::parse(&value(text, of)).unwrap_or_else(|_| Json::Str(text.to_string()))
    }
}
