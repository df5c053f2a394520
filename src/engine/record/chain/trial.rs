//! Whether all workgroups of a dispatch run at once, which nothing in Vulkan says.

use super::{words_of, zeros, FLAGS, IN, IN_TAG, OUT, OUT_TAG, RECEIVE, STAGE_WORDS, TRIAL};
use crate::engine::record::Push;
use crate::kernel::Kernels;
use crate::vk::{self, Class, Device};
use crate::Result;
use pumex_shaders::kernels::CHAINED;

/// Stages of the run.
const TRIALS: usize = 64;

/// Whether so many workgroups of a device run at once, so that they can wait for each other; each gives up after `looks`.
/// Nothing in Vulkan says that they do.
///
/// # Errors
/// A kernel that needs more than the device has, a lost device.
pub fn run_at_once(device: &Device, groups: u32, looks: u32) -> Result<bool> {
    let lanes = device.caps().subgroup_size;
    let spec = [("SIZE", lanes.max(64)), ("K", 256), ("K_2", 256), ("LANES", lanes), ("SPIN", looks)];
    wait_for_each_other(device, &Kernels::new(device), ("chain", CHAINED[0], &spec), groups)
}

/// Runs stages that do nothing but wait.
pub(super) fn wait_for_each_other(
    device: &Device,
    kernels: &Kernels,
    (kernel, module, spec): (&str, &str, &[(&str, u32)]),
    groups: u32,
) -> Result<bool> {
    let packets = [zeros(device, 16 * u64::from(groups))?, zeros(device, 16 * u64::from(groups))?];
    let stage = |i: usize| {
        let mut stage = [0u32; STAGE_WORDS];
        stage[FLAGS] = TRIAL | if i > 0 { RECEIVE } else { 0 };
        stage[IN..IN + 2].copy_from_slice(&words_of(packets[(i + 1) % 2].address()));
        stage[OUT..OUT + 2].copy_from_slice(&words_of(packets[i % 2].address()));
        (stage[IN_TAG], stage[OUT_TAG]) = (i as u32, i as u32 + 1);
        stage
    };
    let words: Vec<u32> = (0..TRIALS).flat_map(stage).collect();
    let program = device.buffer("program", 4 * words.len() as u64, Class::Scratch)?;
    vk::send(device, &program, bytemuck::cast_slice(&words))?;
    let (gave_up, params) = (zeros(device, 4)?, zeros(device, 64)?);
    let fault = device.buffer("fault", 4, Class::Readback)?;
    fault.write(0, &[0; 4]);
    let pipeline = kernels.get(kernel, Some(module), spec)?;
    let mut rec = device.recorder()?;
    let push = Push::default().addr(program.address()).addr(params.address()).addr(gave_up.address());
    let push = push.addr(fault.address()).word(TRIALS);
    rec.dispatch(&pipeline, &push.padded(48), [groups, 1, 1]);
    rec.host_barrier();
    packets.iter().chain([&program, &fault, &gave_up, &params]).for_each(|b| rec.keep(b));
    let recording = rec.finish()?;
    device.wait(device.submit(&recording)?)?;
    let mut found = [0; 4];
    fault.read(0, &mut found);
    let wait_us = device.gpu_us(&recording).unwrap_or(0.0) / TRIALS as f64;
    tracing::info!("chain: {groups} workgroups wait {wait_us:.2} us for each other");
    Ok(found == [0; 4])
}
