//! How ids are chosen on the device, beyond the words of the requests: masks, which may come when the forward pass is under way,
//! and shortlists for the host.

use super::buffers::StepBuffers;
use super::request::{self, RowSampling, SamplingMemory};
use super::vulkan::{Flying, VulkanRunner};
use pumex_gguf::{Error, Result};
use pumex_lower::MAX_K;
use pumex_step::sample::{Allowed, Shortlist};
use pumex_step::{Row, Ticket};
use pumex_vk::{Buffer, Class};

/// A buffer of at least so many bytes; nothing in flight reads the one that was there.
fn room(device: &pumex_vk::Device, at: &mut Option<Buffer>, name: &str, bytes: u64, class: Class) -> Result<u64> {
    if bytes == 0 {
        return Ok(0);
    }
    if let Some(buffer) = at.as_ref().filter(|buffer| buffer.len_bytes() >= bytes) {
        return Ok(buffer.address());
    }
    let made = device.buffer(name, bytes.next_power_of_two(), class)?;
    Ok(at.insert(made).address())
}

fn write_mask(slot: &StepBuffers, at: u64, allowed: &Allowed, n_vocab: usize) {
    if let Some(masks) = &slot.masks {
        masks.write(at, bytemuck::cast_slice(&request::mask(allowed, n_vocab)));
    }
}

impl VulkanRunner {
    /// The words of a step's requests, with masks that are known written where they will be read.
    pub(super) fn requests(&mut self, listed: &[&Row], slot: usize) -> Result<(Vec<u32>, Vec<RowSampling>)> {
        let (n_vocab, at) = (self.plan().n_vocab, self.state.layout.requests_at());
        let (beside, bytes) = request::sampling_inputs(listed, n_vocab);
        let (device, slot) = (self.model.program.device.clone(), &mut self.state.slots[slot]);
        let beside_at = SamplingMemory {
            masks: room(&device, &mut slot.masks, "masks", bytes.masks, Class::Params)?,
            lists: room(&device, &mut slot.lists, "lists", bytes.lists, Class::Readback)?,
        };
        let words = request::pack(listed, &beside, beside_at, n_vocab, at)?;
        for (row, beside) in listed.iter().zip(&beside) {
            beside.mask.iter().for_each(|at| write_mask(slot, *at, row.allowed_ids(), n_vocab));
        }
        Ok((words, beside))
    }

    /// Submits the choice of the newest step's ids, which waits for that.
    pub(super) fn choose(&mut self, ticket: Ticket, allowed: &[Allowed]) -> Result<()> {
        let (n_vocab, device) = (self.plan().n_vocab, self.vk().clone());
        let newest = self.steps.newest(ticket).filter(|flying| flying.choice.waits);
        let Some(flying) = newest else {
            let what = format!("step {}: expected the newest, which is yet to be told which ids are allowed", ticket.0);
            return Err(Error::Request(what));
        };
        let outputs = &flying.outputs;
        if allowed.len() != outputs.len() {
            let (expected, found) = (outputs.len(), allowed.len());
            let what = format!("step {}: expected the allowed ids of {expected} output rows, found {found}", ticket.0);
            return Err(Error::Request(what));
        }
        let mut by_row: Vec<usize> = (0..outputs.len()).collect();
        by_row.sort_unstable_by_key(|i| outputs[*i].row);
        for (i, allowed) in by_row.into_iter().zip(allowed) {
            let told = flying.choice.beside[i].mask.filter(|_| *allowed != Allowed::Later);
            told.iter().for_each(|at| write_mask(&self.state.slots[flying.shape.slot], *at, allowed, n_vocab));
        }
        if let Some(choice) = &flying.step.choice {
            flying.value = device.submit(choice)?;
        }
        flying.choice.waits = false;
        Ok(())
    }

    /// What a finished step lists, in row order.
    pub(super) fn shortlists(&self, flying: &Flying) -> Vec<Shortlist> {
        let (slot, n_vocab) = (&self.state.slots[flying.shape.slot], self.plan().n_vocab);
        let Some(lists) = &slot.lists else { return Vec::new() };
        let mut rows: Vec<(u32, &RowSampling)> =
            flying.outputs.iter().map(|o| o.row).zip(&flying.choice.beside).collect();
        rows.sort_unstable_by_key(|(row, _)| *row);
        let listed = rows.iter().filter_map(|(_, beside)| beside.list.as_ref());
        listed
            .map(|(at, wanted)| {
                let mut pairs = vec![[0u32; 2]; MAX_K + 1 + wanted.ids.len()];
                lists.read(*at, bytemuck::cast_slice_mut(&mut pairs));
                Shortlist::from_pairs(&pairs, MAX_K, wanted, n_vocab)
            })
            .collect()
    }

    /// Reads the logits that the last finished step left in the arena.
    pub(super) fn read_last_logits(&self) -> Result<Vec<f32>> {
        let Some((at, outputs)) = &self.left else {
            return Err(Error::Request("logits of the last step: expected a finished step and none after it".into()));
        };
        let (device, n_vocab) = (self.vk(), self.plan().n_vocab);
        let host = device.buffer("logits.left", (4 * n_vocab * outputs.len().max(1)) as u64, Class::Readback)?;
        let mut recorder = device.recorder_untimed()?;
        recorder.copy(&self.state.arena, *at, &host, 0, host.len_bytes());
        recorder.host_barrier();
        let recording = recorder.finish()?;
        device.wait(device.submit(&recording)?)?;
        let mut by_row: Vec<usize> = (0..outputs.len()).collect();
        by_row.sort_unstable_by_key(|i| outputs[*i].row);
        let mut logits = vec![0f32; n_vocab * outputs.len()];
        for (i, row) in by_row.into_iter().zip(logits.chunks_exact_mut(n_vocab)) {
            host.read((4 * n_vocab * i) as u64, bytemuck::cast_slice_mut(row));
        }
        Ok(logits)
    }
}
