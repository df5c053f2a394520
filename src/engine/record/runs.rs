//! Experts of many rows: those that use one expert come together, so that its weights are read once for all of them.

use super::{Push, Writer};
use crate::plan::{Chosen, Val, Weight};
use crate::policy::matrix as tiles;
use crate::vk::Buffer;
use crate::Result;

/// Threads of the kernel that deals rows out, and of the one that adds their products up.
const THREADS: [u32; 2] = [512, 64];

impl Writer<'_, '_> {
    /// Products with the matrices of the experts of each row, as [`Writer::experts`] does them, expert by expert; false where that
    /// does not pay or cannot be.
    pub(super) fn experts_in_runs(
        &mut self,
        x: Val,
        route: Val,
        c: Chosen,
        weights: &[Weight],
        gated: bool,
        out: Val,
    ) -> Result<bool> {
        let (n, caps) = (self.shape.rows, self.b.device.caps());
        let info = &self.b.plan.weights[weights[0].0];
        let Some(room) = self.b.packed.and_then(|packed| packed.runs()) else { return Ok(false) };
        let takes = weights.iter().all(|w| {
            let same = self.b.plan.weights[w.0].format.id == info.format.id;
            same && tiles::groups_experts(caps, info.format, (n, c.used, c.experts))
        });
        if !takes || !self.b.fuse || self.norms.contains_key(&x) {
            return Ok(false);
        }
        let (m, k) = (info.rows / c.experts, info.cols);
        let runs = tiles::runs(n, c.used, c.experts);
        let extras = self.extras(gated, false);
        let tile = tiles::run_tile(caps, info.format, m, runs, extras);
        let Some(map) = self.b.packed.and_then(|packed| packed.map_of(tile.wide)).map(Buffer::address) else {
            return Ok(false);
        };
        // Usually gate and up have had them dealt out for down.
        if self.dealt.replace(route) != Some(route) {
            let push = Push::default().addr(self.val(route)).addr(room.list.address()).addr(self.b.params.address());
            let spec = [
                ("SIZE", THREADS[0].min(caps.max_workgroup_invocations)),
                ("EXPERTS", c.experts as u32),
                ("USED", c.used as u32),
                ("COLUMNS", runs.columns as u32),
            ];
            self.dispatch("deal", None, &spec, push.word(runs.most), [1, 1, 1])?;
            self.rec.barrier();
        }
        let push = Push::default().addr(self.val(x)).addr(0).addr(room.codes.address()).addr(room.factors.address());
        let push = push.addr(map).addr(0).word(n).float(0.0).addr(room.list.address()).word(runs.most);
        let spec = [
            ("SIZE", tiles::pack_threads(caps)),
            ("K", k as u32),
            ("GATHER", if gated { c.used as u32 } else { 1 }),
            ("COLUMNS", runs.columns as u32),
            ("WIDE", tile.wide),
        ];
        self.dispatch("pack", None, &spec, push, [runs.most * runs.columns, 1, 1])?;
        self.rec.barrier();
        let up = weights.get(1).map_or(0, |w| self.weight(*w));
        let y = if gated { self.val(out) } else { room.products.address() };
        let push = Push::default().addr(self.weight(weights[0])).addr(up).addr(0).addr(0).addr(room.list.address());
        let push = push.addr(self.val(route)).addr(room.codes.address()).addr(y).addr(self.b.codebooks.address());
        let push = push.addr(room.factors.address()).word(k).word(runs.most).word(m).word(m).word(m);
        let push = push.word(n << 8).float(0.0).float(1.0).float(1.0).float(1.0);
        let mut spec = tile.spec(k, extras);
        spec.extend([("EXPERTS", if gated { 3 } else { 4 }), ("USED", c.used as u32)]);
        let grid = [tile.groups as usize, runs.most, 1];
        self.dispatch(tile.kernel, Some(info.format.stem), &spec, push, grid)?;
        if !gated {
            self.rec.barrier();
            let push = Push::default().addr(y).addr(self.val(out)).addr(self.b.params.address()).word(m);
            let spec = [("SIZE", THREADS[1]), ("USED", c.used as u32)];
            let grid = [(m / 4).div_ceil(THREADS[1] as usize), n, 1];
            self.dispatch("experts_sum", None, &spec, push, grid)?;
        }
        Ok(true)
    }
}
