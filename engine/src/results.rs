//! What a finished step gave: ids and logits in row order, and sums of squares.

use super::params::{OutputRow, ID_NAN};
use super::vulkan::{Flying, VulkanRunner};
use pumex_gguf::Result;
use pumex_step::{Nan, Output, Squares};
use pumex_vk as vk;
use pumex_vk::Class;

impl VulkanRunner {
    /// Reads what a finished step gave.
    pub(super) fn output_of(&mut self, flying: &Flying) -> Result<Output> {
        if flying.choice.waits {
            flying.outputs.iter().for_each(|output| self.session.lose_sampled(output.seq));
            return Ok(Output::default());
        }
        let ((ids, nan), shortlists) = (self.ids_of(flying), self.shortlists(flying));
        let mut output = Output { ids, nan, shortlists, ..Output::default() };
        if let (count @ 1.., Some(host)) = (flying.logits, &self.state.slots[flying.shape.slot].logits) {
            output.logits = pumex_gguf::error::try_filled_vec(0.0, count * self.plan().n_vocab, "logits of a step")?;
            host.read(0, bytemuck::cast_slice_mut(&mut output.logits));
        }
        Ok(output)
    }

    /// Reads the ids of a finished step, in row order, and which of them mean nothing.
    fn ids_of(&mut self, flying: &Flying) -> (Vec<u32>, Vec<Nan>) {
        let mut listed = vec![0u32; flying.outputs.len()];
        if !listed.is_empty() {
            self.state.slots[flying.shape.slot].ids.read(0, bytemuck::cast_slice_mut(&mut listed));
        }
        let mut nan = Vec::new();
        for (id, output) in listed.iter().zip(&flying.outputs) {
            let before = flying.spoilt.iter().find(|(seq, _)| *seq == output.seq).map(|(_, row)| *row);
            let spoilt = before.or((*id == ID_NAN).then_some(output.row as usize));
            let bad = spoilt.is_some();
            if output.last {
                // What the device goes on with is an id of the vocabulary in any case.
                self.latest[output.seq as usize] = if bad { 0 } else { *id };
            }
            if let Some(row) = spoilt {
                let output_rows = flying.outputs.iter().filter(|before| before.row < output.row);
                nan.push(Nan { output: output_rows.count(), row });
                self.spoil(output);
            }
        }
        nan.sort_unstable_by_key(|nan| nan.output);
        if flying.shape.logits > 0 && flying.outputs.len() > 1 {
            let mut ids: Vec<(u32, u32)> = flying.outputs.iter().map(|o| o.row).zip(listed).collect();
            ids.sort_unstable_by_key(|(row, _)| *row);
            listed = ids.into_iter().map(|(_, id)| id).collect();
        }
        (listed, nan)
    }

    /// No id was sampled for the sequence of an output row; steps in flight that go on with one have no results either.
    fn spoil(&mut self, output: &OutputRow) {
        self.session.lose_sampled(output.seq);
        for later in self.steps.iter_mut().filter(|step| step.after_sampled.contains(&output.seq)) {
            later.spoilt.push((output.seq, output.row as usize));
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
    pub(super) fn read_squares(&self) -> Result<Vec<Squares>> {
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
