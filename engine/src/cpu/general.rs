//! The ops beside those of the usual transformer, as both interpreters run them: plain loops over rows, groups and columns.

mod compressed;
mod map;
mod recurrent;
mod routing;
mod streams;

pub use map::apply_gate;
pub use recurrent::{soft_decay, soft_rate};

use super::bookkeeping::Books;
use pumex_plan::{Cols, General, Plan, Val, Weight};
use pumex_step::Row;
use std::borrow::Cow;

/// Runs a function over the rows, `[width]` each, of a buffer; in parallel if it likes.
pub type EachRow<'a> = dyn Fn(&mut [f32], usize, &(dyn Fn(usize, &mut [f32]) + Sync)) + Sync + 'a;

/// Weights as an interpreter holds them.
pub trait WeightFloats: Sync {
    /// All of a weight, row after row.
    fn vector(&self, w: Weight) -> Cow<'_, [f32]>;
    /// `x · rowᵀ` with rows `first..first + out.len()` of a matrix.
    fn times(&self, w: Weight, first: usize, x: &[f32], out: &mut [f32]);
}

/// Recurrent states: by sequence, by layer, empty where a layer keeps none.
#[derive(Clone, Debug, Default)]
pub struct States(Vec<Vec<Vec<f32>>>);

impl States {
    /// Recurrent states of `n_seqs` sequences of a plan, all zero.
    pub fn new(plan: &Plan, n_seqs: usize) -> States {
        let layers = || plan.layers.iter().map(|layer| vec![0.0; layer.recurrent_elements()]).collect();
        States((0..n_seqs).map(|_| layers()).collect())
    }

    /// Copies all states of a sequence.
    pub fn fork(&mut self, from: u32, to: u32) {
        self.0[to as usize] = self.0[from as usize].clone();
    }

    /// What a layer keeps of a sequence.
    pub(super) fn of(&mut self, seq: u32, layer: usize) -> &mut Vec<f32> {
        &mut self.0[seq as usize][layer]
    }
}

/// Memory that ops work in, kept from op to op and step to step.
#[derive(Debug, Default)]
pub struct Spare {
    floats: Vec<Vec<f32>>,
    spans: Vec<RowSpan>,
}

impl Spare {
    /// So many zeros.
    fn take(&mut self, len: usize) -> Vec<f32> {
        let mut floats = self.floats.pop().unwrap_or_default();
        floats.clear();
        floats.resize(len, 0.0);
        floats
    }

    /// Takes memory back that [`Spare::take`] gave, or as much.
    fn give(&mut self, floats: Vec<f32>) {
        self.floats.push(floats);
    }
}

/// What an op works on.
pub struct Env<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// The step's rows.
    pub rows: &'a [Row],
    /// Which of them are output rows.
    pub wanted: &'a [usize],
    /// By value: `[rows, width]`.
    pub values: &'a mut [Vec<f32>],
    /// What layers keep.
    pub states: &'a mut States,
    /// The weights.
    pub floats: &'a dyn WeightFloats,
    /// What says the ids of rows.
    pub books: &'a Books,
    /// How rows are gone over.
    pub each: &'a EachRow<'a>,
    /// Memory to work in.
    pub spare: &'a mut Spare,
}

/// Rows of one sequence that follow each other in a step.
#[derive(Clone, Copy, Debug)]
struct RowSpan {
    seq: u32,
    from: usize,
    rows: usize,
    /// Whether the sequence starts here.
    fresh: bool,
}

impl Env<'_> {
    /// Runs an op.
    pub fn run(&mut self, op: &General) {
        match op {
            General::Map(m) => self.map(m),
            General::Dot(d) => self.dot(d),
            General::Normalize(n) => self.normalize(n),
            General::Rotate(r) => self.rotate(r),
            General::Positions { weight, out } => self.positions(*weight, *out),
            General::ById(b) => self.by_id(b),
            General::TakeVectors(t) => self.take_vectors(t),
            General::AdapterScales(s) => self.scale_adapters(s),
            General::HeadMatMul(h) => self.head_matmul(h),
            General::Choose(c) => self.choose(c),
            General::ExpertsMatMul(e) => self.experts_matmul(e),
            General::ExpertsBias(b) => self.experts_bias(b),
            General::Conv(c) => self.conv(c),
            General::Shift(s) => self.shift(s),
            General::Scan(s) => self.scan(s),
            General::Mix(m) => self.mix(m),
            General::Softmax(s) => self.softmax(s),
            General::StreamGates(g) => self.stream_gates(g),
            General::Pool(p) => self.pool(p),
            General::ChooseBlocks(c) => self.choose_blocks(c),
            General::AttendBlocks(a) => self.attend_blocks(a),
            // Each interpreter has keys where it keeps those of attention.
            General::ChoosePositions(_) => {}
        }
    }

    fn width(&self, v: Val) -> usize {
        self.plan.values[v.0].width
    }

    /// Rows of a value in this step.
    fn rows_of(&self, v: Val) -> usize {
        match self.plan.values[v.0].rows {
            pumex_plan::Rows::Step => self.rows.len(),
            pumex_plan::Rows::Output => self.wanted.len(),
        }
    }

    /// Computes `[rows, groups * len]` and puts it into columns of a value.
    fn write(&mut self, out: Cols, groups: usize, len: usize, f: impl Fn(&Self, usize, &mut [f32]) + Sync)
    where
        Self: Sync,
    {
        let rows = self.rows_of(out.val);
        let mut result = self.spare.take(rows * groups * len);
        (self.each)(&mut result, groups * len, &|row, out| f(self, row, out));
        self.place(out, groups, len, result);
    }

    /// Puts `[rows, groups * len]` into columns of a value.
    fn place(&mut self, out: Cols, groups: usize, len: usize, result: Vec<f32>) {
        let (rows, width) = (self.rows_of(out.val), self.width(out.val));
        let value = &mut self.values[out.val.0];
        value.resize(rows * width, 0.0);
        for (row, result) in value.chunks_exact_mut(width).zip(result.chunks_exact((groups * len).max(1))) {
            for (g, result) in result.chunks_exact(len).enumerate() {
                row[out.at + g * out.stride..][..len].copy_from_slice(result);
            }
        }
        self.spare.give(result);
    }

    /// In place of all of a value.
    fn replace(&mut self, out: Val, result: Vec<f32>) {
        let old = std::mem::replace(&mut self.values[out.0], result);
        self.spare.give(old);
    }

    /// `len` columns of group `g` in a row of a value.
    fn cols(&self, c: Cols, row: usize, g: usize, len: usize) -> &[f32] {
        &self.values[c.val.0][row * self.width(c.val) + c.at + g * c.stride..][..len]
    }

    /// To be put back into `spare`.
    fn spans(&mut self) -> Vec<RowSpan> {
        let mut spans = std::mem::take(&mut self.spare.spans);
        spans.clear();
        for (i, row) in self.rows.iter().enumerate() {
            match spans.last_mut() {
                Some(span) if span.seq == row.seq => span.rows += 1,
                _ => spans.push(RowSpan { seq: row.seq, from: i, rows: 1, fresh: row.pos == 0 }),
            }
        }
        spans
    }
}
