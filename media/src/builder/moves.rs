//! Ops that bring rows and numbers elsewhere, windows, rotations and attention.

use super::{bad, Attention, Builder};
use crate::graph::{Bias, Digit, Op, Part, Picks, RotationPairs, Spans, Val, Window};
use crate::Result;

impl Builder<'_> {
    /// Weighted sums of rows.
    ///
    /// # Errors
    /// Rows that are not there.
    pub fn pick(&mut self, x: Val, picks: Picks) -> Result<Val> {
        let data = &self.graph.picks[picks.0];
        let rows = self.rows(x) as i64;
        if data.each == 0 || data.entries.iter().any(|(row, _)| i64::from(*row) >= rows) {
            return bad(format!("expected rows below {rows}, found others"));
        }
        let out_rows = data.entries.len() / data.each;
        let out = self.value(out_rows, self.cols(x))?;
        self.push(Op::Pick { x, picks, out });
        Ok(out)
    }

    /// The rows of `x` in the order of `order`; those below 0 are zeros.
    ///
    /// # Errors
    /// Rows that are not there.
    pub fn reorder(&mut self, x: Val, order: &[i32]) -> Result<Val> {
        let picks = self.picks(1, order.iter().map(|row| (*row, 1.0)).collect());
        self.pick(x, picks)
    }

    /// The numbers of `x` in another order; see [`Op::Permute`].
    ///
    /// # Errors
    /// Another number of numbers; strides that lead out of it.
    pub fn permute(&mut self, x: Val, dims: &[(usize, usize)], rows: usize, cols: usize) -> Result<Val> {
        let view = self.graph.view(x);
        let len = dims.iter().try_fold(1usize, |all, (n, _)| all.checked_mul(*n));
        let last = dims.iter().try_fold(0usize, |all, (n, stride)| {
            n.checked_sub(1).and_then(|n| n.checked_mul(*stride)).and_then(|n| all.checked_add(n))
        });
        if len.is_none() || len != rows.checked_mul(cols) || last.is_none_or(|last| last >= view.rows * view.cols) {
            return bad(format!("expected an order of {} x {} numbers, found {dims:?}", view.rows, view.cols));
        }
        let out = self.value(rows, cols)?;
        self.push(Op::Permute { x, dims: dims.to_vec(), out });
        Ok(out)
    }

    /// Rows of several values, one after the other.
    ///
    /// # Errors
    /// Different columns.
    pub fn stack(&mut self, parts: &[Val]) -> Result<Val> {
        let cols = parts.first().map_or(0, |p| self.cols(*p));
        if parts.iter().any(|p| self.cols(*p) != cols) {
            return bad(format!("expected rows of {cols}, found others"));
        }
        let rows = parts.iter().map(|p| self.rows(*p)).sum();
        let out = self.value(rows, cols)?;
        let mut row = 0;
        for part in parts {
            let x = self.all(*part);
            self.push(Op::Copy { x, out, row, col: 0 });
            row += self.rows(*part);
        }
        Ok(out)
    }

    /// Columns of several values side by side.
    ///
    /// # Errors
    /// Different rows.
    pub fn join(&mut self, parts: &[Val]) -> Result<Val> {
        let rows = parts.first().map_or(0, |p| self.rows(*p));
        if parts.iter().any(|p| self.rows(*p) != rows) {
            return bad(format!("expected {rows} rows, found others"));
        }
        let cols = parts.iter().map(|p| self.cols(*p)).sum();
        let out = self.value(rows, cols)?;
        let mut col = 0;
        for part in parts {
            let x = self.all(*part);
            self.push(Op::Copy { x, out, row: 0, col });
            col += self.cols(*part);
        }
        Ok(out)
    }

    /// A weight as a value.
    ///
    /// # Errors
    /// No such tensor; another number of elements.
    pub fn load(&mut self, name: &str, rows: usize, cols: usize) -> Result<Val> {
        let weight = self.table_weight(name, rows, cols)?;
        let out = self.value(rows, cols)?;
        self.push(Op::Load { weight, out });
        Ok(out)
    }

    /// What each place of a window sees.
    ///
    /// # Errors
    /// A value that is not as large as the window says; a window that reaches beyond the far edge by more than itself.
    pub fn unfold(&mut self, x: Val, window: Window) -> Result<Val> {
        self.check(x, &window)?;
        let out = self.value(window.out[0] * window.out[1], self.cols(x) * window.kernel[0] * window.kernel[1])?;
        self.push(Op::Unfold { x, window, out });
        Ok(out)
    }

    fn check(&self, x: Val, w: &Window) -> Result<()> {
        let sizes = [w.size, w.kernel, w.stride, w.out].concat();
        let inside = (0..2).all(|i| {
            let last = w.out[i].saturating_sub(1).saturating_mul(w.stride[i]);
            last < w.size[i].saturating_add(w.before[i]) && w.before[i] < w.kernel[i]
        });
        if sizes.contains(&0) || !inside || w.size[0].checked_mul(w.size[1]) != Some(self.rows(x)) {
            return bad(format!("expected a window over {} rows, found {w:?}", self.rows(x)));
        }
        Ok(())
    }

    /// A convolution `name.weight` `[kernel w, kernel h, in, out]`, with `name.bias` if there is one.
    ///
    /// # Errors
    /// No such tensor; shapes that do not fit.
    pub fn conv(&mut self, x: Val, name: &str, window: Window) -> Result<Val> {
        let unfolded = self.unfold(x, window)?;
        self.linear(unfolded, name)
    }

    /// A convolution of each channel with a window of its own, `name.weight`, with `name.bias` if there is one.
    ///
    /// # Errors
    /// No such tensor; shapes that do not fit.
    pub fn depthwise(&mut self, x: Val, name: &str, window: Window) -> Result<Val> {
        self.check(x, &window)?;
        let cols = self.cols(x);
        let weight = self.table_weight(&format!("{name}.weight"), cols, window.kernel[0] * window.kernel[1])?;
        let bias = self.vector_if(&format!("{name}.bias"), cols)?;
        let out = self.value(window.out[0] * window.out[1], cols)?;
        self.push(Op::Depthwise { x, window, weight, bias, out });
        Ok(out)
    }

    /// Turns columns `at..at + dims` of each of `heads` heads of `x` in place, by angles of each row and pair: `[rows, dims / 2]`.
    ///
    /// # Errors
    /// Heads that do not divide the columns; columns that are not there; another number of angles.
    pub fn rotate(
        &mut self,
        x: Part,
        heads: usize,
        (at, dims): (usize, usize),
        pairs: RotationPairs,
        angles: &[f32],
    ) -> Result<()> {
        let (rows, half) = (self.rows(x.val), dims / 2);
        let fits = heads > 0 && x.cols.is_multiple_of(heads) && at + dims <= x.cols / heads && half > 0;
        if !fits || dims % 2 == 1 || rows.checked_mul(half) != Some(angles.len()) {
            return bad(format!("expected a rotation of {} columns in {heads} heads, found {dims} from {at}", x.cols));
        }
        let known = self.rotations.iter().find(|(width, of, _)| *width == dims && of[..] == *angles);
        let table = match known {
            Some((.., table)) => *table,
            None => {
                let turned = angles.chunks_exact(half).flat_map(|row| {
                    row.iter().map(|a| a.cos()).chain(row.iter().map(|a| a.sin())).collect::<Vec<f32>>()
                });
                let table = self.table(dims, turned.collect());
                self.rotations.push((dims, angles.to_vec(), table));
                table
            }
        };
        self.push(Op::Rotate { x, heads, at, dims, pairs, table });
        Ok(())
    }

    /// Attention of all heads into a new value.
    ///
    /// # Errors
    /// Shapes that do not fit.
    pub fn attend(&mut self, (q, k, v): (Part, Part, Part), rules: &Attention) -> Result<Val> {
        let Attention { heads, kv_heads, .. } = *rules;
        let divides = |n: usize, by: usize| by > 0 && n.is_multiple_of(by);
        let shaped = divides(q.cols, heads)
            && divides(k.cols, kv_heads)
            && divides(v.cols, kv_heads)
            && divides(heads, kv_heads)
            && q.cols / heads == k.cols / kv_heads
            && self.rows(k.val) == self.rows(v.val);
        let spans = rules.spans.map(|s| &self.graph.spans[s.0]);
        let keys = self.rows(k.val) as u32;
        let spans =
            spans.is_none_or(|s| s.len() == self.rows(q.val) && s.iter().all(|[from, to]| from < to && *to <= keys));
        let biases = rules.biases.iter().all(|b| {
            self.rows(b.val) == self.rows(q.val)
                && self.cols(b.val) == heads * b.width
                && [Some(b.key), b.query].iter().flatten().all(|d| d.div > 0 && d.modulo > 0)
                && self.in_width(b, self.rows(q.val), keys as usize, rules.spans)
        });
        if !shaped || !spans || !biases {
            return bad(format!(
                "expected heads that fit, found q of {}, k of {}, v of {} columns in {heads} and {kv_heads} heads",
                q.cols, k.cols, v.cols
            ));
        }
        let out = self.value(self.rows(q.val), heads * (v.cols / kv_heads))?;
        let Attention { scale, spans, biases, soft_cap, sinks, .. } = rules.clone();
        self.push(Op::Attend { q, k, v, heads, kv_heads, scale, spans, biases, soft_cap, sinks, out });
        Ok(out)
    }

    /// Whether all keys that queries see have a column of the bias.
    fn in_width(&self, b: &Bias, queries: usize, keys: usize, spans: Option<Spans>) -> bool {
        let fits = |low: usize, high: usize, query: usize| {
            b.base + high < b.width.saturating_add(query) && b.base + low >= query
        };
        let highest = |d: Digit, n: usize| d.modulo.min(n.div_ceil(d.div)).saturating_sub(1);
        let query = b.query.map_or(0, |d| highest(d, queries));
        if b.base >= query && fits(0, highest(b.key, keys), 0) {
            return true;
        }
        // Keys and queries that count by ones: the ends of each query's keys tell.
        let counts = |d: Digit, n: usize| d.div == 1 && d.modulo >= n;
        match (spans, b.query) {
            (Some(spans), Some(digit)) if counts(digit, queries) && counts(b.key, keys) => {
                let spans = self.graph.spans[spans.0].iter().enumerate();
                spans.into_iter().all(|(i, [from, to])| fits(*from as usize, *to as usize - 1, i))
            }
            _ => false,
        }
    }

    /// For each row of `x`: the row of `values` whose row of `codes` is nearest.
    ///
    /// # Errors
    /// Codes of other columns; another number of values.
    pub fn nearest(&mut self, x: Val, codes: Val, values: Val) -> Result<Val> {
        if self.cols(codes) != self.cols(x) || self.rows(codes) != self.rows(values) {
            return bad(format!(
                "expected codes of {} columns and as many values, found {} of {} and {}",
                self.cols(x),
                self.rows(codes),
                self.cols(codes),
                self.rows(values)
            ));
        }
        let out = self.value(self.rows(x), self.cols(values))?;
        self.push(Op::Nearest { x, codes, values, out });
        Ok(out)
    }

    /// Each row's shares by its softmax.
    ///
    /// # Errors
    /// None but of a value's size.
    pub fn softmax(&mut self, x: Val) -> Result<Val> {
        let out = self.value(self.rows(x), self.cols(x))?;
        self.push(Op::Softmax { x, out });
        Ok(out)
    }
}
