//! What a tensor's weights are: stored ones, taken, moved and stacked by rows, which are read only when they are written.

use crate::folder::ModelFolder;
use crate::{Error, Result};
use half::f16;
use safetensors::tensor::Dtype;

/// Weights with a shape, the contiguous dimension last.
#[derive(Clone, Debug)]
pub struct Weights {
    /// Dimensions.
    pub shape: Vec<usize>,
    source: ContentSource,
}

#[derive(Clone, Debug)]
enum ContentSource {
    /// A tensor of the folder.
    Stored(usize),
    /// These.
    Values(Vec<f32>),
    /// Rows of others, by a rule.
    Rows(Box<Weights>, Rule),
    /// Matrices or vectors one after the other.
    Stack(Vec<Weights>),
    /// Others plus a number, in halves where these are stored so.
    Plus(Box<Weights>, f32),
    /// Others with the last two dimensions exchanged.
    Transposed(Box<Weights>),
    /// Every so many elements of each row, from one on.
    Columns(Box<Weights>, usize, usize),
}

/// Which row of others a row is.
#[derive(Clone, Copy, Debug)]
enum Rule {
    /// In each head's rows, those of the first half alternate with those of the second.
    Interleave { head: usize },
    /// From every `of` rows, takes `take` rows from `start` on, `step` apart.
    Take { of: usize, take: usize, start: usize, step: usize },
}

impl Rule {
    fn row(self, row: usize) -> usize {
        match self {
            Rule::Interleave { head } => {
                let (base, within) = (row / head * head, row % head);
                base + within % 2 * (head / 2) + within / 2
            }
            Rule::Take { of, take, start, step } => row / take * of + start + row % take * step,
        }
    }
}

impl Weights {
    /// A tensor of the folder.
    pub fn from_folder(folder: &ModelFolder, tensor: usize) -> Weights {
        Weights { shape: folder.tensors()[tensor].shape.clone(), source: ContentSource::Stored(tensor) }
    }

    /// A vector of these.
    pub fn values(values: Vec<f32>) -> Weights {
        Weights { shape: vec![values.len()], source: ContentSource::Values(values) }
    }

    /// Elements of a row.
    pub fn row(&self) -> usize {
        self.shape.last().copied().unwrap_or(1)
    }

    /// Rows of all matrices; of a vector, or of a single number, one.
    pub fn rows(&self) -> usize {
        self.shape.split_last().map_or(1, |(_, rest)| rest.iter().product())
    }

    /// Elements.
    pub fn len(&self) -> usize {
        self.rows() * self.row()
    }

    /// Rows (of a vector: elements) ordered for rotations of neighbours instead of halves, head by head.
    ///
    /// # Errors
    /// As text: rows that are no whole number of heads of even width.
    pub fn interleave(self, heads: usize) -> std::result::Result<Weights, String> {
        let n = self.shape.first().copied().unwrap_or(0);
        let of_matrix = self.shape.len() == 2;
        if heads == 0
            || !n.is_multiple_of(heads)
            || !(n / heads).is_multiple_of(2)
            || !matches!(self.shape.len(), 1 | 2)
        {
            return Err(format!("expected rows of {heads} heads of even width, found shape {:?}", self.shape));
        }
        let shape = self.shape.clone();
        // A vector's elements move as rows of one element do.
        let of = if of_matrix { self } else { self.reshape(vec![n, 1]) };
        let source = ContentSource::Rows(Box::new(of), Rule::Interleave { head: n / heads });
        let column = Weights { shape: if of_matrix { shape.clone() } else { vec![n, 1] }, source };
        Ok(column.reshape(shape))
    }

    /// These elements, in the same order, in another shape.
    pub fn reshape(mut self, shape: Vec<usize>) -> Weights {
        self.shape = shape;
        self
    }

    /// In each matrix, of every `of` rows `take` from `start` on, `step` apart.
    ///
    /// # Errors
    /// As text: a shape that has no such rows.
    pub fn take(self, of: usize, take: usize, start: usize, step: usize) -> std::result::Result<Weights, String> {
        let n = self.shape.len();
        let last = take.checked_sub(1).and_then(|t| t.checked_mul(step)?.checked_add(start));
        if n < 2 || of == 0 || !self.shape[n - 2].is_multiple_of(of) || last.is_none_or(|last| last >= of) {
            return Err(format!("expected a multiple of {of} rows, found shape {:?}", self.shape));
        }
        let mut shape = self.shape.clone();
        shape[n - 2] = shape[n - 2] / of * take;
        Ok(Weights { shape, source: ContentSource::Rows(Box::new(self), Rule::Take { of, take, start, step }) })
    }

    /// Every `step`th element of each row, from `start` on.
    pub fn columns(self, start: usize, step: usize) -> Weights {
        let mut shape = self.shape.clone();
        if let Some(last) = shape.last_mut() {
            *last = last.saturating_sub(start).div_ceil(step.max(1));
        }
        Weights { shape, source: ContentSource::Columns(Box::new(self), start, step.max(1)) }
    }

    /// The last two dimensions exchanged.
    ///
    /// # Errors
    /// As text: a vector.
    pub fn transpose(self) -> std::result::Result<Weights, String> {
        let n = self.shape.len();
        if n < 2 {
            return Err(format!("expected a matrix, found shape {:?}", self.shape));
        }
        let mut shape = self.shape.clone();
        shape.swap(n - 1, n - 2);
        Ok(Weights { shape, source: ContentSource::Transposed(Box::new(self)) })
    }

    /// Every element plus a number.
    pub fn plus(self, number: f32) -> Weights {
        Weights { shape: self.shape.clone(), source: ContentSource::Plus(Box::new(self), number) }
    }

    /// Equal shapes as one with a dimension more.
    ///
    /// # Errors
    /// As text: shapes that differ, or none.
    pub fn stack(parts: Vec<Weights>) -> std::result::Result<Weights, String> {
        let first = parts.first().ok_or("expected matrices to stack, found none")?;
        if let Some(other) = parts.iter().find(|p| p.shape != first.shape) {
            return Err(format!("expected shape {:?} as of the first, found {:?}", first.shape, other.shape));
        }
        let mut shape = vec![parts.len()];
        shape.extend(&first.shape);
        Ok(Weights { shape, source: ContentSource::Stack(parts) })
    }

    /// Whether sums are to be rounded to halves.
    fn in_halves(&self, folder: &ModelFolder) -> bool {
        match &self.source {
            ContentSource::Stored(tensor) => folder.tensors()[*tensor].dtype == Dtype::F16,
            ContentSource::Values(_) => false,
            ContentSource::Rows(of, _)
            | ContentSource::Plus(of, _)
            | ContentSource::Transposed(of)
            | ContentSource::Columns(of, ..) => of.in_halves(folder),
            ContentSource::Stack(parts) => parts.first().is_some_and(|p| p.in_halves(folder)),
        }
    }

    /// Reads elements from `first` on, of all rows in order.
    pub fn read(&self, folder: &ModelFolder, first: usize, out: &mut [f32]) {
        match &self.source {
            ContentSource::Stored(tensor) => folder.read(*tensor, first, out),
            ContentSource::Values(values) => out.copy_from_slice(&values[first..first + out.len()]),
            ContentSource::Rows(of, rule) => {
                let row = of.row().max(1);
                self.by_row(first, out, row, |r, within, out| of.read(folder, rule.row(r) * row + within, out));
            }
            ContentSource::Stack(parts) => {
                let len = parts.first().map_or(1, Weights::len).max(1);
                self.by_row(first, out, len, |part, within, out| parts[part].read(folder, within, out));
            }
            ContentSource::Plus(of, number) => {
                of.read(folder, first, out);
                let halves = of.in_halves(folder);
                out.iter_mut()
                    .for_each(|x| *x = if halves { f16::from_f32(*x + number).to_f32() } else { *x + number });
            }
            ContentSource::Transposed(of) => {
                let n = of.shape.len();
                let (rows, columns) = (of.shape[n - 2], of.shape[n - 1]);
                let len = (rows * columns).max(1);
                let mut matrix = vec![0f32; len];
                self.by_row(first, out, len, |m, within, out| {
                    of.read(folder, m * len, &mut matrix);
                    for (i, o) in out.iter_mut().enumerate() {
                        let at = within + i;
                        *o = matrix[at % rows * columns + at / rows];
                    }
                });
            }
            ContentSource::Columns(of, start, step) => {
                let (from, to) = (of.row(), self.row().max(1));
                let mut line = vec![0f32; from];
                self.by_row(first, out, to, |r, within, out| {
                    of.read(folder, r * from, &mut line);
                    out.iter_mut().enumerate().for_each(|(i, o)| *o = line[start + (within + i) * step]);
                });
            }
        }
    }

    /// Calls `read` for each part of `out` that lies in one row of `row` elements: the row, the element in it, the part.
    fn by_row(&self, first: usize, out: &mut [f32], row: usize, mut read: impl FnMut(usize, usize, &mut [f32])) {
        let (mut at, mut rest) = (first, out);
        while !rest.is_empty() {
            let within = at % row;
            let count = (row - within).min(rest.len());
            let (now, later) = rest.split_at_mut(count);
            read(at / row, within, now);
            at += count;
            rest = later;
        }
    }
}

/// A tensor's data: weights to encode, or blocks of MXFP4 that only move.
#[derive(Clone, Debug)]
pub enum Content {
    /// Weights.
    Weights(Weights),
    /// Blocks.
    Blocks(Mxfp4Blocks),
}

/// Rows of MXFP4 blocks as models have them: codes in pairs of neighbours, and scales apart.
#[derive(Clone, Debug)]
pub struct Mxfp4Blocks {
    /// Dimensions of the weights, the contiguous one last.
    pub shape: Vec<usize>,
    codes: usize,
    scales: usize,
    start: usize,
    step: usize,
}

/// Codes of a block, and weights.
const BLOCK: (usize, usize) = (16, 32);

impl Mxfp4Blocks {
    /// Rows `start`, `start + step` and so on of each expert; `codes` is of shape `[experts, rows, blocks, 16]`.
    ///
    /// # Errors
    /// Shapes or types that do not fit, by the tensor's name.
    pub fn new(folder: &ModelFolder, codes: usize, scales: usize, start: usize, step: usize) -> Result<Mxfp4Blocks> {
        let (c, s) = (&folder.tensors()[codes], &folder.tensors()[scales]);
        let fits = c.shape.len() == 4
            && c.shape[3] == BLOCK.0
            && c.shape[..3] == s.shape[..]
            && c.shape[1].is_multiple_of(step);
        if !fits || c.dtype != Dtype::U8 || s.dtype != Dtype::U8 {
            let what = format!(
                "tensor {}: expected bytes of shape [experts, rows, blocks, 16] and {} without the last, found {:?} and {:?}",
                c.name, s.name, c.shape, s.shape
            );
            return Err(Error::file(folder.path(codes), what));
        }
        let shape = vec![c.shape[0], c.shape[1] / step, c.shape[2] * BLOCK.1];
        Ok(Mxfp4Blocks { shape, codes, scales, start, step })
    }

    /// Bytes of a row.
    pub fn row_bytes(&self) -> usize {
        self.shape[2] / BLOCK.1 * (1 + BLOCK.0)
    }

    /// Appends rows from `first` on.
    pub fn put(&self, folder: &ModelFolder, first: usize, count: usize, out: &mut Vec<u8>) {
        let (codes, scales) = (folder.bytes(self.codes), folder.bytes(self.scales));
        let blocks = self.shape[2] / BLOCK.1;
        for row in first..first + count {
            let from = row * self.step + self.start;
            for block in from * blocks..(from + 1) * blocks {
                let c = &codes[block * BLOCK.0..(block + 1) * BLOCK.0];
                let code = |i: usize| if i.is_multiple_of(2) { c[i / 2] & 15 } else { c[i / 2] >> 4 };
                out.push(scales[block]);
                out.extend((0..BLOCK.0).map(|i| code(i) | code(i + BLOCK.0) << 4));
            }
        }
    }
}
