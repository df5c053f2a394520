//! Weight matrices as kernels read them: packed into tiles, in place where that is not wanted, or floats as they are.

use crate::activations::Acts;
use crate::buffer::{Arena, ArenaSlice, DisjointParts};
use crate::file_matrix::{pack_rows, DataShape, FileMatrix};
use crate::float::{self, Float};
use crate::formats;
use crate::layout::WeightLayout;
use crate::simd::LANES;
use crate::{tile, Isa, ThreadPool};
use pumex_quant::{Format, FormatId};
use std::cell::RefCell;
use std::sync::{Mutex, PoisonError};

/// Most tiles that an item of a product has.
pub(crate) const MOST_TILES: usize = 8;

/// Where the weights are.
enum Store<'a> {
    /// Tiles.
    Tiles(WeightLayout, ArenaSlice),
    /// Blocks of the file, packed tile by tile when they are used.
    Blocks(WeightLayout, &'a [u8]),
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

/// Activations of a product, `[n, cols]`: as floats, and in 8 bits where [`Matrix::takes_codes`].
#[derive(Clone, Copy)]
pub struct ProductInput<'a> {
    /// Floats.
    pub floats: &'a [f32],
    /// The input in 8 bits, with scales.
    pub acts: &'a Acts,
}

/// Room for a thread to work in.
#[derive(Default)]
pub(crate) struct ProductScratch {
    /// Unpacked codes.
    codes: Vec<ScaleLine>,
    scales: Vec<f32>,
    /// A tile packed on the way.
    tile: Vec<ScaleLine>,
    /// Where columns lie.
    acts: Vec<*const u8>,
    columns: Vec<*const u8>,
}

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct ScaleLine([u8; 64]);

impl ProductScratch {
    /// `len` bytes of lines.
    fn room(lines: &mut Vec<ScaleLine>, len: usize) -> &mut [u8] {
        let count = len.div_ceil(64);
        if lines.len() < count {
            lines.resize(count, ScaleLine([0; 64]));
        }
        // SAFETY: `count` lines of 64 plain bytes each, borrowed as long as `lines` is.
        unsafe { std::slice::from_raw_parts_mut(lines.as_mut_ptr().cast(), len) }
    }
}

thread_local! {
    static SCRATCH: RefCell<ProductScratch> = RefCell::new(ProductScratch::default());
}

impl<'a> Matrix<'a> {
    /// Matrices of all these, by all threads: where it is wanted, blocks become tiles.
    ///
    /// # Errors
    /// What an `inspect` gives; what `full` makes of a number of bytes for which there is no memory.
    ///
    /// # Panics
    /// If a row is no whole number of blocks, or a source has no whole row.
    pub fn load<E: Send>(
        (pool, isa): (&ThreadPool, Isa),
        sources: &[FileMatrix<'a, '_, E>],
        full: &dyn Fn(usize) -> E,
    ) -> Result<Vec<Matrix<'a>>, E> {
        let (mut arena, mut items) = (Arena::default(), Vec::new());
        let mut pieces = Vec::with_capacity(sources.len());
        for (i, source) in sources.iter().enumerate() {
            let row_bytes = source.row_bytes();
            assert!(row_bytes > 0 && source.data.len() >= row_bytes, "whole rows of {}", source.format.name);
            let tiles = source.shape.parts * source.shape.rows.div_ceil(LANES);
            let bytes = source.layout().map_or(0, |layout| tiles * layout.tile_bytes(source.shape.cols));
            pieces.push(arena.take(bytes).ok_or_else(|| full(bytes))?);
            items.extend((0..source.chunks()).map(|chunk| (i, chunk)));
        }
        let failed = Mutex::new(None);
        {
            let parts: Vec<DisjointParts<u8>> =
                pieces.iter_mut().map(|piece| DisjointParts::new(piece.bytes_mut())).collect();
            pool.each(items.len(), &|item| {
                let (i, chunk) = items[item];
                if let Err(error) = sources[i].load(isa, chunk, &parts[i]) {
                    failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                }
            });
        }
        if let Some(error) = failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            return Err(error);
        }
        let matrix = |(source, piece): (&FileMatrix<'a, '_, E>, ArenaSlice)| {
            let DataShape { parts, rows, cols } = source.shape;
            let store = match (source.layout(), formats::layout(source.format.id), source.format.id) {
                (Some(layout), ..) => Store::Tiles(layout, piece),
                (_, Some(layout), _) => Store::Blocks(layout, source.data),
                (_, _, FormatId::F16) => Store::Floats(Float::F16, source.data),
                (_, _, FormatId::Bf16) => Store::Floats(Float::Bf16, source.data),
                _ => Store::Floats(Float::F32, source.data),
            };
            Matrix { parts, rows, cols, format: source.format, store }
        };
        Ok(sources.iter().zip(pieces).map(matrix).collect())
    }

    /// One matrix; see [`Matrix::load`].
    ///
    /// # Panics
    /// Likewise.
    pub fn new(
        of: (&ThreadPool, Isa),
        format: &'static Format,
        shape: DataShape,
        data: &'a [u8],
        repack: bool,
    ) -> Matrix<'a> {
        let inspect = Box::new(|_: usize, _: &[u8]| Ok::<(), ()>(()));
        let made = Matrix::load(of, &[FileMatrix { format, shape, data, repack, inspect }], &|_| ());
        made.ok().and_then(|mut all| all.pop()).unwrap_or_else(|| unreachable!("nothing refuses it"))
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
        x: &ProductInput<'_>,
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
                let packed = ProductScratch::room(&mut room, tiles * bytes);
                packed.fill(0);
                for (t, packed) in packed.chunks_exact_mut(bytes).enumerate() {
                    let (first, count) = ((tile + t) * LANES, LANES.min(self.rows - (tile + t) * LANES));
                    let rows = (part * self.rows + first, count);
                    pack_rows(isa, self.format, (data, row_bytes), rows, self.cols, packed);
                }
                self.codes(isa, layout, packed, tiles, x, columns, (out, scratch));
                scratch.tile = room;
            }
        });
    }

    fn codes(
        &self,
        isa: Isa,
        layout: &WeightLayout,
        packed: &[u8],
        tiles: usize,
        x: &ProductInput<'_>,
        columns: &[u32],
        (out, scratch): (&mut [f32], &mut ProductScratch),
    ) {
        assert_eq!(x.acts.cols(), self.cols, "columns of the matrix");
        let form = tile::TileForm { layout, cols: self.cols, ahead: crate::isa::ahead() };
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
            let codes = ProductScratch::room(&mut scratch.codes, count * LANES * self.cols).as_mut_ptr();
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
        x: &ProductInput<'_>,
        columns: &[u32],
        (out, scratch): (&mut [f32], &mut ProductScratch),
    ) {
        let row_bytes = self.cols * kind.bytes();
        let held = data.len() / row_bytes;
        let column = |c: &u32| &x.floats[*c as usize * self.cols..][..self.cols];
        let rounds = float::rounds(isa, kind, columns.len());
        let ProductScratch { codes, columns: pointers, .. } = scratch;
        #[cfg(not(target_arch = "x86_64"))]
        let _ = codes;
        let some = if rounds { float::SOME } else { columns.len() };
        let count = (tiles * LANES).min(self.rows - tile * LANES);
        for (i, columns) in columns.chunks(some).enumerate() {
            pointers.clear();
            if rounds {
                #[cfg(target_arch = "x86_64")]
                {
                    let bytes = 2 * self.cols.next_multiple_of(2 * LANES);
                    let room = ProductScratch::room(codes, columns.len() * bytes);
                    for (c, room) in columns.iter().zip(room.chunks_exact_mut(bytes)) {
                        // SAFETY: the instructions are there, and room for whole vectors.
                        unsafe { float::round(column(c), room.as_mut_ptr()) };
                        pointers.push(room.as_ptr());
                    }
                }
            } else {
                pointers.extend(columns.iter().map(|c| column(c).as_ptr().cast::<u8>()));
            }
            let out = &mut out[i * some * tiles * LANES..];
            let mut done = 0;
            while done < count {
                let first = (part * self.rows + tile * LANES + done) % held;
                let rows = (count - done).min(held - first);
                let data = &data[first * row_bytes..][..rows * row_bytes];
                let of = float::Rows { first: data.as_ptr(), rows, cols: self.cols, apart: tiles * LANES };
                let out = out[done..].as_mut_ptr();
                // SAFETY: the instructions are there; `data` has the rows, each of `pointers` the columns, and `out` was measured by
                // the caller: 16 floats per column and tile, of which these are rows `done..done + rows`.
                unsafe {
                    #[cfg(target_arch = "x86_64")]
                    if rounds {
                        float::times_brains(of, pointers, out);
                        done += rows;
                        continue;
                    }
                    float::times(isa, kind, of, pointers, out);
                }
                done += rows;
            }
        }
    }
}
