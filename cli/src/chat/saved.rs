//! Conversations that are saved to a file and loaded from one.

use super::calls::Within;
use super::{choice, Chat};
use pumex_dialogue::projector::MARK;
use pumex_dialogue::SavedConversation;
use pumex_gguf::{Error, Result};
use std::path::Path;

impl Chat<'_> {
    /// Writes the conversation to a file; gives what is said of that.
    pub(super) fn save(&self, path: &Path) -> Result<String> {
        let settings = self.settings.values().map(|(name, value)| (name.to_string(), value)).collect();
        let tools = self.style.tools.as_ref().and_then(|tools| serde_json::from_str(&tools.dump()).ok());
        crate::files::check(path)?;
        SavedConversation::new(&self.talk, tools, settings).write(path)?;
        if self.talk.messages().iter().any(|m| m.content.contains(MARK)) {
            self.screen.note("[pictures and sounds are not saved, only where they stood]");
        }
        Ok(format!("{} messages saved to {}\n", self.talk.messages().len(), path.display()))
    }

    /// Goes on with the conversation of a file; gives what is said of that.
    pub(super) fn load(&mut self, path: &Path) -> Result<String> {
        let (saved, talk) = SavedConversation::read(path)?;
        let mut settings = self.settings.clone();
        for (name, value) in &saved.settings {
            settings.change(name, value).map_err(|what| Error::file(path, "not_a_conversation", what))?;
        }
        let tools = saved.tools.as_ref().map(|tools| pumex_dialogue::functions(&tools.to_string())).transpose()?;
        let within = match &tools {
            Some(tools) => {
                let before = self.style.tools.replace(tools.clone());
                let (source, choice) = (self.given.source.as_ref(), choice(self.given.args));
                let within = Within::new(&self.style, &self.speaker.tokenizer, source, &choice);
                self.style.tools = before;
                Some(within?)
            }
            None => None,
        };
        self.adopt(settings).map_err(|what| Error::file(path, "not_a_conversation", what))?;
        let stay = if tools.is_none() && self.style.tools.is_some() { "; the functions of --tools stay" } else { "" };
        self.style.tools = tools.or(self.style.tools.take());
        self.within = within.unwrap_or(std::mem::take(&mut self.within));
        (self.talk, self.hidden) = (talk, 0);
        Ok(format!("{} messages loaded from {}{stay}\n", self.talk.messages().len(), path.display()))
    }
}
