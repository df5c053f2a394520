//! What a session on a device keeps of a sequence, written to and read from anywhere: blocks go through a buffer of the host's, a
//! few MiB at a time.

use super::buffers::block_bytes;
use super::vulkan::VulkanRunner;
use crate::session::{StateHeader, KV_BLOCK};
use pumex_gguf::{Error, Result};
use pumex_step::Runner;
use pumex_vk::{Buffer, Class};
use std::io::{Read, Write};

/// Bytes that are copied at a time.
const STAGE: u64 = 8 << 20;

/// A part of a cache: buffer, offset and bytes, [`STAGE`] at most.
type CacheSpan = (Buffer, u64, u64);

impl VulkanRunner {
    pub(super) fn state_layout(&self) -> String {
        let (k, v) = self.cache_types();
        format!("Vulkan, blocks of {KV_BLOCK}, K {}, V {}, {:?}", k.name(), v.name(), self.plan().layers)
    }

    /// All that a sequence keeps, or what it does not share with those that go on from it: layer by layer, K before V, block by block.
    fn pieces(&self, seq: u32, beside: bool) -> Vec<CacheSpan> {
        let (program, mut pieces) = (&self.model.program, Vec::new());
        for (i, ((k, v), layer)) in self.state.caches.iter().zip(&program.plan.layers).enumerate() {
            let shared = |store: &usize| beside && self.session.blocks().is_shared(*store);
            let Some(store) = program.stores.of_layer(i).filter(|store| !shared(store)) else { continue };
            let blocks = self.session.blocks().saved_blocks(store, seq);
            for (cache, len) in [k, v].into_iter().zip(block_bytes(layer, program.cache_types)) {
                for block in blocks.iter().filter(|_| len > 0) {
                    let cut = (0..len).step_by(STAGE as usize);
                    pieces.extend(cut.map(|at| (cache.clone(), u64::from(*block) * len + at, STAGE.min(len - at))));
                }
            }
        }
        pieces
    }

    /// How many pieces, from the first on, fit the stage together, and their bytes.
    fn batch(pieces: &[CacheSpan]) -> (usize, u64) {
        let (mut count, mut bytes) = (0, 0);
        while let Some((.., len)) = pieces.get(count).filter(|(.., len)| bytes + len <= STAGE) {
            (count, bytes) = (count + 1, bytes + len);
        }
        (count, bytes)
    }

    fn idle(&self) -> Result<()> {
        match self.steps.iter().count() {
            0 => Ok(()),
            n => Err(Error::Request(format!(
                "steps in flight: expected none while a sequence is saved or restored, found {n}"
            ))),
        }
    }

    /// Copies pieces to the stage, or from it.
    fn copy(&self, stage: &Buffer, pieces: &[CacheSpan], to_device: bool) -> Result<()> {
        let mut recorder = self.vk().recorder_untimed()?;
        recorder.copy_barrier();
        let mut at = 0;
        for (cache, offset, len) in pieces {
            match to_device {
                true => recorder.copy(stage, at, cache, *offset, *len),
                false => recorder.copy(cache, *offset, stage, at, *len),
            }
            at += len;
        }
        recorder.copy_barrier();
        recorder.host_barrier();
        let recording = recorder.finish()?;
        self.vk().wait(self.vk().submit(&recording)?)
    }

    pub(super) fn save_kept(&mut self, seq: u32, beside: bool, to: &mut dyn Write) -> Result<()> {
        self.idle()?;
        let written =
            |result: std::io::Result<()>| result.map_err(|e| Error::Request(format!("saving a sequence: {e}")));
        written(self.session.blocks().state_header(seq).write(to))?;
        let pieces = self.pieces(seq, beside);
        let stage = self.vk().buffer("saved", STAGE, Class::Readback)?;
        let (mut rest, mut bytes) = (&pieces[..], vec![0; STAGE as usize]);
        while !rest.is_empty() {
            let (count, len) = Self::batch(rest);
            self.copy(&stage, &rest[..count], false)?;
            let bytes = &mut bytes[..len as usize];
            stage.read(0, bytes);
            written(to.write_all(bytes))?;
            rest = &rest[count..];
        }
        Ok(())
    }

    pub(super) fn restore_kept(&mut self, (beside, seq): (Option<u32>, u32), from: &mut dyn Read) -> Result<()> {
        self.idle()?;
        self.forget(seq, 0);
        let read = |e: std::io::Error| Error::Request(format!("restoring a sequence: {e}"));
        let kept = StateHeader::read(self.session.blocks().stores(), from).map_err(read)?;
        match beside {
            Some(beside) => self.session.adopt_beside(beside, seq, &kept)?,
            None => self.session.adopt(seq, &kept)?,
        }
        let restored = self.fill(self.pieces(seq, beside.is_some()), from, &read);
        if restored.is_err() {
            self.forget(seq, 0);
        }
        restored
    }

    fn fill(&self, pieces: Vec<CacheSpan>, from: &mut dyn Read, read: &dyn Fn(std::io::Error) -> Error) -> Result<()> {
        let stage = self.vk().buffer("restored", STAGE, Class::Staging)?;
        let (mut rest, mut bytes) = (&pieces[..], vec![0; STAGE as usize]);
        while !rest.is_empty() {
            let (count, len) = Self::batch(rest);
            let bytes = &mut bytes[..len as usize];
            from.read_exact(bytes).map_err(read)?;
            stage.write(0, bytes);
            self.copy(&stage, &rest[..count], true)?;
            rest = &rest[count..];
        }
        Ok(())
    }
}
