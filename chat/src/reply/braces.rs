//! Gemma's calls: `name{key:value,…}`, keys and words bare, strings between marks.

use crate::json::Json;
use crate::reply::call::Emit;
use crate::reply::params::escape_json;
use crate::reply::{until, MarkSearch};

pub(super) struct Braces {
    quote: String,
    /// None, while the name is read.
    depth: Option<usize>,
    name: String,
    /// A key or value without marks.
    word: String,
    quoted: bool,
}

impl Braces {
    pub fn new(quote: &str) -> Braces {
        Braces { quote: quote.to_string(), depth: None, name: String::new(), word: String::new(), quoted: false }
    }

    /// Goes on; true when the call has ended.
    pub fn run(&mut self, pending: &mut String, emit: &mut Emit) -> bool {
        loop {
            if self.quoted {
                let found = until(pending, &[&self.quote]);
                let (MarkSearch::Mark(text, _) | MarkSearch::Text(text)) = &found;
                emit.arguments(&escape_json(text));
                if !matches!(found, MarkSearch::Mark(..)) {
                    return false;
                }
                emit.arguments("\"");
                self.quoted = false;
                continue;
            }
            let marks: [&str; 7] = match self.depth {
                None => ["{", "", "", "", "", "", ""],
                Some(_) => [&self.quote, "{", "}", "[", "]", ",", ":"],
            };
            let found = until(pending, &marks);
            let (MarkSearch::Mark(text, _) | MarkSearch::Text(text)) = &found;
            self.word.push_str(text);
            let MarkSearch::Mark(_, mark) = found else { return false };
            let Some(depth) = self.depth else {
                self.name = std::mem::take(&mut self.word).trim().to_string();
                emit.start(&self.name, None);
                emit.arguments("{");
                self.depth = Some(1);
                continue;
            };
            let word = std::mem::take(&mut self.word);
            let word = word.trim();
            let quoted = format!("\"{}\"", escape_json(word));
            match (mark, word.is_empty()) {
                // A key.
                (6, false) => emit.arguments(&quoted),
                (_, false) => emit.arguments(if Json::parse(word).is_ok() { word } else { &quoted }),
                (_, true) => (),
            }
            emit.arguments(["\"", "{", "}", "[", "]", ", ", ": "][mark]);
            match mark {
                0 => self.quoted = true,
                1 | 3 => self.depth = Some(depth + 1),
                2 | 4 => {
                    self.depth = Some(depth - 1);
                    if depth == 1 {
                        emit.end(true);
                        return true;
                    }
                }
                _ => (),
            }
        }
    }
}
