//! Fields of Ollama's endpoints.

use super::Fate::{Needless, Obeyed, Refused};
use super::FieldTable;

/// Fields of both endpoints that generate.
const BOTH: FieldTable = &[
    (&["model", "stream", "format", "think", "logprobs", "top_logprobs"], Obeyed("")),
    (&["options"], Obeyed("the sampler's, `seed`, `stop`, `num_predict`, `num_keep`; `num_ctx` up to the context of the server's slots")),
    (&["keep_alive"], Obeyed("0 unloads the model behind the answer; else it stays as long as the server has it")),
    (&["shift"], Needless("the server says whether answers go on in a full context (--context-shift)")),
];

/// `/api/chat`.
pub(crate) const CHAT: [FieldTable; 2] = [
    &[
        (&["messages"], Obeyed("with their `images`, where the model takes them")),
        (&["tools"], Obeyed("")),
        (&["images"], Refused(&[], "each message has its own")),
        (&["truncate"], Obeyed("unless false, the oldest messages go where the prompt is too long")),
    ],
    BOTH,
];

/// `/api/generate`.
pub(crate) const GENERATE: [FieldTable; 2] = [
    &[
        (&["prompt", "suffix", "system", "raw"], Obeyed("")),
        (&["images"], Obeyed("in base64, where the model takes them")),
        (&["truncate"], Needless("a prompt that is too long is refused")),
        (&["template"], Refused(&[], "the server's template is used (see --chat-template)")),
        (&["context"], Refused(&[], "send the conversation to /api/chat")),
        (&["width", "height", "steps"], Refused(&[], "answers are text")),
    ],
    BOTH,
];

/// `/api/embed`.
pub(crate) const EMBED: FieldTable = &[
    (&["model", "input", "dimensions"], Obeyed("")),
    (&["truncate"], Obeyed("unless false, a text that is too long is cut")),
    (&["keep_alive"], Needless("the model stays as long as the server has it")),
    (&["options"], Needless("vectors have none")),
];

/// `/api/pull`, where the server has a folder of models (--models-dir).
pub(crate) const PULL: FieldTable = &[
    (&["model", "stream"], Obeyed("")),
    (&["name"], Obeyed("as `model`")),
    (&["insecure"], Refused(&[], "what is fetched is checked")),
];

/// `/api/create`, likewise.
pub(crate) const CREATE: FieldTable = &[
    (&["model", "stream"], Obeyed("")),
    (&["name"], Obeyed("as `model`")),
    (&["from"], Obeyed("a model of the server's folder, whose weights are shared")),
    (&["system", "license"], Obeyed("")),
    (&["parameters"], Obeyed("the sampler's, which hold where requests say nothing")),
    (&["files"], Refused(&[], "put GGUF files into the server's folder (--models-dir)")),
    (&["adapters"], Refused(&[], "the server's user names them (--lora)")),
    (&["template"], Refused(&[], "the file's template is used (see --chat-template)")),
    (&["messages"], Refused(&[], "send them with each request")),
    (&["quantize", "quantization"], Refused(&[], "`pumex quantize` makes files of other types")),
    (&["modelfile", "path"], Refused(&[], "send what it says as fields")),
];

/// `/api/copy`, likewise.
pub(crate) const COPY: FieldTable = &[(&["source", "destination"], Obeyed(""))];
