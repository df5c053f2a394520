//! Which experts a row uses: after the router's product, or in one dispatch with it.

use super::dispatch::{Access, Module, Place, Touched};
use super::megakernel::StageSource;
use super::Lowering;
use crate::policy;
use pumex_plan::{Choose, Gating, Router, TopK, Val, Weight};
use pumex_shaders::{constants as c, push};

/// The fields of [`pumex_plan::Op::Route`].
pub(super) struct ExpertChoice<'a> {
    pub logits: Val,
    pub top_k: TopK,
    pub scale: f32,
    pub scales: &'a [Option<Weight>; 3],
    pub out: Val,
}

impl ExpertChoice<'_> {
    /// Which scales there are, a bit for each.
    fn flags(&self) -> u32 {
        self.scales.iter().enumerate().map(|(i, s)| u32::from(s.is_some()) << i).sum()
    }
}

impl Lowering<'_> {
    /// Experts by logits that are there.
    pub(super) fn route(&mut self, c: &ExpertChoice<'_>) {
        let [gate_scale, up_scale, down_scale] = c.scales.map(|s| self.opt(s));
        let (logits, route, params) = (self.val(c.logits), self.val(c.out), self.t.at.params);
        let (flags, scale) = (c.flags(), c.scale);
        let push = push::Route { logits, route, gate_scale, up_scale, down_scale, params, flags, scale };
        let threads = policy::route_threads(self.t.caps, c.top_k.n_expert);
        let constants = vec![("SIZE", threads), ("EXPERTS", c.top_k.n_expert as u32), ("USED", c.top_k.k as u32)];
        let reads = [vec![self.value(c.logits)], self.matrices(c.scales.iter().copied().flatten())].concat();
        let (grid, writes) = ([self.shape.rows, 1, 1], vec![self.value(c.out)]);
        self.emit(Module::of("route"), constants, push, grid, Touched { reads, writes });
    }

    /// Experts by any rule: by logits that are there, or by the rows themselves.
    pub(super) fn choose(&mut self, choice: &Choose) {
        let mut constants = rule(choice);
        if let Some(router) = &choice.router {
            return self.router_choose(router, choice, constants);
        }
        let push = push::Choose {
            logits: self.val(choice.logits),
            bias: self.opt(choice.bias),
            route: self.val(choice.out),
            params: self.t.at.params,
            table: self.opt(choice.table),
            sampled: self.t.at.sampled,
            least_sum: choice.least_sum.unwrap_or(0.0),
            scale: choice.scale,
        };
        constants.push(("SIZE", policy::route_threads(self.t.caps, choice.top_k.n_expert)));
        constants.push(("TABLE", u32::from(choice.table.is_some())));
        let mut reads = [vec![self.value(choice.logits)], self.matrices(choice.bias)].concat();
        if let Some(table) = choice.table {
            let bytes = 4 * self.shape.rows as u64;
            let k = choice.top_k.k as u64;
            reads.extend([Access::all(Place::Weight(table), bytes * k), Access::all(Place::Ids, bytes)]);
        }
        let (grid, writes) = ([self.shape.rows, 1, 1], vec![self.value(choice.out)]);
        self.emit(Module::of("choose"), constants, push, grid, Touched { reads, writes });
    }

    fn router_choose(&mut self, router: &Router, c: &Choose, mut constants: Vec<(&'static str, u32)>) {
        let Router { x, norm, part } = *router;
        let (info, n_expert) = (&self.plan.weights[part.weight.0], c.top_k.n_expert);
        let push = push::RouterChoose {
            w: self.weight(part.weight),
            product_bias: self.opt(part.bias),
            x: self.val(x),
            norm: self.opt(norm.map(|n| n.weight)),
            tables: self.t.at.codebooks,
            logits: self.val(c.logits),
            arrivals: self.t.at.arrivals,
            route: self.val(c.out),
            bias: self.opt(c.bias),
            k: info.cols as u32,
            flags: u32::from(part.bias.is_some()) << 3,
            eps: norm.map_or(0.0, |n| n.eps),
            product_scale: part.scale,
            least_sum: c.least_sum.unwrap_or(0.0),
            scale: c.scale,
        };
        let (threads, rows) = policy::router_tile(self.t.caps, n_expert, info.cols);
        let of_product = [("SIZE", threads), ("ROWS", rows), ("NORM", u32::from(norm.is_some())), ("SOA", self.soa())];
        constants.extend(of_product);
        let weights = [Some(part.weight), part.bias, norm.map(|n| n.weight), c.bias];
        let reads = [vec![self.value(x)], self.matrices(weights.into_iter().flatten())].concat();
        let writes = vec![self.value(c.logits), self.value(c.out), self.split_reduction()];
        let grid = [n_expert.div_ceil(rows as usize), self.shape.rows, 1];
        let module = Module::with("router_choose", info.format.stem);
        self.emit(module, constants, push, grid, Touched { reads, writes });
    }

    /// Experts by the rows themselves.
    pub(super) fn router(&mut self, router: &Router, c: &ExpertChoice<'_>) {
        let Router { x, norm, part } = *router;
        let info = &self.plan.weights[part.weight.0];
        let [gate_scale, up_scale, down_scale] = c.scales.map(|s| self.opt(s));
        let push = push::Router {
            w: self.weight(part.weight),
            product_bias: self.opt(part.bias),
            x: self.val(x),
            norm: self.opt(norm.map(|n| n.weight)),
            tables: self.t.at.codebooks,
            logits: self.val(c.logits),
            arrivals: self.t.at.arrivals,
            route: self.val(c.out),
            gate_scale,
            up_scale,
            down_scale,
            k: info.cols as u32,
            flags: c.flags() | u32::from(part.bias.is_some()) << 3,
            eps: norm.map_or(0.0, |n| n.eps),
            product_scale: part.scale,
            scale: c.scale,
        };
        let (threads, rows) = policy::router_tile(self.t.caps, c.top_k.n_expert, info.cols);
        let constants = vec![
            ("SIZE", threads),
            ("EXPERTS", c.top_k.n_expert as u32),
            ("USED", c.top_k.k as u32),
            ("ROWS", rows),
            ("NORM", u32::from(norm.is_some())),
            ("SOA", self.soa()),
        ];
        let weights =
            [Some(part.weight), part.bias, norm.map(|n| n.weight)].into_iter().chain(c.scales.iter().copied());
        let reads = [vec![self.value(x)], self.matrices(weights.flatten())].concat();
        let writes = vec![self.value(c.logits), self.value(c.out), self.split_reduction()];
        let grid = [c.top_k.n_expert.div_ceil(rows as usize), self.shape.rows, 1];
        let source =
            StageSource::Router { router: *router, top_k: c.top_k, scale: c.scale, logits: c.logits, out: c.out };
        let task =
            self.emit(Module::with("router", info.format.stem), constants, push, grid, Touched { reads, writes });
        task.source = Some(source);
    }
}

/// The constants that say a rule.
fn rule(choice: &Choose) -> Vec<(&'static str, u32)> {
    let gating = match choice.gating {
        Gating::Softmax => c::GATING_SOFTMAX,
        Gating::SoftmaxOfTaken => c::GATING_SOFTMAX_OF_TAKEN,
        Gating::Sigmoid => c::GATING_SIGMOID,
        Gating::SqrtSoftplus => c::GATING_SQRT_SOFTPLUS,
    };
    let groups = choice.groups.map_or((1, 1), |g| (g.count as u32, g.used as u32));
    vec![
        ("EXPERTS", choice.top_k.n_expert as u32),
        ("USED", choice.top_k.k as u32),
        ("GATING", gating),
        ("BIASED", u32::from(choice.bias.is_some())),
        ("EXPERT_GROUPS", groups.0),
        ("GROUPS_USED", groups.1),
        ("DIVIDED", u32::from(choice.least_sum.is_some())),
        ("SHARING", choice.sharing as u32),
    ]
}
