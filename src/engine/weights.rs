//! Each weight of the plan → a device buffer, through one uploader, after a check that its scales are finite.

use super::Progress;
use crate::gguf::Gguf;
use crate::plan::Plan;
use crate::vk::{Buffer, Class, Device, Uploader};
use crate::{Error, Result};
use rayon::prelude::*;
use std::collections::HashMap;

/// Bytes of the staging ring: four slots.
const RING_BYTES: u64 = 64 << 20;
/// Kernels read weights 16 bytes at a time.
const KERNEL_ALIGNMENT: u64 = 16;
/// Blocks checked by one thread at a time.
const CHECK_BLOCKS: usize = 1 << 14;

/// Fails on the first weight with a scale or value that is NaN or infinite.
///
/// # Errors
/// `non_finite_weight`, naming tensor and block.
pub fn check_finite(gguf: &Gguf, plan: &Plan) -> Result<()> {
    for w in &plan.weights {
        let data = gguf.data(&gguf.tensors()[w.tensor]);
        let bad = data
            .par_chunks(CHECK_BLOCKS * w.format.block_bytes)
            .enumerate()
            .find_map_first(|(i, part)| w.format.first_non_finite(part).map(|b| i * CHECK_BLOCKS + b));
        if let Some(block) = bad {
            let what = format!("{}: expected finite weights, found NaN or infinity in block {block}", w.name);
            return Err(Error::file(gguf.path(), "non_finite_weight", what));
        }
    }
    Ok(())
}

/// The codebooks of the IQ formats, on the device.
///
/// # Errors
/// Memory that ran out, a lost device.
pub fn codebooks(device: &Device) -> Result<Buffer> {
    let words = pumex_quant::grid::packed();
    let bytes: &[u8] = bytemuck::cast_slice(&words);
    let buffer = device.buffer("codebooks", bytes.len() as u64, Class::Weights)?;
    let mut uploader = Uploader::new(device, bytes.len() as u64)?;
    uploader.write(&buffer, 0, bytes)?;
    uploader.finish()?;
    Ok(buffer)
}

/// Uploads all weights, or uses the file's own pages where the device can; the result is in the plan's order.
///
/// # Errors
/// Memory that ran out, a lost device.
pub fn upload(device: &Device, gguf: &Gguf, plan: &Plan, progress: Progress<'_>) -> Result<Vec<Buffer>> {
    let total: u64 = plan.weights.iter().map(|w| w.len_bytes()).sum();
    let mut uploader = Uploader::new(device, RING_BYTES.min(total.next_multiple_of(4096)))?;
    let imported: HashMap<usize, Buffer> =
        gguf.maps().filter_map(|(file, map)| Some((file, device.import(map)?))).collect();
    let mut done = 0;
    let mut buffers = Vec::with_capacity(plan.weights.len());
    for w in &plan.weights {
        let tensor = &gguf.tensors()[w.tensor];
        let data = gguf.data(tensor);
        let (file, start) = tensor.place();
        if let Some(file) = imported.get(&file).filter(|_| start.is_multiple_of(KERNEL_ALIGNMENT)) {
            buffers.push(file.range(start, data.len() as u64));
            done += w.len_bytes();
            continue;
        }
        let buffer = device.buffer(&w.name, (data.len() as u64).next_multiple_of(16), Class::Weights)?;
        uploader.write(&buffer, 0, data)?;
        buffers.push(buffer);
        done += w.len_bytes();
        progress(done, total);
    }
    uploader.finish()?;
    Ok(buffers)
}
