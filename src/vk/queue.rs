//! Submissions to the device's queue, with a timeline: each gets the next value, which is reached when it is done.

use super::device::{add, lock, Inner};
use super::software::longest_wait;
use crate::Result;
use ash::vk;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Mutex;

/// The queue and its timeline.
pub(super) struct Queue {
    queue: Mutex<vk::Queue>,
    /// Queue family, for what is recorded.
    pub family: u32,
    timeline: vk::Semaphore,
    next: AtomicU64,
}

impl Queue {
    /// The first queue of `family`.
    pub fn new(raw: &ash::Device, family: u32) -> std::result::Result<Queue, vk::Result> {
        let mut kind = vk::SemaphoreTypeCreateInfo::default().semaphore_type(vk::SemaphoreType::TIMELINE);
        let info = vk::SemaphoreCreateInfo::default().push_next(&mut kind);
        // SAFETY: plain creation on a live device, which was made with that queue.
        let (timeline, queue) = unsafe { (raw.create_semaphore(&info, None)?, raw.get_device_queue(family, 0)) };
        Ok(Queue { queue: Mutex::new(queue), family, timeline, next: AtomicU64::new(1) })
    }

    /// Destroys the semaphore.
    pub fn free(&self, raw: &ash::Device) {
        // SAFETY: the caller has waited for the device, which is about to go.
        unsafe { raw.destroy_semaphore(self.timeline, None) };
    }
}

impl Inner {
    /// Submits; all that was written before is visible to it.
    pub fn submit(&self, commands: &[vk::CommandBuffer]) -> Result<u64> {
        let queue = lock(&self.queue.queue);
        let value = self.queue.next.fetch_add(1, Ordering::Relaxed);
        let (values, signals) = ([value], [self.queue.timeline]);
        let mut timeline = vk::TimelineSemaphoreSubmitInfo::default().signal_semaphore_values(&values);
        let info =
            vk::SubmitInfo::default().command_buffers(commands).signal_semaphores(&signals).push_next(&mut timeline);
        // SAFETY: the queue is locked, and the caller keeps `commands` alive until `value` is reached.
        unsafe { self.raw.queue_submit(*queue, &[info], vk::Fence::null()) }
            .map_err(|e| self.failed("vkQueueSubmit", e))?;
        add(&self.totals.submits, 1);
        Ok(value)
    }

    /// Waits until a value is reached, and for nothing else.
    pub fn wait(&self, value: u64) -> Result<()> {
        let (semaphores, values) = ([self.queue.timeline], [value]);
        let info = vk::SemaphoreWaitInfo::default().semaphores(&semaphores).values(&values);
        let nanos = longest_wait(self.caps.kind).as_nanos() as u64;
        add(&self.totals.host_waits, 1);
        // SAFETY: the semaphore lives as long as the device.
        unsafe { self.raw.wait_semaphores(&info, nanos) }.map_err(|e| self.failed("vkWaitSemaphores", e))
    }

    /// Whether a value is reached.
    pub fn reached(&self, value: u64) -> Result<bool> {
        // SAFETY: the semaphore lives as long as the device.
        let now = unsafe { self.raw.get_semaphore_counter_value(self.queue.timeline) };
        Ok(now.map_err(|e| self.failed("vkGetSemaphoreCounterValue", e))? >= value)
    }
}
