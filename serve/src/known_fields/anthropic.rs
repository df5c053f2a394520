//! Fields of Anthropic's endpoint.

use super::Fate::{Needless, Obeyed, Refused};
use super::FieldTable;

/// `/v1/messages`.
pub(crate) const MESSAGES: FieldTable = &[
    (&["model"], Obeyed("any name where one model is served")),
    (
        &["messages"],
        Obeyed(
            "texts, documents of text, results of searches, thinking, calls and results, images where the model takes them; \
             files are refused",
        ),
    ),
    (&["system"], Obeyed("")),
    (&["max_tokens"], Obeyed("")),
    (&["stop_sequences", "stream", "temperature", "top_k", "top_p"], Obeyed("")),
    (
        &["tools"],
        Obeyed("functions; tools that Anthropic's servers run are left out, and the header `x-pumex-warning` says so"),
    ),
    (&["tool_choice", "thinking"], Obeyed("")),
    (&["output_config"], Obeyed("`format` by a schema; `effort` is a name for the template")),
    (&["output_format"], Obeyed("the older name of `output_config.format`")),
    (&["metadata"], Obeyed("`user_id`: users take turns, and share no beginnings of prompts")),
    (&["cache_control"], Needless("beginnings of prompts are kept anyway")),
    (
        &["context_management"],
        Needless("nothing is cleared; a prompt that is too long is refused in the words that clients know"),
    ),
    (&["service_tier", "inference_geo", "speed"], Needless("it changes no answer")),
    (&["thread"], Refused(&[], "by the code `thread_unsupported_request`, at which clients send all messages")),
    (&["container", "mcp_servers"], Refused(&[], "this server runs no tools")),
];
