//! The plan as text, a line per op, for snapshots and review.

use super::{
    Arg, AttentionSpec, Cols, General, KvSpec, LayerState, Mask, MatPart, Norm, Op, Plan, RopeNorm, Rows, Val, Weight,
};
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
        let part = self.biased(p.weight, p.bias);
        if p.scale == 1.0 {
            part
        } else {
            format!("{} * {part}", p.scale)
        }
    }

    fn biased(&self, weight: Weight, bias: Option<Weight>) -> String {
        match bias {
            Some(b) => format!("{} + {}", self.weight(weight), self.weight(b)),
            None => self.weight(weight),
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
            Mask::Near(n) => format!(" near {n}"),
            Mask::Source => " source".into(),
            Mask::Answer => " answer".into(),
        };
        rules += &s.soft_cap.map_or(String::new(), |cap| format!(" soft cap {cap}"));
        rules += &s.sinks.map_or(String::new(), |w| format!(" sinks {}", self.weight(w)));
        rules += &s.alibi.map_or(String::new(), |bias| format!(" alibi {bias}"));
        rules += &s.biases.map_or(String::new(), |table| format!(" biases {table}"));
        rules + &s.chosen.map_or(String::new(), |chosen| format!(" of {}", self.val(chosen.list)))
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

    fn cols(&self, c: Cols) -> String {
        let at = if c.at > 0 { format!("@{}", c.at) } else { String::new() };
        format!("{}{at}", self.val(c.val))
    }

    fn arg(&self, arg: Arg) -> String {
        match arg {
            Arg::Cols(c) => self.cols(c),
            Arg::PerGroup(c) => format!("each {}", self.cols(c)),
            Arg::Weight(w) => self.weight(w),
            Arg::GroupWeight(w) => format!("each {}", self.weight(w)),
            Arg::Table(t) => format!("table {t}"),
            Arg::Number(x) => x.to_string(),
        }
    }

    /// An op beside those of the usual transformer.
    fn general(&self, g: &General) -> String {
        let weights: Vec<String> = g.clone().weights_mut().into_iter().map(|w| self.weight(*w)).collect();
        let with = if weights.is_empty() { String::new() } else { format!(" with {}", weights.join(", ")) };
        let out = self.val(g.output());
        match g {
            General::Map(m) => {
                let sign = format!("{:?}", m.join).to_lowercase();
                let (a, b, groups) = (self.arg(m.a), self.arg(m.b), format!("{} x {}", m.groups, m.len));
                format!("{} = {:?} {a} * {} {sign} {b}, {groups}", self.cols(m.out), m.act, m.scale)
            }
            General::Dot(d) => {
                let (a, b, groups) = (self.arg(d.a), self.arg(d.b), format!("{} x {}", d.groups, d.len));
                format!("{} = {:?} {a} dot {b} * {}, {groups}", self.cols(d.out), d.act, d.scale)
            }
            General::Normalize(n) => {
                let groups = format!("{} x {}", n.groups, n.len);
                let order = |g: super::NormGate| if g.first { "gated before" } else { "gated" };
                let gate =
                    n.gate.map_or(String::new(), |g| format!(" {} by {:?} {}", order(g), g.act, self.cols(g.cols)));
                let (out, x) = (self.cols(n.out), self.cols(n.x));
                format!("{out} = {} {x}{with} eps {:e}{gate}, {groups}", g.name(), n.eps)
            }
            General::Rotate(r) => {
                let style = format!("{:?}", r.rope.style).to_lowercase();
                let (back, dims, table) = (if r.back { " back" } else { "" }, r.rope.dims, r.rope.table);
                let more = r.temperature.map_or(String::new(), |t| format!(" temperature {} per {}", t.scale, t.floor));
                let what = format!("{style} {dims}{back} table {table} magnitude {}{more}", r.magnitude);
                let from = r.from.map_or(String::new(), |from| format!(" {}", self.cols(from)));
                format!("{} = rotate{from} {what}, {} groups", self.cols(r.x), r.groups)
            }
            General::Choose(c) => {
                let groups = c.groups.map_or(String::new(), |g| format!(" groups {}/{}", g.used, g.count));
                let (k, n, by) = (c.top_k.k, c.top_k.n_expert, c.gating);
                let sharing = if c.sharing > 1 { format!(" / {}", c.sharing) } else { String::new() };
                let with = c.bias.or(c.table).map_or(String::new(), |w| format!(" with {}", self.weight(w)));
                let from = match &c.router {
                    Some(r) => format!("{} by {}", self.input(r.x, &r.norm), self.part(&r.part)),
                    None => self.val(c.logits),
                };
                format!("{out} = choose {from} by {by:?}{with} to {k} of {n}{sharing}{groups} * {}", c.scale)
            }
            General::ById(b) => format!("{out} = by_id table {}", b.list),
            General::AdapterScales(s) => format!("{out} *= scales of adapters {}", s.list),
            General::TakeVectors(t) => {
                let sign = if t.add { "+=" } else { "=" };
                format!("{out} {sign} part {} of vectors", t.part)
            }
            General::ChoosePositions(c) => {
                let (q, k, heads) = (self.cols(c.q), c.layer, format!("heads {} x {}", c.heads, c.dim));
                let weights = c.weights.map_or(String::new(), |w| format!(" * {}", self.cols(w)));
                let (most, every) = (c.chosen.most, c.chosen.every);
                format!("{out} = choose_positions {q}{weights} kv{k} {heads} to {most} in blocks of {every}")
            }
            _ => {
                let reads: Vec<String> = g.reads().iter().filter_map(|a| self.read(a)).collect();
                format!("{out} = {} {}{with}", g.name(), reads.join(", "))
            }
        }
    }

    fn read(&self, access: &super::Access) -> Option<String> {
        match access {
            super::Access::Value(v) => Some(self.val(*v)),
            super::Access::State(layer) => Some(format!("state{layer}")),
            super::Access::Ids => None,
        }
    }

    /// An op of the plan as a line.
    pub fn line(&self, op: &Op) -> String {
        match op {
            Op::Embed { weight, instead, out } => {
                let instead = instead.map_or(String::new(), |list| format!(" ids by table {list}"));
                format!("{} = embed {}{instead}", self.val(*out), self.weight(*weight))
            }
            Op::RmsNorm { x, weight, eps, out } => {
                let (out, x, weight) = (self.val(*out), self.val(*x), self.weight(*weight));
                format!("{out} = rms_norm {x} * {weight} eps {eps:e}")
            }
            Op::MatMul { x, norm, parts, add, out } => {
                let parts: Vec<String> = parts.iter().map(|p| self.part(p)).collect();
                let sign = if *add { "+=" } else { "=" };
                format!("{} {sign} matmul {} by {}", self.val(*out), self.input(*x, norm), parts.join(", "))
            }
            Op::GatedMatMul { x, norm, gate, up, by, out } => {
                let (gate, up) = (self.part(gate), self.part(up));
                format!("{} = {by} {} by {gate}, {up}", self.val(*out), self.input(*x, norm))
            }
            Op::Route { logits, router, top_k, out, .. } => {
                let from = match router {
                    Some(r) => format!("{} by {}", self.input(r.x, &r.norm), self.part(&r.part)),
                    None => self.val(*logits),
                };
                format!("{} = route {from} to {} of {}", self.val(*out), top_k.k, top_k.n_expert)
            }
            Op::GatedExperts { x, norm, route, gate, up, biases, by, out, .. } => {
                let [gate, up] = [(gate, biases[0]), (up, biases[1])].map(|(w, bias)| self.biased(*w, bias));
                let (x, route) = (self.input(*x, norm), self.val(*route));
                format!("{} = {by} {x} by {route} of {gate}, {up}", self.val(*out))
            }
            Op::ExpertsAdd { x, route, down, bias, out, .. } => {
                let (x, route, down) = (self.val(*x), self.val(*route), self.biased(*down, *bias));
                format!("{} += matmul {x} by {route} of {down}", self.val(*out))
            }
            Op::RopeKv { qkv, spec, rope } => format!("{}, kv{} = {}", self.val(*qkv), spec.layer, self.rope(rope)),
            Op::Attend { qkv, rope, spec, scale, out } => {
                let rotated = rope.as_ref().map_or(String::new(), |r| format!("{}, ", self.rope(r).trim_end()));
                let (out, qkv) = (self.val(*out), self.val(*qkv));
                let heads = format!("heads {}/{} x {}", spec.heads, spec.kv_heads, spec.head_dim);
                format!("{out} = {rotated}attend {qkv} kv{} {heads} scale {scale}{}", spec.layer, self.rules(spec))
            }
            Op::General(g) => self.general(g),
            Op::Sample { logits } => format!("ids[w] = sample {}", self.val(*logits)),
        }
    }
}

impl Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}, vocab {}", self.arch, self.states(), self.n_vocab)?;
        for (i, op) in self.ops.iter().enumerate() {
            if let Some(encoder) = self.encoder.filter(|encoder| encoder.ops == i) {
                writeln!(f, "decoder, from id {}:", encoder.start)?;
            }
            writeln!(f, "{}", self.line(op))?;
        }
        Ok(())
    }
}
