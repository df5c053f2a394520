//! Pictures and sounds of a conversation.

use std::path::Path;

use pumex_dialogue::projector::{MediumFile, Projector, TextSide, MARK};
use pumex_dialogue::Talk;
use pumex_engine::conversation::Feed;
use pumex_gguf::{Error, Result};
use pumex_text::chat::RenderedPrompt;
use pumex_text::Tokenizer;

use super::super::media;
use super::{dropped, Chat};

/// The projector, and the media that messages have marks for, in order.
pub struct ChatMedia {
    projector: Projector,
    n_embd: usize,
    m_rope: bool,
    files: Vec<MediumFile>,
    /// For the next message.
    attached: Vec<MediumFile>,
}

impl ChatMedia {
    /// With media for the first message.
    pub fn new(projector: Projector, (n_embd, m_rope): (usize, bool), attached: Vec<MediumFile>) -> ChatMedia {
        ChatMedia { projector, n_embd, m_rope, files: Vec::new(), attached }
    }

    /// Takes a file for the next message.
    ///
    /// # Errors
    /// A file that cannot be read; one that the projector does not take.
    pub fn attach(&mut self, path: &Path, picture: bool) -> Result<()> {
        if picture && !self.projector.sees() || !picture && !self.projector.hears() {
            let what = if picture { "pictures" } else { "sounds" };
            return Err(Error::Request(format!("{}: this model's projector takes no {what}", path.display())));
        }
        self.attached.push(media::read(path, picture)?);
        Ok(())
    }

    /// A message's text with marks for what is attached: where it has as many, these, else in front.
    ///
    /// # Errors
    /// Marks that nothing is attached for.
    pub fn message(&mut self, text: String) -> Result<String> {
        let (marks, count) = (text.matches(MARK).count(), self.attached.len());
        if marks > 0 && marks != count {
            return Err(Error::Request(format!("expected a mark {MARK} for each of {count} media, found {marks}")));
        }
        self.files.append(&mut self.attached);
        Ok(if marks > 0 || count == 0 { text } else { format!("{}\n{text}", MARK.repeat(count)) })
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.files.clear();
        self.attached.clear();
    }

    /// Forgets the media of messages that were taken back.
    pub fn follow(&mut self, talk: &Talk) {
        let marks: usize = talk.messages().iter().map(|m| m.content.matches(MARK).count()).sum();
        self.files.truncate(marks);
    }

    /// A prompt's ids and media: those of the newest messages, as the oldest may be left out.
    ///
    /// # Errors
    /// Marks of media that are not there; media that cannot be encoded.
    pub fn feed(&self, tokenizer: &Tokenizer, prompt: &RenderedPrompt) -> Result<Feed> {
        let seen = prompt.text.matches(MARK).count();
        let files = self.files.get(self.files.len().saturating_sub(seen)..).unwrap_or_default();
        let side = TextSide { tokenizer, n_embd: self.n_embd, m_rope: self.m_rope };
        self.projector.feed_parts(&prompt.text, files, &side, &|range, first| {
            let own = |part: std::ops::Range<usize>| prompt.is_own(part.start + range.start..part.end + range.start);
            tokenizer.encode_marked(&prompt.text[range.clone()], &own, first && tokenizer.add_bos())
        })
    }
}

impl Chat<'_> {
    /// A message with marks for the media that are attached to it.
    pub(super) fn with_media(&mut self, text: String) -> Result<String> {
        match &mut self.given.media {
            Some(media) => media.message(text),
            None if text.contains(MARK) => {
                Err(Error::Request(format!("{MARK}: expected a projector (--mmproj FILE), found none")))
            }
            None => Ok(text),
        }
    }

    /// Puts the files that a line consists of before the next message, if the model takes some media; whether it did, or said why not.
    pub(super) fn take_dropped(&mut self, line: &str) -> bool {
        let Some(files) = dropped::files(line).filter(|_| self.given.media.is_some()) else { return false };
        for (path, picture) in files {
            match self.attach(&path, picture) {
                Ok(said) => self.screen.lines(&said),
                Err(error) => self.screen.lines(&format!("error: {error}\n")),
            }
        }
        true
    }

    /// Puts a file before the next message.
    pub(super) fn attach(&mut self, path: &Path, picture: bool) -> Result<String> {
        let Some(media) = &mut self.given.media else {
            let what = "expected a projector (--mmproj FILE, or mmproj*.gguf beside the model), found none";
            return Err(Error::Request(format!("{}: {what}", path.display())));
        };
        media.attach(path, picture)?;
        Ok(format!("{} goes with the next message\n", path.display()))
    }
}
