//! Attention of one query.

use super::{ops, GraphRun};
use crate::graph::{Bias, Digit, Op};

fn digit(d: Digit, n: usize) -> usize {
    n / d.div % d.modulo
}

/// Row `i` of [`Op::Attend`].
pub fn row(run: &GraphRun<'_>, op: &Op, i: usize, out: &mut [f32]) {
    let Op::Attend { q, k, v, heads, kv_heads, spans, .. } = op else { return };
    let (q, k, v) = (run.part(*q), run.part(*k), run.part(*v));
    let (d, dv) = (q.cols / heads, v.cols / kv_heads);
    let (from, to) = spans.map_or((0, k.rows), |s| {
        let [from, to] = run.graph.spans[s.0][i];
        (from as usize, to as usize)
    });
    let mut scores = vec![0.0f32; to - from];
    for (h, out) in out.chunks_exact_mut(dv).enumerate() {
        let kv = h / (heads / kv_heads);
        let query = &q.numbers[i * q.stride + q.at + h * d..][..d];
        for (j, score) in (from..to).zip(&mut scores) {
            *score = ops::dot(query, &k.numbers[j * k.stride + k.at + kv * d..][..d]);
        }
        weigh(run, op, (i, h, from), &mut scores);
        for (j, score) in (from..to).zip(&scores) {
            let value = &v.numbers[j * v.stride + v.at + kv * dv..][..dv];
            out.iter_mut().zip(value).for_each(|(out, v)| *out += score * v);
        }
    }
}

/// Makes weights of the products of query `i` and head `h` with keys from `from` on: they sum up to 1, or less with a sink.
pub fn weigh(run: &GraphRun<'_>, op: &Op, (i, h, from): (usize, usize, usize), scores: &mut [f32]) {
    let Op::Attend { scale, biases, soft_cap, sinks, .. } = op else { return };
    for (j, score) in scores.iter_mut().enumerate() {
        let added = |b: &Bias| {
            let view = run.graph.view(b.val);
            let col = b.base + digit(b.key, from + j) - b.query.map_or(0, |d| digit(d, i));
            run.buffers[view.buffer][i * view.cols + h * b.width + col]
        };
        *score = scale * *score + biases.iter().map(added).sum::<f32>();
        if let Some(cap) = soft_cap {
            *score = cap * (*score / cap).tanh();
        }
    }
    let sink = sinks.map(|s| run.weights[s.0][h]);
    let top = scores.iter().copied().chain(sink).fold(f32::NEG_INFINITY, f32::max);
    let mut sum = sink.map_or(0.0, |s| (s - top).exp());
    for score in scores.iter_mut() {
        *score = (*score - top).exp();
        sum += *score;
    }
    scores.iter_mut().for_each(|score| *score /= sum);
}
