//! Requests whose answers are the same whoever is served beside them.
//!
//! Kernels round otherwise for steps of other shapes, so that what a row gives depends on those beside it. The rows of a steady request
//! have steps of their own, of shapes that follow from its ids alone: of what it gave, pieces that begin at multiples of [`PIECE`]
//! positions, but for the last id, which has a step like those that the model writes: one row each. What is kept of another steady
//! request is of use up to such a multiple, as far as that one was given it, too: these are the same steps.

use super::loaded::Loaded;
use super::refusal::{invalid, refusal};
use crate::step::Runner;
use pumex_serve::engine::{Refusal, RefusalKind};

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

/// Why this runner cannot promise that; none if it can.
pub fn refuses(runner: &dyn Runner) -> Option<String> {
    let (rows, needed) = (runner.max_rows(), PIECE.min(runner.n_ctx()));
    if rows < needed {
        return Some(format!("expected steps of at least {needed} rows (-ub), found {rows}"));
    }
    runner.may_change().map(|what| format!("expected a server started with --deterministic, found {what}"))
}

impl Loaded {
    /// Whether a request's answers are to be steady.
    ///
    /// # Errors
    /// They are, and cannot be.
    pub fn steady(&self, asked: Option<bool>) -> Result<bool, Refusal> {
        let steady = asked.unwrap_or(self.settings.deterministic);
        match &self.unsteady {
            Some(why) if steady && asked.is_some() => Err(invalid("deterministic", format!("deterministic: {why}"))),
            Some(why) if steady => Err(refusal(RefusalKind::Unsupported, format!("--deterministic: {why}"))),
            _ => Ok(steady),
        }
    }
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
