//! Attention over the last rows and over entries of blocks. Rows are kept in dispatches of their own, once nobody reads what they
//! take the place of.

use super::dispatch::{Module, Touched};
use super::general::THREADS;
use super::Lowering;
use crate::policy;
use pumex_plan::{AttendBlocks, ChooseBlocks, Entries, Pool};
use pumex_shaders::push;

impl Lowering<'_> {
    /// Keeps `len` columns of rows that end a block.
    fn keep(&mut self, k: Entries, len: usize, layer: usize) {
        let (elements, table_at, state) = self.state(layer, k.at);
        let push = push::Keep {
            x: self.at(k.x),
            state,
            params: self.t.at.params,
            x_width: self.width(k.x.val) as u32,
            len: len as u32,
            stride: k.stride as u32,
            every: k.every as u32,
            slots: k.slots as u32,
            table_at,
            elements,
        };
        let constants = vec![("SIZE", THREADS), ("ALONE", u32::from(self.shape.decode_batch))];
        let (reads, writes) = (vec![self.groups(k.x, 1, len)], vec![self.access_state(layer, len)]);
        let grid = [len.div_ceil(THREADS as usize), self.shape.rows, 1];
        self.emit(Module::of("keep"), constants, push, grid, Touched { reads, writes });
    }

    pub(super) fn pool(&mut self, p: &Pool) {
        let (elements, table_at, state) = self.state(p.layer, p.at);
        let push = push::Pool {
            x: self.at(p.x),
            place: self.opt(p.place),
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
        let constants =
            vec![("SIZE", THREADS), ("OVERLAPS", overlaps), ("ALONE", alone), ("PLACED", u32::from(p.place.is_some()))];
        let rows = self.groups(p.x, 1, 2 * p.width());
        let mut reads = vec![rows, self.access_state(p.layer, p.rows() * 2 * p.width())];
        reads.extend(self.matrices(p.place));
        let writes = vec![self.groups(p.out, 1, p.len)];
        let grid = [p.len.div_ceil(THREADS as usize), self.shape.rows, 1];
        self.emit(Module::of("pool"), constants, push, grid, Touched { reads, writes });
        let stride = 2 * p.width();
        self.keep(Entries { x: p.x, every: 1, slots: p.rows(), at: p.at, stride }, stride, p.layer);
    }

    pub(super) fn choose_blocks(&mut self, c: &ChooseBlocks) {
        let e = c.entries;
        if e.slots <= c.most {
            return;
        }
        self.keep(e, c.dim, c.layer);
        let (elements, table_at, state) = self.state(c.layer, e.at);
        let push = push::ChooseBlocks {
            q: self.at(c.q),
            weights: self.at(c.weights),
            y: self.at(c.out),
            state,
            params: self.t.at.params,
            q_stride: c.q.stride as u32,
            q_width: self.width(c.q.val) as u32,
            w_stride: c.weights.stride as u32,
            w_width: self.width(c.weights.val) as u32,
            y_width: self.width(c.out.val) as u32,
            heads: c.heads as u32,
            dim: c.dim as u32,
            entry_stride: e.stride as u32,
            every: e.every as u32,
            slots: e.slots as u32,
            most: c.most as u32,
            table_at,
            elements,
        };
        let alone = ("ALONE", u32::from(self.shape.decode_batch));
        let scores = self.groups(c.out, 1, e.slots);
        let reads = vec![
            self.groups(c.q, c.heads, c.dim),
            self.groups(c.weights, c.heads, 1),
            self.access_state(c.layer, e.slots * c.dim),
        ];
        let rows = self.shape.rows;
        let grid = [e.slots.div_ceil(THREADS as usize), rows, 1];
        let touched = Touched { reads, writes: vec![scores.clone()] };
        self.emit(Module::of("score_blocks"), vec![("SIZE", THREADS), alone], push, grid, touched);
        let touched = Touched { reads: vec![scores.clone()], writes: vec![scores] };
        let constants = vec![("SIZE", policy::row_threads(self.t.caps))];
        self.emit(Module::of("choose_blocks"), constants, push, [rows, 1, 1], touched);
    }

    pub(super) fn attend_blocks(&mut self, a: &AttendBlocks) {
        if let Some(e) = a.entries {
            self.keep(e, a.dim, a.layer);
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
            chosen: a.visible_entries().map_or(0, |c| self.at(c)),
            chosen_width: a.visible_entries().map_or(0, |c| self.width(c.val) as u32),
            entry_stride: a.entries.map_or(0, |e| e.stride as u32),
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
            ("CHOSEN", u32::from(a.visible_entries().is_some())),
            ("ALONE", u32::from(self.shape.decode_batch)),
        ];
        let floats = a.window * a.dim + a.entries.map_or(0, |e| e.slots * e.stride);
        let mut reads =
            vec![self.groups(a.q, a.heads, a.dim), self.groups(a.k, 1, a.dim), self.access_state(a.layer, floats)];
        reads.extend(self.matrices([a.sinks]));
        reads.extend(a.visible_entries().map(|c| self.groups(c, 1, self.width(c.val))));
        let writes = vec![self.groups(a.out, a.heads, a.dim)];
        self.emit(
            Module::of("attend_blocks"),
            constants,
            push,
            [self.shape.rows, a.heads, 1],
            Touched { reads, writes },
        );
        self.keep(Entries { x: a.k, every: 1, slots: a.window, at: a.at, stride: a.dim }, a.dim, a.layer);
    }
}
