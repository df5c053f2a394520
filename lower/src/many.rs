//! Products of many rows that are packed row by row (`pack_rows`), of any matrices, experts' too.

use super::dispatch::{Access, Module, Place, Touched};
use super::experts::ExpertsProduct;
use super::product::gate_constants;
use super::Lowering;
use crate::policy;
use crate::policy::{matrix as tiles, ExpertsKernel, ExpertsQuery, ManyRows, ProductQuery, ProductTile, WeightSource};
use pumex_plan::{ExpertsMatMul, Gate, MatPart, Norm, TopK, Val, Weight};
use pumex_quant::FormatId;
use pumex_shaders::push;

/// Where packed rows lie, and what they come with.
#[derive(Clone, Copy)]
struct Packed {
    codes: u64,
    scales: u64,
    by: ManyRows,
}

/// A matrix as a kernel takes it.
struct Lies {
    at: u64,
    stem: &'static str,
    soa: bool,
    reads: Vec<Access>,
}

/// What a product with the matrix of an expert is.
#[derive(Clone, Copy)]
enum Part {
    Gate = 1,
    Up,
    Down,
}

/// What becomes of sums: EPILOGUE of `lib/gemm_rows.glsl`.
#[derive(Clone, Copy)]
enum Sums {
    Stored,
    Added,
    Gated(Gate),
}

impl Sums {
    fn constants(self) -> Vec<(&'static str, u32)> {
        let (number, gate) = match self {
            Sums::Stored => (0, None),
            Sums::Added => (1, None),
            Sums::Gated(gate) => (2, Some(gate)),
        };
        [vec![("EPILOGUE", number)], gate_constants(gate)].concat()
    }
}

/// Tiles of experts' rows.
#[derive(Clone, Copy)]
struct Tiles<'a> {
    query: &'a ExpertsQuery,
    part: Part,
    moe: tiles::MoeTiles,
    /// Experts of a row of the route.
    used: usize,
    /// Pairs of a packed row.
    gather: usize,
    route: u64,
}

impl Lowering<'_> {
    /// Packs `n` rows of `k` inputs.
    fn pack_rows(
        &mut self,
        (x, norm): (Val, Option<Norm>),
        (n, k): (usize, usize),
        (by, experts): (ManyRows, bool),
    ) -> Packed {
        let at = &self.t.at.packed;
        let (codes, factors) = if experts { (at.moe[1], at.moe[2]) } else { (at.codes, at.factors) };
        // Bytes leave as much room again, and what they come with takes half of that.
        let scales = if by.bits() == 8 { codes + (n * k) as u64 } else { factors };
        let push = push::PackRows {
            x: self.val(x),
            norm: self.opt(norm.map(|n| n.weight)),
            codes,
            scales,
            k: k as u32,
            eps: norm.map_or(0.0, |n| n.eps),
            ..push::PackRows::default()
        };
        let constants =
            vec![("SIZE", policy::row_threads(self.t.caps)), ("BITS", by.bits()), ("NORM", u32::from(norm.is_some()))];
        let reads = [vec![self.value(x)], self.matrices(norm.map(|n| n.weight))].concat();
        let writes = vec![packed_at(experts, by, n * k)];
        self.emit(Module::of("pack_rows"), constants, push, [n, 1, 1], Touched { reads, writes });
        Packed { codes, scales, by }
    }

    /// Packs `rows` of `k` inputs, each of which `gather` pairs are of; for matrices that workgroups hold, in the order of the tiles.
    fn pack_experts(
        &mut self,
        (x, k): (Val, usize),
        (rows, gather): (usize, usize),
        (by, moe): (ManyRows, tiles::MoeTiles),
    ) -> Packed {
        if !matches!(by, ManyRows::Group(_)) {
            return self.pack_rows((x, None), (rows, k), (by, true));
        }
        let [list, codes, scales, _] = self.t.at.packed.moe;
        let push = push::PackRows {
            x: self.val(x),
            codes,
            scales,
            k: k as u32,
            list,
            most: moe.most as u32,
            ..push::PackRows::default()
        };
        let mut constants = vec![("SIZE", policy::row_threads(self.t.caps)), ("BITS", by.bits())];
        constants.extend([("GATHER", gather as u32), ("COLUMNS", moe.columns as u32)]);
        let reads = vec![self.value(x), Access::all(Place::MoeTiles, 0)];
        let writes = vec![packed_at(true, by, rows * gather * k)];
        let grid = [moe.most * moe.columns, 1, 1];
        self.emit(Module::of("pack_rows"), constants, push, grid, Touched { reads, writes });
        Packed { codes, scales, by }
    }

    /// Products of rows that are packed for all of `parts`, side by side.
    pub(super) fn rows_product(
        &mut self,
        (x, norm): (Val, Option<Norm>),
        parts: &[MatPart],
        (by, add): (ManyRows, bool),
        out: Val,
    ) {
        let (n, mut y_at) = (self.rows_of(x), 0);
        let packed = self.pack_rows((x, norm), (n, self.width(x)), (by, false));
        for part in parts {
            let sums = if add { Sums::Added } else { Sums::Stored };
            self.row_product(packed, (parts, false), part, sums, (out, y_at, n));
            y_at += self.plan.weights[part.weight.0].rows;
        }
    }

    /// Gate, and then up, which what is there gates.
    pub(super) fn rows_gated(
        &mut self,
        (x, norm): (Val, Option<Norm>),
        (gate, up, with): (&MatPart, &MatPart, Gate),
        by: ManyRows,
        out: Val,
    ) {
        let n = self.rows_of(x);
        let packed = self.pack_rows((x, norm), (n, self.width(x)), (by, false));
        let both = [*gate, *up];
        self.row_product(packed, (&both, true), gate, Sums::Stored, (out, 0, n));
        self.row_product(packed, (&both, true), up, Sums::Gated(with), (out, 0, n));
    }

    fn row_product(
        &mut self,
        packed: Packed,
        (all, gate_and_up): (&[MatPart], bool),
        part: &MatPart,
        sums: Sums,
        (out, y_at, n): (Val, usize, usize),
    ) {
        let info = &self.plan.weights[part.weight.0];
        let (m, k) = (info.rows, info.cols);
        let fusion = self.extras(false, matches!(sums, Sums::Added));
        let query = self.product_query((all, gate_and_up), part, (m, n), fusion);
        let query = ProductQuery { gates: matches!(sums, Sums::Gated(_)), ..query };
        let ProductTile::Rows(tile) = policy::choose(self.t.caps, &query).tile else {
            unreachable!("all matrices that read packed rows go by the kernel that they were packed for")
        };
        let lies = self.weights_for(packed.by, part.weight);
        let push = push::GemmRows {
            w: lies.at,
            bias: self.opt(part.bias),
            y: self.val(out),
            k: k as u32,
            m: m as u32,
            n: n as u32,
            y_stride: self.width(out) as u32,
            y_at: y_at as u32,
            flags: u32::from(part.bias.is_some()),
            scale: part.scale,
            ..self.rows_push(packed)
        };
        let written = self.columns(out, y_at, m);
        let mut reads = self.matrices(part.bias);
        reads.extend(lies.reads);
        reads.push(packed_at(false, packed.by, n * k));
        reads.extend((!matches!(sums, Sums::Stored)).then(|| written.clone()));
        let constants = [tile.spec(lies.soa, (m, k)), sums.constants()].concat();
        let grid = [m.div_ceil(tile.outputs()), n.div_ceil(tile.rows()), 1];
        let module = Module::with(tile.by.kernel(), lies.stem);
        self.emit(module, constants, push, grid, Touched { reads, writes: vec![written] }).keep_query(query);
    }

    /// Where a product finds a matrix; decodes it to halves where that is how its kernel takes it.
    fn weights_for(&mut self, by: ManyRows, weight: Weight) -> Lies {
        let info = &self.plan.weights[weight.0];
        let (format, m, k) = (info.format, info.rows, info.cols);
        let reads = self.matrices(std::iter::once(weight));
        if by != ManyRows::Group(WeightSource::Halves) || policy::lies_as_halves(format) {
            return Lies { at: self.weight(weight), stem: format.stem, soa: self.t.soa, reads };
        }
        let at = self.t.at.packed.decoded;
        let push = push::DecodeWeights {
            w: self.weight(weight),
            y: at,
            tables: self.t.at.codebooks,
            k: k as u32,
            m: m as u32,
        };
        let written = Access::all(Place::Decoded, (2 * m * k) as u64);
        let groups = (m * k).div_ceil(tiles::chunk_len(format) * policy::DECODE_CHUNKS);
        let width = groups.min(policy::DECODE_GRID);
        let grid = [width, groups.div_ceil(width), 1];
        let constants = vec![("SOA", u32::from(self.t.soa))];
        let touched = Touched { reads, writes: vec![written.clone()] };
        self.emit(Module::with("decode_weights", format.stem), constants, push, grid, touched);
        Lies { at, stem: FormatId::F16.format().stem, soa: true, reads: vec![written] }
    }

    fn rows_push(&self, packed: Packed) -> push::GemmRows {
        push::GemmRows {
            x: packed.codes,
            scales: packed.scales,
            tables: self.t.at.codebooks,
            scale: 1.0,
            ..push::GemmRows::default()
        }
    }

    /// Products with experts' matrices, expert by expert in tiles of packed rows.
    pub(super) fn experts_by_rows(
        &mut self,
        p: &ExpertsProduct,
        weights: &[Weight],
        query: &ExpertsQuery,
        by: ManyRows,
    ) {
        let (n, c) = (self.shape.rows, p.top_k);
        let info = &self.plan.weights[weights[0].0];
        let (m, k) = (info.rows / c.n_expert, info.cols);
        let moe = query.runs(ExpertsKernel::Rows(by));
        self.moe_permute(p, moe);
        let gathers = if p.gate.is_some() { (n, c.k) } else { (n * c.k, 1) };
        let packed = self.pack_experts((p.x, k), gathers, (by, moe));
        let tiles = |part| Tiles { query, part, moe, used: c.k, gather: gathers.1, route: self.val(p.route) };
        let route = self.value(p.route);
        match p.gate {
            Some(gate) => {
                let (first, second) = (tiles(Part::Gate), tiles(Part::Up));
                let (at, out) = (self.val(p.out), self.value(p.out));
                self.rows_of_experts(packed, first, (weights[0], p.biases[0]), Sums::Stored, (at, &out, &route), c);
                let up = weights.get(1).copied().unwrap_or(weights[0]);
                self.rows_of_experts(packed, second, (up, p.biases[1]), Sums::Gated(gate), (at, &out, &route), c);
            }
            None => {
                let [.., products] = self.t.at.packed.moe;
                let (down, made) = (tiles(Part::Down), Access::all(Place::MoeProducts, (4 * n * c.k * m) as u64));
                let weight = (weights[0], p.biases[0]);
                self.rows_of_experts(packed, down, weight, Sums::Stored, (products, &made, &route), c);
                self.moe_combine(p, m);
            }
        }
    }

    /// Products of experts side by side, expert by expert in tiles of packed rows.
    pub(super) fn side_by_side_by_rows(&mut self, e: &ExpertsMatMul, query: &ExpertsQuery, by: ManyRows) {
        let (n, c) = (self.rows_of(e.out), e.top_k);
        let moe = query.runs(ExpertsKernel::Rows(by));
        self.moe_permute(&ExpertsProduct::new((e.x, None, e.route, c), None, [None; 2], e.out), moe);
        let route = self.plain_route(e, true);
        let (rows, gather) = if e.own_input { (n * c.k, 1) } else { (n, c.k) };
        let packed = self.pack_experts((e.x, self.plan.weights[e.weight.0].cols), (rows, gather), (by, moe));
        let tiles = Tiles { query, part: Part::Down, moe, used: 1, gather, route };
        let (at, out, read) = (self.val(e.out), self.value(e.out), self.split_reduction());
        self.rows_of_experts(packed, tiles, (e.weight, None), Sums::Stored, (at, &out, &read), c);
    }

    /// One product with experts' matrices: a row of `y` for each pair.
    fn rows_of_experts(
        &mut self,
        packed: Packed,
        of: Tiles<'_>,
        (weight, bias): (Weight, Option<Weight>),
        sums: Sums,
        (y, written, route): (u64, &Access, &Access),
        c: TopK,
    ) {
        let info = &self.plan.weights[weight.0];
        let (m, k) = (info.rows / c.n_expert, info.cols);
        let tile = policy::row_tile(self.t.caps, packed.by, info.format, of.moe.columns); // up may be of another format than gate
        let lies = self.weights_for(packed.by, weight);
        let push = push::GemmRows {
            w: lies.at,
            bias: self.opt(bias),
            y,
            list: self.t.at.packed.moe[0],
            route: of.route,
            k: k as u32,
            m: m as u32,
            y_stride: m as u32,
            flags: u32::from(bias.is_some()),
            most: of.moe.most as u32,
            ..self.rows_push(packed)
        };
        let mut constants = tile.spec(lies.soa, (m, k));
        constants.extend([("COLUMNS", of.moe.columns as u32), ("GATHER", of.gather as u32)]);
        constants.extend([("EXPERTS", of.part as u32), ("USED", of.used as u32)]);
        constants.extend(sums.constants());
        let mut reads = vec![route.clone(), Access::all(Place::MoeTiles, 0)];
        reads.push(packed_at(true, packed.by, self.shape.rows * c.k / of.gather * k));
        reads.extend(if lies.at == self.weight(weight) { self.of_top_k(&[weight], c) } else { lies.reads });
        reads.extend(self.of_top_k(&bias.into_iter().collect::<Vec<_>>(), c));
        reads.extend((!matches!(sums, Sums::Stored)).then(|| written.clone()));
        let grid = [m.div_ceil(tile.outputs()), of.moe.most * of.moe.columns / tile.rows(), 1];
        let module = Module::with(tile.by.kernel(), lies.stem);
        let touched = Touched { reads, writes: vec![written.clone()] };
        self.emit(module, constants, push, grid, touched).keep_query(of.query.clone());
    }
}

/// So many packed inputs.
fn packed_at(experts: bool, by: ManyRows, inputs: usize) -> Access {
    let place = if experts { Place::MoePacked } else { Place::Packed };
    Access::all(place, inputs as u64 * u64::from(by.bits()) / 8)
}
