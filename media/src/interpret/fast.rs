//! Products by someone else's kernels: those of matrices, and those of attention, block by block of queries that see the same keys.

use super::{attend, zeros, GraphRun, Products};
use crate::graph::{Op, Part, View, Weight, WeightUse};
use crate::{Error, Result, Source};
use pumex_quant::FormatId;
use rayon::prelude::*;

/// The most scores that are held at once.
const MOST_SCORES: usize = 1 << 22;

/// Formats whose bytes the kernels read.
fn is_float(format: FormatId) -> bool {
    matches!(format, FormatId::F32 | FormatId::F16 | FormatId::Bf16)
}

/// Whether a weight is read from the file's own bytes.
pub fn is_read_in_place(source: &dyn Source, used: &WeightUse) -> bool {
    let stored = source.tensor(&used.name);
    !used.floats && !used.transposed && stored.is_some_and(|stored| is_float(stored.format))
}

/// The part's rows without gaps.
fn pack_rows(run: &GraphRun<'_>, x: Part, rows: std::ops::Range<usize>, at: usize, cols: usize) -> Result<Vec<f32>> {
    let from = run.part(x);
    let mut out = zeros(rows.len() * cols)?;
    out.par_chunks_mut(cols).zip(rows).for_each(|(to, i)| {
        to.copy_from_slice(&from.numbers[i * from.stride + from.at + at..][..cols]);
    });
    Ok(out)
}

fn kernels<'r>(run: &'r GraphRun<'_>) -> Result<&'r dyn Products> {
    run.products.ok_or_else(|| Error::Unsupported("products: expected kernels, found none".into()))
}

/// `x · weightᵀ + bias`, `[rows, m]`.
pub fn multiply(run: &GraphRun<'_>, x: Part, weight: Weight, bias: Option<Weight>) -> Result<Vec<f32>> {
    let (kernels, used) = (kernels(run)?, &run.graph.weights[weight.0]);
    let View { buffer, rows, cols } = run.graph.view(x.val);
    let mut out = zeros(rows * used.rows)?;
    let held;
    let numbers: &[f32] = match x.cols == cols {
        true => &run.buffers[buffer],
        false => {
            held = pack_rows(run, x, 0..rows, 0, x.cols)?;
            &held
        }
    };
    let sizes = [rows, used.rows, used.cols];
    match run.weights[weight.0].is_empty() {
        true => {
            let stored = run.source.tensor(&used.name).ok_or_else(|| Error::MissingTensor(used.name.clone()))?;
            kernels.multiply((stored.format, stored.data), sizes, numbers, &mut out);
        }
        false => {
            kernels.multiply((FormatId::F32, bytemuck::cast_slice(&run.weights[weight.0])), sizes, numbers, &mut out)
        }
    }
    if let Some(bias) = bias.map(|b| &run.weights[b.0]) {
        out.par_chunks_mut(used.rows).for_each(|row| row.iter_mut().zip(&bias[..]).for_each(|(out, b)| *out += b));
    }
    Ok(out)
}

/// All rows of [`Op::Attend`].
pub fn attend(run: &GraphRun<'_>, op: &Op) -> Result<Vec<f32>> {
    let Op::Attend { q, k, v, heads, kv_heads, spans, .. } = op else { return Ok(Vec::new()) };
    let kernels = kernels(run)?;
    let (queries, keys) = (run.graph.view(q.val).rows, run.graph.view(k.val).rows);
    let (d, dv) = (q.cols / heads, v.cols / kv_heads);
    let width = heads * dv;
    let seen = |i: usize| spans.map_or([0, keys as u32], |s| run.graph.spans[s.0][i]);
    let mut out = zeros(queries * width)?;
    let mut first = 0;
    while first < queries {
        let [from, to] = seen(first).map(|n| n as usize);
        let most = (MOST_SCORES / (to - from)).max(1);
        let alike = (first..queries).take(most).take_while(|i| seen(*i) == seen(first)).count();
        let rows = first..first + alike;
        for h in 0..*heads {
            let kv = h / (heads / kv_heads);
            let query = pack_rows(run, *q, rows.clone(), h * d, d)?;
            let key = pack_rows(run, *k, from..to, kv * d, d)?;
            let mut scores = zeros(alike * (to - from))?;
            kernels.multiply((FormatId::F32, bytemuck::cast_slice(&key)), [alike, to - from, d], &query, &mut scores);
            scores.par_chunks_mut(to - from).enumerate().for_each(|(i, scores)| {
                attend::weigh(run, op, (first + i, h, from), scores);
            });
            let value = run.part(*v);
            let mut turned = zeros(dv * (to - from))?;
            turned.par_chunks_mut(to - from).enumerate().for_each(|(c, row)| {
                row.iter_mut().enumerate().for_each(|(j, x)| {
                    *x = value.numbers[(from + j) * value.stride + value.at + kv * dv + c];
                });
            });
            let mut made = zeros(alike * dv)?;
            kernels.multiply(
                (FormatId::F32, bytemuck::cast_slice(&turned)),
                [alike, dv, to - from],
                &scores,
                &mut made,
            );
            for (i, row) in made.chunks_exact(dv).enumerate() {
                out[(first + i) * width + h * dv..][..dv].copy_from_slice(row);
            }
        }
        first += alike;
    }
    Ok(out)
}
