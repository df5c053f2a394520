//! The decoder that most families share: attention and a feed-forward block per layer, each with its norms, around a residual
//! stream. A family says where it differs; what its file's tensors say themselves is read off them.

mod attention;
mod beside;
mod block;
mod channel_mix;
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

pub use attention::{Attention, AttentionOptions, GiveValues, HeadGate, QkNorm, QkPlace, Values};
pub use block::{Block, Parallel, Residual};
pub use delta::{DeltaNet, KimiDelta};
pub use experts::{AddSmall, BesideExperts, Moe, SmallExperts};
pub use ffn::FeedForward;
pub use head::{Embedding, Head, Output, OutputRows};
pub use hyper::Connections;
pub use indexer::{Index, Indexer, Keys};
pub use limits::{Limit, Limited};
pub use mamba::{Mamba1, Mamba2};
pub use mixer::{Mixer, MixerSpec, Recurrent, Rows};
pub use mla::{LatentAttention, Sizes as MlaSizes};
pub use norms::{LayerNorm, Norms};
pub use per_layer::{After, Inputs, PerLayer};
pub use rwkv::{Rwkv6, Rwkv7};
pub use sliding::SlidingRope;
pub use stack::{Forward, Once, Stack};
pub use tables::{Rotation, Table};
pub use vectors::Vectors;

use crate::config::{Config, Reader};
use crate::weights::Weights;
use pumex_gguf::{Gguf, Result};
use pumex_plan::{Act, Builder, Mask, NormKind, Plan, RopeStyle, Temperature, Val};
use std::rc::Rc;

/// A layer's attention and feed-forward block.
#[derive(Clone, Debug)]
pub struct LayerSpec {
    /// What rows are mixed with: nothing, one kind, or two beside each other.
    pub mix: Vec<Rc<dyn MixerSpec>>,
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

/// A family: what differs between decoders. [`Family::llama`] gives llama's.
#[derive(Clone, Debug)]
pub struct Family {
    /// Hyper-parameters.
    pub c: Config,
    /// The layers.
    pub layers: Vec<LayerSpec>,
    /// What becomes of ids before the layers.
    pub embedding: Embedding,
    /// How queries and keys rotate.
    pub rotation: Rotation,
    /// Norms of rows.
    pub norms: Norms,
    /// What attention of all layers has.
    pub attention: AttentionOptions,
    /// How rows reach experts, and what those do.
    pub moe: Moe,
    /// How blocks go with the residual stream.
    pub residual: Residual,
    /// What comes out.
    pub output: Output,
    /// How rows go through the layers.
    pub stack: Rc<dyn Stack>,
    /// Tables that layers read.
    pub numbers: Vec<Vec<f32>>,
    /// Prefixes of tensors that are not read.
    pub ignored: Vec<String>,
}

impl Family {
    /// A family like llama, by the file's keys.
    ///
    /// # Errors
    /// `bad_hparam` with the key, `missing_key`.
    pub fn llama(gguf: &Gguf) -> Result<Family> {
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
        };
        let table = Table { dims: c.rope_dims, base: c.rope_base, scaling: c.scaling, factors: true };
        let (predicting, unread) = ((c.n_layer..c.n_layer_all).map(|i| format!("blk.{i}.")), ["cls", "dense_"]);
        Ok(Family {
            layers: (0..c.n_layer).map(layer).collect(),
            embedding: Embedding { scale: 1.0, normed: false, vectors: Vectors::default(), per_layer: None },
            rotation: Rotation { tables: vec![table], style: RopeStyle::Norm, sections: None },
            norms: Norms::USUAL,
            attention: AttentionOptions::USUAL,
            moe: Moe::scaled(c.expert_scale),
            residual: Residual { parallel: Parallel::No, scale: 1.0 },
            output: Output { rows: OutputRows::Logits, scale: 1.0, cap: None },
            stack: Rc::new(Once),
            numbers: Vec::new(),
            ignored: predicting.chain(unread.map(String::from)).collect(),
            c,
        })
    }

    /// A family like llama whose halves of heads rotate, by the file's keys.
    ///
    /// # Errors
    /// `bad_hparam` with the key, `missing_key`.
    pub fn neox(gguf: &Gguf) -> Result<Family> {
        let mut f = Family::llama(gguf)?;
        f.rotation.style = RopeStyle::Neox;
        Ok(f)
    }

    /// The family with norms by mean and deviation.
    #[must_use]
    pub fn layer_norm(mut self) -> Family {
        self.c.eps = self.c.layer_eps;
        self.norms.kind = NormKind::Layer;
        self
    }

    /// Whether the plan gives embeddings in place of logits.
    pub fn embeds(&self) -> bool {
        self.output.rows != OutputRows::Logits
    }

    /// Gives the feed-forward blocks of all layers an activation.
    pub fn activate(&mut self, act: Act) {
        self.layers.iter_mut().for_each(|layer| layer.ffn.act = act);
    }

    /// The family without rotation.
    #[must_use]
    pub fn no_rope(mut self) -> Family {
        self.layers.iter_mut().for_each(|layer| layer.rope = None);
        self
    }

    /// The plan of the file.
    ///
    /// # Errors
    /// Everything that is wrong with the file's tensors.
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
            embeds: self.embeds(),
            vectors: self.embedding.vectors.width(self.c.n_embd),
            sections: self.rotation.sections,
            sight: self.embedding.vectors.sight,
            numbers: self.numbers,
            ..plan
        })
    }

    /// Ends layer `i`, behind which rows that are vectors may have a part that is added to `x`.
    pub fn end_layer(&self, p: &mut Builder, i: usize, x: Val) {
        p.layer_ends(x);
        self.embedding.vectors.after(p, i, x);
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
            inputs: f.embedding.per_layer.map(|per_layer| Inputs::declare(w, f, per_layer)),
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
            x = block.run(p, f, i, (x, &mut handed));
            x = block.after.run(p, f, i, inputs, x);
            f.end_layer(p, i, x);
        }
        x
    }
}

impl Block {
    /// Layer `i`: `x + mix(norm(x))`, then `x + ffn(norm(x))`; `[n, dim]` → `[n, dim]`. `handed` is what a layer hands on to the next
    /// ones, if one does.
    pub fn run(&self, p: &mut Builder, f: &Family, i: usize, (x, handed): (Val, &mut Option<Val>)) -> Val {
        let h = f.normalize(p, self.attn_norm, x);
        // Beside attention, the feed-forward block must see what the residual stream was before.
        let beside = match f.residual.parallel {
            Parallel::No => None,
            Parallel::Shared => Some(h),
            Parallel::Own => Some(f.normalize(p, self.ffn_norm, x)),
        };
        let ahead = self.ffn.as_ref().and_then(|ffn| ffn.ahead(p, f, x));
        let h = self.attn_norm_2.map_or(h, |norm| f.normalize(p, Some(norm), x));
        let mixed = self.mix(p, f, i, (h, handed));
        let x = mixed.into_iter().fold(x, |x, (out, product)| f.join(p, out, product, self.attn_post_norm, x));
        let Some(ffn) = &self.ffn else { return x };
        let h = beside.unwrap_or_else(|| f.normalize(p, self.ffn_norm, x));
        ffn.run(p, f, (i, h, ahead), self.ffn_post_norm, x)
    }
}
