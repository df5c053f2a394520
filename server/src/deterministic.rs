//! Requests whose answers are the same whoever is served beside them.
//!
//! Kernels round otherwise for steps of other shapes, so that what a row gives depends on those beside it. The rows of a steady request
//! have steps of their own, of shapes that follow from its ids alone: of what it gave, pieces that begin at multiples of [`PIECE`]
//! positions, but for the last id, which has a step like those that the model writes: one row each. What is kept of another steady
//! request is of use up to such a multiple, as far as that one was given it, too: these are the same steps.

use pumex_step::{Runner, PIECE};

/// Why this runner cannot promise that; none if it can.
pub fn refuses(runner: &dyn Runner) -> Option<String> {
    let (rows, needed) = (runner.max_rows(), PIECE.min(runner.n_ctx()));
    if rows < needed {
        return Some(format!("expected steps of at least {needed} rows (-ub), found {rows}"));
    }
    runner.may_change().map(|what| format!("expected a server started with --deterministic, found {what}"))
}
