//! Host bytes → device buffers: straight into mapped memory where host and device share it, else through slots.
//!
//! Every thread has slots of its own: it fills one while the device takes the other, and waits for nothing else. What is filled
//! another thread submits, all that is there at once: of slots in a window one for all of them, for a submission takes as long
//! for a dozen slots as for one. Copies go to the device's queue or, if it was opened so, to one that only copies; kernels that
//! repack follow them on the first.

mod fill;
mod submit;

use super::device::Device;
use super::memory::Buffer;
use super::pipeline::Pipeline;
use super::queue::Value;
use crate::{Error, Result};
use fill::Filler;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use submit::Sends;

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

/// Slot of what is sent by itself.
const SMALL: usize = 1 << 20;
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
        let threads = way.threads.max(1);
        // Where copies take the device's time, nobody's slot waits for another's.
        let sends = (0..if way.window { 1 } else { threads }).map(|_| {
            let (hand_over, filled) = mpsc::channel();
            let sends = Sends { device, stop: &stop, tell: tell.clone() };
            scope.spawn(move || sends.run(&filled));
            hand_over
        });
        let sends: Vec<_> = sends.collect();
        for i in 0..threads {
            let filler = Filler { device, way, check, chunks: &chunks, stop: &stop, tell: tell.clone() };
            let hand_over = sends[i % sends.len()].clone();
            scope.spawn(move || filler.run(&hand_over));
        }
        drop((sends, tell));
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
    let way = Way { threads: 1, slot_bytes: bytes.len().clamp(1, SMALL), window: false };
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

/// What is reached when a submission's copies and its kernels are done. These wait for those, but only of two values waited for
/// can the validation layer tell.
type Busy<'a> = [Option<Value<'a>>; 2];

/// Waits for both; a value that was waited for is gone.
fn wait(device: &Device, busy: &mut Busy<'_>) -> Result<()> {
    busy.iter_mut().filter_map(Option::take).try_for_each(|value| device.0.wait(value))
}

/// Memory for a chunk on its way.
struct Slot<'a> {
    /// What the host writes.
    staging: Buffer,
    /// Where the device holds what a kernel is to lay out; what the host writes, if that is a window.
    landing: Option<Buffer>,
    /// Reached when the device is done with both.
    busy: Busy<'a>,
    /// Where it goes once it is submitted.
    back: Sender<Slot<'a>>,
}

/// A chunk, and the slot that holds it.
struct Filled<'a, 'b> {
    chunk: Chunk<'b>,
    slot: Slot<'a>,
}
