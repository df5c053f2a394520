//! Host bytes → device buffers: straight into mapped memory where host and device share it, else through a persistent
//! ring of staging slots. Nothing is allocated per upload, and a slot waits only for its own last copy.

use super::commands::{Recorder, Recording};
use super::device::Device;
use super::memory::{Buffer, Class};
use super::pipeline::Pipeline;
use crate::{Error, Result};
use rayon::prelude::*;

/// Slots of the ring: one fills while others are copied.
const SLOTS: usize = 4;
/// Bytes one thread copies at a time.
const PIECE: usize = 4 << 20;

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

/// Workgroups of a repacking dispatch, which walks over its rows.
const REPACK_GROUPS: u32 = 1024;

struct Slot {
    buffer: Buffer,
    landing: Option<Buffer>,
    busy: Option<(u64, Recording)>,
}

/// Copies host bytes to the device.
pub struct Uploader {
    device: Device,
    slots: Vec<Slot>,
    slot_bytes: usize,
    next: usize,
    repeats: Vec<(u64, Recording)>,
}

fn copy_parallel(to: &Buffer, offset: u64, bytes: &[u8]) {
    bytes.par_chunks(PIECE).enumerate().for_each(|(i, piece)| to.write(offset + (i * PIECE) as u64, piece));
}

impl Uploader {
    /// An uploader whose ring holds `ring_bytes`, taken on first use.
    ///
    /// # Errors
    /// None now; the ring is allocated when the first unmapped buffer comes.
    pub fn new(device: &Device, ring_bytes: u64) -> Result<Uploader> {
        let slot_bytes = (ring_bytes as usize / SLOTS).max(4096);
        Ok(Uploader { device: device.clone(), slots: Vec::new(), slot_bytes, next: 0, repeats: Vec::new() })
    }

    /// Writes `bytes` to `buffer` at `offset`.
    ///
    /// # Errors
    /// Memory that ran out for the ring, a lost device.
    pub fn write(&mut self, buffer: &Buffer, offset: u64, bytes: &[u8]) -> Result<()> {
        if buffer.is_mapped() {
            copy_parallel(buffer, offset, bytes);
            return Ok(());
        }
        for (i, part) in bytes.chunks(self.slot_bytes).enumerate() {
            let slot = self.filled_slot(part)?;
            let mut rec = self.device.recorder()?;
            let from = &self.slots[slot].buffer;
            rec.copy(from, 0, buffer, offset + (i * self.slot_bytes) as u64, part.len() as u64);
            self.send(slot, rec)?;
        }
        Ok(())
    }

    /// Writes whole rows to `buffer`, repacked on the device.
    ///
    /// # Errors
    /// Memory that ran out for the ring, a row wider than a slot of it, a lost device.
    pub fn write_repacked(&mut self, buffer: &Buffer, bytes: &[u8], repack: &Repack) -> Result<()> {
        let rows = self.slot_bytes / repack.row_bytes;
        if rows == 0 {
            let found = repack.row_bytes;
            return Err(Error::Request(format!("a row: expected at most {} bytes, found {found}", self.slot_bytes)));
        }
        for (i, part) in bytes.chunks(rows * repack.row_bytes).enumerate() {
            let slot = self.filled_slot(part)?;
            let landing = match self.slots[slot].landing.take() {
                Some(landing) => landing,
                None => self.device.buffer("landing", self.slot_bytes as u64, Class::Scratch)?,
            };
            let to = buffer.address() + (i * rows * repack.row_words * 4) as u64;
            let mut push = [landing.address().to_le_bytes(), to.to_le_bytes()].concat();
            push.extend(((part.len() / repack.row_bytes) as u32).to_le_bytes());
            push.extend(&repack.rest);
            let mut rec = self.device.recorder()?;
            rec.copy(&self.slots[slot].buffer, 0, &landing, 0, part.len() as u64);
            rec.copy_barrier();
            rec.dispatch(&repack.pipeline, &push, [REPACK_GROUPS, 1, 1]);
            [&landing, buffer].iter().for_each(|b| rec.keep(b));
            self.slots[slot].landing = Some(landing);
            self.send(slot, rec)?;
        }
        Ok(())
    }

    /// Repeats the `filled` bytes that a buffer starts with up to `len`, by copies on the device that double them.
    ///
    /// # Errors
    /// A lost device.
    pub fn repeat(&mut self, buffer: &Buffer, filled: u64, len: u64) -> Result<()> {
        let mut rec = self.device.recorder()?;
        let mut filled = filled;
        while filled < len && filled > 0 {
            let more = filled.min(len - filled);
            rec.copy(buffer, 0, buffer, filled, more);
            rec.copy_barrier();
            filled += more;
        }
        let recording = rec.finish()?;
        self.repeats.push((self.device.submit(&recording)?, recording));
        Ok(())
    }

    /// A slot that holds `part`, which is no longer than one.
    fn filled_slot(&mut self, part: &[u8]) -> Result<usize> {
        while self.slots.len() < SLOTS {
            let buffer = self.device.buffer("staging", self.slot_bytes as u64, Class::Staging)?;
            self.slots.push(Slot { buffer, landing: None, busy: None });
        }
        let slot = self.next;
        self.next = (self.next + 1) % SLOTS;
        if let Some((value, _)) = self.slots[slot].busy.take() {
            self.device.wait(value)?;
        }
        copy_parallel(&self.slots[slot].buffer, 0, part);
        Ok(slot)
    }

    fn send(&mut self, slot: usize, rec: Recorder) -> Result<()> {
        let recording = rec.finish()?;
        self.slots[slot].busy = Some((self.device.submit(&recording)?, recording));
        Ok(())
    }

    /// Waits for the copies still under way.
    ///
    /// # Errors
    /// A lost device.
    pub fn finish(mut self) -> Result<()> {
        for slot in &mut self.slots {
            if let Some((value, _)) = slot.busy.take() {
                self.device.wait(value)?;
            }
        }
        for (value, _) in &self.repeats {
            self.device.wait(*value)?;
        }
        Ok(())
    }
}
