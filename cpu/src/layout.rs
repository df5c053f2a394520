//! How weights lie in memory for the kernels: tiles of 16 rows, in which one vector holds four neighbouring weights of each row.
//!
//! A row is cut into cells of 32 weights, eight chunks of four. What a cell's codes need is a few 64-byte vectors per tile, by
//! the number of bits ([`Codes`]); scales follow the codes of a few cells ([`Scales`]), so that a tile is read front to back.
//! Every format is brought into one of these forms when it is loaded (`formats/`), so kernels know forms and no formats.

/// Weights of a cell.
pub const CELL: usize = 32;
/// Cells that share the scale of scales.
pub const SUPER: usize = 8;

/// Codes of a cell: how many bits, and so how many vectors. Of a chunk `c` of eight, four-bit parts are at the low half of the
/// bytes of vector `c`, or at the high half of those of vector `c - 4`; two-bit parts in vector `c % 2` at bit `2 * (c / 2)`;
/// single bits at bit `c`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codes {
    /// Two bits, looked up.
    Two,
    /// Two and one, looked up.
    Three,
    /// Four, looked up.
    Four,
    /// Four and one.
    Five,
    /// Four and two.
    Six,
    /// Bytes.
    Eight,
}

impl Codes {
    /// Vectors of a cell.
    pub const fn vectors(self) -> usize {
        match self {
            Codes::Two => 2,
            Codes::Three => 3,
            Codes::Four => 4,
            Codes::Five => 5,
            Codes::Six => 6,
            Codes::Eight => 8,
        }
    }
}

/// Scales of a cell. With a minimum, `w = scale * code - min` and codes are below 128; without, `w = scale * (code - 128)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scales {
    /// f16 for 32 weights.
    Half,
    /// f16, and an f16 minimum.
    HalfMin,
    /// f16 for 16 weights.
    Half16,
    /// f32 for 32 weights.
    Float,
    /// i8 for 32 weights, times an f16 for 256.
    Byte,
    /// u8 and a u8 minimum for 32 weights, times an f16 each for 256.
    ByteMin,
    /// i8 for 16 weights, times an f16 for 256.
    Byte16,
    /// u8 and a u8 minimum for 16 weights, times an f16 each for 256.
    Byte16Min,
}

impl Scales {
    /// Weights of a scale.
    pub const fn group(self) -> usize {
        match self {
            Scales::Half16 | Scales::Byte16 | Scales::Byte16Min => 16,
            _ => 32,
        }
    }

    /// Whether there are minima.
    pub const fn has_min(self) -> bool {
        matches!(self, Scales::HalfMin | Scales::ByteMin | Scales::Byte16Min)
    }

    /// Whether scales are multiplied with those of 256 weights.
    pub const fn is_super(self) -> bool {
        matches!(self, Scales::Byte | Scales::ByteMin | Scales::Byte16 | Scales::Byte16Min)
    }

    /// Bytes of a cell in a tile.
    pub const fn cell_bytes(self) -> usize {
        match self {
            Scales::Byte => 16,
            Scales::Half | Scales::ByteMin | Scales::Byte16 => 32,
            Scales::HalfMin | Scales::Half16 | Scales::Float | Scales::Byte16Min => 64,
        }
    }

    /// Cells whose codes come one after the other, and then their scales: a whole number of cache lines each.
    pub const fn cells_per_group(self) -> usize {
        match self {
            Scales::Half => 2,
            Scales::HalfMin | Scales::Half16 | Scales::Float => 1,
            Scales::Byte | Scales::ByteMin | Scales::Byte16 | Scales::Byte16Min => SUPER,
        }
    }

    /// Bytes before the scales of eight cells.
    pub const fn super_bytes(self) -> usize {
        match (self.is_super(), self.has_min()) {
            (false, _) => 0,
            (true, false) => 32,
            (true, true) => 64,
        }
    }
}

/// The form a format's weights are brought into.
#[derive(Clone, Copy, Debug)]
pub struct WeightLayout {
    /// Codes.
    pub codes: Codes,
    /// Scales.
    pub scales: Scales,
    /// What codes of up to four bits stand for; of more bits, what is added to all of them is the first entry.
    pub table: [u8; 16],
    /// The factor of all scales.
    pub factor: f32,
}

impl WeightLayout {
    /// Bytes of the codes of cells that lie together.
    pub const fn codes_bytes(&self) -> usize {
        self.scales.cells_per_group() * self.codes.vectors() * 64
    }

    /// Bytes of cells that lie together: codes, scales of scales, scales.
    pub const fn group_bytes(&self) -> usize {
        let scales = self.scales.cells_per_group() * self.scales.cell_bytes() + self.scales.super_bytes();
        self.codes_bytes() + scales.next_multiple_of(64)
    }

    /// Bytes of a tile of 16 rows of `cols` weights.
    pub const fn tile_bytes(&self, cols: usize) -> usize {
        (cols / CELL).div_ceil(self.scales.cells_per_group()) * self.group_bytes()
    }

    /// Where the codes of a cell are in a tile, where its scales, and where the scales of these.
    #[inline(always)]
    pub const fn places(&self, cell: usize) -> (usize, usize, usize) {
        let (group, i) =
            (cell / self.scales.cells_per_group() * self.group_bytes(), cell % self.scales.cells_per_group());
        let above = group + self.codes_bytes();
        (group + i * self.codes.vectors() * 64, above + self.scales.super_bytes() + i * self.scales.cell_bytes(), above)
    }
}

/// A block of one row as a format takes it apart: up to 256 weights.
#[derive(Clone)]
#[repr(C, align(64))]
pub struct FormatBlock {
    /// A code per weight.
    pub codes: [u8; 256],
    /// f16 scale of the scales.
    pub d: u16,
    /// f16 scale of the minima.
    pub dmin: u16,
    /// Scales in bytes, one per group.
    pub scales: [u8; 16],
    /// Minima, likewise.
    pub mins: [u8; 16],
    /// f16 scales, one per group.
    pub halves: [u16; 16],
    /// f16 minima.
    pub half_mins: [u16; 8],
    /// f32 scales.
    pub floats: [f32; 8],
}

impl FormatBlock {
    /// All zero.
    pub fn new() -> FormatBlock {
        FormatBlock {
            codes: [0; 256],
            d: 0,
            dmin: 0,
            scales: [0; 16],
            mins: [0; 16],
            halves: [0; 16],
            half_mins: [0; 8],
            floats: [0.0; 8],
        }
    }
}

impl Default for FormatBlock {
    fn default() -> Self {
        FormatBlock::new()
    }
}
