//! Rows of blocks, as files have them, into tiles.

use crate::formats::{with_format, Source};
use crate::layout::{Block, Codes, Scales, CELL};
use crate::simd::{entries, Simd, LANES};
use pumex_quant::FormatId;

/// Blocks of the rows of a tile.
type Blocks = [Block; LANES];

/// Words of four codes of a cell.
type Chunks = [u32; CELL / 4];

/// The four-bit parts of codes, in four words.
#[inline(always)]
fn nibbles(chunk: &Chunks, j: usize) -> u32 {
    chunk[j] & 0x0f0f_0f0f | (chunk[j + 4] & 0x0f0f_0f0f) << 4
}

/// The two-bit parts from bit `from` on, in two words.
#[inline(always)]
fn pairs(chunk: &Chunks, i: usize, from: u32) -> u32 {
    let pair = |p: usize| (chunk[2 * p + i] >> from & 0x0303_0303) << (2 * p);
    pair(0) | pair(1) | pair(2) | pair(3)
}

/// Bit `from` of all codes, in one word.
#[inline(always)]
fn bits(chunk: &Chunks, from: u32) -> u32 {
    let mut word = 0;
    for (c, chunk) in chunk.iter().enumerate() {
        word |= (chunk >> from & 0x0101_0101) << c;
    }
    word
}

/// Writes cell `c` of all rows as the `V` words that `words` makes of a row's codes: word by word, rows side by side.
///
/// # Safety
/// `to` has `V` vectors of 64 bytes.
#[inline(always)]
unsafe fn put_words<const V: usize>(rows: &Blocks, c: usize, to: *mut u8, words: impl Fn(&Chunks) -> [u32; V]) {
    for (row, block) in rows.iter().enumerate() {
        let cell = &block.codes[c * CELL..][..CELL];
        let mut chunk = [0; CELL / 4];
        for (word, b) in chunk.iter_mut().zip(cell.chunks_exact(4)) {
            *word = u32::from_le_bytes([b[0], b[1], b[2], b[3]]);
        }
        for (v, word) in words(&chunk).into_iter().enumerate() {
            // SAFETY: `v` is below `V`, `row` below 16.
            unsafe { to.add(64 * v + 4 * row).cast::<[u8; 4]>().write(word.to_le_bytes()) };
        }
    }
}

/// Writes the codes of cell `c` of all rows.
///
/// # Safety
/// `to` has the vectors of these codes.
#[inline(always)]
unsafe fn put_codes(codes: Codes, rows: &Blocks, c: usize, to: *mut u8) {
    let (n, p) = (nibbles, pairs);
    // SAFETY: the caller answers for the room.
    unsafe {
        match codes {
            Codes::Two => put_words(rows, c, to, |w| [p(w, 0, 0), p(w, 1, 0)]),
            Codes::Three => put_words(rows, c, to, |w| [p(w, 0, 0), p(w, 1, 0), bits(w, 2)]),
            Codes::Four => put_words(rows, c, to, |w| [n(w, 0), n(w, 1), n(w, 2), n(w, 3)]),
            Codes::Five => put_words(rows, c, to, |w| [n(w, 0), n(w, 1), n(w, 2), n(w, 3), bits(w, 4)]),
            Codes::Six => put_words(rows, c, to, |w| [n(w, 0), n(w, 1), n(w, 2), n(w, 3), p(w, 0, 4), p(w, 1, 4)]),
            Codes::Eight => put_words(rows, c, to, |w| *w),
        }
    }
}

/// Writes a number of each row, side by side.
///
/// # Safety
/// `to` has 16 of them.
#[inline(always)]
unsafe fn put_each<T>(rows: &Blocks, to: *mut u8, of: impl Fn(&Block) -> T) {
    for (row, block) in rows.iter().enumerate() {
        // SAFETY: `row` is below 16.
        unsafe { to.cast::<T>().add(row).write_unaligned(of(block)) };
    }
}

/// Writes the scales of cell `c` of all rows, and before the first of them those of the scales.
///
/// # Safety
/// `to` has [`Scales::cell_bytes`], `above` [`Scales::super_bytes`].
#[inline(always)]
unsafe fn put_scales(kind: Scales, rows: &Blocks, c: usize, to: *mut u8, above: *mut u8) {
    let groups = CELL / kind.group();
    // SAFETY: the caller answers for the room. Bytes of a number lie as x86 and ARM have them.
    unsafe {
        match kind {
            Scales::Half => put_each(rows, to, |b| b.halves[c].to_le()),
            Scales::HalfMin => {
                put_each(rows, to, |b| b.halves[c].to_le());
                put_each(rows, to.add(32), |b| b.half_mins[c].to_le());
            }
            Scales::Half16 => {
                put_each(rows, to, |b| b.halves[2 * c].to_le());
                put_each(rows, to.add(32), |b| b.halves[2 * c + 1].to_le());
            }
            Scales::Float => put_each(rows, to, |b| b.floats[c].to_bits().to_le()),
            Scales::Byte | Scales::Byte16 | Scales::ByteMin | Scales::Byte16Min => {
                for g in 0..groups {
                    put_each(rows, to.add(16 * g), |b| b.scales[groups * c + g]);
                    if kind.has_min() {
                        put_each(rows, to.add(16 * (groups + g)), |b| b.mins[groups * c + g]);
                    }
                }
            }
        }
        if kind.is_super() && c == 0 {
            put_each(rows, above, |b| b.d.to_le());
            if kind.has_min() {
                put_each(rows, above.add(32), |b| b.dmin.to_le());
            }
        }
    }
}

#[inline(always)]
fn tile_of<T: Source>(rows: &[&[u8]], cols: usize, tile: &mut [u8]) {
    let layout = T::LAYOUT;
    let (cells, blocks) = (T::LEN / CELL, cols / T::LEN);
    assert!(tile.len() >= layout.tile_bytes(blocks * T::LEN), "room for the tile");
    assert!(rows.iter().all(|row| row.len() >= blocks * T::BYTES), "whole rows");
    let tile = tile.as_mut_ptr();
    // Rows that lack are zero.
    let mut split: Blocks = std::array::from_fn(|_| Block::new());
    for at in 0..blocks {
        for (bytes, block) in rows.iter().zip(&mut split) {
            T::split(&bytes[at * T::BYTES..][..T::BYTES], block);
        }
        for c in 0..cells {
            let (codes, scales, above) = layout.places(at * cells + c);
            // SAFETY: the tile has room for all cells of the blocks, each in its place.
            unsafe {
                put_codes(layout.codes, &split, c, tile.add(codes));
                put_scales(layout.scales, &split, c, tile.add(scales), tile.add(above));
            }
        }
    }
}

/// Up to 16 rows of `cols` weights into a tile; rows that lack are zero.
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
