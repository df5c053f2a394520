//! The plan as text, a line per op, for snapshots and review.

use super::{AttentionSpec, KvSpec, LayerState, Mask, MatPart, Norm, Op, Plan, RopeNorm, Rows, Val, Weight};
use std::fmt::{self, Display};

impl Plan {
    fn val(&self, v: Val) -> String {
        let info = &self.values[v.0];
        let rows = match info.rows {
            Rows::Step => "n",
            Rows::Output => "w",
        };
        format!("{}{}[{rows}, {}]", info.name, v.0, info.width)
    }

    fn weight(&self, w: Weight) -> String {
        let info = &self.weights[w.0];
        format!("{}[{}, {}]:{}", info.name, info.rows, info.cols, info.format.name)
    }

    fn part(&self, p: &MatPart) -> String {
        match p.bias {
            Some(b) => format!("{} + {}", self.weight(p.weight), self.weight(b)),
            None => self.weight(p.weight),
        }
    }

    /// An input, with the norm that the op does to it.
    fn input(&self, x: Val, norm: &Option<Norm>) -> String {
        match norm {
            Some(n) => format!("norm({} * {} eps {:e})", self.val(x), self.weight(n.weight), n.eps),
            None => self.val(x),
        }
    }

    fn rope(&self, r: &RopeNorm) -> String {
        let norms: Vec<String> = [r.q_norm, r.k_norm].into_iter().flatten().map(|w| self.weight(w)).collect();
        let style = format!("{:?}", r.rope.style).to_lowercase();
        let table = if r.rope.table > 0 { format!("table {} ", r.rope.table) } else { String::new() };
        format!("rope {style} {} {table}{}", r.rope.dims, norms.join(" "))
    }

    fn rules(&self, s: &AttentionSpec) -> String {
        let mut rules = match s.mask {
            Mask::Causal => String::new(),
            Mask::Window(n) => format!(" window {n}"),
            Mask::Chunk(n) => format!(" chunk {n}"),
            Mask::Full => " full".into(),
        };
        rules += &s.soft_cap.map_or(String::new(), |cap| format!(" soft cap {cap}"));
        rules += &s.sinks.map_or(String::new(), |w| format!(" sinks {}", self.weight(w)));
        rules + &s.alibi.map_or(String::new(), |bias| format!(" alibi {bias}"))
    }

    /// What layers keep: runs of layers that keep the same.
    fn states(&self) -> String {
        let one = |state: &LayerState| match state {
            LayerState::Nothing => "nothing".to_string(),
            LayerState::KeysValues(KvSpec { kv_heads, k_dim, v_dim, window }) => {
                let widths = if k_dim == v_dim { k_dim.to_string() } else { format!("({k_dim}, {v_dim})") };
                let window = window.map_or(String::new(), |n| format!(" window {n}"));
                format!("kv {kv_heads} x {widths}{window}")
            }
            LayerState::Recurrent(spec) => format!("recurrent {}", spec.elements()),
        };
        let runs = self.layers.chunk_by(|a, b| a == b);
        runs.map(|run| format!("{} x {}", run.len(), one(&run[0]))).collect::<Vec<_>>().join(", ")
    }

    /// An op of the plan as a line.
    pub fn line(&self, op: &Op) -> String {
        match op {
            Op::Embed { weight, out } => format!("{} = embed {}", self.val(*out), self.weight(*weight)),
            Op::RmsNorm { x, weight, eps, out } => {
                let (out, x, weight) = (self.val(*out), self.val(*x), self.weight(*weight));
                format!("{out} = rms_norm {x} * {weight} eps {eps:e}")
            }
            Op::MatMul { x, norm, parts, add, out } => {
                let parts: Vec<String> = parts.iter().map(|p| self.part(p)).collect();
                let sign = if *add { "+=" } else { "=" };
                format!("{} {sign} matmul {} by {}", self.val(*out), self.input(*x, norm), parts.join(", "))
            }
            Op::GatedMatMul { x, norm, gate, up, out } => {
                let (gate, up) = (self.part(gate), self.part(up));
                format!("{} = silu-gated {} by {gate}, {up}", self.val(*out), self.input(*x, norm))
            }
            Op::Route { logits, router, top_k, out, .. } => {
                let from = match router {
                    Some(r) => format!("{} by {}", self.input(r.x, &r.norm), self.part(&r.part)),
                    None => self.val(*logits),
                };
                format!("{} = route {from} to {} of {}", self.val(*out), top_k.k, top_k.n_expert)
            }
            Op::GatedExperts { x, norm, route, gate, up, out, .. } => {
                let (gate, up) = (self.weight(*gate), self.weight(*up));
                let (x, route) = (self.input(*x, norm), self.val(*route));
                format!("{} = silu-gated {x} by {route} of {gate}, {up}", self.val(*out))
            }
            Op::ExpertsAdd { x, route, down, out, .. } => {
                let (x, route, down) = (self.val(*x), self.val(*route), self.weight(*down));
                format!("{} += matmul {x} by {route} of {down}", self.val(*out))
            }
            Op::RopeKv { qkv, spec, rope } => format!("{}, kv{} = {}", self.val(*qkv), spec.layer, self.rope(rope)),
            Op::Attend { qkv, rope, spec, scale, out } => {
                let rotated = rope.as_ref().map_or(String::new(), |r| format!("{}, ", self.rope(r).trim_end()));
                let (out, qkv) = (self.val(*out), self.val(*qkv));
                let heads = format!("heads {}/{} x {}", spec.heads, spec.kv_heads, spec.head_dim);
                format!("{out} = {rotated}attend {qkv} kv{} {heads} scale {scale}{}", spec.layer, self.rules(spec))
            }
            Op::Sample { logits } => format!("ids[w] = sample {}", self.val(*logits)),
        }
    }
}

impl Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}, vocab {}", self.arch, self.states(), self.n_vocab)?;
        self.ops.iter().try_for_each(|op| writeln!(f, "{}", self.line(op)))
    }
}
