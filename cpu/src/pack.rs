//! Rows of blocks, as files have them, into tiles.

use crate::formats::{with_format, Source};
use crate::layout::{Block, Codes, Scales, CELL};
use crate::simd::{entries, Simd, LANES};
use pumex_quant::FormatId;

/// Writes the codes of a cell, as words of four weights, into the vectors of a tile at this row.
#[inline(always)]
fn put_cell(codes: Codes, chunk: &[u32; 8], to: &mut [u8], row: usize) {
    let mut put = |vector: usize, word: u32| to[64 * vector + 4 * row..][..4].copy_from_slice(&word.to_le_bytes());
    let nibbles = |j: usize| chunk[j] & 0x0f0f_0f0f | (chunk[j + 4] & 0x0f0f_0f0f) << 4;
    let pairs = |i: usize, from: u32| {
        let pair = |p: usize| (chunk[2 * p + i] >> from & 0x0303_0303) << (2 * p);
        pair(0) | pair(1) | pair(2) | pair(3)
    };
    let bits = |from: u32| {
        let mut word = 0;
        for (c, chunk) in chunk.iter().enumerate() {
            word |= (chunk >> from & 0x0101_0101) << c;
        }
        word
    };
    match codes {
        Codes::Two => (0..2).for_each(|i| put(i, pairs(i, 0))),
        Codes::Three => {
            (0..2).for_each(|i| put(i, pairs(i, 0)));
            put(2, bits(2));
        }
        Codes::Four => (0..4).for_each(|j| put(j, nibbles(j))),
        Codes::Five => {
            (0..4).for_each(|j| put(j, nibbles(j)));
            put(4, bits(4));
        }
        Codes::Six => {
            (0..4).for_each(|j| put(j, nibbles(j)));
            (0..2).for_each(|i| put(4 + i, pairs(i, 4)));
        }
        Codes::Eight => chunk.iter().enumerate().for_each(|(c, word)| put(c, *word)),
    }
}

/// Writes the scales of a cell, of which the block has number `c`, to where they are in the tile, at this row.
#[inline(always)]
fn put_scales(kind: Scales, b: &Block, c: usize, (at, above): (usize, usize), tile: &mut [u8], row: usize) {
    let group = CELL / kind.group();
    let to = &mut tile[at..][..kind.cell_bytes()];
    match kind {
        Scales::Half => to[2 * row..][..2].copy_from_slice(&b.halves[c].to_le_bytes()),
        Scales::HalfMin => {
            to[2 * row..][..2].copy_from_slice(&b.halves[c].to_le_bytes());
            to[32 + 2 * row..][..2].copy_from_slice(&b.half_mins[c].to_le_bytes());
        }
        Scales::Half16 => {
            to[2 * row..][..2].copy_from_slice(&b.halves[2 * c].to_le_bytes());
            to[32 + 2 * row..][..2].copy_from_slice(&b.halves[2 * c + 1].to_le_bytes());
        }
        Scales::Float => to[4 * row..][..4].copy_from_slice(&b.floats[c].to_le_bytes()),
        Scales::Byte | Scales::Byte16 | Scales::ByteMin | Scales::Byte16Min => {
            for g in 0..group {
                to[16 * g + row] = b.scales[group * c + g];
                if kind.has_min() {
                    to[16 * (group + g) + row] = b.mins[group * c + g];
                }
            }
        }
    }
    if kind.is_super() && c == 0 {
        tile[above + 2 * row..][..2].copy_from_slice(&b.d.to_le_bytes());
        if kind.has_min() {
            tile[above + 32 + 2 * row..][..2].copy_from_slice(&b.dmin.to_le_bytes());
        }
    }
}

#[inline(always)]
fn tile_of<T: Source>(rows: &[&[u8]], cols: usize, tile: &mut [u8]) {
    let layout = T::LAYOUT;
    let (cells, cell_bytes) = (T::LEN / CELL, 64 * layout.codes.vectors());
    let mut block = Block::new();
    for at in 0..cols / T::LEN {
        for (row, bytes) in rows.iter().enumerate() {
            T::split(&bytes[at * T::BYTES..][..T::BYTES], &mut block);
            for (c, cell) in block.codes.chunks_exact(CELL).take(cells).enumerate() {
                let (codes, scales, above) = layout.places(at * cells + c);
                let mut chunk = [0; 8];
                for (word, b) in chunk.iter_mut().zip(cell.chunks_exact(4)) {
                    *word = u32::from_le_bytes([b[0], b[1], b[2], b[3]]);
                }
                put_cell(layout.codes, &chunk, &mut tile[codes..][..cell_bytes], row);
                put_scales(layout.scales, &block, c, (scales, above), tile, row);
            }
        }
    }
}

/// Up to 16 rows of `cols` weights into a tile, which is zero where rows lack.
///
/// # Safety
/// None is needed: it has the form of the kernels, so that it is compiled for every instruction set.
#[inline(always)]
#[allow(clippy::extra_unused_type_parameters)]
unsafe fn pack_any<S: Simd>(format: FormatId, rows: &[&[u8]], cols: usize, tile: &mut [u8]) {
    debug_assert!(rows.len() <= LANES);
    with_format!(format, T => tile_of::<T>(rows, cols, tile), else => ());
}

entries! {
    /// Packs up to 16 rows, each of the bytes of `cols` weights, into a tile of [`crate::layout::Layout::tile_bytes`].
    pub(crate) fn pack(format: FormatId, rows: &[&[u8]], cols: usize, tile: &mut [u8]) = pack_any;
}

/// Weight `col` of row `row` of a tile, as kernels take it: to test kernels and packing apart.
#[cfg(test)]
pub(crate) fn weight(layout: &crate::layout::Layout, tile: &[u8], row: usize, col: usize) -> f32 {
    let (cell, c, lane) = (col / CELL, col % CELL / 4, 4 * row + col % 4);
    let (codes, at, above) = layout.places(cell);
    let vector = |v: usize| tile[codes + v * 64 + lane];
    let nibble = || vector(c % 4) >> (4 * (c / 4)) & 15;
    let pair = |at: usize| vector(at + c % 2) >> (2 * (c / 2)) & 3;
    let looked_up = |code: u8| layout.table[usize::from(code)];
    let code = match layout.codes {
        Codes::Two => looked_up(pair(0)),
        Codes::Three => looked_up(pair(0) | (vector(2) >> c & 1) << 2),
        Codes::Four => looked_up(nibble()),
        Codes::Five => (nibble() | (vector(4) >> c & 1) << 4) + layout.table[0],
        Codes::Six => (nibble() | pair(4) << 4) + layout.table[0],
        Codes::Eight => vector(c),
    };
    let kind = layout.scales;
    let (at, above) = (&tile[at..], &tile[above..]);
    let half = |b: &[u8], i: usize| half::f16::from_le_bytes([b[2 * i], b[2 * i + 1]]).to_f32();
    let g = col % CELL / kind.group();
    let (scale, min) = match kind {
        Scales::Half => (half(at, row), 0.0),
        Scales::HalfMin => (half(at, row), half(&at[32..], row)),
        Scales::Half16 => (half(&at[32 * g..], row), 0.0),
        Scales::Float => (f32::from_le_bytes([0, 1, 2, 3].map(|i| at[4 * row + i])), 0.0),
        Scales::Byte | Scales::Byte16 => (f32::from(at[16 * g + row] as i8) * half(above, row), 0.0),
        Scales::ByteMin | Scales::Byte16Min => (
            f32::from(at[16 * g + row]) * half(above, row),
            f32::from(at[16 * (CELL / kind.group() + g) + row]) * half(&above[32..], row),
        ),
    };
    let zero = if kind.has_min() { 0.0 } else { 128.0 };
    layout.factor * (scale * (f32::from(code) - zero) - min)
}
