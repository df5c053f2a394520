//! Threads that fill batches, the one that gives batches their slots, and what they share with the one that plans.

use super::batch::{Batch, PlannedBatch, RunSlice, StagingSlot};
use super::load::{UploadOptions, UploadSource};
use crate::device::Device;
use crate::lock::lock;
use pumex_gguf::{Error, Result};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Longest silence between two calls of the progress function, so that it may stop the process.
const TICK: Duration = Duration::from_millis(100);
/// How long a thread looks for the next batch before it sleeps: to wake takes about as long.
const AWAKE: Duration = Duration::from_micros(100);
/// Bytes that fit into a core's cache beside what it writes of them.
const CACHED: usize = 64 << 10;
/// Batches planned ahead: memory for weights is made while others are on their way.
const AHEAD: usize = 8;

/// What all threads know.
#[derive(Default)]
struct UploadState<'b> {
    /// What comes next, without slots.
    planned: VecDeque<PlannedBatch<'b>>,
    /// No more will be planned.
    ended: bool,
    /// All that ever had their slots.
    batches: Vec<Arc<Batch<'b>>>,
    /// No more will have.
    served: bool,
    /// All slots.
    made: Vec<Arc<StagingSlot>>,
    /// A batch waits for a slot.
    waiting: bool,
    /// Slots that nobody fills, the longest untouched first.
    slots: VecDeque<Arc<StagingSlot>>,
    /// Batches planned that are not submitted yet.
    left: usize,
    /// Bytes submitted.
    sent: u64,
    failed: Option<(Order, Error)>,
}

/// Where in all that is sent: which run, which byte of it.
type Order = (usize, usize);

/// What threads share.
pub(super) struct UploadThreads<'a, 'b> {
    device: &'a Device,
    pub(super) way: &'a UploadOptions,
    source: &'a dyn UploadSource,
    state: Mutex<UploadState<'b>>,
    /// For those that plan and serve.
    changed: Condvar,
    /// For those that fill.
    served: Condvar,
    /// Batches that have their slots, for those who look without the lock.
    batches: AtomicUsize,
    stop: AtomicBool,
}

/// Stops all threads when one panics, so that none waits for it.
pub(super) struct Guard<'s, 'a, 'b>(&'s UploadThreads<'a, 'b>);

impl Drop for Guard<'_, '_, '_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop(lock(&self.0.state));
        }
    }
}

impl<'a, 'b> UploadThreads<'a, 'b> {
    pub(super) fn new(device: &'a Device, way: &'a UploadOptions, source: &'a dyn UploadSource) -> Self {
        let (state, changed, served) = (Mutex::default(), Condvar::new(), Condvar::new());
        let (batches, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
        UploadThreads { device, way, source, state, changed, served, batches, stop }
    }

    pub(super) fn guard(&self) -> Guard<'_, 'a, 'b> {
        Guard(self)
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    pub(super) fn sent_bytes(&self) -> u64 {
        lock(&self.state).sent
    }

    fn stop(&self, state: MutexGuard<'_, UploadState<'b>>) {
        self.stop.store(true, Ordering::Relaxed);
        drop(state);
        self.changed.notify_all();
        self.served.notify_all();
    }

    /// Keeps the first fault in order, and stops all.
    pub(super) fn record_failure(&self, order: Order, e: Error) {
        let mut state = lock(&self.state);
        if state.failed.as_ref().is_none_or(|first| order < first.0) {
            state.failed = Some((order, e));
        }
        self.stop(state);
    }

    /// What is to come after all planned before, once it is not too far ahead.
    pub(super) fn plan(&self, planned: PlannedBatch<'b>, progress: &mut dyn FnMut(u64)) {
        self.watch(progress, |state| state.planned.len() < AHEAD);
        let mut state = lock(&self.state);
        state.planned.push_back(planned);
        state.left += 1;
        drop(state);
        self.changed.notify_all();
    }

    /// No more will be planned: waits until all is submitted, or all has stopped.
    pub(super) fn end(&self, progress: &mut dyn FnMut(u64)) {
        lock(&self.state).ended = true;
        self.changed.notify_all();
        self.watch(progress, |state| state.left == 0);
    }

    /// Waits until that is so or all has stopped, and tells how far it is from time to time.
    fn watch(&self, progress: &mut dyn FnMut(u64), until: impl Fn(&UploadState<'b>) -> bool) {
        loop {
            progress(self.sent_bytes());
            let state = lock(&self.state);
            if self.is_stopped() || until(&state) {
                return;
            }
            drop(self.changed.wait_timeout(state, TICK).unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Waits for what `changed` tells until that is so or all has stopped.
    fn until(&self, so: impl Fn(&UploadState<'b>) -> bool) -> MutexGuard<'_, UploadState<'b>> {
        let mut state = lock(&self.state);
        while !self.is_stopped() && !so(&state) {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state
    }

    /// Makes slots one by one, as many as there is use for: each takes milliseconds, and the first serve meanwhile.
    pub(super) fn make_slots(&self) {
        let _guard = self.guard();
        if self.way.slots == 0 {
            drop(self.until(|state| state.ended || state.waiting));
        }
        for made in 0..self.way.slots.max(1) {
            let state = lock(&self.state);
            if self.is_stopped() || state.ended && made >= state.left {
                return;
            }
            drop(state);
            let slot = match StagingSlot::new(self.device, self.way) {
                Ok(slot) => Arc::new(slot),
                Err(e) => return self.record_failure((0, 0), e),
            };
            let mut state = lock(&self.state);
            state.made.push(slot.clone());
            state.slots.push_front(slot);
            drop(state);
            self.changed.notify_all();
        }
    }

    /// Hands planned batches to those that fill them, as there is a slot for each.
    pub(super) fn serve(&self) {
        let _guard = self.guard();
        while let Some(planned) = self.next_batch() {
            let mapped = planned.runs.iter().all(|r| r.load.to.is_mapped());
            let slot = if mapped { None } else { self.slot() };
            if slot.is_none() && !mapped {
                break; // stopped
            }
            lock(&self.state).batches.push(Arc::new(Batch::new(slot, planned)));
            self.batches.fetch_add(1, Ordering::Release);
            self.served.notify_all();
        }
        lock(&self.state).served = true;
        self.batches.fetch_add(1, Ordering::Release);
        self.served.notify_all();
    }

    /// What comes next; none after the last, or if all has stopped.
    fn next_batch(&self) -> Option<PlannedBatch<'b>> {
        let next = self.until(|state| state.ended || !state.planned.is_empty()).planned.pop_front();
        self.changed.notify_all();
        next.filter(|_| !self.is_stopped())
    }

    /// A slot that the device is done with; none if all has stopped.
    fn slot(&self) -> Option<Arc<StagingSlot>> {
        lock(&self.state).waiting = true;
        self.changed.notify_all();
        let slot = self.until(|state| !state.slots.is_empty()).slots.pop_front()?;
        match slot.wait() {
            Ok(()) => Some(slot).filter(|_| !self.is_stopped()),
            Err(e) => {
                self.record_failure((0, 0), e);
                None
            }
        }
    }

    /// Fills batches until there are no more or something fails anywhere.
    pub(super) fn fill(&self) {
        let _guard = self.guard();
        let mut at = 0;
        while let Some(batch) = self.batch(at) {
            at += 1;
            // Looked at before a piece is taken: what is taken is checked, so that the first fault in order is found.
            while !self.is_stopped() {
                let Some(piece) = batch.pieces.get(batch.next.fetch_add(1, Ordering::Relaxed)) else { break };
                let mut filled = self.write(&batch, piece);
                if filled.is_ok() && batch.left.fetch_sub(1, Ordering::AcqRel) == 1 {
                    filled = self.submit(&batch);
                }
                if let Err(e) = filled {
                    return self.record_failure((batch.planned.first + piece.run, piece.from), e);
                }
            }
        }
    }

    /// Batch `at` of all, once it has its slot.
    fn batch(&self, at: usize) -> Option<Arc<Batch<'b>>> {
        let begun = Instant::now();
        while self.batches.load(Ordering::Acquire) <= at && begun.elapsed() < AWAKE {
            std::hint::spin_loop();
        }
        let mut state = lock(&self.state);
        while !self.is_stopped() && state.batches.len() <= at && !state.served {
            state = self.served.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.batches.get(at).cloned().filter(|_| !self.is_stopped())
    }

    /// Writes a piece to where it belongs, and checks each part of it while the core still has it in its cache.
    fn write(&self, batch: &Batch<'b>, piece: &RunSlice) -> Result<()> {
        let run = &batch.planned.runs[piece.run];
        let (load, from) = (&run.load, run.from + piece.from);
        self.source.ready(load.epoch, from, piece.len)?;
        let unit = load.unit.max(1);
        let step = (CACHED / unit).max(1) * unit;
        for (i, part) in load.bytes[from..from + piece.len].chunks(step).enumerate() {
            match &batch.slot {
                None => load.to.write((from + i * step) as u64, part),
                // SAFETY: slots are known to this module alone; a batch has its slot for itself, runs and pieces of a batch
                // are apart, and a piece is taken by one thread.
                Some(slot) => unsafe { slot.buffer.write_apart((run.at + piece.from + i * step) as u64, part) },
            }
            self.source.check(load.epoch, from + i * step, part)?;
        }
        Ok(())
    }

    /// Submits a batch that is filled.
    fn submit(&self, batch: &Batch<'b>) -> Result<()> {
        if let Some(slot) = &batch.slot {
            slot.submit(&batch.planned.runs)?;
        }
        let mut state = lock(&self.state);
        state.left -= 1;
        state.sent += batch.len_bytes();
        state.slots.extend(batch.slot.clone());
        drop(state);
        self.changed.notify_all();
        Ok(())
    }

    /// Waits for the device; all slots, or the first fault if there was one.
    pub(super) fn finish(&self) -> Result<Vec<Arc<StagingSlot>>> {
        let mut state = lock(&self.state);
        let (slots, failed) = (std::mem::take(&mut state.made), state.failed.take());
        drop(state);
        let waited = slots.iter().try_for_each(|slot| slot.wait());
        failed.map_or(waited, |(_, e)| Err(e)).map(|()| slots)
    }
}
