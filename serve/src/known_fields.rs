//! All fields that the documents of each API know, and what becomes of them here: each is obeyed, needs nothing, or is refused by its
//! name. The tables stand in `docs/` too, and tests ask the server whether they are true.

mod anthropic;
mod ollama;
mod openai;

pub(crate) use anthropic::MESSAGES;
pub(crate) use ollama::{CHAT as OLLAMA_CHAT, COPY, CREATE, EMBED, GENERATE, PULL};
pub(crate) use openai::{CHAT, COMPLETION, COMPLETIONS, EMBEDDINGS, RESPONSES};

use crate::errors::Result;
use crate::fields::Fields;
use serde_json::{json, Value};

/// What becomes of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is done; what is to be said of how.
    Obeyed(&'static str),
    /// There is nothing to do for an answer to be as asked; why.
    Needless(&'static str),
    /// It is refused, but for values that ask for nothing: false, empty ones, and these; why.
    Refused(&'static [&'static str], &'static str),
}

/// Names of fields with their fates; several of one fate share a row.
pub(crate) type FieldTable = &'static [(&'static [&'static str], Fate)];

/// Refuses fields that are not done.
///
/// # Errors
/// The first of them, by its name.
pub(crate) fn check(fields: &Fields, tables: &[FieldTable]) -> Result<()> {
    for (names, fate) in tables.iter().copied().flatten() {
        let Fate::Refused(harmless, why) = fate else { continue };
        for name in *names {
            let Some(value) = fields.value(name) else { continue };
            let empty = [json!(false), json!(""), json!([]), json!({})].contains(value);
            let listed = |text: &&str| serde_json::from_str::<Value>(text).is_ok_and(|known| known == *value);
            if !empty && !harmless.iter().any(listed) {
                return Err(fields.refuse(name, format!("is not supported: {why}")));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// A document: its name, its head, and tables under their headings.
    type Document = (&'static str, &'static str, &'static [(&'static str, &'static [FieldTable])]);

    const DOCUMENTS: &[Document] = &[
        (
            "openai",
            "OpenAI's API, with what vLLM, SGLang and llama-server add to it",
            &[
                ("/v1/chat/completions", &CHAT),
                ("/v1/completions", &COMPLETIONS),
                ("/v1/responses", &RESPONSES),
                ("/v1/embeddings", &[EMBEDDINGS]),
                ("/completion", &COMPLETION),
            ],
        ),
        ("anthropic", "Anthropic's API", &[("/v1/messages", &[MESSAGES])]),
        (
            "ollama",
            "Ollama's API",
            &[
                ("/api/chat", &OLLAMA_CHAT),
                ("/api/generate", &GENERATE),
                ("/api/embed", &[EMBED]),
                ("/api/pull", &[PULL]),
                ("/api/create", &[CREATE]),
                ("/api/copy", &[COPY]),
            ],
        ),
    ];

    fn text((_, head, tables): &Document) -> String {
        let mut text = format!(
            "# Fields of {head}\n\nEach field of a body is obeyed, needs nothing to be done, or is refused by its name. \
             Names that stand in no table are passed over.\n"
        );
        for (path, tables) in *tables {
            text += &format!("\n## {path}\n\n| field | what becomes of it | |\n|---|---|---|\n");
            for (names, fate) in tables.iter().copied().flatten() {
                let (what, why) = match fate {
                    Fate::Obeyed(how) => ("obeyed", how.to_string()),
                    Fate::Needless(why) => ("nothing to do", why.to_string()),
                    Fate::Refused([], why) => ("refused", why.to_string()),
                    Fate::Refused(harmless, why) => ("refused", format!("{why}; `{}` is taken", harmless.join("`, `"))),
                };
                names.iter().for_each(|name| text += &format!("| `{name}` | {what} | {why} |\n"));
            }
        }
        text
    }

    #[test]
    fn the_documents_say_what_the_tables_do() {
        for document in DOCUMENTS {
            let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../docs/fields-{}.md", document.0));
            let (found, text) = (std::fs::read_to_string(&file).unwrap_or_default(), text(document));
            assert!(found == text, "{}: expected what the tables say:\n{text}", file.display());
        }
    }

    #[test]
    fn no_field_stands_twice_in_a_table() {
        for (_, _, tables) in DOCUMENTS {
            for (path, tables) in *tables {
                let names: Vec<&str> =
                    tables.iter().copied().flatten().flat_map(|(names, _)| *names).copied().collect();
                for (i, name) in names.iter().enumerate() {
                    assert!(!names[..i].contains(name), "{path}: {name} twice");
                }
            }
        }
    }

    #[test]
    fn what_asks_for_nothing_is_not_refused() {
        let table: FieldTable = &[(&["audio"], Fate::Refused(&["[\"text\"]"], "no"))];
        for harmless in [json!(null), json!(false), json!([]), json!({}), json!(""), json!(["text"])] {
            let body = json!({ "audio": harmless });
            assert!(check(&Fields::of(&body).unwrap(), &[table]).is_ok(), "{body}");
        }
        let fault = check(&Fields::of(&json!({"audio": {"voice": "x"}})).unwrap(), &[table]).unwrap_err();
        assert_eq!(fault.refusal.field.as_deref(), Some("audio"));
    }
}
