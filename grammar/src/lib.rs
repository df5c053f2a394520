//! What a text may be: grammars and JSON schemas as masks over a model's vocabulary.
//!
//! A [`Vocabulary`] knows the bytes of every token. [`Vocabulary::matcher`] compiles a [`GrammarSource`] into a [`Matcher`], which follows
//! one text: it says which ids may come next, and takes the one that came. The automata are those of the crate `llguidance`; its limits
//! are set here, so that any source ends within bounded time and memory, with a matcher or an error.

mod calls;
mod gbnf;
mod matcher;
mod schema;
mod source;
mod vocabulary;

#[cfg(test)]
mod tests;

pub use calls::{CallConstraint, ToolChoice};
pub use matcher::Matcher;
pub use source::GrammarSource;
pub use vocabulary::{TokenText, Vocabulary};

/// Why there is no matcher, or no next id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(String);

impl Error {
    fn new(what: impl Into<String>) -> Error {
        Error(what.into())
    }

    /// What the crate below says, without its state and where it was.
    fn from_matcher_error(what: &str, error: &str) -> Error {
        let end = ["\n<non-verbose/>", "\n<backtrace>", "\n<state>"].iter().filter_map(|mark| error.find(mark)).min();
        let text: String = error[..end.unwrap_or(error.len())].chars().take(1000).collect();
        Error(format!("{what}: {}", text.trim_end()))
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;
