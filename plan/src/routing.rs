//! Experts by other rules than softmax and a sum of one, and products with their matrices one by one.

use super::{Router, TopK, Val, Weight};

/// Least sum of a row's weights that they are divided by.
pub const LEAST_SUM: f32 = 6.103_515_6e-5;

/// What a row's logits become before the largest are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gating {
    /// Softmax over all experts.
    Softmax,
    /// Softmax over those that are taken.
    SoftmaxOfTaken,
    /// Sigmoid.
    Sigmoid,
    /// Square root of softplus.
    SqrtSoftplus,
}

/// Experts in groups, of which few take part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Groups {
    /// Groups of a layer's experts.
    pub count: usize,
    /// Groups that take part: those whose two best scores have the largest sum.
    pub used: usize,
}

/// The experts of each row, in the layout of [`super::Op::Route`], by a rule of its own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choose {
    /// `[n, experts]`: read, or written if the op does the router's product.
    pub logits: Val,
    /// The product that gives the logits, if the op does it.
    pub router: Option<Router>,
    /// How many.
    pub top_k: TopK,
    /// What logits become.
    pub gating: Gating,
    /// `[experts]`, added to what experts are chosen by, not to their weights.
    pub bias: Option<Weight>,
    /// Groups, if there are.
    pub groups: Option<Groups>,
    /// `[vocab, used]`, integers: the experts of a row by its id, whatever their scores are.
    pub table: Option<Weight>,
    /// Whether the weights are divided by their sum, of at least so much.
    pub least_sum: Option<f32>,
    /// The factor of the experts' weights.
    pub scale: f32,
    /// So many neighbours among the experts of the logits stand for one that is taken, by the score of the expert of that one's
    /// number; it may come several times. 1: each stands for itself.
    pub sharing: usize,
    /// `[n, 4 * used]`
    pub out: Val,
}

/// `out = x · weightᵀ` of each expert of a row, side by side.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExpertsMatMul {
    /// `[n, k]`, or `[n, used * k]` with an input for each expert.
    pub x: Val,
    /// `[n, 4 * used]`
    pub route: Val,
    /// How many.
    pub top_k: TopK,
    /// `[experts, m, k]`
    pub weight: Weight,
    /// Whether each expert has an input of its own.
    pub own_input: bool,
    /// `[n, used * m]`
    pub out: Val,
}

/// Adds the experts' biases to their products side by side.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExpertsBias {
    /// `[n, 4 * used]`
    pub route: Val,
    /// How many.
    pub top_k: TopK,
    /// `[experts, m]`
    pub bias: Weight,
    /// Added to, `[n, used * m]`.
    pub out: Val,
}
