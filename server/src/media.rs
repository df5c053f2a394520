//! Pictures and sounds of requests: what stands in a prompt for them.

use pumex_dialogue::projector::{MediumFile, MARK};
use pumex_engine::conversation::Feed;
use pumex_gguf::{Error, Result};
use pumex_serve::engine::{Medium, MediumKind, PromptPart, Refusal};
use pumex_step::{Media, Medium as Rows};
use std::ops::Range;
use std::sync::Arc;

use super::loaded_model::LoadedModel;
use super::projector::Eyes;
use super::refusal::{invalid, wrong};

/// The refusal of a medium that a model does not take.
pub fn no_media(medium: &Medium) -> Refusal {
    let what = match medium.kind {
        MediumKind::Picture => "image input is not supported",
        MediumKind::Sound => "audio input is not supported",
    };
    invalid(&medium.field, format!("{what} - this model reads no such media (--mmproj gives it a projector)"))
}

fn file(medium: &Medium) -> MediumFile {
    let picture = medium.kind == MediumKind::Picture;
    MediumFile { picture, bytes: Arc::from(&medium.bytes[..]), bare: false, max_tokens: medium.max_tokens }
}

impl LoadedModel {
    /// The projector that takes all of these.
    fn eyes(&self, media: &[&Medium]) -> std::result::Result<&Eyes, Refusal> {
        let takes = |eyes: &&Eyes| {
            let (sees, hears) = eyes.takes();
            media.iter().all(|m| if m.kind == MediumKind::Picture { sees } else { hears })
        };
        self.eyes.as_ref().filter(takes).ok_or_else(|| match media.first() {
            Some(first) => {
                let (sees, _) = self.eyes.as_ref().map_or((false, false), Eyes::takes);
                let refused = |m: &&&Medium| (m.kind == MediumKind::Picture) != sees || self.eyes.is_none();
                no_media(media.iter().find(refused).unwrap_or(first))
            }
            None => invalid("prompt", "prompt: expected media, found none".into()),
        })
    }

    fn feed(
        &self,
        text: &str,
        media: &[&Medium],
        encode: &dyn Fn(Range<usize>, bool) -> Result<Vec<u32>>,
    ) -> std::result::Result<Feed, Refusal> {
        let eyes = self.eyes(media)?;
        let files: Vec<MediumFile> = media.iter().map(|m| file(m)).collect();
        let field = media.first().map_or("prompt", |m| m.field.as_str()).to_string();
        eyes.feed((text, &self.tokenizer), &files, encode).map_err(|error| match error {
            Error::Request(what) => invalid(&field, what),
            other => wrong("prompt")(other),
        })
    }

    /// A conversation's prompt with media at its marks.
    pub(super) fn place_media(
        &self,
        prompt: &pumex_text::chat::RenderedPrompt,
        media: &[&Medium],
    ) -> std::result::Result<Feed, Refusal> {
        self.feed(&prompt.text, media, &|range, first| {
            let own = |part: Range<usize>| prompt.is_own(part.start + range.start..part.end + range.start);
            let bos = first && self.tokenizer.add_bos();
            self.tokenizer.encode_marked(&prompt.text[range.clone()], &own, bos)
        })
    }

    /// A prompt of parts with media among them.
    pub(super) fn join_prompt(&self, parts: &[PromptPart]) -> std::result::Result<Feed, Refusal> {
        let media: Vec<&Medium> = parts.iter().filter_map(PromptPart::medium).collect();
        let mut text = String::new();
        for part in parts {
            match part {
                PromptPart::Text(own) if own.contains(MARK) => {
                    return Err(invalid("prompt", format!("prompt: expected no {MARK} in a text")));
                }
                PromptPart::Text(own) => text.push_str(own),
                PromptPart::Medium(_) => text.push_str(MARK),
                PromptPart::Token(_) => {
                    return Err(invalid("prompt", "prompt: expected texts beside media, found ids".into()));
                }
            }
        }
        self.feed(&text, &media, &|range, first| {
            self.tokenizer.encode(&text[range], first && self.tokenizer.add_bos(), true)
        })
    }
}

/// The media of a prompt, to be found again by their ids.
pub fn media_rows(media: &Media) -> Vec<Arc<Rows>> {
    media.iter().map(|(_, medium)| medium.clone()).collect()
}
