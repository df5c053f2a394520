//! A line of submissions with its own timeline: each gets the next value, which is reached when it is done. A device has
//! one for its work and, where it can copy beside that, one for copies.

use super::device::{add, lock, Inner};
use crate::Result;
use ash::vk;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Longest wait for one value; software devices take seconds for a large step.
const WAIT_NS: u64 = 120_000_000_000;

/// Where copies to the device are submitted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Copies {
    /// To a queue that only copies, where the device has one; else among the other work. Not the default as long as no
    /// measurement says that it is faster.
    Own,
    /// Among the other work.
    #[default]
    Among,
    /// To the compute queue, but with their own timeline: what a queue of their own takes, on devices that have none.
    Apart,
}

/// One line of submissions.
pub(super) struct Line {
    /// Two lines may share a queue.
    queue: Arc<Mutex<vk::Queue>>,
    /// Queue family, for what is recorded.
    pub family: u32,
    timeline: vk::Semaphore,
    next: AtomicU64,
}

/// A value of a line's timeline.
#[derive(Clone, Copy)]
pub(super) struct Value<'a> {
    pub line: &'a Line,
    pub value: u64,
}

impl Line {
    /// A line to `queue`, of `family`.
    pub fn new(raw: &ash::Device, queue: Arc<Mutex<vk::Queue>>, family: u32) -> std::result::Result<Line, vk::Result> {
        let mut kind = vk::SemaphoreTypeCreateInfo::default().semaphore_type(vk::SemaphoreType::TIMELINE);
        let info = vk::SemaphoreCreateInfo::default().push_next(&mut kind);
        // SAFETY: plain creation on a live device.
        let timeline = unsafe { raw.create_semaphore(&info, None) }?;
        Ok(Line { queue, family, timeline, next: AtomicU64::new(1) })
    }

    /// The queue, for another line.
    pub fn queue(&self) -> Arc<Mutex<vk::Queue>> {
        self.queue.clone()
    }

    /// The value of the last submission.
    pub fn last(&self) -> Value<'_> {
        Value { line: self, value: self.next.load(Ordering::Relaxed) - 1 }
    }

    /// Destroys the semaphore.
    pub fn free(&self, raw: &ash::Device) {
        // SAFETY: the caller has waited for the device, which is about to go.
        unsafe { raw.destroy_semaphore(self.timeline, None) };
    }
}

impl Inner {
    /// Submits to `line`, after `after` is reached; all that was written before is visible then.
    pub fn submit(&self, line: &Line, commands: &[vk::CommandBuffer], after: Option<Value<'_>>) -> Result<u64> {
        let queue = lock(&line.queue);
        let value = line.next.fetch_add(1, Ordering::Relaxed);
        let (values, signals) = ([value], [line.timeline]);
        let (waits, wait_values): (Vec<_>, Vec<_>) = after.iter().map(|v| (v.line.timeline, v.value)).unzip();
        let stages = vec![vk::PipelineStageFlags::ALL_COMMANDS; waits.len()];
        let mut timeline = vk::TimelineSemaphoreSubmitInfo::default()
            .signal_semaphore_values(&values)
            .wait_semaphore_values(&wait_values);
        let info = vk::SubmitInfo::default()
            .command_buffers(commands)
            .wait_semaphores(&waits)
            .wait_dst_stage_mask(&stages)
            .signal_semaphores(&signals)
            .push_next(&mut timeline);
        // SAFETY: the queue is locked, and the caller keeps `commands` alive until `value` is reached.
        unsafe { self.raw.queue_submit(*queue, &[info], vk::Fence::null()) }
            .map_err(|e| self.failed("vkQueueSubmit", e))?;
        add(&self.totals.submits, 1);
        Ok(value)
    }

    /// Waits until a value is reached, and for nothing else.
    pub fn wait(&self, value: Value<'_>) -> Result<()> {
        let (semaphores, values) = ([value.line.timeline], [value.value]);
        let info = vk::SemaphoreWaitInfo::default().semaphores(&semaphores).values(&values);
        add(&self.totals.host_waits, 1);
        // SAFETY: the semaphore lives as long as the device.
        unsafe { self.raw.wait_semaphores(&info, WAIT_NS) }.map_err(|e| self.failed("vkWaitSemaphores", e))
    }

    /// Whether a value is reached.
    pub fn reached(&self, value: Value<'_>) -> Result<bool> {
        // SAFETY: the semaphore lives as long as the device.
        let now = unsafe { self.raw.get_semaphore_counter_value(value.line.timeline) };
        Ok(now.map_err(|e| self.failed("vkGetSemaphoreCounterValue", e))? >= value.value)
    }
}
