//! Convolutions over time and shifts: kernels in which whoever has the first row of a sequence in the step goes on with its other
//! rows.

use super::dispatch::{Access, Module, Place, Touched};
use super::general::THREADS;
use super::Lowering;
use pumex_plan::{Cols, Conv, ConvNorm, Shift, Weight};
use pumex_shaders::push;

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
    norm: Option<ConvNorm>,
}

impl Lowering<'_> {
    pub(super) fn conv(&mut self, conv: &Conv) {
        let info = &self.plan.weights[conv.weight.0];
        let (k, weight, bias) = (info.rows * info.cols / conv.channels, Some(conv.weight), conv.bias);
        let Conv { x, out, channels, silu, layer, at, norm, .. } = *conv;
        self.taps(&Taps { x, out, channels, k, weight, bias, silu, layer, at, norm });
    }

    pub(super) fn shift(&mut self, s: &Shift) {
        let channels = self.width(s.x);
        let [x, out] = [s.x, s.out].map(|val| Cols { val, at: 0, stride: 0 });
        let (weight, bias) = (None, None);
        self.taps(&Taps { x, out, channels, k: 2, weight, bias, silu: false, layer: s.layer, at: s.at, norm: None });
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
            norms: t.norm.map_or(0, |n| n.groups as u32),
            eps: t.norm.map_or(0.0, |n| n.eps),
        };
        // A workgroup has a group of what is normed.
        let threads = t.norm.map_or(THREADS, |n| n.len as u32);
        let norm = t.norm.map_or(0, |n| 1 + u32::from(n.least));
        // A row's threads may still read what another row's would write.
        let in_turn = t.x.val == t.out.val || t.k < 2;
        let constants = vec![
            ("SIZE", threads),
            ("K", t.k as u32),
            ("SILU", u32::from(t.silu)),
            ("BIASED", u32::from(t.bias.is_some())),
            ("SHIFT", u32::from(t.weight.is_none())),
            ("IN_TURN", u32::from(in_turn)),
            ("NORM", norm),
            ("ALONE", u32::from(self.shape.decode_batch)),
        ];
        let kept = self.access_state(t.layer, (t.k - 1) * t.channels);
        let mut reads = self.matrices([t.weight, t.bias].into_iter().flatten());
        reads.extend([self.groups(t.x, 1, t.channels), kept.clone()]);
        let writes = vec![self.groups(t.out, 1, t.channels), kept];
        let grid = [t.channels.div_ceil(threads as usize), self.shape.rows, 1];
        self.emit(Module::of("conv"), constants, push, grid, Touched { reads, writes });
    }

    /// Floats of a block of a layer's states, words to its block table, and where float `at` of the first block lies.
    pub(super) fn state(&self, layer: usize, at: usize) -> (u32, u32, u64) {
        let state = self.t.at.states[layer];
        (self.plan.layers[layer].recurrent_elements() as u32, state.table_at, state.k + 4 * at as u64)
    }

    /// So many floats of a layer's state, of as many sequences as there may be.
    pub(super) fn access_state(&self, layer: usize, floats: usize) -> Access {
        let sequences = if self.shape.decode_batch { self.shape.rows } else { 1 };
        Access::all(Place::State(layer), (4 * floats * sequences) as u64)
    }
}
