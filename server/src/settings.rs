//! How a model is served.

use pumex_dialogue::embedding::Pooling;
use pumex_dialogue::projector::Projector;
use pumex_engine::Options;
use pumex_gguf::{Gguf, Result};
use pumex_serve::engine::Constraint;
use pumex_step::sample::SamplerOptions;
use pumex_text::chat::Json;
use pumex_text::Tokenizer;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Opens a model's file, with its adapters by sequence ([`pumex_model::adapter::attach_by_sequence`]).
pub type Open = Arc<dyn Fn() -> Result<Gguf> + Send + Sync>;

/// Opens the projector beside a model, if there is one.
pub type OpenProjector = Arc<dyn Fn(&Gguf) -> Result<Option<Projector>> + Send + Sync>;

/// The sampler's options where a request says nothing.
pub type Usual = Arc<dyn Fn(&Gguf, &Tokenizer) -> Result<SamplerOptions> + Send + Sync>;

/// A small model that proposes ids for the served one.
#[derive(Clone)]
pub struct DraftModel {
    /// Opens its file.
    pub open: Arc<dyn Fn() -> Result<Gguf> + Send + Sync>,
    /// Where it runs.
    pub engine: Options,
    /// Most ids that are proposed at once.
    pub most: usize,
    /// Fewer are not checked.
    pub least: usize,
}

impl DraftModel {
    /// The runner's options, for answers in so many slots.
    pub fn options(&self, slots: usize, n_ctx: usize) -> Options {
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let n_ctx = self.engine.n_ctx.filter(|n| *n > 0).unwrap_or(number(n_ctx));
        Options {
            n_ctx: Some(n_ctx),
            n_seqs: number(slots),
            room_for: None,
            cache_positions: None,
            batch: Some(number(slots)),
            ..self.engine.clone()
        }
    }
}

/// Largest scale of an adapter: with more, nothing of the model is left.
pub const MOST_SCALE: f32 = 1e4;

/// Whether an adapter may have such a scale.
pub fn in_scale(scale: f32) -> bool {
    scale.abs() <= MOST_SCALE
}

/// Something that goes wrong once, for tests. Steps count from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestFault {
    /// The step of that number fails.
    Lost(u64),
    /// From that step on, so many steps find no memory.
    Memory(u64, u32),
    /// A panic instead of the step of that number.
    Panic(u64),
}

/// A model, and how it is served.
#[derive(Clone)]
pub struct ModelSettings {
    /// Its name.
    pub name: String,
    /// Opens its file.
    pub open: Open,
    /// Opens the projector of pictures and sounds beside it, if requests may have some.
    pub projector: Option<OpenProjector>,
    /// Files and scales of the adapters that requests may use.
    pub adapters: Vec<(PathBuf, f32)>,
    /// Where and with what sizes it runs. `n_ctx` is what all slots have together, unless [`ModelSettings::unified`].
    pub engine: Options,
    /// Answers that are written at once.
    pub slots: usize,
    /// Each slot may hold the whole context, of which all take from one store.
    pub unified: bool,
    /// Sequences that are kept for their beginnings beside those at work.
    pub kept: usize,
    /// Most requests that wait.
    pub queue: usize,
    /// Rows of a step in which prompts stand beside answers that go on, a power of two.
    pub prompt_rows: usize,
    /// Most tokens of an answer; none: until the context is full.
    pub predict: Option<usize>,
    /// Answers go on when the context is full, without the oldest half of what is not kept.
    pub context_shift: bool,
    /// Tokens that stay then, where a request does not say; -1: the whole prompt.
    pub keep: i64,
    /// The chat template's source or name, in place of the file's.
    pub chat_template: Option<String>,
    /// Its further variables.
    pub template_variables: Vec<(String, Json)>,
    /// Whether models reason where their template has a switch; none: as the template has it.
    pub reasoning: Option<bool>,
    /// Most tokens of reasoning.
    pub reasoning_budget: Option<usize>,
    /// The sampler's options where a request says nothing.
    pub usual: Usual,
    /// Gives vectors instead of text.
    pub embeds: bool,
    /// How rows become vectors; none: as the file says.
    pub pooling: Option<Pooling>,
    /// What answers are within where a request says nothing, but for those that may call functions.
    pub constraint: Option<Constraint>,
    /// Whether reasoning stays in the text where a request does not say.
    pub inline_reasoning: bool,
    /// Where slots are saved.
    pub slot_folder: Option<PathBuf>,
    /// Most bytes of saved slots in a folder; none: as many as the disk has.
    pub slot_bytes: Option<u64>,
    /// Requests whose reader took nothing for so long are cut off.
    pub stall: Duration,
    /// Users share cached beginnings of prompts.
    pub share_prefixes: bool,
    /// Answers are the same whoever is served beside them, where a request does not say.
    pub deterministic: bool,
    /// A small model that proposes ids.
    pub draft: Option<DraftModel>,
    /// A file that gets a line for each step.
    pub step_log: Option<PathBuf>,
    /// What goes wrong, for tests.
    pub fault: Option<TestFault>,
}

impl ModelSettings {
    /// How rows of that file's model become vectors.
    pub fn pooling_of(&self, gguf: &Gguf) -> Pooling {
        self.pooling.or_else(|| Pooling::of(gguf).ok().flatten()).unwrap_or(Pooling::Mean)
    }

    /// The adapters' scales where nobody says others.
    pub fn scales(&self) -> Vec<f32> {
        self.adapters.iter().map(|(_, scale)| *scale).collect()
    }

    /// A model that `open` gives, served with the defaults.
    pub fn new(name: impl Into<String>, open: Open) -> ModelSettings {
        ModelSettings {
            name: name.into(),
            open,
            projector: None,
            adapters: Vec::new(),
            engine: Options::default(),
            slots: 4,
            unified: true,
            kept: 8,
            queue: 512,
            prompt_rows: 256,
            predict: None,
            context_shift: false,
            keep: 0,
            chat_template: None,
            template_variables: Vec::new(),
            reasoning: None,
            reasoning_budget: None,
            usual: Arc::new(|_, _| Ok(SamplerOptions::default())),
            embeds: false,
            pooling: None,
            constraint: None,
            inline_reasoning: false,
            slot_folder: None,
            slot_bytes: None,
            stall: Duration::from_secs(60),
            share_prefixes: false,
            deterministic: false,
            draft: None,
            step_log: None,
            fault: None,
        }
    }

    /// Sequences of the runner.
    pub fn n_seqs(&self) -> usize {
        // One more for each slot: an answer that ended stays while its last step is under way.
        2 * self.slots + self.kept
    }

    /// The runner's options: sizes of slots and of what they share.
    pub fn options(&self) -> Options {
        let total = self.engine.n_ctx.filter(|n| *n > 0);
        let slots = u32::try_from(self.slots.max(1)).unwrap_or(u32::MAX);
        let n_ctx = total.map(|n| if self.unified { n } else { (n / slots).max(1) });
        let n_seqs = u32::try_from(self.n_seqs()).unwrap_or(u32::MAX);
        // Blocks are whole, so that each slot needs up to one more than its share.
        let cache_positions = total.map(|n| n.saturating_add(slots * pumex_engine::session::KV_BLOCK as u32));
        // What the first requests would otherwise wait for.
        let batch = Some(slots);
        let mut options =
            Options { n_ctx, n_seqs, cache_positions, room_for: Some(slots), batch, ..self.engine.clone() };
        if self.deterministic {
            // Where it gives up, later steps would go through other kernels.
            options.debug.megakernel = Some(false);
        }
        options
    }
}
