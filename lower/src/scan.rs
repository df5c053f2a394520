//! Scans: row by row, or in steps with many rows of a sequence by windows of rows, whose products with each other come first.
//!
//! Windows are of 16 rows of the step: `scan_pairs` finds what a window's rows are to each other, all windows at a time, and
//! `scan_chunks` hands the state from one to the next (delta nets, Mamba-2, gated linear attention). Few rows, and all other
//! recurrences, go row by row (`scan`), as they all do in the reference.

use super::dispatch::{Access, Module, Place, Touched};
use super::Lowering;
use crate::policy;
use pumex_plan::{Cols, Plan, Scan, ScanKind};
use pumex_shaders::{constants as c, push};
use pumex_vk::Caps;

/// Subgroups of a workgroup that scans row by row.
const SUBGROUPS: u32 = 4;
/// Rows of a head's state that a subgroup holds, at most.
const MOST_ROWS: usize = 4;
/// Threads of a workgroup of `scan_pairs`.
const PAIR_THREADS: usize = 128;
/// Columns of a row of the state that a thread of `scan_chunks` holds.
const STATE: usize = 16;
/// Fewer rows of the state are not worth the products of rows with each other.
const LEAST_V_DIM: usize = 8;

/// How a scan goes by windows of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Windows {
    /// Rows of a window.
    rows: usize,
    /// Rows of a head's state that a workgroup holds.
    cols: usize,
}

impl Windows {
    /// The longest that fit a workgroup's memory; none for scans that cannot be done so, or of so few rows of the state that it
    /// would not be faster.
    fn of(caps: &Caps, plan: &Plan, s: &Scan) -> Option<Windows> {
        let by_column = factors(plan, s) == 2;
        let suits = match s.kind {
            ScanKind::Mamba => !by_column,
            ScanKind::Delta | ScanKind::Gla => true,
            ScanKind::Wkv6 | ScanKind::Wkv7 => false,
        };
        if !suits || s.v_dim < LEAST_V_DIM {
            return None;
        }
        let parts = s.k_dim.div_ceil(STATE);
        let cols = (PAIR_THREADS / parts).next_power_of_two().clamp(16, 64);
        [16, 8].into_iter().map(|rows| Windows { rows, cols }).find(|w| {
            let bytes = w.chunk_bytes(parts).max(w.pair_bytes(s));
            bytes <= caps.max_shared_bytes as usize && cols * parts <= caps.max_workgroup_invocations as usize
        })
    }

    /// Bytes of a workgroup's memory that `scan_chunks` takes.
    fn chunk_bytes(&self, parts: usize) -> usize {
        let held = 2 * self.rows * parts * self.cols.max(STATE);
        4 * (held + self.rows + (self.rows + 1) * STATE * parts + 2 * self.rows * self.rows + 2 * self.rows * self.cols)
    }

    /// Threads of a row in `scan_pairs`.
    fn parts(&self) -> usize {
        PAIR_THREADS / self.rows
    }

    /// Bytes that `scan_pairs` takes.
    fn pair_bytes(&self, s: &Scan) -> usize {
        let wide = self.parts() * s.k_dim.div_ceil(self.parts()) + 1;
        let held = 2 * self.rows * wide.max(self.parts() * self.rows);
        let fades = if s.decay_per_column { self.rows * wide } else { self.rows };
        4 * (held + fades + 2 * self.rows + 3 * self.rows * self.rows)
    }

    /// Bytes of what `scan_pairs` leaves of a step.
    fn left(&self, heads: usize, rows: usize) -> usize {
        8 * rows.div_ceil(self.rows) * heads * self.rows * self.rows
    }
}

/// Bytes that a scan needs between its two dispatches, in steps with up to `rows` rows.
pub(super) fn workspace(caps: &Caps, plan: &Plan, s: &Scan, rows: usize) -> usize {
    Windows::of(caps, plan, s).map_or(0, |w| w.left(s.heads, rows))
}

/// 1 if a number per head is its factor, 2 if `k_dim` are.
fn factors(plan: &Plan, s: &Scan) -> u32 {
    s.factor.map_or(0, |w| {
        let info = &plan.weights[w.0];
        1 + u32::from(info.rows * info.cols > s.heads)
    })
}

impl Lowering<'_> {
    pub(super) fn scan(&mut self, s: &Scan) {
        let (elements, table_at, state) = self.state(s.layer, s.at);
        let at = |cols: Option<Cols>| cols.map_or(0, |cols| self.at(cols));
        let push = push::Scan {
            q: self.at(s.q),
            k: self.at(s.k),
            v: self.at(s.v),
            decay: at(s.decay),
            rate: at(s.rate),
            a: at(s.a),
            b: at(s.b),
            factor: self.opt(s.factor),
            soft: self.opt(s.soft),
            skip: self.opt(s.skip),
            y: self.at(s.out),
            state,
            params: self.t.at.params,
            table_at,
            elements,
            scale: s.scale,
            pairs: 0,
        };
        let kept = self.access_state(s.layer, s.heads * s.v_dim * s.k_dim);
        let column = |cols: Option<Cols>, len| cols.map(|cols| self.groups(cols, s.heads, len));
        let mut rows = self.matrices([s.factor, s.soft].into_iter().flatten()); // what the products of rows with each other read
        rows.extend([self.groups(s.q, s.groups, s.k_dim), self.groups(s.k, s.groups, s.k_dim)]);
        rows.extend(column(s.decay, if s.decay_per_column { s.k_dim } else { 1 }));
        rows.extend(column(s.rate, 1));
        let mut reads = rows.clone();
        reads.extend([self.groups(s.v, s.heads, s.v_dim), kept.clone()]);
        reads.extend(self.matrices(s.skip));
        reads.extend(column(s.a, s.k_dim).into_iter().chain(column(s.b, s.k_dim)));
        let mut touched = Touched { reads, writes: vec![self.groups(s.out, s.heads, s.v_dim), kept] };
        let Some(w) = self.windows(s) else { return self.scan_rows(s, push, touched) };
        let push = push::Scan { pairs: self.t.at.partials, ..push };
        let windows = self.shape.rows.div_ceil(w.rows);
        let left = Access::all(Place::SplitReduction, w.left(s.heads, self.shape.rows) as u64);
        let with = |more: [(&'static str, u32); 3]| [self.scan_constants(s), more.to_vec()].concat();
        let threads = [("SIZE", PAIR_THREADS as u32), ("CHUNK", w.rows as u32), ("PARTS", w.parts() as u32)];
        let size = ("SIZE", (w.cols * s.k_dim.div_ceil(STATE)) as u32);
        let (pairs, chunks) = (with(threads), with([size, ("CHUNK", w.rows as u32), ("COLS", w.cols as u32)]));
        let between = Touched { reads: rows, writes: vec![left.clone()] };
        self.emit(Module::of("scan_pairs"), pairs, push, [windows, s.heads, 1], between);
        touched.reads.push(left);
        let grid = [s.heads * s.v_dim.div_ceil(w.cols), windows, 1];
        self.emit(Module::of("scan_chunks"), chunks, push, grid, touched);
    }

    /// How to go by windows, if the step may have enough rows of a sequence.
    fn windows(&self, s: &Scan) -> Option<Windows> {
        let many = self.t.chunks && !self.shape.decode_batch && self.shape.rows > policy::FEW_ROWS;
        Windows::of(self.t.caps, self.plan, s).filter(|_| many)
    }

    fn scan_rows(&mut self, s: &Scan, push: push::Scan, touched: Touched) {
        let rows = (1..=MOST_ROWS).rev().find(|rows| s.v_dim.is_multiple_of(*rows)).unwrap_or(1);
        let lanes = self.t.caps.subgroup_of("scan");
        let subgroups = if self.t.caps.emulated_subgroups { 1 } else { SUBGROUPS };
        let mut constants = self.scan_constants(s);
        constants.extend([
            ("SIZE", subgroups * lanes),
            ("ROWS", rows as u32),
            ("LANES", lanes),
            ("QUADS", u32::from(self.by_fours(s))),
            ("ALONE", u32::from(self.shape.decode_batch)),
        ]);
        let grid = [(s.heads * s.v_dim / rows).div_ceil(subgroups as usize), self.shape.rows, 1];
        self.emit(Module::of("scan"), constants, push, grid, touched);
    }

    /// Whether all columns can be read four at a time, by all threads of a subgroup.
    fn by_fours(&self, s: &Scan) -> bool {
        let columns = [Some(s.q), Some(s.k), s.a, s.b, s.decay.filter(|_| s.decay_per_column)];
        let fours = |c: Cols| [c.at, c.stride, self.width(c.val)].iter().all(|n| n.is_multiple_of(4));
        let state = [s.at, self.plan.layers[s.layer].recurrent_elements()];
        s.k_dim.is_multiple_of(4 * self.t.caps.subgroup_of("scan") as usize)
            && columns.into_iter().flatten().all(fours)
            && state.iter().all(|n| n.is_multiple_of(4))
    }

    fn scan_constants(&self, s: &Scan) -> Vec<(&'static str, u32)> {
        let kind = match s.kind {
            ScanKind::Mamba => c::SCAN_MAMBA,
            ScanKind::Delta => c::SCAN_DELTA,
            ScanKind::Wkv6 => c::SCAN_WKV6,
            ScanKind::Gla => c::SCAN_GLA,
            ScanKind::Wkv7 => c::SCAN_WKV7,
        };
        let mut constants = vec![
            ("KIND", kind),
            ("HEADS", s.heads as u32),
            ("V_DIM", s.v_dim as u32),
            ("K_DIM", s.k_dim as u32),
            ("GROUPS", s.groups as u32),
            ("TILED", u32::from(s.tiled)),
            ("DECAYS", if s.decay.is_some() { 1 + u32::from(s.decay_per_column) } else { 0 }),
            ("FACTORS", factors(self.plan, s)),
            ("RATED", u32::from(s.rate.is_some())),
            ("SOFT", u32::from(s.soft.is_some())),
            ("SKIP", u32::from(s.skip.is_some())),
        ];
        let inputs = [
            (Some(s.q), ["Q_WIDTH", "Q_STRIDE"]),
            (Some(s.k), ["K_WIDTH", "K_STRIDE"]),
            (Some(s.v), ["V_WIDTH", "V_STRIDE"]),
            (s.decay, ["DECAY_WIDTH", "DECAY_STRIDE"]),
            (s.rate, ["RATE_WIDTH", "RATE_STRIDE"]),
            (s.a, ["A_WIDTH", "A_STRIDE"]),
            (s.b, ["B_WIDTH", "B_STRIDE"]),
            (Some(s.out), ["Y_WIDTH", "Y_STRIDE"]),
        ];
        for (cols, [width, stride]) in inputs {
            let Some(cols) = cols else { continue };
            constants.extend([(width, self.width(cols.val) as u32), (stride, cols.stride as u32)]);
        }
        constants
    }
}
