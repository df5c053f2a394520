//! The thread that owns a runner: takes requests, starts steps and reads them, and tells what came of them.
//!
//! While answers go on by themselves two steps are under way: the next one starts from ids that the last one is still choosing.
//! Where an id has to be known first, steps follow one another.
//!
//! A request starts where blocks suffice; where they run out, the youngest goes back to the queue and is computed anew. Every
//! sequence that ends is kept, and a prompt forks the longest beginning of it that is there; what was of no use for longest makes
//! room. Models that cannot go back have prompts kept before their last id, and where another one went on otherwise. Events go to
//! bounded channels: a full one pauses its request, a closed one ends it. A step that fails ends what runs, and the model is
//! loaded anew; a row of NaN ends its request alone.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::active_request::{ActiveAnswer, ActiveRequest, PendingRow};
use super::draft::DraftRunner;
use super::loaded_model::LoadedModel;
use super::log::{LaunchLog, StepLog};
use super::model_status::ModelStatus;
use super::prefix::PrefixOwner;
use super::queue::Queue;
use super::refusal::{engine_failure, public_text, refusal, stopping};
use super::request::Job;
use super::sequences::{Seqs, SharedIds};
use super::settings::TestFault;
use pumex_gguf::{Error, Result};
use pumex_serve::engine::{Event, Holder, Refusal, RefusalKind};
use pumex_step::{Row, Runner, Ticket};
use tokio::sync::mpsc::error::TrySendError;

/// How long a thread waits for readers that are behind.
const PATIENCE: Duration = Duration::from_millis(1);

/// What is done with a slot between steps.
#[derive(Clone, Debug)]
pub enum SlotAction {
    /// Writes it to a file of that name.
    Save(String),
    /// Reads it from one.
    Restore(String),
    /// Empties it.
    Erase,
}

/// What is asked for a slot.
pub struct SlotCall {
    /// The slot.
    pub slot: usize,
    /// What is done with it.
    pub action: SlotAction,
    /// Who asks.
    pub whose: Holder,
    /// Where its tokens and bytes go.
    pub reply: Sender<std::result::Result<(usize, u64), Refusal>>,
}

/// What other threads ask of a model's.
pub enum WorkerCommand {
    /// Works on a request.
    Generate(Box<Job>),
    /// Does something with a slot.
    Slot(SlotCall),
    /// Ends everything.
    Stop,
}

/// Why a worker is done.
pub enum WorkerExit {
    /// It was told so.
    Stopped,
    /// The runner failed.
    Failed(Error),
}

/// A step under way.
pub struct Flight {
    /// The runner's.
    pub ticket: Ticket,
    /// Its output rows, in order.
    pub asked: Vec<PendingRow>,
    /// Whether the runner is to be told which ids are allowed.
    pub later: bool,
    /// What it was, for the log.
    pub launched: LaunchLog,
}

/// A sequence whose answer is over, until steps under way are read.
pub struct Leaving {
    /// Number of the last step that may have rows of it.
    pub step: u64,
    /// The sequence.
    pub seq: u32,
    /// Whose it is, and in which slot it was.
    pub of: (PrefixOwner, usize),
    /// What it holds.
    pub ids: Vec<u32>,
    /// Ids that are of use to steady requests.
    pub steady: usize,
}

/// Requests at work on a runner.
pub struct Worker<'r> {
    pub(super) runner: &'r mut dyn Runner,
    pub(super) draft: Option<DraftRunner<'r>>,
    pub(super) loaded: Arc<LoadedModel>,
    pub(super) shared: Arc<ModelStatus>,
    pub(super) queue: &'r mut Queue<Box<Job>>,
    pub(super) seqs: Seqs,
    pub(super) slots: Vec<Option<ActiveAnswer>>,
    /// Slots at work, the oldest request first.
    pub(super) order: Vec<usize>,
    pub(super) running: BTreeMap<u64, ActiveRequest>,
    /// Requests whose last events wait for room.
    pub(super) ending: Vec<ActiveRequest>,
    pub(super) flying: VecDeque<Flight>,
    pub(super) leaving: Vec<Leaving>,
    /// Steps started, and read.
    pub(super) steps: (u64, u64),
    /// When the last step was read or, if none was under way, the next one started.
    pub(super) clock: Instant,
    /// Steps that may be under way at once.
    pub(super) depth: usize,
    pub(super) serial: u64,
    pub(super) fault: &'r mut Option<TestFault>,
    /// Most rows of a step that there was memory for.
    pub(super) fitted: usize,
    pub(super) log: Option<StepLog>,
    /// Room to work in.
    pub(super) rows: Vec<Row>,
    pub(super) counts: Vec<usize>,
    /// Indices into the order of age, in the order that their rows have in the step.
    pub(super) placed: Vec<usize>,
    pub(super) needs: Vec<super::schedule::StepNeed>,
    pub(super) told: Vec<Event>,
}

/// What a worker of a loaded model is made of.
pub struct WorkerParts<'r> {
    /// Computes the model's steps.
    pub runner: &'r mut dyn Runner,
    /// A small model that proposes ids, where there is one.
    pub draft: Option<DraftRunner<'r>>,
    /// What requests need of the model beside its runner.
    pub loaded: Arc<LoadedModel>,
    /// What other threads are shown of the model.
    pub status: Arc<ModelStatus>,
    /// Requests that wait.
    pub queue: &'r mut Queue<Box<Job>>,
    /// Something that goes wrong once, for tests.
    pub fault: &'r mut Option<TestFault>,
}

impl<'r> Worker<'r> {
    /// A worker without requests but those of `queue`.
    ///
    /// # Errors
    /// A log of steps that cannot be written.
    pub fn new(parts: WorkerParts<'r>) -> Result<Worker<'r>> {
        let WorkerParts { runner, draft, loaded, status: shared, queue, fault } = parts;
        let slots = loaded.settings.slots;
        // What is proposed follows from ids that are read.
        let depth = if runner.allows_later() && draft.is_none() { 2 } else { 1 };
        shared.view().metrics.blocks_total = blocks(runner) as u64;
        let log = loaded.settings.step_log.as_ref().map(|path| StepLog::open(path, runner)).transpose()?;
        Ok(Worker {
            seqs: Seqs::new(loaded.settings.n_seqs(), slots),
            runner,
            draft,
            loaded,
            shared,
            queue,
            slots: (0..slots).map(|_| None).collect(),
            order: Vec::new(),
            running: BTreeMap::new(),
            ending: Vec::new(),
            flying: VecDeque::new(),
            leaving: Vec::new(),
            steps: (0, 0),
            clock: Instant::now(),
            depth,
            serial: 0,
            fault,
            fitted: 0,
            log,
            rows: Vec::new(),
            counts: Vec::new(),
            placed: Vec::new(),
            needs: Vec::new(),
            told: Vec::new(),
        })
    }

    /// Works until there is a reason not to. All requests at work got their last event then.
    pub fn run(mut self, commands: &Receiver<WorkerCommand>) -> WorkerExit {
        // Nothing is at work yet, whatever was when the last one ended.
        self.show();
        loop {
            if let Err(done) = self.receive(commands) {
                while let Ok(WorkerCommand::Generate(job)) = commands.try_recv() {
                    self.queue.push(job.ticket.clone(), job);
                }
                let why = match &done {
                    WorkerExit::Failed(error) => engine_failure(error),
                    WorkerExit::Stopped => stopping(),
                };
                self.fail_all(&why);
                return done;
            }
            self.pass_on();
            self.admit();
            if let Err(error) = self.step() {
                self.fail_all(&refusal(RefusalKind::Failed, format!("the engine failed: {}", public_text(&error))));
                return WorkerExit::Failed(error);
            }
        }
    }

    /// Starts a step if one can be, and reads the oldest one where no other may be under way beside it.
    fn step(&mut self) -> Result<()> {
        let started = self.flying.len() < self.depth && self.start()?;
        let reads = self.flying.len() > 1 || (!started && !self.flying.is_empty());
        if reads {
            self.read()?;
        }
        self.tell_allowed()?;
        if !started && !reads && (self.is_busy() || !self.queue.is_empty()) {
            // All that could go on waits for its reader.
            std::thread::sleep(PATIENCE);
        }
        Ok(())
    }

    fn is_busy(&self) -> bool {
        !self.running.is_empty() || !self.ending.is_empty()
    }

    /// Takes what others ask for; waits for it where there is nothing to do.
    fn receive(&mut self, commands: &Receiver<WorkerCommand>) -> std::result::Result<(), WorkerExit> {
        loop {
            let idle = !self.is_busy() && self.queue.is_empty() && self.flying.is_empty();
            let command = if idle {
                self.shared.view().idle_since.get_or_insert_with(Instant::now);
                self.log.iter_mut().for_each(StepLog::idle);
                let command = match commands.recv_timeout(Duration::from_secs(3600)) {
                    Ok(command) => command,
                    Err(RecvTimeoutError::Timeout) => continue,
                    Err(RecvTimeoutError::Disconnected) => return Err(WorkerExit::Stopped),
                };
                self.log.iter_mut().for_each(StepLog::idle);
                command
            } else {
                match commands.try_recv() {
                    Ok(command) => command,
                    Err(TryRecvError::Empty) => return Ok(()),
                    Err(TryRecvError::Disconnected) => return Err(WorkerExit::Stopped),
                }
            };
            self.shared.view().idle_since = None;
            match command {
                WorkerCommand::Generate(job) => self.queue.push(job.ticket.clone(), job),
                WorkerCommand::Stop => return Err(WorkerExit::Stopped),
                WorkerCommand::Slot(call) => {
                    while !self.flying.is_empty() {
                        if let Err(error) = self.read().and_then(|()| self.tell_allowed()) {
                            return Err(WorkerExit::Failed(error));
                        }
                    }
                    let done = self.act(&call);
                    // Who is told may look at once.
                    self.show();
                    // Who asked may have gone.
                    let _ = call.reply.send(done);
                }
            }
        }
    }

    /// Hands out events that wait, and lets requests go whose reader is gone or takes nothing.
    fn pass_on(&mut self) {
        let stall = self.loaded.settings.stall;
        let is_gone = |running: &ActiveRequest| {
            running.job.events.is_closed() || running.stalled.is_some_and(|since| since.elapsed() > stall)
        };
        self.running.values_mut().chain(&mut self.ending).filter(|r| !r.outbox.is_empty()).for_each(flush);
        self.ending.retain(|running| !running.outbox.is_empty() && !is_gone(running));
        if self.running.values().any(is_gone) {
            let gone: Vec<u64> = self.running.iter().filter(|(_, r)| is_gone(r)).map(|(id, _)| *id).collect();
            gone.into_iter().for_each(|id| self.cancel(id));
        }
        if self.queue.iter().any(|job| job.events.is_closed()) {
            let gone = self.queue.remove(|job| job.events.is_closed());
            self.stop_waiting(gone.iter().filter(|job| job.started.is_none()).count());
            self.shared.view().metrics.requests_cancelled += gone.len() as u64;
        }
    }

    /// So many requests wait no longer.
    pub(super) fn stop_waiting(&self, n: usize) {
        self.shared.waiting.fetch_sub(n, Ordering::Relaxed);
    }

    /// A request's answers end without an event.
    fn cancel(&mut self, id: u64) {
        self.vacate(id);
        if self.running.remove(&id).is_some() {
            self.shared.view().metrics.requests_cancelled += 1;
        }
        self.show();
    }

    /// A request failed: tells it, and lets its answers go.
    pub(super) fn fail(&mut self, id: u64, refusal: Refusal) {
        self.vacate(id);
        if let Some(mut running) = self.running.remove(&id) {
            send(&mut running, Event::Failed(refusal));
            self.shared.view().metrics.requests_failed += 1;
            if !running.outbox.is_empty() {
                self.ending.push(running);
            }
        }
        self.show();
    }

    /// Takes a request's answers out of their slots; gives them, the first one first.
    pub(super) fn vacate(&mut self, id: u64) -> Vec<ActiveAnswer> {
        let of = |work: &Option<ActiveAnswer>| work.as_ref().is_some_and(|work| work.request == id);
        let slots: Vec<usize> = (0..self.slots.len()).filter(|slot| of(&self.slots[*slot])).collect();
        let mut gone: Vec<ActiveAnswer> = slots.iter().filter_map(|slot| self.leave(*slot)).collect();
        gone.sort_by_key(|work| work.answer.number);
        gone
    }

    /// Takes an answer out of its slot. What its sequence holds is kept.
    pub(super) fn leave(&mut self, slot: usize) -> Option<ActiveAnswer> {
        let work = self.slots[slot].take()?;
        self.order.retain(|s| *s != slot);
        let owner = self.running.get(&work.request).map(|r| r.job.owner.clone()).unwrap_or_default();
        let ids = work.ids[..work.fed.min(work.ids.len())].to_vec();
        self.seqs.leave(work.seq);
        let steady = work.shares();
        let leaving = Leaving { step: self.steps.0, seq: work.seq, of: (owner, slot), ids, steady };
        self.leaving.push(leaving);
        self.settle();
        Some(work)
    }

    /// Keeps sequences that no step under way has rows of.
    pub(super) fn settle(&mut self) {
        let read = self.steps.1;
        let (settled, wait) = std::mem::take(&mut self.leaving).into_iter().partition(|l: &Leaving| l.step <= read);
        self.leaving = wait;
        for Leaving { seq, of: (owner, slot), ids, steady, .. } in settled {
            if self.loaded.sources.is_some() {
                self.seqs.free(self.runner, seq);
                continue;
            }
            // What ran ahead of the answer's end is not of it.
            self.runner.forget(seq, ids.len() as u32);
            self.seqs.keep(self.runner, seq, &owner, Some(slot), SharedIds { ids: &ids, steady });
        }
    }

    /// Ends all requests, those that wait too where the server stops.
    fn fail_all(&mut self, why: &Refusal) {
        let all: Vec<u64> = self.running.keys().copied().collect();
        all.into_iter().for_each(|id| self.fail(id, why.clone()));
        // There is no more time for readers that are behind.
        self.ending.iter_mut().for_each(flush);
        self.ending.clear();
        if why.kind == RefusalKind::Unavailable {
            let waiting = self.queue.remove(|_| true);
            self.stop_waiting(waiting.iter().filter(|job| job.started.is_none()).count());
            waiting.iter().for_each(|job| {
                let _ = job.events.try_send(Event::Failed(why.clone()));
            });
        }
        self.show();
    }
}

/// Blocks of a runner's cache, none of which is held yet.
fn blocks(runner: &dyn Runner) -> usize {
    match runner.free_blocks() {
        usize::MAX => 0,
        free => free,
    }
}

/// Sends an event, or has it wait for those before it.
pub fn send(running: &mut ActiveRequest, event: Event) {
    if !running.outbox.is_empty() {
        running.outbox.push_back(event);
        return;
    }
    if let Err(TrySendError::Full(event)) = running.job.events.try_send(event) {
        running.outbox.push_back(event);
        running.stalled = Some(Instant::now());
    }
}

/// Sends what waits, as far as there is room.
fn flush(running: &mut ActiveRequest) {
    while let Some(event) = running.outbox.pop_front() {
        match running.job.events.try_send(event) {
            Ok(()) => running.stalled = Some(Instant::now()),
            Err(TrySendError::Full(event)) => {
                running.outbox.push_front(event);
                return;
            }
            Err(TrySendError::Closed(_)) => {}
        }
    }
    running.stalled = None;
}
