//! A graph for several media of one size at once: each value has the rows of the first medium, then those of the next. Weights are read
//! once for all; attention sees the keys of its own medium alone.

use super::{Arg, Graph, Op, Part, PicksData, Spans, TableData, Val, View, Window};
use std::collections::HashMap;

/// A graph on its way to one of several media.
struct Batching<'g> {
    graph: &'g Graph,
    /// Media.
    count: usize,
    /// Buffers whose numbers are others for another medium, and so are there for each.
    varies: Vec<bool>,
    out: Graph,
    /// Tables of rotations, repeated.
    tables: HashMap<usize, super::GraphTable>,
    /// Spans of all media, by those of one, and by rows of queries and of keys.
    spans: HashMap<(Option<usize>, usize, usize), Spans>,
}

impl Graph {
    /// The graph for `count` media of the size that this one is for: each input and the result have the numbers of all media, one medium
    /// after the other. None where some op needs all rows of a medium apart: windows that overlap in a picture's height, norms over rows.
    pub fn batched(&self, count: usize) -> Option<Graph> {
        let mut varies = vec![false; self.buffers.len()];
        self.inputs.iter().for_each(|x| varies[self.view(*x).buffer] = true);
        loop {
            let before = varies.clone();
            for op in &self.ops {
                if op.reads().iter().any(|x| varies[self.view(*x).buffer]) {
                    varies[self.view(op.output()).buffer] = true;
                }
            }
            if before == varies {
                break;
            }
        }
        let mut out = Graph { ops: Vec::new(), ..self.clone() };
        out.buffers.iter_mut().zip(&varies).filter(|(_, varies)| **varies).for_each(|(len, _)| *len *= count);
        out.views.iter_mut().filter(|view| varies[view.buffer]).for_each(|view| view.rows *= count);
        let (tables, spans) = (HashMap::new(), HashMap::new());
        let mut batching = Batching { graph: self, count, varies, out, tables, spans };
        let mut ops = &self.ops[..];
        while let Some(op) = ops.first() {
            let done = batching.stack(ops)?;
            if done == 0 {
                batching.op(op)?;
            }
            ops = &ops[done.max(1)..];
        }
        Some(batching.out)
    }
}

impl Batching<'_> {
    fn is_each(&self, x: Val) -> bool {
        self.varies[self.graph.view(x).buffer]
    }

    fn rows(&self, x: Val) -> usize {
        self.graph.view(x).rows
    }

    /// A new value of the batch.
    fn value(&mut self, rows: usize, cols: usize) -> Val {
        self.out.buffers.push(rows * cols);
        self.out.views.push(View { buffer: self.out.buffers.len() - 1, rows, cols });
        Val(self.out.views.len() - 1)
    }

    fn pick(&mut self, x: Val, each: usize, entries: Vec<(i32, f32)>, out: Val) {
        self.out.picks.push(PicksData { each, entries: entries.into() });
        let picks = super::Picks(self.out.picks.len() - 1);
        self.out.ops.push(Op::Pick { x, picks, out });
    }

    /// A value with its rows for each medium: itself, or copies of what is the same for all.
    fn lift(&mut self, x: Val) -> Val {
        if self.is_each(x) {
            return x;
        }
        let View { rows, cols, .. } = self.graph.view(x);
        let out = self.value(self.count * rows, cols);
        self.repeat(x, rows, out);
        out
    }

    fn repeat(&mut self, x: Val, rows: usize, out: Val) {
        let entries = (0..self.count * rows).map(|i| ((i % rows) as i32, 1.0)).collect();
        self.pick(x, 1, entries, out);
    }

    fn lift_part(&mut self, x: Part) -> Part {
        Part { val: self.lift(x.val), ..x }
    }

    /// Copies to rows of one value that follow each other, which `ops` begin with: how many it did; 0 where there are none.
    fn stack(&mut self, ops: &[Op]) -> Option<usize> {
        let Some(Op::Copy { x, out, .. }) = ops.first() else { return Some(0) };
        let out = *out;
        if !self.is_each(out) || self.rows(x.val) == self.rows(out) {
            return Some(0);
        }
        let (mut parts, mut rows) = (Vec::new(), 0);
        for op in ops {
            match op {
                Op::Copy { x, out: to, row, col: 0 }
                    if *to == out && *row == rows && x.cols == self.graph.view(out).cols =>
                {
                    parts.push(*x);
                    rows += self.rows(x.val);
                }
                _ => break,
            }
        }
        if rows != self.rows(out) {
            return None;
        }
        // All of the first part, all of the second, and so on; then each medium's rows together.
        let all = parts.iter().map(|x| self.out.view(x.val).rows).sum();
        let stacked = self.value(all, self.graph.view(out).cols);
        let (mut row, mut firsts) = (0, Vec::new());
        for x in &parts {
            self.out.ops.push(Op::Copy { x: *x, out: stacked, row, col: 0 });
            firsts.push(row);
            row += self.out.view(x.val).rows;
        }
        let mut entries = Vec::new();
        for medium in 0..self.count {
            for (x, first) in parts.iter().zip(&firsts) {
                let rows = self.rows(x.val);
                let first = first + if self.is_each(x.val) { medium * rows } else { 0 };
                entries.extend((first..first + rows).map(|row| (row as i32, 1.0)));
            }
        }
        self.pick(stacked, 1, entries, out);
        Some(parts.len())
    }

    /// A window over media that stand below each other, if none sees two of them.
    fn window(&self, window: &Window) -> Option<Window> {
        let Window { size, kernel, stride, before, out } = *window;
        let apart = before[1] == 0 && kernel[1] <= stride[1] && out[1] * stride[1] == size[1];
        let below = |of: [usize; 2]| [of[0], of[1] * self.count];
        apart.then(|| Window { size: below(size), out: below(out), ..*window })
    }

    fn op(&mut self, op: &Op) -> Option<()> {
        if !self.is_each(op.output()) {
            self.out.ops.push(op.clone());
            return Some(());
        }
        let mut batched = op.clone();
        match &mut batched {
            Op::MatMul { x, .. } | Op::Norm { x, .. } => *x = self.lift_part(*x),
            Op::Map { a, join, out, .. } => {
                *a = self.lift_part(*a);
                if let Some((_, Arg::Part(b))) = join {
                    // Rows that repeat would repeat over all media.
                    if self.is_each(b.val) && self.rows(b.val) != self.rows(out.val) {
                        return None;
                    }
                }
            }
            Op::HeadProducts { a, b, .. } => {
                if self.is_each(b.val) {
                    return None;
                }
                *a = self.lift_part(*a);
            }
            Op::Unfold { x, window, .. } | Op::Depthwise { x, window, .. } => {
                *window = self.window(window)?;
                *x = self.lift(*x);
            }
            Op::Choose { x, .. } | Op::Softmax { x, .. } => *x = self.lift(*x),
            Op::Nearest { x, codes, values, .. } => {
                if self.is_each(*codes) || self.is_each(*values) {
                    return None;
                }
                *x = self.lift(*x);
            }
            Op::Rotate { table, .. } => *table = self.repeat_table(*table),
            Op::Copy { x, .. } => *x = self.lift_part(*x),
            Op::Pick { x, picks, out } => {
                let PicksData { each, entries } = self.graph.picks[picks.0].clone();
                let apart = if self.is_each(*x) { self.rows(*x) } else { 0 };
                let entry = |medium: usize| {
                    move |(row, factor): &(i32, f32)| {
                        let row = if *row < 0 { *row } else { row + (medium * apart) as i32 };
                        (row, *factor)
                    }
                };
                let all = (0..self.count).flat_map(|medium| entries.iter().map(entry(medium))).collect();
                self.pick(*x, each, all, *out);
                return Some(());
            }
            Op::Permute { x, dims, .. } => {
                let View { buffer, .. } = self.graph.view(*x);
                let apart = if self.is_each(*x) { self.graph.buffers[buffer] } else { 0 };
                dims.insert(0, (self.count, apart));
            }
            Op::Load { weight, out } => {
                let View { rows, cols, .. } = self.graph.view(*out);
                let one = self.value(rows, cols);
                self.out.ops.push(Op::Load { weight: *weight, out: one });
                self.repeat(one, rows, *out);
                return Some(());
            }
            Op::Attend { .. } => self.attend(&mut batched)?,
            Op::GlobalResponse { .. } => return None,
        }
        self.out.ops.push(batched);
        Some(())
    }

    fn repeat_table(&mut self, table: super::GraphTable) -> super::GraphTable {
        if let Some(known) = self.tables.get(&table.0) {
            return *known;
        }
        let TableData { cols, values } = &self.graph.tables[table.0];
        let repeated = TableData { cols: *cols, values: values.repeat(self.count).into() };
        self.out.tables.push(repeated);
        let new = super::GraphTable(self.out.tables.len() - 1);
        self.tables.insert(table.0, new);
        new
    }

    /// Attention of each medium's queries with its own keys.
    fn attend(&mut self, op: &mut Op) -> Option<()> {
        let Op::Attend { q, k, v, spans, biases, .. } = op else { return None };
        let (queries, keys) = (self.rows(q.val), self.rows(k.val));
        let each = self.is_each(k.val) || self.is_each(v.val);
        *q = self.lift_part(*q);
        if each {
            (*k, *v) = (self.lift_part(*k), self.lift_part(*v));
        }
        for bias in biases {
            let repeats = |digit: super::Digit, rows: usize| rows.is_multiple_of(digit.div * digit.modulo);
            if each && !repeats(bias.key, keys) || bias.query.is_some_and(|digit| !repeats(digit, queries)) {
                return None;
            }
            bias.val = self.lift(bias.val);
        }
        if !each && spans.is_none() {
            return Some(());
        }
        let by = (spans.map(|s| s.0), queries, if each { keys } else { 0 });
        let known = self.spans.get(&by).copied();
        *spans = Some(known.unwrap_or_else(|| {
            let one = |query: usize| spans.map_or([0, keys as u32], |s| self.graph.spans[s.0][query]);
            let of = |i: usize| {
                let first = (i / queries * by.2) as u32;
                one(i % queries).map(|key| key + first)
            };
            self.out.spans.push((0..self.count * queries).map(of).collect());
            let new = Spans(self.out.spans.len() - 1);
            self.spans.insert(by, new);
            new
        }));
        Some(())
    }
}
