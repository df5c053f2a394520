//! What rows choose and bring: columns and rows of the embedding by their ids, vectors in place of these, pairs of low rank beside
//! products.

use super::{TopK, Val, Weight};

/// `out` = columns by a row's id: those of an entry of a short list, or of the list's first one, which is any other id's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ById {
    /// The one of [`super::Plan::numbers`] that has the entries: an id, then the columns.
    pub list: usize,
    /// Columns.
    pub len: usize,
    /// `[n, len]`
    pub out: Val,
}

impl ById {
    /// The columns of an id.
    pub fn of<'a>(&self, list: &'a [f32], id: usize) -> &'a [f32] {
        let entries = list.chunks_exact(1 + self.len);
        let found = entries.clone().skip(1).find(|entry| entry[0] == id as f32).or(entries.clone().next());
        found.map_or(&[], |entry| &entry[1..])
    }
}

/// `out` takes, of the rows that are vectors, a part of these; other rows stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TakeVectors {
    /// Which part of a vector, of as many columns as `out` has.
    pub part: usize,
    /// Adds to `out` instead of replacing it.
    pub add: bool,
    /// `[n, dim]`
    pub out: Val,
}

/// Columns times the scales that a row's sequence has for adapters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdapterScales {
    /// The one of [`super::Plan::numbers`] that says whose column each of a group's is: an index below [`super::Plan::adapters`].
    pub list: usize,
    /// `[n, groups * len]` or `[w, groups * len]`, of as many columns in a group as the list has; scaled in place.
    pub out: Val,
}

/// The id that stands for another one in a list of pairs, or that one itself.
pub fn instead(pairs: &[f32], id: usize) -> usize {
    pairs.chunks_exact(2).find(|pair| pair[0] == id as f32).map_or(id, |pair| pair[1] as usize)
}

/// A pair of low rank beside rows of a matrix.
#[derive(Clone, Debug)]
pub struct LowRank {
    /// The matrix's name.
    pub of: String,
    /// Its first row that the pair adds to.
    pub at: usize,
    /// `[choices, rank, k]`
    pub a: Weight,
    /// `[choices, rows, rank]`
    pub b: Weight,
}

/// Pairs that the builder's products have beside them from then on.
#[derive(Clone, Debug)]
pub struct ByRow {
    /// `[n, 4]`: as [`super::Op::Route`] gives it; what is added to the residual stream is multiplied with the weight.
    pub route: Val,
    /// One of so many.
    pub top_k: TopK,
    /// The pairs.
    pub pairs: Vec<LowRank>,
}
