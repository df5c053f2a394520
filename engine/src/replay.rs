//! When a megakernel gives up: the steps in flight are done again without it.
//!
//! Workgroups of a megakernel wait for each other. Nothing in Vulkan says that all of them run, and where one waits in vain,
//! all give up: what the step made is wrong, and so is what the next step in flight made from it. Parameters of both still
//! lie in their slots, and the entries of the cache that they wrote are those that they write again. So both are submitted
//! again, in order, as recordings without the megakernel, with the copies of blocks between them. Ids that were sampled
//! before are put back first; a step's random numbers are parameters, so that it samples as it would have.

use super::params::token_word;
use super::vulkan::{submit, VulkanRunner};
use pumex_gguf::Result;
use pumex_lower::Shape;
use pumex_step::Runner;
use pumex_vk as vk;

impl VulkanRunner {
    /// Runs all steps in flight again and every later one without the megakernel. Returns when the oldest is done.
    ///
    /// # Errors
    /// Memory that ran out, a lost device.
    pub(super) fn replay(&mut self) -> Result<()> {
        for flying in self.steps.iter() {
            self.vk().wait(flying.value)?;
        }
        tracing::warn!(
            "device {}: expected the workgroups of a dispatch to run at once, found them waiting; steps are done again, and \
             from now on every product has a dispatch of its own",
            self.device()
        );
        let mega = &mut self.state.megakernel;
        mega.kernel = None; // recordings in flight keep what they name
        mega.fault.write(0, &[0; 4]);
        self.recordings.retain(|shape| !shape.megakernel);
        let mut sampled = self.latest.clone();
        sampled.resize(self.state.layout.sampled_word_count(), 0);
        vk::send(self.vk(), &self.state.sampled, bytemuck::cast_slice(&sampled))?;
        let arrivals = &self.state.split_reduction.arrivals;
        vk::send(self.vk(), arrivals, &vec![0; arrivals.len_bytes() as usize])?;
        let shapes: Vec<Shape> =
            self.steps.iter().map(|flying| Shape { megakernel: false, parts: 0, ..flying.shape }).collect();
        let steps = shapes.iter().map(|shape| self.find_or_record(*shape)).collect::<Result<Vec<_>>>()?;
        let device = self.vk().clone();
        for (flying, (shape, step)) in self.steps.iter_mut().zip(shapes.into_iter().zip(steps)) {
            if let Some(rows) = flying.disguised.take() {
                self.state.slots[shape.slot].params.write_rows(&rows, self.session.blocks(), token_word);
            }
            flying.value = submit(&device, flying.copies.as_ref(), &step.recording)?;
            if let Some(choice) = step.choice.as_ref().filter(|_| !flying.choice.waits) {
                flying.value = device.submit(choice)?;
            }
            (flying.shape, flying.step) = (shape, step);
        }
        let oldest = self.steps.iter().next().map(|flying| flying.value);
        oldest.map_or(Ok(()), |value| device.wait(value))
    }
}
