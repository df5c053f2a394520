//! Submissions to the device's queue, with a timeline: each gets the next value, which is reached when it is done.
//!
//! Work that does not end within the time it is given may go on for ever, and use any memory that it names. From then on the
//! queue takes nothing more, and [`Queue::may_free`] says that what was handed to the device has to stay where it is.

use super::lock::lock;
use ash::vk;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Mutex;
use std::time::Duration;

/// The queue and its timeline.
pub(super) struct Queue {
    queue: Mutex<vk::Queue>,
    /// Queue family, for what is recorded.
    pub family: u32,
    timeline: vk::Semaphore,
    next: AtomicU64,
    /// Something was waited for in vain.
    silent: AtomicBool,
}

impl Queue {
    /// The first queue of `family`.
    pub fn new(raw: &ash::Device, family: u32) -> std::result::Result<Queue, vk::Result> {
        let mut kind = vk::SemaphoreTypeCreateInfo::default().semaphore_type(vk::SemaphoreType::TIMELINE);
        let info = vk::SemaphoreCreateInfo::default().push_next(&mut kind);
        // SAFETY: plain creation on a live device, which was made with that queue.
        let (timeline, queue) = unsafe { (raw.create_semaphore(&info, None)?, raw.get_device_queue(family, 0)) };
        let (next, silent) = (AtomicU64::new(1), AtomicBool::new(false));
        Ok(Queue { queue: Mutex::new(queue), family, timeline, next, silent })
    }

    /// Destroys the semaphore.
    pub fn free(&self, raw: &ash::Device) {
        // SAFETY: the caller has waited for the device, which is about to go.
        unsafe { raw.destroy_semaphore(self.timeline, None) };
    }

    /// Whether what the device was handed, and is not known to be done with, may be freed. Not so once it was waited for in
    /// vain; of a device that the driver calls lost, it may.
    pub fn may_free(&self) -> bool {
        !self.silent.load(Ordering::Acquire)
    }

    /// Submits; all that was written before is visible to it.
    pub fn submit(&self, raw: &ash::Device, commands: &[vk::CommandBuffer]) -> Result<u64, vk::Result> {
        let queue = lock(&self.queue);
        let value = self.next.load(Ordering::Relaxed);
        let (values, signals) = ([value], [self.timeline]);
        let mut timeline = vk::TimelineSemaphoreSubmitInfo::default().signal_semaphore_values(&values);
        let info =
            vk::SubmitInfo::default().command_buffers(commands).signal_semaphores(&signals).push_next(&mut timeline);
        // SAFETY: the queue is locked, and the caller keeps `commands` alive until `value` is reached.
        unsafe { raw.queue_submit(*queue, &[info], vk::Fence::null()) }?;
        self.next.store(value + 1, Ordering::Relaxed); // under the lock; a value that is never signalled is given to nobody
        Ok(value)
    }

    /// Waits until a value is reached, and for nothing else; nothing can be asked of the device after `most`.
    pub fn wait(&self, raw: &ash::Device, value: u64, most: Duration) -> Result<(), vk::Result> {
        let (semaphores, values) = ([self.timeline], [value]);
        let info = vk::SemaphoreWaitInfo::default().semaphores(&semaphores).values(&values);
        let nanos = u64::try_from(most.as_nanos()).unwrap_or(u64::MAX);
        // SAFETY: the semaphore lives as long as the device.
        let waited = unsafe { raw.wait_semaphores(&info, nanos) };
        if waited == Err(vk::Result::TIMEOUT) {
            self.silent.store(true, Ordering::Release);
        }
        waited
    }

    /// Whether a value is reached.
    pub fn is_reached(&self, raw: &ash::Device, value: u64) -> Result<bool, vk::Result> {
        // SAFETY: the semaphore lives as long as the device.
        unsafe { raw.get_semaphore_counter_value(self.timeline) }.map(|now| now >= value)
    }
}
