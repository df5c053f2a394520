//! What can go wrong between messages and a prompt.

/// Why there is no prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The template's source is not valid.
    Syntax {
        /// Line of the source, from 1.
        line: usize,
        /// What is wrong there.
        message: String,
    },
    /// The template failed on these messages.
    Template {
        /// Line of the source, from 1; 0 where it is not known.
        line: usize,
        /// What failed, in the words that Python's jinja2 has for it.
        message: String,
    },
    /// The template itself refused the messages, by `raise_exception`.
    Refused(String),
    /// A limit of [`crate::RenderLimits`] was reached.
    Limit(String),
    /// A text is not JSON, or nested too deeply.
    Json(String),
    /// The request does not fit: no messages, an unknown template.
    Request(String),
}

/// A result with this crate's error.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error of the template whose line is filled in by the statement around it.
    pub(crate) fn template(message: impl Into<String>) -> Error {
        Error::Template { line: 0, message: message.into() }
    }

    /// Names the line, if none is named yet.
    pub(crate) fn at(self, at: usize) -> Error {
        match self {
            Error::Template { line: 0, message } => Error::Template { line: at, message },
            other => other,
        }
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Error::Syntax { line, message } => write!(f, "chat template, line {line}: {message}"),
            Error::Template { line: 0, message } => write!(f, "chat template: {message}"),
            Error::Template { line, message } => write!(f, "chat template, line {line}: {message}"),
            Error::Refused(message) => write!(f, "the chat template refuses: {message}"),
            Error::Limit(message) => write!(f, "chat template: {message}"),
            Error::Json(message) => write!(f, "JSON: {message}"),
            Error::Request(message) => f.write_str(message),
        }
    }
}

impl std::error::Error for Error {}
