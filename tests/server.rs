//! Many requests on one runner, with the demo model on the CPU.

mod adapters;
mod attackers;
mod cache;
mod connections;
mod deterministic;
mod embedding;
mod encoder_decoder;
mod faults;
mod fields;
mod load;
mod media;
mod models;
mod owners;
mod prefix_checkpoints;
mod preset;
pub mod process;
mod random;
mod signals;
mod slots;
mod soak;
mod text;
mod vulkan;

use crate::util::demo_path;
use pumex::engine::{self, DeviceChoice};
use pumex::gguf::Gguf;
use pumex::server::{ModelSettings, ServedModel};
use pumex_serve::engine::{Chat, Event, Finish, Generate, Model, Phase, Prompt, PromptPart, Refusal, Sampling};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// The demo model with so many slots of 256 positions.
pub fn settings(slots: usize) -> ModelSettings {
    let open = Arc::new(|| Gguf::open(&demo_path()));
    let engine = engine::Options {
        device: DeviceChoice::Cpu,
        n_ctx: Some(256 * slots as u32),
        max_rows: 64,
        ..engine::Options::default()
    };
    ModelSettings { engine, slots, unified: false, prompt_rows: 32, ..ModelSettings::new("demo", open) }
}

/// The demo model with so many slots, in plain f32, where rows do not depend on those beside them.
pub fn exact(slots: usize) -> ModelSettings {
    let mut exact = settings(slots);
    exact.engine.device = DeviceChoice::Reference;
    exact
}

pub fn load(settings: ModelSettings) -> ServedModel {
    ServedModel::load(settings).unwrap()
}

/// A greedy request that continues a text.
pub fn greedy(prompt: &str, tokens: usize) -> Generate {
    let sampling = Sampling { temperature: Some(0.0), ..Sampling::default() };
    let prompt = Prompt::Parts(vec![PromptPart::Text(prompt.to_string())]);
    Generate { max_tokens: Some(tokens), sampling, ..Generate::new(prompt) }
}

/// A greedy request that answers a message.
pub fn message(text: &str, tokens: usize) -> Generate {
    let messages = vec![serde_json::json!({ "role": "user", "content": text })];
    let chat = Chat { messages, add_generation_prompt: true, ..Chat::default() };
    Generate { prompt: Prompt::Chat(chat), ..greedy("", tokens) }
}

/// What came of an answer.
#[derive(Clone, Debug, Default)]
pub struct ReceivedAnswer {
    pub text: String,
    pub ids: Vec<u32>,
    pub calls: Vec<(String, String)>,
    pub finish: Option<Finish>,
}

/// What came of a request.
#[derive(Clone, Debug, Default)]
pub struct All {
    pub cached: usize,
    pub prompt: String,
    pub slots: Vec<usize>,
    pub answers: Vec<ReceivedAnswer>,
    pub failed: Option<Refusal>,
    pub progress: Vec<(usize, usize)>,
    /// Ids of the prompt with their log-probabilities.
    pub prompt_told: Vec<(u32, Option<f32>)>,
}

impl All {
    pub fn text(&self) -> &str {
        &self.answers[0].text
    }

    pub fn finish(&self) -> &Finish {
        self.answers[0].finish.as_ref().unwrap_or_else(|| panic!("no end: {self:?}"))
    }

    pub fn take(&mut self, event: Event) {
        fn at(answers: &mut Vec<ReceivedAnswer>, answer: usize) -> &mut ReceivedAnswer {
            if answers.len() <= answer {
                answers.resize(answer + 1, ReceivedAnswer::default());
            }
            assert!(answers[answer].finish.is_none(), "nothing comes after the end");
            &mut answers[answer]
        }
        let answers = &mut self.answers;
        match event {
            Event::Started { slots, cached_tokens, prompt, .. } => {
                (self.slots, self.cached, self.prompt) = (slots, cached_tokens, prompt);
            }
            Event::Progress { processed, cached, .. } => self.progress.push((processed, cached)),
            Event::Prompt { tokens } => self.prompt_told = tokens.iter().map(|t| (t.id, t.logprob)).collect(),
            Event::Piece { answer, phase, text, tokens } => {
                let got = at(answers, answer);
                if phase == Phase::Content {
                    got.text.push_str(&text);
                }
                got.ids.extend(tokens.iter().map(|token| token.id));
            }
            Event::CallStart { answer, name, .. } => at(answers, answer).calls.push((name, String::new())),
            Event::CallArguments { answer, call, delta } => at(answers, answer).calls[call].1.push_str(&delta),
            Event::Finished { answer, finish } => at(answers, answer).finish = Some(finish),
            Event::Failed(refusal) => {
                assert!(self.failed.is_none(), "it fails once");
                self.failed = Some(refusal);
            }
        }
    }
}

/// Queues a request.
pub fn ask(model: &dyn Model, request: Generate) -> mpsc::Receiver<Event> {
    let (events, receiver) = mpsc::channel(64);
    model.generate(request, events).unwrap();
    receiver
}

/// All that comes of a request.
pub fn all(mut receiver: mpsc::Receiver<Event>) -> All {
    let mut all = All::default();
    while let Some(event) = receiver.blocking_recv() {
        all.take(event);
    }
    all
}

pub fn run(model: &dyn Model, request: Generate) -> All {
    all(ask(model, request))
}

/// Waits until something holds, for as long as a machine under load may take.
pub fn wait(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(120), "{what}: it does not come");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Prompts that differ from their first words on.
pub fn prompts(n: usize) -> Vec<String> {
    let words =
        ["And it came to pass", "The king said unto", "In the beginning of", "She looked out of the", "Of all the men"];
    (0..n).map(|i| format!("{} {} {}", words[i % words.len()], ["the", "a", "his", "every"][i / 5 % 4], i)).collect()
}
