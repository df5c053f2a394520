//! How many workgroups of a device run at once, where its driver does not tell how many multiprocessors there are. Asked of the
//! device once, and kept beside the pipelines.

use crate::kernel::Kernels;
use pumex_gguf::{Error, Result};
use pumex_lower::policy;
use pumex_shaders::block::Block;
use pumex_shaders::push::Occupancy;
use pumex_vk as vk;
use pumex_vk::{Caps, Class, Device};

/// Name of the file that keeps what was found.
const FILE: &str = "occupancy";
/// Workgroups that are offered: more than any device runs at once.
const OFFERED: u32 = 4096;
/// Times that it is asked; the most counts, for threads may come late.
const TIMES: usize = 3;
/// Words that the kernel counts in.
const COUNTS: usize = 3;

/// The device with [`Caps::measured_cores`], where choices go by them: as found before, or, at the first use of a driver, now.
///
/// # Errors
/// As [`measure`].
pub(super) fn measure_cores(device: Device) -> Result<Device> {
    if !policy::asks_for_cores(device.caps()) {
        return Ok(device);
    }
    let measured_cores = Some(load_or_measure_cores(&device)?);
    Ok(device.with_caps(Caps { measured_cores, ..device.caps().clone() }))
}

/// What was found before with this driver, if it was asked.
pub fn read_saved_cores(caps: &Caps) -> Option<u32> {
    let kept = vk::recall(caps, pumex_shaders::fingerprint(), FILE)?;
    serde_json::from_slice(&kept).ok().filter(|cores| *cores > 0)
}

/// What was found before, else what is found now.
///
/// # Errors
/// As [`measure`].
pub fn load_or_measure_cores(device: &Device) -> Result<u32> {
    let caps = device.caps();
    if let Some(cores) = read_saved_cores(caps) {
        return Ok(cores);
    }
    let cores = measure(device, OFFERED)?;
    tracing::info!("device {}: {cores} of the largest workgroups run at once", caps.name);
    let kept = serde_json::to_vec(&cores).map_err(|e| Error::Request(format!("JSON: {e}")))?;
    vk::remember(caps, pumex_shaders::fingerprint(), FILE, &kept);
    Ok(cores)
}

/// How many workgroups run at once of so many that are offered, each as large as there are, with all the shared memory that it may
/// have: multiprocessors, or two or three times as many where these hold several.
///
/// # Errors
/// Memory that ran out, a module the driver refuses, a lost device.
pub fn measure(device: &Device, offered: u32) -> Result<u32> {
    let caps = device.caps();
    let lanes = caps.subgroup_size.max(1);
    let size = caps.max_workgroup_invocations.min(lanes.saturating_mul(caps.max_workgroup_subgroups.max(1)));
    let spec = [("SIZE", (size / lanes * lanes).max(lanes)), ("WORDS", (caps.max_shared_bytes / 4).max(1))];
    let pipeline = Kernels::new(device).get("occupancy", None, &spec)?;
    let len = 4 * COUNTS as u64;
    let counts = device.buffer("occupancy", len, Class::Scratch)?;
    let host = device.buffer("occupancy, for the host", len, Class::Readback)?;
    let mut recorder = device.recorder_untimed()?;
    recorder.clear(&counts);
    recorder.copy_barrier();
    let groups = offered.min(caps.max_groups[0]);
    recorder.dispatch(&pipeline, &Occupancy { counts: counts.address() }.bytes(), [groups, 1, 1]);
    recorder.copy_barrier();
    recorder.copy(&counts, 0, &host, 0, len);
    recorder.host_barrier();
    [&counts, &host].iter().for_each(|b| recorder.keep(b));
    let recording = recorder.finish()?;
    let mut most = 1;
    for _ in 0..TIMES {
        device.wait(device.submit(&recording)?)?;
        let mut found = [0u32; COUNTS];
        host.read(0, bytemuck::cast_slice_mut(&mut found));
        most = most.max(found[1]);
    }
    Ok(most)
}
