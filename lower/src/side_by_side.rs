//! Products with the matrices of each row's experts, side by side and without anything else: by the kernels of [`super::experts`],
//! which take each expert of a row for a row of its own where it has an input of its own. And the experts' biases.

use super::dispatch::{Access, Module, Place, Touched};
use super::experts::ExpertsProduct;
use super::general::THREADS;
use super::Lowering;
use crate::policy;
use crate::policy::{ExpertsKernel, ExpertsQuery, ExpertsTile, GemvTile, KernelChoice};
use pumex_plan::{ExpertsBias, ExpertsMatMul, Op};
use pumex_shaders::push;

impl Lowering<'_> {
    pub(super) fn experts_matmul(&mut self, e: &ExpertsMatMul) {
        let (info, c) = (&self.plan.weights[e.weight.0], e.top_k);
        let size = (info.rows / c.n_expert, info.cols, self.rows_of(e.out));
        let query = ExpertsQuery { side_by_side: true, ..self.experts_query_of(&[e.weight], size, c) };
        let choice = policy::choose(self.t.caps, &query);
        match (choice.tile, choice.kernel) {
            (ExpertsTile::Gemv(tile), _) => self.side_by_side_by_gemv(e, query, tile),
            (_, ExpertsKernel::Rows(by)) => self.side_by_side_by_rows(e, &query, by),
            _ => self.side_by_side_by_tiles(e, query, choice),
        }
    }

    /// Row by row.
    fn side_by_side_by_gemv(&mut self, e: &ExpertsMatMul, query: ExpertsQuery, tile: GemvTile) {
        let (info, c, (m, k, n)) = (&self.plan.weights[e.weight.0], e.top_k, query.size);
        let used = if e.own_input { 1 } else { c.k };
        let plain = !e.own_input && !self.has_scales(e);
        let route = if plain { self.val(e.route) } else { self.plain_route(e, e.own_input) };
        let push = push::Gemv { b2: route, x: self.val(e.x), y: self.val(e.out), ..self.side_by_side_push(e) };
        let mut constants = tile.spec(k, 1, query.fusion);
        constants.extend([("EXPERTS", 1), ("USED", used as u32)]);
        constants.extend(tile.whole_rows(std::iter::once(m)));
        let grid = [tile.groups as usize, n * c.k, 1];
        let mut reads = vec![self.value(e.x), self.value(e.route)];
        reads.extend((!plain).then(|| self.split_reduction()));
        reads.extend(self.of_top_k(&[e.weight], c));
        let writes = vec![self.value(e.out)];
        let module = Module::with(tile.kernel, info.format.stem);
        self.emit(module, constants, push, grid, Touched { reads, writes }).keep_query(query);
    }

    /// Whether the kernels would scale the products by what the route has for them.
    fn has_scales(&self, e: &ExpertsMatMul) -> bool {
        let scaled = |op: &Op| matches!(op, Op::Route { out, scales, .. } if *out == e.route && scales[0].is_some());
        self.plan.ops.iter().any(scaled)
    }

    /// A route without weights and scales, of one expert each if they are to be `apart`; where it is.
    pub(super) fn plain_route(&mut self, e: &ExpertsMatMul, apart: bool) -> u64 {
        let (n, pairs) = (self.rows_of(e.out), self.t.at.partials);
        let push = push::RoutePairs { route: self.val(e.route), pairs, n: n as u32 };
        let grid = [(n * e.top_k.k).div_ceil(THREADS as usize), 1, 1];
        let touched = Touched { reads: vec![self.value(e.route)], writes: vec![self.split_reduction()] };
        self.emit(
            Module::of("route_pairs"),
            vec![("USED", e.top_k.k as u32), ("APART", u32::from(apart))],
            push,
            grid,
            touched,
        );
        pairs
    }

    fn side_by_side_push(&self, e: &ExpertsMatMul) -> push::Gemv {
        let info = &self.plan.weights[e.weight.0];
        let (m, k) = ((info.rows / e.top_k.n_expert) as u32, info.cols as u32);
        push::Gemv {
            w0: self.weight(e.weight),
            tables: self.t.at.codebooks,
            k,
            m0: m,
            m01: m,
            m,
            y_stride: m,
            s0: 1.0,
            s1: 1.0,
            s2: 1.0,
            ..push::Gemv::default()
        }
    }

    /// Expert by expert in tiles of rows, by cooperative matrices.
    fn side_by_side_by_tiles(
        &mut self,
        e: &ExpertsMatMul,
        query: ExpertsQuery,
        choice: KernelChoice<ExpertsKernel, ExpertsTile>,
    ) {
        let (c, info, (_, k, n)) = (e.top_k, &self.plan.weights[e.weight.0], query.size);
        let moe = query.runs(choice.kernel);
        let p = ExpertsProduct::new((e.x, None, e.route, c), None, [None; 2], e.out);
        self.moe_permute(&p, moe);
        let pairs = self.plain_route(e, true);
        self.moe_pack_for(&choice.tile, &p, moe, (k, !e.own_input));
        let [list, codes, factors, _] = self.t.at.packed.moe;
        let push = push::Gemv {
            b1: list,
            b2: pairs,
            x: codes,
            y: self.val(e.out),
            norm: factors,
            m0: moe.most as u32,
            flags: (n << 8) as u32,
            ..self.side_by_side_push(e)
        };
        let constants = vec![("EXPERTS", 4), ("USED", 1)];
        let mut reads = vec![self.split_reduction(), Access::all(Place::MoeTiles, 0)];
        reads.push(Access::all(Place::MoePacked, (2 * n * c.k * k) as u64));
        reads.extend(self.of_top_k(&[e.weight], c));
        let touched = Touched { reads, writes: vec![self.value(e.out)] };
        self.moe_product(info, &choice, (push, constants), (moe, query), touched);
    }

    pub(super) fn experts_bias(&mut self, b: &ExpertsBias) {
        let (info, used) = (&self.plan.weights[b.bias.0], b.top_k.k);
        let m = info.rows * info.cols / b.top_k.n_expert;
        let push = push::ExpertsBias {
            route: self.val(b.route),
            bias: self.weight(b.bias),
            y: self.val(b.out),
            params: self.t.at.params,
            m: m as u32,
        };
        let constants = vec![("USED", used as u32)];
        let grid = [(used * m).div_ceil(THREADS as usize), self.rows_of(b.out), 1];
        let reads = [vec![self.value(b.route), self.value(b.out)], self.matrices([b.bias])].concat();
        let touched = Touched { reads, writes: vec![self.value(b.out)] };
        self.emit(Module::of("experts_bias"), constants, push, grid, touched);
    }
}
