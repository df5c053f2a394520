//! Windows of rows: what their rows are to each other, then products of matrices with the state at the window's start.
//!
//! With `fade[t, s]` the product of what a column fades by after row `s` up to row `t`, `among[t, s] = Σ k_t fade[t, s] k_s` for
//! `s < t` by the delta rule, and `read[t, s] = Σ q_t fade[t, s] k_s` for `s <= t`, row `t` writes `Σ written[t, s] aims[s]` where
//! `written = (1 + rates among)^-1 rates` and `aims = v - S · (k faded)`, and gives `S · (q faded) + Σ result[t, s] aims[s]` where
//! `result = read written`. Decays are multiplied row by row: no sum of logarithms overflows.

use super::{Scan, ScanOutput};
use crate::simd::{entries, Simd, LANES};
use std::ops::Range;

/// Rows of a window: one for each lane, so that a row of the triangles is a vector.
const ROWS: usize = LANES;
/// Rows of a product that are held in registers.
const TILE: usize = 4;
/// Rows of the state that are worked on at a time, so that they stay in the nearest cache.
const PANEL: usize = 2 * LANES;

/// Room for a window; widths are whole vectors, and what is beyond the columns is zero.
pub(super) struct Window {
    /// Columns of a row of `q` and `k`.
    k_wide: usize,
    /// The state, `[panels, k_wide, PANEL]`.
    state: Vec<f32>,
    /// `q` and `k` and what fades the state, `[ROWS, k_wide]` each.
    q: Vec<f32>,
    k: Vec<f32>,
    fades: Vec<f32>,
    /// `k`, then `q`, faded from the window's start, `[2 * ROWS, k_wide]`.
    faded: Vec<f32>,
    /// `k` faded to the window's end, `[ROWS, k_wide]`.
    ends: Vec<f32>,
    /// What the state fades by over the window, `[k_wide]`.
    through: Vec<f32>,
    /// `k` of a row on its way down, `[k_wide]`.
    running: Vec<f32>,
    /// What a panel has for `faded`, `[2 * ROWS, PANEL]`.
    found: Vec<f32>,
    /// `[ROWS, PANEL]`
    aims: Vec<f32>,
    /// `[ROWS, PANEL]`
    writes: Vec<f32>,
    /// `[ROWS, ROWS]`: see above.
    among: [f32; ROWS * ROWS],
    read: [f32; ROWS * ROWS],
    written: [f32; ROWS * ROWS],
    result: [f32; ROWS * ROWS],
}

impl Window {
    /// For heads of `k_dim` columns and up to `v_dim` rows.
    pub fn new(k_dim: usize, v_dim: usize) -> Window {
        let k_wide = k_dim.next_multiple_of(LANES);
        let zeros = |rows: usize, width: usize| vec![0.0; rows * width];
        Window {
            k_wide,
            state: zeros(k_wide, v_dim.next_multiple_of(PANEL)),
            q: zeros(ROWS, k_wide),
            k: zeros(ROWS, k_wide),
            fades: vec![1.0; ROWS * k_wide],
            faded: zeros(2 * ROWS, k_wide),
            ends: zeros(ROWS, k_wide),
            through: zeros(1, k_wide),
            running: zeros(1, k_wide),
            found: zeros(2 * ROWS, PANEL),
            aims: zeros(ROWS, PANEL),
            writes: zeros(ROWS, PANEL),
            among: [0.0; ROWS * ROWS],
            read: [0.0; ROWS * ROWS],
            written: [0.0; ROWS * ROWS],
            result: [0.0; ROWS * ROWS],
        }
    }
}

entries! {
    /// Rows `v` of a head's state over some rows of a sequence.
    pub(super) fn go(
        s: &Scan<'_>, head: usize, v: Range<usize>, rows: Range<usize>, state: &mut [f32], window: &mut Window, out: &ScanOutput<'_>,
    ) = all_windows;
}

/// # Safety
/// As of [`Simd`]; results of these rows of the state are the caller's alone.
#[inline(always)]
unsafe fn all_windows<S: Simd>(
    s: &Scan<'_>,
    head: usize,
    v: Range<usize>,
    rows: Range<usize>,
    state: &mut [f32],
    w: &mut Window,
    out: &ScanOutput<'_>,
) {
    let (kd, n) = (s.k_dim, v.len());
    w.state.fill(0.0);
    let panel = w.k_wide * PANEL;
    for (i, row) in state.chunks_exact(kd).enumerate() {
        let columns = w.state[i / PANEL * panel..].chunks_exact_mut(PANEL);
        row.iter().zip(columns).for_each(|(x, column)| column[i % PANEL] = *x);
    }
    for first in rows.clone().step_by(ROWS) {
        let here = first..rows.end.min(first + ROWS);
        // SAFETY: the caller answers for the instructions, and for the results.
        unsafe {
            let rates = w.take::<S>(s, head, &here);
            ask::<S>(s, head, &v, here.end..rows.end.min(here.end + ROWS));
            w.fade::<S>();
            w.pairs::<S>(s.delta);
            w.solve::<S>(s.delta, &rates);
            for (p, at) in (0..n).step_by(PANEL).enumerate() {
                let v = v.start + at..v.end.min(v.start + at + PANEL);
                w.find::<S>(p, s.delta);
                for (t, row) in here.clone().enumerate() {
                    let aims = &mut w.aims[t * PANEL..][..v.len()];
                    aims.copy_from_slice(&s.v.of(row, head, s.v_dim)[v.clone()]);
                    if s.delta {
                        aims.iter_mut().zip(&w.found[t * PANEL..]).for_each(|(aim, found)| *aim -= found);
                    }
                }
                w.aims[here.len() * PANEL..].fill(0.0);
                w.finish::<S>();
                for (t, row) in here.clone().enumerate() {
                    let found = &w.found[(ROWS + t) * PANEL..];
                    out.of(row, head, &v).iter_mut().zip(found).for_each(|(out, found)| *out = s.scale * found);
                }
                w.write::<S>(p);
            }
        }
    }
    for (i, row) in state.chunks_exact_mut(kd).enumerate() {
        let columns = w.state[i / PANEL * panel..].chunks_exact(PANEL);
        row.iter_mut().zip(columns).for_each(|(x, column)| *x = column[i % PANEL]);
    }
}

/// Asks for what rows bring to a head, before it is time.
///
/// # Safety
/// As of [`Simd`].
#[inline(always)]
unsafe fn ask<S: Simd>(s: &Scan<'_>, head: usize, v: &Range<usize>, rows: Range<usize>) {
    for row in rows {
        let group = s.groups[head];
        let all = [s.q.of(row, group, s.k_dim), s.k.of(row, group, s.k_dim), &s.v.of(row, head, s.v_dim)[v.clone()]];
        for line in all.iter().flat_map(|columns| columns.iter().step_by(LANES)) {
            // SAFETY: the caller answers for the instructions; nothing is read.
            unsafe { S::prefetch(std::ptr::from_ref(line).cast()) };
        }
    }
}

impl Window {
    /// Reads the rows' `q`, `k` and what fades the state, and gives their rates; beyond the last one there are zeros that nothing
    /// fades.
    ///
    /// # Safety
    /// As of [`Simd`].
    #[inline(always)]
    unsafe fn take<S: Simd>(&mut self, s: &Scan<'_>, head: usize, rows: &Range<usize>) -> [f32; ROWS] {
        let (kd, wide, group) = (s.k_dim, self.k_wide, s.groups[head]);
        let mut rates = [0.0; ROWS];
        for (t, row) in rows.clone().enumerate() {
            rates[t] = s.rate(row, head);
            self.q[t * wide..][..kd].copy_from_slice(s.q.of(row, group, kd));
            self.k[t * wide..][..kd].copy_from_slice(s.k.of(row, group, kd));
            // SAFETY: the caller answers for the instructions.
            unsafe { s.fades::<S>(row, head, &mut self.fades[t * wide..][..kd]) };
        }
        self.q[rows.len() * wide..].fill(0.0);
        self.k[rows.len() * wide..].fill(0.0);
        self.fades[rows.len() * wide..].fill(1.0);
        rates
    }

    /// `q` and `k` faded from the start, and `k` to the end.
    ///
    /// # Safety
    /// As of [`Simd`].
    #[inline(always)]
    unsafe fn fade<S: Simd>(&mut self) {
        let wide = self.k_wide;
        let (q, k, fades) = (self.q.as_ptr(), self.k.as_ptr(), self.fades.as_ptr());
        let (faded, ends) = (self.faded.as_mut_ptr(), self.ends.as_mut_ptr());
        for at in (0..wide).step_by(LANES) {
            // SAFETY: the caller answers for the instructions; all have rows of `wide` floats, whole vectors.
            unsafe {
                let mut by = S::splat(1.0);
                for t in 0..ROWS {
                    let i = t * wide + at;
                    by = S::mul(by, S::load(fades.add(i)));
                    S::store(faded.add(i), S::mul(by, S::load(k.add(i))));
                    S::store(faded.add(ROWS * wide + i), S::mul(by, S::load(q.add(i))));
                }
                S::store(self.through.as_mut_ptr().add(at), by);
                let mut left = S::splat(1.0);
                for t in (0..ROWS).rev() {
                    let i = t * wide + at;
                    S::store(ends.add(i), S::mul(left, S::load(k.add(i))));
                    left = S::mul(left, S::load(fades.add(i)));
                }
            }
        }
    }

    /// What rows are to each other.
    ///
    /// # Safety
    /// As of [`Simd`].
    #[inline(always)]
    unsafe fn pairs<S: Simd>(&mut self, delta: bool) {
        let wide = self.k_wide;
        let (q, k, fades) = (self.q.as_ptr(), self.k.as_ptr(), self.fades.as_ptr());
        let running = self.running.as_mut_ptr();
        for s in 0..ROWS {
            self.running.copy_from_slice(&self.k[s * wide..][..wide]);
            for t in s..ROWS {
                // SAFETY: the caller answers for the instructions; all have rows of `wide` floats, whole vectors.
                unsafe {
                    let (mut a, mut b) = (S::splat(0.0), S::splat(0.0));
                    for at in (0..wide).step_by(LANES) {
                        let (i, p) = (t * wide + at, running.add(at));
                        let mut x = S::load(p);
                        if t > s {
                            x = S::mul(x, S::load(fades.add(i)));
                            S::store(p, x);
                        }
                        if delta {
                            a = S::fma(x, S::load(k.add(i)), a);
                        }
                        b = S::fma(x, S::load(q.add(i)), b);
                    }
                    self.among[t * ROWS + s] = if delta { S::total(a) } else { 0.0 };
                    self.read[t * ROWS + s] = S::total(b);
                }
            }
        }
    }

    /// The inverse row by row from the top, then what each row reads of it.
    ///
    /// # Safety
    /// As of [`Simd`].
    #[inline(always)]
    unsafe fn solve<S: Simd>(&mut self, delta: bool, rates: &[f32; ROWS]) {
        for t in 0..ROWS {
            let mut own = [0.0; ROWS];
            own[t] = 1.0;
            // SAFETY: the caller answers for the instructions; rows of the triangles are a vector each.
            unsafe {
                let mut row = S::load(own.as_ptr());
                if delta {
                    for s in 0..t {
                        let above = S::load(self.written.as_ptr().add(s * ROWS));
                        row = S::fnma(S::splat(self.among[t * ROWS + s]), above, row);
                    }
                }
                S::store(self.written.as_mut_ptr().add(t * ROWS), S::mul(row, S::splat(rates[t])));
                let mut sum = S::splat(0.0);
                for s in 0..=t {
                    let above = S::load(self.written.as_ptr().add(s * ROWS));
                    sum = S::fma(S::splat(self.read[t * ROWS + s]), above, sum);
                }
                S::store(self.result.as_mut_ptr().add(t * ROWS), sum);
            }
        }
    }

    /// What a panel of the state has for all faded `k`, of the delta rule, and `q`.
    ///
    /// # Safety
    /// As of [`Simd`].
    #[inline(always)]
    unsafe fn find<S: Simd>(&mut self, panel: usize, delta: bool) {
        let to = self.found.as_mut_ptr();
        let state = &self.state[panel * self.k_wide * PANEL..][..self.k_wide * PANEL];
        let of = WindowProduct { a: self.faded.as_ptr(), apart: self.k_wide, b: state.as_ptr() };
        for t in (if delta { 0 } else { ROWS }..2 * ROWS).step_by(TILE) {
            // SAFETY: the caller answers for the instructions; rows from `t` on are there, `k_wide` columns of each.
            unsafe { of.rows::<S>(t, self.k_wide, to.add(t * PANEL), None) };
        }
    }

    /// What the rows write, and what they give, into `found` of `q`.
    ///
    /// # Safety
    /// As of [`Simd`].
    #[inline(always)]
    unsafe fn finish<S: Simd>(&mut self) {
        let of = |a: &[f32]| WindowProduct { a: a.as_ptr(), apart: ROWS, b: self.aims.as_ptr() };
        let (written, result) = (of(&self.written), of(&self.result));
        let (writes, found) = (self.writes.as_mut_ptr(), self.found.as_mut_ptr());
        for t in (0..ROWS).step_by(TILE) {
            // Right of the diagonal there are zeros.
            // SAFETY: the caller answers for the instructions; both have `ROWS` rows.
            unsafe {
                let to = found.add((ROWS + t) * PANEL);
                written.rows::<S>(t, t + TILE, writes.add(t * PANEL), None);
                result.rows::<S>(t, t + TILE, to, Some(&[1.0; TILE]));
            }
        }
    }

    /// A panel of the state at the window's end.
    ///
    /// # Safety
    /// As of [`Simd`].
    #[inline(always)]
    unsafe fn write<S: Simd>(&mut self, panel: usize) {
        let k_wide = self.k_wide;
        let state = self.state[panel * k_wide * PANEL..][..k_wide * PANEL].as_mut_ptr();
        let of = WindowProduct { a: self.ends.as_ptr(), apart: k_wide, b: self.writes.as_ptr() };
        for i in (0..k_wide).step_by(TILE) {
            let through = std::array::from_fn(|r| self.through[i + r]);
            // SAFETY: the caller answers for the instructions; columns from `i` on are there, of `ROWS` rows.
            unsafe { of.columns::<S>(i, ROWS, state.add(i * PANEL), &through) };
        }
    }
}

/// A product of matrices: `a` with rows `apart` floats from each other, `b` of rows of `PANEL`.
#[derive(Clone, Copy)]
struct WindowProduct {
    a: *const f32,
    apart: usize,
    b: *const f32,
}

impl WindowProduct {
    /// Rows `t..t + TILE` of `a · b` with `depth` columns of `a`; with `keep`, to what is there times that.
    ///
    /// # Safety
    /// As of [`Simd`], of all that is read and written.
    #[inline(always)]
    unsafe fn rows<S: Simd>(&self, t: usize, depth: usize, to: *mut f32, keep: Option<&[f32; TILE]>) {
        // SAFETY: the caller's.
        unsafe { self.tiles::<S>((self.a.add(t * self.apart), self.apart, 1), depth, to, keep) }
    }

    /// Rows `i..i + TILE` of `aᵀ · b` with `depth` rows of `a`, to what is there times `keep`.
    ///
    /// # Safety
    /// As of [`Simd`], of all that is read and written.
    #[inline(always)]
    unsafe fn columns<S: Simd>(&self, i: usize, depth: usize, to: *mut f32, keep: &[f32; TILE]) {
        // SAFETY: the caller's.
        unsafe { self.tiles::<S>((self.a.add(i), 1, self.apart), depth, to, Some(keep)) }
    }

    /// Computes tiles of as many vectors side by side as registers hold.
    ///
    /// # Safety
    /// As of [`Simd`], of all that is read and written.
    #[inline(always)]
    unsafe fn tiles<S: Simd>(
        &self,
        a: (*const f32, usize, usize),
        depth: usize,
        to: *mut f32,
        keep: Option<&[f32; TILE]>,
    ) {
        // SAFETY: the caller's.
        unsafe {
            // Sets with more columns of sums have vectors of one register.
            if S::COLUMNS > 3 {
                return self.tile::<S, 2>(a, 0, depth, to, keep);
            }
            self.tile::<S, 1>(a, 0, depth, to, keep);
            self.tile::<S, 1>(a, LANES, depth, to.add(LANES), keep);
        }
    }

    /// `TILE` rows and `N` vectors: `a` has its rows and its columns so far from each other.
    ///
    /// # Safety
    /// As of [`Simd`], of all that is read and written.
    #[inline(always)]
    unsafe fn tile<S: Simd, const N: usize>(
        &self,
        (a, row, column): (*const f32, usize, usize),
        at: usize,
        depth: usize,
        to: *mut f32,
        keep: Option<&[f32; TILE]>,
    ) {
        // SAFETY: the caller's.
        unsafe {
            let mut sums = [[S::splat(0.0); N]; TILE];
            if let Some(keep) = keep {
                for r in 0..TILE {
                    for n in 0..N {
                        sums[r][n] = S::mul(S::splat(keep[r]), S::load(to.add(r * PANEL + n * LANES)));
                    }
                }
            }
            for i in 0..depth {
                let b = self.b.add(i * PANEL + at);
                let mut row_of_b = [S::splat(0.0); N];
                for n in 0..N {
                    row_of_b[n] = S::load(b.add(n * LANES));
                }
                for r in 0..TILE {
                    let x = S::splat(*a.add(r * row + i * column));
                    for n in 0..N {
                        sums[r][n] = S::fma(x, row_of_b[n], sums[r][n]);
                    }
                }
            }
            for r in 0..TILE {
                for n in 0..N {
                    S::store(to.add(r * PANEL + n * LANES), sums[r][n]);
                }
            }
        }
    }
}
