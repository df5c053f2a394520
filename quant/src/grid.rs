//! Codebooks of the IQ formats: an entry is 8 (or 4) magnitudes out of a few levels, found by an index in the block.
//!
//! The entries are part of the format: facts, not choices. They are stored as 2 or 3 bits per value.

#[rustfmt::skip]
mod codes;

/// A codebook.
#[derive(Debug)]
pub struct Grid {
    /// Name, and stem of the shader's copy.
    pub name: &'static str,
    /// What a value can be.
    pub levels: &'static [i8],
    /// Values per entry: 8 or 4.
    pub width: usize,
    /// Entries, packed.
    pub codes: &'static [u16],
}

impl Grid {
    /// Bits per value in a code.
    pub fn bits(&self) -> usize {
        if self.width == 8 {
            2
        } else {
            3
        }
    }

    /// Value `j` of entry `index`.
    pub fn value(&self, index: usize, j: usize) -> f32 {
        f32::from(self.levels[self.level(index, j)])
    }

    /// Which level value `j` of entry `index` is.
    pub fn level(&self, index: usize, j: usize) -> usize {
        usize::from(self.codes[index]) >> (j * self.bits()) & ((1 << self.bits()) - 1)
    }
}

const TWO_BITS: &[i8] = &[8, 25, 43];

/// 256 entries of 8: IQ2_XXS.
pub const IQ2_XXS: Grid = Grid { name: "iq2_xxs", levels: TWO_BITS, width: 8, codes: &codes::IQ2XXS };
/// 512 entries of 8: IQ2_XS.
pub const IQ2_XS: Grid = Grid { name: "iq2_xs", levels: TWO_BITS, width: 8, codes: &codes::IQ2XS };
/// 1024 entries of 8: IQ2_S.
pub const IQ2_S: Grid = Grid { name: "iq2_s", levels: TWO_BITS, width: 8, codes: &codes::IQ2S };
/// 256 entries of 4: IQ3_XXS.
pub const IQ3_XXS: Grid =
    Grid { name: "iq3_xxs", levels: &[4, 12, 20, 28, 36, 44, 52, 62], width: 4, codes: &codes::IQ3XXS };
/// 512 entries of 4: IQ3_S.
pub const IQ3_S: Grid = Grid { name: "iq3_s", levels: &[1, 3, 5, 7, 9, 11, 13, 15], width: 4, codes: &codes::IQ3S };
/// 2048 entries of 8, signed: IQ1_S and IQ1_M.
pub const IQ1: Grid = Grid { name: "iq1", levels: &[-1, 0, 1], width: 8, codes: &codes::IQ1S };

/// What weights of IQ1_S and IQ1_M are shifted by, up or down.
pub const DELTA: f32 = 0.125;

/// All codebooks.
pub const GRIDS: [&Grid; 6] = [&IQ2_XXS, &IQ2_XS, &IQ2_S, &IQ3_XXS, &IQ3_S, &IQ1];

/// The eighth sign of a group follows from the seven stored ones: the number of minus signs is even.
pub fn signs(seven: u32) -> u8 {
    (seven & 127) as u8 | ((seven & 127).count_ones() as u8 & 1) << 7
}

/// `-1` if bit `j` is set, else `1`.
pub fn sign(signs: u8, j: usize) -> f32 {
    if signs >> j & 1 == 1 {
        -1.0
    } else {
        1.0
    }
}
