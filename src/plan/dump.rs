//! The plan as text, a line per op, for snapshots and review.

use super::{MatPart, Op, Plan, Rows, Val, Weight};
use std::fmt::{self, Display};

impl Plan {
    fn val(&self, v: Val) -> String {
        let info = &self.values[v.0];
        let rows = match info.rows {
            Rows::Step => "n",
            Rows::Wanted => "w",
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
}

impl Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kv = self.kv;
        writeln!(f, "{}: kv {} x {} x {}, vocab {}", self.arch, kv.layers, kv.kv_heads, kv.head_dim, self.n_vocab)?;
        for op in &self.ops {
            match op {
                Op::Embed { weight, out } => writeln!(f, "{} = embed {}", self.val(*out), self.weight(*weight))?,
                Op::RmsNorm { x, weight, eps, out } => writeln!(
                    f,
                    "{} = rms_norm {} * {} eps {eps:e}",
                    self.val(*out),
                    self.val(*x),
                    self.weight(*weight)
                )?,
                Op::MatMul { x, parts, add, out } => {
                    let parts: Vec<String> = parts.iter().map(|p| self.part(p)).collect();
                    let sign = if *add { "+=" } else { "=" };
                    writeln!(f, "{} {sign} matmul {} by {}", self.val(*out), self.val(*x), parts.join(", "))?
                }
                Op::GatedMatMul { x, gate, up, out } => writeln!(
                    f,
                    "{} = silu-gated {} by {}, {}",
                    self.val(*out),
                    self.val(*x),
                    self.part(gate),
                    self.part(up)
                )?,
                Op::Route { logits, chosen, out, .. } => {
                    let (out, logits) = (self.val(*out), self.val(*logits));
                    writeln!(f, "{out} = route {logits} to {} of {}", chosen.used, chosen.experts)?
                }
                Op::GatedExperts { x, route, gate, up, out, .. } => writeln!(
                    f,
                    "{} = silu-gated {} by {} of {}, {}",
                    self.val(*out),
                    self.val(*x),
                    self.val(*route),
                    self.weight(*gate),
                    self.weight(*up)
                )?,
                Op::ExpertsAdd { x, route, down, out, .. } => writeln!(
                    f,
                    "{} += matmul {} by {} of {}",
                    self.val(*out),
                    self.val(*x),
                    self.val(*route),
                    self.weight(*down)
                )?,
                Op::RopeKv { qkv, cache, rope, q_norm, k_norm } => {
                    let norms: Vec<String> = [q_norm, k_norm].into_iter().flatten().map(|w| self.weight(*w)).collect();
                    let style = format!("{:?}", rope.style).to_lowercase();
                    let (q, layer) = (self.val(*qkv), cache.layer);
                    writeln!(f, "{q}, kv{layer} = rope {style} {} {}", rope.dims, norms.join(" "))?
                }
                Op::Attend { qkv, cache, scale, out } => writeln!(
                    f,
                    "{} = attend {} kv{} heads {}/{} x {} scale {scale}",
                    self.val(*out),
                    self.val(*qkv),
                    cache.layer,
                    cache.heads,
                    cache.kv_heads,
                    cache.head_dim
                )?,
                Op::Sample { logits } => writeln!(f, "ids[w] = sample {}", self.val(*logits))?,
            }
        }
        Ok(())
    }
}
