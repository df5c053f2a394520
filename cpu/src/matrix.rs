//! Weight matrices as kernels read them: packed into tiles, in place where that is not wanted, or floats as they are.

use crate::acts::Acts;
use crate::buffer::{Buffer, Parts};
use crate::float::{self, Float};
use crate::formats;
use crate::layout::{Layout, CELL};
use crate::simd::LANES;
use crate::{pack, tile, Isa, Pool};
use pumex_quant::{Format, FormatId};
use std::cell::RefCell;
use std::sync::{Mutex, PoisonError};

/// Tiles that a thread packs at a time.
const PACK_TILES: usize = 4;
/// Most tiles that an item of a product has.
pub(crate) const MOST_TILES: usize = 8;

/// Where the weights are.
enum Store<'a> {
    /// Tiles.
    Tiles(Layout, Buffer),
    /// Blocks of the file, packed tile by tile when they are used.
    Blocks(Layout, &'a [u8]),
    /// Floats of the file.
    Floats(Float, &'a [u8]),
}

/// Matrices `[parts, rows, cols]`: one, or those of experts.
pub struct Matrix<'a> {
    parts: usize,
    rows: usize,
    cols: usize,
    format: &'static Format,
    store: Store<'a>,
}

/// Sees bytes of a matrix and where they start, before they are read, and may refuse them.
pub type Inspect<'a, E> = dyn Fn(usize, &[u8]) -> Result<(), E> + Sync + 'a;

/// Shape of a matrix's data.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Matrices, one below the other.
    pub parts: usize,
    /// Rows of each.
    pub rows: usize,
    /// Columns.
    pub cols: usize,
}

/// Activations of a product, `[n, cols]`: as floats, and in 8 bits where [`Matrix::takes_codes`].
#[derive(Clone, Copy)]
pub struct Input<'a> {
    /// Floats.
    pub floats: &'a [f32],
    /// The same in 8 bits.
    pub acts: &'a Acts,
}

/// Room for a thread to work in.
#[derive(Default)]
pub(crate) struct Scratch {
    /// Unpacked codes.
    codes: Vec<Line>,
    scales: Vec<f32>,
    /// A tile packed on the way.
    tile: Vec<Line>,
    /// Where columns lie.
    acts: Vec<*const u8>,
    floats: Vec<*const f32>,
}

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; 64]);

impl Scratch {
    /// `len` bytes of lines.
    fn room(lines: &mut Vec<Line>, len: usize) -> &mut [u8] {
        let count = len.div_ceil(64);
        if lines.len() < count {
            lines.resize(count, Line([0; 64]));
        }
        // SAFETY: `count` lines of 64 plain bytes each, borrowed as long as `lines` is.
        unsafe { std::slice::from_raw_parts_mut(lines.as_mut_ptr().cast(), len) }
    }
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::new(Scratch::default());
}

impl<'a> Matrix<'a> {
    /// A matrix of `data`, whose rows repeat if there are fewer than the shape has. With `repack`, blocks become tiles, by all
    /// threads; `inspect` sees all bytes before they are read, with where they start, and may refuse them.
    ///
    /// # Errors
    /// What `inspect` gives.
    ///
    /// # Panics
    /// If a row is no whole number of blocks, or `data` has no whole row.
    pub fn new<E: Send>(
        (pool, isa): (&Pool, Isa),
        format: &'static Format,
        shape: Shape,
        data: &'a [u8],
        repack: bool,
        inspect: &Inspect<'_, E>,
    ) -> Result<Matrix<'a>, E> {
        let Shape { parts, rows, cols } = shape;
        let row_bytes = format.row_bytes(cols).unwrap_or(0);
        assert!(row_bytes > 0 && data.len() >= row_bytes, "whole rows of {}", format.name);
        let float = match format.id {
            FormatId::F32 => Some(Float::F32),
            FormatId::F16 => Some(Float::F16),
            FormatId::Bf16 => Some(Float::Bf16),
            _ => None,
        };
        let failed = Mutex::new(None);
        let fail = |error: E| {
            failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        };
        let layout = formats::layout(format.id);
        let mut packed = None;
        match layout {
            Some(layout) if repack => {
                let (tiles, bytes) = (rows.div_ceil(LANES), layout.tile_bytes(cols));
                let mut buffer = Buffer::new(parts * tiles * bytes);
                let all = Parts::new(buffer.bytes_mut());
                let items = (parts * tiles).div_ceil(PACK_TILES);
                pool.each(items, &|item| {
                    for t in item * PACK_TILES..((item + 1) * PACK_TILES).min(parts * tiles) {
                        let first = t / tiles * rows + t % tiles * LANES;
                        let count = LANES.min(rows - t % tiles * LANES);
                        // SAFETY: every tile is written by the one thread that has its item.
                        let tile = unsafe { all.part(t * bytes, bytes) };
                        if let Err(error) =
                            pack_rows(isa, format, (data, row_bytes), (first, count), cols, tile, inspect)
                        {
                            return fail(error);
                        }
                    }
                });
                packed = Some(buffer);
            }
            _ => {
                let chunk = (1 << 20) / format.block_bytes * format.block_bytes;
                pool.each(data.len().div_ceil(chunk), &|i| {
                    let bytes = &data[i * chunk..data.len().min((i + 1) * chunk)];
                    if let Err(error) = inspect(i * chunk, bytes) {
                        fail(error);
                    }
                });
            }
        }
        if let Some(error) = failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            return Err(error);
        }
        let store = match (packed, layout, float) {
            (Some(buffer), Some(layout), _) => Store::Tiles(layout, buffer),
            (_, Some(layout), _) => Store::Blocks(layout, data),
            (_, _, float) => Store::Floats(float.unwrap_or(Float::F32), data),
        };
        Ok(Matrix { parts, rows, cols, format, store })
    }

    /// Rows of a part.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Columns.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Parts.
    pub fn parts(&self) -> usize {
        self.parts
    }

    /// Tiles of a part.
    pub(crate) fn tiles(&self) -> usize {
        self.rows.div_ceil(LANES)
    }

    /// Whether products read activations of 8 bits; else floats.
    pub fn takes_codes(&self) -> bool {
        !matches!(self.store, Store::Floats(..))
    }

    /// Bytes that a product with all of it reads.
    pub fn len_bytes(&self) -> usize {
        match &self.store {
            Store::Tiles(_, buffer) => buffer.bytes().len(),
            Store::Blocks(..) | Store::Floats(..) => {
                self.parts * self.rows * self.format.row_bytes(self.cols).unwrap_or(0)
            }
        }
    }

    /// Products of `tiles` tiles of a part, from tile `tile` on, with rows `columns` of the input: `out` is
    /// `[columns, tiles, 16]`, of which rows that the matrix does not have are of no meaning. Runs on the calling thread.
    pub(crate) fn compute(
        &self,
        isa: Isa,
        (part, tile, tiles): (usize, usize, usize),
        x: &Input<'_>,
        columns: &[u32],
        out: &mut [f32],
    ) {
        assert!(isa.is_here() && out.len() >= columns.len() * tiles * LANES, "instructions and room");
        assert!(part < self.parts && tile + tiles <= self.tiles(), "tiles of the matrix");
        SCRATCH.with_borrow_mut(|scratch| match &self.store {
            Store::Floats(kind, data) => self.floats(isa, *kind, data, (part, tile, tiles), x, columns, (out, scratch)),
            Store::Tiles(layout, buffer) => {
                let bytes = layout.tile_bytes(self.cols);
                let at = (part * self.tiles() + tile) * bytes;
                self.codes(isa, layout, &buffer.bytes()[at..][..tiles * bytes], tiles, x, columns, (out, scratch));
            }
            Store::Blocks(layout, data) => {
                let bytes = layout.tile_bytes(self.cols);
                let row_bytes = self.format.row_bytes(self.cols).unwrap_or(0);
                let mut room = std::mem::take(&mut scratch.tile);
                let packed = Scratch::room(&mut room, tiles * bytes);
                packed.fill(0);
                for (t, packed) in packed.chunks_exact_mut(bytes).enumerate() {
                    let (first, count) = ((tile + t) * LANES, LANES.min(self.rows - (tile + t) * LANES));
                    let rows = (part * self.rows + first, count);
                    let all = |_: usize, _: &[u8]| Ok::<(), ()>(());
                    let _ = pack_rows(isa, self.format, (data, row_bytes), rows, self.cols, packed, &all);
                }
                self.codes(isa, layout, packed, tiles, x, columns, (out, scratch));
                scratch.tile = room;
            }
        });
    }

    fn codes(
        &self,
        isa: Isa,
        layout: &Layout,
        packed: &[u8],
        tiles: usize,
        x: &Input<'_>,
        columns: &[u32],
        (out, scratch): (&mut [f32], &mut Scratch),
    ) {
        assert_eq!(x.acts.cols(), self.cols, "columns of the matrix");
        let form = tile::Form { layout, cols: self.cols };
        let bytes = layout.tile_bytes(self.cols);
        if let [column] = columns {
            // SAFETY: the instructions are there; `packed` has `tiles` tiles, the row a record per cell, `out` 16 floats per tile.
            unsafe {
                let acts = x.acts.row(*column as usize);
                tile::times_column(isa, form, packed.as_ptr(), tiles, acts, out.as_mut_ptr());
            }
            return;
        }
        scratch.acts.clear();
        scratch.acts.extend(columns.iter().map(|c| x.acts.row(*c as usize)));
        let apart = tile::scale_floats(layout, self.cols);
        for from in (0..tiles).step_by(2) {
            let count = (tiles - from).min(2);
            let codes = Scratch::room(&mut scratch.codes, count * LANES * self.cols).as_mut_ptr();
            scratch.scales.resize((count * apart).max(scratch.scales.len()), 0.0);
            for i in 0..count {
                let tile = packed[(from + i) * bytes..][..bytes].as_ptr();
                // SAFETY: the instructions are there, and room for 16 codes per column and `apart` scales for each of `count`.
                unsafe {
                    let scales = scratch.scales[i * apart..][..apart].as_mut_ptr();
                    tile::unpack(isa, form, tile, codes.add(i * LANES * self.cols), scales);
                }
            }
            if tiles <= 2 {
                // SAFETY: as unpacked above; each of `acts` has a record per cell, `out` has 16 floats per column and tile.
                unsafe {
                    tile::times_block(
                        isa,
                        form,
                        count,
                        codes,
                        scratch.scales.as_ptr(),
                        &scratch.acts,
                        out.as_mut_ptr(),
                    );
                }
                continue;
            }
            // More than two tiles: their sums lie among those of the others.
            let mut some = [0.0f32; 2 * LANES * 16];
            for (n, acts) in scratch.acts.chunks(16).enumerate() {
                // SAFETY: as above; `some` has room for 16 columns of two tiles.
                unsafe { tile::times_block(isa, form, count, codes, scratch.scales.as_ptr(), acts, some.as_mut_ptr()) }
                for (i, some) in some.chunks_exact(count * LANES).take(acts.len()).enumerate() {
                    out[((16 * n + i) * tiles + from) * LANES..][..count * LANES].copy_from_slice(some);
                }
            }
        }
    }

    fn floats(
        &self,
        isa: Isa,
        kind: Float,
        data: &[u8],
        (part, tile, tiles): (usize, usize, usize),
        x: &Input<'_>,
        columns: &[u32],
        (out, scratch): (&mut [f32], &mut Scratch),
    ) {
        let row_bytes = self.cols * kind.bytes();
        let held = data.len() / row_bytes;
        scratch.floats.clear();
        let row = |c: &u32| x.floats[*c as usize * self.cols..][..self.cols].as_ptr();
        scratch.floats.extend(columns.iter().map(row));
        let count = (tiles * LANES).min(self.rows - tile * LANES);
        let mut done = 0;
        while done < count {
            let first = (part * self.rows + tile * LANES + done) % held;
            let rows = (count - done).min(held - first);
            let data = &data[first * row_bytes..][..rows * row_bytes];
            let of = float::Rows { first: data.as_ptr(), rows, cols: self.cols, apart: tiles * LANES };
            // SAFETY: the instructions are there; `data` has the rows, each of `floats` the columns, and `out` was measured by
            // the caller: 16 floats per column and tile, of which these are rows `done..done + rows`.
            unsafe { float::times(isa, kind, of, &scratch.floats, out[done..].as_mut_ptr()) };
            done += rows;
        }
    }
}

/// Packs rows `first..first + count` of `data`, which repeat, after `look` has seen each.
fn pack_rows<E>(
    isa: Isa,
    format: &Format,
    (data, row_bytes): (&[u8], usize),
    (first, count): (usize, usize),
    cols: usize,
    tile: &mut [u8],
    look: &Inspect<'_, E>,
) -> Result<(), E> {
    let held = data.len() / row_bytes;
    let mut rows: [&[u8]; LANES] = [&[]; LANES];
    // Rows of a file follow each other: looked at together, they cost one call.
    let from = first % held * row_bytes;
    let all = data.get(from..from + count * row_bytes);
    if let Some(all) = all {
        look(from, all)?;
    }
    for (i, row) in rows[..count].iter_mut().enumerate() {
        let at = (first + i) % held * row_bytes;
        *row = &data[at..][..row_bytes];
        if all.is_none() {
            look(at, row)?;
        }
    }
    debug_assert!(cols.is_multiple_of(CELL));
    // SAFETY: packing needs no instructions but those that `isa` was found with.
    unsafe { pack::pack(isa, format.id, &rows[..count], cols, tile) };
    Ok(())
}
