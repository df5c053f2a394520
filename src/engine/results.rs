//! What a finished step gave: ids and logits in row order, and sums of squares.

use super::params::{OutputRow, ID_NAN};
use super::vulkan::{Flying, VulkanRunner};
use crate::step::{Output, Squares};
use crate::vk::{self, Class};
use crate::{Error, Result};

impl VulkanRunner {
    /// Reads what a finished step gave.
    pub(super) fn output_of(&mut self, flying: &Flying) -> Result<Output> {
        if flying.choice.waits {
            flying.outputs.iter().for_each(|output| self.session.lose_sampled(output.seq));
            return Ok(Output::default());
        }
        let (ids, shortlists) = (self.ids_of(flying)?, self.shortlists(flying));
        let mut output = Output { ids, shortlists, ..Output::default() };
        if let (count @ 1.., Some(host)) = (flying.logits, &self.state.slots[flying.shape.slot].logits) {
            output.logits = vec![0.0; count * self.plan().n_vocab];
            host.read(0, bytemuck::cast_slice_mut(&mut output.logits));
        }
        Ok(output)
    }

    /// Reads the ids of a finished step, in row order.
    fn ids_of(&mut self, flying: &Flying) -> Result<Vec<u32>> {
        let mut listed = vec![0u32; flying.outputs.len()];
        if !listed.is_empty() {
            self.state.slots[flying.shape.slot].ids.read(0, bytemuck::cast_slice_mut(&mut listed));
        }
        let mut nan = flying.spoilt;
        for (id, output) in listed.iter().zip(&flying.outputs) {
            let bad = *id == ID_NAN;
            if output.last {
                // What the device goes on with is an id of the vocabulary in any case.
                self.latest[output.seq as usize] = if bad { 0 } else { *id };
            }
            if bad {
                nan = Some(nan.map_or(output.row as usize, |row| row.min(output.row as usize)));
                self.spoil(output);
            }
        }
        if let Some(row) = nan {
            flying.outputs.iter().filter(|_| flying.spoilt.is_some()).for_each(|o| self.spoil(o));
            return Err(Error::nan_logits(row));
        }
        if flying.shape.logits > 0 && flying.outputs.len() > 1 {
            let mut ids: Vec<(u32, u32)> = flying.outputs.iter().map(|o| o.row).zip(listed).collect();
            ids.sort_unstable_by_key(|(row, _)| *row);
            return Ok(ids.into_iter().map(|(_, id)| id).collect());
        }
        Ok(listed)
    }

    /// No id was sampled for the sequence of an output row; steps in flight that go on with one have no results either.
    fn spoil(&mut self, output: &OutputRow) {
        self.session.lose_sampled(output.seq);
        for later in self.steps.iter_mut().filter(|step| step.after_sampled.contains(&output.seq)) {
            later.spoilt.get_or_insert(output.row as usize);
        }
    }

    /// Takes memory for the sums of squares, which is zero at first.
    pub(super) fn start_collecting(&mut self) -> Result<()> {
        let len: usize = self.plan().inputs().iter().map(|input| input.floats()).sum();
        let zeros = vec![0u8; 4 * len];
        let sums = self.vk().buffer("importance", zeros.len() as u64, Class::Scratch)?;
        vk::send(self.vk(), &sums, &zeros)?;
        self.state.importance = Some(sums);
        self.recordings.retain(|_| false);
        Ok(())
    }

    /// Reads the sums of squares.
    pub(super) fn collected(&self) -> Result<Vec<Squares>> {
        let Some(sums) = &self.state.importance else { return Ok(Vec::new()) };
        let device = self.vk();
        let host = device.buffer("importance", sums.len_bytes(), Class::Readback)?;
        let mut recorder = device.recorder()?;
        recorder.copy(sums, 0, &host, 0, sums.len_bytes());
        recorder.host_barrier();
        let recording = recorder.finish()?;
        device.wait(device.submit(&recording)?)?;
        let (mut out, mut at) = (Vec::new(), 0);
        for input in self.plan().inputs() {
            let mut values = vec![0f32; input.floats()];
            host.read(4 * at as u64, bytemuck::cast_slice_mut(&mut values));
            at += input.floats();
            out.push(self.plan().squares(&input, values));
        }
        Ok(out)
    }
}
