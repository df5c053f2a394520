//! Builds graphs, and checks shapes while it does: a file's tensors are what they are.

mod moves;

use crate::graph::{
    Act, Arg, Bias, Graph, GraphTable, Join, NormKind, Op, Part, Picks, PicksData, Spans, TableData, Val, View, Weight,
    WeightUse,
};
use crate::{Error, Result, Source};
use std::collections::HashMap;

/// The most numbers that a value may have.
const MOST: usize = 1 << 30;

/// A graph that is being built from a projector's tensors.
pub struct Builder<'a> {
    source: &'a dyn Source,
    graph: Graph,
    interned: HashMap<WeightUse, Weight>,
    /// Rotations so far: columns, angles, and the table of their cosines and sines.
    rotations: Vec<(usize, Vec<f32>, GraphTable)>,
}

/// Heads and rules of an attention.
#[derive(Clone, Debug, Default)]
pub struct Attention {
    /// Heads of q.
    pub heads: usize,
    /// Heads of k and v.
    pub kv_heads: usize,
    /// The factor of the scores.
    pub scale: f32,
    /// Which keys each query sees; all without.
    pub spans: Option<Spans>,
    /// Added to the scores.
    pub biases: Vec<Bias>,
    /// Cap of the scores.
    pub soft_cap: Option<f32>,
    /// A score of each head without a value.
    pub sinks: Option<Weight>,
}

fn bad<T>(what: String) -> Result<T> {
    Err(Error::Shape(what))
}

impl<'a> Builder<'a> {
    /// Without ops.
    pub fn new(source: &'a dyn Source) -> Builder<'a> {
        Builder { source, graph: Graph::default(), interned: HashMap::new(), rotations: Vec::new() }
    }

    /// The graph, with the rows for the text model.
    pub fn finish(mut self, out: Val) -> Graph {
        self.graph.out = Some(out);
        self.graph
    }

    /// Rows of a value.
    pub fn rows(&self, x: Val) -> usize {
        self.graph.view(x).rows
    }

    /// Columns of a value.
    pub fn cols(&self, x: Val) -> usize {
        self.graph.view(x).cols
    }

    /// All columns of a value.
    pub fn all(&self, x: Val) -> Part {
        Part { val: x, at: 0, cols: self.cols(x) }
    }

    /// Columns `at..at + cols` of a value.
    ///
    /// # Errors
    /// The value has fewer.
    pub fn part(&self, x: Val, at: usize, cols: usize) -> Result<Part> {
        match at.checked_add(cols) {
            Some(end) if end <= self.cols(x) => Ok(Part { val: x, at, cols }),
            _ => bad(format!("expected columns {at} to {at} + {cols} of {}, found fewer", self.cols(x))),
        }
    }

    /// Whether the file has a tensor.
    pub fn has(&self, name: &str) -> bool {
        self.source.tensor(name).is_some()
    }

    /// Lengths of a tensor, the fastest varying first.
    ///
    /// # Errors
    /// No such tensor.
    pub fn shape(&self, name: &str) -> Result<Vec<usize>> {
        self.source.tensor(name).map(|t| t.shape).ok_or_else(|| Error::MissingTensor(name.into()))
    }

    /// The numbers of a tensor, for lists that are made while the graph is built.
    ///
    /// # Errors
    /// No such tensor.
    pub fn floats(&self, name: &str) -> Result<Vec<f32>> {
        let stored = self.source.tensor(name).ok_or_else(|| Error::MissingTensor(name.into()))?;
        let mut out = vec![0.0; stored.shape.iter().product()];
        stored.format.format().decode_row(stored.data, &mut out);
        Ok(out)
    }

    fn intern(&mut self, name: &str, (rows, cols): (usize, usize), transposed: bool, floats: bool) -> Result<Weight> {
        let shape = self.shape(name)?;
        let len = shape.iter().try_fold(1usize, |all, n| all.checked_mul(*n));
        if len.is_none() || len != rows.checked_mul(cols) {
            return bad(format!("{name}: expected {rows} rows of {cols}, found {shape:?}"));
        }
        let weight = WeightUse { name: name.into(), rows, cols, transposed, floats };
        let next = Weight(self.interned.len());
        let found = *self.interned.entry(weight.clone()).or_insert(next);
        if found == next {
            self.graph.weights.push(weight);
        }
        Ok(found)
    }

    /// A tensor as floats, `[rows, cols]`.
    ///
    /// # Errors
    /// No such tensor; another number of elements.
    pub fn table_weight(&mut self, name: &str, rows: usize, cols: usize) -> Result<Weight> {
        self.intern(name, (rows, cols), false, true)
    }

    /// A tensor as a vector of `len` floats.
    ///
    /// # Errors
    /// No such tensor; another number of elements.
    pub fn vector(&mut self, name: &str, len: usize) -> Result<Weight> {
        self.intern(name, (1, len), false, true)
    }

    /// A tensor as a vector of `len` floats; none where the file has no such tensor.
    ///
    /// # Errors
    /// Another number of elements.
    pub fn vector_if(&mut self, name: &str, len: usize) -> Result<Option<Weight>> {
        if self.has(name) {
            self.vector(name, len).map(Some)
        } else {
            Ok(None)
        }
    }

    /// A matrix of a product with rows of `cols` columns; the fastest varying lengths together are its columns.
    ///
    /// # Errors
    /// No such tensor; no row of so many columns.
    pub fn matrix(&mut self, name: &str, cols: usize) -> Result<Weight> {
        let shape = self.shape(name)?;
        let (mut held, mut i) = (1usize, 0);
        while held < cols && i < shape.len() {
            held = held.saturating_mul(shape[i]);
            i += 1;
        }
        if held != cols {
            return bad(format!("{name}: expected rows of {cols}, found {shape:?}"));
        }
        let rows = shape[i..].iter().try_fold(1usize, |all, n| all.checked_mul(*n)).unwrap_or(0);
        self.intern(name, (rows, cols), false, false)
    }

    /// A matrix of a product, from a tensor that is stored as `[cols, rows]`: its fastest varying length is what comes out.
    ///
    /// # Errors
    /// No such tensor; another number of columns.
    pub fn matrix_transposed(&mut self, name: &str, cols: usize) -> Result<Weight> {
        match self.shape(name)?[..] {
            [rows, found] if found == cols => self.intern(name, (rows, cols), true, false),
            ref found => bad(format!("{name}: expected {cols} columns, found {found:?}")),
        }
    }

    /// A value.
    ///
    /// # Errors
    /// More numbers than a value may have, or none.
    pub fn value(&mut self, rows: usize, cols: usize) -> Result<Val> {
        match rows.checked_mul(cols) {
            Some(len) if (1..=MOST).contains(&len) => {
                self.graph.buffers.push(len);
                self.graph.views.push(View { buffer: self.graph.buffers.len() - 1, rows, cols });
                Ok(Val(self.graph.views.len() - 1))
            }
            _ => bad(format!("expected 1 to {MOST} numbers of a value, found {rows} rows of {cols}")),
        }
    }

    /// A value that the medium's numbers are written to.
    ///
    /// # Errors
    /// As [`Builder::value`].
    pub fn input(&mut self, rows: usize, cols: usize) -> Result<Val> {
        let val = self.value(rows, cols)?;
        self.graph.inputs.push(val);
        Ok(val)
    }

    /// The numbers of `x`, in the same order, as `rows` rows of `cols` columns.
    ///
    /// # Errors
    /// Another number of numbers.
    pub fn reshape(&mut self, x: Val, rows: usize, cols: usize) -> Result<Val> {
        let view = self.graph.view(x);
        if rows.checked_mul(cols) != Some(view.rows * view.cols) {
            return bad(format!("expected {} x {} numbers, found {rows} x {cols}", view.rows, view.cols));
        }
        self.graph.views.push(View { buffer: view.buffer, rows, cols });
        Ok(Val(self.graph.views.len() - 1))
    }

    /// Numbers that are known now, `cols` to a row.
    pub fn table(&mut self, cols: usize, values: Vec<f32>) -> GraphTable {
        self.graph.tables.push(TableData { cols, values: values.into() });
        GraphTable(self.graph.tables.len() - 1)
    }

    /// First key that each query sees, and the one behind the last.
    pub fn spans(&mut self, spans: Vec<[u32; 2]>) -> Spans {
        self.graph.spans.push(spans.into());
        Spans(self.graph.spans.len() - 1)
    }

    /// Sums of rows, `each` entries to a row.
    pub fn picks(&mut self, each: usize, entries: Vec<(i32, f32)>) -> Picks {
        self.graph.picks.push(PicksData { each, entries: entries.into() });
        Picks(self.graph.picks.len() - 1)
    }

    /// Adds an op as it is; the caller answers for its shapes.
    pub fn push(&mut self, op: Op) {
        self.graph.ops.push(op);
    }

    /// `x · weightᵀ + bias` into a new value.
    ///
    /// # Errors
    /// Columns of `x` that are not those of the weight.
    pub fn product(&mut self, x: Part, weight: Weight, bias: Option<Weight>) -> Result<Val> {
        let (rows, m) = (self.rows(x.val), self.graph.weights[weight.0].rows);
        if self.graph.weights[weight.0].cols != x.cols {
            let w = &self.graph.weights[weight.0];
            return bad(format!("{}: expected rows of {}, found {}", w.name, x.cols, w.cols));
        }
        let out = self.value(rows, m)?;
        let out_part = self.all(out);
        self.push(Op::MatMul { x, weight, bias, out: out_part });
        Ok(out)
    }

    /// The linear layer `name.weight`, with `name.bias` if there is one; clamped where the file has limits of its input or output.
    ///
    /// # Errors
    /// No such tensor; shapes that do not fit.
    pub fn linear(&mut self, x: Val, name: &str) -> Result<Val> {
        let part = self.all(x);
        self.linear_of(part, name)
    }

    /// The linear layer `name.weight` over some columns of a value, with `name.bias` if there is one.
    ///
    /// # Errors
    /// As [`Builder::linear`].
    pub fn linear_of(&mut self, x: Part, name: &str) -> Result<Val> {
        let x = match self.limits(name, "input")? {
            Some((low, high)) => {
                let clamped = self.map_part(Act::Clamp(low, high), x, 1.0, None)?;
                self.all(clamped)
            }
            None => x,
        };
        let weight = self.matrix(&format!("{name}.weight"), x.cols)?;
        let rows = self.graph.weights[weight.0].rows;
        let bias = self.vector_if(&format!("{name}.bias"), rows)?;
        let out = self.product(x, weight, bias)?;
        match self.limits(name, "output")? {
            Some((low, high)) => self.act(Act::Clamp(low, high), out),
            None => Ok(out),
        }
    }

    fn limits(&self, name: &str, end: &str) -> Result<Option<(f32, f32)>> {
        let limit = |side: &str, default: f32| {
            let name = format!("{name}.{end}_{side}");
            if !self.has(&name) {
                return Ok((default, false));
            }
            match self.floats(&name)?[..] {
                [one] => Ok((one, true)),
                ref more => bad(format!("{name}: expected one number, found {}", more.len())),
            }
        };
        let ((low, some), (high, other)) = (limit("min", f32::MIN)?, limit("max", f32::MAX)?);
        Ok((some || other).then_some((low, high)))
    }

    /// `scale * act(a)` joined with `b` into a new value.
    ///
    /// # Errors
    /// An operand that does not go into the result.
    pub fn map(&mut self, act: Act, a: Val, scale: f32, join: Option<(Join, Arg)>) -> Result<Val> {
        let part = self.all(a);
        self.map_part(act, part, scale, join)
    }

    /// `scale * act(a)` joined with another operand into a new value, where `a` is some columns of a value.
    ///
    /// # Errors
    /// An operand that does not go into the result.
    pub fn map_part(&mut self, act: Act, a: Part, scale: f32, join: Option<(Join, Arg)>) -> Result<Val> {
        let rows = self.rows(a.val);
        if let Some((_, arg)) = &join {
            let (r, c) = match arg {
                Arg::Part(p) => (self.rows(p.val), p.cols),
                Arg::Weight(w) => (self.graph.weights[w.0].rows, self.graph.weights[w.0].cols),
                Arg::Table(t) => {
                    let table = &self.graph.tables[t.0];
                    (table.values.len() / table.cols.max(1), table.cols)
                }
                Arg::Number(_) => (1, 1),
            };
            if r == 0 || c == 0 || !rows.is_multiple_of(r) || !a.cols.is_multiple_of(c) {
                return bad(format!("expected an operand that goes into {rows} x {}, found {r} x {c}", a.cols));
            }
        }
        let out = self.value(rows, a.cols)?;
        let out_part = self.all(out);
        self.push(Op::Map { act, a, scale, join, out: out_part });
        Ok(out)
    }

    /// `act(x)`
    ///
    /// # Errors
    /// None but of a value's size.
    pub fn act(&mut self, act: Act, x: Val) -> Result<Val> {
        self.map(act, x, 1.0, None)
    }

    /// `scale * x`
    ///
    /// # Errors
    /// None but of a value's size.
    pub fn scale(&mut self, x: Val, scale: f32) -> Result<Val> {
        self.map(Act::Same, x, scale, None)
    }

    /// `a + b`, `b` repeated as often as it goes into `a`.
    ///
    /// # Errors
    /// One that does not go into the other.
    pub fn add(&mut self, a: Val, b: Val) -> Result<Val> {
        let b = self.all(b);
        self.map(Act::Same, a, 1.0, Some((Join::Add, Arg::Part(b))))
    }

    /// `a + weight`, the weight `[rows, cols]` of the file repeated as often as it goes into `a`.
    ///
    /// # Errors
    /// No such tensor; one that does not go into the value.
    pub fn add_weight(&mut self, a: Val, name: &str, rows: usize, cols: usize) -> Result<Val> {
        let weight = self.table_weight(name, rows, cols)?;
        self.map(Act::Same, a, 1.0, Some((Join::Add, Arg::Weight(weight))))
    }

    /// `a * weight`, likewise.
    ///
    /// # Errors
    /// No such tensor; one that does not go into the value.
    pub fn mul_weight(&mut self, a: Val, name: &str, rows: usize, cols: usize) -> Result<Val> {
        let weight = self.table_weight(name, rows, cols)?;
        self.map(Act::Same, a, 1.0, Some((Join::Mul, Arg::Weight(weight))))
    }

    /// `act(gate) * up`
    ///
    /// # Errors
    /// Different shapes.
    pub fn gate(&mut self, act: Act, gate: Val, up: Val) -> Result<Val> {
        let up = self.all(up);
        self.map(act, gate, 1.0, Some((Join::Mul, Arg::Part(up))))
    }

    /// A norm of whole rows with `name.weight`, and `name.bias` if there is one.
    ///
    /// # Errors
    /// No such tensor; another length.
    pub fn norm(&mut self, kind: NormKind, x: Val, name: &str, eps: f32) -> Result<Val> {
        let cols = self.cols(x);
        let weight = self.vector(&format!("{name}.weight"), cols)?;
        let bias = self.vector_if(&format!("{name}.bias"), cols)?;
        let part = self.all(x);
        self.norm_with(kind, part, 1, (Some(weight), bias), eps)
    }

    /// A norm of each of `groups` parts of every row.
    ///
    /// # Errors
    /// Groups that do not divide the columns; factors of another length than a part or a row.
    pub fn norm_with(
        &mut self,
        kind: NormKind,
        x: Part,
        groups: usize,
        (weight, bias): (Option<Weight>, Option<Weight>),
        eps: f32,
    ) -> Result<Val> {
        let len = |w: &Weight| self.graph.weights[w.0].rows * self.graph.weights[w.0].cols;
        let fits = |w: &Weight| len(w) == x.cols || len(w) * groups == x.cols;
        if groups == 0 || !x.cols.is_multiple_of(groups) || ![weight, bias].iter().flatten().all(fits) {
            return bad(format!("expected factors of {} columns in {groups} groups, found others", x.cols));
        }
        let out = self.value(self.rows(x.val), x.cols)?;
        let out_part = self.all(out);
        self.push(Op::Norm { kind, x, groups, weight, bias, eps, out: out_part });
        Ok(out)
    }
}
