//! The reference's loops: one plain function per op, written to be compared with the shader of the same name.

use pumex_plan::{AttentionSpec, Chosen, Rope, RopeStyle, LEAST_SUM};
use pumex_quant::Format;
use rayon::prelude::*;
use std::cell::RefCell;

/// A stored matrix `[rows, cols]`.
pub struct StoredMatrix<'a> {
    /// Blocks, row after row; if there are fewer rows, they repeat.
    pub data: &'a [u8],
    /// Output features.
    pub rows: usize,
    /// Input features.
    pub cols: usize,
    /// Block format.
    pub format: &'static Format,
}

impl StoredMatrix<'_> {
    /// Decodes a row.
    pub fn decode(&self, row: usize, out: &mut [f32]) {
        let len = self.cols / self.format.block_len * self.format.block_bytes;
        let held = (self.data.len() / len).max(1);
        self.format.decode_row(&self.data[row % held * len..][..len], out);
    }

    /// One decoded row, `[cols]`.
    pub fn row(&self, row: usize) -> Vec<f32> {
        let mut out = vec![0.0; self.cols];
        self.decode(row, &mut out);
        out
    }

    /// `x · selfᵀ`: `[n, cols]` → `[n, rows]`. Each weight row is decoded once.
    pub fn times(&self, x: &[f32]) -> Vec<f32> {
        let n = x.len() / self.cols;
        let mut by_weight = vec![0.0; self.rows * n]; // [rows, n]
        by_weight.par_chunks_mut(n.max(1) * 16).enumerate().for_each(|(chunk, out)| {
            let mut w = vec![0.0; self.cols];
            for (i, out) in out.chunks_exact_mut(n.max(1)).enumerate() {
                self.decode(chunk * 16 + i, &mut w);
                for (o, x) in out.iter_mut().zip(x.chunks_exact(self.cols)) {
                    *o = dot(&w, x);
                }
            }
        });
        let mut out = vec![0.0; n * self.rows];
        out.par_chunks_mut(self.rows).enumerate().for_each(|(r, row)| {
            row.iter_mut().enumerate().for_each(|(m, o)| *o = by_weight[m * n + r]);
        });
        out
    }
}

/// Sum of products, in 16 lanes so that the compiler vectorizes it and rounding stays small.
pub fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut lanes = [0.0f32; 16];
    let (a16, b16) = (a.chunks_exact(16), b.chunks_exact(16));
    let tail: f32 = a16.remainder().iter().zip(b16.remainder()).map(|(a, b)| a * b).sum();
    for (a, b) in a16.zip(b16) {
        for i in 0..16 {
            lanes[i] += a[i] * b[i];
        }
    }
    lanes.iter().sum::<f32>() + tail
}

/// `x / sqrt(mean(x²) + eps) * weight`.
pub fn rms_norm(x: &[f32], weight: &[f32], eps: f32) -> Vec<f32> {
    let mean = x.iter().map(|v| f64::from(*v) * f64::from(*v)).sum::<f64>() / x.len() as f64;
    let scale = 1.0 / (mean as f32 + eps).sqrt();
    x.iter().zip(weight).map(|(x, w)| x * scale * w).collect()
}

/// Products `[n, m_i]` → `[n, Σ m_i]`.
pub fn side_by_side(products: &[(Vec<f32>, usize)], n: usize) -> Vec<f32> {
    (0..n).flat_map(|r| products.iter().flat_map(move |(p, m)| p[r * m..][..*m].iter().copied())).collect()
}

/// `x * sigmoid(x)`.
pub fn silu(x: f32) -> f32 {
    x / (1.0 + (-x).exp())
}

/// What a row's route says of one of its experts.
pub struct Route {
    /// Which.
    pub expert: usize,
    /// The factor of the expert's output, the scale of `down` included.
    pub weight: f32,
    /// The factor of the product with `gate`.
    pub gate_scale: f32,
    /// The factor of the product with `up`.
    pub up_scale: f32,
}

impl Route {
    /// Reads slot `slot` of a row `[4 * used]`.
    pub fn of(row: &[f32], slot: usize, used: usize) -> Route {
        Route {
            expert: row[slot].to_bits() as usize,
            weight: row[used + slot],
            gate_scale: row[2 * used + slot],
            up_scale: row[3 * used + slot],
        }
    }
}

/// Indices of the `used` largest, largest first, the first of equals before the others; into `order`.
pub fn largest_of(scores: &[f32], used: usize, order: &mut Vec<usize>) {
    order.clear();
    order.extend(0..scores.len());
    let before = |a: &usize, b: &usize| scores[*b].total_cmp(&scores[*a]).then(a.cmp(b));
    if used > 0 && used < order.len() {
        order.select_nth_unstable_by(used - 1, before);
    }
    order.truncate(used);
    order.sort_unstable_by(before);
}

thread_local! {
    static ORDER: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// The `used` largest of `softmax(logits)` scaled to sum up to `scale`: `out [4 * used]` as the plan's op has it.
pub fn route(logits: &[f32], used: usize, scale: f32, scales: &[Option<&[f32]>; 3], out: &mut [f32]) {
    let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let all: f32 = logits.iter().map(|l| (l - max).exp()).sum();
    let weight = |e: usize| (logits[e] - max).exp() / all;
    ORDER.with_borrow_mut(|order| {
        largest_of(logits, used, order);
        let sum = order.iter().map(|e| weight(*e)).sum::<f32>().max(LEAST_SUM);
        let of = |i: usize, e: usize| scales[i].map_or(1.0, |s| s[e]);
        for (slot, &e) in order.iter().enumerate() {
            out[slot] = f32::from_bits(e as u32);
            out[used + slot] = weight(e) / sum * scale * of(2, e);
            out[2 * used + slot] = of(0, e);
            out[3 * used + slot] = of(1, e);
        }
    });
}

/// Rotates the first `rope.dims` elements of a head by sine and cosine of each pair.
pub fn turn(head: &mut [f32], rope: Rope, turns: impl Iterator<Item = (f32, f32)>) {
    let half = rope.dims / 2;
    for (i, (sin, cos)) in turns.enumerate().take(half) {
        let (a, b) = match rope.style {
            RopeStyle::Norm => (2 * i, 2 * i + 1),
            RopeStyle::Neox => (i, i + half),
        };
        let (x, y) = (head[a], head[b]);
        head[a] = x * cos - y * sin;
        head[b] = x * sin + y * cos;
    }
}

/// How one layer's rows attend.
pub struct AttentionRows<'a> {
    /// Heads, mask and rules.
    pub spec: &'a AttentionSpec,
    /// The factor of the scores.
    pub scale: f32,
    /// `[heads]`
    pub sinks: Option<&'a [f32]>,
    /// `[heads, 2 * BIAS_REACH + 1]`
    pub biases: Option<&'a [f32]>,
    /// First and last position that the row sees.
    pub seen: (usize, usize),
    /// For a row whose positions an indexer chooses: the list of them.
    pub list: Option<&'a [f32]>,
}

impl AttentionRows<'_> {
    /// Attention of one row at `pos`: `qkv` is the row, `k` and `v` the sequence's cache; writes `[heads * v_dim]`.
    pub fn attend(&self, qkv: &[f32], (k, v): (&[f32], &[f32]), pos: usize, out: &mut [f32]) {
        let s = self.spec;
        let (k_width, v_width) = (s.kv_heads * s.head_dim, s.kv_heads * s.v_dim);
        let seen: Vec<usize> = match self.list {
            Some(list) => Chosen::listed_positions(list).collect(),
            None => (self.seen.0..self.seen.1 + 1).collect(),
        };
        for (h, out) in out.chunks_exact_mut(s.v_dim).enumerate() {
            let (q, kv_head) = (&qkv[h * s.head_dim..][..s.head_dim], h / (s.heads / s.kv_heads));
            let score = |j: usize| {
                let score = dot(q, &k[j * k_width + kv_head * s.head_dim..][..s.head_dim]) * self.scale;
                let capped = s.soft_cap.map_or(score, |cap| cap * (score / cap).tanh());
                let bias = self.biases.map_or(0.0, |table| AttentionSpec::bias(table, h, pos, j));
                capped - s.slope(h) * pos.abs_diff(j) as f32 + bias
            };
            let mut p: Vec<f32> = seen.iter().copied().map(score).collect();
            let sink = self.sinks.map(|sinks| sinks[h]);
            let max = p.iter().copied().chain(sink).fold(f32::NEG_INFINITY, f32::max);
            p.iter_mut().for_each(|p| *p = (*p - max).exp());
            let sum = p.iter().sum::<f32>() + sink.map_or(0.0, |sink| (sink - max).exp());
            out.fill(0.0);
            for (j, p) in seen.iter().copied().zip(&p) {
                let v = &v[j * v_width + kv_head * s.v_dim..][..s.v_dim];
                out.iter_mut().zip(v).for_each(|(o, v)| *o += p / sum * v);
            }
        }
    }
}

/// Index of the largest logit; the first of equals.
pub fn argmax(logits: &[f32]) -> u32 {
    let mut best = 0;
    for (i, l) in logits.iter().enumerate() {
        if *l > logits[best] {
            best = i;
        }
    }
    best as u32
}

/// Runs `f(row, out)` for each `[width]` row of `out`, in parallel.
pub fn for_rows(out: &mut [f32], width: usize, f: impl Fn(usize, &mut [f32]) + Sync) {
    out.par_chunks_mut(width).enumerate().for_each(|(i, out)| f(i, out));
}
