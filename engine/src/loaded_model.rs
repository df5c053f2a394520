//! A model on a device: what its sessions share, with the weights.

use super::memory::MemoryPlan;
use super::program::Program;
use pumex_vk::Buffer;

/// A model on a device.
pub(super) struct Model {
    /// All but the weights.
    pub program: Program,
    /// In the plan's order.
    pub weights: Vec<Buffer>,
    /// What all of it was to take.
    pub memory: MemoryPlan,
    /// Goes when the last session does.
    pub _freeing: Freeing,
}

/// What lets go of an upload's memory beside the first step; waited for, as a process must not end amid it.
pub(super) struct Freeing(Option<std::thread::JoinHandle<()>>);

impl Freeing {
    /// Drops `spent` on a thread of its own.
    pub fn of<T: Send + 'static>(spent: T) -> Freeing {
        Freeing(Some(std::thread::spawn(|| drop(spent))))
    }
}

impl Drop for Freeing {
    fn drop(&mut self) {
        if let Some(thread) = self.0.take() {
            let _ = thread.join();
        }
    }
}
