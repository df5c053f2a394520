//! Ops of families with several residual streams: mixtures of columns, and what streams are mixed by.

use super::{Cols, Weight};

/// Groups of columns as sums of others: `out[to] (+)= Σ_from by[from, to] * x[from]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mix {
    /// Groups of `len` columns.
    pub x: Cols,
    /// How much of each: a group of `to` columns for each of `x`.
    pub by: Cols,
    /// Groups of `x`.
    pub from: usize,
    /// Groups of the result.
    pub to: usize,
    /// Columns of a group.
    pub len: usize,
    /// Whether it is added to what is there.
    pub add: bool,
    /// Groups of `len` columns, none of them of `x`.
    pub out: Cols,
}

/// Softmax of each group of columns, in place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Softmax {
    /// Groups of `len` columns.
    pub x: Cols,
    /// Groups of a row.
    pub groups: usize,
    /// Columns of a group.
    pub len: usize,
}

/// What `count` streams are mixed by, in place of a row's logits `[count | count | count * count]`, of which the second and the
/// third part may be missing: `sigmoid + eps` of what a block takes of each stream, `magnitude * sigmoid + post_eps` of what each
/// stream takes of the block, and a matrix of what streams (columns) take of each other (rows), whose columns sum up to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StreamGates {
    /// Logits in, shares out.
    pub x: Cols,
    /// Streams.
    pub count: usize,
    /// `[parts]`, factors of the logits of each part.
    pub scale: Weight,
    /// Added to logits.
    pub base: Weight,
    /// Columns.
    pub len: usize,
    /// Added to the first part, to the matrix, and to its sums.
    pub eps: f32,
    /// The factor of the second part.
    pub magnitude: f32,
    /// Added to the second part.
    pub post_eps: f32,
    /// How often the matrix's rows are made to sum up to 1, by softmax first, and its columns afterwards.
    pub rounds: usize,
}
