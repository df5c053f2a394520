//! Several residual streams: mixtures of columns, and what they are mixed by.

use super::dispatch::{Module, Touched};
use super::general::THREADS;
use super::Lowering;
use pumex_plan::{Mix, Softmax, StreamGates};
use pumex_shaders::push;

impl Lowering<'_> {
    pub(super) fn mix(&mut self, m: &Mix) {
        let push = push::Mix {
            x: self.at(m.x),
            by: self.at(m.by),
            y: self.at(m.out),
            params: self.t.at.params,
            x_stride: m.x.stride as u32,
            x_width: self.width(m.x.val) as u32,
            by_stride: m.by.stride as u32,
            by_width: self.width(m.by.val) as u32,
            y_stride: m.out.stride as u32,
            y_width: self.width(m.out.val) as u32,
            from: m.from as u32,
            to: m.to as u32,
            len: m.len as u32,
        };
        let out = self.groups(m.out, m.to, m.len);
        let mut reads = vec![self.groups(m.x, m.from, m.len), self.groups(m.by, m.from, m.to)];
        reads.extend(m.add.then(|| out.clone()));
        let grid = [(m.to * m.len).div_ceil(THREADS as usize), self.shape.rows, 1];
        let constants = vec![("SIZE", THREADS), ("ADD", u32::from(m.add))];
        self.emit(Module::of("mix"), constants, push, grid, Touched { reads, writes: vec![out] });
    }

    pub(super) fn softmax(&mut self, s: &Softmax) {
        let push = push::Softmax {
            x: self.at(s.x),
            params: self.t.at.params,
            stride: s.x.stride as u32,
            width: self.width(s.x.val) as u32,
            groups: s.groups as u32,
            len: s.len as u32,
        };
        let touched = self.groups(s.x, s.groups, s.len);
        let touched = Touched { reads: vec![touched.clone()], writes: vec![touched] };
        let grid = [(s.groups * self.shape.rows).div_ceil(THREADS as usize), 1, 1];
        self.emit(Module::of("softmax"), vec![("SIZE", THREADS)], push, grid, touched);
    }

    pub(super) fn stream_gates(&mut self, g: &StreamGates) {
        let push = push::StreamGates {
            x: self.at(g.x),
            scale: self.weight(g.scale),
            base: self.weight(g.base),
            params: self.t.at.params,
            width: self.width(g.x.val) as u32,
            len: g.len as u32,
            rounds: g.rounds as u32,
            eps: g.eps,
            magnitude: g.magnitude,
            post_eps: g.post_eps,
        };
        let touched = self.groups(g.x, 1, g.len);
        let reads = [vec![touched.clone()], self.matrices([g.scale, g.base])].concat();
        let grid = [self.shape.rows.div_ceil(THREADS as usize), 1, 1];
        let constants = vec![("SIZE", THREADS), ("COUNT", g.count as u32)];
        self.emit(Module::of("stream_gates"), constants, push, grid, Touched { reads, writes: vec![touched] });
    }
}
