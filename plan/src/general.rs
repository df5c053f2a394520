//! Ops that families need beside those of the usual transformer: norms of every kind, maps over columns, rotations of part of a
//! head, routing by other rules, products per head, convolutions and recurrences. They work on columns of values, so that parts
//! of a row need no copies.

use super::by_row::{AdapterScales, ById, TakeVectors};
use super::compressed::{AttendBlocks, ChooseBlocks, Pool};
use super::recurrent::{Conv, Scan, Shift};
use super::routing::{Choose, ExpertsBias, ExpertsMatMul};
use super::sparse_attention::ChoosePositions;
use super::streams::{Mix, Softmax, StreamGates};
use super::{Access, Cols, Rope, Val, Weight};

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
    /// `tanh(x)`
    Tanh,
    /// `ln(1 + e^x)`
    Softplus,
    /// `e^x`
    Exp,
    /// `1 / x`
    Inverse,
    /// `sqrt(x)`
    Sqrt,
    /// Clamps to at least `.0`, at most `.1`.
    Clamp(f32, f32),
    /// `cap * tanh(x / cap)`
    SoftCap(f32),
    /// `min(x, limit) * sigmoid(alpha * min(x, limit))`: the gate of gpt-oss; alpha, limit.
    SiluClamped(f32, f32),
    /// `cap * tanh(x / cap) * sigmoid(x)`: the gate of Kimi K3.
    Situ(f32),
    /// xIELU: alpha of negatives, alpha of positives, beta, epsilon, as they are stored before their softplus.
    Xielu([f32; 4]),
}

/// An operand of a [`Map`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arg {
    /// Columns that lie one after the other in each group.
    Cols(Cols),
    /// One column per group.
    PerGroup(Cols),
    /// A vector of weights: `[groups, len]`, or `[len]` for every group if it has no more.
    Weight(Weight),
    /// A weight per group: `[groups]`.
    GroupWeight(Weight),
    /// One of [`super::Plan::numbers`], read as [`Arg::Weight`] is.
    Table(usize),
    /// A number, the same everywhere.
    Number(f32),
}

/// What is done with both operands of a [`Map`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Join {
    /// The sum.
    Add,
    /// The product.
    Mul,
}

/// `out = scale * act(a) + b` or `scale * act(a) * b`, number by number; `out` may be `a` or `b`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Map {
    /// The activation of `a`.
    pub act: Act,
    /// First operand.
    pub a: Arg,
    /// The factor of `act(a)`.
    pub scale: f32,
    /// Sum or product.
    pub join: Join,
    /// Second operand.
    pub b: Arg,
    /// Groups of a row.
    pub groups: usize,
    /// Columns of a group.
    pub len: usize,
    /// Result.
    pub out: Cols,
}

/// A number for each group of columns: `out = act(scale * Σ a * b)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dot {
    /// The activation of the sum.
    pub act: Act,
    /// The factor of the products' sum.
    pub scale: f32,
    /// First factor.
    pub a: Arg,
    /// Second factor.
    pub b: Arg,
    /// Groups of a row.
    pub groups: usize,
    /// Columns of a group.
    pub len: usize,
    /// A column per group.
    pub out: Cols,
}

/// How a norm measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NormKind {
    /// By the root of the mean square.
    Rms,
    /// By mean and deviation.
    Layer,
    /// By the length: `x / max(sqrt(Σ x²), eps)`.
    L2,
    /// By the length, with epsilon under the root: `x / sqrt(Σ x² + eps)`.
    Unit,
}

/// What gates the columns of a norm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NormGate {
    /// The gates.
    pub cols: Cols,
    /// The activation of the gates; takes no numbers.
    pub act: Act,
    /// Whether the columns are gated before they are normed.
    pub first: bool,
}

/// A norm of every group of columns; takes the output rows only if `out` has `w` rows and `x` has `n`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Normalize {
    /// How.
    pub kind: NormKind,
    /// What.
    pub x: Cols,
    /// Groups of a row.
    pub groups: usize,
    /// Columns of a group.
    pub len: usize,
    /// Factors: `[groups, len]`, or `[len]` for every group if there are no more.
    pub weight: Option<Weight>,
    /// Added afterwards, shaped as `weight`.
    pub bias: Option<Weight>,
    /// Gates of all columns.
    pub gate: Option<NormGate>,
    /// Keeps the divisor from zero.
    pub eps: f32,
    /// Result.
    pub out: Cols,
}

/// A factor that grows with the position: `1 + scale * ln(1 + floor((pos + offset) / floor))`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Temperature {
    /// The factor of the logarithm.
    pub scale: f32,
    /// Positions that have the same factor.
    pub floor: u32,
    /// Added to the position.
    pub offset: f32,
}

/// Rotates groups of columns by their row's position, and scales them by [`Temperature`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rotate {
    /// Where the rotated columns of each group start.
    pub x: Cols,
    /// Where they come from; none turns them in place.
    pub from: Option<Cols>,
    /// Groups of a row.
    pub groups: usize,
    /// Rotation; of zero dims, none. Its epsilon is not used.
    pub rope: Rope,
    /// Rotates back.
    pub back: bool,
    /// Rotates by the first position of a row's block of so many; 1 for its own.
    pub every: u32,
    /// The factor of sine and cosine.
    pub magnitude: f32,
    /// A factor of the rotated columns.
    pub temperature: Option<Temperature>,
    /// Columns that `temperature` scales, from where the rotated ones start on.
    pub len: usize,
}

/// `out = x · weightᵀ` with a matrix for each group: `[n, heads * k]` → `[n, heads * m]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HeadMatMul {
    /// Groups of `k`.
    pub x: Cols,
    /// `[heads, m, k]`
    pub weight: Weight,
    /// Matrices.
    pub heads: usize,
    /// Groups of `m`.
    pub out: Cols,
}

/// One of them.
#[derive(Clone, Debug, PartialEq)]
pub enum General {
    /// Element by element: [`Map`].
    Map(Map),
    /// Dot products of rows: [`Dot`].
    Dot(Dot),
    /// A norm of groups of columns: [`Normalize`].
    Normalize(Normalize),
    /// A rotation by positions: [`Rotate`].
    Rotate(Rotate),
    /// `out += weight[position of the row]`.
    Positions {
        /// `[positions, dim]`
        weight: Weight,
        /// `[n, dim]`
        out: Val,
    },
    /// Rows of a table by ids: [`ById`].
    ById(ById),
    /// Rows of media in place of others: [`TakeVectors`].
    TakeVectors(TakeVectors),
    /// Columns of adapters by scales of sequences: [`AdapterScales`].
    AdapterScales(AdapterScales),
    /// A product by heads: [`HeadMatMul`].
    HeadMatMul(HeadMatMul),
    /// A choice of experts: [`Choose`].
    Choose(Choose),
    /// Products with each row's experts: [`ExpertsMatMul`].
    ExpertsMatMul(ExpertsMatMul),
    /// Biases of each row's experts: [`ExpertsBias`].
    ExpertsBias(ExpertsBias),
    /// A convolution over positions: [`Conv`].
    Conv(Conv),
    /// Rows moved by one position: [`Shift`].
    Shift(Shift),
    /// A recurrent state along positions: [`Scan`].
    Scan(Scan),
    /// Sums of weighted streams: [`Mix`].
    Mix(Mix),
    /// Softmax of groups of columns: [`Softmax`].
    Softmax(Softmax),
    /// Gates of residual streams: [`StreamGates`].
    StreamGates(StreamGates),
    /// Blocks of positions pooled into entries: [`Pool`].
    Pool(Pool),
    /// A choice of blocks of positions: [`ChooseBlocks`].
    ChooseBlocks(ChooseBlocks),
    /// Attention over chosen blocks: [`AttendBlocks`].
    AttendBlocks(AttendBlocks),
    /// A choice of positions: [`ChoosePositions`].
    ChoosePositions(ChoosePositions),
}

impl Arg {
    /// The value it reads.
    pub fn val(&self) -> Option<Val> {
        match self {
            Arg::Cols(cols) | Arg::PerGroup(cols) => Some(cols.val),
            Arg::Weight(_) | Arg::GroupWeight(_) | Arg::Table(_) | Arg::Number(_) => None,
        }
    }

    fn weight_mut(&mut self) -> Option<&mut Weight> {
        match self {
            Arg::Weight(w) | Arg::GroupWeight(w) => Some(w),
            Arg::Cols(_) | Arg::PerGroup(_) | Arg::Table(_) | Arg::Number(_) => None,
        }
    }
}

impl General {
    /// Its name, as profiles and plans print it.
    pub fn name(&self) -> &'static str {
        match self {
            General::Map(_) => "map",
            General::Dot(_) => "dot",
            General::Normalize(n) => match n.kind {
                NormKind::Rms => "rms_norm",
                NormKind::Layer => "layer_norm",
                NormKind::L2 => "l2_norm",
                NormKind::Unit => "unit_norm",
            },
            General::Rotate(_) => "rotate",
            General::Positions { .. } => "positions",
            General::ById(_) => "by_id",
            General::TakeVectors(_) => "take_vectors",
            General::AdapterScales(_) => "adapter_scales",
            General::HeadMatMul(_) => "head_matmul",
            General::Choose(_) => "choose",
            General::ExpertsMatMul(_) => "experts_matmul",
            General::ExpertsBias(_) => "experts_bias",
            General::Conv(_) => "conv",
            General::Shift(_) => "shift",
            General::Scan(s) => s.kind.name(),
            General::Mix(_) => "mix",
            General::Softmax(_) => "softmax",
            General::StreamGates(_) => "stream_gates",
            General::Pool(_) => "pool",
            General::ChooseBlocks(_) => "choose_blocks",
            General::AttendBlocks(_) => "attend_blocks",
            General::ChoosePositions(_) => "choose_positions",
        }
    }

    /// Values it reads. What it writes counts as read too, unless it writes all columns.
    pub fn reads(&self) -> Vec<Access> {
        let (values, state): (Vec<Val>, Option<usize>) = match self {
            General::Map(m) => ([m.a.val(), m.b.val()].into_iter().flatten().collect(), None),
            General::Dot(d) => ([d.a.val(), d.b.val()].into_iter().flatten().collect(), None),
            General::Normalize(n) => (std::iter::once(n.x.val).chain(n.gate.map(|g| g.cols.val)).collect(), None),
            General::Rotate(r) => (vec![r.from.unwrap_or(r.x).val], None),
            General::Positions { out, .. } => (vec![*out], None),
            General::ById(_) => (vec![], None),
            General::TakeVectors(t) => (vec![t.out], None), // other rows stay
            General::AdapterScales(s) => (vec![s.out], None),
            General::HeadMatMul(h) => (vec![h.x.val], None),
            General::Choose(c) => (vec![c.router.map_or(c.logits, |r| r.x)], None),
            General::ExpertsMatMul(e) => (vec![e.x, e.route], None),
            General::ExpertsBias(b) => (vec![b.route, b.out], None),
            General::Conv(c) => (vec![c.x.val], Some(c.layer)),
            General::Shift(s) => (vec![s.x], Some(s.layer)),
            General::Scan(s) => (s.inputs().map(|c| c.val).collect(), Some(s.layer)),
            General::Mix(m) => {
                ([Some(m.x), Some(m.by), m.add.then_some(m.out)].into_iter().flatten().map(|c| c.val).collect(), None)
            }
            General::Softmax(s) => (vec![s.x.val], None),
            General::StreamGates(g) => (vec![g.x.val], None),
            General::Pool(p) => (vec![p.x.val], Some(p.layer)),
            General::ChooseBlocks(c) => (vec![c.q.val, c.weights.val, c.entries.x.val], Some(c.layer)),
            General::AttendBlocks(a) => {
                let read = [Some(a.q), Some(a.k), a.entries.map(|e| e.x), a.chosen.map(|(cols, _)| cols)];
                (read.into_iter().flatten().map(|c| c.val).collect(), Some(a.layer))
            }
            General::ChoosePositions(c) => {
                ([Some(c.q), c.weights].into_iter().flatten().map(|c| c.val).collect(), Some(c.layer))
            }
        };
        let ids = self.reads_ids().then_some(Access::Ids);
        values.into_iter().map(Access::Value).chain(state.map(Access::State)).chain(ids).collect()
    }

    /// Whether it reads the rows' ids.
    pub fn reads_ids(&self) -> bool {
        matches!(self, General::Choose(c) if c.table.is_some()) || matches!(self, General::ById(_))
    }

    /// The value it writes.
    pub fn output(&self) -> Val {
        match self {
            General::Map(m) => m.out.val,
            General::Dot(d) => d.out.val,
            General::Normalize(n) => n.out.val,
            General::Rotate(r) => r.x.val,
            General::Positions { out, .. } => *out,
            General::ById(b) => b.out,
            General::TakeVectors(t) => t.out,
            General::AdapterScales(s) => s.out,
            General::HeadMatMul(h) => h.out.val,
            General::Choose(c) => c.out,
            General::ExpertsMatMul(e) => e.out,
            General::ExpertsBias(b) => b.out,
            General::Conv(c) => c.out.val,
            General::Shift(s) => s.out,
            General::Scan(s) => s.out.val,
            General::Mix(m) => m.out.val,
            General::Softmax(s) => s.x.val,
            General::StreamGates(g) => g.x.val,
            General::Pool(p) => p.out.val,
            General::ChooseBlocks(c) => c.out.val,
            General::AttendBlocks(a) => a.out.val,
            General::ChoosePositions(c) => c.chosen.list,
        }
    }

    /// The layer whose state it replaces.
    pub fn state(&self) -> Option<usize> {
        match self {
            General::Conv(c) => Some(c.layer),
            General::Shift(s) => Some(s.layer),
            General::Scan(s) => Some(s.layer),
            General::Pool(p) => Some(p.layer),
            General::ChooseBlocks(c) => Some(c.layer),
            General::AttendBlocks(a) => Some(a.layer),
            _ => None,
        }
    }

    /// What it writes.
    pub fn writes(&self) -> Vec<Access> {
        let logits = match self {
            General::Choose(c) => c.router.map(|_| Access::Value(c.logits)),
            _ => None,
        };
        std::iter::once(Access::Value(self.output())).chain(logits).chain(self.state().map(Access::State)).collect()
    }

    /// Weights it reads as floats, vectors and small tables.
    pub fn vectors(&self) -> Vec<Weight> {
        let matrix = self.matrix();
        self.clone().weights_mut().into_iter().map(|w| *w).filter(|w| Some(*w) != matrix).collect()
    }

    /// The matrix it multiplies with, if it does.
    pub fn matrix(&self) -> Option<Weight> {
        match self {
            General::HeadMatMul(h) => Some(h.weight),
            General::ExpertsMatMul(e) => Some(e.weight),
            General::Choose(c) => c.router.map(|r| r.part.weight),
            _ => None,
        }
    }

    /// Every weight it reads.
    pub fn weights_mut(&mut self) -> Vec<&mut Weight> {
        let all: Vec<Option<&mut Weight>> = match self {
            General::Map(m) => vec![m.a.weight_mut(), m.b.weight_mut()],
            General::Dot(d) => vec![d.a.weight_mut(), d.b.weight_mut()],
            General::Normalize(n) => vec![n.weight.as_mut(), n.bias.as_mut()],
            General::Rotate(_) | General::Shift(_) | General::Mix(_) | General::Softmax(_) | General::ById(_) => vec![],
            General::TakeVectors(_) | General::AdapterScales(_) => vec![],
            General::Positions { weight, .. } => vec![Some(weight)],
            General::HeadMatMul(h) => vec![Some(&mut h.weight)],
            General::Choose(c) => {
                let router = c.router.iter_mut().flat_map(|r| {
                    let norm = r.norm.as_mut().map(|n| &mut n.weight);
                    [norm, Some(&mut r.part.weight), r.part.bias.as_mut()]
                });
                router.chain([c.bias.as_mut(), c.table.as_mut()]).collect()
            }
            General::ExpertsMatMul(e) => vec![Some(&mut e.weight)],
            General::ExpertsBias(b) => vec![Some(&mut b.bias)],
            General::Conv(c) => vec![Some(&mut c.weight), c.bias.as_mut()],
            General::Scan(s) => vec![s.factor.as_mut(), s.soft.as_mut(), s.skip.as_mut()],
            General::StreamGates(g) => vec![Some(&mut g.scale), Some(&mut g.base)],
            General::Pool(p) => vec![p.place.as_mut()],
            General::ChooseBlocks(_) | General::ChoosePositions(_) => vec![],
            General::AttendBlocks(a) => vec![Some(&mut a.sinks)],
        };
        all.into_iter().flatten().collect()
    }
}
