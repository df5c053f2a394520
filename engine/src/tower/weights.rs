//! A projector's tensors on the device, each as its ops read it.

use super::dry_run::ALIGNMENT;
use pumex_gguf::{Error, Result};
use pumex_lower::tower::{stored, Stored, WeightAt};
use pumex_media::graph::{Graph, WeightUse};
use pumex_media::{Source, StoredTensor as InFile};
use pumex_quant::Format;
use pumex_vk as vk;
use pumex_vk::{Buffer, Class, Device};
use rayon::prelude::*;
use std::collections::{HashMap, HashSet};

/// Bytes from which a piece is sent.
const PIECE_BYTES: usize = 64 << 20;

/// Tensors by how they are used.
#[derive(Default)]
pub(super) struct Weights {
    all: HashMap<WeightUse, WeightAt>,
    pieces: Vec<Buffer>,
}

impl Weights {
    /// Where a tensor is, if it is there.
    pub fn find(&self, used: &WeightUse) -> Option<WeightAt> {
        self.all.get(used).copied()
    }

    /// The memory of all.
    pub fn buffers(&self) -> impl Iterator<Item = &Buffer> {
        self.pieces.iter()
    }

    /// Bytes of it.
    pub fn len_bytes(&self) -> u64 {
        self.pieces.iter().map(Buffer::len_bytes).sum()
    }

    /// Sends what a graph reads and is not there yet: many tensors in a piece.
    ///
    /// # Errors
    /// Tensors that are missing, of another size, or not finite; memory that ran out; a lost device.
    pub fn load(&mut self, device: &Device, source: &dyn Source, graph: &Graph) -> Result<()> {
        let most = usize::try_from(device.caps().largest_buffer()).unwrap_or(usize::MAX).min(PIECE_BYTES);
        let (mut piece, mut within, mut seen) = (Vec::new(), Vec::new(), HashSet::new());
        for used in &graph.weights {
            if self.all.contains_key(used) || !seen.insert(used) {
                continue;
            }
            let tensor = source.tensor(&used.name).ok_or_else(|| bad("missing_tensor", used, "not in the file"))?;
            let as_used = stored(used, tensor.format);
            let bytes = lay_out(&tensor, used, as_used, device.stages_weights())?;
            if !piece.is_empty() && piece.len() + bytes.len() > most {
                self.send(device, &mut piece, &mut within)?;
            }
            within.push((used.clone(), as_used, piece.len()));
            let room = piece.len() + bytes.len() + ALIGNMENT;
            pumex_gguf::error::reserve(&mut piece, room, &used.name)?;
            piece.extend(bytes);
            piece.resize(piece.len().next_multiple_of(ALIGNMENT), 0);
        }
        self.send(device, &mut piece, &mut within)
    }

    fn send(
        &mut self,
        device: &Device,
        piece: &mut Vec<u8>,
        within: &mut Vec<(WeightUse, Stored, usize)>,
    ) -> Result<()> {
        let Some((first, ..)) = within.first() else { return Ok(()) };
        let name = format!("{} and what comes after it", first.name);
        let buffer = device.buffer(&name, piece.len() as u64, Class::Weights)?;
        vk::send(device, &buffer, piece)?;
        for (used, stored, at) in within.drain(..) {
            self.all.insert(used, WeightAt { at: buffer.address() + at as u64, stored });
        }
        self.pieces.push(buffer);
        piece.clear();
        Ok(())
    }
}

fn bad(code: &str, used: &WeightUse, what: impl std::fmt::Display) -> Error {
    Error::Request(format!("{code}: {}: {what}", used.name))
}

/// A tensor's bytes as the device holds them.
fn lay_out(tensor: &InFile<'_>, used: &WeightUse, to: Stored, soa: bool) -> Result<Vec<u8>> {
    let (format, count) = (tensor.format.format(), tensor.shape.iter().product::<usize>());
    if used.rows.checked_mul(used.cols) != Some(count) || format.row_bytes(count) != Some(tensor.data.len()) {
        let what = format!("expected {} x {} numbers, found {:?}", used.rows, used.cols, tensor.shape);
        return Err(bad("bad_shape", used, what));
    }
    if let Some(block) = format.first_non_finite(tensor.data) {
        let what = format!("expected finite weights, found NaN or infinity in block {block}");
        return Err(bad("non_finite_weight", used, what));
    }
    let is_float = format.block_len == 1;
    if !is_float && to.format == tensor.format {
        let row = format.row_bytes(used.cols).unwrap_or(tensor.data.len()).max(1);
        return Ok(match soa {
            true => tensor.data.par_chunks(row).flat_map_iter(|row| format.soa(row)).collect(),
            false => tensor.data.to_vec(),
        });
    }
    if to.format == tensor.format {
        return rows_of(tensor.data, format.block_bytes, used, to.cols);
    }
    let floats = decoded(tensor.data, format, count, &used.name)?;
    rows_of(bytemuck::cast_slice(&floats), size_of::<f32>(), used, to.cols)
}

fn decoded(data: &[u8], format: &Format, count: usize, name: &str) -> Result<Vec<f32>> {
    let mut floats = pumex_gguf::error::try_filled_vec(0f32, count, name)?;
    format.decode_row(data, &mut floats);
    Ok(floats)
}

/// Rows of `cols` elements of `size` bytes, zeros behind those of the tensor, which may lie column by column.
fn rows_of(data: &[u8], size: usize, used: &WeightUse, cols: usize) -> Result<Vec<u8>> {
    let mut out = pumex_gguf::error::try_filled_vec(0u8, used.rows * cols * size, &used.name)?;
    out.par_chunks_mut((cols * size).max(1)).enumerate().for_each(|(i, row)| {
        if !used.transposed {
            let len = used.cols * size;
            return row[..len].copy_from_slice(&data[i * len..][..len]);
        }
        for (j, to) in row.chunks_exact_mut(size).take(used.cols).enumerate() {
            to.copy_from_slice(&data[(j * used.rows + i) * size..][..size]);
        }
    });
    Ok(out)
}
