//! Threads that check chunks and write them into slots.

use super::{wait, Check, Chunk, Filled, Slot, Told, Way};
use crate::vk::device::{lock, Device};
use crate::vk::memory::{Buffer, Class};
use crate::{Error, Result};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::Mutex;

/// Slots of a thread: one fills while the other is copied.
const SLOTS: usize = 2;
/// Bytes checked and then copied: what is checked is still in the core's cache.
const PIECE: usize = 1 << 20;

/// A thread that fills slots.
pub(super) struct Filler<'a, 'b> {
    pub(super) device: &'a Device,
    pub(super) way: &'a Way,
    pub(super) check: Check<'a>,
    pub(super) chunks: &'a Mutex<Receiver<Chunk<'b>>>,
    pub(super) stop: &'a AtomicBool,
    pub(super) tell: Sender<Told>,
}

impl<'a, 'b> Filler<'a, 'b> {
    /// Takes chunks until there are none or one fails anywhere.
    pub(super) fn run(self, hand_over: &Sender<Filled<'a, 'b>>) {
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
        Ok(Slot { staging, landing: None, busy: Default::default(), back })
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
        wait(self.device, &mut slot.busy)?;
        Ok(slot)
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

/// What stops those who fill when nobody submits any more.
fn ended() -> Error {
    Error::Request("upload: the thread that submits has ended".into())
}
