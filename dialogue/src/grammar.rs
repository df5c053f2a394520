//! Generation under a grammar: a tokenizer's vocabulary for the crate `grammar/`, and one text's matcher for the decoding loops.

use pumex_chat::{reply::Format, Json};
use pumex_engine::conversation::Constraint;
use pumex_gguf::{Error, Result};
pub use pumex_grammar::{CallConstraint, GrammarSource, Matcher, ToolChoice, Vocabulary};
use pumex_grammar::{Error as GrammarError, TokenText};
use pumex_text::Tokenizer;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn to_gguf_error(error: GrammarError) -> Error {
    Error::Request(error.to_string())
}

/// The tokens of a model. Control tokens are no text: a grammar allows only those that it names, and the ends where it may end.
///
/// `ends` are ids that end texts beside those that the model says.
///
/// # Errors
/// A model without a vocabulary, or with one too large.
pub fn vocabulary(tokenizer: &Tokenizer, ends: &[u32]) -> Result<Arc<Vocabulary>> {
    if !tokenizer.has_vocab() {
        return Err(Error::Request("grammar: the model has no vocabulary".into()));
    }
    let n_vocab = tokenizer.n_vocab() as u32;
    let is_end = |id: u32| tokenizer.is_end(id) || ends.contains(&id);
    let piece = |id: u32| match (tokenizer.piece(id), tokenizer.token_text(id)) {
        (_, text) if is_end(id) => TokenText::Special(text),
        ([], []) => TokenText::Nothing,
        ([], text) => TokenText::Special(text),
        (piece, _) => TokenText::Text(piece),
    };
    let ends: Vec<u32> = (0..n_vocab).filter(|id| is_end(*id)).collect();
    Vocabulary::new((0..n_vocab).map(piece), &ends).map(Arc::new).map_err(to_gguf_error)
}

/// Compiles a source for texts of a vocabulary.
///
/// # Errors
/// A source that is wrong, over the limits, or allows nothing.
pub fn matcher(vocabulary: &Arc<Vocabulary>, source: &GrammarSource) -> Result<Matcher> {
    vocabulary.matcher(source).map_err(to_gguf_error)
}

/// A matcher of replies in a format that may or must call `tools`, as in a request; none where the format has no such grammar. What of
/// their schemas cannot be held to is told by it.
///
/// # Errors
/// Tools that are no list of functions; a function that is chosen but not there.
pub fn calls(
    vocabulary: &Arc<Vocabulary>,
    format: &Format,
    tools: &Json,
    choice: CallConstraint,
) -> Result<Option<Matcher>> {
    let tools = serde_json::from_str(&tools.dump()).map_err(|e| Error::Request(format!("tools: {e}")))?;
    let source = vocabulary.calls(format, &tools, choice).map_err(to_gguf_error)?;
    let whole =
        |(source, dropped): (GrammarSource, _)| Ok::<_, Error>(matcher(vocabulary, &source)?.with_unenforced(dropped));
    let matcher = source.map(whole).transpose();
    // The grammar that an error shows is none of the user's.
    matcher.map_err(|e| Error::Request(e.to_string().lines().next().unwrap_or_default().to_string()))
}

/// A matcher of a whole reply in a format whose answer is of a source.
///
/// # Errors
/// A source that cannot be read.
pub fn answer(vocabulary: &Arc<Vocabulary>, format: &Format, source: &GrammarSource) -> Result<Matcher> {
    let (source, dropped) = vocabulary.answer(format, source).map_err(to_gguf_error)?;
    Ok(matcher(vocabulary, &source)?.with_unenforced(dropped))
}

/// Most time of a grammar for one token: others wait for it.
const LONGEST: Duration = Duration::from_secs(2);

/// A matcher of one text, and the time spent in it.
#[derive(Clone)]
pub struct GrammarMask {
    matcher: Matcher,
    spent: Duration,
}

impl GrammarMask {
    /// For a text that `matcher` has seen the beginning of.
    pub fn new(matcher: Matcher) -> GrammarMask {
        GrammarMask { matcher, spent: Duration::ZERO }
    }

    /// Time spent so far, milliseconds.
    pub fn ms(&self) -> f64 {
        self.spent.as_secs_f64() * 1e3
    }

    fn time_matcher<T>(&mut self, f: impl FnOnce(&mut Matcher) -> pumex_grammar::Result<T>) -> Result<T> {
        let begun = Instant::now();
        let result = f(&mut self.matcher).map_err(to_gguf_error);
        let took = begun.elapsed();
        self.spent += took;
        match took > LONGEST {
            true => Err(Error::Request(format!("grammar: expected at most {LONGEST:?} for a token, found {took:.1?}"))),
            false => result,
        }
    }
}

impl Constraint for GrammarMask {
    fn allowed_ids(&mut self) -> Result<Arc<[u32]>> {
        self.time_matcher(|matcher| matcher.mask().map(Arc::from))
    }

    fn accept(&mut self, id: u32) -> Result<()> {
        self.time_matcher(|matcher| matcher.accept(id))
    }

    fn is_over(&self) -> bool {
        self.matcher.is_over()
    }
}
