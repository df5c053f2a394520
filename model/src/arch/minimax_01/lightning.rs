//! MiniMax's lightning attention: queries, keys and values side by side in each head, a state per head that fades at a rate of its
//! own, a norm of all heads and a gate.

use crate::decoder::{Family, LayerSpec, Mixer, MixerSpec, Rows};
use crate::weights::Weights;
use pumex_plan::{
    Act, Arg, Builder, Cols, General, Join, LayerState, MatPart, NormKind, RecurrentSpec, Scan, ScanKind, Val, Weight,
};

/// Lightning attention.
#[derive(Debug)]
pub struct Lightning;

impl MixerSpec for Lightning {
    fn state(&self, _f: &Family, l: &LayerSpec) -> LayerState {
        LayerState::Recurrent(RecurrentSpec { parts: vec![("state", vec![l.heads, l.k_dim, l.k_dim])] })
    }

    fn declare(&self, w: &mut Weights<'_>, f: &Family, i: usize) -> Box<dyn Mixer> {
        Box::new(LightningWeights::declare(w, f, i))
    }

    /// Which is the norm of what heads give.
    fn has_norm_2(&self) -> bool {
        true
    }
}

/// Weights of a layer.
struct LightningWeights {
    /// `[heads * 3 * k_dim, dim]`: query, key and value of each head.
    qkv: MatPart,
    /// `[heads * k_dim, dim]`
    gate: MatPart,
    /// `[heads * k_dim]`
    norm: Weight,
    /// `[dim, heads * k_dim]`
    output: MatPart,
    /// What heads fade by: which of the plan's tables.
    table: usize,
}

impl LightningWeights {
    /// Declares `blk.N.attn_{qkv,gate,norm_2,output}`.
    fn declare(w: &mut Weights<'_>, f: &Family, i: usize) -> LightningWeights {
        let (l, dim) = (&f.layers[i], f.c.n_embd);
        let (name, inner) = (|part: &str| format!("blk.{i}.attn_{part}"), l.heads * l.k_dim);
        LightningWeights {
            qkv: w.linear(&name("qkv"), 3 * inner, dim),
            gate: w.linear(&name("gate"), inner, dim),
            norm: w.vector(&name("norm_2.weight"), inner),
            output: w.linear_unscaled(&name("output"), dim, inner),
            table: i,
        }
    }
}

impl Mixer for LightningWeights {
    fn output(&self) -> MatPart {
        self.output
    }

    /// Normed rows `[n, dim]` → `[n, heads * k_dim]`.
    fn run(&self, p: &mut Builder, f: &Family, rows: Rows<'_>) -> Val {
        let (heads, hd, h, layer) = (rows.layer.heads, rows.layer.k_dim, rows.h, rows.state);
        let qkv = p.matmul("qkv", h, vec![self.qkv]);
        let all = p.all(qkv);
        p.map_into(all, (1, all.stride), (Act::Silu, Arg::Cols(all), 1.0), (Join::Add, Arg::Number(0.0)));
        let fades = p.parts("fades", heads);
        let decay = Cols { val: fades, at: 0, stride: 1 };
        let table = (Act::Same, Arg::Table(self.table), 1.0);
        p.map_into(p.all(fades), (1, heads), table, (Join::Add, Arg::Number(0.0)));
        let y = p.parts("lightning", heads * hd);
        let part = |j: usize| Cols { val: qkv, at: j * hd, stride: 3 * hd };
        p.general(General::Scan(Scan {
            kind: ScanKind::Gla,
            heads,
            v_dim: hd,
            k_dim: hd,
            groups: heads,
            tiled: false,
            q: part(0),
            k: part(1),
            v: part(2),
            decay: Some(decay),
            decay_per_column: false,
            rate: None,
            a: None,
            b: None,
            factor: None,
            soft: None,
            skip: None,
            scale: 1.0,
            layer,
            at: 0,
            out: Cols { val: y, at: 0, stride: hd },
        }));
        let y = p.normalize(NormKind::Rms, y, Some(self.norm), None, f.c.eps);
        let gate = p.matmul("gate", h, vec![self.gate]);
        let (all, by) = (p.all(y), Arg::Cols(p.all(gate)));
        p.map_into(all, (1, heads * hd), (Act::Sigmoid, by, 1.0), (Join::Mul, Arg::Cols(all)));
        y
    }
}

/// What each of `heads` fades by from row to row, in layer `i` of `n`: powers as of ALiBi, weaker from layer to layer.
pub fn fades(heads: usize, i: usize, n: usize) -> Vec<f32> {
    let by = 1.0 - i as f64 / (n - 1).max(1) as f64 + 1e-5;
    let slope = |head: usize| 2f64.powf(-8.0 * (head + 1) as f64 / heads as f64);
    (0..heads).map(|head| (-slope(head) * by).exp() as f32).collect()
}
