//! How fast the device's memory is: the yardstick that a kernel's bytes per second are compared with. Measured once and
//! kept beside the pipeline cache.

use crate::kernel::Kernels;
use pumex_gguf::file::Replacing;
use pumex_gguf::Result;
use pumex_shaders::block::Block;
use pumex_shaders::push::Stream;
use pumex_vk::{cache_file, Class, Device};
use serde::{Deserialize, Serialize};

/// Most bytes streamed per run; far above any cache.
const MOST_BYTES: u64 = 2 << 30;
/// Bytes streamed by a software device, where there is nothing to hide behind.
const FEW_BYTES: u64 = 64 << 20;
/// Runs of each; the best counts, for it is the one least disturbed.
const RUNS: usize = 5;
/// Bytes read by one thread of the kernel in one turn of its loop, and threads of a workgroup.
const TURN_BYTES: u64 = 64 * 256;

/// Measured bytes per second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bandwidth {
    /// Bytes per second of a kernel that only reads.
    pub read: f64,
    /// Bytes per second of a kernel that copies, bytes read and bytes written together.
    pub copy: f64,
}

/// What is kept.
#[derive(Serialize, Deserialize)]
struct SavedBandwidth {
    /// The driver's name of itself: another version may be faster.
    driver: String,
    bandwidth: Bandwidth,
}

/// What was measured on this device with this driver before, else what is measured now.
///
/// # Errors
/// As [`measure`].
pub fn load_or_measure(device: &Device) -> Result<Bandwidth> {
    let caps = device.caps();
    let file = cache_file(caps, "bandwidth", "json").and_then(|path| std::fs::read(path).ok());
    let kept = file.and_then(|bytes| serde_json::from_slice::<SavedBandwidth>(&bytes).ok());
    let valid =
        |k: &SavedBandwidth| k.driver == caps.driver && [k.bandwidth.read, k.bandwidth.copy].iter().all(|b| *b > 0.0);
    match kept.filter(valid) {
        Some(kept) => Ok(kept.bandwidth),
        None => measure(device),
    }
}

/// Writes the file that [`load_or_measure`] reads; failing to only costs time later.
fn keep(device: &Device, bandwidth: Bandwidth) {
    let caps = device.caps();
    let Some(path) = cache_file(caps, "bandwidth", "json") else { return };
    let kept = SavedBandwidth { driver: caps.driver.clone(), bandwidth };
    let written = || -> Result<()> {
        let bytes = serde_json::to_vec(&kept).map_err(|e| pumex_gguf::Error::Request(format!("JSON: {e}")))?;
        path.parent().map_or(Ok(()), std::fs::create_dir_all).map_err(|e| pumex_gguf::Error::io(&path, e))?;
        let mut file = Replacing::create(&path)?;
        file.write(&bytes)?;
        file.finish()
    };
    if let Err(e) = written() {
        tracing::warn!("bandwidth of {}: {e}", caps.name);
    }
}

/// Streams through device memory, and keeps what was found for [`load_or_measure`].
///
/// # Errors
/// Memory that ran out, a lost device.
pub fn measure(device: &Device) -> Result<Bandwidth> {
    let caps = device.caps();
    let most = if caps.unified { FEW_BYTES } else { MOST_BYTES };
    let len = most.min(caps.memory_budget_bytes / 8).min(caps.largest_buffer()) / TURN_BYTES * TURN_BYTES;
    let x = device.buffer("bandwidth.x", len, Class::Scratch)?;
    let y = device.buffer("bandwidth.y", len, Class::Scratch)?;
    let kernels = Kernels::new(device);
    let rate = |copy: u32| -> Result<f64> {
        let pipeline = kernels.get("stream", None, &[("COPY", copy)])?;
        let push = Stream { x: x.address(), y: y.address(), n: (len / 16) as u32 }.bytes();
        let groups = (len / TURN_BYTES).min(1 << 14) as u32;
        let mut recorder = device.recorder()?;
        recorder.keep(&x);
        recorder.keep(&y);
        recorder.dispatch(&pipeline, &push, [groups, 1, 1]);
        let recording = recorder.finish()?;
        let mut best = f64::INFINITY;
        for _ in 0..RUNS {
            let value = device.submit(&recording)?;
            device.wait(value)?;
            best = best.min(device.gpu_us(&recording).unwrap_or(f64::INFINITY));
        }
        Ok(len as f64 * f64::from(1 + copy) / (best * 1e-6))
    };
    let found = Bandwidth { read: rate(0)?, copy: rate(1)? };
    keep(device, found);
    Ok(found)
}
