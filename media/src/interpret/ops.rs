//! What ops do with a row.

use super::RepeatedRows;
use crate::graph::{Act, NormKind, RotationPairs, Window};

/// Σ a * b, in sixteen sums.
pub fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0.0f32; 16];
    let (a, b) = (a.chunks_exact(16), b.chunks_exact(16));
    let rest: f32 = a.remainder().iter().zip(b.remainder()).map(|(a, b)| a * b).sum();
    for (a, b) in a.zip(b) {
        for i in 0..16 {
            sums[i] += a[i] * b[i];
        }
    }
    sums.iter().sum::<f32>() + rest
}

/// The activation `act` of `x`.
pub fn act(act: Act, x: f32) -> f32 {
    let sigmoid = |x: f32| 1.0 / (1.0 + (-x).exp());
    match act {
        Act::Same => x,
        Act::Silu => x * sigmoid(x),
        Act::Gelu => 0.5 * x * (1.0 + (0.797_884_6 * x * (1.0 + 0.044_715 * x * x)).tanh()),
        Act::GeluErf => 0.5 * x * (1.0 + libm::erff(x * std::f32::consts::FRAC_1_SQRT_2)),
        Act::GeluQuick => x * sigmoid(1.702 * x),
        Act::Relu => x.max(0.0),
        Act::ReluSquared => x.max(0.0) * x.max(0.0),
        Act::Sigmoid => sigmoid(x),
        Act::HardSwish => x * (x / 6.0 + 0.5).clamp(0.0, 1.0),
        Act::HardSigmoid => (x / 6.0 + 0.5).clamp(0.0, 1.0),
        Act::Clamp(low, high) => x.max(low).min(high),
    }
}

/// A norm of each of `groups` parts of a row, in place.
pub fn norm(kind: NormKind, x: &mut [f32], groups: usize, (weight, bias): (Option<&[f32]>, Option<&[f32]>), eps: f32) {
    let len = x.len() / groups;
    let of = |all: Option<&[f32]>, g: usize, i: usize| {
        all.map(|all| if all.len() == len { all[i] } else { all[g * len + i] })
    };
    for (g, x) in x.chunks_exact_mut(len).enumerate() {
        let n = len as f64;
        let mean = match kind {
            NormKind::Rms => 0.0,
            NormKind::Layer => x.iter().map(|x| f64::from(*x)).sum::<f64>() / n,
        };
        let square = x.iter().map(|x| (f64::from(*x) - mean).powi(2)).sum::<f64>() / n;
        let scale = (1.0 / (square + f64::from(eps)).sqrt()) as f32;
        for (i, x) in x.iter_mut().enumerate() {
            let value = (*x - mean as f32) * scale;
            *x = value * of(weight, g, i).unwrap_or(1.0) + of(bias, g, i).unwrap_or(0.0);
        }
    }
}

/// Each column's length, by the mean length.
pub fn global_response(x: &RepeatedRows<'_>, eps: f32) -> Vec<f32> {
    let mut lengths = vec![0.0f64; x.cols];
    for row in x.numbers.chunks_exact(x.cols) {
        lengths.iter_mut().zip(row).for_each(|(sum, x)| *sum += f64::from(*x).powi(2));
    }
    lengths.iter_mut().for_each(|sum| *sum = sum.sqrt());
    let mean = lengths.iter().sum::<f64>() / lengths.len() as f64;
    lengths.iter().map(|length| (length / (mean + f64::from(eps))) as f32).collect()
}

/// Rows of the picture under the window at place `i`, with where in the window they are.
fn under(w: &Window, i: usize) -> impl Iterator<Item = (usize, usize)> + '_ {
    let (ox, oy) = (i % w.out[0] * w.stride[0], i / w.out[0] * w.stride[1]);
    (0..w.kernel[0] * w.kernel[1]).filter_map(move |k| {
        let x = (ox + k % w.kernel[0]).checked_sub(w.before[0])?;
        let y = (oy + k / w.kernel[0]).checked_sub(w.before[1])?;
        (x < w.size[0] && y < w.size[1]).then_some((k, y * w.size[0] + x))
    })
}

/// What the window sees at place `i`.
pub fn unfold(x: &RepeatedRows<'_>, w: &Window, i: usize, out: &mut [f32]) {
    let len = w.kernel[0] * w.kernel[1];
    for (k, row) in under(w, i) {
        let pixel = &x.numbers[row * x.cols..][..x.cols];
        pixel.iter().enumerate().for_each(|(c, x)| out[c * len + k] = *x);
    }
}

/// A convolution of each channel at place `i`.
pub fn depthwise(
    x: &RepeatedRows<'_>,
    w: &Window,
    (weight, bias): (&[f32], Option<&[f32]>),
    i: usize,
    out: &mut [f32],
) {
    let len = w.kernel[0] * w.kernel[1];
    if let Some(bias) = bias {
        out.copy_from_slice(bias);
    }
    for (k, row) in under(w, i) {
        let pixel = &x.numbers[row * x.cols..][..x.cols];
        out.iter_mut().enumerate().for_each(|(c, out)| *out += weight[c * len + k] * pixel[c]);
    }
}

/// Where the `n`th number comes from; see [`crate::graph::Op::Permute`].
pub fn place(dims: &[(usize, usize)], mut n: usize) -> usize {
    let mut at = 0;
    for (len, stride) in dims.iter().rev() {
        at += n % len * stride;
        n /= len;
    }
    at
}

/// Turns columns in place; `turns` are cosines, then sines.
pub fn rotate(x: &mut [f32], pairs: RotationPairs, turns: &[f32]) {
    let half = x.len() / 2;
    for p in 0..half {
        let (i, j) = match pairs {
            RotationPairs::Adjacent => (2 * p, 2 * p + 1),
            RotationPairs::Halves => (p, p + half),
        };
        let (cos, sin) = (turns[p], turns[half + p]);
        (x[i], x[j]) = (x[i] * cos - x[j] * sin, x[i] * sin + x[j] * cos);
    }
}

/// Chooses `k` columns of the row `x` into `out`, as [`crate::graph::Op::Choose`] says.
pub fn choose(x: &[f32], bias: Option<&[f32]>, k: usize, out: &mut [f32]) {
    let mut order: Vec<usize> = (0..x.len()).collect();
    let key = |i: usize| x[i] + bias.map_or(0.0, |b| b[i]);
    order.sort_by(|a, b| key(*b).total_cmp(&key(*a)));
    order.truncate(k);
    let sum: f32 = order.iter().map(|i| x[*i]).sum();
    order.iter().for_each(|i| out[*i] = x[*i] / sum);
}

/// Which row of `codes` is at the smallest distance from `x`.
pub fn nearest(x: &[f32], codes: &[f32]) -> usize {
    let distance = |code: &[f32]| code.iter().zip(x).map(|(c, x)| (c - x) * (c - x)).sum::<f32>();
    let mut best = (0, f32::INFINITY);
    for (i, code) in codes.chunks_exact(x.len()).enumerate() {
        let found = distance(code);
        if found < best.1 {
            best = (i, found);
        }
    }
    best.0
}

/// `e^x` of each by their sum.
pub fn softmax(x: &[f32], out: &mut [f32]) {
    let top = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut sum = 0.0;
    for (out, x) in out.iter_mut().zip(x) {
        *out = (x - top).exp();
        sum += *out;
    }
    out.iter_mut().for_each(|out| *out /= sum);
}
