//! Products of prompts by panels of activations: these are packed by a dispatch of their own, once for all that read them.

use super::dispatch::{Access, Module, Place, Touched};
use super::experts::ExpertsProduct as Experts;
use super::product::{gate_constants, Product};
use super::{Lowering, Task};
use crate::policy::matrix::MoeTiles;
use crate::policy::panels as tiles;
use pumex_plan::{Norm, Val, WeightInfo};
use pumex_shaders::push;

/// Threads that pack a row.
const PACK_THREADS: u32 = 256;
/// Outputs that the kernel stores at a time.
const TOGETHER: usize = 4;

impl Lowering<'_> {
    /// All of the packed rows.
    fn panels(&self, x: Val) -> Access {
        Access::all(Place::Packed, (2 * self.rows_of(x) * self.width(x)) as u64)
    }

    /// Packs `x`, normed if `norm` says so.
    pub(super) fn pack_panels(&mut self, x: Val, norm: Option<Norm>) {
        let (k, n, at) = (self.width(x), self.rows_of(x), &self.t.at.packed);
        let push = push::PackPanels {
            x: self.val(x),
            norm: self.opt(norm.map(|n| n.weight)),
            codes: at.codes,
            factors: at.factors,
            n: n as u32,
            eps: norm.map_or(0.0, |n| n.eps),
            ..push::PackPanels::default()
        };
        let constants = vec![("SIZE", PACK_THREADS), ("K", k as u32), ("NORM", u32::from(norm.is_some()))];
        let reads = [vec![self.value(x)], self.matrices(norm.map(|n| n.weight))].concat();
        let touched = Touched { reads, writes: vec![self.panels(x)] };
        let rows = tiles::packed_rows(n);
        self.emit(Module::of("pack_panels"), constants, push, [rows, 1, 1], touched);
    }

    /// Packs rows of `k` inputs of each expert's run.
    pub(super) fn moe_pack_panels(&mut self, p: &Experts, moe: MoeTiles, (k, gated): (usize, bool)) {
        let [groups, codes, factors, _] = self.t.at.packed.moe;
        let push = push::PackPanels {
            x: self.val(p.x),
            codes,
            factors,
            n: self.shape.rows as u32,
            groups,
            most: moe.most as u32,
            ..push::PackPanels::default()
        };
        let gather = if gated { p.top_k.k as u32 } else { 1 };
        let constants =
            vec![("SIZE", PACK_THREADS), ("K", k as u32), ("GATHER", gather), ("COLUMNS", moe.columns as u32)];
        let reads = vec![self.value(p.x), Access::all(Place::MoeTiles, 0)];
        let writes = vec![Access::all(Place::MoePacked, (2 * self.shape.rows * p.top_k.k * k) as u64)];
        self.emit(
            Module::of("pack_panels"),
            constants,
            push,
            [moe.most * moe.columns, 1, 1],
            Touched { reads, writes },
        );
    }

    /// The product of these with experts' matrices, `constants` what tells of them.
    pub(super) fn moe_panel_product(
        &mut self,
        info: &WeightInfo,
        (push, mut constants): (push::Gemv, Vec<(&'static str, u32)>),
        (moe, tile): (MoeTiles, tiles::PanelTile),
        gated: bool,
        touched: Touched,
    ) -> &mut Task {
        let m = push.m as usize;
        constants.extend(tile.spec(info.cols, (gated, false, self.t.soa)));
        constants.push(("WHOLE_ROWS", u32::from(m.is_multiple_of(TOGETHER))));
        let push = push::GemmPanels { product: push, split: 0 };
        let grid = [m.div_ceil(tile.outputs), moe.most, 1];
        self.emit(Module::with(tiles::PANELS, info.format.stem), constants, push, grid, touched)
    }

    /// The product of packed rows with up to three matrices of one format, or with gate and up.
    pub(super) fn panel_product(&mut self, p: &Product, tile: tiles::PanelTile) {
        let info = &self.plan.weights[p.parts[0].weight.0];
        let (n, at, gated) = (self.rows_of(p.x), &self.t.at.packed, p.gate.is_some());
        let push = push::Gemv {
            x: at.codes,
            y: self.val(p.out) + 4 * p.y_at as u64,
            tables: self.t.at.codebooks,
            norm: at.factors,
            ..self.product_push(p)
        };
        let push = push::Gemv { flags: push.flags | (n << 8) as u32, ..push };
        let sizes = p.parts.iter().map(|part| self.plan.weights[part.weight.0].rows);
        let whole = sizes.chain([p.y_at, self.width(p.out)]).all(|size| size.is_multiple_of(TOGETHER));
        let mut constants = tile.spec(info.cols, (gated, p.add, self.t.soa));
        constants.push(("WHOLE_ROWS", u32::from(whole)));
        constants.extend(gate_constants(p.gate));
        let m = push.m as usize;
        let Touched { mut reads, mut writes } = self.touched(p, m);
        reads.retain(|a| a.place != Place::Value(p.x));
        reads.push(self.panels(p.x));
        let mut split = 0;
        if tile.split > 1 {
            writes.push(self.split_reduction());
            split = self.t.at.words + 4 * self.words.len() as u64;
            let addresses = [self.t.at.partials, self.t.at.arrivals];
            self.words.extend(addresses.iter().flat_map(|a| [*a as u32, (*a >> 32) as u32]));
        }
        let push = push::GemmPanels { product: push, split };
        let grid = [n.div_ceil(tile.rows), m.div_ceil(tile.outputs), tile.split as usize];
        self.emit(Module::with(tiles::PANELS, info.format.stem), constants, push, grid, Touched { reads, writes });
    }
}
