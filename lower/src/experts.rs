//! Products with the matrices of each row's experts: row by row, or, of many rows, expert by expert, so that an expert's weights
//! are read once for all rows that use it.

use super::dispatch::{Access, Module, Place, Touched};
use super::general::INPUTS;
use super::megakernel::StageSource;
use super::product::gate_constants;
use super::{fusion, Lowering};
use crate::policy;
use crate::policy::{matrix as tiles, ExpertsKernel, ExpertsQuery, ExpertsTile, GemmFusion, GemvTile, KernelChoice};
use pumex_gguf::Result;
use pumex_plan::{Gate, Norm, TopK, Val, Weight, WeightInfo};
use pumex_shaders::push;

/// Threads of the kernel that permutes rows, and of the one that adds their products up.
const THREADS: [u32; 2] = [1024, 64];

/// A product with experts' matrices: gate and up in one, or down, whose weighted sum is added.
pub(super) struct ExpertsProduct {
    pub x: Val,
    pub norm: Option<Norm>,
    pub route: Val,
    pub top_k: TopK,
    /// How gate and up meet; none of down.
    pub gate: Option<Gate>,
    /// Biases of gate and up, or of down.
    pub biases: [Option<Weight>; 2],
    pub out: Val,
}

impl ExpertsProduct {
    pub(super) fn new(
        (x, norm, route, top_k): (Val, Option<Norm>, Val, TopK),
        gate: Option<Gate>,
        biases: [Option<Weight>; 2],
        out: Val,
    ) -> ExpertsProduct {
        ExpertsProduct { x, norm, route, top_k, gate, biases, out }
    }

    /// Which biases there are.
    fn flags(&self) -> u32 {
        self.biases.iter().enumerate().map(|(i, bias)| u32::from(bias.is_some()) << i).sum()
    }

    /// Whether the megakernel's stages do as this one.
    pub(super) fn is_plain(&self) -> bool {
        self.gate.is_none_or(|by| by == Gate::SILU) && self.biases.iter().all(Option::is_none)
    }
}

impl Lowering<'_> {
    /// Products with gate and up, or with down alone.
    pub(super) fn experts(&mut self, p: &ExpertsProduct, weights: &[Weight]) -> Result<()> {
        p.biases.iter().flatten().try_for_each(|w| self.check_floats(*w, "experts"))?;
        let query = self.experts_query(p, weights);
        let choice = policy::choose(self.t.caps, &query);
        match (choice.tile, choice.kernel) {
            (ExpertsTile::Gemv(tile), _) => self.experts_by_gemv(p, weights, query, tile),
            (_, ExpertsKernel::Rows(by)) => self.experts_by_rows(p, weights, &query, by),
            _ => self.experts_by_tiles(p, weights, query, choice),
        }
        Ok(())
    }

    fn experts_query(&self, p: &ExpertsProduct, weights: &[Weight]) -> ExpertsQuery {
        let (c, gated) = (p.top_k, weights.len() == 2);
        let info = &self.plan.weights[weights[0].0];
        let k = if gated { info.cols } else { c.k * info.cols };
        ExpertsQuery {
            fusion: GemmFusion { norm: p.norm.is_some(), ..self.extras(gated, !gated) },
            ..self.experts_query_of(weights, (info.rows / c.n_expert.max(1), k, self.shape.rows), c)
        }
    }

    /// What decides on the kernel of a product of such a size with the matrices of experts.
    pub(super) fn experts_query_of(&self, weights: &[Weight], size: (usize, usize, usize), c: TopK) -> ExpertsQuery {
        let infos = || weights.iter().map(|w| &self.plan.weights[w.0]);
        ExpertsQuery {
            formats: infos().map(|info| info.format.id).collect(),
            size,
            experts: (c.k, c.n_expert),
            fusion: self.extras(false, false),
            side_by_side: false,
            merges: self.t.fuse,
            has_room: self.t.packing.is_some_and(|packing| packing.moe),
            short: infos().any(|info| !info.cols.is_multiple_of(INPUTS)),
            any_in_slabs: infos().any(|info| fusion::lies_in_slabs(self.t, info)),
            decoded_bytes: infos().map(WeightInfo::f16_bytes).max().unwrap_or(0),
            layout: self.t.packing.map(|packing| packing.layout),
            packed_rows: self.t.rows.filter(|rows| rows.moe).map(|rows| rows.asked),
        }
    }

    /// Row by row.
    fn experts_by_gemv(&mut self, p: &ExpertsProduct, weights: &[Weight], query: ExpertsQuery, tile: GemvTile) {
        let (gated, c) = (weights.len() == 2, p.top_k);
        let info = &self.plan.weights[weights[0].0];
        let (m, n, used) = (info.rows / c.n_expert, self.shape.rows, c.k);
        let k = if gated { info.cols } else { used * info.cols };
        let push = push::Gemv {
            w0: self.weight(weights[0]),
            w1: weights.get(1).map_or(0, |w| self.weight(*w)),
            w2: self.opt(p.biases[1]),
            b0: self.opt(p.biases[0]),
            b2: self.val(p.route),
            x: self.val(p.x),
            y: self.val(p.out),
            tables: self.t.at.codebooks,
            norm: self.opt(p.norm.map(|n| n.weight)),
            k: k as u32,
            m0: m as u32,
            m01: m as u32,
            m: m as u32,
            y_stride: if gated { m } else { self.width(p.out) } as u32,
            flags: p.flags(),
            eps: p.norm.map_or(0.0, |n| n.eps),
            s0: 1.0,
            s1: 1.0,
            s2: 1.0,
            ..push::Gemv::default()
        };
        let mut constants = tile.spec(k, 1, query.fusion);
        constants.extend([("EXPERTS", if gated { 1 } else { 2 }), ("USED", used as u32)]);
        constants.extend(tile.whole_rows(std::iter::once(m)));
        constants.extend(gate_constants(p.gate));
        let grid = [tile.groups as usize, if gated { n * used } else { n }, 1];
        let mut reads = vec![self.value(p.x), self.value(p.route)];
        reads.extend(self.of_top_k(weights, c));
        reads.extend(self.matrices(p.norm.map(|n| n.weight)));
        reads.extend(self.of_top_k(&p.biases.into_iter().flatten().collect::<Vec<_>>(), c));
        reads.extend((!gated).then(|| self.value(p.out)));
        let writes = vec![self.value(p.out)];
        let source = StageSource::Experts { x: p.x, norm: p.norm, weights: weights.to_vec(), out: p.out };
        let task =
            self.emit(Module::with(tile.kernel, info.format.stem), constants, push, grid, Touched { reads, writes });
        task.source = p.is_plain().then_some(source);
        task.keep_query(query);
    }

    /// Experts' matrices, of which the rows reach no more than they use.
    pub(super) fn of_top_k(&self, weights: &[Weight], c: TopK) -> Vec<Access> {
        let part = (self.shape.rows * c.k).min(c.n_expert) as u64;
        let all = self.matrices(weights.iter().copied());
        all.into_iter().map(|a| Access { bytes: a.bytes * part / c.n_expert.max(1) as u64, ..a }).collect()
    }

    /// Expert by expert in tiles of rows, by cooperative matrices.
    fn experts_by_tiles(
        &mut self,
        p: &ExpertsProduct,
        weights: &[Weight],
        query: ExpertsQuery,
        choice: KernelChoice<ExpertsKernel, ExpertsTile>,
    ) {
        let (n, c, gated) = (self.shape.rows, p.top_k, weights.len() == 2);
        let info = &self.plan.weights[weights[0].0];
        let (m, k, moe) = (info.rows / c.n_expert, info.cols, query.runs(choice.kernel));
        self.moe_permute(p, moe);
        self.moe_pack_for(&choice.tile, p, moe, (k, gated));
        let [list, codes, factors, products] = self.t.at.packed.moe;
        let push = push::Gemv {
            w0: self.weight(weights[0]),
            w1: weights.get(1).map_or(0, |w| self.weight(*w)),
            w2: self.opt(p.biases[1]),
            b0: self.opt(p.biases[0]),
            b1: list,
            b2: self.val(p.route),
            x: codes,
            y: if gated { self.val(p.out) } else { products },
            tables: self.t.at.codebooks,
            norm: factors,
            k: k as u32,
            m0: moe.most as u32,
            m01: m as u32,
            m: m as u32,
            y_stride: m as u32,
            flags: (n << 8) as u32 | p.flags(),
            s0: 1.0,
            s1: 1.0,
            s2: 1.0,
            ..push::Gemv::default()
        };
        let mut reads = vec![self.value(p.route), Access::all(Place::MoeTiles, 0)];
        reads.push(Access::all(Place::MoePacked, (2 * n * c.k * k) as u64));
        reads.extend(self.of_top_k(weights, c));
        reads.extend(self.of_top_k(&p.biases.into_iter().flatten().collect::<Vec<_>>(), c));
        let made = (4 * n * c.k * m) as u64;
        let writes = vec![if gated { self.value(p.out) } else { Access::all(Place::MoeProducts, made) }];
        let mut constants = vec![("EXPERTS", if gated { 3 } else { 4 }), ("USED", c.k as u32)];
        constants.extend(gate_constants(p.gate));
        self.moe_product(info, &choice, (push, constants), (moe, query), Touched { reads, writes });
        if !gated {
            self.moe_combine(p, m);
        }
    }

    /// Packs rows of `k` inputs in the order of the tiles, as such tiles take them.
    pub(super) fn moe_pack_for(
        &mut self,
        tile: &ExpertsTile,
        p: &ExpertsProduct,
        moe: tiles::MoeTiles,
        of: (usize, bool),
    ) {
        match tile {
            ExpertsTile::Matrix(tile) => {
                let map = self.map_of(tile.mat_n).unwrap_or(0);
                self.moe_pack(p, moe, of, (tile.mat_n, map));
            }
            _ => self.moe_pack_panels(p, moe, of),
        }
    }

    /// The product of rows that were packed so with experts' matrices, `constants` what tells of them.
    pub(super) fn moe_product(
        &mut self,
        info: &WeightInfo,
        choice: &KernelChoice<ExpertsKernel, ExpertsTile>,
        (push, mut constants): (push::Gemv, Vec<(&'static str, u32)>),
        (moe, query): (tiles::MoeTiles, ExpertsQuery),
        touched: Touched,
    ) {
        let task = match choice.tile {
            ExpertsTile::Panels(tile) => {
                self.moe_panel_product(info, (push, constants), (moe, tile), query.fusion.gated, touched)
            }
            ExpertsTile::Matrix(tile) => {
                constants.extend(tile.spec(info.cols, GemmFusion { add: false, ..query.fusion }));
                let grid = [tile.groups as usize, moe.most, 1];
                self.emit(Module::with(choice.name, info.format.stem), constants, push, grid, touched)
            }
            ExpertsTile::Rows(_) | ExpertsTile::Gemv(_) => unreachable!("runs of rows go by matrices here"),
        };
        task.keep_query(query);
    }

    /// Finds the rows of each expert, unless they stand so already: usually gate and up have had them permuted for down.
    pub(super) fn moe_permute(&mut self, p: &ExpertsProduct, moe: tiles::MoeTiles) {
        if self.permuted.replace((p.route, moe.columns)) == Some((p.route, moe.columns)) {
            return;
        }
        let [groups, ..] = self.t.at.packed.moe;
        let push =
            push::MoePermute { route: self.val(p.route), groups, params: self.t.at.params, most: moe.most as u32 };
        let constants = vec![
            ("SIZE", THREADS[0].min(self.t.caps.max_workgroup_invocations)),
            ("EXPERTS", p.top_k.n_expert as u32),
            ("USED", p.top_k.k as u32),
            ("COLUMNS", moe.columns as u32),
        ];
        let (reads, writes) = (vec![self.value(p.route)], vec![Access::all(Place::MoeTiles, 0)]);
        self.emit(Module::of("moe_permute"), constants, push, [1, 1, 1], Touched { reads, writes });
    }

    /// Packs rows of `k` inputs in the order of the tiles.
    pub(super) fn moe_pack(
        &mut self,
        p: &ExpertsProduct,
        moe: tiles::MoeTiles,
        (k, gated): (usize, bool),
        (mat_n, map): (u32, u64),
    ) {
        let [groups, codes, factors, _] = self.t.at.packed.moe;
        let push = push::Pack {
            x: self.val(p.x),
            codes,
            factors,
            map,
            n: self.shape.rows as u32,
            groups,
            most: moe.most as u32,
            ..push::Pack::default()
        };
        let constants = vec![
            ("SIZE", tiles::pack_threads(self.t.caps)),
            ("K", k as u32),
            ("GATHER", if gated { p.top_k.k as u32 } else { 1 }),
            ("COLUMNS", moe.columns as u32),
            ("MAT_N", mat_n),
        ];
        let reads = vec![self.value(p.x), Access::all(Place::MoeTiles, 0)];
        let writes = vec![Access::all(Place::MoePacked, (2 * self.shape.rows * p.top_k.k * k) as u64)];
        self.emit(Module::of("pack"), constants, push, [moe.most * moe.columns, 1, 1], Touched { reads, writes });
    }

    /// Adds up the products of each row's experts.
    pub(super) fn moe_combine(&mut self, p: &ExpertsProduct, m: usize) {
        let (n, used) = (self.shape.rows, p.top_k.k);
        let [.., products] = self.t.at.packed.moe;
        let push = push::MoeCombine { x: products, y: self.val(p.out), params: self.t.at.params, m: m as u32 };
        let constants = vec![("SIZE", THREADS[1]), ("USED", used as u32)];
        let grid = [(m / 4).div_ceil(THREADS[1] as usize), n, 1];
        let reads = vec![Access::all(Place::MoeProducts, (4 * n * used * m) as u64), self.value(p.out)];
        let writes = vec![self.value(p.out)];
        self.emit(Module::of("moe_combine"), constants, push, grid, Touched { reads, writes });
    }
}
