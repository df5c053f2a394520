//! Rows of blocks, as files have them, into tiles.

use crate::formats::{with_format, FormatUnpacker};
use crate::layout::{Codes, FormatBlock, Scales, CELL};
use crate::simd::{entries, Simd, LANES};
use crate::tile::field;
use pumex_quant::FormatId;

/// Blocks of the rows of a tile.
type TileBlocks = [FormatBlock; LANES];

/// Left by so many bits, of codes that stay within their bytes; a match, because shifts take constants.
///
/// # Safety
/// As of [`Simd`].
#[inline(always)]
unsafe fn shift_left<S: Simd>(v: S::B, by: usize) -> S::B {
    // SAFETY: the caller answers for the instructions.
    unsafe {
        match by {
            0 => v,
            1 => S::left::<1>(v),
            2 => S::left::<2>(v),
            3 => S::left::<3>(v),
            4 => S::left::<4>(v),
            5 => S::left::<5>(v),
            6 => S::left::<6>(v),
            _ => S::left::<7>(v),
        }
    }
}

/// Codes of a cell: of each of eight chunks of four, those of all rows.
type TileCell<S> = [<S as Simd>::B; 8];

/// The four-bit parts of chunks `j` and `j + 4`.
///
/// # Safety
/// As of [`Simd`].
#[inline(always)]
unsafe fn nibbles<S: Simd>(cell: &TileCell<S>, j: usize) -> S::B {
    // SAFETY: the caller answers for the instructions.
    unsafe { S::or(field::<S>(cell[j], 0, 15), shift_left::<S>(field::<S>(cell[j + 4], 0, 15), 4)) }
}

/// The two-bit parts from bit `from` on of chunks `i`, `i + 2`, `i + 4` and `i + 6`.
///
/// # Safety
/// As of [`Simd`].
#[inline(always)]
unsafe fn pairs<S: Simd>(cell: &TileCell<S>, i: usize, from: usize) -> S::B {
    // SAFETY: the caller answers for the instructions.
    unsafe {
        let mut all = field::<S>(cell[i], from, 3);
        for p in 1..4 {
            all = S::or(all, shift_left::<S>(field::<S>(cell[2 * p + i], from, 3), 2 * p));
        }
        all
    }
}

/// Bit `from` of all chunks.
///
/// # Safety
/// As of [`Simd`].
#[inline(always)]
unsafe fn bits<S: Simd>(cell: &TileCell<S>, from: usize) -> S::B {
    // SAFETY: the caller answers for the instructions.
    unsafe {
        let mut all = field::<S>(cell[0], from, 1);
        for c in 1..8 {
            all = S::or(all, shift_left::<S>(field::<S>(cell[c], from, 1), c));
        }
        all
    }
}

/// Writes the codes of cell `c` of all rows.
///
/// # Safety
/// As of [`Simd`]; `to` has the vectors of these codes.
#[inline(always)]
unsafe fn put_codes<S: Simd>(codes: Codes, rows: &TileBlocks, c: usize, to: *mut u8) {
    // SAFETY: the caller answers for the instructions and the room; blocks lie one after the other, and each has 256 codes.
    unsafe {
        let (first, apart) = (rows.as_ptr().cast::<u8>(), size_of::<FormatBlock>());
        let at = first.add(std::mem::offset_of!(FormatBlock, codes) + c * CELL);
        let ([a, b, c, d], [e, f, g, h]) = (S::words(at, apart), S::words(at.add(16), apart));
        let cell: TileCell<S> = [a, b, c, d, e, f, g, h];
        // No closures: they would not have the instructions.
        if matches!(codes, Codes::Four | Codes::Five | Codes::Six) {
            for j in 0..4 {
                S::put_bytes(to.add(64 * j), nibbles::<S>(&cell, j));
            }
        }
        match codes {
            Codes::Two | Codes::Three => {
                S::put_bytes(to, pairs::<S>(&cell, 0, 0));
                S::put_bytes(to.add(64), pairs::<S>(&cell, 1, 0));
                if codes == Codes::Three {
                    S::put_bytes(to.add(128), bits::<S>(&cell, 2));
                }
            }
            Codes::Four => {}
            Codes::Five => S::put_bytes(to.add(256), bits::<S>(&cell, 4)),
            Codes::Six => {
                S::put_bytes(to.add(256), pairs::<S>(&cell, 0, 4));
                S::put_bytes(to.add(320), pairs::<S>(&cell, 1, 4));
            }
            Codes::Eight => {
                for c in 0..8 {
                    S::put_bytes(to.add(64 * c), cell[c]);
                }
            }
        }
    }
}

/// Writes a number of each row, side by side.
///
/// # Safety
/// `to` has 16 of them.
#[inline(always)]
unsafe fn put_each<T>(rows: &TileBlocks, to: *mut u8, of: impl Fn(&FormatBlock) -> T) {
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
unsafe fn put_scales(kind: Scales, rows: &TileBlocks, c: usize, to: *mut u8, above: *mut u8) {
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

/// # Safety
/// As of [`Simd`].
#[inline(always)]
unsafe fn tile_of<S: Simd, T: FormatUnpacker>(rows: &[&[u8]], cols: usize, tile: &mut [u8]) {
    let layout = T::LAYOUT;
    let (cells, blocks) = (T::LEN / CELL, cols / T::LEN);
    assert!(tile.len() >= layout.tile_bytes(blocks * T::LEN), "room for the tile");
    assert!(rows.iter().all(|row| row.len() >= blocks * T::BYTES), "whole rows");
    let tile = tile.as_mut_ptr();
    // Rows that lack are zero.
    let mut split: TileBlocks = std::array::from_fn(|_| FormatBlock::new());
    for at in 0..blocks {
        for (bytes, block) in rows.iter().zip(&mut split) {
            T::split(&bytes[at * T::BYTES..][..T::BYTES], block);
        }
        for c in 0..cells {
            let (codes, scales, above) = layout.places(at * cells + c);
            // SAFETY: the caller answers for the instructions; the tile has room for all cells of the blocks, each in its place.
            unsafe {
                put_codes::<S>(layout.codes, &split, c, tile.add(codes));
                put_scales(layout.scales, &split, c, tile.add(scales), tile.add(above));
            }
        }
    }
}

/// Up to 16 rows of `cols` weights into a tile; rows that lack are zero.
///
/// # Safety
/// As of [`Simd`].
#[inline(always)]
unsafe fn pack_any<S: Simd>(format: FormatId, rows: &[&[u8]], cols: usize, tile: &mut [u8]) {
    debug_assert!(rows.len() <= LANES);
    // SAFETY: the caller answers for the instructions.
    unsafe { with_format!(format, T => tile_of::<S, T>(rows, cols, tile), else => ()) };
}

entries! {
    /// Packs up to 16 rows, each of the bytes of `cols` weights, into a tile of [`crate::layout::WeightLayout::tile_bytes`].
    pub(crate) fn pack(format: FormatId, rows: &[&[u8]], cols: usize, tile: &mut [u8]) = pack_any;
}

/// Weight `col` of row `row` of a tile, as kernels take it: to test kernels and packing apart.
#[cfg(test)]
pub(crate) fn weight(layout: &crate::layout::WeightLayout, tile: &[u8], row: usize, col: usize) -> f32 {
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
