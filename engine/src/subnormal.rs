//! Whether a device keeps subnormal halves when it turns them into floats. Vulkan lets it take them for zero, and scales of blocks
//! often are such: a model would still run, as a worse one.

use crate::kernel::Kernels;
use pumex_gguf::Result;
use pumex_shaders::block::Block;
use pumex_shaders::push;
use pumex_shaders::step::{StepHeader, StepRow};
use pumex_vk::{Class, Device};

/// Halves of a row of the embedding that is looked up.
const LEN: u16 = 32;

/// Asks the device.
///
/// # Errors
/// Memory that ran out, a lost device, a module the driver refuses.
pub fn keeps_subnormal_halves(device: &Device, kernels: &Kernels) -> Result<bool> {
    // The least, the largest, and some between, of both signs.
    let halves: Vec<u16> = (0..LEN).map(|i| (1 + i * 0x3fe / (LEN - 1)) | (i % 2) << 15).collect();
    let mut step = StepHeader { rows: 1, ..Default::default() }.words();
    step.extend(StepRow::default().words());
    let held = |name, bytes: &[u8]| {
        let buffer = device.buffer(name, bytes.len() as u64, Class::Params)?;
        buffer.write(0, bytes);
        Ok::<_, pumex_gguf::Error>(buffer)
    };
    let (table, step) = (held("halves", bytemuck::cast_slice(&halves))?, held("step", bytemuck::cast_slice(&step))?);
    let floats = device.buffer("floats", 4 * u64::from(LEN), Class::Readback)?;
    // None of the two that are not used is read beyond its first word.
    let (embd, y, params) = (table.address(), floats.address(), step.address());
    let (pairs, n_pairs, dim) = (params, 0, u32::from(LEN));
    let push = push::Embed { embd, y, params, sampled: params, tables: params, pairs, dim, n_pairs }.bytes();
    let pipeline = kernels.get("embed", Some("f16"), &[("SIZE", 64)])?;
    let mut recorder = device.recorder_untimed()?;
    recorder.dispatch(&pipeline, &push, [1, 1, 1]);
    recorder.host_barrier();
    [&table, &step, &floats].iter().for_each(|b| recorder.keep(b));
    let recording = recorder.finish()?;
    device.wait(device.submit(&recording)?)?;
    let mut found = [0f32; LEN as usize];
    floats.read(0, bytemuck::cast_slice_mut(&mut found));
    Ok(found.iter().zip(&halves).all(|(found, half)| *found == half::f16::from_bits(*half).to_f32()))
}
