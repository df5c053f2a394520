//! What each op of a step must move at the least: weights, cache entries and activations, each byte once. Pure.

use crate::engine::CacheType;
use crate::plan::{Access, Op, Plan, Rows, Val, Weight};
use serde::Serialize;

/// The step whose ops are looked at: rows of one sequence, the last of them wanted, or each of its own, all wanted.
#[derive(Clone, Copy, Debug)]
pub struct Step {
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
pub struct Bytes {
    /// Of weights read: of the embedding the rows' own, of experts those that the rows can reach.
    pub weights: u64,
    /// Of the KV cache, read or written.
    pub cache: u64,
    /// Of values read and written.
    pub activations: u64,
}

impl Bytes {
    /// All.
    pub fn all(&self) -> u64 {
        self.weights + self.cache + self.activations
    }
}

/// One op as it runs, with what it does for others.
#[derive(Clone, Debug, Serialize)]
pub struct Work {
    /// Its layer; none for the embedding and the head.
    pub layer: Option<usize>,
    /// What it is, named after its tensors; `norm+` and `rope+` in front say what it does beside.
    pub op: String,
    /// Types of its matrices.
    pub types: String,
    /// Tensors it reads.
    pub tensors: Vec<String>,
    /// Its bytes.
    pub parts: Bytes,
}

/// The ops of `ran` (indices into the plan's); the others are done by those that read what they give.
pub fn works(plan: &Plan, ran: &[usize], step: Step) -> Vec<Work> {
    let mut layer = None;
    let looker = Looker { plan, step };
    let mut out = Vec::with_capacity(ran.len());
    for &index in ran {
        let op = &plan.ops[index];
        let (mut weights, parts) = looker.own(op);
        let mut work = Work { layer, op: looker.label(op), types: looker.types(op), tensors: vec![], parts };
        let mut reads = op.reads();
        let left_out = || plan.ops.iter().enumerate().filter(|(i, _)| !ran.contains(i));
        // The router's product first: the norm before it is then the op's, too.
        for (_, router) in left_out() {
            if let Op::MatMul { x, out, .. } = router {
                if reads.contains(&Access::Value(*out)) {
                    let (matrix, parts) = looker.own(router);
                    work.op = format!("{}+{}", looker.label(router), work.op);
                    work.types = looker.types(router);
                    work.parts.weights += parts.weights;
                    work.parts.activations += looker.value(*x);
                    weights.extend(matrix);
                    reads.push(Access::Value(*x));
                }
            }
        }
        for (i, folded) in left_out() {
            match folded {
                Op::RmsNorm { weight, out, .. } if reads.contains(&Access::Value(*out)) => {
                    work.op = format!("norm+{}", work.op);
                    work.parts.weights += looker.stored(*weight);
                    weights.push(*weight);
                }
                // What it writes to the cache is part of what attention reads, and the rotated q stays where it is.
                Op::RopeKv { qkv, q_norm, k_norm, .. }
                    if i < index && matches!(op, Op::Attend { qkv: of, .. } if of == qkv) =>
                {
                    let norm = if q_norm.is_some() { "norm+" } else { "" };
                    work.op = format!("{norm}rope+{}", work.op);
                    work.parts.activations += looker.value(*qkv) - looker.queries(op);
                    let norms = [q_norm, k_norm].into_iter().flatten();
                    work.parts.weights += norms.clone().map(|w| looker.stored(*w)).sum::<u64>();
                    weights.extend(norms);
                }
                _ => {}
            }
        }
        work.tensors = weights.iter().map(|w| plan.weights[w.0].name.clone()).collect();
        layer = match op {
            Op::Embed { .. } | Op::Sample { .. } => None,
            Op::RopeKv { cache, .. } | Op::Attend { cache, .. } => Some(cache.layer),
            Op::Route { .. } => layer,
            _ => work.tensors.first().and_then(|name| name.strip_prefix("blk.")?.split('.').next()?.parse().ok()),
        };
        work.layer = layer;
        out.push(work);
    }
    out
}

struct Looker<'a> {
    plan: &'a Plan,
    step: Step,
}

impl Looker<'_> {
    fn stored(&self, w: Weight) -> u64 {
        self.plan.weights[w.0].len_bytes()
    }

    /// All rows of a value.
    fn value(&self, v: Val) -> u64 {
        let info = &self.plan.values[v.0];
        let rows = match info.rows {
            Rows::Step => self.step.rows,
            Rows::Wanted if self.step.parallel => self.step.rows,
            Rows::Wanted => 1,
        };
        (4 * info.width * rows) as u64
    }

    /// The queries of an attention.
    fn queries(&self, op: &Op) -> u64 {
        match op {
            Op::Attend { cache, .. } => (4 * cache.heads * cache.head_dim * self.step.rows) as u64,
            _ => 0,
        }
    }

    /// Cache entries of `positions` in one layer.
    fn entries(&self, positions: usize) -> u64 {
        let width = (self.plan.kv.kv_heads * self.plan.kv.head_dim) as u64;
        positions as u64 * (self.step.cache.0.bytes(width) + self.step.cache.1.bytes(width))
    }

    /// Tensors that an op itself reads, and its bytes.
    fn own(&self, op: &Op) -> (Vec<Weight>, Bytes) {
        let Step { rows, depth, .. } = self.step;
        let (mut weights, mut cache) = (Vec::new(), 0);
        let mut part = 1.0; // of the weights
        let activations = match op {
            Op::Embed { weight, out } => {
                weights.push(*weight);
                part = rows as f64 / self.plan.weights[weight.0].rows as f64;
                self.value(*out)
            }
            Op::RmsNorm { weight, out, .. } => {
                weights.push(*weight);
                2 * self.value(*out)
            }
            Op::MatMul { x, parts, add, out } => {
                weights.extend(parts.iter().map(|p| p.weight).chain(parts.iter().filter_map(|p| p.bias)));
                self.value(*x) + self.value(*out) * (1 + u64::from(*add))
            }
            Op::GatedMatMul { x, gate, up, out } => {
                weights.extend([Some(gate.weight), Some(up.weight), gate.bias, up.bias].into_iter().flatten());
                self.value(*x) + self.value(*out)
            }
            Op::Route { logits, scales, out, .. } => {
                weights.extend(scales.iter().flatten());
                self.value(*logits) + self.value(*out)
            }
            Op::GatedExperts { x, route, chosen, gate, up, out } => {
                weights.extend([*gate, *up]);
                part = (rows * chosen.used).min(chosen.experts) as f64 / chosen.experts as f64;
                self.value(*x) + self.value(*route) + self.value(*out)
            }
            Op::ExpertsAdd { x, route, chosen, down, out } => {
                weights.push(*down);
                part = (rows * chosen.used).min(chosen.experts) as f64 / chosen.experts as f64;
                self.value(*x) + self.value(*route) + 2 * self.value(*out)
            }
            Op::RopeKv { qkv, cache: c, q_norm, k_norm, .. } => {
                weights.extend([q_norm, k_norm].into_iter().flatten());
                cache = self.entries(rows);
                self.value(*qkv) + (4 * c.heads * c.head_dim * rows) as u64
            }
            Op::Attend { out, .. } => {
                cache = self.entries(if self.step.parallel { rows * (depth + 1) } else { depth + rows });
                self.queries(op) + self.value(*out)
            }
            Op::Sample { logits } => self.value(*logits) + 4,
        };
        let stored: u64 = weights.iter().map(|w| self.stored(*w)).sum();
        let bytes = Bytes { weights: (stored as f64 * part).round() as u64, cache, activations };
        (weights, bytes)
    }

    /// The matrices of a product.
    fn matrices(&self, op: &Op) -> Vec<Weight> {
        match op {
            Op::Embed { weight, .. } => vec![*weight],
            Op::MatMul { parts, .. } => parts.iter().map(|p| p.weight).collect(),
            Op::GatedMatMul { gate, up, .. } => vec![gate.weight, up.weight],
            Op::GatedExperts { gate, up, .. } => vec![*gate, *up],
            Op::ExpertsAdd { down, .. } => vec![*down],
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
            Op::Sample { .. } => "sample".into(),
            Op::MatMul { out, .. } if *out == self.plan.logits => "output".into(),
            _ => {
                let matrices = self.matrices(op);
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
        }
    }

    fn types(&self, op: &Op) -> String {
        let mut names: Vec<&str> = self.matrices(op).iter().map(|w| self.plan.weights[w.0].format.name).collect();
        names.dedup();
        names.join("+")
    }
}
