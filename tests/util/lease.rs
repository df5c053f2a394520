//! Devices that tests take turns at: opening one, and compiling pipelines on it, takes longer than what most tests compute.

use super::{skip, TestNeed};
use pumex::vk;
use std::cell::RefCell;
use std::sync::{Mutex, OnceLock, PoisonError};

/// Devices that no test has at the moment. There are as many as tests run at once, and each keeps its pipelines.
static IDLE: Mutex<Vec<vk::Device>> = Mutex::new(Vec::new());

thread_local! {
    /// What the test on this thread has, until it ends.
    static LEASE: RefCell<Option<Lease>> = const { RefCell::new(None) };
}

/// A device that one test has for itself, so that its counters tell of this test alone.
struct Lease {
    device: vk::Device,
    /// A test that failed for what the validation layer said: the device is not used again.
    spent: bool,
}

impl Drop for Lease {
    /// Gives the device back, if all buffers on it are gone. What the validation layer said and nobody looked at ends the run: the
    /// test has passed already, and its name is known here alone.
    fn drop(&mut self) {
        if self.spent {
            return;
        }
        let messages = self.device.validation_messages();
        if !messages.is_empty() {
            let thread = std::thread::current();
            let (test, messages) = (thread.name().unwrap_or("a thread of a test"), messages.join("\n"));
            let _ = std::io::Write::write_fmt(&mut std::io::stderr(), format_args!("FAILED {test}: {messages}\n"));
            std::process::abort();
        }
        if self.device.bytes_in_use() == 0 && self.device.is_usable() {
            IDLE.lock().unwrap_or_else(PoisonError::into_inner).push(self.device.clone());
        }
    }
}

/// Whether there is a Vulkan device; without one the test is skipped.
pub fn has_device() -> bool {
    static FOUND: OnceLock<bool> = OnceLock::new();
    let found = *FOUND.get_or_init(|| matches!(vk::list(), Ok(list) if !list.is_empty()));
    if !found {
        skip(TestNeed::Device, "no Vulkan device");
    }
    found
}

/// The best Vulkan device, which this test has for itself until it ends, however often it asks; none without a device.
pub fn device(force_staging: bool) -> Option<vk::Device> {
    if !has_device() {
        return None;
    }
    let taken = LEASE.with_borrow_mut(|lease| match lease {
        Some(lease) => lease.device.clone(),
        None => {
            let idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let device = idle.unwrap_or_else(open);
            device.refuse(0, 0); // what a test that failed asked for
            lease.insert(Lease { device, spent: false }).device.clone()
        }
    });
    Some(taken.staging(force_staging))
}

/// With validation where the layer is installed.
fn open() -> vk::Device {
    let options = vk::Options { select: vk::Select::Any, keeps_pipelines: true, ..vk::Options::default() };
    let open = |validation| vk::Device::open(&vk::Options { validation, ..options.clone() });
    let opened = open(true).or_else(|e| {
        skip(TestNeed::Layer, &format!("without validation: {e}"));
        open(false)
    });
    opened.unwrap()
}

/// Fails on anything the validation layer said since the test began.
pub fn assert_silent_on(device: &vk::Device) {
    let messages = device.validation_messages();
    if !messages.is_empty() {
        LEASE.with_borrow_mut(|lease| lease.iter_mut().for_each(|lease| lease.spent = true));
    }
    assert_eq!(messages, Vec::<String>::new());
}
