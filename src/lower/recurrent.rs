//! Convolutions over time, shifts and scans: kernels in which whoever has the first row of a sequence in the step goes on with its
//! other rows.

use super::dispatch::{Access, Module, Place, Touched};
use super::general::THREADS;
use super::Lowering;
use crate::plan::{Cols, Conv, Scan, ScanKind, Shift, Weight};
use pumex_shaders::{constants as c, push};

/// Subgroups of a workgroup that scans.
const SUBGROUPS: u32 = 4;
/// Rows of a head's state that a subgroup holds, at most.
const MOST_ROWS: usize = 4;

/// What a convolution and a shift have in common.
struct Taps {
    x: Cols,
    out: Cols,
    channels: usize,
    k: usize,
    weight: Option<Weight>,
    bias: Option<Weight>,
    silu: bool,
    layer: usize,
    at: usize,
}

impl Lowering<'_> {
    pub(super) fn conv(&mut self, conv: &Conv) {
        let info = &self.plan.weights[conv.weight.0];
        let (k, weight, bias) = (info.rows * info.cols / conv.channels, Some(conv.weight), conv.bias);
        let Conv { x, out, channels, silu, layer, at, .. } = *conv;
        self.taps(&Taps { x, out, channels, k, weight, bias, silu, layer, at });
    }

    pub(super) fn shift(&mut self, s: &Shift) {
        let channels = self.width(s.x);
        let [x, out] = [s.x, s.out].map(|val| Cols { val, at: 0, stride: 0 });
        let (weight, bias) = (None, None);
        self.taps(&Taps { x, out, channels, k: 2, weight, bias, silu: false, layer: s.layer, at: s.at });
    }

    fn taps(&mut self, t: &Taps) {
        let (elements, table_at, state) = self.state(t.layer, t.at);
        let push = push::Conv {
            x: self.at(t.x),
            y: self.at(t.out),
            weight: self.opt(t.weight),
            bias: self.opt(t.bias),
            state,
            params: self.t.at.params,
            channels: t.channels as u32,
            x_width: self.width(t.x.val) as u32,
            y_width: self.width(t.out.val) as u32,
            table_at,
            elements,
        };
        // A row's threads may still read what another row's would write.
        let in_turn = t.x.val == t.out.val || t.k < 2;
        let constants = vec![
            ("SIZE", THREADS),
            ("K", t.k as u32),
            ("SILU", u32::from(t.silu)),
            ("BIASED", u32::from(t.bias.is_some())),
            ("SHIFT", u32::from(t.weight.is_none())),
            ("IN_TURN", u32::from(in_turn)),
            ("ALONE", u32::from(self.shape.decode_batch)),
        ];
        let kept = self.kept(t.layer, (t.k - 1) * t.channels);
        let mut reads = self.matrices([t.weight, t.bias].into_iter().flatten());
        reads.extend([self.groups(t.x, 1, t.channels), kept.clone()]);
        let writes = vec![self.groups(t.out, 1, t.channels), kept];
        let grid = [t.channels.div_ceil(THREADS as usize), self.shape.rows, 1];
        self.emit(Module::of("conv"), constants, push, grid, Touched { reads, writes });
    }

    /// Floats of a block of a layer's states, words to its block table, and where float `at` of the first block lies.
    fn state(&self, layer: usize, at: usize) -> (u32, u32, u64) {
        let state = self.t.at.states[layer];
        (self.plan.layers[layer].recurrent_elements() as u32, state.table_at, state.k + 4 * at as u64)
    }

    /// So many floats of a layer's state, of as many sequences as there may be.
    fn kept(&self, layer: usize, floats: usize) -> Access {
        let sequences = if self.shape.decode_batch { self.shape.rows } else { 1 };
        Access::all(Place::State(layer), (4 * floats * sequences) as u64)
    }

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
            y: self.at(s.out),
            state,
            params: self.t.at.params,
            table_at,
            elements,
            scale: s.scale,
        };
        let rows = (1..=MOST_ROWS).rev().find(|rows| s.v_dim.is_multiple_of(*rows)).unwrap_or(1);
        let (constants, items) = (self.scan_constants(s, rows), s.heads * s.v_dim / rows);
        let kept = self.kept(s.layer, s.heads * s.v_dim * s.k_dim);
        let column = |cols: Option<Cols>, len| cols.map(|cols| self.groups(cols, s.heads, len));
        let mut reads = self.matrices(s.factor);
        reads.extend([self.groups(s.q, s.groups, s.k_dim), self.groups(s.k, s.groups, s.k_dim)]);
        reads.extend([self.groups(s.v, s.heads, s.v_dim), kept.clone()]);
        reads.extend(column(s.decay, if s.decay_per_column { s.k_dim } else { 1 }));
        reads.extend(column(s.rate, 1));
        reads.extend(column(s.a, s.k_dim).into_iter().chain(column(s.b, s.k_dim)));
        let writes = vec![self.groups(s.out, s.heads, s.v_dim), kept];
        let grid = [items.div_ceil(SUBGROUPS as usize), self.shape.rows, 1];
        self.emit(Module::of("scan"), constants, push, grid, Touched { reads, writes });
    }

    fn scan_constants(&self, s: &Scan, rows: usize) -> Vec<(&'static str, u32)> {
        let kind = match s.kind {
            ScanKind::Mamba => c::SCAN_MAMBA,
            ScanKind::Delta => c::SCAN_DELTA,
            ScanKind::Wkv6 => c::SCAN_WKV6,
            ScanKind::Gla => c::SCAN_GLA,
            ScanKind::Wkv7 => c::SCAN_WKV7,
        };
        let lanes = self.t.caps.subgroup_size;
        let factors = s.factor.map_or(0, |w| {
            let info = &self.plan.weights[w.0];
            1 + u32::from(info.rows * info.cols > s.heads)
        });
        let mut constants = vec![
            ("SIZE", SUBGROUPS * lanes),
            ("KIND", kind),
            ("HEADS", s.heads as u32),
            ("V_DIM", s.v_dim as u32),
            ("K_DIM", s.k_dim as u32),
            ("GROUPS", s.groups as u32),
            ("TILED", u32::from(s.tiled)),
            ("DECAYS", if s.decay.is_some() { 1 + u32::from(s.decay_per_column) } else { 0 }),
            ("FACTORS", factors),
            ("RATED", u32::from(s.rate.is_some())),
            ("ROWS", rows as u32),
            ("LANES", lanes),
            ("ALONE", u32::from(self.shape.decode_batch)),
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
