//! Host bytes → device buffers: straight into mapped memory where host and device share it, else through staging slots.
//!
//! Every thread has slots of its own: it fills one while the device copies the other, and waits for nothing else. One thread
//! submits what the others filled, all that is there at once: a submission takes as long for a dozen slots as for one. Copies
//! go to the device's queue or, if it was opened so, to one that only copies; kernels that repack follow them on the first.

use super::commands::{Recorder, Recording};
use super::device::{lock, Device};
use super::memory::{Buffer, Class};
use super::pipeline::Pipeline;
use super::queue::{Line, Value};
use crate::{Error, Result};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How uploads are done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// Threads, each with slots of its own.
    pub threads: usize,
    /// Bytes of a slot.
    pub slot_bytes: usize,
    /// Slots lie in the device's memory and the host writes them through its window, instead of in the host's.
    pub window: bool,
}

/// Rows of `row_bytes` bytes to be turned into rows of `row_words` words by a kernel, after they reached the device.
pub struct Repack {
    /// Takes the addresses of both sides and the number of rows, then `rest`.
    pub pipeline: Pipeline,
    /// Push constants after those.
    pub rest: Vec<u8>,
    /// Bytes of a row as uploaded.
    pub row_bytes: usize,
    /// Words of a row as kept.
    pub row_words: usize,
}

/// Bytes to be sent to the start of a buffer.
pub struct Load<'a> {
    /// Where to.
    pub to: Buffer,
    /// What.
    pub bytes: &'a [u8],
    /// Bytes that are checked together: pieces are whole multiples of it.
    pub unit: usize,
    /// A kernel that lays them out; whole rows then, and none for mapped buffers.
    pub repack: Option<Repack>,
    /// What the caller knows it by.
    pub tag: usize,
}

/// Called with the tag, the place and the length of bytes; an error stops the upload.
pub type Check<'a> = &'a (dyn Fn(usize, usize, usize) -> Result<()> + Sync);

/// What is asked of all bytes.
#[derive(Clone, Copy)]
pub struct Checks<'a> {
    /// Before they are read for the first time.
    pub before: Check<'a>,
    /// Of what was read just now, before the device gets it: a core has it near then.
    pub after: Check<'a>,
}

/// Slots of a thread: one fills while the other is copied.
const SLOTS: usize = 2;
/// Submissions under way.
const BATCHES: usize = 4;
/// Bytes copied and then checked: what is checked is still in the core's cache.
const PIECE: usize = 1 << 18;
/// Workgroups of a repacking dispatch, which walks over its rows.
const REPACK_GROUPS: u32 = 1024;
/// Longest silence between two calls of the progress function, so that it may stop the process.
const TICK: Duration = Duration::from_millis(100);

/// Part of a load that fits a slot.
struct Chunk<'a> {
    load: Arc<Load<'a>>,
    from: usize,
    len: usize,
    order: usize,
}

/// What became of a chunk: its bytes, or its place in the order and why not.
type Told = std::result::Result<u64, (usize, Error)>;

/// Sends all `loads` in order, and returns when they are there. `progress` gets the bytes sent, on this thread.
///
/// # Errors
/// Those of `loads` and `checks`, whichever came first in order; memory that ran out for the slots, a row wider than a slot,
/// a lost device.
pub fn upload<'a>(
    device: &Device,
    way: &Way,
    loads: impl Iterator<Item = Result<Load<'a>>>,
    checks: Checks<'_>,
    progress: &mut dyn FnMut(u64),
) -> Result<()> {
    let ((send, chunks), (tell, told)) = (mpsc::channel(), mpsc::channel());
    let (chunks, stop) = (Mutex::new(chunks), AtomicBool::new(false));
    let (mut done, mut failed, mut order) = (0, None::<(usize, Error)>, 0);
    let mut note = |told: Told, failed: &mut Option<(usize, Error)>| {
        match told {
            Ok(bytes) => done += bytes,
            Err(e) if failed.as_ref().is_none_or(|first| e.0 < first.0) => *failed = Some(e),
            Err(_) => {}
        }
        progress(done);
    };
    std::thread::scope(|scope| {
        let (hand_over, filled) = mpsc::channel();
        for _ in 0..way.threads.max(1) {
            let filler = Filler { device, way, checks, chunks: &chunks, stop: &stop, tell: tell.clone() };
            let hand_over = hand_over.clone();
            scope.spawn(move || filler.run(&hand_over));
        }
        let sender = Sends { device, stop: &stop, tell };
        scope.spawn(move || sender.run(&filled));
        drop(hand_over);
        for load in loads {
            match load.and_then(|load| cut(load, way.slot_bytes)) {
                Ok(cut) => cut.for_each(|(load, from, len)| {
                    // A send fails only when every thread has stopped, which the results will say.
                    let _ = send.send(Chunk { load, from, len, order });
                    order += 1;
                }),
                Err(e) => note(Err((order, e)), &mut failed),
            }
            told.try_iter().for_each(|t| note(t, &mut failed));
            if failed.is_some() {
                stop.store(true, Ordering::Relaxed);
                break;
            }
        }
        drop(send);
        loop {
            match told.recv_timeout(TICK) {
                Ok(told) => note(told, &mut failed),
                Err(RecvTimeoutError::Timeout) => note(Ok(0), &mut failed),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
    });
    match failed {
        Some((_, error)) => Err(error),
        None => joined(device),
    }
}

/// The parts of a load: its place and length in bytes.
fn cut<'a>(load: Load<'a>, slot_bytes: usize) -> Result<impl Iterator<Item = (Arc<Load<'a>>, usize, usize)>> {
    let unit = load.repack.as_ref().map_or(load.unit, |r| r.row_bytes).max(1);
    let most = slot_bytes / unit * unit;
    if most == 0 {
        return Err(Error::Request(format!("a row: expected at most {slot_bytes} bytes, found {unit}")));
    }
    let (len, load) = (load.bytes.len(), Arc::new(load));
    let parts = (0..len).step_by(most);
    Ok(parts.map(move |from| (load.clone(), from, most.min(len - from))))
}

/// Orders all copies made so far before the work submitted from now on.
fn joined(device: &Device) -> Result<()> {
    let inner = &device.0;
    if let Some(copies) = &inner.copies {
        inner.submit(&inner.work, &[], Some(copies.last()))?;
    }
    Ok(())
}

/// Writes `bytes` to the start of `buffer`, which nothing uses yet, and returns when they are there.
///
/// # Errors
/// Memory that ran out for staging, a lost device.
pub fn send(device: &Device, buffer: &Buffer, bytes: &[u8]) -> Result<()> {
    let way = Way { threads: 1, slot_bytes: bytes.len().clamp(1, PIECE), window: false };
    let load = Load { to: buffer.clone(), bytes, unit: 1, repack: None, tag: 0 };
    let none = |_, _, _| Ok(());
    upload(device, &way, std::iter::once(Ok(load)), Checks { before: &none, after: &none }, &mut |_| ())
}

/// Repeats the `filled` bytes that buffers start with up to `len`, given as (buffer, filled, len), by copies on the device
/// that double them.
///
/// # Errors
/// A lost device.
pub fn repeat(device: &Device, mut buffers: Vec<(Buffer, u64, u64)>) -> Result<()> {
    let mut rec = device.recorder()?;
    buffers.retain(|(_, filled, len)| *filled > 0 && filled < len);
    while !buffers.is_empty() {
        for (buffer, filled, len) in &mut buffers {
            let more = (*filled).min(*len - *filled);
            rec.copy(buffer, 0, buffer, *filled, more);
            *filled += more;
        }
        rec.copy_barrier();
        buffers.retain(|(_, filled, len)| filled < len);
    }
    let recording = rec.finish()?;
    device.wait(device.submit(&recording)?)
}

/// Memory for a chunk on its way.
struct Slot<'a> {
    /// What the host writes.
    staging: Buffer,
    /// Where the device holds what a kernel is to lay out; what the host writes, if that is a window.
    landing: Option<Buffer>,
    /// Reached when the device is done with both.
    busy: Option<Value<'a>>,
    /// Where it goes once it is submitted.
    back: Sender<Slot<'a>>,
}

/// A chunk, and the slot that holds it.
struct Filled<'a, 'b> {
    chunk: Chunk<'b>,
    slot: Slot<'a>,
}

/// A thread that fills slots.
struct Filler<'a, 'b> {
    device: &'a Device,
    way: &'a Way,
    checks: Checks<'a>,
    chunks: &'a Mutex<Receiver<Chunk<'b>>>,
    stop: &'a AtomicBool,
    tell: Sender<Told>,
}

impl<'a, 'b> Filler<'a, 'b> {
    /// Takes chunks until there are none or one fails anywhere.
    fn run(self, hand_over: &Sender<Filled<'a, 'b>>) {
        let (back, free) = mpsc::channel();
        let mut to_come = vec![back; SLOTS]; // of slots that are not made yet: their own are what keeps the channel open
        while !self.stop.load(Ordering::Relaxed) {
            let Ok(chunk) = lock(self.chunks).recv() else { break };
            let (order, bytes) = (chunk.order, chunk.len as u64);
            let told = if chunk.load.to.is_mapped() {
                self.fill(&chunk, &chunk.load.to, chunk.from).map(|()| Some(bytes))
            } else {
                let slot = to_come.pop().map_or_else(|| self.wait(&free), |back| self.slot(back));
                let filled = slot.and_then(|slot| self.fit(slot, &chunk)).map(|slot| Filled { chunk, slot });
                filled.and_then(|filled| hand_over.send(filled).map(|()| None).map_err(|_| ended()))
            };
            match told {
                Ok(None) => {}
                Ok(Some(bytes)) => _ = self.tell.send(Ok(bytes)),
                Err(e) => {
                    self.stop.store(true, Ordering::Relaxed);
                    _ = self.tell.send(Err((order, e)));
                }
            }
        }
    }

    fn slot(&self, back: Sender<Slot<'a>>) -> Result<Slot<'a>> {
        let class = if self.way.window { Class::Params } else { Class::Staging };
        let staging = self.device.buffer("staging", self.way.slot_bytes as u64, class)?;
        Ok(Slot { staging, landing: None, busy: None, back })
    }

    /// The slot with the chunk in it, and with all that it takes from there.
    fn fit(&self, mut slot: Slot<'a>, chunk: &Chunk<'_>) -> Result<Slot<'a>> {
        if slot.landing.is_none() && chunk.load.repack.is_some() && !self.way.window {
            slot.landing = Some(self.device.buffer("landing", self.way.slot_bytes as u64, Class::Scratch)?);
        }
        self.fill(chunk, &slot.staging, 0)?;
        Ok(slot)
    }

    /// A slot that the device is done with.
    fn wait(&self, free: &Receiver<Slot<'a>>) -> Result<Slot<'a>> {
        let mut slot = free.recv().map_err(|_| ended())?;
        slot.busy.take().map_or(Ok(()), |value| self.device.0.wait(value))?;
        Ok(slot)
    }

    /// Writes the chunk's bytes to `to` from `at` on, piece by piece, between the checks.
    fn fill(&self, chunk: &Chunk<'_>, to: &Buffer, at: usize) -> Result<()> {
        let unit = chunk.load.unit.max(1);
        let piece = (PIECE / unit).max(1) * unit;
        (self.checks.before)(chunk.load.tag, chunk.from, chunk.len)?;
        for from in (0..chunk.len).step_by(piece) {
            let (start, len) = (chunk.from + from, piece.min(chunk.len - from));
            to.write((at + from) as u64, &chunk.load.bytes[start..start + len]);
            (self.checks.after)(chunk.load.tag, start, len)?;
        }
        Ok(())
    }
}

/// What stops those who fill when nobody submits any more.
fn ended() -> Error {
    Error::Request("upload: the thread that submits has ended".into())
}

/// The thread that submits.
struct Sends<'a> {
    device: &'a Device,
    stop: &'a AtomicBool,
    tell: Sender<Told>,
}

/// Recordings of a submission, and what is reached when they may be used again.
#[derive(Default)]
struct Batch<'a> {
    copies: Option<Recording>,
    repacks: Option<Recording>,
    busy: Option<Value<'a>>,
}

impl<'a> Sends<'a> {
    /// Submits what comes, all that is there at once, until nobody fills any more, and waits for the device then.
    fn run(self, filled: &Receiver<Filled<'a, '_>>) {
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
        for value in batches.iter_mut().filter_map(|batch| batch.busy.take()) {
            if let Err(e) = self.device.0.wait(value) {
                let _ = self.tell.send(Err((last, e)));
            }
        }
    }

    fn submit(&self, batch: &mut Batch<'a>, all: &[Filled<'a, '_>]) -> Result<()> {
        let inner = &self.device.0;
        if let Some(value) = batch.busy.take() {
            inner.wait(value)?;
        }
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
            batch.busy = copied;
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
            batch.busy = Some(submit(self.device, lines.1, rec, &mut batch.repacks, after)?);
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
