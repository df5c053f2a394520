//! The megakernel's memory, and the trial whether all its workgroups run at once, which nothing in Vulkan says.

use crate::kernel::Kernels;
use pumex_gguf::Result;
use pumex_lower::megakernel::Megakernel;
use pumex_shaders::block::Block;
use pumex_shaders::push;
use pumex_shaders::stage::{self, Stage};
use pumex_vk as vk;
use pumex_vk::{Buffer, Class, Device};

/// Stages of the trial.
const TRIALS: usize = 64;

/// What workgroups send each other, and where a thread that gave up says so.
pub struct MegakernelMemory {
    /// One word.
    pub gave_up: Buffer,
    /// Every write of a step has an epoch that was not there before.
    pub messages: Buffer,
}

impl MegakernelMemory {
    /// Bytes of the word that says that a thread gave up.
    pub const GAVE_UP_BYTES: u64 = 4;

    /// Takes its memory, if all workgroups of `kernel` run at once on the device.
    ///
    /// # Errors
    /// Memory that ran out, a module the driver refuses, a lost device.
    pub fn new(device: &Device, kernels: &Kernels, kernel: &Megakernel) -> Result<Option<MegakernelMemory>> {
        let (gave_up, messages) = (zeros(device, Self::GAVE_UP_BYTES)?, zeros(device, kernel.message_bytes as u64)?);
        let name = kernel.trial_module;
        let constants = kernel.constants(name, device.stages_weights(), false);
        if wait_for_each_other(device, kernels, (kernel.kernel(), name, &constants), kernel.tile.groups, 0)? {
            return Ok(Some(MegakernelMemory { gave_up, messages }));
        }
        let (name, groups) = (&device.caps().name, kernel.tile.groups);
        tracing::warn!("device {name}: expected {groups} workgroups at once; products go one by one");
        Ok(None)
    }

    /// Forgets all that was sent, so that epochs may start again. For when no step is under way.
    ///
    /// # Errors
    /// A lost device.
    pub fn clear(&self, device: &Device) -> Result<()> {
        clear(device, &self.messages)
    }
}

fn zeros(device: &Device, len: u64) -> Result<Buffer> {
    let buffer = device.buffer("megakernel", len, Class::Scratch)?;
    clear(device, &buffer)?;
    Ok(buffer)
}

fn clear(device: &Device, buffer: &Buffer) -> Result<()> {
    let mut rec = device.recorder()?;
    rec.clear(buffer);
    rec.copy_barrier();
    let recording = rec.finish()?;
    device.wait(device.submit(&recording)?)
}

/// Whether so many workgroups of a device run at once, so that they can wait for each other; each gives up after `spins`.
///
/// # Errors
/// A kernel that needs more than the device has, a lost device.
pub fn run_at_once(device: &Device, groups: u32, spins: u32) -> Result<bool> {
    trial(device, groups, spins, 0)
}

/// Runs groups as [`run_at_once`] does, with messages of one stage that are wrong in the bits of `salt`: what a store that is torn looks
/// like.
///
/// # Errors
/// As [`run_at_once`].
pub fn trial(device: &Device, groups: u32, spins: u32, salt: u32) -> Result<bool> {
    let lanes = device.caps().subgroup_size;
    let spec = [("SIZE", lanes.max(64)), ("K", 256), ("K_2", 256), ("LANES", lanes), ("SPIN", spins)];
    wait_for_each_other(device, &Kernels::new(device), ("megakernel", "q8_0", &spec), groups, salt)
}

/// Runs stages that do nothing but send messages, wait for those of all workgroups, and check every word.
fn wait_for_each_other(
    device: &Device,
    kernels: &Kernels,
    (kernel, module, spec): (&str, &str, &[(&str, u32)]),
    groups: u32,
    salt: u32,
) -> Result<bool> {
    let messages = [zeros(device, 16 * u64::from(groups))?, zeros(device, 16 * u64::from(groups))?];
    let stage = |i: usize| Stage {
        flags: stage::TRIAL | if i > 0 { stage::RECEIVE } else { 0 },
        messages_in: messages[(i + 1) % 2].address(),
        messages_out: messages[i % 2].address(),
        epoch_in: i as u32,
        epoch_out: i as u32 + 1,
        k: if i == TRIALS / 2 { salt } else { 0 },
        ..Stage::default()
    };
    let words: Vec<u32> = (0..TRIALS).flat_map(|i| stage(i).words()).collect();
    let program = device.buffer("program", 4 * words.len() as u64, Class::Scratch)?;
    vk::send(device, &program, bytemuck::cast_slice(&words))?;
    let (gave_up, params) = (zeros(device, 4)?, zeros(device, 64)?);
    let fault = device.buffer("fault", 4, Class::Readback)?;
    fault.write(0, &[0; 4]);
    let pipeline = kernels.get(kernel, Some(module), spec)?;
    let mut rec = device.recorder()?;
    let push = push::Megakernel {
        program: program.address(),
        params: params.address(),
        gave_up: gave_up.address(),
        fault: fault.address(),
        stages: TRIALS as u32,
        tables: 0,
    };
    rec.dispatch(&pipeline, &push.bytes(), [groups, 1, 1]);
    rec.host_barrier();
    messages.iter().chain([&program, &fault, &gave_up, &params]).for_each(|b| rec.keep(b));
    let recording = rec.finish()?;
    device.wait(device.submit(&recording)?)?;
    let mut found = [0; 4];
    fault.read(0, &mut found);
    let wait_us = device.gpu_us(&recording).unwrap_or(0.0) / TRIALS as f64;
    tracing::info!("megakernel: {groups} workgroups wait {wait_us:.2} us for each other");
    Ok(found == [0; 4])
}
