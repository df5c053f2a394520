//! Matrices as files have them, and how they come from there: chunk by chunk, looked at before they are read, and packed.

use crate::buffer::DisjointParts;
use crate::layout::{WeightLayout, CELL};
use crate::simd::LANES;
use crate::{formats, pack, Isa};
use pumex_quant::Format;

/// Bytes that a thread brings in and packs at a time: a huge page, for two threads that touch the same first both clear it.
const PACK_BYTES: usize = 2 << 20;

/// Sees bytes of a matrix and where they start, before they are read, and may refuse them.
pub type Inspect<'a, E> = dyn Fn(usize, &[u8]) -> Result<(), E> + Sync + 'a;

/// Shape of a matrix's data.
#[derive(Clone, Copy, Debug)]
pub struct DataShape {
    /// Matrices, one below the other.
    pub parts: usize,
    /// Rows of each.
    pub rows: usize,
    /// Columns.
    pub cols: usize,
}

/// A matrix as a file has it.
pub struct FileMatrix<'a, 'i, E> {
    /// The weight format of the blocks in the file.
    pub format: &'static Format,
    /// How much there is of it.
    pub shape: DataShape,
    /// Its rows, which repeat if there are fewer than the shape has.
    pub data: &'a [u8],
    /// Blocks become tiles; else they stay where they are.
    pub repack: bool,
    /// Sees all bytes before they are read.
    pub inspect: Box<Inspect<'i, E>>,
}

impl<'a, E: Send> FileMatrix<'a, '_, E> {
    /// The form it is brought into.
    pub(crate) fn layout(&self) -> Option<WeightLayout> {
        formats::layout(self.format.id).filter(|_| self.repack)
    }

    /// Bytes of a row of blocks.
    pub(crate) fn row_bytes(&self) -> usize {
        self.format.row_bytes(self.shape.cols).unwrap_or(0)
    }

    /// Tiles of a chunk, and of a part.
    fn tiles(&self, layout: &WeightLayout) -> (usize, usize) {
        let bytes = layout.tile_bytes(self.shape.cols);
        ((PACK_BYTES / bytes.max(1)).max(1), self.shape.rows.div_ceil(LANES))
    }

    /// Bytes of a chunk that is only looked at.
    fn block_chunk(&self) -> usize {
        PACK_BYTES / self.format.block_bytes * self.format.block_bytes
    }

    /// Chunks that threads take.
    pub(crate) fn chunks(&self) -> usize {
        match self.layout() {
            Some(layout) => {
                let (step, tiles) = self.tiles(&layout);
                (self.shape.parts * tiles).div_ceil(step)
            }
            None => self.data.len().div_ceil(self.block_chunk()),
        }
    }

    /// Looks at a chunk and packs it, into its part of `tiles`.
    pub(crate) fn load(&self, isa: Isa, chunk: usize, tiles: &DisjointParts<u8>) -> Result<(), E> {
        let Some(layout) = self.layout() else {
            let (from, len) = (chunk * self.block_chunk(), self.block_chunk());
            return (self.inspect)(from, &self.data[from..self.data.len().min(from + len)]);
        };
        let (DataShape { parts, rows, cols }, row_bytes) = (self.shape, self.row_bytes());
        let ((step, in_part), bytes) = (self.tiles(&layout), layout.tile_bytes(cols));
        let (first, last) = (chunk * step, ((chunk + 1) * step).min(parts * in_part));
        let row = |tile: usize| tile / in_part * rows + (tile % in_part * LANES).min(rows);
        let held = self.data.len() / row_bytes;
        let (from, to) = (row(first).min(held) * row_bytes, row(last).min(held) * row_bytes);
        if from < to {
            (self.inspect)(from, &self.data[from..to])?;
        }
        for t in first..last {
            let count = LANES.min(rows - t % in_part * LANES);
            // SAFETY: every tile is written by the one thread that has its chunk.
            let tile = unsafe { tiles.part(t * bytes, bytes) };
            pack_rows(isa, self.format, (self.data, row_bytes), (row(t), count), cols, tile);
        }
        Ok(())
    }
}

/// Packs rows `first..first + count` of `data`, which repeat.
pub(crate) fn pack_rows(
    isa: Isa,
    format: &Format,
    (data, row_bytes): (&[u8], usize),
    (first, count): (usize, usize),
    cols: usize,
    tile: &mut [u8],
) {
    let held = data.len() / row_bytes;
    let mut rows: [&[u8]; LANES] = [&[]; LANES];
    for (i, row) in rows[..count].iter_mut().enumerate() {
        *row = &data[(first + i) % held * row_bytes..][..row_bytes];
    }
    debug_assert!(cols.is_multiple_of(CELL));
    // SAFETY: packing needs no instructions but those that `isa` was found with.
    unsafe { pack::pack(isa, format.id, &rows[..count], cols, tile) };
}
