//! Recordings: dispatches, copies and barriers, recorded once and submitted as often as wanted.

use super::caps::Caps;
use super::counters::add;
use super::device::{Device, Inner};
use super::fault::Submission;
use super::memory::Buffer;
use super::pipeline::Pipeline;
use ash::vk;
use pumex_gguf::{Error, Result};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Instant;

/// Pool, commands and start and end stamps of a recording.
struct RawRecording {
    device: Arc<Inner>,
    pool: vk::CommandPool,
    commands: vk::CommandBuffer,
    /// None where nobody asks for the time.
    stamps: vk::QueryPool,
    pipelines: Vec<Pipeline>,
    buffers: Vec<Buffer>,
    dispatches: u64,
    barriers: u64,
    push_bytes: u64,
    /// Bytes of the buffers that it keeps.
    bytes: u64,
    extra_stamps: u32,
    begun: Instant,
    /// What is reached when the last submission is done; 0 before the first.
    last: AtomicU64,
    /// The first dispatch that the device does not take.
    refused: Option<Error>,
}

impl RawRecording {
    /// What is told of it should the device stop.
    fn describe_submission(&self, value: u64) -> Submission {
        let (first, last) = (self.pipelines.first(), self.pipelines.last());
        let kernels = first.zip(last).map(|(first, last)| (first.to_shared_name(), last.to_shared_name()));
        Submission { value, dispatches: self.dispatches, kernels, bytes: self.bytes, at: Instant::now() }
    }
}

impl Drop for RawRecording {
    fn drop(&mut self) {
        if !self.device.wait_until(self.last.load(Ordering::Relaxed)) {
            return;
        }
        // SAFETY: the last submission is done.
        unsafe {
            self.device.raw.destroy_command_pool(self.pool, None);
            self.device.raw.destroy_query_pool(self.stamps, None);
        }
    }
}

/// A recording being made.
pub struct Recorder(RawRecording);

/// A finished recording, submitted with [`Device::submit`].
pub struct Recording(RawRecording);

/// Fails if a dispatch of a kernel is over a limit: `push` bytes of push constants given and taken, `grid` workgroups.
///
/// # Errors
/// The kernel, with expected and found.
fn takes(caps: &Caps, kernel: &str, push: (usize, u32), grid: [u32; 3]) -> Result<()> {
    let over = |what: String| Err(Error::Device(format!("{}: kernel {kernel}: {what}", caps.name)));
    if push.0 > push.1 as usize {
        return over(format!("expected at most {} bytes of push constants, found {}", push.1, push.0));
    }
    if grid.iter().zip(caps.max_groups).any(|(n, most)| *n > most) {
        return over(format!("expected a grid of at most {:?} workgroups, found {grid:?}", caps.max_groups));
    }
    Ok(())
}

fn memory_barrier(src: vk::AccessFlags, dst: vk::AccessFlags) -> [vk::MemoryBarrier<'static>; 1] {
    [vk::MemoryBarrier::default().src_access_mask(src).dst_access_mask(dst)]
}

const DEVICE_STAGES: vk::PipelineStageFlags = vk::PipelineStageFlags::from_raw(
    vk::PipelineStageFlags::COMPUTE_SHADER.as_raw() | vk::PipelineStageFlags::TRANSFER.as_raw(),
);

impl Device {
    /// Starts a recording. It begins with a barrier, so it is ordered after everything submitted before it.
    ///
    /// # Errors
    /// Memory that ran out.
    pub fn recorder(&self) -> Result<Recorder> {
        self.recorder_with_stamps(0)
    }

    /// Starts a recording with room for `extra` time stamps.
    ///
    /// # Errors
    /// Memory that ran out.
    pub fn recorder_with_stamps(&self, extra: u32) -> Result<Recorder> {
        let mut recorder = self.recorder_bare(2 + extra)?;
        recorder.copy_barrier();
        Ok(recorder)
    }

    /// Starts a recording with no time stamps at all: taking them costs a step some microseconds.
    ///
    /// # Errors
    /// Memory that ran out.
    pub fn recorder_untimed(&self) -> Result<Recorder> {
        let mut recorder = self.recorder_bare(0)?;
        recorder.copy_barrier();
        Ok(recorder)
    }

    /// A recording with room for `stamps` time stamps, ordered after nothing.
    pub(super) fn recorder_bare(&self, stamps: u32) -> Result<Recorder> {
        let inner = &self.0;
        inner.usable()?;
        let begun = Instant::now();
        // SAFETY: plain creation on a live device.
        let raw = unsafe {
            let info = vk::CommandPoolCreateInfo::default().queue_family_index(inner.queue.family);
            let pool =
                inner.raw.create_command_pool(&info, None).map_err(|e| inner.call_error("vkCreateCommandPool", e))?;
            let info = vk::CommandBufferAllocateInfo::default().command_pool(pool).command_buffer_count(1);
            let commands = inner
                .raw
                .allocate_command_buffers(&info)
                .map_err(|e| inner.call_error("vkAllocateCommandBuffers", e))?[0];
            let mut raw = RawRecording {
                device: inner.clone(),
                pool,
                commands,
                stamps: vk::QueryPool::null(),
                pipelines: Vec::new(),
                buffers: Vec::new(),
                dispatches: 0,
                barriers: 0,
                push_bytes: 0,
                bytes: 0,
                extra_stamps: 0,
                begun,
                last: AtomicU64::new(0),
                refused: None,
            };
            if stamps > 0 {
                let info = vk::QueryPoolCreateInfo::default().query_type(vk::QueryType::TIMESTAMP).query_count(stamps);
                let made = inner.raw.create_query_pool(&info, None);
                raw.stamps = made.map_err(|e| inner.call_error("vkCreateQueryPool", e))?;
            }
            raw
        };
        let recorder = Recorder(raw);
        recorder.begin()?;
        if stamps > 0 {
            // SAFETY: the commands are being recorded, and the pool was just made.
            unsafe {
                let (raw, pool) = (&recorder.0, recorder.0.stamps);
                inner.raw.cmd_reset_query_pool(raw.commands, pool, 0, stamps);
                inner.raw.cmd_write_timestamp(raw.commands, vk::PipelineStageFlags::BOTTOM_OF_PIPE, pool, 0);
            }
        }
        Ok(recorder)
    }

    /// Submits a recording; the value returned is reached when it is done. It must be done before it is submitted again.
    ///
    /// # Errors
    /// A lost device.
    pub fn submit(&self, recording: &Recording) -> Result<u64> {
        let value = self.0.submit(&[recording.0.commands])?;
        recording.0.last.store(value, Ordering::Relaxed);
        self.0.log.note(recording.0.describe_submission(value));
        add(&self.0.totals.dispatches, recording.0.dispatches);
        add(&self.0.totals.barriers, recording.0.barriers);
        add(&self.0.totals.push_bytes, recording.0.push_bytes);
        Ok(value)
    }

    /// The extra stamps of a recording's last finished run, microseconds after its start.
    pub fn stamps_us(&self, recording: &Recording) -> Option<Vec<f64>> {
        if recording.0.stamps == vk::QueryPool::null() {
            return None;
        }
        let mut stamps = vec![0u64; 2 + recording.0.extra_stamps as usize];
        let flags = vk::QueryResultFlags::TYPE_64;
        // SAFETY: as many stamps as were written; not ready is an answer, not a wait.
        unsafe { self.0.raw.get_query_pool_results(recording.0.stamps, 0, &mut stamps, flags) }.ok()?;
        let us = |s: &u64| s.saturating_sub(stamps[0]) as f64 * f64::from(self.0.caps.timestamp_period_ns) / 1e3;
        Some(stamps[2..].iter().map(us).collect())
    }

    /// Time of a recording's last finished run, microseconds.
    pub fn gpu_us(&self, recording: &Recording) -> Option<f64> {
        if recording.0.stamps == vk::QueryPool::null() {
            return None;
        }
        let mut stamps = [0u64; 2];
        let flags = vk::QueryResultFlags::TYPE_64;
        // SAFETY: the pool has two stamps; not ready is an answer, not a wait.
        unsafe { self.0.raw.get_query_pool_results(recording.0.stamps, 0, &mut stamps, flags) }.ok()?;
        Some(stamps[1].saturating_sub(stamps[0]) as f64 * f64::from(self.0.caps.timestamp_period_ns) / 1e3)
    }
}

impl Recorder {
    fn begin(&self) -> Result<()> {
        let (raw, info) = (&self.0, vk::CommandBufferBeginInfo::default());
        // SAFETY: the commands are new or their pool was reset, so they are not being recorded.
        unsafe { raw.device.raw.begin_command_buffer(raw.commands, &info) }
            .map_err(|e| raw.device.call_error("vkBeginCommandBuffer", e))
    }

    /// Runs a pipeline over `grid` workgroups. If those are more than the device takes, or the push constants more than the
    /// pipeline does, nothing is recorded, and [`Recorder::finish`] says so.
    pub fn dispatch(&mut self, pipeline: &Pipeline, push: &[u8], grid: [u32; 3]) {
        if let Err(e) = takes(&self.0.device.caps, pipeline.name(), (push.len(), pipeline.push_bytes()), grid) {
            self.0.refused.get_or_insert(e);
            return;
        }
        let (raw, layout) = pipeline.raw();
        let (d, c) = (&self.0.device.raw, self.0.commands);
        // SAFETY: the commands are being recorded; the recording keeps the pipeline, its owner the buffers.
        unsafe {
            d.cmd_bind_pipeline(c, vk::PipelineBindPoint::COMPUTE, raw);
            d.cmd_push_constants(c, layout, vk::ShaderStageFlags::COMPUTE, 0, push);
            d.cmd_dispatch(c, grid[0], grid[1], grid[2]);
        }
        self.0.pipelines.push(pipeline.clone());
        self.0.dispatches += 1;
        self.0.push_bytes += push.len() as u64;
    }

    /// Dispatches so far.
    pub fn dispatches(&self) -> u64 {
        self.0.dispatches
    }

    fn pipeline_barrier(&mut self, to: vk::PipelineStageFlags, barriers: &[vk::MemoryBarrier<'_>]) {
        // SAFETY: the commands are being recorded.
        unsafe {
            let flags = vk::DependencyFlags::empty();
            self.0.device.raw.cmd_pipeline_barrier(self.0.commands, DEVICE_STAGES, to, flags, barriers, &[], &[]);
        }
        self.0.barriers += 1;
    }

    /// Barriers so far.
    pub fn barriers(&self) -> u64 {
        self.0.barriers
    }

    /// Orders the dispatches recorded before with those that follow.
    pub fn barrier(&mut self) {
        let (read, write) = (vk::AccessFlags::SHADER_READ, vk::AccessFlags::SHADER_WRITE);
        let barriers = memory_barrier(write, read | write);
        // SAFETY: the commands are being recorded.
        unsafe {
            let (stage, flags) = (vk::PipelineStageFlags::COMPUTE_SHADER, vk::DependencyFlags::empty());
            self.0.device.raw.cmd_pipeline_barrier(self.0.commands, stage, stage, flags, &barriers, &[], &[]);
        }
        self.0.barriers += 1;
    }

    /// Orders all that was recorded before, copies too, with all that follows.
    pub fn copy_barrier(&mut self) {
        let read = vk::AccessFlags::SHADER_READ | vk::AccessFlags::TRANSFER_READ;
        let write = vk::AccessFlags::SHADER_WRITE | vk::AccessFlags::TRANSFER_WRITE;
        self.pipeline_barrier(DEVICE_STAGES, &memory_barrier(write, read | write));
    }

    /// Makes results visible to the host, once the submission's value is reached.
    pub fn host_barrier(&mut self) {
        let write = vk::AccessFlags::SHADER_WRITE | vk::AccessFlags::TRANSFER_WRITE;
        self.pipeline_barrier(vk::PipelineStageFlags::HOST, &memory_barrier(write, vk::AccessFlags::HOST_READ));
    }

    /// Copies `len` bytes between buffers.
    pub fn copy(&mut self, src: &Buffer, src_offset: u64, dst: &Buffer, dst_offset: u64, len: u64) {
        let ((from, from_start), (to, to_start)) = (src.raw(), dst.raw());
        let (src_offset, dst_offset) = (from_start + src_offset, to_start + dst_offset);
        let region = [vk::BufferCopy { src_offset, dst_offset, size: len }];
        // SAFETY: the commands are being recorded, and the recording keeps both buffers.
        unsafe { self.0.device.raw.cmd_copy_buffer(self.0.commands, from, to, &region) };
        self.keep(src);
        self.keep(dst);
    }

    /// Fills a buffer with zeros.
    pub fn clear(&mut self, buffer: &Buffer) {
        let (raw, start) = buffer.raw();
        // SAFETY: the commands are being recorded, and the recording keeps the buffer.
        unsafe { self.0.device.raw.cmd_fill_buffer(self.0.commands, raw, start, buffer.len_bytes() / 4 * 4, 0) };
        self.keep(buffer);
    }

    /// Takes the time when everything recorded so far is done; at most as often as there is room for.
    pub fn stamp(&mut self) {
        let at = 2 + self.0.extra_stamps;
        // SAFETY: the commands are being recorded, and the pool has room for what was asked for.
        unsafe {
            let stage = vk::PipelineStageFlags::BOTTOM_OF_PIPE;
            self.0.device.raw.cmd_write_timestamp(self.0.commands, stage, self.0.stamps, at);
        }
        self.0.extra_stamps += 1;
    }

    /// Keeps a buffer that push constants name alive as long as the recording.
    pub fn keep(&mut self, buffer: &Buffer) {
        self.0.buffers.push(buffer.clone());
        self.0.bytes += buffer.len_bytes();
    }

    /// Ends the recording.
    ///
    /// # Errors
    /// Memory that ran out; the first dispatch that the device does not take, by its kernel's name.
    pub fn finish(self) -> Result<Recording> {
        let mut raw = self.0;
        if let Some(refused) = raw.refused.take() {
            return Err(refused);
        }
        // SAFETY: the commands are being recorded.
        unsafe {
            if raw.stamps != vk::QueryPool::null() {
                raw.device.raw.cmd_write_timestamp(raw.commands, vk::PipelineStageFlags::BOTTOM_OF_PIPE, raw.stamps, 1);
            }
            raw.device
                .raw
                .end_command_buffer(raw.commands)
                .map_err(|e| raw.device.call_error("vkEndCommandBuffer", e))?;
        }
        add(&raw.device.totals.recordings, 1);
        add(&raw.device.totals.record_ns, raw.begun.elapsed().as_nanos() as u64);
        Ok(Recording(raw))
    }
}

impl Recording {
    /// Starts anew in the same memory, a recording without time stamps; its last submission must be done.
    pub(super) fn again(self) -> Result<Recorder> {
        let mut raw = self.0;
        // SAFETY: the caller has waited for the commands' last submission.
        unsafe { raw.device.raw.reset_command_pool(raw.pool, vk::CommandPoolResetFlags::empty()) }
            .map_err(|e| raw.device.call_error("vkResetCommandPool", e))?;
        raw.last.store(0, Ordering::Relaxed);
        raw.pipelines.clear();
        raw.buffers.clear();
        (raw.dispatches, raw.barriers, raw.push_bytes, raw.bytes, raw.begun) = (0, 0, 0, 0, Instant::now());
        let recorder = Recorder(raw);
        recorder.begin()?;
        Ok(recorder)
    }

    /// Dispatches in it.
    pub fn dispatches(&self) -> u64 {
        self.0.dispatches
    }

    /// Barriers in it, the first and the last included.
    pub fn barriers(&self) -> u64 {
        self.0.barriers
    }
}

#[cfg(test)]
mod tests {
    use super::super::caps::{Caps, DeviceKind};
    use super::*;

    #[test]
    fn a_dispatch_over_a_limit_is_told_by_its_kernel() {
        let caps = Caps { max_groups: [70_000, 65_535, 65_535], ..Caps::synthetic("Acme One", DeviceKind::Discrete) };
        assert!(takes(&caps, "argmax", (8, 8), [70_000, 65_535, 1]).is_ok());
        for grid in [[70_001, 1, 1], [1, 65_536, 1], [1, 1, 65_536]] {
            let error = takes(&caps, "argmax", (8, 8), grid).unwrap_err().to_string();
            assert!(error.contains("Acme One: kernel argmax") && error.contains(&format!("{grid:?}")), "{error}");
        }
        assert!(takes(&caps, "argmax", (12, 8), [1, 1, 1]).is_err_and(|e| e.to_string().contains("push constants")));
    }
}
