//! What was asked of a device so far.

use std::sync::atomic::{AtomicU64, Ordering};

static ANNOUNCED: AtomicU64 = AtomicU64::new(0);
static READY: AtomicU64 = AtomicU64::new(0);

/// How far the process is with pipelines that somebody waits for; both numbers only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PipelineProgress {
    /// Pipelines that were announced.
    pub announced: u64,
    /// Those of them that are built, or were given up.
    pub ready: u64,
}

/// What all devices of the process have to build now, and what of it is done.
pub fn pipeline_progress() -> PipelineProgress {
    // In this order there are never more ready than announced.
    let ready = READY.load(Ordering::Acquire);
    PipelineProgress { announced: ANNOUNCED.load(Ordering::Acquire), ready }
}

/// Pipelines that are about to be built; those that are not when it goes count as given up.
#[derive(Debug)]
pub struct AnnouncedPipelines(AtomicU64);

impl AnnouncedPipelines {
    /// Announces so many.
    pub fn new(count: usize) -> AnnouncedPipelines {
        ANNOUNCED.fetch_add(count as u64, Ordering::AcqRel);
        AnnouncedPipelines(AtomicU64::new(count as u64))
    }

    /// One of them is there.
    pub fn count_ready(&self) {
        if self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| left.checked_sub(1)).is_ok() {
            READY.fetch_add(1, Ordering::AcqRel);
        }
    }
}

impl Drop for AnnouncedPipelines {
    fn drop(&mut self) {
        READY.fetch_add(*self.0.get_mut(), Ordering::AcqRel);
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_announced_is_ready_in_the_end_and_never_before() {
        let before = pipeline_progress();
        let announced = AnnouncedPipelines::new(3);
        (0..2).for_each(|_| announced.count_ready());
        // Other tests may announce and build beside this one.
        let now = pipeline_progress();
        assert!(now.announced >= before.announced + 3 && now.ready >= before.ready + 2 && now.ready < now.announced);
        (0..4).for_each(|_| announced.count_ready());
        drop(announced);
        assert!(pipeline_progress().ready >= before.ready + 3);
        assert!(pipeline_progress().ready <= pipeline_progress().announced);
    }
}
