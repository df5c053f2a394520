//! Several residual streams: mixtures of columns, and what they are mixed by.

use super::map::sigmoid;
use super::routing::softmax;
use super::Env;
use pumex_plan::{Mix, Softmax, StreamGates};

impl Env<'_> {
    pub(super) fn mix(&mut self, m: &Mix) {
        self.write(m.out, m.to, m.len, |env, row, out| {
            for (to, out) in out.chunks_exact_mut(m.len).enumerate() {
                match m.add {
                    true => out.copy_from_slice(env.cols(m.out, row, to, m.len)),
                    false => out.fill(0.0),
                }
                for from in 0..m.from {
                    let by = env.cols(m.by, row, from, m.to)[to];
                    out.iter_mut().zip(env.cols(m.x, row, from, m.len)).for_each(|(o, x)| *o += by * x);
                }
            }
        });
    }

    pub(super) fn softmax(&mut self, s: &Softmax) {
        self.write(s.x, s.groups, s.len, |env, row, out| {
            for (g, out) in out.chunks_exact_mut(s.len).enumerate() {
                out.copy_from_slice(env.cols(s.x, row, g, s.len));
                softmax(out);
            }
        });
    }

    pub(super) fn stream_gates(&mut self, g: &StreamGates) {
        let (scale, base) = (self.floats.vector(g.scale).into_owned(), self.floats.vector(g.base).into_owned());
        self.write(g.x, 1, g.len, |env, row, out| {
            let x = env.cols(g.x, row, 0, g.len);
            for (i, (out, x)) in out.iter_mut().zip(x).enumerate() {
                let part = (i / g.count).min(2);
                let x = x * scale[part] + base[i];
                *out = match part {
                    0 => sigmoid(x) + g.eps,
                    1 => g.magnitude * sigmoid(x) + g.post_eps,
                    _ => x,
                };
            }
            if let Some(matrix) = out.get_mut(2 * g.count..).filter(|matrix| !matrix.is_empty()) {
                balance(g, matrix);
            }
        });
    }
}

/// Makes columns of a matrix sum up to 1, and rows nearly so.
fn balance(g: &StreamGates, matrix: &mut [f32]) {
    let n = g.count;
    for round in 0..g.rounds {
        for row in matrix.chunks_exact_mut(n) {
            if round == 0 {
                softmax(row);
                row.iter_mut().for_each(|x| *x += g.eps);
            } else {
                let sum = row.iter().sum::<f32>() + g.eps;
                row.iter_mut().for_each(|x| *x /= sum);
            }
        }
        for column in 0..n {
            let sum = matrix.iter().skip(column).step_by(n).sum::<f32>() + g.eps;
            matrix.iter_mut().skip(column).step_by(n).for_each(|x| *x /= sum);
        }
    }
}
