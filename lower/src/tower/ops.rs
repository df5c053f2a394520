//! Ops that take numbers one by one, rows, or windows.

use super::{Access, Lowering, Touched};
use crate::dispatch::Module;
use crate::policy;
use pumex_gguf::{Error, Result};
use pumex_media::graph::{Act, Arg, GraphTable, Join, NormKind, Part, Picks, RotationPairs, Val, Weight, Window};
use pumex_shaders::{constants as c, push};

/// Dimensions of a permutation.
const MOST_DIMS: usize = 8;
/// Codes that the nearest is looked for among: floats count so many.
const MOST_CODES: usize = 1 << 24;

fn act_of(act: Act) -> (u32, [f32; 2]) {
    let number = match act {
        Act::Same => c::ACT_SAME,
        Act::Silu => c::ACT_SILU,
        Act::Gelu => c::ACT_GELU,
        Act::GeluErf => c::ACT_GELU_ERF,
        Act::GeluQuick => c::ACT_GELU_QUICK,
        Act::Relu => c::ACT_RELU,
        Act::ReluSquared => c::ACT_RELU_SQUARED,
        Act::Sigmoid => c::ACT_SIGMOID,
        Act::HardSwish => c::ACT_HARD_SWISH,
        Act::HardSigmoid => c::ACT_HARD_SIGMOID,
        Act::Clamp(low, high) => return (c::ACT_CLAMP, [low, high]),
    };
    (number, [0.0; 2])
}

fn two(pair: [usize; 2]) -> [u32; 2] {
    pair.map(|n| n as u32)
}

impl Lowering<'_> {
    pub(super) fn unfold(&mut self, x: Val, window: &Window, out: Val) {
        let push = push::TowerUnfold {
            x: self.at(x),
            y: self.at(out),
            size: two(window.size),
            kernel: two(window.kernel),
            stride: two(window.stride),
            before: two(window.before),
            places_wide: window.out[0] as u32,
            channels: self.cols(x) as u32,
            count: self.count(out) as u32,
        };
        self.by_number("tower_unfold", push, self.count(out), self.touched(&[x], out));
    }

    pub(super) fn depthwise(&mut self, x: Val, window: &Window, (weight, bias): (Weight, Option<Weight>), out: Val) {
        let push = push::TowerDepthwise {
            x: self.at(x),
            weight: self.weight_at(weight),
            bias: self.opt(bias),
            y: self.at(out),
            size: two(window.size),
            kernel: two(window.kernel),
            stride: two(window.stride),
            before: two(window.before),
            places_wide: window.out[0] as u32,
            channels: self.cols(x) as u32,
            count: self.count(out) as u32,
            biased: u32::from(bias.is_some()),
        };
        self.by_number("tower_depthwise", push, self.count(out), self.touched(&[x], out));
    }

    pub(super) fn norm(
        &mut self,
        kind: NormKind,
        x: Part,
        groups: usize,
        (weight, bias): (Option<Weight>, Option<Weight>),
        eps: f32,
        out: Part,
    ) {
        let len =
            |w: Option<Weight>| w.map_or(0, |w| self.graph.weights[w.0].rows * self.graph.weights[w.0].cols) as u32;
        let count = self.rows(x.val) * groups;
        let push = push::TowerNorm {
            x: self.part_at(x),
            weight: self.opt(weight),
            bias: self.opt(bias),
            y: self.part_at(out),
            x_stride: self.cols(x.val) as u32,
            y_stride: self.cols(out.val) as u32,
            groups: groups as u32,
            len: (x.cols / groups) as u32,
            weights: len(weight),
            biases: len(bias),
            count: count as u32,
            layer: u32::from(kind == NormKind::Layer),
            eps,
        };
        let touched = Touched { reads: vec![self.part(x)], writes: vec![self.part(out)] };
        self.by_group("tower_norm", push, count, touched);
    }

    pub(super) fn global_response(&mut self, x: Val, (weight, bias): (Weight, Weight), eps: f32, out: Val) {
        let (rows, cols) = (self.rows(x), self.cols(x));
        let (lengths, held) = self.scratch(4 * cols as u64);
        let push = push::TowerGlobalResponse {
            x: self.at(x),
            weight: self.weight_at(weight),
            bias: self.weight_at(bias),
            lengths,
            y: self.at(out),
            rows: rows as u32,
            cols: cols as u32,
            eps,
        };
        let threads = policy::row_threads(self.t.caps);
        let spec = |writes| vec![("SIZE", threads), ("WRITES", writes)];
        let module = Module::of("tower_global_response");
        let found = Touched { reads: vec![self.value(x)], writes: vec![held.clone()] };
        self.emit(module, spec(0), push, super::grid(cols), found);
        let written = Touched { reads: vec![self.value(x), held], writes: vec![self.value(out)] };
        self.emit(module, spec(1), push, super::grid(rows), written);
    }

    pub(super) fn map(&mut self, act: Act, a: Part, scale: f32, join: Option<&(Join, Arg)>, out: Part) {
        let (act, [low, high]) = act_of(act);
        let mut reads = vec![self.part(a)];
        let (mut b, mut number, [mut b_rows, mut b_cols, mut b_stride]) = (0, 0.0, [1; 3]);
        if let Some((_, arg)) = join {
            match arg {
                Arg::Part(part) => {
                    reads.push(self.part(*part));
                    b = self.part_at(*part);
                    [b_rows, b_cols, b_stride] = [self.rows(part.val), part.cols, self.cols(part.val)];
                }
                Arg::Weight(w) => {
                    let used = &self.graph.weights[w.0];
                    b = self.weight_at(*w);
                    [b_rows, b_cols, b_stride] = [used.rows, used.cols, used.cols];
                }
                Arg::Table(t) => {
                    let table = &self.graph.tables[t.0];
                    b = self.t.at.constants + self.constants.table(*t);
                    [b_rows, b_cols, b_stride] = [table.values.len() / table.cols, table.cols, table.cols];
                }
                Arg::Number(n) => number = *n,
            }
        }
        let join = match join {
            None => 0,
            Some((Join::Add, Arg::Number(_))) => 3,
            Some((Join::Mul, Arg::Number(_))) => 4,
            Some((Join::Add, _)) => 1,
            Some((Join::Mul, _)) => 2,
        };
        let count = self.rows(out.val) * out.cols;
        let push = push::TowerMap {
            a: self.part_at(a),
            b,
            y: self.part_at(out),
            a_stride: self.cols(a.val) as u32,
            b_stride: b_stride as u32,
            y_stride: self.cols(out.val) as u32,
            cols: out.cols as u32,
            b_cols: b_cols as u32,
            b_rows: b_rows as u32,
            count: count as u32,
            act,
            join,
            scale,
            number,
            low,
            high,
        };
        self.by_number("tower_map", push, count, Touched { reads, writes: vec![self.part(out)] });
    }

    pub(super) fn pick(&mut self, x: Val, picks: Picks, out: Val) {
        let push = push::TowerPick {
            x: self.at(x),
            picks: self.t.at.constants + self.constants.picks(picks),
            y: self.at(out),
            cols: self.cols(x) as u32,
            each: self.graph.picks[picks.0].each as u32,
            count: self.count(out) as u32,
        };
        self.by_number("tower_pick", push, self.count(out), self.touched(&[x], out));
    }

    pub(super) fn permute(&mut self, x: Val, dims: &[(usize, usize)], out: Val) -> Result<()> {
        let dims: Vec<(usize, usize)> = dims.iter().rev().copied().filter(|(len, _)| *len != 1).collect();
        if dims.len() > MOST_DIMS {
            return Err(Error::Request(format!("expected at most {MOST_DIMS} dimensions, found {}", dims.len())));
        }
        let mut push = push::TowerPermute {
            x: self.at(x),
            y: self.at(out),
            dims: dims.len() as u32,
            count: self.count(out) as u32,
            ..push::TowerPermute::default()
        };
        for (i, (len, apart)) in dims.into_iter().enumerate() {
            (push.lens[i], push.apart[i]) = (len as u32, apart as u32);
        }
        self.by_number("tower_permute", push, self.count(out), self.touched(&[x], out));
        Ok(())
    }

    /// Copies rows of `cols` columns; zeros come behind each up to `y_cols`.
    fn copy_rows(
        &mut self,
        (x, x_stride): (u64, usize),
        (y, y_stride): (u64, usize),
        rows: usize,
        [cols, y_cols]: [usize; 2],
        touched: Touched,
    ) {
        let count = rows * y_cols;
        let [x_stride, y_stride, cols, y_cols] = [x_stride, y_stride, cols, y_cols].map(|n| n as u32);
        let push = push::TowerCopy { x, y, x_stride, y_stride, cols, y_cols, count: count as u32 };
        self.by_number("tower_copy", push, count, touched);
    }

    pub(super) fn copy(&mut self, x: Part, out: Val, (row, col): (usize, usize)) {
        let (rows, stride) = (self.rows(x.val), self.cols(out));
        let first = row * stride + col;
        let written = self.numbers(out, (first, first + (rows - 1) * stride + x.cols), rows * x.cols);
        let touched = Touched { reads: vec![self.part(x)], writes: vec![written] };
        let (from, to) = ((self.part_at(x), self.cols(x.val)), (self.at(out) + 4 * first as u64, stride));
        self.copy_rows(from, to, rows, [x.cols; 2], touched);
    }

    pub(super) fn load(&mut self, weight: Weight, out: Val) {
        let (rows, cols) = (self.rows(out), self.cols(out));
        let touched = self.touched(&[], out);
        self.copy_rows((self.weight_at(weight), cols), (self.at(out), cols), rows, [cols; 2], touched);
    }

    /// Makes all of a value zeros.
    pub(super) fn zero(&mut self, out: Val) {
        let (rows, cols, touched) = (self.rows(out), self.cols(out), self.touched(&[], out));
        self.copy_rows((self.at(out), 0), (self.at(out), cols), rows, [0, cols], touched);
    }

    /// A part in memory of its own, with zeros behind each row up to `cols`.
    pub(super) fn pad(&mut self, x: Part, cols: usize) -> (u64, Access) {
        let rows = self.rows(x.val);
        let (at, held) = self.scratch(4 * (rows * cols) as u64);
        let touched = Touched { reads: vec![self.part(x)], writes: vec![held.clone()] };
        self.copy_rows((self.part_at(x), self.cols(x.val)), (at, cols), rows, [x.cols, cols], touched);
        (at, held)
    }

    pub(super) fn rotate(
        &mut self,
        x: Part,
        heads: usize,
        (at, dims): (usize, usize),
        pairs: RotationPairs,
        table: GraphTable,
    ) {
        let count = self.rows(x.val) * heads * (dims / 2);
        let push = push::TowerRotate {
            x: self.part_at(x) + 4 * at as u64,
            turns: self.t.at.constants + self.constants.table(table),
            x_stride: self.cols(x.val) as u32,
            heads: heads as u32,
            head_dim: (x.cols / heads) as u32,
            half_dims: (dims / 2) as u32,
            adjacent: u32::from(pairs == RotationPairs::Adjacent),
            count: count as u32,
        };
        let touched = Touched { reads: vec![self.part(x)], writes: vec![self.part(x)] };
        self.by_number("tower_rotate", push, count, touched);
    }

    pub(super) fn head_products(&mut self, a: Part, b: Part, heads: usize, out: Val) {
        let dim = a.cols / heads;
        let push = push::TowerHeadProducts {
            a: self.part_at(a),
            b: self.part_at(b),
            y: self.at(out),
            a_stride: self.cols(a.val) as u32,
            b_stride: self.cols(b.val) as u32,
            b_head: if b.cols == dim { 0 } else { dim as u32 },
            dim: dim as u32,
            m: self.rows(b.val) as u32,
            y_cols: self.cols(out) as u32,
            count: self.count(out) as u32,
        };
        let touched = Touched { reads: vec![self.part(a), self.part(b)], writes: vec![self.value(out)] };
        self.by_number("tower_head_products", push, self.count(out), touched);
    }

    pub(super) fn choose(&mut self, x: Val, bias: Option<Weight>, k: usize, out: Val) {
        let push = push::TowerChoose {
            x: self.at(x),
            bias: self.opt(bias),
            y: self.at(out),
            cols: self.cols(x) as u32,
            taken: k as u32,
            biased: u32::from(bias.is_some()),
            count: self.rows(x) as u32,
        };
        self.by_group("tower_choose", push, self.rows(x), self.touched(&[x], out));
    }

    pub(super) fn nearest(&mut self, x: Val, codes: Val, values: Val, out: Val) -> Result<()> {
        if self.rows(codes) >= MOST_CODES {
            return Err(Error::Request(format!("expected fewer than {MOST_CODES} codes, found {}", self.rows(codes))));
        }
        let push = push::TowerNearest {
            x: self.at(x),
            codes: self.at(codes),
            values: self.at(values),
            y: self.at(out),
            cols: self.cols(x) as u32,
            n_codes: self.rows(codes) as u32,
            y_cols: self.cols(out) as u32,
            count: self.rows(x) as u32,
        };
        self.by_group("tower_nearest", push, self.rows(x), self.touched(&[x, codes, values], out));
        Ok(())
    }

    pub(super) fn softmax(&mut self, x: Val, out: Val) {
        let (cols, count) = (self.cols(x) as u32, self.rows(x) as u32);
        let push = push::TowerSoftmax { x: self.at(x), y: self.at(out), cols, count };
        self.by_group("tower_softmax", push, self.rows(x), self.touched(&[x], out));
    }
}
