//! Tables that shaders look decoded values up in: one per format that needs one, all of them in one buffer on the device.

use crate::grid::{self, Grid};
use crate::{iq4_nl, mxfp4, FormatId};

/// What the shaders of some formats keep in shared memory.
#[derive(Debug)]
pub struct Table {
    /// The formats.
    pub formats: &'static [FormatId],
    codebook: Option<&'static Grid>,
    /// Bits of a sign pattern as stored: 7 (the number of minus signs is even), 8, or 0 for none.
    sign_bits: u32,
    levels: Option<&'static [i8; 16]>,
}

const fn codebook(formats: &'static [FormatId], grid: &'static Grid, sign_bits: u32) -> Table {
    Table { formats, codebook: Some(grid), sign_bits, levels: None }
}

const fn levels(formats: &'static [FormatId], levels: &'static [i8; 16]) -> Table {
    Table { formats, codebook: None, sign_bits: 0, levels: Some(levels) }
}

/// Every table.
pub const TABLES: &[Table] = &[
    codebook(&[FormatId::Iq2Xxs], &grid::IQ2_XXS, 7),
    codebook(&[FormatId::Iq2Xs], &grid::IQ2_XS, 7),
    codebook(&[FormatId::Iq2S], &grid::IQ2_S, 8),
    codebook(&[FormatId::Iq3Xxs], &grid::IQ3_XXS, 7),
    codebook(&[FormatId::Iq3S], &grid::IQ3_S, 8),
    codebook(&[FormatId::Iq1S, FormatId::Iq1M], &grid::IQ1, 0),
    levels(&[FormatId::Iq4Nl, FormatId::Iq4Xs], &iq4_nl::LEVELS),
    levels(&[FormatId::Mxfp4, FormatId::Nvfp4], &mxfp4::LEVELS),
];

/// The table of a format.
pub fn of(format: FormatId) -> Option<&'static Table> {
    TABLES.iter().find(|t| t.formats.contains(&format))
}

/// All tables, one after the other.
pub fn packed() -> Vec<u32> {
    TABLES.iter().flat_map(Table::words).collect()
}

impl Table {
    /// Sixteen levels that nibbles choose from, as signed bytes, if that is all there is.
    pub fn packed_levels(&self) -> Option<[u32; 4]> {
        let levels = self.levels?;
        let word = |i: usize| u32::from_le_bytes([0, 1, 2, 3].map(|j| levels[4 * i + j] as u8));
        Some([0, 1, 2, 3].map(word))
    }

    /// Words of all tables before this one.
    pub fn at(&self) -> usize {
        TABLES.iter().take_while(|t| t.formats != self.formats).map(|t| t.words().len()).sum()
    }

    /// Words of the codebook, after which the sign patterns stand.
    pub fn signs_at(&self) -> usize {
        self.codebook.map_or(0, |g| entries(g).len())
    }

    /// The codebook's entries as signed bytes, two words each (one where entries have four values or are nibbles); sign
    /// patterns as masks of eight bytes; for every byte of two nibbles, its low level and 16 bits above it its high one.
    pub fn words(&self) -> Vec<u32> {
        let mut words = self.codebook.map_or(Vec::new(), entries);
        for i in 0..if self.sign_bits == 0 { 0 } else { 1u32 << self.sign_bits } {
            let eight = if self.sign_bits == 7 { grid::signs(i) } else { i as u8 };
            words.extend([spread(eight & 15), spread(eight >> 4)]);
        }
        if let Some(levels) = self.levels {
            let level = |i: usize| u32::from(levels[i] as u8);
            words.extend((0..256).map(|i| level(i & 15) | level(i >> 4) << 16));
        }
        words
    }
}

/// Bits 0..4 as bytes of ones.
fn spread(bits: u8) -> u32 {
    (0..4).map(|i| if bits >> i & 1 == 1 { 0xff << (8 * i) } else { 0 }).sum()
}

fn entries(grid: &Grid) -> Vec<u32> {
    let byte = |i: usize, j: usize| u32::from(grid.levels[grid.level(i, j)] as u8);
    let bytes = |i: usize, from: usize| (0..4).map(|j| byte(i, from + j) << (8 * j)).sum();
    // Signed values -1, 0, 1 are kept as 0, 1, 2, of which eight fit a word: the first four in the bytes' low nibbles.
    let nibbles = |i: usize| (0..8).map(|j| (grid.level(i, j) as u32) << (8 * (j % 4) + j / 4 * 4)).sum();
    let count = 0..grid.codes.len();
    match (grid.width, grid.levels[0] < 0) {
        (8, true) => count.map(nibbles).collect(),
        (8, false) => count.flat_map(|i| [bytes(i, 0), bytes(i, 4)]).collect(),
        _ => count.map(|i| bytes(i, 0)).collect(),
    }
}
