//! The decoder that most families share: attention and a feed-forward block per layer, each with its norms, around a residual
//! stream. A family says where it differs; what its file's tensors say themselves is read off them.

mod attention;
mod beside;
mod block;
mod delta;
mod dense;
mod experts;
mod ffn;
mod head;
mod hyper;
mod indexer;
mod keys;
mod limits;
mod mamba;
mod mixer;
mod mla;
mod norms;
mod per_layer;
mod rwkv;
mod sliding;
mod stack;
pub mod streams;
mod tables;
mod vectors;

use super::config::{Config, Reader, Scaling};
use super::weights::Weights;
pub use attention::{Attention, GiveValues, Values};
pub use block::Block;
pub use delta::{DeltaNet, KimiDelta};
pub use experts::{AddSmall, SmallExperts};
pub use head::Head;
pub use hyper::Connections;
pub use indexer::{Index, Indexer, Keys};
pub use limits::{Limit, Limited};
pub use mamba::{Mamba1, Mamba2};
pub use mixer::{Mix, Mixer, Recurrent, Rows};
pub use mla::{LatentAttention, Sizes as MlaSizes};
pub use norms::LayerNorm;
pub use per_layer::{After, Inputs};
use pumex_gguf::{Gguf, Result};
use pumex_plan::{
    Act, Builder, Gating, Groups, LayerState, Mask, MatPart, NormKind, Plan, RopeStyle, Sections, Temperature, Val,
};
pub use rwkv::{Rwkv6, Rwkv7};
pub use sliding::SlidingRope;
pub use stack::{Forward, Once, Stack};
use std::rc::Rc;
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
}

/// A layer's attention and feed-forward block.
#[derive(Clone, Debug)]
pub struct LayerSpec {
    /// What rows are mixed with: nothing, one kind, or two beside each other.
    pub mix: Vec<Rc<dyn Mix>>,
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
    /// Queries' factor by position.
    pub temperature: Option<Temperature>,
    /// What chooses the positions that a row sees.
    pub index: Index,
    /// What gives values, if they are no product.
    pub values: Option<Rc<dyn Values>>,
    /// The feed-forward block.
    pub ffn: FeedForward,
    /// What the residual stream behind the layer is multiplied with.
    pub out_scale: f32,
}

/// A layer's feed-forward block.
#[derive(Clone, Debug)]
pub struct FeedForward {
    /// Columns between its products; 0 if there is none.
    pub width: usize,
    /// Whether it is one of experts.
    pub experts: bool,
    /// Activation of the gate, or of the product with `ffn_up` where there is no gate; experts have one of their own.
    pub act: Act,
    /// Limits of gates, by [`Limited`].
    pub limits: [Option<Limit>; 2],
    /// Gates that are less than so many deviations above their mean are cut off.
    pub sparse: Option<f32>,
    /// Whether a row's experts follow from its id.
    pub by_id: bool,
}

impl LayerSpec {
    /// Positions of a window that attention keeps, if it does not keep all.
    pub fn window(&self) -> Option<usize> {
        match self.mask {
            Mask::Window(n) | Mask::Chunk(n) => Some(n),
            Mask::Causal | Mask::Full | Mask::Near(_) | Mask::Source | Mask::Answer => None,
        }
    }
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

/// A block that all rows take beside the experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BesideExperts {
    /// That of the shared experts, `ffn_*_shexp`, if the file has one.
    Shared,
    /// The layer's dense block, if the file has one.
    Dense,
    /// The layer's dense block, where it and the experts have norms of their own.
    DenseNormed,
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
    /// The block that all rows take beside the experts.
    pub beside: BesideExperts,
    /// Small experts after the usual ones.
    pub small: Option<Rc<dyn SmallExperts>>,
    /// Columns of what experts work on, between products down and up; 0 if that is the normed rows.
    pub latent: usize,
}

/// A family: what differs between decoders. [`Family::of`] gives llama's.
#[derive(Clone, Debug)]
pub struct Family {
    /// Hyper-parameters.
    pub c: Config,
    /// The layers.
    pub layers: Vec<LayerSpec>,
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
    /// Limit of q, k and v.
    pub clamp_kqv: Option<f32>,
    /// Of the embedding.
    pub embedding_scale: f32,
    /// What rows that are vectors give and see.
    pub vectors: Vectors,
    /// Of what blocks add to the residual stream.
    pub residual_scale: f32,
    /// Of the logits.
    pub logit_scale: f32,
    /// Of the logits.
    pub logit_cap: Option<f32>,
    /// Experts.
    pub moe: Moe,
    /// How rows go through the layers.
    pub stack: Rc<dyn Stack>,
    /// Whether queries come with a gate of what heads give, side by side.
    pub q_gated: bool,
    /// Of the product after attention.
    pub attention_out_scale: f32,
    /// Names of the norms of what attention and feed-forward block give.
    pub post_norm_names: [&'static str; 2],
    /// Whether values are normed, without weights.
    pub v_norm: bool,
    /// Columns of an embedding for each layer; 0 for none.
    pub per_layer: usize,
    /// Whether those follow from the embedded rows alone, instead of from ids too.
    pub per_layer_projected: bool,
    /// Name of the last norm, if there is one.
    pub output_norm: Option<&'static str>,
    /// Whether norms have no weights.
    pub bare_norms: bool,
    /// Whether embedded rows are normed, without weights.
    pub embedding_norm: bool,
    /// Epsilon of the norms of what blocks give, where it is one of their own.
    pub post_eps: Option<f32>,
    /// Tables that layers read.
    pub numbers: Vec<Vec<f32>>,
    /// What becomes of the gate of what heads give.
    pub gate_act: Act,
    /// What that gate is multiplied with before, and divided by afterwards.
    pub gate_scale: f32,
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
        let layer = |i: usize| LayerSpec {
            mix: match c.n_head[i] > 0 && c.n_head_kv[i] > 0 {
                true => vec![Rc::new(Attention)],
                false => Vec::new(),
            },
            kv_of: None,
            heads: c.n_head[i],
            kv_heads: c.n_head_kv[i],
            k_dim: c.k_dim,
            v_dim: c.v_dim,
            mask: if c.causal { Mask::Causal } else { Mask::Full },
            rope: (c.rope_dims > 0).then_some(0),
            temperature: None,
            index: Index::Nothing,
            values: None,
            ffn: FeedForward {
                width: c.n_ff[i],
                experts: c.n_expert > 0,
                act: Act::Silu,
                limits: [None; 2],
                sparse: None,
                by_id: false,
            },
            out_scale: 1.0,
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
            qk_norm: None,
            qk_norm_by_head: false,
            qk_norm_after: false,
            qk_norm_plain: false,
            attention_scale: None,
            attention_cap: None,
            alibi: None,
            clamp_kqv: None,
            embedding_scale: 1.0,
            vectors: Vectors::default(),
            residual_scale: 1.0,
            logit_scale: 1.0,
            logit_cap: None,
            moe: Moe {
                gating: Gating::Softmax,
                normalized: true,
                scale: c.expert_scale,
                groups: None,
                act: Act::Silu,
                weighs_input: false,
                by_residual: false,
                average: None,
                beside: BesideExperts::Shared,
                small: None,
                latent: 0,
            },
            stack: Rc::new(Once),
            q_gated: false,
            attention_out_scale: 1.0,
            post_norm_names: ["post_attention_norm", "post_ffw_norm"],
            v_norm: false,
            per_layer: 0,
            per_layer_projected: false,
            output_norm: Some("output_norm"),
            bare_norms: false,
            embedding_norm: false,
            post_eps: None,
            numbers: Vec::new(),
            gate_act: Act::Sigmoid,
            gate_scale: 1.0,
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

    /// Gives the feed-forward blocks of all layers an activation.
    pub fn activate(&mut self, act: Act) {
        self.layers.iter_mut().for_each(|layer| layer.ffn.act = act);
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
        self.check_masks(&Reader::new(gguf)?)?;
        self.check_shared_keys(gguf)?;
        let mut w = Weights::new(gguf);
        self.ignored.iter().for_each(|prefix| w.pass_over_part(prefix));
        let decoder = Decoder::declare(&mut w, &self);
        let (ropes, long_ropes) = self.ropes(&mut w);
        let mut p = Builder::new(w.finish()?);
        let logits = decoder.forward(&mut p, &self);
        let plan = p.finish(gguf.meta().arch()?, logits, self.states(), ropes, self.c.n_ctx_train);
        Ok(Plan {
            long_ropes: long_ropes.map(|tables| (self.c.n_ctx_orig, tables)),
            embeds: self.embeds,
            vectors: self.vectors.width(self.c.n_embd),
            sections: self.sections,
            sight: self.vectors.sight,
            numbers: self.numbers,
            ..plan
        })
    }

    /// A layer: `x + mix(norm(x))`, then `x + ffn(norm(x))`; `[n, dim]` → `[n, dim]`. `handed` is what a layer hands on to the next
    /// ones, if one does.
    pub fn layer(&self, p: &mut Builder, b: &Block, i: usize, (x, handed): (Val, &mut Option<Val>)) -> Val {
        let h = self.normed(p, b.attn_norm, x);
        // Beside attention, the feed-forward block must see what the residual stream was before.
        let beside = match self.parallel {
            Parallel::No => None,
            Parallel::Shared => Some(h),
            Parallel::Own => Some(self.normed(p, b.ffn_norm, x)),
        };
        let ahead = b.ffn.as_ref().and_then(|f| f.ahead(p, self, x));
        let before = b.attn_end_norm_2.map(|_| p.act(x, Act::Same, 1.0));
        let h = b.attn_norm_2.map_or(h, |norm| self.normed(p, Some(norm), x));
        let mut x = x;
        for (out, product) in b.mix(p, self, i, (h, handed)) {
            x = self.join(p, out, product, b.attn_post_norm, x);
        }
        x = self.normed(p, b.attn_end_norm, x);
        if let Some(before) = before {
            p.add(before, 1.0, x);
            x = self.normed(p, b.attn_end_norm_2, x);
        }
        if let Some(ffn) = &b.ffn {
            let h = beside.unwrap_or_else(|| self.normed(p, b.ffn_norm, x));
            x = ffn.run(p, self, (i, h, ahead), b.ffn_post_norm, x);
        }
        self.normed(p, b.output_norm.filter(|_| !b.last), x)
    }

    /// Ends layer `i`, behind which rows that are vectors may have a part that is added to `x`.
    pub fn end_layer(&self, p: &mut Builder, i: usize, x: Val) {
        p.layer_ends(x);
        self.vectors.after(p, i, x);
    }

    /// What layers keep: of each, then of those that mix with two what the second keeps, or what the stack does, then what indexers
    /// keep.
    fn states(&self) -> Vec<LayerState> {
        let of = |which: usize| {
            let one = move |l: &LayerSpec| l.mix.get(which).map_or(LayerState::Nothing, |mix| mix.state(self, l));
            self.layers.iter().map(one)
        };
        let of_stack = self.stack.states(self);
        of(0).chain(of(1).filter(|_| self.mixes_twice())).chain(of_stack).chain(self.index_states()).collect()
    }

    /// States of layers and of the stack.
    fn layer_states(&self) -> usize {
        self.layers.len() * (1 + usize::from(self.mixes_twice())) + self.stack.states(self).len()
    }

    /// Whether a layer mixes rows by two kinds.
    fn mixes_twice(&self) -> bool {
        self.layers.iter().any(|l| l.mix.len() > 1)
    }

    /// Adds a product to the residual stream, by way of a norm if there is one.
    pub fn join(&self, p: &mut Builder, h: Val, part: MatPart, norm: Option<LayerNorm>, x: Val) -> Val {
        if norm.is_none() && (self.residual_scale == 1.0 || part.bias.is_none()) {
            return p.matmul_add(h, MatPart { scale: part.scale * self.residual_scale, ..part }, x);
        }
        let out = p.matmul("out", h, vec![part]);
        self.join_value(p, out, norm, x)
    }

    /// Adds a value to the residual stream, by way of a norm if there is one.
    pub fn join_value(&self, p: &mut Builder, out: Val, norm: Option<LayerNorm>, x: Val) -> Val {
        let out = self.normed_by(p, norm, self.post_eps.unwrap_or(self.c.eps), out);
        p.add(out, self.residual_scale, x)
    }
}

/// Weights of a model.
pub struct Decoder {
    /// Embedding, last norm and the product that gives logits.
    pub head: Head,
    /// The file's layers.
    pub blocks: Vec<Block>,
    /// Embeddings for each layer, where there are some.
    pub inputs: Option<Inputs>,
    stack: Box<dyn Forward>,
}

impl Decoder {
    /// Declares all weights, in this order.
    fn declare(w: &mut Weights<'_>, f: &Family) -> Decoder {
        Decoder {
            head: Head::declare(w, f),
            blocks: (0..f.stack.blocks(f)).map(|i| Block::declare(w, f, i)).collect(),
            inputs: (f.per_layer > 0).then(|| Inputs::declare(w, f)),
            stack: f.stack.declare(w, f),
        }
    }

    /// Ids → logits `[w, vocab]` or embeddings `[w, columns]` of the output rows.
    fn forward(&self, p: &mut Builder, f: &Family) -> Val {
        let x = self.head.embed(p, f, self.stack.as_ref());
        let x = self.stack.run(p, f, self, x);
        self.stack.finish(p, f, self, x)
    }

    /// Embedded rows through each layer once, `[n, dim]` → `[n, dim]`.
    pub fn layers(&self, p: &mut Builder, f: &Family, x: Val) -> Val {
        let inputs = self.inputs.as_ref().map(|inputs| inputs.run(p, f, x)); // [n, layers * per_layer]
        let (mut x, mut handed) = (x, None);
        for (i, block) in self.blocks.iter().enumerate() {
            x = f.layer(p, block, i, (x, &mut handed));
            x = block.after.run(p, f, i, inputs, x);
            f.end_layer(p, i, x);
        }
        x
    }

    /// The residual stream → logits or embeddings of the output rows.
    pub fn finish(&self, p: &mut Builder, f: &Family, x: Val) -> Val {
        match f.embeds {
            true => self.head.embeddings(p, f, self.blocks.last().and_then(|b| b.output_norm), x),
            false => self.head.logits(p, f, x),
        }
    }
}
