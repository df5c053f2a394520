//! Host bytes → device buffers: straight into mapped memory where host and device share it, else through a persistent
//! ring of staging slots. Nothing is allocated per upload, and a slot waits only for its own last copy.

use super::commands::Recording;
use super::device::Device;
use super::memory::{Buffer, Class};
use crate::Result;
use rayon::prelude::*;

/// Slots of the ring: one fills while others are copied.
const SLOTS: usize = 4;
/// Bytes one thread copies at a time.
const PIECE: usize = 4 << 20;

struct Slot {
    buffer: Buffer,
    busy: Option<(u64, Recording)>,
}

/// Copies host bytes to the device.
pub struct Uploader {
    device: Device,
    slots: Vec<Slot>,
    slot_bytes: usize,
    next: usize,
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
        Ok(Uploader { device: device.clone(), slots: Vec::new(), slot_bytes, next: 0 })
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
        while self.slots.len() < SLOTS {
            let staging = self.device.buffer("staging", self.slot_bytes as u64, Class::Staging)?;
            self.slots.push(Slot { buffer: staging, busy: None });
        }
        for (i, part) in bytes.chunks(self.slot_bytes).enumerate() {
            let slot = &mut self.slots[self.next];
            self.next = (self.next + 1) % SLOTS;
            if let Some((value, _)) = slot.busy.take() {
                self.device.wait(value)?;
            }
            copy_parallel(&slot.buffer, 0, part);
            let mut rec = self.device.recorder()?;
            rec.copy(&slot.buffer, 0, buffer, offset + (i * self.slot_bytes) as u64, part.len() as u64);
            let recording = rec.finish()?;
            slot.busy = Some((self.device.submit(&recording)?, recording));
        }
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
        Ok(())
    }
}
