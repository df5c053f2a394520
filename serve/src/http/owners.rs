//! Whose what an endpoint shows or keeps is: the table behind `docs/endpoints.md`.

/// Whose something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    /// The request's alone; nothing of it stays.
    Requests,
    /// Belongs to the holder of the request's key, and within that to the user whom it names.
    Users,
    /// Belongs to the holder of the request's key.
    Keys,
    /// Everybody's who has a key.
    All,
    /// Everybody's, without a key.
    Open,
}

impl Whose {
    fn text(self) -> &'static str {
        match self {
            Whose::Requests => "nobody's: nothing is kept",
            Whose::Users => "the user's, of the key",
            Whose::Keys => "the key's",
            Whose::All => "all keys'",
            Whose::Open => "open",
        }
    }
}

const PREFIX: &str = "beginnings of prompts, for later requests of the user (of all users with `--share-prefixes`)";
const COUNTED: &str = "no texts: names, sizes, counters";
const FOLDER: &str = "the models of the server's folder (`--models-dir`); without one it is refused";
const NOTHING: &str = "";

/// By the first path of each endpoint: whose what it keeps or shows is, and what that is.
pub(super) const OWNERS: &[(&str, Whose, &str)] = &[
    ("/v1/chat/completions", Whose::Users, PREFIX),
    ("/v1/chat/completions/input_tokens", Whose::Requests, NOTHING),
    ("/v1/chat/completions/control", Whose::Keys, "the answer that is being written, by its id"),
    ("/v1/completions", Whose::Users, PREFIX),
    ("/v1/responses", Whose::Users, PREFIX),
    ("/v1/responses/input_tokens", Whose::Requests, NOTHING),
    ("/v1/embeddings", Whose::Requests, NOTHING),
    ("/embedding", Whose::Requests, NOTHING),
    (
        "/v1/audio/transcriptions",
        Whose::Keys,
        "beginnings of prompts, for later requests of the key (of all keys with `--share-prefixes`)",
    ),
    ("/v1/models", Whose::All, COUNTED),
    ("/models", Whose::All, COUNTED),
    ("/v1/models/{*name}", Whose::All, COUNTED),
    ("/v1/messages", Whose::Users, PREFIX),
    ("/v1/messages/count_tokens", Whose::Requests, NOTHING),
    ("/api/chat", Whose::Users, PREFIX),
    ("/api/generate", Whose::Users, PREFIX),
    ("/api/embed", Whose::Requests, NOTHING),
    ("/api/embeddings", Whose::Requests, NOTHING),
    ("/api/tags", Whose::All, COUNTED),
    ("/api/ps", Whose::All, COUNTED),
    ("/api/show", Whose::All, "the model's metadata and template"),
    ("/api/version", Whose::All, "the version"),
    ("/api/pull", Whose::All, FOLDER),
    ("/api/create", Whose::All, FOLDER),
    ("/api/copy", Whose::All, FOLDER),
    ("/api/delete", Whose::All, FOLDER),
    ("/health", Whose::Open, "whether requests are served"),
    ("/live", Whose::Open, "that the process lives"),
    ("/completion", Whose::Users, "beginnings of prompts; with `id_slot`, what the key's requests left in that slot"),
    ("/infill", Whose::Users, PREFIX),
    ("/tokenize", Whose::Requests, NOTHING),
    ("/detokenize", Whose::Requests, NOTHING),
    ("/apply-template", Whose::Requests, NOTHING),
    ("/v1/rerank", Whose::Requests, NOTHING),
    ("/props", Whose::All, "the server's settings"),
    (
        "/slots",
        Whose::Keys,
        "options, stop texts, grammars and sizes of its requests; of others' slots whether they are at work",
    ),
    (
        "/slots/{id}",
        Whose::Keys,
        "what its requests left in the slot, and files, in a folder of its own where there are several keys",
    ),
    ("/lora-adapters", Whose::Keys, "scales where its requests name none"),
    ("/metrics", Whose::All, COUNTED),
    ("/models/load", Whose::All, "which models are loaded"),
    ("/models/unload", Whose::All, "which models are loaded"),
    ("/models/sse", Whose::All, "which models are loaded"),
    ("/server_info", Whose::All, "the server's settings"),
    ("/model_info", Whose::All, "the model's metadata"),
];

#[cfg(test)]
mod tests {
    use super::super::router::first_paths;
    use super::{Whose, OWNERS};
    use std::path::Path;

    #[test]
    fn every_endpoint_says_whose_what_it_keeps_is() {
        let known: Vec<&str> = OWNERS.iter().map(|(path, ..)| *path).collect();
        assert_eq!(first_paths(), known);
        let mut text = String::from(
            "# Endpoints, and whose what they keep is\n\nThe holder of one key sees, uses and changes nothing that was kept for \
             another's requests. Where no key is needed all who ask are\none holder. A request may name a `user` of its key's holder: \
             users share no beginnings of prompts.\n\n| endpoint | whose | what is kept or shown |\n|---|---|---|\n",
        );
        for (path, whose, what) in OWNERS {
            assert_eq!(what.is_empty(), *whose == Whose::Requests, "{path}");
            text += &format!("| `{path}` | {} | {what} |\n", whose.text());
        }
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/endpoints.md");
        let found = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(found == text, "{}: expected what the table says:\n{text}", file.display());
    }
}
