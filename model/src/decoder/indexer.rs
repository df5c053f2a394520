//! What chooses the positions that a row attends to: heads of its own, scores of blocks of positions, and keys that are kept beside
//! the layer's. Layers without one take what an earlier layer chose.

use super::{Family, LayerSpec};
use crate::config::Reader;
use crate::weights::Weights;
use pumex_gguf::Result;
use pumex_plan::{
    Act, Arg, AttentionSpec, Builder, ChoosePositions, Chosen, Cols, General, Join, KvSpec, LayerState, MatPart,
    NormKind, Normalize, Pool, RecurrentSpec, Rope, RopeNorm, RopeStyle, Rotate, Val, Weight,
};

/// How keys of blocks come about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    /// Each position has one.
    Each,
    /// A softmax of gates over the block's positions, column by column.
    Gated,
    /// The mean of the block's positions, normed afterwards, as queries are; heads have no weights.
    Mean,
}

/// Sizes of an indexer.
#[derive(Clone, Copy, Debug)]
pub struct Indexer {
    /// Heads.
    pub heads: usize,
    /// Columns of a head.
    pub dim: usize,
    /// Rotated columns; 0 for none.
    pub rope: usize,
    /// Whether those are a head's last ones instead of its first.
    pub last: bool,
    /// Pairing of rotated columns.
    pub style: RopeStyle,
    /// Positions that are chosen.
    pub most: usize,
    /// Epsilon of the norms.
    pub eps: f32,
    /// Keys.
    pub keys: Keys,
    /// Positions in a block.
    pub every: usize,
}

/// Where a layer's choice comes from.
#[derive(Clone, Copy, Debug, Default)]
pub enum Index {
    /// There is none: all positions are seen.
    #[default]
    Nothing,
    /// Its own indexer.
    Own(Indexer),
    /// The last layer before it that has one, which is like this.
    Earlier(Indexer),
}

impl Index {
    /// The layer's own indexer.
    pub fn own(&self) -> Option<Indexer> {
        match self {
            Index::Own(indexer) => Some(*indexer),
            Index::Nothing | Index::Earlier(_) => None,
        }
    }

    /// What an attention may see of the list that it takes.
    pub fn choose(&self, list: Option<Val>) -> Option<Chosen> {
        match self {
            Index::Nothing => None,
            Index::Own(s) | Index::Earlier(s) => {
                Some(Chosen { list: list?, most: s.most, every: s.every, fills: s.keys == Keys::Mean })
            }
        }
    }
}

/// Weights of a layer's indexer.
pub struct Indexed {
    /// `[heads * dim, low rank or dim of rows]`
    q: MatPart,
    q_norm: Option<Weight>,
    /// `[dim, dim of rows]`
    k: MatPart,
    k_norm: [Option<Weight>; 2],
    /// `[heads, dim of rows]`
    weights: Option<MatPart>,
    /// `[dim, dim of rows]` and `[every, dim]`
    gate: Option<(MatPart, Weight)>,
    sizes: Indexer,
    /// Index of the keys among the plan's states.
    state: usize,
}

impl Indexer {
    /// Reads an indexer's sizes, whose heads rotate `rope` columns by pairs of `style`; a block is one position.
    ///
    /// # Errors
    /// `bad_hparam`.
    pub fn read(r: &Reader<'_>, keys: Keys, (rope, style): (usize, RopeStyle), eps: f32) -> Result<Indexer> {
        let dim = r.int("attention.indexer.key_length", None, rope.max(4) as u64, pumex_plan::MAX_HEAD_DIM as u64)?;
        if !dim.is_multiple_of(4) {
            return Err(r.bad("attention.indexer.key_length", "a multiple of 4", dim));
        }
        Ok(Indexer {
            heads: r.int("attention.indexer.head_count", None, 1, 1024)?,
            dim,
            rope,
            last: false,
            style,
            most: r.int("attention.indexer.top_k", None, 1, 1 << 20)?,
            eps,
            keys,
            every: 1,
        })
    }
}

impl Family {
    /// Gives layers that `attend` an indexer where `own` says so; others take the last one's choice.
    ///
    /// # Errors
    /// `bad_hparam`.
    pub fn index_layers(
        &mut self,
        r: &Reader<'_>,
        own: &[bool],
        indexer: Indexer,
        attend: impl Fn(&LayerSpec) -> bool,
    ) -> Result<()> {
        let mut any = false;
        for (i, layer) in self.layers.iter_mut().enumerate().filter(|(_, layer)| attend(layer)) {
            let own = own.get(i).copied().unwrap_or(true);
            if !own && !any {
                return Err(r.bad("attention.indexer.types", "an indexer in the first layer that attends", 0));
            }
            layer.index = if own { Index::Own(indexer) } else { Index::Earlier(indexer) };
            any |= own;
        }
        self.ignore_unused_indexers();
        Ok(())
    }

    /// Accepts tensors of indexers in layers that have none of their own.
    pub fn ignore_unused_indexers(&mut self) {
        let unused = self.layers.iter().enumerate().filter(|(_, layer)| layer.index.own().is_none());
        self.ignored.extend(unused.map(|(i, _)| format!("blk.{i}.indexer")));
    }

    /// What indexers keep, layer by layer: keys, and what keys of blocks are made of.
    pub(super) fn index_states(&self) -> Vec<LayerState> {
        let own = self.layers.iter().filter_map(|l| l.index.own());
        own.flat_map(|s| {
            let keys = LayerState::KeysValues(KvSpec { kv_heads: 1, k_dim: s.dim, v_dim: 0, window: None });
            let parts = vec![("index_rows", vec![s.every, 2 * s.dim])];
            let rows = (s.keys != Keys::Each).then_some(LayerState::Recurrent(RecurrentSpec { parts }));
            std::iter::once(keys).chain(rows)
        })
        .collect()
    }

    /// Where the keys of layer `i`'s indexer are among states.
    fn index_state(&self, s: &Indexer, i: usize) -> usize {
        let before = self.layers.iter().take(i).filter(|l| l.index.own().is_some()).count();
        self.layer_states() + before * if s.keys == Keys::Each { 1 } else { 2 }
    }
}

impl Indexer {
    /// Norms groups of a value in place, by the weight and bias that there are.
    fn norm(&self, p: &mut Builder, x: Val, groups: usize, [weight, bias]: [Option<Weight>; 2]) {
        let kind = if self.keys == Keys::Mean { NormKind::Rms } else { NormKind::Layer };
        let (x, len, eps) = (Cols { val: x, at: 0, stride: self.dim }, self.dim, self.eps);
        p.general(General::Normalize(Normalize { kind, x, groups, len, weight, bias, gate: None, eps, out: x }));
    }
}

impl Indexed {
    /// Declares `blk.N.indexer.*`, if the layer has one; queries are products of `low` columns.
    pub fn declare(w: &mut Weights<'_>, f: &Family, i: usize, low: usize) -> Option<Indexed> {
        let s = f.layers[i].index.own()?;
        let (every, state) = (s.every, f.index_state(&s, i));
        let (name, dim) = (|part: &str| format!("blk.{i}.indexer.{part}"), f.c.n_embd);
        let vector = |w: &mut Weights<'_>, part: &str| w.opt_vector(&name(part), s.dim);
        if s.keys == Keys::Mean {
            return Some(Indexed {
                q: w.linear_unscaled(&name("q_proj"), s.heads * s.dim, low),
                q_norm: vector(w, "q_norm.weight"),
                k: w.linear_unscaled(&name("k_proj"), s.dim, dim),
                k_norm: [vector(w, "k_norm.weight"), None],
                weights: None,
                gate: None,
                sizes: s,
                state,
            });
        }
        let compressor = |part: &str| format!("blk.{i}.indexer_compressor_{part}");
        Some(Indexed {
            q: w.linear_unscaled(&name("attn_q_b"), s.heads * s.dim, low),
            q_norm: None,
            k: w.linear_unscaled(&name("attn_k"), s.dim, dim),
            k_norm: [vector(w, "k_norm.weight"), vector(w, "k_norm.bias")],
            weights: Some(w.linear_unscaled(&name("proj"), s.heads, dim)),
            gate: (s.keys == Keys::Gated).then(|| {
                let gate = w.linear_unscaled(&compressor("gate"), s.dim, dim);
                (gate, w.table(&compressor("ape.weight"), &[s.dim, every]))
            }),
            sizes: s,
            state,
        })
    }

    /// Keeps the keys of normed rows `h` `[n, dim]`, and chooses for queries of `low`: the list.
    pub fn run(&self, p: &mut Builder, f: &Family, l: &LayerSpec, (h, low): (Val, Val)) -> Option<Val> {
        let (s, layer) = (&self.sizes, self.state);
        let every = s.every;
        let table = l.rope.unwrap_or(0);
        let rope = Rope { style: s.style, dims: if l.rope.is_some() { s.rope } else { 0 }, table, norm_eps: s.eps };
        let magnitude = l.rope.map_or(1.0, |table| f.rotation.tables[table].scaling.magnitude);
        let turn = |p: &mut Builder, x: Val, groups: usize, every: usize| {
            let x = Cols { val: x, at: if s.last { s.dim - s.rope } else { 0 }, stride: s.dim };
            p.general(General::Rotate(Rotate {
                x,
                from: None,
                groups,
                rope,
                back: false,
                every: every as u32,
                magnitude,
                temperature: None,
                len: 0,
            }));
        };

        let k = self.block_keys(p, layer + 1, h);
        turn(p, k, 1, every);
        let kept = RopeNorm { rope: Rope { dims: 0, table: 0, ..rope }, q_norm: None, k_norm: None };
        p.rope_kv(k, AttentionSpec { heads: 0, v_dim: 0, ..AttentionSpec::causal(layer, 1, 1, s.dim) }, kept);

        let q = p.matmul("index_q", low, vec![self.q]); // [n, heads * dim]
        if let Some(weight) = self.q_norm {
            s.norm(p, q, s.heads, [Some(weight), None]);
        }
        turn(p, q, s.heads, 1);
        let scale = 1.0 / ((s.dim * s.heads) as f32).sqrt();
        let weights = self.weights.map(|part| p.matmul("index_weights", h, vec![MatPart { scale, ..part }]));
        let list = p.parts("chosen", 1);
        let chosen = l.index.choose(Some(list))?;
        p.widen(list, chosen.width());
        p.general(General::ChoosePositions(ChoosePositions {
            q: Cols { val: q, at: 0, stride: s.dim },
            weights: weights.map(|val| Cols { val, at: 0, stride: 1 }),
            heads: s.heads,
            dim: s.dim,
            layer,
            slots: f.c.n_ctx_train.div_ceil(every),
            chosen,
        }));
        Some(list)
    }

    /// Keys of blocks in the rows that end them, before their rotation, `[n, dim]`.
    fn block_keys(&self, p: &mut Builder, layer: usize, h: Val) -> Val {
        let s = &self.sizes;
        let (dim, every) = (s.dim, s.every);
        let k = p.matmul("index_k", h, vec![self.k]); // [n, dim]
        if s.keys != Keys::Mean {
            s.norm(p, k, 1, self.k_norm);
        }
        if s.keys == Keys::Each {
            return k;
        }
        let both = p.parts("index_rows", 2 * dim);
        p.copy_into(p.all(k), Cols { val: both, at: 0, stride: dim }, 1, dim);
        let scores = Cols { val: both, at: dim, stride: dim };
        match self.gate {
            Some((gate, _)) => {
                let gate = p.matmul("index_gate", h, vec![gate]);
                p.copy_into(p.all(gate), scores, 1, dim);
            }
            None => p.map_into(scores, (1, dim), (Act::Same, Arg::Number(0.0), 1.0), (Join::Add, Arg::Number(0.0))),
        }
        let pooled = p.parts("index_k", dim);
        let (x, place, out) = (p.all(both), self.gate.map(|(_, place)| place), p.all(pooled));
        p.general(General::Pool(Pool { x, place, every, overlaps: false, len: dim, layer, at: 0, out }));
        if s.keys == Keys::Mean {
            s.norm(p, pooled, 1, self.k_norm);
        }
        pooled
    }
}
