//! How many rows an input becomes, and in which grid they are.

use super::sizes::block_rows;
use super::table::Count;
use super::{tiles, Setting};
use crate::{EncoderInput, Error, Result};

impl Setting<'_> {
    /// Rows of an input.
    pub(super) fn count(&self, input: &EncoderInput) -> Result<usize> {
        let (patch, merge) = (self.patch, self.merge);
        let [columns, rows] = [input.width / patch, input.height / patch];
        let patches = columns * rows;
        let squared = merge * merge;
        let up = |n: usize| n.div_ceil(self.unit);
        let (wide, high) = (columns / merge, rows / merge);
        let count = match self.projector.count {
            Count::Patches(more) => patches + more,
            Count::Quarter => patches / 4 + if self.ends { 2 } else { 0 },
            Count::Always(n) => n,
            Count::Queries => self.queries,
            Count::Merged => patches / squared,
            Count::MergedUp => patches.div_ceil(squared),
            Count::Pairs => (columns / 2) * (rows / 2),
            Count::Cells => wide * high,
            Count::CellsUp => up(input.width) * up(input.height),
            Count::Breaks => wide * high + if self.breaks { high.saturating_sub(1) } else { 0 },
            Count::Newlines => (wide + 1) * high + 2,
            Count::Side => self.image_size / patch,
            Count::Lines => {
                let side = columns / 4;
                let lines = rows / 4;
                if input.view_separator {
                    lines * (side + 1) + 1
                } else {
                    // Tiles stand below each other, and their lines beside each other.
                    (lines + 1) * side
                }
            }
            Count::Queried => patches / 16 + usize::from(input.view_separator),
            Count::Block => input.lead_pad + block_rows([up(input.width), up(input.height)]),
            Count::Unpadded => {
                let side = self.query_side * (columns / self.window_side);
                let [w, h] = tiles::unpadded_cells(input.tiles.map(|n| n * side), input.original);
                side * side + h * (w + 1)
            }
        };
        match count {
            0 => Err(Error::Medium(format!(
                "picture: expected at least one row of the encoder, found none for {} x {} pixels",
                input.width, input.height
            ))),
            n => Ok(n),
        }
    }

    /// Columns and rows of an input's grid; its rows in one line where they have no places.
    pub(super) fn grid(&self, input: &EncoderInput, rows: usize) -> [usize; 2] {
        if self.projector.places && self.m_rope {
            [input.width, input.height].map(|n| n / self.patch / 2)
        } else {
            [rows, 1]
        }
    }
}
