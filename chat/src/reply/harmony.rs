//! gpt-oss's replies: messages with a header that names a channel and, for calls, a recipient.
//!
//! `<|channel|>analysis<|message|>…<|end|><|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>{…}<|call|>`

use crate::reply::call::{Emit, EmitState};
use crate::reply::{until, Event, MarkSearch};

enum HarmonyState {
    /// Before a message's text; the header so far.
    Header(String),
    Content,
    Reasoning,
    /// A call's arguments; whether any came.
    Call {
        any: bool,
    },
}

pub(super) struct Harmony {
    at: HarmonyState,
    emit: EmitState,
}

const ENDS: [&str; 4] = ["<|end|>", "<|call|>", "<|return|>", "<|start|>"];

impl Harmony {
    /// A reply to a prompt that ends with `<|start|>assistant`, or further into a message.
    pub fn new(prompt: &str) -> Harmony {
        let tail = prompt.rfind("<|start|>").map_or("", |at| &prompt[at + 9..]);
        let emit = EmitState::default();
        if ENDS.iter().any(|end| tail.contains(end)) {
            return Harmony { at: HarmonyState::Header(String::new()), emit };
        }
        match tail.rfind("<|message|>") {
            Some(at) => {
                let mut harmony = Harmony { at: HarmonyState::Content, emit };
                harmony.open(&tail[..at], &mut Vec::new());
                harmony
            }
            None => Harmony { at: HarmonyState::Header(tail.to_string()), emit },
        }
    }

    /// Whether the present message is reasoning.
    pub fn is_reasoning(&self) -> bool {
        matches!(self.at, HarmonyState::Reasoning)
    }

    /// Begins the message of a header.
    fn open(&mut self, header: &str, events: &mut Vec<Event>) {
        let recipient = header.split_once("to=").map(|(_, to)| to.split([' ', '<', '\n']).next().unwrap_or_default());
        let channel = header.split_once("<|channel|>").map_or("", |(_, channel)| channel.trim_start());
        self.at = match recipient {
            Some(to) if !to.is_empty() && to != "assistant" => {
                let name = to.strip_prefix("functions.").unwrap_or(to);
                Emit { events, state: &mut self.emit }.start(name, None);
                HarmonyState::Call { any: false }
            }
            _ if channel.starts_with("analysis") => HarmonyState::Reasoning,
            _ => HarmonyState::Content,
        };
    }

    pub fn run(&mut self, pending: &mut String, events: &mut Vec<Event>, calls: &mut usize, ended: bool) {
        loop {
            if let HarmonyState::Header(header) = &mut self.at {
                let found = until(pending, &["<|message|>", "<|end|>", "<|call|>", "<|return|>"]);
                let (MarkSearch::Mark(text, _) | MarkSearch::Text(text)) = &found;
                header.push_str(text);
                match found {
                    MarkSearch::Mark(_, 0) => {
                        let header = std::mem::take(header);
                        self.open(&header, events);
                        continue;
                    }
                    MarkSearch::Mark(..) => {
                        header.clear();
                        continue;
                    }
                    MarkSearch::Text(_) if !ended => return,
                    // A reply without any marks is an answer.
                    MarkSearch::Text(_) => {
                        let mut text = std::mem::take(header);
                        text.push_str(pending);
                        pending.clear();
                        let text = text.trim_start_matches("assistant");
                        if !text.is_empty() && !text.contains("<|") {
                            events.push(Event::Content(text.to_string()));
                        }
                        return;
                    }
                }
            }
            let found = until(pending, &ENDS);
            let (MarkSearch::Mark(text, _) | MarkSearch::Text(text)) = &found;
            let mut text = text.clone();
            let over = matches!(found, MarkSearch::Mark(..));
            if ended && !over {
                text.push_str(&std::mem::take(pending));
            }
            self.text(&text, events);
            if over || ended {
                self.close(events, over, calls);
                self.at = HarmonyState::Header(String::new());
            }
            if !over {
                return;
            }
        }
    }

    fn text(&mut self, text: &str, events: &mut Vec<Event>) {
        if text.is_empty() {
            return;
        }
        match &mut self.at {
            HarmonyState::Call { any } => {
                *any |= !text.trim().is_empty();
                Emit { events, state: &mut self.emit }.arguments(text);
            }
            HarmonyState::Reasoning => events.push(Event::Reasoning(text.to_string())),
            _ => events.push(Event::Content(text.to_string())),
        }
    }

    fn close(&mut self, events: &mut Vec<Event>, complete: bool, calls: &mut usize) {
        if let HarmonyState::Call { any } = self.at {
            let mut emit = Emit { events, state: &mut self.emit };
            if !any && complete {
                emit.arguments("{}");
            }
            emit.end(complete);
            *calls += 1;
        }
    }
}
