//! Answers as they are put together from events.

use crate::engine::{Event, Finish, FinishReason, GeneratedToken, Phase};
use serde_json::Value;

/// All answers to one prompt.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    pub slots: Vec<usize>,
    pub settings: Value,
    pub prompt: String,
    /// Tokens of the prompt, where something is told of them.
    pub prompt_tokens: Vec<GeneratedToken>,
    pub list: Vec<AnswerParts>,
}

/// One of them.
#[derive(Debug, Default)]
pub(crate) struct AnswerParts {
    /// What it consists of, in order; parts of one kind in a row are one.
    pub blocks: Vec<AnswerBlock>,
    /// The tokens, and what they are part of.
    pub tokens: Vec<(Phase, GeneratedToken)>,
    pub finish: Option<Finish>,
}

/// A part of an answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum AnswerBlock {
    Text(String),
    Reasoning(String),
    Call { id: String, name: String, arguments: String },
}

/// What an event did to an answer's blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockChange {
    /// Nothing.
    None,
    /// Began a block.
    Opened,
    /// Made the last one longer.
    Grew,
}

impl Answers {
    pub fn new(answers: usize) -> Answers {
        Answers { list: std::iter::repeat_with(AnswerParts::default).take(answers).collect(), ..Answers::default() }
    }

    /// Takes an event in.
    pub fn take(&mut self, event: Event) {
        match event {
            Event::Started { slots, settings, prompt, .. } => {
                (self.slots, self.settings, self.prompt) = (slots, settings, prompt)
            }
            Event::Prompt { tokens } => self.prompt_tokens = tokens,
            Event::Piece { answer, .. }
            | Event::CallStart { answer, .. }
            | Event::CallArguments { answer, .. }
            | Event::Finished { answer, .. } => {
                if let Some(answer) = self.list.get_mut(answer) {
                    answer.take(event);
                }
            }
            Event::Progress { .. } | Event::Failed(_) => {}
        }
    }

    /// How the first answer went.
    pub fn finish(&self) -> Option<&Finish> {
        self.list.first().and_then(|a| a.finish.as_ref())
    }
}

impl AnswerParts {
    /// Takes one of its events in, and says what that changed.
    pub fn take(&mut self, event: Event) -> BlockChange {
        match event {
            Event::Piece { phase, text, tokens, .. } => {
                self.tokens.extend(tokens.into_iter().map(|t| (phase, t)));
                match (phase, self.blocks.last_mut()) {
                    _ if text.is_empty() => BlockChange::None,
                    (Phase::Content, Some(AnswerBlock::Text(last)))
                    | (Phase::Reasoning, Some(AnswerBlock::Reasoning(last))) => {
                        last.push_str(&text);
                        BlockChange::Grew
                    }
                    (Phase::Content, _) => self.open(AnswerBlock::Text(text)),
                    (Phase::Reasoning, _) => self.open(AnswerBlock::Reasoning(text)),
                    (Phase::Call, _) => BlockChange::None,
                }
            }
            Event::CallStart { name, id, .. } => self.open(AnswerBlock::Call { id, name, arguments: String::new() }),
            Event::CallArguments { delta, .. } => match self.blocks.last_mut() {
                Some(AnswerBlock::Call { arguments, .. }) => {
                    arguments.push_str(&delta);
                    BlockChange::Grew
                }
                _ => BlockChange::None,
            },
            Event::Finished { finish, .. } => {
                self.finish = Some(finish);
                BlockChange::None
            }
            _ => BlockChange::None,
        }
    }

    fn open(&mut self, block: AnswerBlock) -> BlockChange {
        self.blocks.push(block);
        BlockChange::Opened
    }

    /// All text that is no reasoning.
    pub fn text(&self) -> String {
        let text = |b: &AnswerBlock| if let AnswerBlock::Text(t) = b { Some(t.clone()) } else { None };
        self.blocks.iter().filter_map(text).collect()
    }

    /// All reasoning.
    pub fn reasoning(&self) -> String {
        let text = |b: &AnswerBlock| if let AnswerBlock::Reasoning(t) = b { Some(t.clone()) } else { None };
        self.blocks.iter().filter_map(text).collect()
    }

    /// Tokens of the text itself.
    pub fn text_tokens(&self) -> impl Iterator<Item = &GeneratedToken> {
        self.tokens.iter().filter(|(phase, _)| *phase == Phase::Content).map(|(_, piece)| piece)
    }

    /// Why it is over.
    pub fn reason(&self) -> FinishReason {
        self.finish.as_ref().map_or(FinishReason::End, |f| f.reason.clone())
    }
}
