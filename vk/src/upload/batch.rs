//! Bytes that go to the device together, the memory they wait in, and what the device does with them.

use super::load::{Load, Repack, UploadOptions};
use crate::commands::{Recorder, Recording};
use crate::device::Device;
use crate::lock::lock;
use crate::memory::{Buffer, Class};
use pumex_gguf::Result;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};

/// Workgroups of a repacking dispatch, which walks over its rows.
const REPACK_GROUPS: u32 = 1024;
/// Kernels read slots in words.
const WORD: u64 = 4;
/// Bytes that a thread takes at a time: to bring in the pages of fewer takes as long.
const PIECE: usize = 1 << 20;

/// Bytes of a load that go in one batch.
pub(super) struct ByteRun<'a> {
    pub(super) load: Arc<Load<'a>>,
    /// Where in the load.
    pub(super) from: usize,
    pub(super) len: usize,
    /// Where in its batch.
    pub(super) at: usize,
}

/// Memory of the host for a batch on its way.
pub(super) struct StagingSlot {
    device: Device,
    pub(super) buffer: Buffer,
    last: Mutex<Last>,
}

/// A slot's last submission: its recording, whose memory the next one takes, and what is reached when it is done.
struct Last {
    recording: Option<Recording>,
    value: Option<u64>,
}

impl StagingSlot {
    pub(super) fn new(device: &Device, way: &UploadOptions) -> Result<StagingSlot> {
        let buffer = device.buffer("staging", (way.batch_bytes as u64).next_multiple_of(WORD), Class::Staging)?;
        let recording = Some(device.recorder_bare(0)?.finish()?);
        Ok(StagingSlot { device: device.clone(), buffer, last: Mutex::new(Last { recording, value: None }) })
    }

    /// Waits until the device is done with it.
    pub(super) fn wait(&self) -> Result<()> {
        let value = lock(&self.last).value.take();
        value.map_or(Ok(()), |value| self.device.wait(value))
    }

    /// Submits what is to become of the runs that it holds.
    pub(super) fn submit(&self, runs: &[ByteRun<'_>]) -> Result<()> {
        let mut last = lock(&self.last);
        let former = last.recording.take();
        let mut rec = former.map_or_else(|| self.device.recorder_bare(0), Recording::again)?;
        for run in runs {
            match &run.load.repack {
                None => rec.copy(&self.buffer, run.at as u64, &run.load.to, run.from as u64, run.len as u64),
                Some(repack) => lay_out(&mut rec, &self.buffer, run, repack),
            }
        }
        let recording = last.recording.insert(rec.finish()?);
        last.value = Some(self.device.submit(recording)?);
        Ok(())
    }
}

impl Drop for StagingSlot {
    fn drop(&mut self) {
        let _ = self.wait(); // after a panic nobody else has
    }
}

/// Records the kernel that lays out a run of a batch at `from`.
fn lay_out(rec: &mut Recorder, from: &Buffer, run: &ByteRun<'_>, repack: &Repack) {
    let rows = run.from / repack.row_bytes;
    let to = run.load.to.address() + (rows * repack.row_words * 4) as u64;
    let mut push = [from.address() + run.at as u64, to].map(u64::to_le_bytes).concat();
    push.extend(((run.len / repack.row_bytes) as u32).to_le_bytes());
    push.extend(&repack.rest);
    rec.dispatch(&repack.pipeline, &push, [REPACK_GROUPS, 1, 1]);
    [from, &run.load.to].iter().for_each(|b| rec.keep(b));
}

/// Runs that are to go together.
pub(super) struct PlannedBatch<'b> {
    /// Which of all the first one is.
    pub(super) first: usize,
    pub(super) runs: Vec<ByteRun<'b>>,
}

/// Part of a run.
pub(super) struct RunSlice {
    /// Which run of its batch.
    pub(super) run: usize,
    /// Where in the run.
    pub(super) from: usize,
    pub(super) len: usize,
}

/// Runs that go together, and what is done of them.
pub(super) struct Batch<'b> {
    /// Where they wait for the device; none if the host writes to where they belong.
    pub(super) slot: Option<Arc<StagingSlot>>,
    pub(super) planned: PlannedBatch<'b>,
    /// What threads take one by one.
    pub(super) pieces: Vec<RunSlice>,
    /// The one that is to be filled next.
    pub(super) next: AtomicUsize,
    /// Pieces that are not filled yet.
    pub(super) left: AtomicUsize,
}

impl<'b> Batch<'b> {
    pub(super) fn new(slot: Option<Arc<StagingSlot>>, planned: PlannedBatch<'b>) -> Batch<'b> {
        let mut pieces = Vec::new();
        for (i, run) in planned.runs.iter().enumerate() {
            let unit = run.load.unit.max(1);
            let most = (PIECE / unit).max(1) * unit;
            let piece = |from| RunSlice { run: i, from, len: most.min(run.len - from) };
            pieces.extend((0..run.len).step_by(most).map(piece));
        }
        let left = AtomicUsize::new(pieces.len());
        Batch { slot, planned, pieces, next: AtomicUsize::new(0), left }
    }

    pub(super) fn len_bytes(&self) -> u64 {
        self.planned.runs.iter().map(|r| r.len as u64).sum()
    }
}
