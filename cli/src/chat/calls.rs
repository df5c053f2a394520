//! What answers are within: a grammar that was asked for, or calls of functions.

use std::sync::Arc;

use pumex_dialogue::grammar::{CallConstraint, GrammarSource, Matcher, ToolChoice, Vocabulary};
use pumex_dialogue::{grammar, Style};
use pumex_gguf::{Error, Result};
use pumex_text::Tokenizer;

use super::super::output;

/// Reads a choice: a word, or else the name of a function.
pub fn choice(text: &str) -> std::result::Result<ToolChoice, String> {
    match text {
        "auto" => Ok(ToolChoice::Auto),
        "none" => Ok(ToolChoice::None),
        "required" => Ok(ToolChoice::Required),
        "" => Err("expected auto, none, required or the name of a function".into()),
        name => Ok(ToolChoice::Function(name.to_string())),
    }
}

/// Matchers of answers that have not begun.
#[derive(Default)]
pub struct Within {
    /// Matches an answer to the user.
    to_user: Option<Matcher>,
    /// Matches an answer to results of calls.
    to_results: Option<Matcher>,
}

impl Within {
    /// For a model that is talked to in a style.
    ///
    /// # Errors
    /// A source that is wrong; a function that is not there; calls that cannot be forced.
    pub fn new(
        style: &Style,
        tokenizer: &Tokenizer,
        source: Option<&GrammarSource>,
        choice: &ToolChoice,
    ) -> Result<Within> {
        let tools = style.tools.as_ref().filter(|_| source.is_none());
        if source.is_none() && tools.is_none() {
            return Ok(Within::default());
        }
        let vocabulary = grammar::vocabulary(tokenizer, style.ends())?;
        if let Some(source) = source {
            let matcher = grammar::answer(&vocabulary, style.format(), source)?;
            report_unenforced("--json-schema", &matcher);
            return Ok(Within { to_user: Some(matcher.clone()), to_results: Some(matcher) });
        }
        // A schema that cannot be held to is no reason not to talk.
        let free = calls(&vocabulary, style, &ToolChoice::Auto).unwrap_or_else(|e| {
            output::say(format_args!("warning: --tools: calls are not held to their schemas: {e}\n"));
            None
        });
        if matches!(choice, ToolChoice::Auto | ToolChoice::None) {
            return Ok(Within { to_user: free.clone(), to_results: free });
        }
        let forced = calls(&vocabulary, style, choice);
        let forced = forced.map_err(|e| Error::Request(format!("--tool-choice: {e}")))?;
        match forced {
            Some(matcher) => Ok(Within { to_user: Some(matcher), to_results: free }),
            None => Err(Error::Request(format!(
                "--tool-choice: expected auto or none, as the way in which this model writes calls ({}) cannot be forced",
                style.format().name
            ))),
        }
    }

    /// A matcher for the next answer, which is to the user or to results of calls.
    pub fn matcher(&self, to_results: bool) -> Option<Matcher> {
        let which = if to_results { &self.to_results } else { &self.to_user };
        which.clone()
    }
}

/// Says what of a flag's schemas is not held to.
fn report_unenforced(flag: &str, matcher: &Matcher) {
    matcher.unenforced().iter().for_each(|what| output::say(format_args!("warning: {flag}: {what}\n")));
}

fn calls(vocabulary: &Arc<Vocabulary>, style: &Style, choice: &ToolChoice) -> Result<Option<Matcher>> {
    let Some(tools) = &style.tools else { return Ok(None) };
    let choice = CallConstraint { calls: choice, allowed: None, parallel: true, may_reason: true };
    let matcher = grammar::calls(vocabulary, style.format(), tools, choice)?;
    matcher.iter().for_each(|matcher| report_unenforced("--tools", matcher));
    Ok(matcher)
}
