//! Prompts for what stands between two texts.

use super::loaded_model::LoadedModel;
use super::refusal::{refusal, wrong};
use super::request::PromptRequest;
use pumex_serve::engine::{Refusal, RefusalKind};

/// Ids of a prompt's parts, without marks.
struct InfillIds {
    /// Other files, marks included.
    extra: Vec<u32>,
    /// Text before the gap, and what the gap begins with.
    before: Vec<u32>,
    /// Text after it.
    behind: Vec<u32>,
}

impl InfillIds {
    /// Leaves out what does not fit in so many tokens: of the other files the first ones; where even the text around the gap is too
    /// long, what is farthest from the gap, with three quarters of the room for what stands before it.
    fn fit(&mut self, room: usize) {
        let all = self.before.len() + self.behind.len();
        if all > room {
            let behind = self.behind.len().min((room / 4).max(room.saturating_sub(self.before.len())));
            self.behind.truncate(behind);
            let before = self.before.len().min(room - behind);
            self.before.drain(..self.before.len() - before);
        }
        let left = room.saturating_sub(self.before.len() + self.behind.len());
        self.extra.drain(..self.extra.len().saturating_sub(left));
    }
}

impl LoadedModel {
    /// The prompt of text before a gap, text that the gap begins with and text after it, with other files: name (or none) and text.
    /// What does not fit in the context beside an answer is left out.
    ///
    /// # Errors
    /// A model without tokens for this, text that the vocabulary cannot hold.
    pub(super) fn infill(
        &self,
        [prefix, prompt, suffix]: [&str; 3],
        extra: &[(Option<String>, String)],
        answer: Option<usize>,
    ) -> Result<PromptRequest, Refusal> {
        let marks = self.tokenizer.infill();
        let (Some(before), Some(behind), Some(middle)) = (marks.prefix, marks.suffix, marks.middle) else {
            return Err(refusal(RefusalKind::Unsupported, "the model has no tokens for infill"));
        };
        let text = |text: &str| self.tokenizer.encode(text, false, false).map_err(wrong("prompt"));
        let mut parts = InfillIds { extra: Vec::new(), before: text(prefix)?, behind: text(suffix)? };
        parts.before.extend(text(prompt)?);
        if let (Some(repo), false) = (marks.repo, extra.is_empty()) {
            parts.extra.push(repo);
            parts.extra.extend(text("myproject\n")?);
        }
        for (name, content) in extra {
            match marks.file {
                Some(file) => {
                    parts.extra.push(file);
                    parts.extra.extend(text(&format!("{}\n", name.as_deref().unwrap_or("tmp")))?);
                }
                None => parts.extra.extend(text("\n\n--- snippet ---\n\n")?),
            }
            parts.extra.extend(text(content)?);
        }
        if let (Some(file), false) = (marks.file, extra.is_empty()) {
            parts.extra.push(file);
            parts.extra.extend(text("filename\n")?);
        }
        let mut ids: Vec<u32> = self.tokenizer.bos().filter(|_| self.tokenizer.add_bos()).into_iter().collect();
        let n_ctx = self.n_ctx();
        // Three marks, and a token of the answer at least.
        let answer = answer.unwrap_or(n_ctx / 8).clamp(1, n_ctx / 2 + 1);
        parts.fit(n_ctx.saturating_sub(ids.len() + 3 + answer));
        ids.extend(parts.extra);
        ids.push(before);
        ids.extend(parts.before);
        ids.push(behind);
        ids.extend(parts.behind);
        ids.push(middle);
        let whole = self.spell_ids(&ids);
        Ok(PromptRequest { ids, media: Vec::new(), text: whole, chat: None })
    }
}

#[cfg(test)]
mod tests {
    use super::InfillIds;

    #[test]
    fn what_is_farthest_from_the_gap_is_left_out() {
        let parts = || InfillIds { extra: (0..10).collect(), before: (20..30).collect(), behind: (40..50).collect() };
        let fit = |room: usize| {
            let mut parts = parts();
            parts.fit(room);
            let ends = |ids: &[u32]| ids.first().copied().zip(ids.last().copied());
            (ends(&parts.extra), ends(&parts.before), ends(&parts.behind))
        };
        assert_eq!(fit(99), (Some((0, 9)), Some((20, 29)), Some((40, 49))));
        assert_eq!(fit(23), (Some((7, 9)), Some((20, 29)), Some((40, 49))));
        assert_eq!(fit(16), (None, Some((20, 29)), Some((40, 45))));
        assert_eq!(fit(8), (None, Some((24, 29)), Some((40, 41))));
        assert_eq!(fit(0), (None, None, None));
    }
}
