//! Attention over the last rows and over entries of blocks. Rows of the step stand before what the sequence has kept.

use super::Env;
use crate::cpu::ops::dot;
use pumex_plan::{AttendBlocks, ChooseBlocks, Cols, Entries, Pool};
use std::collections::HashMap;

/// Where rows of a step are, by sequence and position.
type Here = HashMap<(u32, u32), usize>;

impl Env<'_> {
    fn here(&self) -> Here {
        self.rows.iter().enumerate().map(|(i, row)| ((row.seq, row.pos), i)).collect()
    }

    /// Keeps columns of rows that end a block, by block in turn.
    fn keep(&mut self, e: Entries, len: usize, layer: usize) {
        let Entries { x, every, slots, at, stride } = e;
        for (i, row) in self.rows.iter().enumerate().filter(|(_, row)| ends(row.pos, every)) {
            let slot = row.pos as usize / every % slots;
            let from = i * self.plan.values[x.val.0].width + x.at;
            let kept = &mut self.states.of(row.seq, layer)[at + slot * stride..][..len];
            kept.copy_from_slice(&self.values[x.val.0][from..][..len]);
        }
    }

    pub(super) fn pool(&mut self, p: &Pool) {
        let (place, here) = (p.place.map(|place| self.floats.vector(place).into_owned()), self.here());
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
                let scores: Vec<f32> = sources
                    .iter()
                    .enumerate()
                    .map(|(i, s)| s[width + column(i)] + place.as_ref().map_or(0.0, |p| p[at(i)]))
                    .collect();
                let most = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                let (mut sum, mut all) = (0.0, 0.0);
                for (i, (s, score)) in sources.iter().zip(&scores).enumerate() {
                    let e = (score - most).exp();
                    (sum, all) = (sum + e * s[column(i)], all + e);
                }
                *out = sum / all;
            }
        }
        self.keep(Entries { x: p.x, every: 1, slots: rows, at: p.at, stride: 2 * width }, 2 * width, p.layer);
        self.place(p.out, 1, len, result);
    }

    pub(super) fn choose_blocks(&mut self, c: &ChooseBlocks) {
        let e = c.entries;
        if e.slots <= c.most {
            return;
        }
        self.keep(e, c.dim, c.layer);
        let mut result = vec![0.0; self.rows.len() * e.slots];
        for (i, (row, out)) in self.rows.iter().zip(result.chunks_exact_mut(e.slots)).enumerate() {
            let state = &self.states.of(row.seq, c.layer)[e.at..];
            let count = ((row.pos as usize + 1) / e.every).min(e.slots);
            let of = |cols: Cols, head: usize, len: usize| {
                let from = i * self.plan.values[cols.val.0].width + cols.at + head * cols.stride;
                &self.values[cols.val.0][from..][..len]
            };
            let score = |j: usize| -> f32 {
                let key = &state[j * e.stride..][..c.dim];
                (0..c.heads).map(|h| of(c.weights, h, 1)[0] * dot(of(c.q, h, c.dim), key).max(0.0)).sum()
            };
            let scores: Vec<f32> = (0..count).map(score).collect();
            let mut order: Vec<usize> = (0..count).collect();
            order.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]));
            order.iter().take(c.most).for_each(|j| out[*j] = 1.0);
        }
        self.place(c.out, 1, e.slots, result);
    }

    pub(super) fn attend_blocks(&mut self, a: &AttendBlocks) {
        if let Some(e) = a.entries {
            self.keep(e, a.dim, a.layer);
        }
        let (sinks, here, dim) = (self.floats.vector(a.sinks).into_owned(), self.here(), a.dim);
        // Of each row: keys of rows, then entries.
        let keys: Vec<Vec<f32>> = self
            .rows
            .iter()
            .enumerate()
            .map(|(i, row)| {
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
                    let seen = |j: &usize| match a.visible_entries() {
                        Some(chosen) => self.values[chosen.val.0][i * e.slots + j] > 0.0,
                        None => true,
                    };
                    let all = (0..count).filter(seen);
                    all.for_each(|j| keys.extend_from_slice(&state[e.at + j * e.stride..][..dim]));
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
        self.keep(Entries { x: a.k, every: 1, slots: a.window, at: a.at, stride: dim }, dim, a.layer);
        self.place(a.out, a.heads, dim, result);
    }
}

/// Whether a row is the last of its block.
fn ends(pos: u32, every: usize) -> bool {
    (pos as usize + 1).is_multiple_of(every)
}
