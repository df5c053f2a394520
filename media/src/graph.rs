//! An encoder for one size of input: ops in order, with shapes.
//!
//! Values are rows of f32, row by row without gaps. Pictures have a row for each pixel or patch, sounds one for each frame; channels
//! are columns. Shapes are those of the input's size, so that a graph holds no rules about sizes: positions, windows and orders of
//! rows are lists in it.

mod batch;
mod text;

use std::sync::Arc;

/// A value, by its number among [`Graph::views`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Val(pub usize);

/// A weight, by its number among [`Graph::weights`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Weight(pub usize);

/// Numbers, by their number among [`Graph::tables`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GraphTable(pub usize);

/// Which rows see which, by their number among [`Graph::spans`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Spans(pub usize);

/// Sums of rows, by their number among [`Graph::picks`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Picks(pub usize);

/// Rows and columns of a buffer. Several views of one buffer have as many numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// Index in [`Graph::buffers`].
    pub buffer: usize,
    /// Rows.
    pub rows: usize,
    /// Columns.
    pub cols: usize,
}

/// Columns of a value, in all of its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The value.
    pub val: Val,
    /// The first column.
    pub at: usize,
    /// How many.
    pub cols: usize,
}

/// A tensor as ops read it: `[rows, cols]`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WeightUse {
    /// The tensor.
    pub name: String,
    /// Rows.
    pub rows: usize,
    /// Columns.
    pub cols: usize,
    /// Whether the tensor is stored as `[cols, rows]`.
    pub transposed: bool,
    /// Whether it is read as floats; else it is a matrix of a product, which may stay in its weight format.
    pub floats: bool,
}

/// Numbers that are known when the graph is built.
#[derive(Clone, Debug, PartialEq)]
pub struct TableData {
    /// Columns of a row.
    pub cols: usize,
    /// `[rows, cols]`
    pub values: Arc<[f32]>,
}

/// Each row of a result as a weighted sum of some rows.
#[derive(Clone, Debug, PartialEq)]
pub struct PicksData {
    /// Entries of a row.
    pub each: usize,
    /// Row and factor, `each` for each row of the result; a row below 0 counts as zeros.
    pub entries: Arc<[(i32, f32)]>,
}

/// A function of one number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Act {
    /// `x`
    Same,
    /// `x * sigmoid(x)`
    Silu,
    /// GELU by tanh.
    Gelu,
    /// GELU by the error function.
    GeluErf,
    /// `x * sigmoid(1.702 x)`
    GeluQuick,
    /// `max(x, 0)`
    Relu,
    /// `max(x, 0)²`
    ReluSquared,
    /// `1 / (1 + e^-x)`
    Sigmoid,
    /// `x * clamp(x / 6 + 1/2, 0, 1)`
    HardSwish,
    /// `clamp(x / 6 + 1/2, 0, 1)`
    HardSigmoid,
    /// Clamps to at least `.0`, at most `.1`.
    Clamp(f32, f32),
}

/// An operand of [`Op::Map`], repeated over rows and columns as often as it goes into them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arg {
    /// Columns of a value; of rows and columns that divide those of the result.
    Part(Part),
    /// A weight, likewise.
    Weight(Weight),
    /// Numbers, likewise.
    Table(GraphTable),
    /// A number, the same everywhere.
    Number(f32),
}

/// What is done with both operands of [`Op::Map`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Join {
    /// The sum.
    Add,
    /// The product.
    Mul,
}

/// How a norm measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NormKind {
    /// By the root of the mean square.
    Rms,
    /// By mean and deviation.
    Layer,
}

/// A window that moves over a picture, or with a height of 1 over a sound's frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Width and height of what it moves over: a value has a row for each, row by row.
    pub size: [usize; 2],
    /// Width and height of the window.
    pub kernel: [usize; 2],
    /// Steps.
    pub stride: [usize; 2],
    /// Zeros in front of the left and of the upper edge.
    pub before: [usize; 2],
    /// Width and height of what comes out. Windows that reach beyond the right and the lower edge see zeros there.
    pub out: [usize; 2],
}

/// Which columns of a head a rotation turns with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RotationPairs {
    /// `2 i` and `2 i + 1`.
    Adjacent,
    /// `i` and `i + dims / 2`.
    Halves,
}

/// An index of what a row of scores adds: `n / div % modulo`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digit {
    /// Divides the row's number.
    pub div: usize,
    /// The divisor whose remainder counts.
    pub modulo: usize,
}

/// Numbers that are added to scores, from a value with a row for each query and `width` columns for each head. Query `q` and key `k`
/// take column `base + digit(k)` of the head, or `base + digit(k) - digit(q)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bias {
    /// `[queries, heads * width]`
    pub val: Val,
    /// Columns of a head.
    pub width: usize,
    /// The digit of the key's position.
    pub key: Digit,
    /// The digit of the query's position, if it counts.
    pub query: Option<Digit>,
    /// The column where both are 0.
    pub base: usize,
}

/// One op.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// `out = x · weightᵀ + bias`
    MatMul {
        /// `[n, k]`
        x: Part,
        /// `[m, k]`
        weight: Weight,
        /// `[1, m]`
        bias: Option<Weight>,
        /// `[n, m]`
        out: Part,
    },
    /// Products of rows with rows, per head: `out[i, h * m + j] = Σ a[i, h, :] * b[j, h, :]`. With as many columns as one head has, `b`
    /// is that of all heads.
    HeadProducts {
        /// `[n, heads * d]`
        a: Part,
        /// `[m, heads * d]` or `[m, d]`
        b: Part,
        /// Heads.
        heads: usize,
        /// `[n, heads * m]`
        out: Val,
    },
    /// What each place of a window sees, side by side: channel by channel, in each row by row of the window.
    Unfold {
        /// `[width * height, channels]`
        x: Val,
        /// The window.
        window: Window,
        /// `[places, channels * window]`
        out: Val,
    },
    /// A convolution of each channel with a window of its own.
    Depthwise {
        /// `[width * height, channels]`
        x: Val,
        /// The window.
        window: Window,
        /// `[channels, window]`
        weight: Weight,
        /// `[1, channels]`
        bias: Option<Weight>,
        /// `[places, channels]`
        out: Val,
    },
    /// A norm of each of `groups` equal parts of each row.
    Norm {
        /// How.
        kind: NormKind,
        /// What.
        x: Part,
        /// Parts of a row.
        groups: usize,
        /// Factors, `[1, cols]` or `[1, cols / groups]`.
        weight: Option<Weight>,
        /// Added then, likewise.
        bias: Option<Weight>,
        /// Keeps the divisor from zero.
        eps: f32,
        /// Columns as `x`.
        out: Part,
    },
    /// A norm over all rows of each column, by its length and by the mean length: with `g[c] = sqrt(Σ x[:, c]²)`,
    /// `out = x + weight * x * g[c] / (mean(g) + eps) + bias`.
    GlobalResponse {
        /// `[n, cols]`
        x: Val,
        /// `[1, cols]`
        weight: Weight,
        /// `[1, cols]`
        bias: Weight,
        /// Keeps the divisor from zero.
        eps: f32,
        /// `[n, cols]`
        out: Val,
    },
    /// `out = scale * act(a)`, then plus or times `b`.
    Map {
        /// The activation of `a`.
        act: Act,
        /// First operand, as large as the result.
        a: Part,
        /// The factor of `act(a)`.
        scale: f32,
        /// Second operand and what is done with it.
        join: Option<(Join, Arg)>,
        /// Result; may be an operand.
        out: Part,
    },
    /// Weighted sums of rows: permutations, mean pools, tables sampled between their points, rows of zeros.
    Pick {
        /// `[n, cols]`
        x: Val,
        /// Which.
        picks: Picks,
        /// `[rows of the picks, cols]`
        out: Val,
    },
    /// Numbers in another order: the last of `dims` varies fastest in the result, and each says how many and how far they are apart.
    Permute {
        /// Read as numbers from the start of its buffer on.
        x: Val,
        /// Length and stride.
        dims: Vec<(usize, usize)>,
        /// The value that is written, with as many numbers.
        out: Val,
    },
    /// Copies columns to a place in another value.
    Copy {
        /// `[n, cols]`
        x: Part,
        /// The value.
        out: Val,
        /// First row there.
        row: usize,
        /// First column there.
        col: usize,
    },
    /// Loads a weight as a value.
    Load {
        /// `[rows, cols]`
        weight: Weight,
        /// `[rows, cols]`
        out: Val,
    },
    /// Turns columns `at..at + dims` of each head in place.
    Rotate {
        /// `[n, heads * head_dim]`
        x: Part,
        /// Heads.
        heads: usize,
        /// First column of a head.
        at: usize,
        /// Columns of a head.
        dims: usize,
        /// Which with which.
        pairs: RotationPairs,
        /// `[n, dims]`: cosines of all pairs, then sines.
        table: GraphTable,
    },
    /// `out = softmax(scale * q · kᵀ + biases) · v` of each head.
    Attend {
        /// `[n, heads * d]`
        q: Part,
        /// `[m, kv_heads * d]`
        k: Part,
        /// `[m, kv_heads * dv]`
        v: Part,
        /// Heads of q.
        heads: usize,
        /// Heads of k and v; each serves `heads / kv_heads` of q.
        kv_heads: usize,
        /// The factor of the scores.
        scale: f32,
        /// First key that each query sees and the one behind the last; all without.
        spans: Option<Spans>,
        /// Added to the scores, before `soft_cap`.
        biases: Vec<Bias>,
        /// `cap * tanh(score / cap)` of the score with its biases, if any.
        soft_cap: Option<f32>,
        /// A score of each head that takes part in the sum and has no value: `[1, heads]`.
        sinks: Option<Weight>,
        /// `[n, heads * dv]`
        out: Val,
    },
    /// For each row: the `k` columns with the largest `x + bias`, each its part of the sum of their `x`; 0 elsewhere.
    Choose {
        /// `[n, cols]`
        x: Val,
        /// `[1, cols]`
        bias: Option<Weight>,
        /// How many.
        k: usize,
        /// `[n, cols]`
        out: Val,
    },
    /// For each row: which row of `codes` is at the smallest distance, the first of several; that row of `values`.
    Nearest {
        /// `[n, cols]`
        x: Val,
        /// `[m, cols]`
        codes: Val,
        /// `[m, any]`
        values: Val,
        /// `[n, any]`
        out: Val,
    },
    /// `out[i, j] = e^x[i, j] / Σ e^x[i, :]`
    Softmax {
        /// `[n, cols]`
        x: Val,
        /// `[n, cols]`
        out: Val,
    },
}

/// Ops in order, and what they work on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Graph {
    /// Numbers of each buffer.
    pub buffers: Vec<usize>,
    /// Values.
    pub views: Vec<View>,
    /// Tensors.
    pub weights: Vec<WeightUse>,
    /// Numbers.
    pub tables: Vec<TableData>,
    /// First key and the one behind the last, for each query.
    pub spans: Vec<Arc<[[u32; 2]]>>,
    /// Sums of rows.
    pub picks: Vec<PicksData>,
    /// Ops in order.
    pub ops: Vec<Op>,
    /// What the medium's numbers are written to: one for each [`crate::EncoderInput`].
    pub inputs: Vec<Val>,
    /// The rows for the text model.
    pub out: Option<Val>,
}

impl Graph {
    /// Rows and columns of a value.
    pub fn view(&self, val: Val) -> View {
        self.views[val.0]
    }
}

impl Op {
    /// Its name, as profiles print it.
    pub fn name(&self) -> &'static str {
        match self {
            Op::MatMul { .. } => "matmul",
            Op::HeadProducts { .. } => "head_products",
            Op::Unfold { .. } => "unfold",
            Op::Depthwise { .. } => "depthwise",
            Op::Norm { kind: NormKind::Rms, .. } => "rms_norm",
            Op::Norm { kind: NormKind::Layer, .. } => "layer_norm",
            Op::GlobalResponse { .. } => "global_response",
            Op::Map { .. } => "map",
            Op::Pick { .. } => "pick",
            Op::Permute { .. } => "permute",
            Op::Copy { .. } => "copy",
            Op::Load { .. } => "load",
            Op::Rotate { .. } => "rotate",
            Op::Attend { .. } => "attend",
            Op::Choose { .. } => "choose",
            Op::Nearest { .. } => "nearest",
            Op::Softmax { .. } => "softmax",
        }
    }

    /// Values it reads. One of which it writes only some numbers counts as read as well.
    pub fn reads(&self) -> Vec<Val> {
        match self {
            Op::MatMul { x, out, .. } | Op::Norm { x, out, .. } => vec![x.val, out.val],
            Op::HeadProducts { a, b, .. } => vec![a.val, b.val],
            Op::Unfold { x, .. }
            | Op::Depthwise { x, .. }
            | Op::GlobalResponse { x, .. }
            | Op::Pick { x, .. }
            | Op::Permute { x, .. }
            | Op::Choose { x, .. }
            | Op::Softmax { x, .. } => vec![*x],
            Op::Nearest { x, codes, values, .. } => vec![*x, *codes, *values],
            Op::Map { a, join: Some((_, Arg::Part(b))), out, .. } => vec![a.val, b.val, out.val],
            Op::Map { a, out, .. } => vec![a.val, out.val],
            Op::Copy { x, out, .. } => vec![x.val, *out],
            Op::Load { .. } => vec![],
            Op::Rotate { x, .. } => vec![x.val],
            Op::Attend { q, k, v, biases, .. } => {
                [q.val, k.val, v.val].into_iter().chain(biases.iter().map(|b| b.val)).collect()
            }
        }
    }

    /// The value it writes.
    pub fn output(&self) -> Val {
        match self {
            Op::MatMul { out, .. } | Op::Norm { out, .. } | Op::Map { out, .. } => out.val,
            Op::HeadProducts { out, .. }
            | Op::Unfold { out, .. }
            | Op::Depthwise { out, .. }
            | Op::GlobalResponse { out, .. }
            | Op::Pick { out, .. }
            | Op::Permute { out, .. }
            | Op::Copy { out, .. }
            | Op::Load { out, .. }
            | Op::Attend { out, .. }
            | Op::Choose { out, .. }
            | Op::Nearest { out, .. }
            | Op::Softmax { out, .. } => *out,
            Op::Rotate { x, .. } => x.val,
        }
    }
}
