//! Products of a step: items of a few tiles, dealt to all threads, with what is done to the sums before they are stored.

use crate::buffer::DisjointParts;
use crate::matrix::{Matrix, ProductInput, MOST_TILES};
use crate::rows::silu_times;
use crate::simd::LANES;
use crate::{Isa, ThreadPool};
use std::cell::RefCell;

/// Columns that one item takes at a time, so that their sums stay in the cache.
const COLUMNS: usize = 512;

/// A matrix of a product.
#[derive(Clone, Copy)]
pub struct ScaledMatrix<'a> {
    /// The matrix, of one part.
    pub matrix: &'a Matrix<'a>,
    /// The factor of the product, before the bias.
    pub scale: f32,
    /// `[rows]`, added; with experts, `[experts, rows]`.
    pub bias: Option<&'a [f32]>,
}

/// What becomes of a gate and of what it gates.
#[derive(Clone, Copy)]
pub enum Gating<'a> {
    /// `silu(gate) * up`
    Silu,
    /// This, number by number.
    By(&'a (dyn Fn(f32, f32) -> f32 + Sync)),
}

impl Gating<'_> {
    fn run(self, isa: Isa, gate: &[f32], up: &[f32], out: &mut [f32]) {
        match self {
            Gating::Silu => silu_times(isa, gate, up, out),
            Gating::By(f) => out.iter_mut().zip(gate.iter().zip(up)).for_each(|(o, (g, u))| *o = f(*g, *u)),
        }
    }
}

/// An expert of a row.
#[derive(Clone, Copy, Debug, Default)]
pub struct RoutedExpert {
    /// Which part of the matrices.
    pub expert: u32,
    /// What its output is multiplied with.
    pub weight: f32,
    /// The factor of the product with the gate.
    pub gate_scale: f32,
    /// The factor of the product with up.
    pub up_scale: f32,
}

/// The experts of all rows, and the rows of all experts.
#[derive(Default)]
pub struct ExpertChoices {
    /// `[n, used]`
    pub of_rows: Vec<RoutedExpert>,
    /// Experts of a row.
    pub used: usize,
    /// Indices into `of_rows`, by expert.
    order: Vec<u32>,
    /// Where each expert's begin, and the end.
    from: Vec<u32>,
    /// Experts that some row has.
    present: Vec<u32>,
}

impl ExpertChoices {
    /// Sorts by expert.
    pub fn sort(&mut self, n_expert: usize) {
        self.from.clear();
        self.from.resize(n_expert + 1, 0);
        self.of_rows.iter().for_each(|c| self.from[c.expert as usize + 1] += 1);
        for i in 0..n_expert {
            self.from[i + 1] += self.from[i];
        }
        self.order.resize(self.of_rows.len(), 0);
        for (i, choice) in self.of_rows.iter().enumerate() {
            let at = &mut self.from[choice.expert as usize];
            self.order[*at as usize] = i as u32;
            *at += 1;
        }
        // Each start has moved to the next one's: back by one place.
        self.from.rotate_right(1);
        self.from[0] = 0;
        self.present.clear();
        self.present.extend((0..n_expert).filter(|e| self.from[*e] < self.from[e + 1]).map(|e| e as u32));
    }

    /// Indices of an expert's choices.
    fn of(&self, expert: usize) -> &[u32] {
        &self.order[self.from[expert] as usize..self.from[expert + 1] as usize]
    }
}

/// Sums of an item, of two matrices, and lists of columns.
#[derive(Default)]
struct ItemScratch {
    one: Vec<f32>,
    two: Vec<f32>,
    columns: Vec<u32>,
}

impl ItemScratch {
    fn fit(&mut self, len: usize) {
        if self.one.len() < len {
            self.one.resize(len, 0.0);
            self.two.resize(len, 0.0);
        }
    }
}

thread_local! {
    static ROOM: RefCell<ItemScratch> = RefCell::new(ItemScratch::default());
}

/// Tiles of an item: few enough that all threads have some at the end, and, for several columns, as many as share a read.
fn item_tiles(tiles: usize, columns: usize, threads: usize) -> usize {
    if columns > 1 {
        return 2;
    }
    (tiles / (threads * 12)).clamp(1, MOST_TILES)
}

/// The kernels' threads and instructions.
pub struct Cpu {
    /// Threads.
    pub pool: ThreadPool,
    /// Instructions.
    pub isa: Isa,
}

impl Cpu {
    /// `out [n, width] (+)= scale * x · matrixᵀ + bias`, parts side by side from column `first` on. Gives how many columns
    /// they are.
    ///
    /// # Panics
    /// If shapes do not fit.
    pub fn multiply(
        &self,
        parts: &[ScaledMatrix<'_>],
        x: &ProductInput<'_>,
        n: usize,
        add: bool,
        (first, width): (usize, usize),
        out: &mut [f32],
    ) -> usize {
        let columns: usize = parts.iter().map(|p| p.matrix.rows()).sum();
        assert!(first + columns <= width && out.len() >= n * width, "room for the product");
        let per_item = |p: &ScaledMatrix| item_tiles(p.matrix.tiles(), n, self.pool.threads());
        let items: usize = parts.iter().map(|p| p.matrix.tiles().div_ceil(per_item(p))).sum();
        let shared = DisjointParts::new(out);
        self.pool.each(items, &|item| {
            let (mut item, mut at) = (item, first);
            for part in parts {
                let (m, step) = (part.matrix, per_item(part));
                let count = m.tiles().div_ceil(step);
                if item >= count {
                    (item, at) = (item - count, at + m.rows());
                    continue;
                }
                let (tile, tiles) = (item * step, step.min(m.tiles() - item * step));
                let rows = (tiles * LANES).min(m.rows() - tile * LANES);
                let bias = part.bias.map(|b| &b[tile * LANES..][..rows]);
                ROOM.with_borrow_mut(|room| {
                    for from in (0..n).step_by(COLUMNS) {
                        let to = n.min(from + COLUMNS);
                        room.columns.clear();
                        room.columns.extend(from as u32..to as u32);
                        room.fit((to - from) * tiles * LANES);
                        m.compute(self.isa, (0, tile, tiles), x, &room.columns, &mut room.one);
                        for (i, sums) in room.one.chunks_exact(tiles * LANES).take(to - from).enumerate() {
                            // SAFETY: these rows of this part are of this item alone.
                            let out = unsafe { shared.part((from + i) * width + at + tile * LANES, rows) };
                            finish(&sums[..rows], part.scale, bias, add, out);
                        }
                    }
                });
                return;
            }
        });
        columns
    }

    /// `out [n, rows]` = what `by` makes of `x · gateᵀ` and `x · upᵀ`.
    ///
    /// # Panics
    /// If shapes do not fit.
    pub fn matmul_gated(
        &self,
        (gate, up): (&ScaledMatrix<'_>, &ScaledMatrix<'_>),
        by: Gating<'_>,
        x: &ProductInput<'_>,
        n: usize,
        out: &mut [f32],
    ) {
        let (m, width) = (gate.matrix, gate.matrix.rows());
        assert!(up.matrix.rows() == width && out.len() >= n * width, "room for the product");
        let step = item_tiles(m.tiles(), n, self.pool.threads());
        let shared = DisjointParts::new(out);
        self.pool.each(m.tiles().div_ceil(step), &|item| {
            let (tile, tiles) = (item * step, step.min(m.tiles() - item * step));
            let rows = (tiles * LANES).min(width - tile * LANES);
            ROOM.with_borrow_mut(|room| {
                for from in (0..n).step_by(COLUMNS) {
                    let to = n.min(from + COLUMNS);
                    room.columns.clear();
                    room.columns.extend(from as u32..to as u32);
                    room.fit((to - from) * tiles * LANES);
                    m.compute(self.isa, (0, tile, tiles), x, &room.columns, &mut room.one);
                    up.matrix.compute(self.isa, (0, tile, tiles), x, &room.columns, &mut room.two);
                    let ups = room.two.chunks_exact_mut(tiles * LANES);
                    for (i, (g, u)) in room.one.chunks_exact_mut(tiles * LANES).zip(ups).take(to - from).enumerate() {
                        // SAFETY: these rows are of this item alone.
                        let out = unsafe { shared.part((from + i) * width + tile * LANES, rows) };
                        adjust(&mut g[..rows], gate.scale, gate.bias.map(|b| &b[tile * LANES..]));
                        adjust(&mut u[..rows], up.scale, up.bias.map(|b| &b[tile * LANES..]));
                        by.run(self.isa, &g[..rows], &u[..rows], out);
                    }
                }
            });
        });
    }

    /// Computes for each choice `out [n * used, rows]` = what `by` makes of `x · gateᵀ` and `x · upᵀ` with its expert's matrices, biases
    /// and row
    /// of `x`.
    ///
    /// # Panics
    /// If shapes do not fit.
    pub fn matmul_gated_experts(
        &self,
        both: &[ScaledMatrix<'_>; 2],
        by: Gating<'_>,
        x: &ProductInput<'_>,
        choices: &ExpertChoices,
        out: &mut [f32],
    ) {
        let [gate, up] = both.map(|part| part.matrix);
        let width = gate.rows();
        assert!(up.rows() == width && out.len() >= choices.of_rows.len() * width, "room for the product");
        let step = item_tiles(
            choices.present.len() * gate.tiles(),
            choices.of_rows.len() / choices.used.max(1),
            self.pool.threads(),
        );
        let count = gate.tiles().div_ceil(step);
        let shared = DisjointParts::new(out);
        self.pool.each(choices.present.len() * count, &|item| {
            let (expert, item) = (choices.present[item / count] as usize, item % count);
            let (tile, tiles) = (item * step, step.min(gate.tiles() - item * step));
            let rows = (tiles * LANES).min(width - tile * LANES);
            ROOM.with_borrow_mut(|room| {
                for some in choices.of(expert).chunks(COLUMNS) {
                    room.columns.clear();
                    room.columns.extend(some.iter().map(|c| c / choices.used as u32));
                    room.fit(some.len() * tiles * LANES);
                    gate.compute(self.isa, (expert, tile, tiles), x, &room.columns, &mut room.one);
                    up.compute(self.isa, (expert, tile, tiles), x, &room.columns, &mut room.two);
                    let ups = room.two.chunks_exact_mut(tiles * LANES);
                    for ((c, g), u) in some.iter().zip(room.one.chunks_exact_mut(tiles * LANES)).zip(ups) {
                        let choice = choices.of_rows[*c as usize];
                        // SAFETY: these rows of this choice are of this item alone.
                        let out = unsafe { shared.part(*c as usize * width + tile * LANES, rows) };
                        let bias = |i: usize| both[i].bias.map(|b| &b[expert * width + tile * LANES..]);
                        adjust(&mut g[..rows], choice.gate_scale, bias(0));
                        adjust(&mut u[..rows], choice.up_scale, bias(1));
                        by.run(self.isa, &g[..rows], &u[..rows], out);
                    }
                }
            });
        });
    }

    /// `out [n, rows] += Σ weight * (x · downᵀ + bias)` over the choices of a row; `x` has a row for each choice.
    ///
    /// # Panics
    /// If shapes do not fit.
    pub fn experts_add(&self, down: &ScaledMatrix<'_>, x: &ProductInput<'_>, choices: &ExpertChoices, out: &mut [f32]) {
        let (bias, down) = (down.bias, down.matrix);
        let (width, used) = (down.rows(), choices.used);
        let n = choices.of_rows.len() / used.max(1);
        assert!(out.len() >= n * width, "room for the product");
        let step = item_tiles(down.tiles(), n, self.pool.threads());
        let shared = DisjointParts::new(out);
        self.pool.each(down.tiles().div_ceil(step), &|item| {
            let (tile, tiles) = (item * step, step.min(down.tiles() - item * step));
            let rows = (tiles * LANES).min(width - tile * LANES);
            ROOM.with_borrow_mut(|room| {
                // One thread has these rows of all experts, so sums come in the experts' order whatever the threads.
                for expert in &choices.present {
                    for some in choices.of(*expert as usize).chunks(COLUMNS) {
                        room.fit(some.len() * tiles * LANES);
                        down.compute(self.isa, (*expert as usize, tile, tiles), x, some, &mut room.one);
                        for (c, sums) in some.iter().zip(room.one.chunks_exact_mut(tiles * LANES)) {
                            adjust(&mut sums[..rows], 1.0, bias.map(|b| &b[*expert as usize * width + tile * LANES..]));
                            let at = *c as usize / used * width + tile * LANES;
                            // SAFETY: these rows are of this item alone.
                            let out = unsafe { shared.part(at, rows) };
                            finish(&sums[..rows], choices.of_rows[*c as usize].weight, None, true, out);
                        }
                    }
                }
            });
        });
    }

    /// Computes for each choice `out [n * used, rows] = x · matrixᵀ` with its expert's; `x` has a row for each choice, if these have
    /// inputs of
    /// their own, else one for all of a row.
    ///
    /// # Panics
    /// If shapes do not fit.
    pub fn experts(
        &self,
        m: &Matrix<'_>,
        x: &ProductInput<'_>,
        choices: &ExpertChoices,
        own_input: bool,
        out: &mut [f32],
    ) {
        let width = m.rows();
        assert!(out.len() >= choices.of_rows.len() * width, "room for the product");
        let n = choices.of_rows.len() / choices.used.max(1);
        let step = item_tiles(choices.present.len() * m.tiles(), n, self.pool.threads());
        let count = m.tiles().div_ceil(step);
        let shared = DisjointParts::new(out);
        self.pool.each(choices.present.len() * count, &|item| {
            let (expert, item) = (choices.present[item / count] as usize, item % count);
            let (tile, tiles) = (item * step, step.min(m.tiles() - item * step));
            let rows = (tiles * LANES).min(width - tile * LANES);
            ROOM.with_borrow_mut(|room| {
                for some in choices.of(expert).chunks(COLUMNS) {
                    room.columns.clear();
                    room.columns.extend(some.iter().map(|c| if own_input { *c } else { c / choices.used as u32 }));
                    room.fit(some.len() * tiles * LANES);
                    m.compute(self.isa, (expert, tile, tiles), x, &room.columns, &mut room.one);
                    for (c, sums) in some.iter().zip(room.one.chunks_exact(tiles * LANES)) {
                        // SAFETY: these rows of this choice are of this item alone.
                        let out = unsafe { shared.part(*c as usize * width + tile * LANES, rows) };
                        out.copy_from_slice(&sums[..rows]);
                    }
                }
            });
        });
    }

    /// A matrix for each group of columns: `x` is `[n * parts, cols]`; of row `r` and part `p` the product goes to `at + p * stride` of row
    /// `r` of `out`, `[n, width]`.
    ///
    /// # Panics
    /// If shapes do not fit, or parts write to the same columns.
    pub fn heads(
        &self,
        m: &Matrix<'_>,
        x: &ProductInput<'_>,
        n: usize,
        (at, stride, width): (usize, usize, usize),
        out: &mut [f32],
    ) {
        let (heads, len) = (m.parts(), m.rows());
        assert!(out.len() >= n * width && at + (heads - 1) * stride + len <= width, "room for the product");
        assert!(heads == 1 || stride >= len, "columns of their own");
        let step = if n > 1 { 2 } else { MOST_TILES };
        let count = m.tiles().div_ceil(step);
        let shared = DisjointParts::new(out);
        self.pool.each(heads * count, &|item| {
            let (head, item) = (item / count, item % count);
            let (tile, tiles) = (item * step, step.min(m.tiles() - item * step));
            let rows = (tiles * LANES).min(len - tile * LANES);
            ROOM.with_borrow_mut(|room| {
                for from in (0..n).step_by(COLUMNS) {
                    let to = n.min(from + COLUMNS);
                    room.columns.clear();
                    room.columns.extend((from..to).map(|row| (row * heads + head) as u32));
                    room.fit((to - from) * tiles * LANES);
                    m.compute(self.isa, (head, tile, tiles), x, &room.columns, &mut room.one);
                    for (row, sums) in (from..to).zip(room.one.chunks_exact(tiles * LANES)) {
                        // SAFETY: these columns of this part are of this item alone.
                        let out = unsafe { shared.part(row * width + at + head * stride + tile * LANES, rows) };
                        out.copy_from_slice(&sums[..rows]);
                    }
                }
            });
        });
    }
}

/// Scales, and adds a bias.
fn adjust(sums: &mut [f32], scale: f32, bias: Option<&[f32]>) {
    if scale != 1.0 {
        sums.iter_mut().for_each(|s| *s *= scale);
    }
    if let Some(bias) = bias {
        sums.iter_mut().zip(bias).for_each(|(s, b)| *s += b);
    }
}

/// Stores or adds sums, scaled and with their bias.
fn finish(sums: &[f32], scale: f32, bias: Option<&[f32]>, add: bool, out: &mut [f32]) {
    match (bias, add) {
        (None, false) => out.iter_mut().zip(sums).for_each(|(o, s)| *o = s * scale),
        (None, true) => out.iter_mut().zip(sums).for_each(|(o, s)| *o += s * scale),
        (Some(bias), add) => {
            for ((o, s), b) in out.iter_mut().zip(sums).zip(bias) {
                let value = s * scale + b;
                *o = if add { *o + value } else { value };
            }
        }
    }
}
