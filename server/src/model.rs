//! A model that is served: its text side here, its runner on a thread of its own.

use super::embedding::{Call, EmbeddingReply, QueueSlot};
use super::loaded_model::LoadedModel;
use super::model_status::{idle, ModelStatus};
use super::model_thread::{self, Inbox};
use super::refusal::{invalid, refusal, stopping, wrong};
use super::settings::{in_scale, ModelSettings, MOST_SCALE};
use super::worker::{SlotAction, SlotCall, WorkerCommand};
use pumex_dialogue::embedding::Pooling;
use pumex_engine::conversation::check_ids;
use pumex_gguf::{Error, Result};
use pumex_serve::engine::{
    Adapter, Chat, Embed, EventSender, Generate, Holder, Metrics, Model, ModelProperties, Refusal, RefusalKind, Rerank,
    ScoreSender, SlotStatus, VectorSender,
};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{channel, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// The way to the thread.
enum Outbox {
    Commands(Sender<WorkerCommand>),
    Calls(Sender<Call>),
}

/// A model that is loaded.
pub struct ServedModel {
    loaded: Arc<LoadedModel>,
    shared: Arc<ModelStatus>,
    outbox: Mutex<Option<Outbox>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// The thread has ended.
    over: AtomicBool,
}

type AdmissionResult<T> = std::result::Result<T, Refusal>;

impl ServedModel {
    /// Loads a model. Blocks until it is there.
    ///
    /// # Errors
    /// A file that cannot be loaded, too little memory.
    pub fn load(settings: ModelSettings) -> Result<ServedModel> {
        let (inbox, outbox) = if settings.embeds {
            let (to, from) = channel();
            (Inbox::Calls(from), Outbox::Calls(to))
        } else {
            let (to, from) = channel();
            (Inbox::Commands(from), Outbox::Commands(to))
        };
        let (ready, loaded) = channel();
        let name = format!("model {}", settings.name);
        let spawn = std::thread::Builder::new().name(name).spawn(move || model_thread::main(settings, &inbox, &ready));
        let thread = spawn.map_err(|e| Error::Request(format!("a thread for the model: {e}")))?;
        let gone = |_| Error::Request("the model's thread ended while it loaded".into());
        let (loaded, shared) = loaded.recv().map_err(gone)??;
        Ok(ServedModel {
            loaded,
            shared,
            outbox: Mutex::new(Some(outbox)),
            thread: Mutex::new(Some(thread)),
            over: AtomicBool::new(false),
        })
    }

    /// Counts on from what was counted when the model was loaded before; nobody has asked for anything yet.
    pub fn go_on_counting(&self, past: Metrics) {
        let metrics = &mut self.shared.view().metrics;
        *metrics = Metrics { blocks_total: metrics.blocks_total, ..past };
    }

    /// From now on refuses new requests.
    pub fn drain(&self) {
        self.shared.draining.store(true, Ordering::Relaxed);
    }

    /// Ends all requests and frees everything.
    pub fn stop(&self) {
        self.drain();
        let outbox = self.outbox.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Outbox::Commands(commands)) = &outbox {
            // The thread may have ended by itself.
            let _ = commands.send(WorkerCommand::Stop);
        }
        // Calls end with whoever can make one.
        drop(outbox);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // A panic was told by the thread itself.
            let _ = thread.join();
            self.over.store(true, Ordering::Release);
        }
    }

    /// Whether it was stopped, and nothing of it is at work.
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// For how long there was nothing to do; none while there is.
    pub fn idle(&self) -> Option<Duration> {
        let idle = self.shared.view().idle_since.map(|since| since.elapsed());
        idle.filter(|_| self.shared.waiting.load(Ordering::Relaxed) == 0)
    }

    /// Whether it comes up again, and why it does not work.
    pub fn health(&self) -> (bool, Option<String>) {
        (self.shared.loading.load(Ordering::Relaxed), self.shared.view().failed.clone())
    }

    fn command(&self, command: WorkerCommand) -> AdmissionResult<()> {
        match &*self.outbox.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(Outbox::Commands(commands)) => commands.send(command).map_err(|_| stopping()),
            Some(Outbox::Calls(_)) => {
                Err(refusal(RefusalKind::Unsupported, "this model gives vectors, and has no slots"))
            }
            None => Err(stopping()),
        }
    }

    fn slot(&self, slot: usize, action: SlotAction, whose: &Holder) -> AdmissionResult<(usize, u64)> {
        let (reply, done) = channel();
        self.command(WorkerCommand::Slot(SlotCall { slot, action, whose: whose.clone(), reply }))?;
        done.recv().unwrap_or_else(|_| Err(stopping()))
    }

    /// Has the thread work on texts.
    fn queue(&self, texts: Vec<Vec<u32>>, pooling: Pooling, reply: EmbeddingReply) -> AdmissionResult<()> {
        if self.shared.draining.load(Ordering::Relaxed) {
            return Err(stopping());
        }
        let place = QueueSlot::take(&self.shared, self.loaded.settings.queue).map_err(busy)?;
        match &*self.outbox.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(Outbox::Calls(calls)) => calls.send(Call { texts, pooling, reply, place }).map_err(|_| stopping()),
            _ => Err(stopping()),
        }
    }
}

impl Drop for ServedModel {
    fn drop(&mut self) {
        self.stop();
    }
}

fn busy(waiting: usize) -> Refusal {
    refusal(RefusalKind::Busy, format!("the queue is full: {waiting} requests wait"))
}

impl Model for ServedModel {
    fn properties(&self) -> &ModelProperties {
        &self.loaded.properties
    }

    fn generate(&self, request: Generate, events: EventSender) -> AdmissionResult<Vec<String>> {
        if self.shared.draining.load(Ordering::Relaxed) {
            return Err(stopping());
        }
        let waiting = self.shared.waiting.fetch_add(1, Ordering::Relaxed);
        let refused = |refusal: Refusal| {
            self.shared.waiting.fetch_sub(1, Ordering::Relaxed);
            refusal
        };
        if waiting >= self.loaded.settings.queue {
            self.shared.view().metrics.requests_refused += 1;
            return Err(refused(busy(waiting)));
        }
        let id = self.shared.next.fetch_add(1, Ordering::Relaxed);
        let key = Holder::key_of(request.user.as_deref().unwrap_or_default());
        let scales = self.shared.view().scales_of(key).to_vec();
        let mut warnings = Vec::new();
        let job = self.loaded.job(request, events, (id, &scales), &mut warnings).map_err(refused)?;
        self.command(WorkerCommand::Generate(Box::new(job))).map_err(refused)?;
        Ok(warnings)
    }

    fn render(&self, chat: &Chat) -> AdmissionResult<(String, usize)> {
        self.loaded.render(chat)
    }

    fn tokenize(&self, text: &str, add_special: bool, parse_special: bool) -> AdmissionResult<Vec<u32>> {
        let tokenizer = &self.loaded.tokenizer;
        tokenizer.encode(text, add_special && tokenizer.add_bos(), parse_special).map_err(wrong("content"))
    }

    fn pieces(&self, ids: &[u32]) -> AdmissionResult<Vec<Vec<u8>>> {
        let tokenizer = &self.loaded.tokenizer;
        check_ids(ids, tokenizer.n_vocab()).map_err(wrong("tokens"))?;
        Ok(ids.iter().map(|id| tokenizer.piece(*id).to_vec()).collect())
    }

    fn detokenize(&self, ids: &[u32]) -> AdmissionResult<String> {
        check_ids(ids, self.loaded.tokenizer.n_vocab()).map_err(wrong("tokens"))?;
        Ok(self.loaded.spell_ids(ids))
    }

    fn embed(&self, request: &Embed, reply: VectorSender) -> AdmissionResult<()> {
        let (texts, pooling) = self.loaded.texts(request)?;
        self.queue(texts, pooling, EmbeddingReply::Vectors(reply, request.normalize))
    }

    fn rerank(&self, request: &Rerank, reply: ScoreSender) -> AdmissionResult<()> {
        self.queue(self.loaded.pairs(request)?, Pooling::Rank, EmbeddingReply::Scores(reply))
    }

    fn slots(&self, whose: &Holder) -> Vec<SlotStatus> {
        let mut slots = self.shared.view().slots.clone();
        for slot in slots.iter_mut().filter(|slot| slot.key != whose.key) {
            *slot = SlotStatus { busy: slot.busy, ..idle(slot.id, slot.n_ctx) };
        }
        slots
    }

    fn save_slot(&self, slot: usize, name: &str, whose: &Holder) -> AdmissionResult<(usize, u64)> {
        self.slot(slot, SlotAction::Save(name.to_string()), whose)
    }

    fn restore_slot(&self, slot: usize, name: &str, whose: &Holder) -> AdmissionResult<(usize, u64)> {
        self.slot(slot, SlotAction::Restore(name.to_string()), whose)
    }

    fn erase_slot(&self, slot: usize, whose: &Holder) -> AdmissionResult<usize> {
        self.slot(slot, SlotAction::Erase, whose).map(|(tokens, _)| tokens)
    }

    fn adapters(&self, whose: &Holder) -> Vec<Adapter> {
        let scales = self.shared.view().scales_of(&whose.key).to_vec();
        let files = self.loaded.settings.adapters.iter().zip(scales).enumerate();
        files.map(|(id, ((path, _), scale))| Adapter { id, path: path.display().to_string(), scale }).collect()
    }

    fn set_adapters(&self, scales: &[(usize, f32)], whose: &Holder) -> AdmissionResult<()> {
        let count = self.loaded.settings.adapters.len();
        if let Some((id, _)) = scales.iter().find(|(id, _)| *id >= count) {
            return Err(invalid("id", format!("id: expected below {count}, found {id}")));
        }
        if let Some((_, scale)) = scales.iter().find(|(_, scale)| !in_scale(*scale)) {
            let what = format!("scale: expected from -{MOST_SCALE} to {MOST_SCALE}, found {scale}");
            return Err(invalid("scale", what));
        }
        let mut all = vec![0.0; count];
        scales.iter().for_each(|(id, scale)| all[*id] = *scale);
        self.shared.view().own_scales.insert(whose.key.clone(), all);
        Ok(())
    }

    fn metrics(&self) -> Metrics {
        let mut metrics = self.shared.view().metrics.clone();
        let waiting = self.shared.waiting.load(Ordering::Relaxed) as u64;
        metrics.requests_waiting = metrics.requests_waiting.max(waiting);
        metrics
    }
}
