//! Errors in the terms of the HTTP side.

use pumex_gguf::Error;
use pumex_serve::engine::{Refusal, RefusalKind};
use std::path::Path;

/// A refusal of a kind.
pub fn refusal(kind: RefusalKind, message: impl Into<String>) -> Refusal {
    Refusal { kind, message: message.into(), field: None, tokens: None }
}

/// A field of a request is wrong.
pub fn invalid(field: &str, message: String) -> Refusal {
    Refusal { field: Some(field.to_string()), ..refusal(RefusalKind::Invalid, message) }
}

/// The engine failed.
pub fn engine_failure(error: &Error) -> Refusal {
    refusal(RefusalKind::Failed, public_text(error))
}

/// An error as clients are told: of a path its last name alone.
pub fn public_text(error: &Error) -> String {
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    match error {
        Error::File { path, code, what } => format!("{}: {code}: {what}", name(path)),
        Error::Io { path, source } => format!("{}: {source}", name(path)),
        other => other.to_string(),
    }
}

/// A request is wrong in a way that an error tells.
pub fn wrong(field: &str) -> impl Fn(Error) -> Refusal + '_ {
    move |error| invalid(field, error.to_string())
}

/// So many tokens do not fit.
pub fn too_long(tokens: usize, n_ctx: usize) -> Refusal {
    let what = format!(
        "the request ({tokens} tokens) exceeds the available context size ({n_ctx} tokens), try increasing it (-c)"
    );
    Refusal { tokens: Some((tokens, n_ctx)), ..refusal(RefusalKind::ContextExceeded, what) }
}

/// So many tokens are no source for one step.
pub fn source_too_long(tokens: usize, most: usize) -> Refusal {
    let what = format!("source of {tokens} tokens: expected at most {most}, as all of it must stand in one step (-ub)");
    Refusal { tokens: Some((tokens, most)), ..refusal(RefusalKind::ContextExceeded, what) }
}

/// The server ends.
pub fn stopping() -> Refusal {
    refusal(RefusalKind::Unavailable, "the server is stopping")
}
