//! What goes wrong, as each API says it: one table of causes, and a shape for each API.

use crate::engine::{Refusal, RefusalKind};
use axum::http::{header, HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::{json, Value};

/// Result of all that handles a request.
pub(crate) type Result<T> = std::result::Result<T, RequestFault>;

/// Why a request gets no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The engine's or a reader's refusal.
    Refused(RefusalKind),
    /// No key, or a wrong one.
    BadKey,
    /// Too many wrong keys from one address.
    TooManyFailures,
    /// A page or a name of somebody else's.
    Forbidden,
    /// No such path.
    NoSuchPath,
    /// The path knows other methods.
    WrongMethod,
    /// The body did not come in time.
    BodyTimeout,
    /// The body is too long.
    BodyTooLong,
    /// The path is too long.
    UriTooLong,
    /// The headers are too long.
    HeadersTooLong,
    /// A handler panicked.
    Panic,
}

/// Status, type in OpenAI's and llama.cpp's errors, type in Anthropic's.
type ErrorRow = (Cause, u16, &'static str, &'static str);

/// Anthropic has statuses of its own for two causes; see [`ErrorShape::status`].
const TABLE: &[ErrorRow] = &[
    (Cause::Refused(RefusalKind::Invalid), 400, "invalid_request_error", "invalid_request_error"),
    (Cause::Refused(RefusalKind::ContextExceeded), 400, "exceed_context_size_error", "invalid_request_error"),
    (Cause::Refused(RefusalKind::NotFound), 404, "not_found_error", "not_found_error"),
    (Cause::Refused(RefusalKind::Unsupported), 501, "not_supported_error", "invalid_request_error"),
    (Cause::Refused(RefusalKind::Busy), 429, "rate_limit_error", "rate_limit_error"),
    (Cause::Refused(RefusalKind::Unavailable), 503, "unavailable_error", "overloaded_error"),
    (Cause::Refused(RefusalKind::Failed), 500, "server_error", "api_error"),
    (Cause::BadKey, 401, "authentication_error", "authentication_error"),
    (Cause::TooManyFailures, 429, "rate_limit_error", "rate_limit_error"),
    (Cause::Forbidden, 403, "permission_error", "permission_error"),
    (Cause::NoSuchPath, 404, "not_found_error", "not_found_error"),
    (Cause::WrongMethod, 405, "invalid_request_error", "invalid_request_error"),
    (Cause::BodyTimeout, 408, "invalid_request_error", "invalid_request_error"),
    (Cause::BodyTooLong, 413, "invalid_request_error", "request_too_large"),
    (Cause::UriTooLong, 414, "invalid_request_error", "invalid_request_error"),
    (Cause::HeadersTooLong, 431, "invalid_request_error", "invalid_request_error"),
    (Cause::Panic, 500, "server_error", "api_error"),
];

fn row(cause: Cause) -> &'static ErrorRow {
    // A test holds that every cause has a row; the last one is an error of the server's.
    TABLE.iter().find(|r| r.0 == cause).unwrap_or(&TABLE[TABLE.len() - 1])
}

/// A request that gets no answer: a refusal with its cause. As a response it is empty until [`ErrorShape::response`] renders it.
#[derive(Clone, Debug)]
pub(crate) struct RequestFault {
    pub cause: Cause,
    pub refusal: Refusal,
    /// Anthropic's word for the very case, by which its clients go on in another way.
    pub code: Option<&'static str>,
}

impl RequestFault {
    /// A fault of HTTP's, not of the request's content.
    pub fn new(cause: Cause, message: impl Into<String>) -> RequestFault {
        let kind = RefusalKind::Invalid;
        RequestFault { cause, refusal: refusal(kind, message), code: None }
    }
}

impl From<Refusal> for RequestFault {
    fn from(refusal: Refusal) -> RequestFault {
        RequestFault { cause: Cause::Refused(refusal.kind), refusal, code: None }
    }
}

impl IntoResponse for RequestFault {
    fn into_response(self) -> Response {
        let mut response = Response::new(axum::body::Body::empty());
        *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
        response.extensions_mut().insert(self);
        response
    }
}

/// A refusal of that kind without a field.
pub(crate) fn refusal(kind: RefusalKind, message: impl Into<String>) -> Refusal {
    Refusal { kind, message: message.into(), field: None, tokens: None }
}

/// A request that is wrong in a field.
pub(crate) fn invalid(field: &str, message: impl Into<String>) -> RequestFault {
    let field = Some(field.to_string()).filter(|f| !f.is_empty());
    Refusal { field, ..refusal(RefusalKind::Invalid, message) }.into()
}

/// What this engine cannot do.
pub(crate) fn unsupported(message: impl Into<String>) -> RequestFault {
    refusal(RefusalKind::Unsupported, message).into()
}

/// The header that Anthropic's clients send.
const VERSION: &str = "anthropic-version";

/// Whose errors an endpoint speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ErrorShape {
    /// OpenAI's, with llama.cpp's numbers for codes.
    OpenAi,
    Anthropic,
    Ollama,
}

impl ErrorShape {
    /// That of a path; models are listed for clients of both APIs, which Anthropic's tell by a header.
    pub fn of(path: &str, headers: &HeaderMap) -> ErrorShape {
        match path {
            p if p.starts_with("/v1/models") && headers.contains_key(VERSION) => ErrorShape::Anthropic,
            p if p.starts_with("/v1/messages") => ErrorShape::Anthropic,
            p if p.starts_with("/api/") => ErrorShape::Ollama,
            _ => ErrorShape::OpenAi,
        }
    }

    /// HTTP's status of a fault.
    pub fn status(self, fault: &RequestFault) -> u16 {
        match (self, fault.cause) {
            (ErrorShape::Anthropic, Cause::Refused(RefusalKind::Unavailable)) => 529,
            (ErrorShape::Anthropic, Cause::Refused(RefusalKind::Unsupported)) => 400,
            _ => row(fault.cause).1,
        }
    }

    /// The body of a fault; what a stream that breaks off says last.
    pub fn body(self, fault: &RequestFault) -> Value {
        let (_, _, kind, anthropic) = row(fault.cause);
        let message = &fault.refusal.message;
        match self {
            ErrorShape::Anthropic => {
                let message = match fault.refusal.tokens {
                    // Its clients know a full context by these words alone.
                    Some((prompt, context)) => format!("prompt is too long: {prompt} tokens > {context} maximum"),
                    None => message.clone(),
                };
                let mut error = json!({"type": anthropic, "message": message});
                if let Some(code) = fault.code {
                    error["details"] = json!({ "error_code": code });
                }
                json!({"type": "error", "error": error})
            }
            ErrorShape::Ollama => json!({"error": message}),
            ErrorShape::OpenAi => {
                let param = fault.refusal.field.as_deref().map(pointer_without_slash);
                let code = self.status(fault);
                let mut error = json!({"code": code, "message": message, "type": kind, "param": param});
                if let Some((prompt, context)) = fault.refusal.tokens {
                    error["n_prompt_tokens"] = prompt.into();
                    error["n_ctx"] = context.into();
                }
                json!({ "error": error })
            }
        }
    }

    /// The header that names a request in its answer; none where the API has no such name.
    pub fn id_header(self) -> Option<&'static str> {
        match self {
            ErrorShape::OpenAi => Some("x-request-id"),
            ErrorShape::Anthropic => Some("request-id"),
            ErrorShape::Ollama => None,
        }
    }

    /// The whole answer to a fault of the request of that name. Connections of those whose request was not read to its end are closed.
    pub fn response(self, fault: &RequestFault, id: &str) -> Response {
        let status = StatusCode::from_u16(self.status(fault)).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut body = self.body(fault);
        if self == ErrorShape::Anthropic {
            body["request_id"] = id.into();
        }
        let mut response = crate::http::json(status, &body);
        let mut set = |name, value| response.headers_mut().insert(name, HeaderValue::from_static(value));
        match fault.cause {
            Cause::Refused(RefusalKind::Busy) => drop(set(header::RETRY_AFTER, "1")),
            Cause::Refused(RefusalKind::Unavailable) => drop(set(header::RETRY_AFTER, "5")),
            Cause::TooManyFailures => drop(set(header::RETRY_AFTER, "60")),
            Cause::BadKey => drop(set(header::WWW_AUTHENTICATE, "Bearer")),
            _ => {}
        }
        if matches!(
            fault.cause,
            Cause::BodyTimeout
                | Cause::BodyTooLong
                | Cause::UriTooLong
                | Cause::HeadersTooLong
                | Cause::TooManyFailures
        ) {
            set(header::CONNECTION, "close");
        }
        response
    }
}

/// A JSON pointer without its first slash, as OpenAI writes it: `messages/0/role` is `messages[0].role`.
fn pointer_without_slash(pointer: &str) -> String {
    let mut text = String::new();
    for part in pointer.split('/') {
        match part.parse::<usize>() {
            Ok(index) => text.push_str(&format!("[{index}]")),
            Err(_) if text.is_empty() => text.push_str(part),
            Err(_) => text.push_str(&format!(".{part}")),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_has_one_row_and_a_status_of_an_error() {
        for (i, (cause, status, kind, anthropic)) in TABLE.iter().enumerate() {
            assert!(TABLE[..i].iter().all(|r| r.0 != *cause), "{cause:?} twice");
            assert!((400..600).contains(status) && kind.ends_with("_error") && !anthropic.is_empty());
        }
        for kind in [
            RefusalKind::Invalid,
            RefusalKind::ContextExceeded,
            RefusalKind::NotFound,
            RefusalKind::Unsupported,
            RefusalKind::Busy,
            RefusalKind::Unavailable,
            RefusalKind::Failed,
        ] {
            assert!(TABLE.iter().any(|r| r.0 == Cause::Refused(kind)), "{kind:?}");
        }
    }

    #[test]
    fn fields_are_named_as_openai_names_them() {
        assert_eq!(pointer_without_slash("messages/0/content/2/type"), "messages[0].content[2].type");
        assert_eq!(pointer_without_slash("stop"), "stop");
    }
}
