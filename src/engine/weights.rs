//! Each weight of the plan → a device buffer, through one uploader, after a check that its scales are finite.

use super::Progress;
use crate::gguf::Gguf;
use crate::kernel::Kernels;
use crate::plan::{Plan, WeightInfo};
use crate::vk::{Buffer, Class, Device, Repack, Uploader};
use crate::{Error, Result};
use pumex_quant::Format;
use rayon::prelude::*;
use std::collections::HashMap;

/// Bytes of the staging ring: four slots.
const RING_BYTES: u64 = 64 << 20;
/// Slots of the ring, each of which must hold a row.
const RING_SLOTS: u64 = 4;
/// Words of the repacking kernel's push constants after its addresses and the number of rows.
const REPACK_WORDS: usize = 14;
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

/// The tables of all formats, on the device.
///
/// # Errors
/// Memory that ran out, a lost device.
pub fn codebooks(device: &Device) -> Result<Buffer> {
    let words = pumex_quant::tables::packed();
    let bytes: &[u8] = bytemuck::cast_slice(&words);
    let buffer = device.buffer("codebooks", bytes.len() as u64, Class::Weights)?;
    let mut uploader = Uploader::new(device, bytes.len() as u64)?;
    uploader.write(&buffer, 0, bytes)?;
    uploader.finish()?;
    Ok(buffer)
}

/// The kernel that turns blocks of rows of `cols` weights into planes.
fn repack(kernels: &mut Kernels, format: &Format, cols: usize) -> Result<Repack> {
    let (row_bytes, row_words) = (cols / format.block_len * format.block_bytes, format.planes_bytes(cols) / 4);
    let mut rest = vec![cols / format.block_len, format.block_bytes, row_words, format.fields.len()];
    rest.extend(format.fields.iter().flat_map(|f| [f.at, f.bytes]));
    let rest = rest.iter().flat_map(|w| (*w as u32).to_le_bytes()).chain([0; 40]).take(REPACK_WORDS * 4).collect();
    Ok(Repack { pipeline: kernels.get("repack", None, &[])?, rest, row_bytes, row_words })
}

/// Bytes of `w` on the device, as planes if it has any and they are wanted.
pub fn device_bytes(w: &WeightInfo, planes: bool) -> u64 {
    if planes && !w.format.fields.is_empty() {
        (w.rows * w.format.planes_bytes(w.cols)) as u64
    } else {
        w.len_bytes().next_multiple_of(KERNEL_ALIGNMENT)
    }
}

/// Uploads all weights, as planes where they must be sent anyway, or uses the file's own pages where the device can; the
/// result is in the plan's order.
///
/// # Errors
/// Memory that ran out, a lost device.
pub fn upload(
    device: &Device,
    kernels: &mut Kernels,
    gguf: &Gguf,
    plan: &Plan,
    progress: Progress<'_>,
) -> Result<Vec<Buffer>> {
    let total: u64 = plan.weights.iter().map(|w| w.len_bytes()).sum();
    let widest = plan.weights.iter().map(|w| w.len_bytes() / w.rows.max(1) as u64).max().unwrap_or(0);
    let ring = RING_BYTES.min(total.next_multiple_of(4096)).max(RING_SLOTS * widest);
    let mut uploader = Uploader::new(device, ring)?;
    let imported: HashMap<usize, Buffer> =
        gguf.maps().filter_map(|(file, map)| Some((file, device.import(map)?))).collect();
    let mut done = 0;
    let mut buffers = Vec::with_capacity(plan.weights.len());
    for w in &plan.weights {
        let tensor = &gguf.tensors()[w.tensor];
        let data = gguf.data(tensor);
        let (file, start) = tensor.place();
        done += w.len_bytes();
        if let Some(file) = imported.get(&file).filter(|_| start.is_multiple_of(KERNEL_ALIGNMENT)) {
            buffers.push(file.range(start, data.len() as u64));
            continue;
        }
        let planes = device.stages_weights();
        let buffer = device.buffer(&w.name, device_bytes(w, planes), Class::Weights)?;
        let laid_out = planes && !w.format.fields.is_empty();
        if laid_out {
            uploader.write_repacked(&buffer, data, &repack(kernels, w.format, w.cols)?)?;
        } else {
            uploader.write(&buffer, 0, data)?;
        }
        // Of a model without a file only the first rows were sent.
        let held = data.len() as u64 * w.rows as u64 / w.len_bytes().max(1);
        if held < w.rows as u64 {
            let row = if laid_out { w.format.planes_bytes(w.cols) as u64 } else { w.len_bytes() / w.rows as u64 };
            uploader.repeat(&buffer, held * row, w.rows as u64 * row)?;
        }
        buffers.push(buffer);
        progress(done, total);
    }
    uploader.finish()?;
    Ok(buffers)
}
