//! Attention over the last rows and over entries of blocks. Rows of the step stand before what the sequence has kept.

use super::Env;
use crate::cpu::ops::dot;
use crate::plan::{AttendBlocks, Cols, Pool};
use std::collections::HashMap;

/// Where rows of a step are, by sequence and position.
type Here = HashMap<(u32, u32), usize>;

impl Env<'_> {
    fn here(&self) -> Here {
        self.rows.iter().enumerate().map(|(i, row)| ((row.seq, row.pos), i)).collect()
    }

    /// Keeps columns of rows that end a block of `every` in `slots` places, by block in turn.
    fn keep(&mut self, x: Cols, len: usize, (every, slots): (usize, usize), (layer, at): (usize, usize)) {
        for (i, row) in self.rows.iter().enumerate().filter(|(_, row)| ends(row.pos, every)) {
            let slot = row.pos as usize / every % slots;
            let from = i * self.plan.values[x.val.0].width + x.at;
            let kept = &mut self.states.of(row.seq, layer)[at + slot * len..][..len];
            kept.copy_from_slice(&self.values[x.val.0][from..][..len]);
        }
    }

    pub(super) fn pool(&mut self, p: &Pool) {
        let (place, here) = (self.floats.vector(p.place).into_owned(), self.here());
        let (width, rows, len) = (p.width(), p.rows(), p.len);
        let mut result = vec![0.0; self.rows.len() * len];
        for (row, out) in self.rows.iter().zip(result.chunks_exact_mut(len)).filter(|(row, _)| ends(row.pos, p.every)) {
            let state = &self.states.of(row.seq, p.layer)[p.at..];
            let first = (row.pos as usize + 1).saturating_sub(rows);
            let source = |pos: usize| match here.get(&(row.seq, pos as u32)) {
                Some(row) => &self.values[p.x.val.0][row * self.plan.values[p.x.val.0].width + p.x.at..][..2 * width],
                None => &state[pos % rows * 2 * width..][..2 * width],
            };
            let sources: Vec<&[f32]> = (first..=row.pos as usize).map(source).collect();
            for (c, out) in out.iter_mut().enumerate() {
                let from_end = |i: usize| sources.len() - 1 - i;
                let column = |i: usize| if p.overlaps && from_end(i) < p.every { len + c } else { c };
                let at = |i: usize| (p.every - 1 - from_end(i) % p.every) * width + column(i);
                let scores: Vec<f32> =
                    sources.iter().enumerate().map(|(i, s)| s[width + column(i)] + place[at(i)]).collect();
                let most = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                let (mut sum, mut all) = (0.0, 0.0);
                for (i, (s, score)) in sources.iter().zip(&scores).enumerate() {
                    let e = (score - most).exp();
                    (sum, all) = (sum + e * s[column(i)], all + e);
                }
                *out = sum / all;
            }
        }
        self.keep(p.x, 2 * width, (1, rows), (p.layer, p.at));
        self.place(p.out, 1, len, &result);
    }

    pub(super) fn attend_blocks(&mut self, a: &AttendBlocks) {
        if let Some(e) = a.entries {
            self.keep(e.x, a.dim, (e.every, e.slots), (a.layer, e.at));
        }
        let (sinks, here, dim) = (self.floats.vector(a.sinks).into_owned(), self.here(), a.dim);
        // Of each row: keys of rows, then entries.
        let keys: Vec<Vec<f32>> = self
            .rows
            .iter()
            .map(|row| {
                let state = self.states.of(row.seq, a.layer);
                let mut keys = Vec::new();
                for pos in (row.pos as usize + 1).saturating_sub(a.window)..=row.pos as usize {
                    match here.get(&(row.seq, pos as u32)) {
                        Some(row) => {
                            let from = row * self.plan.values[a.k.val.0].width + a.k.at;
                            keys.extend_from_slice(&self.values[a.k.val.0][from..][..dim]);
                        }
                        None => keys.extend_from_slice(&state[a.at + pos % a.window * dim..][..dim]),
                    }
                }
                if let Some(e) = a.entries {
                    let count = ((row.pos as usize + 1) / e.every).min(e.slots);
                    keys.extend_from_slice(&state[e.at..][..count * dim]);
                }
                keys
            })
            .collect();
        let mut result = vec![0.0; self.rows.len() * a.heads * dim];
        (self.each)(&mut result, dim, &|i, out| {
            let (row, head) = (i / a.heads, i % a.heads);
            let q = self.cols(a.q, row, head, dim);
            let scores: Vec<f32> = keys[row].chunks_exact(dim).map(|k| dot(q, k) * a.scale).collect();
            let most = scores.iter().copied().fold(sinks[head], f32::max);
            let mut all = (sinks[head] - most).exp();
            for (score, k) in scores.iter().zip(keys[row].chunks_exact(dim)) {
                let e = (score - most).exp();
                all += e;
                out.iter_mut().zip(k).for_each(|(o, k)| *o += e * k);
            }
            out.iter_mut().for_each(|o| *o /= all);
        });
        self.keep(a.k, dim, (1, a.window), (a.layer, a.at));
        self.place(a.out, a.heads, dim, &result);
    }
}

/// Whether a row is the last of its block.
fn ends(pos: u32, every: usize) -> bool {
    (pos as usize + 1).is_multiple_of(every)
}
