//! The decoder that most families share: attention and a feed-forward block per layer, each with its norms, around a residual
//! stream. A family says where it differs; what its file's tensors say themselves is read off them.

mod altup;
mod attention;
mod beside;
mod block;
mod checkpoints;
mod compressed;
mod cycles;
mod delta;
mod dense;
mod experts;
mod ffn;
mod gated_streams;
mod grove;
mod head;
mod hyper;
mod indexer;
mod keys;
mod lightning;
mod limits;
mod mamba;
mod mixer;
mod mla;
mod norms;
mod per_layer;
mod plamo_mamba;
mod rwkv;
mod short_conv;
mod sliding;
mod streams;
mod switch;
mod tables;
mod values;
mod vectors;

use super::config::{Config, Reader, Scaling};
use super::weights::Weights;
use block::Block;
pub use compressed::Blocks;
pub use cycles::Cycles;
pub use gated_streams::GatedStreams;
pub use grove::Grove;
use head::Head;
pub use hyper::Connections;
pub use indexer::{Index, Indexer, Keys};
pub use lightning::fades;
pub use limits::Limits;
pub use mixer::{Mix, Recurrent};
pub use mla::Sizes as MlaSizes;
pub use norms::LayerNorm;
use pumex_gguf::{Gguf, Result};
use pumex_plan::{
    Act, Builder, Gating, Groups, LayerState, Mask, MatPart, NormKind, Plan, RopeStyle, Sections, Temperature, TopK,
    Val,
};
pub use sliding::SlidingRope;
pub use switch::Switch;
pub use vectors::Vectors;

/// Where a layer's feed-forward block takes its input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Parallel {
    /// After attention, through a norm of its own.
    #[default]
    No,
    /// Beside attention, from the same normed rows.
    Shared,
    /// Beside attention, through a norm of its own.
    Own,
    /// After attention, from what that gives alone.
    Given,
}

/// A layer's attention and feed-forward block.
#[derive(Clone, Copy, Debug)]
pub struct Layer {
    /// What rows are mixed with, one or two beside each other; none, nothing.
    pub mix: [Option<Mix>; 2],
    /// The layer whose keys and values it reads, where it has none of its own.
    pub kv_of: Option<usize>,
    /// Query heads; 0 if the layer has no attention.
    pub heads: usize,
    /// Key/value heads.
    pub kv_heads: usize,
    /// Elements of a query's and a key's head.
    pub k_dim: usize,
    /// Elements of a value's head.
    pub v_dim: usize,
    /// Positions a row sees.
    pub mask: Mask,
    /// Index of its table of frequencies; none rotates nothing.
    pub rope: Option<usize>,
    /// Whether queries are scaled by position.
    pub temperature: bool,
    /// Width of the feed-forward block; 0 if there is none.
    pub n_ff: usize,
    /// Whether it is one of experts.
    pub experts: bool,
    /// Rows of a block, of attention over blocks; 0 for none.
    pub n_block: usize,
    /// What chooses the positions that a row sees.
    pub index: Index,
}

/// A table of frequencies.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    /// Rotated elements per head.
    pub dims: usize,
    /// Base of the series.
    pub base: f32,
    /// Scaling.
    pub scaling: Scaling,
    /// Whether the file's factors apply to it.
    pub factors: bool,
}

/// How rows reach experts, and what those do.
#[derive(Clone, Debug)]
pub struct Moe {
    /// What logits become.
    pub gating: Gating,
    /// Whether weights are made to sum up to 1.
    pub normalized: bool,
    /// Of the weights.
    pub scale: f32,
    /// Groups of experts.
    pub groups: Option<Groups>,
    /// Of the gate.
    pub act: Act,
    /// Whether rows are weighted before the experts instead of after them.
    pub weighs_input: bool,
    /// Whether the router looks at the layer's input, before any norm.
    pub by_residual: bool,
    /// What the sum of experts and of the block beside them is multiplied with, if that is not one.
    pub average: Option<f32>,
    /// Whether the block beside the experts is the layer's dense one.
    pub dense_beside: bool,
    /// Whether experts and the dense block beside them have norms of their own.
    pub own_norms: bool,
    /// Limits of gate and up, by layer, of experts and of blocks that all rows take.
    pub limits: [Option<Limits>; 2],
    /// Small experts after the usual ones.
    pub grove: Option<Grove>,
    /// So many first layers' experts follow from a row's id.
    pub by_id: usize,
    /// Columns of what experts work on, between products down and up; 0 if that is the normed rows.
    pub latent: usize,
    /// What is multiplied with a gate, here and in other blocks, becomes `cap * tanh(x / cap)`.
    pub up_cap: Option<f32>,
}

/// A family: what differs between decoders. [`Family::of`] gives llama's.
#[derive(Clone, Debug)]
pub struct Family {
    /// Hyper-parameters.
    pub c: Config,
    /// The layers.
    pub layers: Vec<Layer>,
    /// Tables of frequencies.
    pub tables: Vec<Table>,
    /// Pairing of rotated elements.
    pub style: RopeStyle,
    /// Where rows of pictures rotate by several positions: which pairs by which.
    pub sections: Option<Sections>,
    /// Of rows, and of q and k.
    pub norm: NormKind,
    /// Parts of a row that its norms take apart.
    pub norm_groups: usize,
    /// Whether rows are normed before attention and feed-forward block.
    pub pre_norms: bool,
    /// Whether `post_attention_norm` and `post_ffw_norm` are norms of what a block gives.
    pub post_norms: bool,
    /// Name of the norm before the feed-forward block.
    pub ffn_norm: &'static str,
    /// Where the feed-forward block takes its input.
    pub parallel: Parallel,
    /// Of the gate, or of the product with `ffn_up` where there is no gate.
    pub act: Act,
    /// As `act`, by layer, where layers differ.
    pub acts: Vec<Act>,
    /// Norms of q and k, where they are of another kind than those of rows: the kind, and its epsilon.
    pub qk_norm: Option<(NormKind, f32)>,
    /// Whether heads have norms of their own, which the file has one after the other.
    pub qk_norm_by_head: bool,
    /// Whether norms of q and k come after their rotation.
    pub qk_norm_after: bool,
    /// Whether q and k are normed without weights after the rotation, where they rotate.
    pub qk_norm_plain: bool,
    /// Of scores; none takes the root of the head's width.
    pub attention_scale: Option<f32>,
    /// Of scores.
    pub attention_cap: Option<f32>,
    /// Largest bias of ALiBi.
    pub alibi: Option<f32>,
    /// Queries' factor by position.
    pub temperature: Option<Temperature>,
    /// Limit of q, k and v.
    pub clamp_kqv: Option<f32>,
    /// Of the embedding.
    pub embedding_scale: f32,
    /// What rows that are vectors give and see.
    pub vectors: Vectors,
    /// Of what blocks add to the residual stream.
    pub residual_scale: f32,
    /// Blocks add to what norms gave them, times this, instead of to what came into the norms.
    pub residual_of_norms: Option<f32>,
    /// Of the logits.
    pub logit_scale: f32,
    /// Of the logits.
    pub logit_cap: Option<f32>,
    /// Ids that are never next: from one, up to another.
    pub masked_ids: (usize, usize),
    /// Experts.
    pub moe: Moe,
    /// Sizes of recurrent layers.
    pub recurrent: Recurrent,
    /// Sizes of latent attention.
    pub mla: MlaSizes,
    /// Those of layers with a window, where they differ.
    pub mla_sliding: Option<MlaSizes>,
    /// Sizes of attention over compressed blocks.
    pub blocks: Blocks,
    /// Sizes of what chooses the positions that rows see, if something does.
    pub indexer: Option<Indexer>,
    /// Residual streams that blocks take of and give to, if there are several.
    pub connections: Option<Connections>,
    /// Likewise, by gates of each column.
    pub gated_streams: Option<GatedStreams>,
    /// The residual stream begins anew every so many layers, and blocks see what it was before, too; 0 for never.
    pub checkpoint_every: usize,
    /// Whether queries come with a gate of what heads give, side by side.
    pub q_gated: bool,
    /// Of the product after attention.
    pub attention_out_scale: f32,
    /// Names of the norms of what attention and feed-forward block give.
    pub post_norm_names: [&'static str; 2],
    /// Whether values are normed, without weights.
    pub v_norm: bool,
    /// Experts that give values, and how many of them a row uses; none, one product.
    pub value_experts: Option<TopK>,
    /// Columns of an embedding for each layer; 0 for none.
    pub per_layer: usize,
    /// Whether those follow from the embedded rows alone, instead of from ids too.
    pub per_layer_projected: bool,
    /// Name of the last norm.
    pub output_norm: &'static str,
    /// Whether norms have no weights.
    pub bare_norms: bool,
    /// Whether embedded rows are normed, without weights.
    pub embedding_norm: bool,
    /// Whether `layer_output_scale` is a factor of the embedding, which is added, instead of one of what the layer gives.
    pub embedding_skip: bool,
    /// Epsilon of the norms of what blocks give, where it is one of their own.
    pub post_eps: Option<f32>,
    /// How often the layers are gone through, with weights that are the same and states that are not.
    pub loops: usize,
    /// Whether the last norm stands between the rounds too.
    pub loop_norm: bool,
    /// Two stacks of layers that are gone through in turn.
    pub cycles: Option<Cycles>,
    /// Tables that layers read.
    pub numbers: Vec<Vec<f32>>,
    /// Adapters that rows choose.
    pub switch: Option<Switch>,
    /// What becomes of the gate of what heads give.
    pub gate_act: Act,
    /// What that gate is multiplied with before, and divided by afterwards.
    pub gate_scale: f32,
    /// Layers halve what they give each so many; 0 for never.
    pub halve_every: usize,
    /// Residual streams.
    pub streams: usize,
    /// So many first layers have gates that are less than so many deviations above their mean cut off.
    pub sparse_layers: (usize, f32),
    /// Positions of a sequence among which an indexer, which is not computed, would choose none; none without an indexer.
    pub dense_positions: Option<usize>,
    /// Prefixes of tensors that are not read.
    pub ignored: Vec<String>,
    /// Whether the plan gives embeddings: rows of the last norm, with no product after it.
    pub embeds: bool,
    /// Columns of embeddings after a product of their own; 0 for none.
    pub embeds_wide: usize,
}

impl Family {
    /// As llama.
    ///
    /// # Errors
    /// As [`Config::from_gguf`].
    pub fn of(gguf: &Gguf) -> Result<Family> {
        let c = Config::from_gguf(gguf)?;
        let layer = |i: usize| Layer {
            mix: [(c.n_head[i] > 0 && c.n_head_kv[i] > 0).then_some(Mix::Attention), None],
            kv_of: None,
            heads: c.n_head[i],
            kv_heads: c.n_head_kv[i],
            k_dim: c.k_dim,
            v_dim: c.v_dim,
            mask: if c.causal { Mask::Causal } else { Mask::Full },
            rope: (c.rope_dims > 0).then_some(0),
            temperature: false,
            n_ff: c.n_ff[i],
            experts: c.n_expert > 0,
            n_block: 0,
            index: Index::Nothing,
        };
        Ok(Family {
            layers: (0..c.n_layer).map(layer).collect(),
            tables: vec![Table { dims: c.rope_dims, base: c.rope_base, scaling: c.scaling, factors: true }],
            style: RopeStyle::Norm,
            sections: None,
            norm: NormKind::Rms,
            norm_groups: 1,
            pre_norms: true,
            post_norms: false,
            ffn_norm: "ffn_norm",
            parallel: Parallel::No,
            act: Act::Silu,
            acts: Vec::new(),
            qk_norm: None,
            qk_norm_by_head: false,
            qk_norm_after: false,
            qk_norm_plain: false,
            attention_scale: None,
            attention_cap: None,
            alibi: None,
            temperature: None,
            clamp_kqv: None,
            embedding_scale: 1.0,
            vectors: Vectors::default(),
            residual_scale: 1.0,
            residual_of_norms: None,
            logit_scale: 1.0,
            logit_cap: None,
            masked_ids: (0, 0),
            moe: Moe {
                gating: Gating::Softmax,
                normalized: true,
                scale: c.expert_scale,
                groups: None,
                act: Act::Silu,
                weighs_input: false,
                by_residual: false,
                average: None,
                dense_beside: false,
                own_norms: false,
                limits: [None, None],
                grove: None,
                by_id: 0,
                latent: 0,
                up_cap: None,
            },
            recurrent: Recurrent::default(),
            mla: MlaSizes::default(),
            mla_sliding: None,
            blocks: Blocks::default(),
            indexer: None,
            connections: None,
            gated_streams: None,
            checkpoint_every: 0,
            q_gated: false,
            attention_out_scale: 1.0,
            post_norm_names: ["post_attention_norm", "post_ffw_norm"],
            v_norm: false,
            value_experts: None,
            per_layer: 0,
            per_layer_projected: false,
            output_norm: "output_norm",
            bare_norms: false,
            embedding_norm: false,
            embedding_skip: false,
            post_eps: None,
            loops: 1,
            loop_norm: false,
            cycles: None,
            numbers: Vec::new(),
            switch: None,
            gate_act: Act::Sigmoid,
            gate_scale: 1.0,
            halve_every: 0,
            streams: 1,
            sparse_layers: (0, 0.0),
            dense_positions: None,
            ignored: (c.n_layer..c.n_layer_all)
                .map(|i| format!("blk.{i}."))
                .chain(["cls".into(), "dense_".into()])
                .collect(),
            embeds: false,
            embeds_wide: 0,
            c,
        })
    }

    /// As llama, with halves rotated.
    ///
    /// # Errors
    /// As [`Family::of`].
    pub fn neox(gguf: &Gguf) -> Result<Family> {
        Ok(Family { style: RopeStyle::Neox, ..Family::of(gguf)? })
    }

    /// With norms by mean and deviation.
    #[must_use]
    pub fn layer_norm(mut self) -> Family {
        self.c.eps = self.c.layer_eps;
        Family { norm: NormKind::Layer, ..self }
    }

    /// Without rotation.
    #[must_use]
    pub fn no_rope(mut self) -> Family {
        self.layers.iter_mut().for_each(|layer| layer.rope = None);
        self
    }

    /// File → plan.
    ///
    /// # Errors
    /// Everything wrong with the file's tensors.
    pub fn plan(self, gguf: &Gguf) -> Result<Plan> {
        let (vectors, sections, sight) = (self.vectors.width(self.c.n_embd), self.sections, self.vectors.sight);
        let embeds = self.embeds;
        Ok(Plan { dense_positions: self.dense_positions, embeds, vectors, sections, sight, ..self.ops(gguf)? })
    }

    fn ops(self, gguf: &Gguf) -> Result<Plan> {
        self.check_masks(&Reader::new(gguf)?)?;
        let mut w = Weights::new(gguf);
        let c = &self.c;
        self.check_shared_keys(gguf)?;
        self.ignored.iter().for_each(|prefix| w.pass_over_part(prefix));
        let head = Head::declare(&mut w, &self);
        let blocks = self.cycles.map_or(c.n_layer / self.loops, |cycles| cycles.blocks());
        let blocks: Vec<Block> = (0..blocks).map(|i| Block::declare(&mut w, &self, i)).collect();
        let stacks = self.cycles.map(|cycles| cycles::Stacks::declare(&mut w, &self, cycles));
        let per_layer = (self.per_layer > 0).then(|| per_layer::Inputs::declare(&mut w, &self));
        let streams = streams::Streams::declare(&mut w, &self);
        let every = self.checkpoint_every;
        let checkpoints = (every > 0).then(|| checkpoints::Checkpoints::declare(&mut w, &self));
        let altup = (self.streams > 1).then(|| altup::AltUp::declare(&mut w, &self));
        let switched = self.switch.as_ref().map(|s| (s, s.declare(&mut w, &self)));
        let (ropes, long_ropes) = self.ropes(&mut w);
        let long_ropes = long_ropes.map(|tables| (self.c.n_ctx_orig, tables));
        let states = self.states();

        let mut p = Builder::new(w.finish()?);
        let mut x = head.embed(&mut p, &self);
        if let Some((switch, pairs)) = switched {
            switch.run(&mut p, &self, pairs);
        }
        let whole = match (altup, streams, checkpoints) {
            (Some(altup), ..) => {
                let x = altup.run(&mut p, &self, &blocks, per_layer.as_ref(), x);
                Some(head.embedding(&mut p, &self, None, x))
            }
            (_, Some(streams), _) => Some(streams.run(&mut p, &self, &head, &blocks, x)),
            (.., Some(checkpoints)) => {
                let x = checkpoints.run(&mut p, &self, &blocks, x);
                Some(head.embedding(&mut p, &self, None, x))
            }
            (None, None, None) => None,
        };
        if let Some(h) = whole {
            let logits = head.of_normed(&mut p, &self, h);
            return Ok(p.finish(gguf.meta().arch()?, logits, states, ropes, c.n_ctx_train));
        }
        let inputs = per_layer.as_ref().map(|inputs| inputs.run(&mut p, &self, x)); // [n, layers * per_layer]
        let embedded = self.embedding_skip.then(|| p.copy(x));
        let mut first = None;
        if let Some(stacks) = stacks {
            let x = stacks.run(&mut p, &self, &blocks, x);
            let logits = head.logits(&mut p, &self, x);
            return Ok(p.finish(gguf.meta().arch()?, logits, states, ropes, c.n_ctx_train));
        }
        let rounds = std::iter::repeat_n(&blocks, self.loops).flatten();
        for (i, block) in rounds.enumerate() {
            if self.loop_norm && i > 0 && i % blocks.len() == 0 {
                x = head.normed(&mut p, &self, x);
            }
            x = self.block(&mut p, block, i, (x, &mut first));
            x = block.after.run(&mut p, &self, i, inputs.or(embedded), x);
            p.layer_ends(x);
            self.vectors.after(&mut p, i, x);
        }
        let logits = match self.embeds {
            true => head.embeddings(&mut p, &self, blocks.last().and_then(|b| b.output_norm), x),
            false => head.logits(&mut p, &self, x),
        };
        let plan = p.finish(gguf.meta().arch()?, logits, states, ropes, c.n_ctx_train);
        Ok(Plan { long_ropes, numbers: self.numbers, ..plan })
    }

    /// A layer: `[n, dim]` → `[n, dim]`. `first` is what the first layer hands on to the others, if it does.
    fn block(&self, p: &mut Builder, b: &Block, i: usize, (x, first): (Val, &mut Option<Val>)) -> Val {
        let layer = &self.layers[i];
        let h = self.normed(p, b.attn_norm, x);
        // Beside attention, the feed-forward block must see what the residual stream was before.
        let mut beside = match self.parallel {
            Parallel::No | Parallel::Given => None,
            Parallel::Shared => Some(h),
            Parallel::Own => Some(self.normed(p, b.ffn_norm, x)),
        };
        let ahead = b.ffn.as_ref().and_then(|f| f.ahead(p, self, x));
        let before = b.attn_end_norm_2.map(|_| p.act(x, Act::Same, 1.0));
        let mut x = x;
        let h = match b.attn_norm_2 {
            Some(norm) => self.normed(p, Some(norm), x),
            None => h,
        };
        // Of two mixers, both read what is normed before either adds to what that was made of.
        let states = [i, self.c.n_layer + i];
        let mixed = b.mixers.iter().zip(states).map(|(m, state)| (m, m.run(p, self, layer, state, (h, first))));
        for (mixer, out) in mixed.collect::<Vec<_>>() {
            // [n, heads * v_dim]
            x = self.residual_of_norms.map_or(x, |scale| p.act(h, Act::Same, scale));
            if self.parallel == Parallel::Given {
                let out = p.matmul("out", out, vec![mixer.output()]);
                let given = self.normed(p, b.attn_post_norm, out);
                (x, beside) = (p.add(given, self.residual_scale, x), Some(given));
                continue;
            }
            x = self.join(p, out, mixer.output(), b.attn_post_norm, x);
        }
        x = self.normed(p, b.attn_end_norm, x);
        if let Some(before) = before {
            p.add(before, 1.0, x);
            x = self.normed(p, b.attn_end_norm_2, x);
        }
        let h = match beside {
            Some(h) => h,
            None if b.ffn.is_none() => return self.ended(p, b, x),
            None => self.normed(p, b.ffn_norm, x),
        };
        if let Some(f) = &b.ffn {
            x = self.residual_of_norms.map_or(x, |scale| p.act(h, Act::Same, scale));
            x = f.run(p, self, (i, h, ahead), b.ffn_post_norm, x);
        }
        self.ended(p, b, x)
    }

    /// Sizes of a layer's latent attention.
    pub(super) fn mla_of(&self, l: &Layer) -> MlaSizes {
        match (l.mask, self.mla_sliding) {
            (Mask::Window(_), Some(sizes)) => sizes,
            _ => self.mla,
        }
    }

    /// What layers keep: of each, then of those that mix with two what the second keeps, or what the
    /// switch does, then what indexers keep.
    fn states(&self) -> Vec<LayerState> {
        let of = |which: usize| {
            let one = move |l: &Layer| l.mix[which].map_or(LayerState::Nothing, |mix| mixer::state(self, l, mix));
            self.layers.iter().map(one)
        };
        let of_switch = self.switch.as_ref().map(|_| Switch::state(self));
        of(0).chain(of(1).filter(|_| self.mixes_twice())).chain(of_switch).chain(self.index_states()).collect()
    }

    /// States of layers and of the switch.
    fn layer_states(&self) -> usize {
        self.layers.len() * (1 + usize::from(self.mixes_twice())) + usize::from(self.switch.is_some())
    }

    /// Whether a layer mixes rows by two kinds.
    fn mixes_twice(&self) -> bool {
        self.layers.iter().any(|l| l.mix[1].is_some())
    }

    fn ended(&self, p: &mut Builder, b: &Block, x: Val) -> Val {
        let Some(norm) = b.output_norm.filter(|_| !b.last) else { return x };
        self.normed(p, Some(norm), x)
    }

    /// Adds a product to the residual stream, by way of a norm if there is one.
    fn join(&self, p: &mut Builder, h: Val, part: MatPart, norm: Option<LayerNorm>, x: Val) -> Val {
        if norm.is_none() && (self.residual_scale == 1.0 || part.bias.is_none()) {
            return p.matmul_add(h, MatPart { scale: part.scale * self.residual_scale, ..part }, x);
        }
        let out = p.matmul("out", h, vec![part]);
        self.join_value(p, out, norm, x)
    }

    /// Adds a value to the residual stream, by way of a norm if there is one.
    fn join_value(&self, p: &mut Builder, out: Val, norm: Option<LayerNorm>, x: Val) -> Val {
        let out = self.normed_by(p, norm, self.post_eps.unwrap_or(self.c.eps), out);
        p.add(out, self.residual_scale, x)
    }
}
