//! Products with weight matrices: GEMV of few rows, GEMM of many, by cooperative matrices where the device has some.

use super::dispatch::{Access, Module, Place, Touched};
use super::general::{act, GEMM_TILE};
use super::megakernel::StageSource;
use super::{fusion, Lowering};
use crate::policy;
use crate::policy::{GemmFusion, ProductKernel, ProductQuery, ProductTile};
use pumex_plan::{Gate, MatPart, Norm, Val};
use pumex_shaders::push;
use std::ops::Range;

/// A product of few rows with up to three matrices of one format, one below the other, or with gate and up.
#[derive(Clone, Debug)]
pub(super) struct Product {
    pub x: Val,
    pub norm: Option<Norm>,
    pub parts: Vec<MatPart>,
    /// How gate and up meet, if these are the parts.
    pub gate: Option<Gate>,
    pub add: bool,
    pub out: Val,
    /// Column of `out` where its outputs start.
    pub y_at: usize,
}

/// Constants of `lib/gate.glsl`, where gate and up do not meet as the kernels have it anyway.
pub(super) fn gate_constants(gate: Option<Gate>) -> Vec<(&'static str, u32)> {
    let Some(by) = gate.filter(|by| *by != Gate::SILU) else { return Vec::new() };
    let (number, [a, b, ..]) = act(by.act);
    let floats = [("GATE_A", a), ("GATE_B", b), ("UP_LIMIT", by.limit.unwrap_or(0.0)), ("UP_PLUS", by.plus)];
    let floats = floats.map(|(name, x)| (name, x.to_bits()));
    std::iter::once(("GATE_ACT", number)).chain(floats).collect()
}

impl Lowering<'_> {
    pub(super) fn matmul(&mut self, x: Val, norm: Option<Norm>, parts: &[MatPart], add: bool, out: Val) {
        let (mut y_at, mut rest, n) = (0, parts, self.rows_of(x));
        let kernel = fusion::product_kernel(self.t, self.plan, parts, n);
        match kernel {
            ProductKernel::Short => {
                for part in parts {
                    self.short_product(x, part, add, out, y_at);
                    y_at += self.plan.weights[part.weight.0].rows;
                }
                return;
            }
            ProductKernel::Rows(by) => return self.rows_product((x, norm), parts, (by, add), out),
            _ if kernel.packs_for_matrices() => self.pack(kernel, x, norm, parts),
            _ => {}
        }
        while let Some(first) = rest.first() {
            let stem = |p: &MatPart| self.plan.weights[p.weight.0].format.stem;
            let most = if kernel.takes_several() { 3 } else { 1 };
            // One constant tells a dispatch of slabs.
            let kind = |p: &MatPart| (stem(p), self.slab_rows(p.weight));
            let count = rest.iter().take(most).take_while(|p| kind(p) == kind(first)).count();
            let (group, after) = rest.split_at(count);
            let product = Product { x, norm, parts: group.to_vec(), gate: None, add, out, y_at };
            if kernel.packs_for_matrices() {
                self.by_matrix(parts, &product);
            } else if kernel.takes_several() {
                self.gemv(parts, product);
            } else {
                self.gemm(x, (parts, false), first, (u32::from(add), None), out, y_at);
            }
            y_at += group.iter().map(|p| self.plan.weights[p.weight.0].rows).sum::<usize>();
            rest = after;
        }
    }

    pub(super) fn gated_matmul(
        &mut self,
        x: Val,
        norm: Option<Norm>,
        (gate, up, by): (&MatPart, &MatPart, Gate),
        out: Val,
    ) {
        let (n, both) = (self.rows_of(x), [*gate, *up]);
        let product = Product { x, norm, parts: both.to_vec(), gate: Some(by), add: false, out, y_at: 0 };
        match fusion::gated_kernel(self.t, self.plan, (gate, up), n) {
            ProductKernel::Rows(way) => self.rows_gated((x, norm), (gate, up, by), way, out),
            kernel if kernel.packs_for_matrices() => {
                self.pack(kernel, x, norm, &both);
                self.by_matrix(&both, &product);
            }
            kernel if kernel.takes_several() => self.gemv(&both, product),
            _ => {
                self.gemm(x, (&both, true), gate, (0, None), out, 0);
                self.gemm(x, (&both, true), up, (2, Some(by)), out, 0);
            }
        }
    }

    /// What decides on the kernel of a dispatch of `m` outputs that multiplies `n` rows with some of `all`, of the format of `part`.
    pub(super) fn product_query(
        &self,
        (all, gate_and_up): (&[MatPart], bool),
        part: &MatPart,
        (m, n): (usize, usize),
        fusion: GemmFusion,
    ) -> ProductQuery {
        let info = &self.plan.weights[part.weight.0];
        ProductQuery {
            format: info.format.id,
            in_slabs: fusion::lies_in_slabs(self.t, info),
            size: (m, info.cols, n),
            fusion,
            ..fusion::product_query(self.t, self.plan, all, n, gate_and_up)
        }
    }

    fn gemv(&mut self, all: &[MatPart], p: Product) {
        let (info, n) = (&self.plan.weights[p.parts[0].weight.0], self.rows_of(p.x));
        let extras = self.extras(p.gate.is_some(), p.add);
        for rows in policy::gemv_columns(self.t.caps, info.format, info.cols, n, extras) {
            self.gemv_of(all, p.clone(), rows);
        }
    }

    /// Some rows of it.
    fn gemv_of(&mut self, all: &[MatPart], p: Product, rows: Range<usize>) {
        let info = &self.plan.weights[p.parts[0].weight.0];
        let (k, n) = (info.cols, rows.len());
        let extras = GemmFusion { norm: p.norm.is_some(), ..self.extras(p.gate.is_some(), p.add) };
        let push = push::Gemv {
            x: self.val(p.x) + (4 * rows.start * k) as u64,
            y: self.val(p.out) + 4 * (rows.start * self.width(p.out) + p.y_at) as u64,
            tables: self.t.at.codebooks,
            norm: self.opt(p.norm.map(|n| n.weight)),
            eps: p.norm.map_or(0.0, |n| n.eps),
            ..self.product_push(&p)
        };
        let m = push.m as usize;
        let query = self.product_query((all, p.gate.is_some()), &p.parts[0], (m, n), extras);
        let ProductTile::Gemv(tile) = policy::choose(self.t.caps, &query).tile else {
            unreachable!("some rows of a GEMV are one")
        };
        let mut constants = tile.spec(k, n, extras);
        constants.extend(tile.whole_rows(p.parts.iter().map(|p| self.plan.weights[p.weight.0].rows)));
        constants.extend(gate_constants(p.gate));
        let (module, mut touched) = (Module::with(tile.kernel, info.format.stem), self.touched(&p, m));
        let values = touched.reads.iter_mut().chain(&mut touched.writes).filter(|a| matches!(a.place, Place::Value(_)));
        values.for_each(|a| *a = a.of_rows(&rows, self.rows_of(p.x)));
        let task = self.emit(module, constants, push, [tile.groups as usize, 1, 1], touched);
        task.source = Some(StageSource::Product(p));
        task.keep_query(query);
    }

    /// What a product reads and writes, with `m` outputs.
    pub(super) fn touched(&self, p: &Product, m: usize) -> Touched {
        let weights = p.parts.iter().map(|part| part.weight).chain(p.parts.iter().filter_map(|part| part.bias));
        let mut reads = self.matrices(weights.chain(p.norm.map(|n| n.weight)));
        let out = self.columns(p.out, p.y_at, m);
        reads.push(self.value(p.x));
        reads.extend(p.add.then(|| out.clone()));
        Touched { reads, writes: vec![out] }
    }

    pub(super) fn extras(&self, gated: bool, add: bool) -> GemmFusion {
        GemmFusion { gated, add, norm: false, soa: self.t.soa, activations: self.t.activations }
    }

    /// Matrices, biases, factors and sizes of a product.
    pub(super) fn product_push(&self, p: &Product) -> push::Gemv {
        let rows = |most: usize| p.parts.iter().take(most).map(|p| self.plan.weights[p.weight.0].rows).sum::<usize>();
        let least = p.parts.iter().map(|p| self.plan.weights[p.weight.0].rows).min().unwrap_or(0);
        let m = if p.gate.is_some() { least } else { rows(p.parts.len()) };
        let weight = |i: usize| p.parts.get(i).map_or(0, |p| self.weight(p.weight));
        let bias = |i: usize| p.parts.get(i).and_then(|p| p.bias);
        let scale = |i: usize| p.parts.get(i).map_or(1.0, |p| p.scale);
        push::Gemv {
            w0: weight(0),
            w1: weight(1),
            w2: weight(2),
            b0: self.opt(bias(0)),
            b1: self.opt(bias(1)),
            b2: self.opt(bias(2)),
            k: self.plan.weights[p.parts[0].weight.0].cols as u32,
            m0: rows(1) as u32,
            m01: if p.gate.is_some() { m } else { rows(2) } as u32,
            m: m as u32,
            y_stride: self.width(p.out) as u32,
            flags: (0..3).map(|i| u32::from(bias(i).is_some()) << i).sum(),
            s0: scale(0),
            s1: scale(1),
            s2: scale(2),
            ..push::Gemv::default()
        }
    }

    /// Many rows without cooperative matrices. `epilogue`: 0 sets, 1 adds, 2 has what is there gate the product.
    fn gemm(
        &mut self,
        x: Val,
        (all, gate_and_up): (&[MatPart], bool),
        part: &MatPart,
        (epilogue, gate): (u32, Option<Gate>),
        out: Val,
        y_at: usize,
    ) {
        let info = &self.plan.weights[part.weight.0];
        let (m, n, k) = (info.rows, self.rows_of(x), info.cols);
        let push = push::Gemm {
            w: self.weight(part.weight),
            bias: self.opt(part.bias),
            x: self.val(x),
            y: self.val(out),
            tables: self.t.at.codebooks,
            k: k as u32,
            m: m as u32,
            n: n as u32,
            y_stride: self.width(out) as u32,
            y_at: y_at as u32,
            flags: u32::from(part.bias.is_some()),
            scale: part.scale,
            ..push::Gemm::default()
        };
        let written = self.columns(out, y_at, m);
        let mut reads = self.matrices(std::iter::once(part.weight).chain(part.bias));
        reads.push(self.value(x));
        reads.extend((epilogue > 0).then(|| written.clone()));
        let touched = Touched { reads, writes: vec![written] };
        let query = self.product_query((all, gate_and_up), part, (m, n), self.extras(false, epilogue == 1));
        let query = ProductQuery { gates: epilogue == 2, ..query };
        let choice = policy::choose(self.t.caps, &query);
        let (mut constants, mut side, mut module) =
            (vec![("EPILOGUE", epilogue)], policy::SMALL_TILE, Module::of(choice.name));
        if choice.kernel != ProductKernel::SmallTile {
            constants.push(("SOA", self.soa()));
            constants.extend(gate_constants(gate));
            (side, module) = (GEMM_TILE, Module::with(choice.name, info.format.stem));
        }
        let grid = [m.div_ceil(side), n.div_ceil(side), 1];
        self.emit(module, constants, push, grid, touched).keep_query(query);
    }

    /// Workspace whose users need no more than an order among them.
    pub(super) fn split_reduction(&self) -> Access {
        Access::all(Place::SplitReduction, 0)
    }
}
