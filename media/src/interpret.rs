//! Runs graphs on the CPU in f32, each op as its documentation says.
//!
//! [`Interpreter`] keeps a file's weights as floats. With [`Products`] it does its products, those of attention among them, by someone
//! else's kernels, with matrices as the file has them. Buffers live from the op that first writes them to the last one that reads them.

mod attend;
mod fast;
mod ops;

use crate::graph::{Arg, Graph, Join, Op, Part, View, WeightUse};
use crate::{Error, Result, Source};
use pumex_quant::FormatId;
use rayon::prelude::*;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Kernels of products.
pub trait Products: Send + Sync {
    /// `out[n, m] = x[n, k] · wᵀ` with `w` `[m, k]`, of f32, f16 or bf16, by its bytes; `sizes` are n, m and k.
    fn multiply(&self, w: (FormatId, &[u8]), sizes: [usize; 3], x: &[f32], out: &mut [f32]);
}

/// Weights of a file, and how products are done.
pub struct Interpreter<S> {
    source: S,
    products: Option<Box<dyn Products>>,
    floats: Mutex<HashMap<WeightUse, Arc<[f32]>>>,
}

/// Buffers of a graph that runs, and its weights.
struct GraphRun<'g> {
    graph: &'g Graph,
    /// Empty where [`Products`] read the file's own bytes.
    weights: Vec<Arc<[f32]>>,
    source: &'g dyn Source,
    products: Option<&'g dyn Products>,
    buffers: Vec<Vec<f32>>,
}

impl<S: Source> Interpreter<S> {
    /// An interpreter with the weights of `source`.
    pub fn new(source: S) -> Interpreter<S> {
        Interpreter { source, products: None, floats: Mutex::default() }
    }

    /// An interpreter with the weights of `source`, and products by these kernels.
    pub fn with_products(source: S, products: Box<dyn Products>) -> Interpreter<S> {
        Interpreter { source, products: Some(products), floats: Mutex::default() }
    }

    /// The file.
    pub fn source(&self) -> &S {
        &self.source
    }

    fn weight(&self, used: &WeightUse) -> Result<Arc<[f32]>> {
        let mut kept = self.floats.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = kept.get(used) {
            return Ok(found.clone());
        }
        let floats: Arc<[f32]> = decode(&self.source, used)?.into();
        kept.insert(used.clone(), floats.clone());
        Ok(floats)
    }

    /// The rows for the text model, `[rows, cols]` of [`Graph::out`].
    ///
    /// # Errors
    /// Inputs of other sizes than the graph's; weights that are missing; no memory.
    pub fn run(&self, graph: &Graph, inputs: &[&[f32]]) -> Result<Vec<f32>> {
        let products = self.products.as_deref();
        let weight = |used: &WeightUse| match products {
            Some(_) if fast::is_read_in_place(&self.source, used) => Ok([].into()),
            _ => self.weight(used),
        };
        let weights = graph.weights.iter().map(weight).collect::<Result<Vec<_>>>()?;
        let buffers = vec![Vec::new(); graph.buffers.len()];
        let mut run = GraphRun { graph, weights, source: &self.source, products, buffers };
        if inputs.len() != graph.inputs.len() {
            return Err(Error::Medium(format!("expected {} inputs, found {}", graph.inputs.len(), inputs.len())));
        }
        for (val, input) in graph.inputs.iter().zip(inputs) {
            let View { buffer, rows, cols } = graph.view(*val);
            if input.len() != rows * cols {
                return Err(Error::Medium(format!("expected an input of {rows} x {cols}, found {}", input.len())));
            }
            run.buffers[buffer] = input.to_vec();
        }
        let out =
            graph.out.map(|val| graph.view(val)).ok_or_else(|| Error::Shape("a graph without a result".into()))?;
        let mut last = vec![0; graph.buffers.len()];
        for (i, op) in graph.ops.iter().enumerate() {
            op.reads().into_iter().chain([op.output()]).for_each(|v| last[graph.view(v).buffer] = i);
        }
        for (i, op) in graph.ops.iter().enumerate() {
            run.step(op)?;
            for val in op.reads().into_iter().chain([op.output()]) {
                let buffer = graph.view(val).buffer;
                if last[buffer] == i && buffer != out.buffer {
                    run.buffers[buffer] = Vec::new();
                }
            }
        }
        Ok(std::mem::take(&mut run.buffers[out.buffer]))
    }
}

/// A tensor's numbers, `[rows, cols]` as they are used.
fn decode(source: &dyn Source, used: &WeightUse) -> Result<Vec<f32>> {
    let stored = source.tensor(&used.name).ok_or_else(|| Error::MissingTensor(used.name.clone()))?;
    let mut all = zeros(used.rows * used.cols)?;
    if stored.shape.iter().product::<usize>() != all.len() {
        return Err(Error::Shape(format!("{}: expected {} numbers, found {:?}", used.name, all.len(), stored.shape)));
    }
    stored.format.format().decode_row(stored.data, &mut all);
    if !used.transposed {
        return Ok(all);
    }
    let mut turned = zeros(all.len())?;
    for (i, row) in turned.chunks_exact_mut(used.cols).enumerate() {
        row.iter_mut().enumerate().for_each(|(j, x)| *x = all[j * used.rows + i]);
    }
    Ok(turned)
}

fn zeros(len: usize) -> Result<Vec<f32>> {
    let mut all = Vec::new();
    all.try_reserve_exact(len).map_err(|_| Error::Medium(format!("out of memory: {len} numbers of a value")))?;
    all.resize(len, 0.0);
    Ok(all)
}

/// An operand that is repeated over the rows and columns of a result.
struct RepeatedRows<'r> {
    numbers: &'r [f32],
    rows: usize,
    cols: usize,
    stride: usize,
    at: usize,
}

impl RepeatedRows<'_> {
    fn get(&self, row: usize, col: usize) -> f32 {
        self.numbers[(row % self.rows) * self.stride + self.at + col % self.cols]
    }
}

impl GraphRun<'_> {
    fn part(&self, part: Part) -> RepeatedRows<'_> {
        let View { buffer, rows, cols } = self.graph.view(part.val);
        RepeatedRows { numbers: &self.buffers[buffer], rows, cols: part.cols, stride: cols, at: part.at }
    }

    fn arg<'r>(&'r self, arg: &'r Arg, number: &'r [f32; 1]) -> RepeatedRows<'r> {
        let whole = |numbers: &'r [f32], rows, cols| RepeatedRows { numbers, rows, cols, stride: cols, at: 0 };
        match arg {
            Arg::Part(part) => self.part(*part),
            Arg::Weight(w) => {
                let used = &self.graph.weights[w.0];
                whole(&self.weights[w.0], used.rows, used.cols)
            }
            Arg::Table(t) => {
                let table = &self.graph.tables[t.0];
                whole(&table.values, table.values.len() / table.cols, table.cols)
            }
            Arg::Number(_) => whole(number, 1, 1),
        }
    }

    /// Rows of the part's numbers, computed one by one, are written to the part.
    fn write(&mut self, out: Part, row: impl Fn(&Self, usize, &mut [f32]) + Sync) -> Result<()> {
        let View { buffer, rows, cols } = self.graph.view(out.val);
        let mut made = zeros(rows * out.cols)?;
        {
            let this = &*self;
            made.par_chunks_mut(out.cols).enumerate().for_each(|(i, numbers)| row(this, i, numbers));
        }
        if out.cols == cols {
            self.buffers[buffer] = made;
            return Ok(());
        }
        let held = &mut self.buffers[buffer];
        if held.is_empty() {
            *held = zeros(rows * cols)?;
        }
        for (to, from) in held.chunks_exact_mut(cols).zip(made.chunks_exact(out.cols)) {
            to[out.at..][..out.cols].copy_from_slice(from);
        }
        Ok(())
    }

    fn step(&mut self, op: &Op) -> Result<()> {
        let whole = |run: &Self, val| Part { val, at: 0, cols: run.graph.view(val).cols };
        match op {
            Op::MatMul { x, weight, bias, out } if self.products.is_some() => {
                let products = fast::multiply(self, *x, *weight, *bias)?;
                self.write(*out, |_, i, numbers| {
                    numbers.copy_from_slice(&products[i * numbers.len()..][..numbers.len()]);
                })
            }
            Op::MatMul { x, weight, bias, out } => self.write(*out, |run, i, numbers| {
                let used = &run.graph.weights[weight.0];
                let x = run.part(*x);
                let row = &x.numbers[i * x.stride + x.at..][..x.cols];
                let bias = bias.map(|b| &run.weights[b.0]);
                for (j, out) in numbers.iter_mut().enumerate() {
                    let sum = ops::dot(row, &run.weights[weight.0][j * used.cols..][..used.cols]);
                    *out = sum + bias.map_or(0.0, |b| b[j]);
                }
            }),
            Op::HeadProducts { a, b, heads, out } => self.write(whole(self, *out), |run, i, numbers| {
                let (a, b) = (run.part(*a), run.part(*b));
                let (d, m) = (a.cols / heads, numbers.len() / heads);
                for (h, products) in numbers.chunks_exact_mut(m).enumerate() {
                    let row = &a.numbers[i * a.stride + a.at + h * d..][..d];
                    let at = if b.cols == d { b.at } else { b.at + h * d };
                    products.iter_mut().enumerate().for_each(|(j, out)| {
                        *out = ops::dot(row, &b.numbers[j * b.stride + at..][..d]);
                    });
                }
            }),
            Op::Unfold { x, window, out } => self.write(whole(self, *out), |run, i, numbers| {
                ops::unfold(&run.part(whole(run, *x)), window, i, numbers);
            }),
            Op::Depthwise { x, window, weight, bias, out } => self.write(whole(self, *out), |run, i, numbers| {
                let bias = bias.map(|b| &run.weights[b.0][..]);
                ops::depthwise(&run.part(whole(run, *x)), window, (&run.weights[weight.0], bias), i, numbers);
            }),
            Op::Norm { kind, x, groups, weight, bias, eps, out } => self.write(*out, |run, i, numbers| {
                let x = run.part(*x);
                numbers.copy_from_slice(&x.numbers[i * x.stride + x.at..][..x.cols]);
                let [weight, bias] = [weight, bias].map(|w| w.map(|w| &run.weights[w.0][..]));
                ops::norm(*kind, numbers, *groups, (weight, bias), *eps);
            }),
            Op::GlobalResponse { x, weight, bias, eps, out } => {
                let shares = ops::global_response(&self.part(whole(self, *x)), *eps);
                self.write(whole(self, *out), |run, i, numbers| {
                    let x = run.part(whole(run, *x));
                    let (weight, bias) = (&run.weights[weight.0], &run.weights[bias.0]);
                    for (c, out) in numbers.iter_mut().enumerate() {
                        let x = x.get(i, c);
                        *out = x + weight[c] * x * shares[c] + bias[c];
                    }
                })
            }
            Op::Map { act, a, scale, join, out } => self.write(*out, |run, i, numbers| {
                let a = run.part(*a);
                let number = [match join {
                    Some((_, Arg::Number(n))) => *n,
                    _ => 0.0,
                }];
                let b = join.as_ref().map(|(how, arg)| (*how, run.arg(arg, &number)));
                for (c, out) in numbers.iter_mut().enumerate() {
                    let value = scale * ops::act(*act, a.get(i, c));
                    *out = match &b {
                        None => value,
                        Some((Join::Add, b)) => value + b.get(i, c),
                        Some((Join::Mul, b)) => value * b.get(i, c),
                    };
                }
            }),
            Op::Pick { x, picks, out } => self.write(whole(self, *out), |run, i, numbers| {
                let (x, picks) = (run.part(whole(run, *x)), &run.graph.picks[picks.0]);
                for (row, factor) in &picks.entries[i * picks.each..][..picks.each] {
                    if let Ok(row) = usize::try_from(*row) {
                        let from = &x.numbers[row * x.cols..][..x.cols];
                        numbers.iter_mut().zip(from).for_each(|(out, x)| *out += factor * x);
                    }
                }
            }),
            Op::Permute { x, dims, out } => self.write(whole(self, *out), |run, i, numbers| {
                let x = &run.buffers[run.graph.view(*x).buffer];
                let cols = numbers.len();
                numbers.iter_mut().enumerate().for_each(|(c, out)| *out = x[ops::place(dims, i * cols + c)]);
            }),
            Op::Copy { x, out, row, col } => {
                let (from, to) = (self.graph.view(x.val), self.graph.view(*out));
                let mut held = std::mem::take(&mut self.buffers[to.buffer]);
                if held.is_empty() {
                    held = zeros(to.rows * to.cols)?;
                }
                let source = self.part(*x);
                for i in 0..from.rows {
                    let numbers = &source.numbers[i * source.stride + source.at..][..x.cols];
                    held[(row + i) * to.cols + col..][..x.cols].copy_from_slice(numbers);
                }
                self.buffers[to.buffer] = held;
                Ok(())
            }
            Op::Load { weight, out } => {
                self.buffers[self.graph.view(*out).buffer] = self.weights[weight.0].to_vec();
                Ok(())
            }
            Op::Rotate { x, heads, at, dims, pairs, table } => self.write(*x, |run, i, numbers| {
                let x = run.part(*x);
                numbers.copy_from_slice(&x.numbers[i * x.stride + x.at..][..x.cols]);
                let turns = &run.graph.tables[table.0].values[i * dims..][..*dims];
                numbers
                    .chunks_exact_mut(x.cols / heads)
                    .for_each(|head| ops::rotate(&mut head[*at..][..*dims], *pairs, turns));
            }),
            Op::Attend { out, .. } if self.products.is_some() => {
                let made = fast::attend(self, op)?;
                self.buffers[self.graph.view(*out).buffer] = made;
                Ok(())
            }
            Op::Attend { out, .. } => self.write(whole(self, *out), |run, i, numbers| attend::row(run, op, i, numbers)),
            Op::Choose { x, bias, k, out } => self.write(whole(self, *out), |run, i, numbers| {
                let x = run.part(whole(run, *x));
                let row = &x.numbers[i * x.cols..][..x.cols];
                ops::choose(row, bias.map(|b| &run.weights[b.0][..]), *k, numbers);
            }),
            Op::Nearest { x, codes, values, out } => self.write(whole(self, *out), |run, i, numbers| {
                let [x, codes, values] = [x, codes, values].map(|v| run.part(whole(run, *v)));
                let row = ops::nearest(&x.numbers[i * x.cols..][..x.cols], codes.numbers);
                numbers.copy_from_slice(&values.numbers[row * values.cols..][..values.cols]);
            }),
            Op::Softmax { x, out } => self.write(whole(self, *out), |run, i, numbers| {
                let x = run.part(whole(run, *x));
                ops::softmax(&x.numbers[i * x.cols..][..x.cols], numbers);
            }),
        }
    }
}
