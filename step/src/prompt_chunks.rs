//! Pieces of prompts: steps whose rows follow from the prompt alone, so that they are the same in whatever company, and from
//! wherever a prompt goes on that was computed in part.

/// Rows of a piece of a prompt.
pub const PIECE: usize = 128;

/// The end of the piece that begins at or goes on from `fed`, of a prompt of which a request gave the first `given` ids.
pub fn piece_end(fed: usize, given: usize) -> usize {
    match given.saturating_sub(1) {
        last if fed < last => ((fed / PIECE + 1) * PIECE).min(last),
        _ => fed + 1,
    }
}

/// How many first ids other steady requests may go on from, of a sequence that holds `fed`.
pub fn whole(fed: usize, given: usize) -> usize {
    fed.min(given.saturating_sub(1)) / PIECE * PIECE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_follow_from_positions_and_the_last_id_stands_alone() {
        let mut fed = 0;
        let mut ends = Vec::new();
        while fed < 302 {
            fed = piece_end(fed, 300);
            ends.push(fed);
        }
        assert_eq!(ends, [128, 256, 299, 300, 301, 302]);
        assert_eq!([(0, 1), (0, 2), (128, 129), (0, 0)].map(|(fed, given)| piece_end(fed, given)), [1, 1, 129, 1]);
        let table = [(300, 300, 256), (400, 300, 256), (255, 300, 128), (128, 128, 0), (129, 129, 128), (0, 0, 0)];
        assert!(table.iter().all(|(fed, given, expected)| whole(*fed, *given) == *expected));
    }
}
