//! The thread that submits what slots hold.

use super::{wait, Busy, Filled, Told};
use crate::vk::commands::{Recorder, Recording};
use crate::vk::device::Device;
use crate::vk::queue::{Line, Value};
use crate::Result;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender};

/// Submissions under way.
const BATCHES: usize = 4;
/// Workgroups of a repacking dispatch, which walks over its rows.
const REPACK_GROUPS: u32 = 1024;

/// The thread that submits.
pub(super) struct Sends<'a> {
    pub(super) device: &'a Device,
    pub(super) stop: &'a AtomicBool,
    pub(super) tell: Sender<Told>,
}

/// Recordings of a submission, and what is reached when they may be used again.
#[derive(Default)]
struct Batch<'a> {
    copies: Option<Recording>,
    repacks: Option<Recording>,
    busy: Busy<'a>,
}

impl<'a> Sends<'a> {
    /// Submits what comes, all that is there at once, until nobody fills any more, and waits for the device then.
    pub(super) fn run(self, filled: &Receiver<Filled<'a, '_>>) {
        let mut batches: [Batch<'a>; BATCHES] = Default::default();
        let (mut next, mut last) = (0, 0);
        while let Ok(first) = filled.recv() {
            let all: Vec<_> = std::iter::once(first).chain(filled.try_iter()).collect();
            last = all.iter().map(|f| f.chunk.order).min().unwrap_or(last);
            let batch = &mut batches[next % BATCHES];
            next += 1;
            let sent = if self.stop.load(Ordering::Relaxed) { Ok(()) } else { self.submit(batch, &all) };
            let failed = sent.is_err();
            if let Err(e) = sent {
                self.stop.store(true, Ordering::Relaxed);
                let _ = self.tell.send(Err((last, e)));
            }
            for Filled { chunk, mut slot } in all {
                slot.busy = batch.busy;
                let back = slot.back.clone();
                // Whoever filled it may be gone; the receiver only if its thread panicked.
                let _ = back.send(slot);
                if !failed {
                    let _ = self.tell.send(Ok(chunk.len as u64));
                }
            }
        }
        for batch in &mut batches {
            if let Err(e) = wait(self.device, &mut batch.busy) {
                let _ = self.tell.send(Err((last, e)));
            }
        }
    }

    fn submit(&self, batch: &mut Batch<'a>, all: &[Filled<'a, '_>]) -> Result<()> {
        let inner = &self.device.0;
        wait(self.device, &mut batch.busy)?;
        let lines = (inner.copies.as_ref().unwrap_or(&inner.work), &inner.work);
        let target = |f: &'_ Filled<'a, '_>| match (&f.chunk.load.repack, &f.slot.landing) {
            (None, _) => Some((f.chunk.load.to.clone(), f.chunk.from as u64)),
            (Some(_), Some(landing)) => Some((landing.clone(), 0)),
            (Some(_), None) => None, // the kernel reads the window
        };
        let mut copied = None;
        if all.iter().any(|f| target(f).is_some()) {
            let mut rec = recorder(self.device, lines.0, batch.copies.take())?;
            for f in all {
                if let Some((to, at)) = target(f) {
                    rec.copy(&f.slot.staging, 0, &to, at, f.chunk.len as u64);
                }
            }
            copied = Some(submit(self.device, lines.0, rec, &mut batch.copies, None)?);
            batch.busy[0] = copied;
        }
        if all.iter().any(|f| f.chunk.load.repack.is_some()) {
            let mut rec = recorder(self.device, lines.1, batch.repacks.take())?;
            if inner.copies.is_none() && copied.is_some() {
                rec.copy_barrier(); // both are in one queue, where no semaphore orders them
            }
            for f in all {
                repack(&mut rec, f);
            }
            let after = copied.filter(|_| inner.copies.is_some());
            batch.busy[1] = Some(submit(self.device, lines.1, rec, &mut batch.repacks, after)?);
        }
        Ok(())
    }
}

/// Records the kernel that lays a chunk out, if there is one.
fn repack(rec: &mut Recorder, f: &Filled<'_, '_>) {
    let (load, Some(repack)) = (&f.chunk.load, &f.chunk.load.repack) else { return };
    let from = f.slot.landing.as_ref().unwrap_or(&f.slot.staging);
    let rows = f.chunk.from / repack.row_bytes;
    let to = load.to.address() + (rows * repack.row_words * 4) as u64;
    let mut push = [from.address(), to].map(u64::to_le_bytes).concat();
    push.extend(((f.chunk.len / repack.row_bytes) as u32).to_le_bytes());
    push.extend(&repack.rest);
    rec.dispatch(&repack.pipeline, &push, [REPACK_GROUPS, 1, 1]);
    [from, &load.to].iter().for_each(|b| rec.keep(b));
}

/// A recording for `line`, in the memory of a former one.
fn recorder(device: &Device, line: &Line, former: Option<Recording>) -> Result<Recorder> {
    former.map_or_else(|| device.recorder_for(line, 0), Recording::again)
}

/// Submits and keeps a recording.
fn submit<'a>(
    device: &Device,
    line: &'a Line,
    rec: Recorder,
    kept: &mut Option<Recording>,
    after: Option<Value<'_>>,
) -> Result<Value<'a>> {
    let recording = kept.insert(rec.finish()?);
    Ok(Value { line, value: device.submit_to(line, recording, after)? })
}
