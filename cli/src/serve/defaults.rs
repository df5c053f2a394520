//! What holds where a request says nothing.

use crate::grammar;
use pumex_dialogue::grammar::GrammarSource;
use pumex_gguf::{Error, Result};
use pumex_serve::engine::Constraint;

/// Defaults of requests; names are llama-server's.
#[derive(clap::Args, Clone, Debug)]
pub struct DefaultArgs {
    #[command(flatten)]
    constraint: grammar::Args,
    /// What becomes of reasoning: none leaves it in the text, auto and deepseek tell it apart
    #[arg(long, value_name = "FORMAT", default_value = "auto", env = "LLAMA_ARG_THINK")]
    #[arg(value_parser = ["none", "auto", "deepseek", "deepseek-legacy"])]
    reasoning_format: String,
    /// Answer a last message of the assistant's instead of going on with it
    #[arg(long)]
    no_prefill_assistant: bool,
    /// Lengths of vectors: -1 as they are, 0 by the largest, 1 sum, 2 Euclid's, more: that norm [default: 2]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(i32).range(-1..))]
    pub embd_normalize: Option<i32>,
}

impl DefaultArgs {
    /// What answers are within.
    ///
    /// # Errors
    /// A file that cannot be read; a schema that is no JSON.
    pub fn constraint(&self) -> Result<Option<Constraint>> {
        Ok(match self.constraint.source()? {
            Some(GrammarSource::Gbnf(text)) => Some(Constraint::Grammar(text)),
            Some(GrammarSource::JsonSchema(text)) => {
                let schema = serde_json::from_str(&text);
                Some(Constraint::Schema(schema.map_err(|e| Error::Usage(format!("--json-schema: {e}")))?))
            }
            _ => None,
        })
    }

    /// Whether reasoning stays in the text.
    pub fn inline_reasoning(&self) -> bool {
        matches!(self.reasoning_format.as_str(), "none" | "deepseek-legacy")
    }

    /// Whether a last message of the assistant's is continued.
    pub fn prefills(&self) -> bool {
        !self.no_prefill_assistant
    }
}
