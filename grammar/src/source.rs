//! What a grammar is given as, and its compilation.

use crate::schema::{self, Normal};
use crate::{gbnf, Error, Matcher, Result, Vocabulary};
use llguidance::api::TopLevelGrammar;
use llguidance::CancellationHandle;
use serde_json::{json, Value};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{mpsc, Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Longest source, bytes.
const MAX_SOURCE: usize = 256 << 10;
/// Most values of a schema: compiling takes time quadratic in its properties.
const MAX_VALUES: usize = 5_000;
/// Stack of the compiler, which follows rules that name each other by recursion. Only what is used is taken.
const STACK: usize = 256 << 20;
/// White space between the marks of a JSON text: bounded, so that a model cannot go on with it for ever.
const WHITE_SPACE: &str = r"( |\n[ \t]{0,40})?";

/// Text that says what is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GrammarSource {
    /// llama.cpp's notation; rule `root` is the whole.
    Gbnf(String),
    /// A JSON text of a schema, as generators write it.
    JsonSchema(String),
    /// A JSON text of a schema that [`Vocabulary::split_unenforced`] made.
    Held(String),
    /// Any JSON object.
    JsonObject,
    /// A regular expression of the whole.
    Regex(String),
    /// Lark as `llguidance` has it; rule `start` is the whole.
    Lark(String),
}

impl GrammarSource {
    fn text(&self) -> &str {
        match self {
            GrammarSource::Gbnf(text)
            | GrammarSource::JsonSchema(text)
            | GrammarSource::Held(text)
            | GrammarSource::Regex(text)
            | GrammarSource::Lark(text) => text,
            GrammarSource::JsonObject => "",
        }
    }

    /// Its text.
    #[cfg(test)]
    pub(crate) fn text_for_tests(&self) -> &str {
        self.text()
    }

    /// What it is, for errors.
    fn name(&self) -> &'static str {
        match self {
            GrammarSource::JsonSchema(_) | GrammarSource::Held(_) | GrammarSource::JsonObject => "JSON schema",
            GrammarSource::Regex(_) => "regular expression",
            GrammarSource::Gbnf(_) | GrammarSource::Lark(_) => "grammar",
        }
    }

    fn grammar(&self, vocabulary: &Vocabulary) -> Result<TopLevelGrammar> {
        let len = self.text().len();
        if len > MAX_SOURCE {
            let what = format!("{}: expected at most {MAX_SOURCE} bytes, found {len}", self.name());
            return Err(Error::new(what));
        }
        Ok(match self {
            GrammarSource::Gbnf(text) => TopLevelGrammar::from_lark(gbnf::to_lark(text, &|t| vocabulary.token(t))?),
            GrammarSource::JsonSchema(text) | GrammarSource::Held(text) => {
                TopLevelGrammar::from_json_schema(bound_whitespace(parse_json(text)?))
            }
            GrammarSource::JsonObject => TopLevelGrammar::from_json_schema(bound_whitespace(json!({"type": "object"}))),
            GrammarSource::Regex(text) => TopLevelGrammar::from_regex(text),
            GrammarSource::Lark(text) => TopLevelGrammar::from_lark(text.clone()),
        })
    }
}

fn parse_json(text: &str) -> Result<Value> {
    check_limits(serde_json::from_str(text).map_err(|e| Error::new(format!("JSON schema: {e}")))?)
}

/// A schema that is not over the limits.
pub(crate) fn check_limits(schema: Value) -> Result<Value> {
    match values(&schema) {
        found if found > MAX_VALUES => {
            Err(Error::new(format!("JSON schema: expected at most {MAX_VALUES} values, found {found}")))
        }
        _ => Ok(schema),
    }
}

/// Values of a JSON text, whose depth its parser bounded.
fn values(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(values).sum(),
        Value::Object(fields) => fields.values().map(values).sum(),
        _ => 0,
    }
}

/// The schema with bounded white space, unless it says how much.
pub(crate) fn bound_whitespace(mut schema: Value) -> Value {
    if schema == Value::Bool(true) {
        schema = json!({});
    }
    if let Value::Object(fields) = &mut schema {
        let usual = || json!({"whitespace_pattern": WHITE_SPACE, "coerce_one_of": true});
        fields.entry("x-guidance").or_insert_with(usual);
    }
    schema
}

impl GrammarSource {
    /// Lark in which it is the rule of a name.
    pub(crate) fn as_rule(&self, name: &str, vocabulary: &Vocabulary) -> Result<String> {
        let lark = match self {
            GrammarSource::JsonSchema(text) | GrammarSource::Held(text) => {
                return Ok(format!("{name}: %json {}\n", bound_whitespace(parse_json(text)?)))
            }
            GrammarSource::JsonObject => {
                return Ok(format!("{name}: %json {}\n", bound_whitespace(json!({"type": "object"}))))
            }
            GrammarSource::Regex(text) => return Ok(format!("{name}: /{}/\n", text.replace('/', "\\/"))),
            GrammarSource::Gbnf(text) => gbnf::to_lark(text, &|t| vocabulary.token(t))?,
            GrammarSource::Lark(text) => text.clone(),
        };
        let whole = lark.lines().map(|line| match line.strip_prefix("start:") {
            Some(body) => format!("{name}:{body}\n"),
            None => format!("{line}\n"),
        });
        Ok(whole.collect())
    }
}

/// Tokens that are tried.
const TRIED: usize = 4;
/// Longest that a source may take to be compiled: others wait for it.
const LONGEST: Duration = Duration::from_secs(10);

/// Ends a compilation that takes too long.
#[derive(Default)]
struct Watch {
    over: AtomicBool,
    /// What is under way, as far as it can be told to end.
    handles: Mutex<Vec<CancellationHandle>>,
}

impl Watch {
    /// Has this matcher end with the time.
    fn watch(&self, matcher: &llguidance::Matcher) {
        let mut handles = self.handles.lock().unwrap_or_else(PoisonError::into_inner);
        handles.extend(matcher.cancellation_handle());
        if self.is_over() {
            handles.iter().for_each(CancellationHandle::cancel);
        }
    }

    fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
        let handles = self.handles.lock().unwrap_or_else(PoisonError::into_inner);
        handles.iter().for_each(CancellationHandle::cancel);
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }
}

/// Takes the first tokens that are allowed: a grammar that is over the limits as soon as a text begins is told with the request.
fn try_some(mut matcher: Matcher) -> Result<()> {
    for _ in 0..TRIED {
        if matcher.is_over() {
            break;
        }
        let mask = matcher.mask()?;
        let first = mask.iter().zip(0u32..).find(|(word, _)| **word != 0);
        let Some(id) = first.map(|(word, at)| 32 * at + word.trailing_zeros()) else { break };
        matcher.accept(id)?;
    }
    Ok(())
}

impl Vocabulary {
    /// A schema that can be held to, and what of the given one it does not say.
    ///
    /// # Errors
    /// What is no schema; one that cannot be compiled for another reason than a keyword of its.
    pub(crate) fn holdable(&self, given: &Value, strict: bool) -> Result<Normal> {
        let end = Instant::now() + LONGEST;
        let compile = |schema: &Value| {
            if Instant::now() > end {
                return Err(format!("expected to be compiled within {LONGEST:?}, found more"));
            }
            let grammar = TopLevelGrammar::from_json_schema(bound_whitespace(schema.clone()));
            self.factory.create_parser(grammar).map(|_| ()).map_err(|e| e.to_string())
        };
        let first = schema::normal(given, None, strict)?;
        if compile(&first.schema).is_ok() {
            return Ok(first);
        }
        let tries = |schema: &Value| compile(schema).is_ok();
        let second = schema::normal(given, Some(&tries), strict)?;
        match compile(&second.schema) {
            Ok(_) => Ok(second),
            Err(error) => Err(Error::from_matcher_error("JSON schema", &error)),
        }
    }

    /// A source that can be held to, and what of the given one it does not say; sources that are no schemas stay as they were.
    ///
    /// # Errors
    /// As [`Vocabulary::matcher`].
    pub fn split_unenforced(&self, source: &GrammarSource) -> Result<(GrammarSource, Vec<String>)> {
        let GrammarSource::JsonSchema(text) = source else { return Ok((source.clone(), Vec::new())) };
        let len = text.len();
        if len > MAX_SOURCE {
            return Err(Error::new(format!("{}: expected at most {MAX_SOURCE} bytes, found {len}", source.name())));
        }
        let given = parse_json(text)?;
        let Normal { schema, dropped } = on_stack(source.name(), || self.holdable(&given, true))?;
        Ok((GrammarSource::Held(schema.to_string()), dropped))
    }

    /// Compiles a source into a matcher of a new text.
    ///
    /// # Errors
    /// Where the source is wrong; one over the limits; one that allows nothing.
    pub fn matcher(self: &Arc<Self>, source: &GrammarSource) -> Result<Matcher> {
        self.matcher_within(source, LONGEST)
    }

    /// Compiles a source into a matcher of a new text, in `longest` at most, about: parts of the compiler that are bounded otherwise go on
    /// to their end.
    ///
    /// # Errors
    /// As [`Vocabulary::matcher`]; a source that takes longer.
    pub fn matcher_within(self: &Arc<Self>, source: &GrammarSource, longest: Duration) -> Result<Matcher> {
        let (source, dropped) = self.split_unenforced(source)?;
        let source = &source;
        let watch = Watch::default();
        let in_time = || match watch.is_over() {
            true => {
                Err(Error::new(format!("{}: expected to be compiled within {longest:?}, found more", source.name())))
            }
            false => Ok(()),
        };
        let compile = || {
            let grammar = source.grammar(self)?;
            in_time()?;
            let parser = self.factory.create_parser(grammar);
            let mut matcher = llguidance::Matcher::new(parser).into_cancellable();
            watch.watch(&matcher);
            match matcher.get_error() {
                Some(error) => Err(Error::from_matcher_error(source.name(), &error)),
                None => {
                    matcher.compute_mask_or_eos().map_err(|e| {
                        let error = Error::from_matcher_error(source.name(), &e.to_string());
                        if matcher.stop_reason() == llguidance::api::StopReason::InternalError
                            && error.0.contains("NoExtension")
                        {
                            Error::new(format!("{}: it allows nothing", source.name()))
                        } else {
                            error
                        }
                    })?;
                    let tried = matcher.clone();
                    watch.watch(&tried);
                    try_some(Matcher::new(self.clone(), tried))
                        .map_err(|e| Error::from_matcher_error(source.name(), &e.0))?;
                    Ok(Matcher::new(self.clone(), matcher))
                }
            }
        };
        let failed = |e: &dyn std::fmt::Display| Error::new(format!("{}: {e}", source.name()));
        std::thread::scope(|scope| {
            let (done, is_done) = mpsc::channel::<()>();
            let run = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, move || {
                let _done = done;
                compile()
            });
            let run = run.map_err(|e| failed(&e))?;
            // Nothing is sent: it ends with the thread.
            if is_done.recv_timeout(longest) == Err(mpsc::RecvTimeoutError::Timeout) {
                watch.end();
            }
            let compiled = run.join().unwrap_or_else(|_| Err(failed(&"the compiler failed")));
            in_time().and(compiled).map(|matcher| matcher.with_unenforced(dropped))
        })
    }
}

/// Runs what may need a large stack.
pub(crate) fn on_stack<T: Send>(name: &str, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let failed = |e: &dyn std::fmt::Display| Error::new(format!("{name}: {e}"));
    std::thread::scope(|scope| {
        let run = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work);
        run.map_err(|e| failed(&e))?.join().unwrap_or_else(|_| Err(failed(&"the compiler failed")))
    })
}
