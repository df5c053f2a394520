//! Where messages come from: a line editor on a terminal, else lines of stdin.

use std::borrow::Cow;
use std::cell::RefCell;
use std::io::{BufRead, IsTerminal};
use std::path::PathBuf;

use pumex_gguf::{Error, Result};
use rustyline::completion::{Completer, FilenameCompleter, Pair};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Behavior, Config, Context, Editor, Helper};

use super::commands;
use super::compose::compose;

/// Lines that are kept.
const HISTORY: usize = 1000;
/// Longest text that is.
const HISTORY_BYTES: usize = 16 << 10;

/// What came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read {
    /// A message or command.
    Message(String),
    /// Ctrl-C, on a line with text or without.
    Interrupted {
        /// Without.
        empty: bool,
    },
    /// Ctrl-D, or the end of stdin.
    End,
}

/// What the editor asks while a line is typed.
pub struct EditorHelper {
    multiline: bool,
    colours: bool,
    files: FilenameCompleter,
    typed: RefCell<String>,
}

impl Validator for EditorHelper {
    fn validate(&self, ctx: &mut ValidationContext) -> rustyline::Result<ValidationResult> {
        Ok(match compose(ctx.input(), self.multiline) {
            Some(_) => ValidationResult::Valid(None),
            None => ValidationResult::Incomplete,
        })
    }
}

impl Hinter for EditorHelper {
    type Hint = String;

    fn hint(&self, line: &str, pos: usize, _: &Context<'_>) -> Option<String> {
        self.typed.replace(line.to_string());
        if line.len() < 2 || pos < line.len() || line.len() > 16 || !line.starts_with('/') {
            return None;
        }
        let mut fits = commands::names().filter_map(|name| name.strip_prefix(line));
        fits.next().filter(|rest| !rest.is_empty() && fits.next().is_none()).map(str::to_string)
    }
}

impl Completer for EditorHelper {
    type Candidate = Pair;

    fn complete(&self, line: &str, pos: usize, ctx: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let before = &line[..pos];
        if before.starts_with('/') && !before.contains(' ') {
            let pair = |name: &str| Pair { display: name.to_string(), replacement: name.to_string() };
            return Ok((0, commands::names().filter(|name| name.starts_with(before)).map(pair).collect()));
        }
        let file = ["/read ", "/save ", "/load ", "/image ", "/audio "].iter().any(|name| before.starts_with(name));
        if file {
            self.files.complete(line, pos, ctx)
        } else {
            Ok((pos, Vec::new()))
        }
    }
}

impl Highlighter for EditorHelper {
    fn highlight_prompt<'b, 's: 'b, 'p: 'b>(&'s self, prompt: &'p str, _default: bool) -> Cow<'b, str> {
        match self.colours {
            true => Cow::Owned(format!("\x1b[1;32m{prompt}\x1b[0m")),
            false => Cow::Borrowed(prompt),
        }
    }

    fn highlight_hint<'h>(&self, hint: &'h str) -> Cow<'h, str> {
        match self.colours {
            true => Cow::Owned(format!("\x1b[2m{hint}\x1b[0m")),
            false => Cow::Borrowed(hint),
        }
    }
}

impl Helper for EditorHelper {}

/// A source of messages.
pub enum MessageSource {
    /// A terminal.
    Editor(Box<Editor<EditorHelper, FileHistory>>, Option<PathBuf>),
    /// A pipe or file; whether lines go on anyway.
    Lines(bool),
}

fn readline_error(error: &ReadlineError) -> Error {
    Error::Request(format!("the terminal: {error}"))
}

impl MessageSource {
    /// The terminal, if stdin is one; typed lines are kept at `history`.
    ///
    /// # Errors
    /// A terminal that cannot be used.
    pub fn open(multiline: bool, colours: bool, history: Option<PathBuf>) -> Result<MessageSource> {
        if !std::io::stdin().is_terminal() {
            return Ok(MessageSource::Lines(multiline));
        }
        // stdout is for answers: where it goes elsewhere, lines are still edited on the terminal.
        let behavior = if std::io::stdout().is_terminal() { Behavior::Stdio } else { Behavior::PreferTerm };
        let config = Config::builder().behavior(behavior).max_history_size(HISTORY).map_err(|e| readline_error(&e))?;
        let config = config.history_ignore_dups(true).map_err(|e| readline_error(&e))?.auto_add_history(false).build();
        let mut editor = Editor::with_config(config).map_err(|e| readline_error(&e))?;
        let (files, typed) = (FilenameCompleter::new(), RefCell::new(String::new()));
        editor.set_helper(Some(EditorHelper { multiline, colours, files, typed }));
        if let Some(path) = &history {
            // There is none yet, or it cannot be read: then one begins.
            let _ = editor.load_history(path);
        }
        Ok(MessageSource::Editor(Box::new(editor), history))
    }

    /// Whether a person types.
    pub fn is_terminal(&self) -> bool {
        matches!(self, MessageSource::Editor(..))
    }

    /// Waits for the next message.
    ///
    /// # Errors
    /// stdin or the terminal failed.
    pub fn read(&mut self, prompt: &str) -> Result<Read> {
        let (editor, history) = match self {
            MessageSource::Lines(multiline) => return lines(*multiline),
            MessageSource::Editor(editor, history) => (editor, history),
        };
        let asked = |editor: &Editor<EditorHelper, FileHistory>| {
            editor.helper().map(|asked| asked.typed.take()).unwrap_or_default()
        };
        asked(editor);
        let mut before = String::new();
        let typed = loop {
            match editor.readline_with_initial(prompt, (&before, "")) {
                Ok(typed) => break typed,
                Err(ReadlineError::Eof) => return Ok(Read::End),
                Err(ReadlineError::Interrupted) => return Ok(Read::Interrupted { empty: asked(editor).is_empty() }),
                // A byte that is no UTF-8, of a terminal with other letters: the line goes on with a sign in its place.
                Err(ReadlineError::Io(error)) if error.kind() == std::io::ErrorKind::InvalidData => {
                    before = asked(editor) + "\u{fffd}";
                }
                Err(error) => return Err(readline_error(&error)),
            }
        };
        let multiline = editor.helper().is_some_and(|asked| asked.multiline);
        if !typed.trim().is_empty() && typed.len() <= HISTORY_BYTES && editor.add_history_entry(&typed).unwrap_or(false)
        {
            if let Some(path) = history {
                // A conversation goes on without its history.
                let kept = path.parent().is_some_and(|folder| std::fs::create_dir_all(folder).is_ok());
                if !kept || editor.append_history(path).is_err() {
                    *history = None;
                }
            }
        }
        Ok(Read::Message(compose(&typed, multiline).unwrap_or(typed)))
    }
}

/// The next message of stdin.
fn lines(multiline: bool) -> Result<Read> {
    let mut bytes = Vec::new();
    let mut stdin = std::io::stdin().lock();
    loop {
        let read = stdin.read_until(b'\n', &mut bytes).map_err(|e| Error::io("stdin".as_ref(), e))?;
        let typed = String::from_utf8_lossy(&bytes);
        let text = typed.strip_prefix('\u{feff}').unwrap_or(&typed);
        let text = text.strip_suffix('\n').unwrap_or(text);
        let text = text.strip_suffix('\r').unwrap_or(text);
        if read == 0 {
            let whole = !text.trim().is_empty();
            return Ok(if whole { Read::Message(text.to_string()) } else { Read::End });
        }
        if let Some(message) = compose(text, multiline) {
            return Ok(Read::Message(message));
        }
    }
}
