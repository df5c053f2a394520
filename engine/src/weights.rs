//! Each weight of the plan → a device buffer, after a check that its scales are finite.

use super::Progress;
use crate::kernel::Kernels;
use pumex_gguf::{Error, Gguf, Result};
use pumex_lower::{policy, slabs};
use pumex_plan::{Plan, Weight, WeightInfo};
use pumex_quant::{tables, Format};
use pumex_shaders::block::Block;
use pumex_shaders::constants::REPACK_CODES;
use pumex_shaders::push;
use pumex_vk as vk;
use pumex_vk::{Buffer, Caps, Class, Device, FinishedSlots, Load, Repack, UploadSource, LEAST_BYTES};
use rayon::prelude::*;
use std::cell::Cell;
use std::collections::HashMap;
use std::ops::Range;
use std::time::Instant;

/// Kernels read weights 16 bytes at a time.
const KERNEL_ALIGNMENT: u64 = 16;
/// Where a weight may start in a piece of memory, what such a piece is at most, and what a weight must be to get its own: so
/// little of a piece is left over.
const ROOM_ALIGNMENT: u64 = 256;
const PIECE_BYTES: u64 = 256 << 20;
const OWN_BYTES: u64 = 64 << 20;
/// Blocks checked by one thread at a time.
const CHECK_BLOCKS: usize = 1 << 14;

/// Fails on the first weight with a scale or value that is NaN or infinite.
///
/// # Errors
/// `non_finite_weight`, naming tensor and block; `truncated_data` if the file has become shorter.
pub fn check_finite(gguf: &Gguf, plan: &Plan) -> Result<()> {
    let all = plan.weights.iter().filter(|w| !w.is_from_host());
    all.map(|w| (w, 0..gguf.data(&gguf.tensors()[w.tensor]).len())).try_for_each(|(w, all)| check_whole(gguf, w, all))
}

/// Checks a range of a weight's bytes, of whole blocks.
fn check_whole(gguf: &Gguf, w: &WeightInfo, range: Range<usize>) -> Result<()> {
    let (step, first) = (CHECK_BLOCKS * w.format.block_bytes, range.start);
    let tensor = &gguf.tensors()[w.tensor];
    let failed = gguf.data(tensor)[range].par_chunks(step).enumerate().find_map_first(|(i, part)| {
        let from = first + i * step;
        gguf.touch(tensor, from, part.len()).and_then(|()| check(gguf, w, from, part)).err()
    });
    failed.map_or(Ok(()), Err)
}

/// Checks bytes of a weight from byte `from` on, which starts a block.
fn check(gguf: &Gguf, w: &WeightInfo, from: usize, bytes: &[u8]) -> Result<()> {
    let Some(bad) = w.format.first_non_finite(bytes) else { return Ok(()) };
    let block = from / w.format.block_bytes + bad;
    let what = format!("{}: expected finite weights, found NaN or infinity in block {block}", w.name);
    Err(Error::file(gguf.path(), "non_finite_weight", what))
}

/// Slabs of weights as their file holds them.
struct SlabSource<'a>(&'a Gguf, &'a [Slab<'a>]);

impl UploadSource for SlabSource<'_> {
    fn ready(&self, slab: usize, from: usize, len: usize) -> Result<()> {
        let slab = &self.1[slab];
        self.0.touch(&self.0.tensors()[slab.info.tensor], slab.in_file().start + from, len)
    }

    fn check(&self, slab: usize, from: usize, bytes: &[u8]) -> Result<()> {
        let slab = &self.1[slab];
        check(self.0, slab.info, slab.in_file().start + from, bytes)
    }
}

/// The tables of all formats, on the device.
///
/// # Errors
/// Memory that ran out, a lost device.
pub fn codebooks(device: &Device) -> Result<Buffer> {
    let words = tables::pack_all();
    let bytes: &[u8] = bytemuck::cast_slice(&words);
    let buffer = device.buffer("codebooks", bytes.len() as u64, Class::Weights)?;
    vk::send(device, &buffer, bytes)?;
    Ok(buffer)
}

/// The kernel that turns blocks of rows of `cols` weights into a structure of arrays; `codebooks` holds
/// `pumex_quant::tables::packed`.
///
/// # Errors
/// A driver that refuses it.
pub fn repack(kernels: &Kernels, codebooks: &Buffer, format: &Format, cols: usize) -> Result<Repack> {
    let (blocks, parts) = (cols / format.block_len, format.parts());
    let row_words = format.soa_bytes(cols) / 4;
    let mut push = push::Repack {
        blocks: blocks as u32,
        block_bytes: format.block_bytes as u32,
        row_words: row_words as u32,
        row_bytes: (blocks * format.soa_block_bytes()) as u32,
        fields: parts.len() as u32,
        places: codebooks.address() + 4 * tables::codes_at(format.id) as u64,
        codebook: codebooks.address() + 4 * tables::codebook_at(format) as u64,
        ..Default::default()
    };
    for (two, part) in push.place.chunks_mut(2).zip(&parts) {
        let at = part.at as u32;
        two.copy_from_slice(&[if part.codes { REPACK_CODES + at } else { at }, part.bytes as u32]);
    }
    let rest = push.bytes().split_off(push::REPACK_BATCH_BYTES);
    Ok(Repack { pipeline: kernels.get("repack", None, &[])?, rest, row_bytes: blocks * format.block_bytes, row_words })
}

/// The plan with weights as a device can hold them wider, if there are any.
pub fn with_expanded_codebooks(plan: &Plan) -> Option<Plan> {
    if !plan.weights.iter().any(|w| w.format.expanded_format().is_some()) {
        return None;
    }
    let mut plan = plan.clone();
    for w in &mut plan.weights {
        w.format = w.format.expanded_format().unwrap_or(w.format);
    }
    Some(plan)
}

/// The weights that are larger than any buffer of the device and cannot lie in slabs.
pub fn too_large<'a>(plan: &'a Plan, caps: &'a Caps, soa: bool) -> impl Iterator<Item = &'a WeightInfo> {
    let all = plan.weights.iter().enumerate();
    all.filter(move |(i, _)| slabs::is_too_large(plan, Weight(*i), caps, soa)).map(|(_, w)| w)
}

/// Rows of a weight that have memory of their own.
struct Slab<'a> {
    weight: usize,
    info: &'a WeightInfo,
    rows: Range<usize>,
}

impl Slab<'_> {
    /// Bytes on the device.
    fn device_bytes(&self, soa: bool) -> u64 {
        slabs::device_bytes(self.info, self.rows.len(), soa)
    }

    /// Its bytes of the weight as the file has it.
    fn in_file(&self) -> Range<usize> {
        let row = slabs::row_bytes(self.info, false) as usize;
        self.rows.start * row..self.rows.end * row
    }

    /// What the file has of them, which is all. Without a file there may be only the weight's first rows, which the others repeat: then
    /// these, from the one on that the slab starts with.
    fn bytes<'a>(&self, gguf: &'a Gguf) -> [&'a [u8]; 2] {
        let (all, Range { start, end }) = (gguf.data(&gguf.tensors()[self.info.tensor]), self.in_file());
        let start = start % all.len().max(1);
        let (turn, first) = all.split_at(start);
        let (len, there) = (end - self.in_file().start, first.len());
        [&first[..len.min(there)], &turn[..start.min(len - len.min(there))]]
    }
}

/// The slabs of all weights in order.
fn slabs_of<'a>(plan: &'a Plan, caps: &Caps, soa: bool) -> Vec<Slab<'a>> {
    let most = caps.largest_buffer();
    let of = |(weight, info): (usize, &'a WeightInfo)| {
        slabs::slabs(info, most, soa).into_iter().map(move |rows| Slab { weight, info, rows })
    };
    plan.weights.iter().enumerate().flat_map(of).collect()
}

/// Bytes that a weight takes of a piece; none if it gets memory of its own.
fn room(len: u64) -> u64 {
    if len < OWN_BYTES {
        len.next_multiple_of(ROOM_ALIGNMENT)
    } else {
        0
    }
}

/// How weights are dealt into a few large pieces of memory: drivers take as long for a small piece as for a large one.
struct WeightSlabs {
    /// Bytes of pieces that will be wanted.
    left: u64,
    /// The most bytes of one piece.
    most: u64,
    /// Bytes of the piece under way, and how many of them are taken.
    piece: u64,
    used: u64,
}

impl WeightSlabs {
    /// For weights of so many bytes each.
    fn new(caps: &Caps, lens: impl Iterator<Item = u64>) -> WeightSlabs {
        WeightSlabs { left: lens.map(room).sum(), most: PIECE_BYTES.min(caps.largest_buffer()), piece: 0, used: 0 }
    }

    /// Where a weight of `len` bytes goes: bytes of new memory for it, if it needs some, and where in its piece it starts.
    fn place(&mut self, len: u64) -> (Option<u64>, u64) {
        let rounded = room(len);
        if rounded == 0 {
            return (Some(len), 0);
        }
        let mut new = None;
        if self.used + rounded > self.piece {
            self.piece = self.left.min(self.most).max(rounded);
            (self.used, new) = (0, Some(self.piece));
        }
        let at = self.used;
        self.used += rounded;
        self.left = self.left.saturating_sub(rounded);
        (new, at)
    }
}

/// Bytes of the memory that the weights of `plan` take on a device that copies them, or would take on one that does not.
pub fn weight_memory(plan: &Plan, caps: &Caps, soa: bool) -> u64 {
    let slabs = slabs_of(plan, caps, soa);
    let lens = || slabs.iter().map(|slab| slab.device_bytes(soa));
    let mut pieces = WeightSlabs::new(caps, lens());
    let lists =
        slabs.chunk_by(|a, b| a.weight == b.weight).filter(|of| of.len() > 1).map(|of| slabs::list_bytes(of.len()));
    let pieces = lens().filter_map(|len| pieces.place(len).0);
    lists.chain(pieces).map(|bytes| bytes.max(LEAST_BYTES)).sum()
}

/// Bytes of the tables of all formats.
pub fn codebooks_bytes() -> u64 {
    4 * tables::pack_all().len() as u64
}

/// Places for weights.
struct Rooms<'a> {
    device: &'a Device,
    pieces: WeightSlabs,
    piece: Option<Buffer>,
}

impl Rooms<'_> {
    fn take(&mut self, name: &str, len: u64) -> Result<Buffer> {
        let (new, at) = self.pieces.place(len);
        if room(len) == 0 {
            return self.device.buffer(name, len, Class::Weights);
        }
        if let Some(bytes) = new {
            let name = format!("{name} and what comes after it");
            self.piece = Some(self.device.buffer(&name, bytes, Class::Weights)?);
        }
        match &self.piece {
            Some(piece) => Ok(piece.range(at, len)),
            None => self.device.buffer(name, len, Class::Weights),
        }
    }
}

/// Uploads all weights, as a structure of arrays where they must be sent anyway, or uses the file's own pages where the device can; the
/// result is in the plan's order, followed by the slabs of those that lie in some (which are lists of addresses), with what the upload
/// took and needs no more.
///
/// # Errors
/// A weight that is not finite, memory that ran out, a lost device.
pub fn upload(
    device: &Device,
    (kernels, tables): (&Kernels, &Buffer),
    gguf: &Gguf,
    plan: &Plan,
    progress: Progress<'_>,
) -> Result<(Vec<Buffer>, FinishedSlots)> {
    let begun = Instant::now();
    let soa = device.stages_weights();
    let slabs = slabs_of(plan, device.caps(), soa);
    let filed = || slabs.iter().filter(|slab| !slab.info.is_from_host());
    let total: u64 = filed().flat_map(|slab| slab.bytes(gguf)).map(|bytes| bytes.len() as u64).sum();
    let widest = plan.weights.iter().map(|w| w.len_bytes() as usize / w.rows.max(1)).max().unwrap_or(0);
    let (mut way, reason) = policy::upload_way(device.caps(), rayon::current_num_threads());
    let most = device.caps().largest_buffer() / ROOM_ALIGNMENT * ROOM_ALIGNMENT;
    way.batch_bytes = way.batch_bytes.min(usize::try_from(most).unwrap_or(usize::MAX)).max(widest);
    let imported: HashMap<usize, Vec<(u64, Buffer)>> =
        gguf.maps().map(|(file, map)| (file, device.import(map))).collect();
    if !soa {
        way.slots = 0; // mapped memory takes what no file's page can
    }
    let in_place = Cell::new(0);
    let mut buffers = Vec::with_capacity(slabs.len());
    let mut repeats = Vec::new();
    let in_file = |slab: &Slab<'_>| {
        let ((file, start), within) = (gguf.tensors()[slab.info.tensor].place(), slab.in_file());
        let (start, len) = (start + within.start as u64, within.len() as u64);
        let whole = |(from, part): &&(u64, Buffer)| *from <= start && start + len <= from + part.len_bytes();
        let part = imported.get(&file)?.iter().find(whole).filter(|_| start.is_multiple_of(KERNEL_ALIGNMENT))?;
        Some(part.1.range(start - part.0, len))
    };
    let sent = filed().filter(|slab| in_file(slab).is_none());
    let pieces = WeightSlabs::new(device.caps(), sent.map(|slab| slab.device_bytes(soa)));
    let mut rooms = Rooms { device, pieces, piece: None };
    let mut prepared = |(i, slab): (usize, &Slab<'_>)| {
        let w = slab.info;
        if w.is_from_host() {
            buffers.push(device.buffer(&w.name, w.len_bytes(), Class::Params)?);
            return Ok(vec![]);
        }
        if let Some(buffer) = in_file(slab) {
            check_whole(gguf, w, slab.in_file())?;
            in_place.set(in_place.get() + buffer.len_bytes());
            buffers.push(buffer);
            return Ok(vec![]);
        }
        let buffer = rooms.take(&w.name, slab.device_bytes(soa))?;
        let laid_out = soa && !w.format.fields.is_empty();
        let (file_row, row) = (slab.in_file().len() / slab.rows.len().max(1), slabs::row_bytes(w, soa));
        let (mut loads, mut sent) = (Vec::new(), 0);
        for bytes in slab.bytes(gguf).into_iter().filter(|bytes| !bytes.is_empty()) {
            let repack = if laid_out { Some(repack(kernels, tables, w.format, w.cols)?) } else { None };
            let to = buffer.range(sent, buffer.len_bytes() - sent);
            sent += (bytes.len() / file_row.max(1)) as u64 * row;
            loads.push(Ok(Load { to, bytes, unit: w.format.block_bytes, repack, epoch: i }));
        }
        repeats.push((buffer.clone(), sent, slab.rows.len() as u64 * row));
        buffers.push(buffer);
        Ok(loads)
    };
    let loads = slabs.iter().enumerate().flat_map(|slab| prepared(slab).unwrap_or_else(|e| vec![Err(e)]));
    let held = SlabSource(gguf, &slabs);
    let spent = vk::upload(device, &way, loads, &held, &mut |sent| progress(sent + in_place.get(), total))?;
    repeats.retain(|(_, sent, len)| sent < len);
    if !repeats.is_empty() {
        vk::repeat(device, repeats)?;
    }
    let buffers = list_weight_buffers(device, &slabs, buffers)?;
    let seconds = begun.elapsed().as_secs_f64();
    let speed = total as f64 / seconds / 1e9;
    tracing::info!("load: weights, {:.2} GB in {:.0} ms ({speed:.1} GB/s)", total as f64 / 1e9, seconds * 1e3);
    if in_place.get() < total {
        tracing::info!("load: {} threads, {} slots of {} KiB; {reason}", way.threads, way.slots, way.batch_bytes >> 10);
    }
    Ok((buffers, spent))
}

/// The buffer of each weight in order, which is a list of addresses for one that lies in slabs, and then those slabs.
fn list_weight_buffers(device: &Device, slabs: &[Slab<'_>], buffers: Vec<Buffer>) -> Result<Vec<Buffer>> {
    let (mut all, mut apart, mut rest) = (Vec::new(), Vec::new(), buffers.into_iter());
    for of in slabs.chunk_by(|a, b| a.weight == b.weight) {
        let mut own: Vec<Buffer> = rest.by_ref().take(of.len()).collect();
        if own.len() > 1 {
            let addresses: Vec<u64> = own.iter().map(Buffer::address).collect();
            let name = format!("{}: addresses", of[0].info.name);
            let list = device.buffer(&name, slabs::list_bytes(own.len()), Class::Weights)?;
            vk::send(device, &list, bytemuck::cast_slice(&addresses))?;
            apart.append(&mut own);
            all.push(list);
        }
        all.append(&mut own);
    }
    all.append(&mut apart);
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_share_pieces_that_are_no_larger_than_what_is_left() {
        let lens = [PIECE_BYTES / 4 - 1, 100, 3 << 20, OWN_BYTES, 300];
        let mut pieces =
            WeightSlabs { left: lens.iter().map(|len| room(*len)).sum(), most: 64 << 20, piece: 0, used: 0 };
        let first = (room(lens[0]) + 256 + (3 << 20) + 512).min(64 << 20);
        assert_eq!(pieces.place(lens[0]), (Some(first), 0));
        let mut new = pieces.place(lens[1]).0;
        new = new.or(pieces.place(lens[2]).0);
        assert!(new.is_some(), "the first piece is full");
        assert_eq!(pieces.place(lens[3]), (Some(OWN_BYTES), 0));
        assert_eq!(pieces.place(lens[4]).0, None);
    }

    #[test]
    fn large_weights_get_memory_of_their_own_and_others_aligned_rooms() {
        assert_eq!([1, 256, 257].map(room), [256, 256, 512]);
        assert_eq!([OWN_BYTES - 1, OWN_BYTES].map(room), [OWN_BYTES, 0]);
    }
}
