//! Products with weight matrices: of few rows, of many, and of each row's experts.

use super::{Push, Writer};
use crate::plan::{Chosen, MatPart, Val, Weight};
use crate::policy::{self, Extras};
use crate::Result;

/// A product of few rows with up to three matrices of one format, one below the other, or with gate and up.
#[derive(Clone)]
pub(super) struct Product {
    pub(super) x: Val,
    pub(super) parts: Vec<MatPart>,
    pub(super) gated: bool,
    pub(super) add: bool,
    pub(super) out: Val,
    /// Column of `out` where its outputs start.
    pub(super) y_at: usize,
}

impl Writer<'_, '_> {
    pub(super) fn matmul(&mut self, x: Val, parts: &[MatPart], add: bool, out: Val) -> Result<()> {
        let mut y_at = 0;
        let mut rest = parts;
        let matrices = self.by_matrices(parts, self.rows_of(x));
        if matrices {
            self.pack(x, parts)?;
        }
        while let Some(first) = rest.first() {
            let stem = |p: &MatPart| self.b.plan.weights[p.weight.0].format.stem;
            let most = if matrices || self.rows_of(x) <= policy::GEMV_MAX_COLS { 3 } else { 1 };
            let count = rest.iter().take(most).take_while(|p| stem(p) == stem(first)).count();
            let (group, after) = rest.split_at(count);
            if matrices {
                self.by_matrix(x, (parts, group), self.extras(false, add), out, y_at)?;
            } else if most == 3 {
                self.gemv(x, group, false, add, out, y_at)?;
            } else {
                self.gemm(x, first, u32::from(add), out, y_at)?;
            }
            y_at += group.iter().map(|p| self.b.plan.weights[p.weight.0].rows).sum::<usize>();
            rest = after;
        }
        Ok(())
    }

    pub(super) fn gated(&mut self, x: Val, gate: &MatPart, up: &MatPart, out: Val) -> Result<()> {
        if self.gates_in_one(gate, up, self.rows_of(x)) {
            if self.by_matrices(&[*gate, *up], self.rows_of(x)) {
                let both = [*gate, *up];
                self.pack(x, &both)?;
                return self.by_matrix(x, (&both, &both), self.extras(true, false), out, 0);
            }
            return self.gemv(x, &[*gate, *up], true, false, out, 0);
        }
        self.gemm(x, gate, 0, out, 0)?;
        self.due = true;
        self.gemm(x, up, 2, out, 0)
    }

    fn gemv(&mut self, x: Val, parts: &[MatPart], gated: bool, add: bool, out: Val, y_at: usize) -> Result<()> {
        let product = Product { x, parts: parts.to_vec(), gated, add, out, y_at };
        if self.chains(&product) {
            return self.stage(&product);
        }
        self.gemv_alone(&product)
    }

    pub(super) fn gemv_alone(&mut self, product: &Product) -> Result<()> {
        let Product { x, ref parts, gated, add, out, y_at } = *product;
        let info = &self.b.plan.weights[parts[0].weight.0];
        let (k, n, norm) = (info.cols, self.rows_of(x), self.norms.get(&x).copied());
        let extras = Extras { norm: norm.is_some(), ..self.extras(gated, add) };
        let (m, flags, push) = self.product_push(parts, gated);
        let push = push.addr(self.val(norm.map_or(x, |n| n.x))).addr(self.val(out) + 4 * y_at as u64);
        let push = push.addr(self.b.codebooks.address()).addr(self.opt(norm.map(|n| n.weight)));
        let push = self.product_sizes(push, parts, gated, (k, m, self.width(out)));
        let scale = |i: usize| parts.get(i).map_or(1.0, |p| p.scale);
        let push = push.word(flags).float(norm.map_or(0.0, |n| n.eps)).float(scale(0)).float(scale(1)).float(scale(2));
        let tile = policy::gemv_tile(self.b.device.caps(), info.format, m, k, n, extras);
        let mut spec = tile.spec(k, n, extras);
        spec.extend(tile.whole_rows(parts.iter().map(|p| self.b.plan.weights[p.weight.0].rows)));
        self.dispatch(tile.kernel, Some(info.format.stem), &spec, push, [tile.groups as usize, 1, 1])
    }

    pub(super) fn extras(&self, gated: bool, add: bool) -> Extras {
        let (planes, activations) = (self.b.device.stages_weights(), self.b.activations);
        Extras { gated, add, norm: false, planes, activations }
    }

    /// Outputs, flags of the biases there are, and the start of the push constants: matrices and biases.
    pub(super) fn product_push(&self, parts: &[MatPart], gated: bool) -> (usize, usize, Push) {
        let rows = parts.iter().map(|p| self.b.plan.weights[p.weight.0].rows);
        let m = if gated { rows.min().unwrap_or(0) } else { rows.sum() };
        let address = |i: usize| parts.get(i).map_or(0, |p| self.weight(p.weight));
        let bias = |i: usize| parts.get(i).and_then(|p| p.bias);
        let push = (0..3).fold(Push::default(), |push, i| push.addr(address(i)));
        let flags = (0..3).map(|i| usize::from(bias(i).is_some()) << i).sum();
        (m, flags, (0..3).fold(push, |push, i| push.addr(self.opt(bias(i)))))
    }

    /// Inputs, where the outputs of each matrix end, and the stride of the output rows.
    pub(super) fn product_sizes(
        &self,
        push: Push,
        parts: &[MatPart],
        gated: bool,
        (k, m, stride): (usize, usize, usize),
    ) -> Push {
        let rows = |most: usize| parts.iter().take(most).map(|p| self.b.plan.weights[p.weight.0].rows).sum();
        push.word(k).word(rows(1)).word(if gated { m } else { rows(2) }).word(m).word(stride)
    }

    /// Products with the matrices of the experts of each row: gate and up in one, or down, whose weighted sum is added.
    pub(super) fn experts(
        &mut self,
        x: Val,
        route: Val,
        c: Chosen,
        weights: &[Weight],
        gated: bool,
        out: Val,
    ) -> Result<()> {
        if self.experts_stage(x, weights, gated, out)? || self.experts_in_runs(x, route, c, weights, gated, out)? {
            return Ok(());
        }
        let info = &self.b.plan.weights[weights[0].0];
        let (m, n, used) = (info.rows / c.experts, self.shape.rows, c.used);
        let k = if gated { info.cols } else { used * info.cols };
        let up = weights.get(1).map_or(0, |w| self.weight(*w));
        let push = Push::default().addr(self.weight(weights[0])).addr(up).addr(0).addr(0).addr(0);
        let norm = self.norms.get(&x).copied();
        let push = push.addr(self.val(route)).addr(self.val(norm.map_or(x, |n| n.x))).addr(self.val(out));
        let norm_weight = self.opt(norm.map(|n| n.weight));
        let push = push.addr(self.b.codebooks.address()).addr(norm_weight).word(k).word(m).word(m).word(m);
        let stride = if gated { m } else { self.width(out) };
        let push = push.word(stride).word(0).float(norm.map_or(0.0, |n| n.eps));
        let push = push.float(1.0).float(1.0).float(1.0);
        let extras = Extras { norm: norm.is_some(), ..self.extras(gated, !gated) };
        let tile = policy::expert_tile(self.b.device.caps(), info.format, (m, k), extras.activations);
        let mut spec = tile.spec(k, 1, extras);
        spec.extend([("EXPERTS", if gated { 1 } else { 2 }), ("USED", used as u32)]);
        spec.extend(tile.whole_rows(std::iter::once(m)));
        let grid = [tile.groups as usize, if gated { n * used } else { n }, 1];
        self.dispatch(tile.kernel, Some(info.format.stem), &spec, push, grid)
    }

    fn gemm(&mut self, x: Val, part: &MatPart, epilogue: u32, out: Val, y_at: usize) -> Result<()> {
        let info = &self.b.plan.weights[part.weight.0];
        let (m, n) = (info.rows, self.rows_of(x));
        let push = Push::default().addr(self.weight(part.weight)).addr(self.opt(part.bias)).addr(self.val(x));
        let push = push
            .addr(self.val(out))
            .addr(self.b.codebooks.address())
            .word(info.cols)
            .word(m)
            .word(n)
            .word(self.width(out))
            .word(y_at);
        let push = push.word(usize::from(part.bias.is_some())).float(part.scale);
        if epilogue < 2 && policy::small_floats(self.b.device.caps(), info.format, (m, info.cols), n) {
            let grid = [m.div_ceil(policy::SMALL_TILE), n.div_ceil(policy::SMALL_TILE), 1];
            return self.dispatch("gemm_float", None, &[("EPILOGUE", epilogue)], push, grid);
        }
        let grid = [m.div_ceil(64), n.div_ceil(64), 1];
        let spec = [("EPILOGUE", epilogue), ("PLANES", self.planes())];
        self.dispatch("gemm_tile", Some(info.format.stem), &spec, push, grid)
    }
}
