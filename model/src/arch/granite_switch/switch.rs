//! Adapters that rows choose: an id in the text turns one on for the rows that follow. A head of attention, whose keys tell such
//! ids from all others and whose values are the adapters' numbers, says which one a row has.

use crate::decoder::{Decoder, Family, Forward, Stack};
use crate::weights::Weights;
use pumex_plan::{
    Act, Arg, AttentionSpec, Builder, ById, ByRow, Cols, General, Join, KvSpec, LayerState, LowRank, Rope, RopeNorm,
    TopK, Val, Weight,
};

/// The ids, and sizes of the adapters.
#[derive(Clone, Debug)]
pub struct Switch {
    /// Those that turn the adapters on, in order.
    pub ids: Vec<usize>,
    /// Whose rows of the embedding stand for theirs.
    pub instead: Vec<usize>,
    /// Size of the scores, either way.
    pub gain: f32,
    /// Rank of the adapters.
    pub rank: usize,
}

/// Halves are rounded up.
const UP: f32 = 1e-4;

impl Switch {
    /// Tables of [`Switch::numbers`].
    const INSTEAD: usize = 0;
    const SIGNALS: usize = 1;
    const CHOICES: usize = 2;

    /// Numbers of the plan: ids and those that stand for them; q, k and v by id; what a row's number is compared with.
    pub fn numbers(&self, width: usize) -> Vec<Vec<f32>> {
        let signal = |id: f32, gain: f32, choice: usize| {
            let mut entry = vec![0.0; 1 + 3 * width];
            (entry[0], entry[1], entry[1 + width], entry[1 + 2 * width]) = (id, 1.0, gain, choice as f32);
            entry
        };
        let pairs = self.ids.iter().zip(&self.instead).flat_map(|(id, by)| [*id as f32, *by as f32]);
        let told = self.ids.iter().enumerate().flat_map(|(i, id)| signal(*id as f32, self.gain, i + 1));
        let choices = (0..=self.ids.len()).map(|i| UP - i as f32);
        vec![pairs.collect(), signal(-1.0, -self.gain, 0).into_iter().chain(told).collect(), choices.collect()]
    }

    /// Declares `blk.N.*.lora_{a,b}`, of which the first choice is that of rows without an adapter.
    fn pairs(&self, w: &mut Weights<'_>, f: &Family) -> Vec<LowRank> {
        let n_vocab = w.vocab_rows();
        if let Some(bad) = self.instead.iter().find(|id| **id >= n_vocab) {
            let what = format!("adapters.token_ids_substitute: expected ids below {n_vocab}, found {bad}");
            w.problem("bad_hparam", what);
        }
        let (choices, dim) = (self.ids.len() + 1, f.c.n_embd);
        let mut pairs = Vec::new();
        for (i, l) in f.layers.iter().enumerate() {
            let (q, k, v) = (l.heads * l.k_dim, l.kv_heads * l.k_dim, l.kv_heads * l.v_dim);
            let sites = [
                ("attn_q", "attn_qkv", 0, q, dim),
                ("attn_k", "attn_qkv", q, k, dim),
                ("attn_v", "attn_qkv", q + k, v, dim),
                ("attn_output", "attn_output", 0, dim, l.heads * l.v_dim),
                ("ffn_gate", "ffn_gate", 0, l.ffn.width, dim),
                ("ffn_up", "ffn_up", 0, l.ffn.width, dim),
                ("ffn_down", "ffn_down", 0, dim, l.ffn.width),
            ];
            for (name, of, at, rows, cols) in sites {
                let a = w.heads(&format!("blk.{i}.{name}.lora_a"), choices, self.rank, cols);
                let b = w.heads(&format!("blk.{i}.{name}.lora_b"), choices, rows, self.rank);
                pairs.push(LowRank { of: format!("blk.{i}.{of}.weight"), at, a, b });
            }
        }
        pairs
    }
}

impl Stack for Switch {
    fn states(&self, f: &Family) -> Vec<LayerState> {
        vec![LayerState::KeysValues(KvSpec { kv_heads: 1, k_dim: f.c.k_dim, v_dim: f.c.k_dim, window: None })]
    }

    fn declare(&self, w: &mut Weights<'_>, f: &Family) -> Box<dyn Forward> {
        Box::new(Switched { adapters: self.ids.len(), pairs: self.pairs(w, f) })
    }
}

/// Layers whose products have adapters.
struct Switched {
    adapters: usize,
    pairs: Vec<LowRank>,
}

impl Forward for Switched {
    fn embed(&self, p: &mut Builder, embedding: Weight) -> Val {
        p.embed_instead(embedding, Switch::INSTEAD)
    }

    fn run(&self, p: &mut Builder, f: &Family, d: &Decoder, x: Val) -> Val {
        self.choose(p, f);
        d.layers(p, f, x)
    }
}

impl Switched {
    /// Finds each row's choice, by which all products from then on go.
    fn choose(&self, p: &mut Builder, f: &Family) {
        let (width, n) = (f.c.k_dim, self.adapters);
        let qkv = p.parts("signals", 3 * width);
        p.general(General::ById(ById { list: Switch::SIGNALS, len: 3 * width, out: qkv }));
        let spec = AttentionSpec::causal(f.c.n_layer, 1, 1, width);
        let rope = Rope { style: f.rotation.style, dims: 0, table: 0, norm_eps: f.c.eps };
        p.rope_kv(qkv, spec, RopeNorm { rope, q_norm: None, k_norm: None });
        let number = Arg::PerGroup(Cols { val: p.attend(qkv, spec, 1.0), at: 0, stride: 1 });
        // The nearest choice is that whose distance has the least square.
        let logits = p.parts("choices", n + 1);
        let (all, shape) = (p.all(logits), (1, n + 1));
        let clamped = (Act::Clamp(0.0, n as f32), number, 1.0);
        p.map_into(all, shape, clamped, (Join::Add, Arg::Table(Switch::CHOICES)));
        p.map_into(all, shape, (Act::Same, Arg::Cols(all), -1.0), (Join::Mul, Arg::Cols(all)));
        let top_k = TopK { n_expert: n + 1, k: 1 };
        let route = p.route(logits, top_k, f.residual.scale, [None; 3]);
        p.choose_by_row(ByRow { route, top_k, pairs: self.pairs.clone() });
    }
}
