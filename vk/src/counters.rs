//! What was asked of a device so far.

use std::sync::atomic::{AtomicU64, Ordering};

/// Running totals of one device; a difference of two snapshots is what happened between them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counters {
    /// Queue submissions.
    pub submits: u64,
    /// Waits of the host for one timeline value.
    pub host_waits: u64,
    /// Waits for a whole device or queue.
    pub device_waits: u64,
    /// Pipeline barriers executed.
    pub barriers: u64,
    /// Dispatches executed.
    pub dispatches: u64,
    /// Bytes of push constants in executed recordings.
    pub push_bytes: u64,
    /// Bytes the host wrote for the device.
    pub bytes_to_device: u64,
    /// Bytes the host read back.
    pub bytes_from_device: u64,
    /// Device memory allocations.
    pub allocations: u64,
    /// Pipelines asked for, and built unless the device keeps them and had them.
    pub pipelines: u64,
    /// Time that this took of all threads together, microseconds.
    pub pipeline_us: f64,
    /// Command buffers recorded.
    pub recordings: u64,
    /// Host time spent recording, microseconds.
    pub record_us: f64,
}

/// Counters that several threads count in.
#[derive(Debug, Default)]
pub(super) struct Totals {
    pub submits: AtomicU64,
    pub host_waits: AtomicU64,
    pub device_waits: AtomicU64,
    pub dispatches: AtomicU64,
    pub barriers: AtomicU64,
    pub push_bytes: AtomicU64,
    pub to_device: AtomicU64,
    pub from_device: AtomicU64,
    pub allocations: AtomicU64,
    pub pipelines: AtomicU64,
    pub pipeline_ns: AtomicU64,
    /// Bytes of all buffers there are.
    pub in_use: AtomicU64,
    pub recordings: AtomicU64,
    pub record_ns: AtomicU64,
}

impl Totals {
    pub fn counters(&self) -> Counters {
        let get = |a: &AtomicU64| a.load(Ordering::Relaxed);
        Counters {
            submits: get(&self.submits),
            host_waits: get(&self.host_waits),
            device_waits: get(&self.device_waits),
            barriers: get(&self.barriers),
            dispatches: get(&self.dispatches),
            push_bytes: get(&self.push_bytes),
            bytes_to_device: get(&self.to_device),
            bytes_from_device: get(&self.from_device),
            allocations: get(&self.allocations),
            pipelines: get(&self.pipelines),
            pipeline_us: get(&self.pipeline_ns) as f64 / 1e3,
            recordings: get(&self.recordings),
            record_us: get(&self.record_ns) as f64 / 1e3,
        }
    }
}

pub(super) fn add(total: &AtomicU64, by: u64) {
    total.fetch_add(by, Ordering::Relaxed);
}
