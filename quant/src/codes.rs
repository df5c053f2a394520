//! Codes of weights in the order that shaders unpack with fewest instructions, for rows that are laid out anew on the way to a
//! device: groups of four neighbours at the same bits of four neighbouring bytes.

use crate::grid::{self, Grid};

/// Where a bit of a device's codes comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BitSource {
    /// A bit of the block.
    Bit(usize),
    /// The bit that makes the ones among it and the seven bits from this one on even in number: an eighth sign.
    Even(usize),
    /// A bit of the digit, of base 3, that a weight has in a block of TQ1_0.
    Digit(usize, usize),
    /// A bit of the code of a weight, counted by its value from the least on, whose level an entry of a codebook has.
    Code(Codebook, usize, usize),
}

/// Formats whose entries give codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Codebook {
    Iq1S,
    Iq1M,
    Iq3S,
}

impl Codebook {
    /// How weight `i` of a block is found: the byte with the low bits of its entry, the bit where the high ones start, how many they are,
    /// and the bit that says whether it is negative.
    fn entry(self, i: usize) -> (usize, usize, usize, Option<usize>) {
        let l = i / 8;
        match self {
            Codebook::Iq1S => (2 + l, 8 * 34 + l / 4 * 16 + 3 * (l % 4), 3, None),
            Codebook::Iq1M => (l, 8 * 32 + 4 * l, 3, None),
            Codebook::Iq3S => (2 + i / 4, 8 * 66 + i / 4, 1, Some(8 * 74 + i)),
        }
    }

    /// The entries.
    pub fn grid(self) -> &'static Grid {
        match self {
            Codebook::Iq1S | Codebook::Iq1M => &grid::IQ1,
            Codebook::Iq3S => &grid::IQ3_S,
        }
    }

    /// Code of weight `i` of a block.
    pub fn code(self, block: &[u8], i: usize) -> u8 {
        let (low, from, more, minus) = self.entry(i);
        let high = (0..more).fold(0, |high, n| high | usize::from(BitSource::Bit(from + n).bit(block)) << n);
        let grid = self.grid();
        let level = grid.level(usize::from(block[low]) | high << 8, i % grid.width) as u8;
        let levels = grid.levels.len() as u8;
        match minus.map(|at| BitSource::Bit(at).bit(block)) {
            None => level,
            Some(0) => levels + level,
            Some(_) => levels - 1 - level,
        }
    }
}

/// An array of a structure of arrays, as it lies in rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SoaPart {
    /// A field of the blocks.
    Field(&'static str),
    /// Name, and bytes of each block's codes.
    Codes(&'static str, usize),
}

/// Structure of arrays of a format, some of them codes.
#[derive(Debug)]
pub struct Codes {
    /// In order.
    pub soa: &'static [SoaPart],
    /// Where a bit of the codes comes from, counted through all of a block's codes.
    pub place: fn(usize) -> BitSource,
}

const POW3: [u8; 5] = [1, 3, 9, 27, 81];

/// Digit of weight `i` of a block of TQ1_0.
pub fn digit(block: &[u8], i: usize) -> u8 {
    let (byte, n) = match i {
        0..160 => (block[i % 32], i / 32),
        160..240 => (block[32 + i % 16], (i - 160) / 16),
        _ => (block[48 + i % 4], (i - 240) / 4),
    };
    ((u16::from(byte.wrapping_mul(POW3[n])) * 3) >> 8) as u8
}

impl BitSource {
    /// The bit there.
    pub fn bit(self, block: &[u8]) -> u8 {
        let bit = |at: usize| block[at / 8] >> (at % 8) & 1;
        match self {
            BitSource::Bit(at) => bit(at),
            BitSource::Even(at) => (at..at + 7).fold(0, |odd, i| odd ^ bit(i)),
            BitSource::Digit(weight, n) => digit(block, weight) >> n & 1,
            BitSource::Code(book, weight, n) => book.code(block, weight) >> n & 1,
        }
    }

    /// The word that `shaders/glsl/repack.comp` reads.
    pub fn word(self) -> u32 {
        match self {
            BitSource::Bit(at) => at as u32,
            BitSource::Even(at) => 1 << 24 | at as u32,
            BitSource::Digit(weight, n) => 2 << 24 | (2 * weight + n) as u32,
            BitSource::Code(book, weight, n) => 3 << 24 | (book as u32) << 16 | (4 * weight + n) as u32,
        }
    }
}

impl Codes {
    /// Bytes of a block's codes.
    pub fn len_bytes(&self) -> usize {
        self.soa.iter().map(|p| if let SoaPart::Codes(_, bytes) = p { *bytes } else { 0 }).sum()
    }

    /// Byte `b` of a block's codes.
    pub fn byte(&self, block: &[u8], b: usize) -> u8 {
        (0..8).fold(0, |byte, i| byte | (self.place)(8 * b + i).bit(block) << i)
    }

    /// Where all bits come from.
    pub fn words(&self) -> impl Iterator<Item = u32> + '_ {
        (0..8 * self.len_bytes()).map(|i| (self.place)(i).word())
    }
}

/// Where bits of levels that nibbles choose come from, of which blocks have, from byte `at` on, the low nibbles of `half` bytes, then
/// their high ones:
/// those of a group are pairs, 0 and 2, 1 and 3, that are looked up together.
pub(crate) fn nibbles(at: usize, half: usize, i: usize) -> BitSource {
    let (b, high) = (i / 8, i / 4 % 2);
    let weight = b / 2 * 4 + b % 2 + 2 * high;
    BitSource::Bit(8 * (at + weight / (2 * half) * half + weight % half) + 4 * (weight / half % 2) + i % 4)
}

/// The weight that bit `i` of codes of two bits is of. Sixteen of 64 weights follow each other, at bits 2k for the k-th sixteen.
pub(crate) fn of_pairs(i: usize) -> usize {
    let (b, k) = (i / 8, i / 2 % 4);
    b / 16 * 64 + 16 * k + b % 16
}

/// The weight that bit `i` of codes of one bit is of, signs for instance. Four of 32 are at bit g, for the g-th four.
pub(crate) fn of_bits(i: usize) -> usize {
    let (b, g) = (i / 8, i % 8);
    b / 4 * 32 + 4 * g + b % 4
}

/// Sign `n` of eight, of which blocks have seven, from bit `at` on.
pub(crate) fn sign(at: usize, n: usize) -> BitSource {
    match n {
        7 => BitSource::Even(at),
        _ => BitSource::Bit(at + n),
    }
}

/// Sign of weight `i` of 32, of which the word from bit `at` on has seven bits for every eight.
pub(crate) fn signs_place(at: usize, i: usize) -> BitSource {
    sign(at + 7 * (i / 8), i % 8)
}
