//! Tables that shaders look decoded values up in: one per format that needs one, all of them in one buffer on the device.

use crate::codes::Codes;
use crate::format::{Format, FormatId};
use crate::formats::{all, find};
use crate::grid::{self, Grid};
use crate::{iq4_nl, mxfp4};

/// What the shaders of some formats keep in shared memory.
#[derive(Debug)]
pub struct SharedTable {
    /// The formats.
    pub formats: &'static [FormatId],
    codebook: Option<&'static Grid>,
    levels: Option<&'static [i8; 16]>,
}

const fn codebook(formats: &'static [FormatId], grid: &'static Grid) -> SharedTable {
    SharedTable { formats, codebook: Some(grid), levels: None }
}

const fn levels(formats: &'static [FormatId], levels: &'static [i8; 16]) -> SharedTable {
    SharedTable { formats, codebook: None, levels: Some(levels) }
}

/// Bytes that the copies of a table take where nothing else is said.
pub const USUAL_BYTES: usize = 8 << 10;

/// Every table.
pub const TABLES: &[SharedTable] = &[
    codebook(&[FormatId::Iq2Xxs], &grid::IQ2_XXS),
    codebook(&[FormatId::Iq2Xs], &grid::IQ2_XS),
    codebook(&[FormatId::Iq2S], &grid::IQ2_S),
    codebook(&[FormatId::Iq3Xxs], &grid::IQ3_XXS),
    codebook(&[FormatId::Iq3S], &grid::IQ3_S),
    codebook(&[FormatId::Iq1S, FormatId::Iq1M], &grid::IQ1),
    levels(&[FormatId::Iq4Nl, FormatId::Iq4Xs], &iq4_nl::LEVELS),
    levels(&[FormatId::Mxfp4, FormatId::Nvfp4], &mxfp4::LEVELS),
];

/// The table of a format.
pub fn of(format: FormatId) -> Option<&'static SharedTable> {
    TABLES.iter().find(|t| t.formats.contains(&format))
}

/// All tables, one after the other, and after them where the bits of codes come from, of every format that has any.
pub fn pack_all() -> Vec<u32> {
    let codes = all().filter_map(|f| f.codes.as_ref()).flat_map(Codes::words);
    TABLES.iter().flat_map(SharedTable::words).chain(codes).collect()
}

/// Word of [`pack_all`] from which on it says where the bits of a format's codes come from.
pub fn codes_at(format: FormatId) -> usize {
    let tables: usize = TABLES.iter().map(SharedTable::len_words).sum();
    let before = all().take_while(|f| f.id != format).filter_map(|f| f.codes.as_ref());
    tables + before.map(|c| 8 * c.len_bytes()).sum::<usize>()
}

/// Word of [`pack_all`] from which on the codebook stands that blocks of a format in files are made with, if they are.
pub fn codebook_at(format: &Format) -> usize {
    find(format.ggml_id).and_then(|f| of(f.id)).map_or(0, SharedTable::at)
}

impl SharedTable {
    /// Sixteen levels that nibbles choose from, as signed bytes, if that is all there is.
    pub fn pack_levels(&self) -> Option<[u32; 4]> {
        let levels = self.levels?;
        let word = |i: usize| u32::from_le_bytes([0, 1, 2, 3].map(|j| levels[4 * i + j] as u8));
        Some([0, 1, 2, 3].map(word))
    }

    /// Words of the table.
    pub fn len_words(&self) -> usize {
        self.codebook.map_or(256, |g| g.codes.len() * self.entry_words())
    }

    /// Words of all tables before this one.
    pub fn at(&self) -> usize {
        TABLES.iter().take_while(|t| t.formats != self.formats).map(SharedTable::len_words).sum()
    }

    /// Words of an entry.
    pub fn entry_words(&self) -> usize {
        self.codebook.map_or(1, |g| if g.width == 8 && g.levels[0] >= 0 { 2 } else { 1 })
    }

    /// How often the table fits into so many bytes, once at least: a power of two, and no more than keep the 32 threads of a
    /// subgroup, or the 16 that read two words each, from meeting in a bank.
    pub fn copies(&self, len_bytes: usize) -> usize {
        let fit = (len_bytes / (4 * self.len_words())).max(1);
        (1 << fit.ilog2()).min(32 / self.entry_words())
    }

    /// The codebook's entries as signed bytes, two words each (one where entries have four values or are nibbles), or, for
    /// every byte of two nibbles, its low level and 16 bits above it its high one.
    pub fn words(&self) -> Vec<u32> {
        let mut words = self.codebook.map_or(Vec::new(), entries);
        if let Some(levels) = self.levels {
            let level = |i: usize| u32::from(levels[i] as u8);
            words.extend((0..256).map(|i| level(i & 15) | level(i >> 4) << 16));
        }
        words
    }
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
