//! Attention over the last rows and over entries of blocks. Rows are kept in dispatches of their own, once nobody reads what they
//! take the place of.

use super::dispatch::{Module, Touched};
use super::general::THREADS;
use super::Lowering;
use crate::plan::{AttendBlocks, Cols, Pool};
use crate::policy;
use pumex_shaders::push;

/// Columns of rows that a layer keeps: where, of every how many rows, and of how many of those.
struct Kept {
    x: Cols,
    len: usize,
    every: usize,
    slots: usize,
    layer: usize,
    at: usize,
}

impl Lowering<'_> {
    fn keep(&mut self, k: &Kept) {
        let (elements, table_at, state) = self.state(k.layer, k.at);
        let push = push::Keep {
            x: self.at(k.x),
            state,
            params: self.t.at.params,
            x_width: self.width(k.x.val) as u32,
            len: k.len as u32,
            every: k.every as u32,
            slots: k.slots as u32,
            table_at,
            elements,
        };
        let constants = vec![("SIZE", THREADS), ("ALONE", u32::from(self.shape.decode_batch))];
        let (reads, writes) = (vec![self.groups(k.x, 1, k.len)], vec![self.kept(k.layer, k.len)]);
        let grid = [k.len.div_ceil(THREADS as usize), self.shape.rows, 1];
        self.emit(Module::of("keep"), constants, push, grid, Touched { reads, writes });
    }

    pub(super) fn pool(&mut self, p: &Pool) {
        let (elements, table_at, state) = self.state(p.layer, p.at);
        let push = push::Pool {
            x: self.at(p.x),
            place: self.weight(p.place),
            y: self.at(p.out),
            state,
            params: self.t.at.params,
            x_width: self.width(p.x.val) as u32,
            y_width: self.width(p.out.val) as u32,
            len: p.len as u32,
            every: p.every as u32,
            table_at,
            elements,
        };
        let (overlaps, alone) = (u32::from(p.overlaps), u32::from(self.shape.decode_batch));
        let constants = vec![("SIZE", THREADS), ("OVERLAPS", overlaps), ("ALONE", alone)];
        let rows = self.groups(p.x, 1, 2 * p.width());
        let mut reads = vec![rows, self.kept(p.layer, p.rows() * 2 * p.width())];
        reads.extend(self.matrices([p.place]));
        let writes = vec![self.groups(p.out, 1, p.len)];
        let grid = [p.len.div_ceil(THREADS as usize), self.shape.rows, 1];
        self.emit(Module::of("pool"), constants, push, grid, Touched { reads, writes });
        self.keep(&Kept { x: p.x, len: 2 * p.width(), every: 1, slots: p.rows(), layer: p.layer, at: p.at });
    }

    pub(super) fn attend_blocks(&mut self, a: &AttendBlocks) {
        if let Some(e) = a.entries {
            self.keep(&Kept { x: e.x, len: a.dim, every: e.every, slots: e.slots, layer: a.layer, at: e.at });
        }
        let (elements, table_at, state) = self.state(a.layer, a.at);
        let push = push::AttendBlocks {
            q: self.at(a.q),
            k: self.at(a.k),
            sinks: self.weight(a.sinks),
            y: self.at(a.out),
            state,
            params: self.t.at.params,
            q_stride: a.q.stride as u32,
            q_width: self.width(a.q.val) as u32,
            k_width: self.width(a.k.val) as u32,
            y_stride: a.out.stride as u32,
            y_width: self.width(a.out.val) as u32,
            entries_at: a.entries.map_or(0, |e| (e.at - a.at) as u32),
            every: a.entries.map_or(0, |e| e.every as u32),
            slots: a.entries.map_or(0, |e| e.slots as u32),
            scale: a.scale,
            table_at,
            elements,
        };
        let threads = policy::row_threads(self.t.caps).min(a.dim.next_power_of_two() as u32);
        let threads = threads.max(self.t.caps.subgroup_size);
        let constants = vec![
            ("SIZE", threads),
            ("DIM", a.dim as u32),
            ("WINDOW", a.window as u32),
            ("OWN", (a.dim as u32).div_ceil(threads)),
            ("ALONE", u32::from(self.shape.decode_batch)),
        ];
        let floats = a.window * a.dim + a.entries.map_or(0, |e| e.slots * a.dim);
        let mut reads = vec![self.groups(a.q, a.heads, a.dim), self.groups(a.k, 1, a.dim), self.kept(a.layer, floats)];
        reads.extend(self.matrices([a.sinks]));
        let writes = vec![self.groups(a.out, a.heads, a.dim)];
        self.emit(
            Module::of("attend_blocks"),
            constants,
            push,
            [self.shape.rows, a.heads, 1],
            Touched { reads, writes },
        );
        self.keep(&Kept { x: a.k, len: a.dim, every: 1, slots: a.window, layer: a.layer, at: a.at });
    }
}
