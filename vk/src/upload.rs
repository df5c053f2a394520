//! Host bytes → device buffers: straight into mapped memory where host and device share it, else through slots in the host's
//! memory, which the device reads where they are.
//!
//! Handing over between threads and to the device each take as long as some hundred KiB take on their way, so both happen once for
//! a batch of several MiB. The thread that called plans batches; another one gives each a slot that the device is done with; all
//! others fill the batch that is next, piece by piece, and whoever fills the last piece of one submits it.
//!
//! Scales are checked to be finite on the way. Meanwhile the engine takes all other memory and builds the pipelines of usual
//! steps; `-v` says what took how long.

mod batch;
mod fill;
mod load;

pub use load::{Load, Repack, UploadOptions, UploadSource};

use super::device::Device;
use super::memory::Buffer;
use batch::{ByteRun, PlannedBatch, StagingSlot};
use fill::UploadThreads;
use pumex_gguf::{Error, Result};
use std::sync::Arc;

/// Slots that an upload is done with. To let go of them takes some milliseconds.
pub struct FinishedSlots {
    _slots: Vec<Arc<StagingSlot>>,
}

/// Batch of what is sent by itself.
const SMALL: usize = 1 << 20;
/// The alignment of runs in a batch, bytes.
const ALIGNMENT: usize = 256;

/// Sends all `loads` in order, and returns when they are there. `progress` gets the bytes sent, on this thread.
///
/// # Errors
/// The first that `source` says in order; one of `loads`, which stops all; memory that ran out for slots, a row wider than one,
/// a lost device.
pub fn upload<'a>(
    device: &Device,
    way: &UploadOptions,
    loads: impl Iterator<Item = Result<Load<'a>>>,
    source: &dyn UploadSource,
    progress: &mut dyn FnMut(u64),
) -> Result<FinishedSlots> {
    let shared = UploadThreads::new(device, way, source);
    std::thread::scope(|scope| {
        let _guard = shared.guard();
        for _ in 0..way.threads.max(1) {
            scope.spawn(|| shared.fill());
        }
        scope.spawn(|| shared.make_slots());
        scope.spawn(|| shared.serve());
        let mut plan = BatchPlan { shared: &shared, progress, runs: Vec::new(), used: 0, order: 0 };
        for load in loads {
            if let Err(e) = load.and_then(|load| plan.add(load)) {
                shared.record_failure((plan.order + plan.runs.len(), 0), e);
            }
            if shared.is_stopped() {
                break;
            }
        }
        plan.close();
        shared.end(plan.progress);
    });
    let slots = shared.finish()?;
    progress(shared.sent_bytes());
    Ok(FinishedSlots { _slots: slots })
}

/// The batch that is next.
struct BatchPlan<'s, 'a, 'b, 'p> {
    shared: &'s UploadThreads<'a, 'b>,
    progress: &'p mut dyn FnMut(u64),
    runs: Vec<ByteRun<'b>>,
    used: usize,
    /// Runs of the batches before.
    order: usize,
}

impl<'b> BatchPlan<'_, '_, 'b, '_> {
    /// Cuts a load into runs, and closes batches as they are full.
    fn add(&mut self, load: Load<'b>) -> Result<()> {
        let batch_bytes = self.shared.way.batch_bytes;
        let unit = load.repack.as_ref().map_or(load.unit, |r| r.row_bytes).max(1);
        if unit > batch_bytes {
            return Err(Error::Request(format!("a row: expected at most {batch_bytes} bytes, found {unit}")));
        }
        let load = Arc::new(load);
        if self.runs.first().is_some_and(|r| r.load.to.is_mapped() != load.to.is_mapped()) {
            self.close();
        }
        let mut from = 0;
        while from < load.bytes.len() {
            let room = batch_bytes.saturating_sub(self.used) / unit * unit;
            let len = room.min(load.bytes.len() - from);
            if len == 0 {
                self.close();
                continue;
            }
            self.runs.push(ByteRun { load: load.clone(), from, len, at: self.used });
            self.used = (self.used + len).next_multiple_of(ALIGNMENT);
            from += len;
        }
        Ok(())
    }

    /// Begins a new batch.
    fn close(&mut self) {
        self.used = 0;
        let runs = std::mem::take(&mut self.runs);
        if !runs.is_empty() {
            let first = self.order;
            self.order += runs.len();
            self.shared.plan(PlannedBatch { first, runs }, self.progress);
        }
    }
}

/// Writes `bytes` to the start of `buffer`, which nothing uses yet, and returns when they are there.
///
/// # Errors
/// Memory that ran out for staging, a lost device.
pub fn send(device: &Device, buffer: &Buffer, bytes: &[u8]) -> Result<()> {
    let slots = if buffer.is_mapped() { 0 } else { bytes.len().div_ceil(SMALL).min(2) };
    let way = UploadOptions { threads: 1, batch_bytes: bytes.len().clamp(1, SMALL), slots };
    let load = Load { to: buffer.clone(), bytes, unit: 1, repack: None, epoch: 0 };
    upload(device, &way, std::iter::once(Ok(load)), &(), &mut |_| ()).map(|_| ())
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
