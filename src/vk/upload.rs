//! Host bytes → device buffers: straight into mapped memory where host and device share it, else through staging slots.
//!
//! Every thread has slots of its own: it fills one while the device copies the other, and waits for nothing else. Copies go
//! to the device's queue or, if it was opened so, to one that only copies; kernels that repack follow them on the first.

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

/// Called with the tag, the place and the length of bytes about to be read for the first time; an error stops the upload.
/// Bytes are not touched before this returns.
pub type Check<'a> = &'a (dyn Fn(usize, usize, usize) -> Result<()> + Sync);

/// Slots of a thread: one fills while the other is copied.
const SLOTS: usize = 2;
/// Bytes checked and then copied: what is checked is still in the core's cache.
const PIECE: usize = 1 << 20;
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
/// Those of `loads` and `check`, whichever came first in order; memory that ran out for the slots, a row wider than a slot,
/// a lost device.
pub fn upload<'a>(
    device: &Device,
    way: &Way,
    loads: impl Iterator<Item = Result<Load<'a>>>,
    check: Check<'_>,
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
        for _ in 0..way.threads.max(1) {
            let (tell, chunks, stop) = (tell.clone(), &chunks, &stop);
            scope.spawn(move || Worker::new(device, way, check).run(chunks, stop, &tell));
        }
        drop(tell);
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
    upload(device, &way, std::iter::once(Ok(load)), &|_, _, _| Ok(()), &mut |_| ())
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

#[derive(Default)]
struct Slot<'a> {
    /// What the host writes.
    staging: Option<Buffer>,
    /// Where the device holds what a kernel is to lay out.
    landing: Option<Buffer>,
    copy: Option<Recording>,
    repack: Option<Recording>,
    /// Reached when the device is done with all of these.
    busy: Option<Value<'a>>,
}

struct Worker<'a> {
    device: &'a Device,
    way: &'a Way,
    check: Check<'a>,
    slots: [Slot<'a>; SLOTS],
    next: usize,
}

impl<'a> Worker<'a> {
    fn new(device: &'a Device, way: &'a Way, check: Check<'a>) -> Self {
        Worker { device, way, check, slots: Default::default(), next: 0 }
    }

    /// Takes chunks until there are none or one fails anywhere, and waits for the device then.
    fn run(mut self, chunks: &Mutex<Receiver<Chunk<'_>>>, stop: &AtomicBool, tell: &Sender<Told>) {
        let mut last = 0;
        while !stop.load(Ordering::Relaxed) {
            let Ok(chunk) = lock(chunks).recv() else { break };
            last = chunk.order;
            let told = self.send(&chunk).map(|()| chunk.len as u64).map_err(|e| (chunk.order, e));
            if told.is_err() {
                stop.store(true, Ordering::Relaxed);
            }
            // The receiver is gone only if its thread panicked.
            let _ = tell.send(told);
        }
        for slot in &mut self.slots {
            if let Some(Err(e)) = slot.busy.take().map(|value| self.device.0.wait(value)) {
                let _ = tell.send(Err((last, e)));
            }
        }
    }

    fn send(&mut self, chunk: &Chunk<'_>) -> Result<()> {
        if chunk.load.to.is_mapped() {
            return self.fill(chunk, &chunk.load.to, chunk.from);
        }
        let inner = &self.device.0;
        let at = self.next;
        self.next = (at + 1) % SLOTS;
        if let Some(value) = self.slots[at].busy.take() {
            inner.wait(value)?;
        }
        let (class, len) = (if self.way.window { Class::Params } else { Class::Staging }, self.way.slot_bytes as u64);
        let staging = match self.slots[at].staging.take() {
            Some(staging) => staging,
            None => self.device.buffer("staging", len, class)?,
        };
        self.fill(chunk, &staging, 0)?;
        let slot = &mut self.slots[at];
        let staging = &*slot.staging.insert(staging);
        let (to, len) = (&chunk.load.to, chunk.len as u64);
        let copies = inner.copies.as_ref().unwrap_or(&inner.work);
        let Some(repack) = &chunk.load.repack else {
            let mut rec = recorder(self.device, copies, slot.copy.take())?;
            rec.copy(staging, 0, to, chunk.from as u64, len);
            slot.busy = Some(submit(self.device, copies, rec, &mut slot.copy, None)?);
            return Ok(());
        };
        let mut copied = None;
        let from = if self.way.window {
            staging
        } else {
            let landing = match slot.landing.take() {
                Some(landing) => landing,
                None => self.device.buffer("landing", self.way.slot_bytes as u64, Class::Scratch)?,
            };
            let landing = &*slot.landing.insert(landing);
            let mut rec = recorder(self.device, copies, slot.copy.take())?;
            rec.copy(staging, 0, landing, 0, len);
            copied = Some(submit(self.device, copies, rec, &mut slot.copy, None)?);
            slot.busy = copied; // should the rest fail
            landing
        };
        let mut rec = recorder(self.device, &inner.work, slot.repack.take())?;
        if inner.copies.is_none() {
            rec.copy_barrier(); // both are in one queue, where no semaphore orders them
        }
        let rows = chunk.from / repack.row_bytes;
        let mut push =
            [from.address(), to.address() + (rows * repack.row_words * 4) as u64].map(u64::to_le_bytes).concat();
        push.extend(((chunk.len / repack.row_bytes) as u32).to_le_bytes());
        push.extend(&repack.rest);
        rec.dispatch(&repack.pipeline, &push, [REPACK_GROUPS, 1, 1]);
        [from, to].iter().for_each(|b| rec.keep(b));
        let after = copied.filter(|_| inner.copies.is_some());
        slot.busy = Some(submit(self.device, &inner.work, rec, &mut slot.repack, after)?);
        Ok(())
    }

    /// Checks the chunk's bytes piece by piece and writes them to `to` from `at` on.
    fn fill(&self, chunk: &Chunk<'_>, to: &Buffer, at: usize) -> Result<()> {
        let unit = chunk.load.unit.max(1);
        let piece = (PIECE / unit).max(1) * unit;
        for from in (0..chunk.len).step_by(piece) {
            let (start, len) = (chunk.from + from, piece.min(chunk.len - from));
            (self.check)(chunk.load.tag, start, len)?;
            to.write((at + from) as u64, &chunk.load.bytes[start..start + len]);
        }
        Ok(())
    }
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
