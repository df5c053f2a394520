//! Changes of a model that are made while it runs, as further ops: low-rank products beside those of its matrices, and vectors that
//! layers add to the residual stream. Weights stay as they are, whatever their format.
//!
//! A product `y = x · Wᵀ` gets `t = x · Aᵀ` and `y += t · Bᵀ`; ops that do more with a product than to add it up come apart first.

use super::{
    Act, AdapterScales, Arg, Cols, ExpertsBias, ExpertsMatMul, Gate, General, HeadMatMul, Join, Map, MatPart, Op, Plan,
    Rows, TopK, Val, ValueInfo, Weight, WeightInfo,
};

/// Matrices that an op multiplies one input with, for which a pair of matrices of low rank can stand.
#[derive(Clone, Debug, PartialEq)]
pub struct Site {
    /// How.
    pub kind: SiteKind,
    /// The matrices, one below the other, with what their products are multiplied with.
    pub parts: Vec<(Weight, f32)>,
}

/// How an op uses its matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SiteKind {
    /// Takes rows: A has the rows `[rows, rank]` of a table, B is `[cols, rank]`.
    Rows,
    /// Multiplies: A is `[rank, cols]`, B `[Σ rows, rank]`.
    Product,
    /// Multiplies with one of so many for each group of columns or each expert: A is `[count, rank, cols]`, B `[count, rows, rank]`.
    Each(usize),
}

impl Site {
    fn new(kind: SiteKind, parts: Vec<(Weight, f32)>) -> Site {
        Site { kind, parts }
    }

    /// Names of A and of B, and of the list of their adapters' ranks: by the first matrix, so that they lie where it does.
    pub fn names(&self, plan: &Plan) -> [String; 3] {
        let first = self.parts.first().and_then(|(w, _)| plan.weights.get(w.0)).map_or("", |w| &w.name);
        let of = if self.kind == SiteKind::Rows { "rows_" } else { "" };
        ["a", "b", "ranks"].map(|what| format!("{first}.{of}lora_{what}"))
    }
}

/// A pair of low rank for a site: of one adapter, or of several whose columns lie side by side.
#[derive(Clone, Debug)]
pub struct SitePair {
    /// A.
    pub a: WeightInfo,
    /// B.
    pub b: WeightInfo,
    /// Columns of each adapter in B, if sequences have scales of their own for each; empty where the scales are in B.
    pub ranks: Vec<usize>,
}

/// What gives the pair of a site, and the vector after a layer.
type Pairs<'a> = &'a dyn Fn(&Plan, &Site) -> Option<SitePair>;
type Vectors<'a> = &'a dyn Fn(usize) -> Option<WeightInfo>;

impl Op {
    /// Where pairs of low rank can stand beside the op's matrices.
    pub fn sites(&self) -> Vec<Site> {
        let of = |parts: &[MatPart]| parts.iter().map(|p| (p.weight, p.scale)).collect();
        let each = |count: usize, w: &Weight| Site::new(SiteKind::Each(count), vec![(*w, 1.0)]);
        match self {
            Op::Embed { weight, .. } => vec![Site::new(SiteKind::Rows, vec![(*weight, 1.0)])],
            Op::MatMul { parts, .. } => vec![Site::new(SiteKind::Product, of(parts))],
            Op::GatedMatMul { gate, up, .. } => vec![Site::new(SiteKind::Product, of(&[*gate, *up]))],
            Op::GatedExperts { gate, up, top_k, .. } => vec![each(top_k.n_expert, gate), each(top_k.n_expert, up)],
            Op::ExpertsAdd { down, top_k, .. } => vec![each(top_k.n_expert, down)],
            Op::General(General::ExpertsMatMul(e)) => vec![each(e.top_k.n_expert, &e.weight)],
            Op::General(General::HeadMatMul(h)) => vec![each(h.heads, &h.weight)],
            _ => Vec::new(),
        }
    }
}

impl Plan {
    /// The plan with the pairs that `pairs` has for sites, and the vectors `[dim]` that `vectors` has for layers, to be added when
    /// they end.
    #[must_use]
    pub fn add_adapters(mut self, pairs: Pairs<'_>, vectors: Vectors<'_>) -> Plan {
        let (old, ends) = (std::mem::take(&mut self.ops), std::mem::take(&mut self.layer_ends));
        let encoder_ops = self.encoder.map(|e| e.ops);
        let own_numbers = self.numbers.len();
        let mut adapter = Adapter { ops: Vec::with_capacity(old.len()), plan: self, own_numbers };
        for (i, op) in old.into_iter().enumerate() {
            for (layer, (_, x)) in ends.iter().enumerate().filter(|(_, (at, _))| *at == i) {
                if let Some(vector) = vectors(layer) {
                    adapter.add_vector(vector, *x);
                }
            }
            if let Some(encoder) = adapter.plan.encoder.as_mut().filter(|_| encoder_ops == Some(i)) {
                encoder.ops = adapter.ops.len();
            }
            let found: Vec<_> = op.sites().iter().map(|site| pairs(&adapter.plan, site)).collect();
            adapter.op(op, found);
        }
        Plan { ops: adapter.ops, ..adapter.plan }
    }
}

/// The plan under way.
struct Adapter {
    plan: Plan,
    ops: Vec<Op>,
    /// Tables of numbers that the plan had before.
    own_numbers: usize,
}

/// A and B, the rank, and the list of whose column each of so many is, if each sequence has scales of its own.
#[derive(Clone, Copy)]
struct Pair {
    a: Weight,
    b: Weight,
    rank: usize,
    scales: Option<usize>,
}

impl Adapter {
    fn weight(&mut self, info: WeightInfo) -> Weight {
        // Layers that are gone through again have theirs again.
        let there = self.plan.weights.iter().position(|w| w.tensor == info.tensor);
        Weight(there.unwrap_or_else(|| {
            self.plan.weights.push(info);
            self.plan.weights.len() - 1
        }))
    }

    fn pair(&mut self, pair: SitePair) -> Pair {
        let rank = pair.b.cols;
        let scales = (!pair.ranks.is_empty()).then(|| self.adapter_list(&pair.ranks, rank));
        Pair { a: self.weight(pair.a), b: self.weight(pair.b), rank, scales }
    }

    /// The list of whose column each of `rank` is; those that fill a rank up, which are zeros, count as the first adapter's.
    fn adapter_list(&mut self, ranks: &[usize], rank: usize) -> usize {
        self.plan.adapters = self.plan.adapters.max(ranks.len());
        let mut list: Vec<f32> = ranks.iter().enumerate().flat_map(|(i, n)| vec![i as f32; *n]).collect();
        list.resize(rank, 0.0);
        let before = self.plan.numbers.iter().skip(self.own_numbers).position(|other| *other == list);
        before.map_or_else(
            || {
                self.plan.numbers.push(list);
                self.plan.numbers.len() - 1
            },
            |at| self.own_numbers + at,
        )
    }

    /// Has what came of A times the scales of each row's sequence.
    fn scale(&mut self, t: Val, pair: Pair) {
        self.ops.extend(pair.scales.map(|list| Op::General(General::AdapterScales(AdapterScales { list, out: t }))));
    }

    fn value(&mut self, name: &'static str, width: usize, rows: Rows) -> Val {
        self.plan.values.push(ValueInfo { name, width, rows });
        Val(self.plan.values.len() - 1)
    }

    fn rows(&self, v: Val) -> Rows {
        self.plan.values[v.0].rows
    }

    fn all(&self, val: Val) -> Cols {
        Cols { val, at: 0, stride: self.plan.values[val.0].width }
    }

    /// `out = scale * act(a) + b` or `* b`, over `groups` of `len` columns.
    fn map(&mut self, out: Cols, (groups, len): (usize, usize), (act, a): (Act, Arg), (join, b): (Join, Arg)) {
        self.ops.push(Op::General(General::Map(Map { act, a, scale: 1.0, join, b, groups, len, out })));
    }

    fn add_vector(&mut self, vector: WeightInfo, x: Val) {
        let (weight, all) = (self.weight(vector), self.all(x));
        self.map(all, (1, all.stride), (Act::Same, Arg::Cols(all)), (Join::Add, Arg::Weight(weight)));
    }

    /// An op with the pairs of its sites.
    fn op(&mut self, op: Op, found: Vec<Option<SitePair>>) {
        if found.iter().all(Option::is_none) {
            return self.ops.push(op);
        }
        let mut pairs: Vec<Option<Pair>> = found.into_iter().map(|f| f.map(|pair| self.pair(pair))).collect();
        let (last, first) = (pairs.pop().flatten(), pairs.pop().flatten());
        match op {
            Op::Embed { instead, out, .. } => {
                self.ops.push(op);
                let Some(pair) = last else { return };
                let t = self.value("lora", pair.rank, self.rows(out));
                self.ops.push(Op::Embed { weight: pair.a, instead, out: t });
                self.scale(t, pair);
                self.ops.push(product(t, pair.b, true, out));
            }
            // What adds comes first: the op's own product may hand its rows on to the next.
            Op::MatMul { x, add: true, out, .. } => {
                self.low_rank(x, last, out);
                self.ops.push(op);
            }
            Op::MatMul { x, add: false, out, .. } => {
                self.ops.push(op);
                self.low_rank(x, last, out);
            }
            Op::GatedMatMul { x, norm, gate, up, by, out } => {
                let len = self.plan.values[out.0].width;
                let both = self.value("gate_up", 2 * len, self.rows(out));
                self.ops.push(Op::MatMul { x, norm, parts: vec![gate, up], add: false, out: both });
                self.low_rank(x, last, both);
                let half = |at| Cols { val: both, at, stride: len };
                self.gate([half(0), half(len)], len, by, out);
            }
            Op::GatedExperts { x, route, top_k, gate, up, biases, by, out, .. } => {
                let (width, scales) = (self.plan.values[out.0].width, self.scales(route, top_k.k));
                let mut halves = [out; 2];
                for (i, (weight, pair)) in [(gate, first), (up, last)].into_iter().enumerate() {
                    let half = self.value("experts", width, self.rows(out));
                    halves[i] = half;
                    let e = ExpertsMatMul { x, route, top_k, weight, own_input: false, out: half };
                    self.ops.push(Op::General(General::ExpertsMatMul(e)));
                    self.experts_low_rank(&e, pair);
                    if scales[i] {
                        let cols = Cols { val: half, at: 0, stride: width / top_k.k };
                        let by = Arg::PerGroup(Cols { val: route, at: (2 + i) * top_k.k, stride: 1 });
                        self.map(cols, (top_k.k, cols.stride), (Act::Same, by), (Join::Mul, Arg::Cols(cols)));
                    }
                    if let Some(bias) = biases[i] {
                        self.ops.push(Op::General(General::ExpertsBias(ExpertsBias { route, top_k, bias, out: half })));
                    }
                }
                self.gate(halves.map(|v| self.all(v)), width, by, out);
            }
            Op::ExpertsAdd { x, route, top_k, out, .. } => {
                if let Some(pair) = last {
                    let t = self.experts_down(x, (route, top_k), pair.a, pair.rank);
                    self.scale(t, pair);
                    self.ops.push(Op::ExpertsAdd { x: t, route, top_k, down: pair.b, bias: None, out });
                }
                self.ops.push(op);
            }
            Op::General(General::ExpertsMatMul(e)) => {
                self.ops.push(op);
                self.experts_low_rank(&e, last);
            }
            Op::General(General::HeadMatMul(h)) => {
                self.ops.push(op);
                self.heads_low_rank(&h, last);
            }
            op => self.ops.push(op),
        }
    }

    /// `out += x · Aᵀ · Bᵀ`.
    fn low_rank(&mut self, x: Val, pair: Option<Pair>, out: Val) {
        let Some(pair) = pair else { return };
        let t = self.value("lora", pair.rank, self.rows(x));
        self.ops.push(product(x, pair.a, false, t));
        self.scale(t, pair);
        self.ops.push(product(t, pair.b, true, out));
    }

    /// `x · Aᵀ` of each expert of a row, from an input of each one's own.
    fn experts_down(&mut self, x: Val, (route, top_k): (Val, TopK), weight: Weight, rank: usize) -> Val {
        let out = self.value("lora", top_k.k * rank, self.rows(x));
        let e = ExpertsMatMul { x, route, top_k, weight, own_input: true, out };
        self.ops.push(Op::General(General::ExpertsMatMul(e)));
        out
    }

    /// Adds to the products of experts side by side.
    fn experts_low_rank(&mut self, e: &ExpertsMatMul, pair: Option<Pair>) {
        let Some(pair) = pair else { return };
        let (t, sum) = (self.value("lora", e.top_k.k * pair.rank, self.rows(e.out)), self.all(e.out));
        let out = self.value("lora_out", sum.stride, self.rows(e.out));
        let down = ExpertsMatMul { weight: pair.a, out: t, ..*e };
        let up = ExpertsMatMul { x: t, weight: pair.b, own_input: true, out, ..*e };
        self.ops.push(Op::General(General::ExpertsMatMul(down)));
        self.scale(t, pair);
        self.ops.push(Op::General(General::ExpertsMatMul(up)));
        let from = Arg::Cols(self.all(out));
        self.map(sum, (1, sum.stride), (Act::Same, from), (Join::Add, Arg::Cols(sum)));
    }

    /// Adds to the products of heads.
    fn heads_low_rank(&mut self, h: &HeadMatMul, pair: Option<Pair>) {
        let Some(pair) = pair else { return };
        let rank = pair.rank;
        let (rows, m) = (self.rows(h.out.val), self.plan.weights[h.weight.0].rows / h.heads);
        let (t, out) = (self.value("lora", h.heads * rank, rows), self.value("lora_out", h.heads * m, rows));
        let (t, out) = (Cols { val: t, at: 0, stride: rank }, Cols { val: out, at: 0, stride: m });
        let down = HeadMatMul { weight: pair.a, out: t, ..*h };
        let up = HeadMatMul { x: t, weight: pair.b, heads: h.heads, out };
        self.ops.push(Op::General(General::HeadMatMul(down)));
        self.scale(t.val, pair);
        self.ops.push(Op::General(General::HeadMatMul(up)));
        self.map(h.out, (h.heads, m), (Act::Same, Arg::Cols(out)), (Join::Add, Arg::Cols(h.out)));
    }

    /// `out` = what becomes of a gate and of what it gates, `len` columns each.
    fn gate(&mut self, [gate, up]: [Cols; 2], len: usize, by: Gate, out: Val) {
        if by.limit.is_some() || by.plus != 0.0 {
            let act = by.limit.map_or(Act::Same, |most| Act::Clamp(-most, most));
            self.map(up, (1, len), (act, Arg::Cols(up)), (Join::Add, Arg::Number(by.plus)));
        }
        let all = self.all(out);
        self.map(all, (1, len), (by.act, Arg::Cols(gate)), (Join::Mul, Arg::Cols(up)));
    }

    /// Whether the route, of `used` experts a row, has scales of gate and of up: its own, or such as were multiplied into it.
    fn scales(&self, route: Val, used: usize) -> [bool; 2] {
        let mut found = [false; 2];
        for op in &self.ops {
            match op {
                Op::Route { out, scales, .. } if *out == route => {
                    found = [scales[0].is_some(), scales[1].is_some()];
                }
                Op::General(General::Map(Map { out: Cols { val, at, .. }, .. })) if *val == route => {
                    for (i, found) in found.iter_mut().enumerate() {
                        *found |= *at == (2 + i) * used;
                    }
                }
                _ => {}
            }
        }
        found
    }
}

fn product(x: Val, weight: Weight, add: bool, out: Val) -> Op {
    Op::MatMul { x, norm: None, parts: vec![MatPart { weight, bias: None, scale: 1.0 }], add, out }
}
