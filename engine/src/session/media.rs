//! Where media lie in a sequence, and what positions its rows have: those of text behind a picture are not where they stand.

use pumex_step::{text_position, MediumRow, Row};

/// A medium in a sequence; of one that was cut, not all rows are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacedMedium {
    /// Where its first row stands.
    pub at: usize,
    /// Its rows.
    pub n: usize,
    /// How far it moves the counter of positions.
    pub n_pos: usize,
    /// Which one it is.
    pub hash: u64,
}

impl PlacedMedium {
    /// What there is to know of a medium whose row stands at `pos`.
    pub fn of(row: &MediumRow, pos: u32) -> PlacedMedium {
        let at = pos.saturating_sub(row.index) as usize;
        PlacedMedium { at, n: row.of.rows(), n_pos: row.of.n_pos(), hash: row.of.hash() }
    }

    /// Whether it has rows before `at` and others from there on.
    pub fn is_cut_at(&self, at: usize) -> bool {
        self.at < at && at < self.at + self.n
    }
}

/// The counter of positions where row `at` of a sequence with these media stands.
pub fn counter(media: &[PlacedMedium], at: usize) -> u32 {
    let before = media.iter().filter(|placed| placed.at + placed.n <= at);
    let counted = before.fold(at as i64, |at, placed| at + placed.n_pos as i64 - placed.n as i64);
    counted.clamp(0, i64::from(u32::MAX)) as u32
}

/// Positions of a row in the four streams; of models without rope sections, the first one is where it stands.
pub fn position(media: &[PlacedMedium], row: &Row) -> [u32; 4] {
    match &row.medium {
        Some(medium) => {
            let first = medium.first(row.pos).unwrap_or(0);
            medium.of.position(medium.index as usize, counter(media, first as usize))
        }
        None if media.is_empty() => text_position(row.pos),
        None => text_position(counter(media, row.pos as usize)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_move_the_counter_once_they_are_over() {
        let placed = |at, n, n_pos| PlacedMedium { at, n, n_pos, hash: 0 };
        let media = [placed(3, 12, 4), placed(20, 4, 9)];
        assert_eq!([2, 3, 14, 15, 20, 24].map(|at| counter(&media, at)), [2, 3, 14, 7, 12, 21]);
    }
}
