//! A conversation as a JSON file.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::message::{Message, Talk};
use pumex_gguf::file::Replacing;
use pumex_gguf::{Error, Result};

/// What the file is marked with.
const MARK: &str = "pumex conversation";
/// Largest file that is read.
const MAX_BYTES: u64 = 256 << 20;

/// A conversation and the settings that it was held with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedConversation {
    format: String,
    version: u32,
    /// The messages.
    pub messages: Vec<Message>,
    /// Definitions of functions, as text of JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<serde_json::Value>,
    /// Settings by name.
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
}

impl SavedConversation {
    /// What is to be written.
    pub fn new(talk: &Talk, tools: Option<serde_json::Value>, settings: BTreeMap<String, String>) -> SavedConversation {
        SavedConversation { format: MARK.to_string(), version: 1, messages: talk.messages().to_vec(), tools, settings }
    }

    /// Writes the file; it is there whole or not at all.
    ///
    /// # Errors
    /// What the system says.
    pub fn write(&self, path: &Path) -> Result<()> {
        let mut text = serde_json::to_string_pretty(self).map_err(|e| Error::Request(format!("JSON: {e}")))?;
        text.push('\n');
        let mut file = Replacing::create(path)?;
        file.write(text.as_bytes())?;
        file.finish()
    }

    /// Reads a file that [`SavedConversation::write`] wrote.
    ///
    /// # Errors
    /// `not_a_conversation` for any other; what the system says.
    pub fn read(path: &Path) -> Result<(SavedConversation, Talk)> {
        let bad = |what: String| Error::file(path, "not_a_conversation", what);
        let io = |e| Error::io(path, e);
        let meta = std::fs::metadata(path).map_err(io)?;
        if !meta.is_file() || meta.len() > MAX_BYTES {
            return Err(bad(format!("expected a file of at most {} MiB", MAX_BYTES >> 20)));
        }
        let bytes = std::fs::read(path).map_err(io)?;
        let saved: SavedConversation =
            serde_json::from_slice(&bytes).map_err(|e| bad(format!("expected what /save writes: {e}")))?;
        if saved.format != MARK || saved.version != 1 {
            return Err(bad(format!("expected \"format\": \"{MARK}\", \"version\": 1")));
        }
        let talk = Talk::of(saved.messages.clone()).map_err(|e| bad(e.to_string()))?;
        Ok((saved, talk))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conversation_comes_back_and_other_files_are_refused_by_name() {
        let folder = std::env::temp_dir().join(format!("pumex-dialogue-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("talk.json");
        let talk = Talk::of(vec![Message::new("user", "hi\u{1}"), Message::new("assistant", "ho")]).unwrap();
        let saved = SavedConversation::new(&talk, None, BTreeMap::from([("temp".to_string(), "0.5".to_string())]));
        saved.write(&path).unwrap();
        assert_eq!(SavedConversation::read(&path).unwrap(), (saved, talk));
        let whole = std::fs::read_to_string(&path).unwrap();
        let foreign = ["", "{}", "[1]", "\u{0}", &whole[..whole.len() / 2], &whole.replace("conversation", "song")];
        for bad in foreign.into_iter().chain([&*whole.replace("\"user\"", "\"king\""), &"[".repeat(1 << 20)]) {
            std::fs::write(&path, bad).unwrap();
            let error = SavedConversation::read(&path).unwrap_err().to_string();
            assert!(error.contains("talk.json: not_a_conversation: ") && error.len() < 400, "{error}");
        }
        std::fs::remove_dir_all(folder).unwrap();
    }
}
