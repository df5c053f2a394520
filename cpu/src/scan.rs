//! Recurrences: heads whose state fades, is written to and read with every row of a sequence. Few rows go one by one, more by
//! windows of rows, whose products with each other need no state but the first.

mod row;
mod window;

use crate::buffer::DisjointParts;
use crate::simd::{exp, Simd, LANES};
use crate::Cpu;
use std::ops::Range;
use window::Window;

/// Fewer rows go one by one.
const LEAST_ROWS: usize = 16;
/// Fewer rows of the state, too.
const LEAST_V_DIM: usize = 8;
/// Rows of a head's state that are an item, where heads are few.
const SLICE: usize = 64;

/// Columns of rows: those of group `g` start at `at + g * stride`.
#[derive(Clone, Copy)]
pub struct Columns<'a> {
    /// All rows.
    pub rows: &'a [f32],
    /// Floats of a row.
    pub width: usize,
    /// Where the first group starts.
    pub at: usize,
    /// From one group to the next.
    pub stride: usize,
}

impl<'a> Columns<'a> {
    /// `len` columns of a group.
    fn of(&self, row: usize, group: usize, len: usize) -> &'a [f32] {
        &self.rows[row * self.width + self.at + group * self.stride..][..len]
    }
}

/// What the columns of a state are multiplied by before a row is written.
#[derive(Clone, Copy)]
pub enum Fade<'a> {
    /// 1.
    None,
    /// These.
    By(Columns<'a>),
    /// `e` to the power of these.
    Exp(Columns<'a>),
    /// `e` to the power of the rate times these, `[heads]` or `[heads, k_dim]`.
    Rate(&'a [f32]),
}

/// A recurrence of states `S [heads, v_dim, k_dim]`: with every row `S` fades, `S += rate * (v - S · k) ⊗ k` by the delta rule or
/// `S += rate * v ⊗ k` without, `out = scale * S · q`.
#[derive(Clone, Copy)]
pub struct Scan<'a> {
    /// By the delta rule.
    pub delta: bool,
    /// Heads.
    pub heads: usize,
    /// Columns of `v` and the result per head.
    pub v_dim: usize,
    /// Columns of `q` and `k` per group.
    pub k_dim: usize,
    /// Group of `q` and `k` of each head.
    pub groups: &'a [usize],
    /// What the state is read by.
    pub q: Columns<'a>,
    /// What it is written at.
    pub k: Columns<'a>,
    /// What is written.
    pub v: Columns<'a>,
    /// A column per head; none is 1.
    pub rate: Option<Columns<'a>>,
    /// What fades it.
    pub fade: Fade<'a>,
    /// Whether that has `k_dim` columns per head instead of one.
    pub by_column: bool,
    /// The factor of the result.
    pub scale: f32,
}

impl Scan<'_> {
    fn rate(&self, row: usize, head: usize) -> f32 {
        self.rate.map_or(1.0, |rate| rate.of(row, head, 1)[0])
    }

    /// What the columns of a head fade by in a row, into `k_dim` floats.
    ///
    /// # Safety
    /// As of [`Simd`].
    #[inline(always)]
    unsafe fn fades<S: Simd>(&self, row: usize, head: usize, out: &mut [f32]) {
        let len = if self.by_column { self.k_dim } else { 1 };
        let rate = self.rate(row, head);
        let (from, times, power) = match self.fade {
            Fade::None => return out.fill(1.0),
            Fade::By(cols) => (cols.of(row, head, len), 1.0, false),
            Fade::Exp(cols) => (cols.of(row, head, len), 1.0, true),
            Fade::Rate(factors) => (&factors[head * len..][..len], rate, true),
        };
        if !self.by_column {
            return out.fill(if power { (times * from[0]).exp() } else { from[0] });
        }
        if !power {
            return out.copy_from_slice(from);
        }
        let whole = len / LANES * LANES;
        for at in (0..whole).step_by(LANES) {
            // SAFETY: the caller answers for the instructions; 16 floats from `at` on are in both.
            unsafe {
                let x = S::mul(S::load(from.as_ptr().add(at)), S::splat(times));
                S::store(out.as_mut_ptr().add(at), exp::<S>(x));
            }
        }
        for i in whole..len {
            out[i] = (times * from[i]).exp();
        }
    }
}

thread_local! {
    /// Memory of a thread for what a row fades by.
    static FADES: std::cell::RefCell<Vec<f32>> = const { std::cell::RefCell::new(Vec::new()) };
}

/// Where results go.
struct ScanOutput<'a> {
    parts: &'a DisjointParts<f32>,
    width: usize,
    at: usize,
    stride: usize,
}

impl ScanOutput<'_> {
    /// Results of a head in a row.
    ///
    /// # Safety
    /// No other thread has any of them.
    #[allow(clippy::mut_from_ref)] // as of the parts
    unsafe fn of(&self, row: usize, head: usize, v: &Range<usize>) -> &mut [f32] {
        // SAFETY: the caller's alone.
        unsafe { self.parts.part(row * self.width + self.at + head * self.stride + v.start, v.len()) }
    }
}

impl Cpu {
    /// Goes over `rows`, which are of one sequence and follow each other, from `state [heads, v_dim, k_dim]`, and leaves what the
    /// last one leaves; results go to columns of `out`, from `at` on with `stride` between heads, in rows of `width`.
    ///
    /// # Panics
    /// If columns are not there.
    pub fn scan(
        &self,
        s: &Scan<'_>,
        rows: Range<usize>,
        state: &mut [f32],
        (at, stride, width): (usize, usize, usize),
        out: &mut [f32],
    ) {
        assert!(self.isa.is_here());
        let (heads, vd, kd) = (s.heads, s.v_dim, s.k_dim);
        let slice = if heads < 2 * self.pool.threads() { SLICE.min(vd) } else { vd };
        let slices = vd.div_ceil(slice.max(1));
        let windows = rows.len() >= LEAST_ROWS && vd >= LEAST_V_DIM;
        let (states, parts) = (DisjointParts::new(state), DisjointParts::new(out));
        let out = ScanOutput { parts: &parts, width, at, stride };
        let units = heads * slices;
        let each = units.div_ceil(4 * self.pool.threads()).max(1);
        self.pool.each(units.div_ceil(each), &|item| {
            let mut window = windows.then(|| Window::new(kd, slice));
            let mut fades = FADES.take();
            fades.resize(2 * kd, 0.0);
            for unit in item * each..units.min((item + 1) * each) {
                let (head, v) = (unit / slices, unit % slices * slice);
                let v = v..vd.min(v + slice);
                // SAFETY: every slice of a head is of one item.
                let state = unsafe { states.part((head * vd + v.start) * kd, v.len() * kd) };
                // SAFETY: the instructions are there, and results of a slice are of one item, too.
                unsafe {
                    match &mut window {
                        Some(window) => window::go(self.isa, s, head, v, rows.clone(), state, window, &out),
                        None => row::go(self.isa, s, head, v, rows.clone(), state, &mut fades, &out),
                    }
                }
            }
            FADES.set(fades);
        });
    }
}
