//! Flags that say what the text may be: a grammar or a JSON schema.

use pumex_dialogue::grammar::GrammarSource;
use pumex_gguf::{Error, Result};
use std::path::{Path, PathBuf};

/// At most one of them.
#[derive(clap::Args, Clone, Debug)]
#[group(id = "constraint", multiple = false)]
pub struct Args {
    /// Allow only text of this grammar (GBNF)
    #[arg(long, value_name = "TEXT", help_heading = "Grammar")]
    grammar: Option<String>,
    /// Allow only text of the grammar in this file (GBNF)
    #[arg(long, value_name = "FILE", help_heading = "Grammar")]
    grammar_file: Option<PathBuf>,
    /// Allow only JSON of this schema; {} allows any
    #[arg(short, long, value_name = "TEXT", help_heading = "Grammar")]
    json_schema: Option<String>,
    /// Allow only JSON of the schema in this file
    #[arg(long, value_name = "FILE", help_heading = "Grammar")]
    json_schema_file: Option<PathBuf>,
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).map_err(|e| Error::io(path, e))
}

impl Args {
    /// What was given; none if nothing was.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn source(&self) -> Result<Option<GrammarSource>> {
        Ok(match self {
            Args { grammar: Some(text), .. } => Some(GrammarSource::Gbnf(text.clone())),
            Args { grammar_file: Some(path), .. } => Some(GrammarSource::Gbnf(read(path)?)),
            Args { json_schema: Some(text), .. } => Some(GrammarSource::JsonSchema(text.clone())),
            Args { json_schema_file: Some(path), .. } => Some(GrammarSource::JsonSchema(read(path)?)),
            _ => None,
        })
    }
}
