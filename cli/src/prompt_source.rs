//! Where a prompt comes from: `--prompt`, `--file`, or a piped stdin.
//!
//! As in llama.cpp, one newline at the end of a file is dropped, and backslash escapes are turned on by the caller.

use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};

use pumex_gguf::{Error, Result};

use super::files;

/// The prompt's sources.
#[derive(clap::Args, Clone, Debug)]
pub struct PromptArgs {
    /// Text of the prompt; without it and --file, stdin is read
    #[arg(short, long, value_name = "TEXT", conflicts_with = "file")]
    pub prompt: Option<String>,
    /// File with the prompt
    #[arg(short, long, value_name = "FILE")]
    pub file: Option<PathBuf>,
}

impl PromptArgs {
    /// The text; `None` when nothing is given and stdin is a terminal.
    ///
    /// # Errors
    /// A file that cannot be read or is not UTF-8; an empty stdin.
    pub fn read(&self, escapes: bool) -> Result<Option<String>> {
        if let Some(text) = &self.prompt {
            return Ok(Some(if escapes { unescape(text) } else { text.clone() }));
        }
        if let Some(path) = &self.file {
            let text = read_file(path)?;
            return Ok(Some(if escapes { unescape(&text) } else { text }));
        }
        if std::io::stdin().is_terminal() {
            return Ok(None);
        }
        let path = Path::new("stdin");
        let mut bytes = Vec::new();
        std::io::stdin().lock().read_to_end(&mut bytes).map_err(|e| Error::io(path, e))?;
        let text = utf8(path, bytes)?;
        if text.is_empty() {
            return Err(Error::Request("the prompt is empty: stdin held no text; give -p TEXT or -f FILE".into()));
        }
        Ok(Some(text))
    }

    /// Where the text comes from, for files made of it.
    pub fn source(&self) -> String {
        self.file.as_ref().map_or_else(|| "text".into(), |path| path.display().to_string())
    }

    /// The text, for commands that cannot do without.
    ///
    /// # Errors
    /// As for [`PromptArgs::read`]; no text given.
    pub fn require_text(&self) -> Result<String> {
        self.read(false)?.ok_or_else(|| Error::Usage("no text given: use -p TEXT, -f FILE or a pipe".into()))
    }
}

/// A file's text without one newline at its end.
///
/// # Errors
/// A file that cannot be read or is not UTF-8.
pub fn read_file(path: &Path) -> Result<String> {
    files::reads(path);
    utf8(path, std::fs::read(path).map_err(|e| Error::io(path, e))?)
}

fn utf8(path: &Path, bytes: Vec<u8>) -> Result<String> {
    let mut text = String::from_utf8(bytes).map_err(|e| {
        Error::file(path, "not_utf8", format!("invalid byte at offset {}", e.utf8_error().valid_up_to()))
    })?;
    if text.ends_with('\n') {
        text.pop();
    }
    // Some editors put a mark of the byte order in front, which is none of the text.
    if text.starts_with('\u{feff}') {
        text.remove(0);
    }
    Ok(text)
}

/// Replaces `\n \r \t \\ \' \" \xHH`; any other backslash stays.
pub fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        let mut chars = after.chars();
        let plain = match chars.next() {
            Some('n') => Some('\n'),
            Some('r') => Some('\r'),
            Some('t') => Some('\t'),
            Some(c @ ('\\' | '\'' | '"')) => Some(c),
            _ => None,
        };
        let hex = after.strip_prefix('x').and_then(|h| h.get(..2)).and_then(|h| u8::from_str_radix(h, 16).ok());
        (rest, _) = match (plain, hex) {
            (Some(c), _) => (&after[1..], out.push(c)),
            (None, Some(byte)) => (&after[3..], out.push(char::from(byte))),
            (None, None) => (after, out.push('\\')),
        };
    }
    out.push_str(rest);
    out
}
