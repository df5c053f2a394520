//! What each op of a step must move at the least, weights, cache entries and activations, each byte once; and how much it must
//! multiply and add. Pure.

use pumex_lower::CacheType;
use pumex_plan::{Access, AttentionSpec, Choose, General, Norm, Op, Plan, Rows, TopK, Val, Weight};
use serde::Serialize;

/// The step whose ops are looked at: rows of one sequence, the last of them wanted, or each of its own, all wanted.
#[derive(Clone, Copy, Debug)]
pub struct ProfiledStep {
    /// Rows.
    pub rows: usize,
    /// Positions in the cache before them.
    pub depth: usize,
    /// Types of K and V.
    pub cache: (CacheType, CacheType),
    /// Each row is of a sequence of its own.
    pub parallel: bool,
}

/// Bytes of an op.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OpBytes {
    /// Bytes of weights read: of the embedding the rows' own, of experts those that the rows can reach.
    pub weights: u64,
    /// Bytes of the KV cache, read or written.
    pub cache: u64,
    /// Bytes of values read and written.
    pub activations: u64,
}

impl OpBytes {
    /// All.
    pub fn all(&self) -> u64 {
        self.weights + self.cache + self.activations
    }
}

/// One op as it runs, with what it does for others.
#[derive(Clone, Debug, Serialize)]
pub struct OpWork {
    /// Its layer; none for the embedding and the head.
    pub layer: Option<usize>,
    /// What it is, named after its tensors; `norm+` and `rope+` in front say what it does beside.
    pub op: String,
    /// Types of its matrices.
    pub types: String,
    /// Tensors it reads.
    pub tensors: Vec<String>,
    /// Its bytes.
    pub parts: OpBytes,
    /// Operations of its products, two for each number that is multiplied and added.
    #[serde(skip)] // its cost has them
    pub flops: u64,
    /// Whether those are products with quantized weights.
    pub quantized: bool,
}

/// The ops of `ran` (indices into the ops of a plan as it runs: merged ops say what they took over). `stored` gives the bytes of
/// a weight as the device holds it.
pub fn works(plan: &Plan, ran: &[usize], step: ProfiledStep, stored: &dyn Fn(Weight) -> u64) -> Vec<OpWork> {
    let mut layer = None;
    let looker = Looker { plan, step, stored };
    let mut out = Vec::with_capacity(ran.len());
    for &index in ran {
        let op = &plan.ops[index];
        let (weights, parts) = looker.own(op);
        let tensors: Vec<String> = weights.iter().map(|w| plan.weights[w.0].name.clone()).collect();
        layer = match op {
            Op::Embed { .. } | Op::Sample { .. } => None,
            Op::RopeKv { spec, .. } | Op::Attend { spec, .. } => Some(spec.layer),
            Op::Route { router: None, .. } => layer,
            _ => tensors.first().and_then(|name| name.strip_prefix("blk.")?.split('.').next()?.parse().ok()),
        };
        let op_name = format!("{}{}", looker.merged_op_name(op), looker.label(op));
        let matrices = looker.matrices(op);
        let quantized = !matrices.is_empty() && matrices.iter().all(|w| plan.weights[w.0].format.block_len > 1);
        let (types, flops) = (looker.types(op), looker.flops(op));
        out.push(OpWork { layer, op: op_name, types, tensors, parts, flops, quantized });
    }
    out
}

/// The norm that an op does to its input.
fn norm_of(op: &Op) -> Option<Norm> {
    match op {
        Op::MatMul { norm, .. } | Op::GatedMatMul { norm, .. } | Op::GatedExperts { norm, .. } => *norm,
        Op::Route { router, .. } | Op::General(General::Choose(Choose { router, .. })) => router.and_then(|r| r.norm),
        _ => None,
    }
}

struct Looker<'a> {
    plan: &'a Plan,
    step: ProfiledStep,
    stored: &'a dyn Fn(Weight) -> u64,
}

impl Looker<'_> {
    /// Rows of a value.
    fn rows(&self, v: Val) -> usize {
        match self.plan.values[v.0].rows {
            Rows::Step => self.step.rows,
            Rows::Output if self.step.parallel => self.step.rows,
            Rows::Output => 1,
        }
    }

    /// All rows of a value.
    fn value(&self, v: Val) -> u64 {
        (4 * self.plan.values[v.0].width * self.rows(v)) as u64
    }

    /// Operations of products: of a matrix with all rows, of experts with those that each row uses, of attention with what rows see.
    fn flops(&self, op: &Op) -> u64 {
        let ProfiledStep { rows, depth, parallel, .. } = self.step;
        let weights: usize = self.matrices(op).iter().map(|w| self.plan.weights[w.0].elements()).sum();
        let some = |top_k: &TopK| weights / top_k.n_expert.max(1) * top_k.k;
        let pairs = match op {
            Op::Embed { .. } | Op::RmsNorm { .. } | Op::RopeKv { .. } | Op::Sample { .. } => 0,
            Op::MatMul { x, .. } | Op::GatedMatMul { x, .. } => self.rows(*x) * weights,
            Op::Route { .. } => rows * weights,
            Op::GatedExperts { top_k, .. } | Op::ExpertsAdd { top_k, .. } => rows * some(top_k),
            Op::Attend { spec, .. } => {
                let seen = if parallel { rows * (depth + 1) } else { rows * depth + rows * (rows + 1) / 2 };
                seen * spec.heads * (spec.head_dim + spec.v_dim)
            }
            Op::General(General::ExpertsMatMul(e)) => rows * some(&e.top_k),
            Op::General(_) => rows * weights,
        };
        2 * pairs as u64
    }

    /// Cache entries of `positions` in the layer that an attention reads.
    fn entries(&self, spec: &AttentionSpec, positions: usize) -> u64 {
        let (k, v) = self.step.cache;
        let bytes = |t: CacheType, dim: usize| t.bytes((spec.kv_heads * dim) as u64);
        positions as u64 * (bytes(k, spec.head_dim) + bytes(v, spec.v_dim))
    }

    /// Tensors that an op reads, and its bytes.
    fn own(&self, op: &Op) -> (Vec<Weight>, OpBytes) {
        let ProfiledStep { rows, depth, .. } = self.step;
        let (mut weights, mut cache) = (Vec::new(), 0);
        let mut part = 1.0; // of the weights
        let reached = |top_k: &TopK| (rows * top_k.k).min(top_k.n_expert) as f64 / top_k.n_expert as f64;
        let activations = match op {
            Op::Embed { weight, out, .. } => {
                weights.push(*weight);
                part = rows as f64 / self.plan.weights[weight.0].rows as f64;
                self.value(*out)
            }
            Op::RmsNorm { weight, out, .. } => {
                weights.push(*weight);
                2 * self.value(*out)
            }
            Op::MatMul { x, parts, add, out, .. } => {
                weights.extend(parts.iter().map(|p| p.weight).chain(parts.iter().filter_map(|p| p.bias)));
                self.value(*x) + self.value(*out) * (1 + u64::from(*add))
            }
            Op::GatedMatMul { x, gate, up, out, .. } => {
                weights.extend([Some(gate.weight), Some(up.weight), gate.bias, up.bias].into_iter().flatten());
                self.value(*x) + self.value(*out)
            }
            Op::Route { logits, router, scales, out, .. } => {
                weights.extend(router.iter().map(|r| r.part.weight).chain(router.iter().filter_map(|r| r.part.bias)));
                weights.extend(scales.iter().flatten());
                self.value(router.map_or(*logits, |r| r.x)) + self.value(*out)
            }
            Op::GatedExperts { x, route, top_k, gate, up, biases, out, .. } => {
                weights.extend([*gate, *up]);
                weights.extend(biases.iter().flatten());
                part = reached(top_k);
                self.value(*x) + self.value(*route) + self.value(*out)
            }
            Op::ExpertsAdd { x, route, top_k, down, bias, out } => {
                weights.extend([Some(*down), *bias].into_iter().flatten());
                part = reached(top_k);
                self.value(*x) + self.value(*route) + 2 * self.value(*out)
            }
            Op::RopeKv { qkv, spec, rope } => {
                weights.extend([rope.q_norm, rope.k_norm].into_iter().flatten());
                cache = self.entries(spec, rows);
                self.value(*qkv) + (4 * spec.heads * spec.head_dim * rows) as u64
            }
            Op::Attend { qkv, rope, spec, out, .. } => {
                // What it writes to the cache is part of what it reads there.
                cache = self.entries(spec, if self.step.parallel { rows * (depth + 1) } else { depth + rows });
                weights.extend(rope.iter().flat_map(|r| [r.q_norm, r.k_norm]).flatten());
                let queries = (4 * spec.heads * spec.head_dim * rows) as u64;
                self.value(*out) + if rope.is_some() { self.value(*qkv) } else { queries }
            }
            Op::General(g) => {
                weights.extend(g.clone().weights_mut().into_iter().map(|w| *w));
                if let General::ExpertsMatMul(e) = g {
                    part = reached(&e.top_k);
                }
                let reads = g.reads().into_iter().map(|a| if let Access::Value(v) = a { self.value(v) } else { 0 });
                reads.sum::<u64>() + self.value(g.output())
            }
            Op::Sample { logits } => self.value(*logits) + 4,
        };
        let stored: u64 = weights.iter().map(|w| (self.stored)(*w)).sum();
        let norm = norm_of(op).map(|norm| norm.weight);
        let bytes = (stored as f64 * part).round() as u64 + norm.map_or(0, |w| (self.stored)(w));
        weights.extend(norm);
        (weights, OpBytes { weights: bytes, cache, activations })
    }

    /// What the op does for others, as `norm+`, `rope+` in front of its name.
    fn merged_op_name(&self, op: &Op) -> String {
        let norm = if norm_of(op).is_some() { "norm+" } else { "" };
        match op {
            Op::Attend { rope: Some(r), .. } if r.q_norm.is_some() => "norm+rope+".into(),
            Op::Attend { rope: Some(_), .. } => "rope+".into(),
            Op::Route { router: Some(r), .. } | Op::General(General::Choose(Choose { router: Some(r), .. })) => {
                format!("{norm}{}+", self.stems(&[r.part.weight]))
            }
            _ => norm.into(),
        }
    }

    /// The matrices of a product.
    fn matrices(&self, op: &Op) -> Vec<Weight> {
        match op {
            Op::Embed { weight, .. } => vec![*weight],
            Op::MatMul { parts, .. } => parts.iter().map(|p| p.weight).collect(),
            Op::GatedMatMul { gate, up, .. } => vec![gate.weight, up.weight],
            Op::GatedExperts { gate, up, .. } => vec![*gate, *up],
            Op::ExpertsAdd { down, .. } => vec![*down],
            Op::Route { router: Some(r), .. } => vec![r.part.weight],
            Op::General(g) => g.matrix().into_iter().collect(),
            Op::RmsNorm { .. } | Op::Route { .. } | Op::RopeKv { .. } | Op::Attend { .. } | Op::Sample { .. } => vec![],
        }
    }

    /// For instance `attn_q+k+v`.
    fn label(&self, op: &Op) -> String {
        match op {
            Op::Embed { .. } => "embed".into(),
            Op::RmsNorm { .. } => "norm".into(),
            Op::Route { .. } => "route".into(),
            Op::RopeKv { .. } => "rope".into(),
            Op::Attend { .. } => "attend".into(),
            Op::General(g @ General::Choose(_)) => g.name().into(),
            Op::General(g) if g.matrix().is_none() => g.name().into(),
            Op::Sample { .. } => "sample".into(),
            Op::MatMul { out, .. } if *out == self.plan.logits => "output".into(),
            _ => self.stems(&self.matrices(op)),
        }
    }

    /// Names of tensors without their layer, with what they share said once.
    fn stems(&self, matrices: &[Weight]) -> String {
        let stem = |w: &Weight| {
            let name = &self.plan.weights[w.0].name;
            name.rsplit('.').nth(1).unwrap_or(name).to_string()
        };
        let stems: Vec<String> = matrices.iter().map(stem).collect();
        let first = stems.first().cloned().unwrap_or_default();
        let shared = first.find('_').map_or("", |at| &first[..=at]);
        let rest = stems.iter().skip(1).map(|s| format!("+{}", s.strip_prefix(shared).unwrap_or(s)));
        first.clone() + &rest.collect::<String>()
    }

    fn types(&self, op: &Op) -> String {
        let mut names: Vec<&str> = self.matrices(op).iter().map(|w| self.plan.weights[w.0].format.name).collect();
        names.dedup();
        names.join("+")
    }
}
