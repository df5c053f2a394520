//! The decoder that most families share: attention and a feed-forward block per layer, each with its norms, around a residual
//! stream. A family says where it differs; what its file's tensors say themselves is read off them.

mod attention;
mod delta;
mod ffn;
mod mamba;
mod mixer;
mod mla;
mod short_conv;

pub use mixer::{Mix, Recurrent};
pub use mla::Sizes as MlaSizes;

use super::config::{inv_freq, Config, Reader, Scaling};
use super::weights::Weights;
use crate::gguf::Gguf;
use crate::plan::{
    Act, Arg, Builder, Gating, Groups, Join, LayerState, Mask, MatPart, NormKind, Plan, RopeStyle, Temperature, Val,
    Weight,
};
use crate::Result;

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
#[derive(Clone, Copy, Debug)]
pub struct Layer {
    /// What rows are mixed with, one or two beside each other; none, nothing.
    pub mix: [Option<Mix>; 2],
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
#[derive(Clone, Copy, Debug)]
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
    /// Whether experts and the block that all rows share are averaged instead of added.
    pub halved: bool,
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
    /// Of rows, and of q and k.
    pub norm: NormKind,
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
    /// Whether products of feed-forward blocks are multiplied with `NAME.scale` tensors.
    pub ffn_scales: bool,
    /// As `act`, by layer, where layers differ.
    pub acts: Vec<Act>,
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
    /// Of what blocks add to the residual stream.
    pub residual_scale: f32,
    /// Of the logits.
    pub logit_scale: f32,
    /// Of the logits.
    pub logit_cap: Option<f32>,
    /// Experts.
    pub moe: Moe,
    /// Sizes of recurrent layers.
    pub recurrent: Recurrent,
    /// Sizes of latent attention.
    pub mla: MlaSizes,
    /// Whether queries come with a gate of what heads give, side by side.
    pub q_gated: bool,
    /// Whether the product that gives logits has a bias.
    pub output_bias: bool,
    /// Whether the product after attention has one.
    pub attention_bias: bool,
    /// Name of the last norm.
    pub output_norm: &'static str,
    /// Prefixes of tensors that are not read.
    pub ignored: Vec<String>,
    /// Whether rows see all rows of their sequence and the plan gives embeddings.
    pub embeds: bool,
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
            heads: c.n_head[i],
            kv_heads: c.n_head_kv[i],
            k_dim: c.k_dim,
            v_dim: c.v_dim,
            mask: Mask::Causal,
            rope: (c.rope_dims > 0).then_some(0),
            temperature: false,
            n_ff: c.n_ff[i],
            experts: c.n_expert > 0,
        };
        Ok(Family {
            layers: (0..c.n_layer).map(layer).collect(),
            tables: vec![Table { dims: c.rope_dims, base: c.rope_base, scaling: c.scaling, factors: true }],
            style: RopeStyle::Norm,
            norm: NormKind::Rms,
            pre_norms: true,
            post_norms: false,
            ffn_norm: "ffn_norm",
            parallel: Parallel::No,
            act: Act::Silu,
            ffn_scales: false,
            acts: Vec::new(),
            qk_norm_after: false,
            qk_norm_plain: false,
            attention_scale: None,
            attention_cap: None,
            alibi: None,
            temperature: None,
            clamp_kqv: None,
            embedding_scale: 1.0,
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
                halved: false,
            },
            recurrent: Recurrent::default(),
            mla: MlaSizes::default(),
            q_gated: false,
            output_bias: false,
            attention_bias: true,
            output_norm: "output_norm",
            ignored: (c.n_layer..c.n_layer_all).map(|i| format!("blk.{i}.")).chain(["cls".into()]).collect(),
            embeds: false,
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
    pub fn layer_norm(self) -> Family {
        Family { norm: NormKind::Layer, ..self }
    }

    /// Without rotation.
    #[must_use]
    pub fn no_rope(mut self) -> Family {
        self.layers.iter_mut().for_each(|layer| layer.rope = None);
        self
    }

    /// The layers of `sliding` see `window` positions, and rotate by a table of their own if `base` is given.
    pub fn slide(&mut self, sliding: &[bool], mask: Mask, base: Option<f32>) {
        let table = base.map(|base| {
            let scaling = Scaling::NONE;
            self.tables.push(Table { base, scaling, ..self.tables[0] });
            self.tables.len() - 1
        });
        for (layer, _) in self.layers.iter_mut().zip(sliding).filter(|(_, sliding)| **sliding) {
            layer.mask = mask;
            layer.rope = layer.rope.map(|own| table.unwrap_or(own));
        }
    }

    /// File → plan.
    ///
    /// # Errors
    /// Everything wrong with the file's tensors.
    pub fn plan(self, gguf: &Gguf) -> Result<Plan> {
        let mut w = Weights::new(gguf);
        let c = &self.c;
        self.ignored.iter().for_each(|prefix| w.ignore(prefix));
        let head = Head::declare(&mut w, &self);
        let blocks: Vec<Block> = (0..c.n_layer).map(|i| Block::declare(&mut w, &self, i)).collect();
        let ropes = self.ropes(&mut w);
        let states = self.states();

        let mut p = Builder::new(w.finish()?);
        let mut x = head.embed(&mut p, &self);
        for (i, block) in blocks.iter().enumerate() {
            x = self.block(&mut p, block, i, x);
        }
        let logits = head.logits(&mut p, &self, x);
        Ok(p.finish(gguf.meta().arch()?, logits, states, ropes, c.n_ctx_train))
    }

    /// A layer: `[n, dim]` → `[n, dim]`.
    fn block(&self, p: &mut Builder, b: &Block, i: usize, x: Val) -> Val {
        let layer = &self.layers[i];
        let h = self.normed(p, b.attn_norm, x);
        // Beside attention, the feed-forward block must see what the residual stream was before.
        let beside = match self.parallel {
            Parallel::No => None,
            Parallel::Shared => Some(h),
            Parallel::Own => Some(self.normed(p, b.ffn_norm, x)),
        };
        // A router that looks at the layer's input needs its product before that changes.
        let by = self.moe.by_residual.then(|| b.ffn.as_ref().and_then(|f| f.router(p, x))).flatten();
        let mut x = x;
        let h = match b.attn_norm_2 {
            Some(norm) => self.normed(p, Some(norm), x),
            None => h,
        };
        for (mixer, state) in b.mixers.iter().zip([i, self.c.n_layer + i]) {
            let out = mixer.run(p, self, layer, state, h); // [n, heads * v_dim]
            x = self.join(p, out, mixer.output(), b.attn_post_norm, x);
        }
        let h = match beside {
            Some(h) => h,
            None if b.ffn.is_none() => return self.ended(p, b, x),
            None => self.normed(p, b.ffn_norm, x),
        };
        if let Some(f) = &b.ffn {
            x = f.run(p, self, (i, h, by), b.ffn_post_norm, x);
        }
        self.ended(p, b, x)
    }

    /// What layers keep: of each, then of those that mix with two what the second keeps.
    fn states(&self) -> Vec<LayerState> {
        let of = |which: usize| {
            let one = move |l: &Layer| l.mix[which].map_or(LayerState::Nothing, |mix| mixer::state(self, l, mix));
            self.layers.iter().map(one)
        };
        let second = self.layers.iter().any(|l| l.mix[1].is_some());
        of(0).chain(of(1).filter(|_| second)).collect()
    }

    fn ended(&self, p: &mut Builder, b: &Block, x: Val) -> Val {
        let Some(norm) = b.output_norm else { return x };
        self.normed(p, Some(norm), x)
    }

    /// Adds a product to the residual stream, by way of a norm if there is one.
    fn join(&self, p: &mut Builder, h: Val, part: MatPart, norm: Option<LayerNorm>, x: Val) -> Val {
        if norm.is_none() && self.residual_scale == 1.0 {
            return p.matmul_add(h, part, x);
        }
        let out = p.matmul("out", h, vec![part]);
        self.join_value(p, out, norm, x)
    }

    /// Adds a value to the residual stream, by way of a norm if there is one.
    fn join_value(&self, p: &mut Builder, out: Val, norm: Option<LayerNorm>, x: Val) -> Val {
        let out = self.normed(p, norm, out);
        p.add(out, self.residual_scale, x)
    }

    /// Rows through a norm; without one, as they are.
    fn normed(&self, p: &mut Builder, norm: Option<LayerNorm>, x: Val) -> Val {
        match norm {
            None => x,
            Some(LayerNorm { weight: Some(weight), bias: None }) if self.norm == NormKind::Rms => {
                p.rms_norm(x, weight, self.c.eps)
            }
            Some(LayerNorm { weight, bias }) => p.normalize(self.norm, x, weight, bias, self.c.eps),
        }
    }

    fn ropes(&self, w: &mut Weights<'_>) -> Vec<Vec<f32>> {
        let dims = self.tables[0].dims;
        let names = ["rope_freqs.weight", "rope_factors_short.weight", "rope_factors_long.weight"];
        let found = names.map(|name| (dims > 0).then(|| w.opt_vector(name, dims / 2)).flatten());
        w.ignore("rope_f");
        let factors = found[0].or(found[1]).map(|f| w.values(f));
        let table = |t: &Table| {
            inv_freq(t.dims, t.base, t.scaling, factors.as_deref().filter(|f| t.factors && f.len() == t.dims / 2))
        };
        self.tables.iter().map(table).collect()
    }
}

/// Factors of a norm, and what it adds.
#[derive(Clone, Copy, Debug)]
pub struct LayerNorm {
    /// `[dim]`
    pub weight: Option<Weight>,
    /// `[dim]`
    pub bias: Option<Weight>,
}

impl LayerNorm {
    /// `NAME.weight` and, if it is there, `NAME.bias`; none without a tensor, unless the file has no norms of that kind at all.
    pub fn declare(w: &mut Weights<'_>, name: &str, dim: usize) -> Option<LayerNorm> {
        let weight = w.opt_vector(&format!("{name}.weight"), dim);
        let bias = w.opt_vector(&format!("{name}.bias"), dim);
        weight.is_some().then_some(LayerNorm { weight, bias })
    }
}

/// Weights of a layer.
struct Block {
    attn_norm: Option<LayerNorm>,
    attn_norm_2: Option<LayerNorm>,
    mixers: Vec<mixer::Mixer>,
    attn_post_norm: Option<LayerNorm>,
    ffn_norm: Option<LayerNorm>,
    ffn: Option<ffn::Ffn>,
    ffn_post_norm: Option<LayerNorm>,
    output_norm: Option<LayerNorm>,
}

impl Block {
    fn declare(w: &mut Weights<'_>, f: &Family, i: usize) -> Block {
        let (dim, layer) = (f.c.n_embd, &f.layers[i]);
        let norm = |w: &mut Weights<'_>, name: &str, wanted: bool| {
            let name = format!("blk.{i}.{name}");
            // A family that norms without weights has none in any layer.
            let bare = LayerNorm { weight: None, bias: None };
            match wanted {
                false => None,
                true if f.norm == NormKind::Layer && !w.has(&format!("{name}.weight")) => Some(bare),
                // Some converters leave the suffix out.
                true if w.has(&name) => Some(LayerNorm { weight: Some(w.vector(&name, dim)), ..bare }),
                true => Some(LayerNorm { weight: Some(w.vector(&format!("{name}.weight"), dim)), ..bare })
                    .map(|n| LayerNorm { bias: w.opt_vector(&format!("{name}.bias"), dim), ..n }),
            }
        };
        let opt = |w: &mut Weights<'_>, name: &str, wanted: bool| {
            let name = format!("blk.{i}.{name}");
            let bare = w.has(&name); // some converters leave the suffix out
            let norm = wanted.then(|| LayerNorm::declare(w, &name, dim)).flatten();
            norm.or_else(|| (wanted && bare).then(|| LayerNorm { weight: w.opt_vector(&name, dim), bias: None }))
        };
        let (attends, feeds) = (layer.mix[0].is_some(), layer.experts || layer.n_ff > 0);
        let own_norm = feeds && f.pre_norms && f.parallel != Parallel::Shared;
        Block {
            attn_norm: norm(w, "attn_norm", f.pre_norms && (attends || f.parallel != Parallel::No)),
            attn_norm_2: opt(w, "attn_norm_2", f.pre_norms),
            mixers: layer.mix.iter().flatten().map(|mix| mixer::Mixer::declare(w, f, *mix, i)).collect(),
            attn_post_norm: opt(w, "post_attention_norm", f.post_norms)
                .or_else(|| opt(w, "attn_output_norm", f.embeds)),
            ffn_norm: norm(w, f.ffn_norm, own_norm),
            ffn: feeds.then(|| ffn::Ffn::declare(w, f, i)),
            ffn_post_norm: opt(w, "post_ffw_norm", f.post_norms),
            output_norm: opt(w, "layer_output_norm", f.embeds),
        }
    }
}

/// Weights before and after the layers.
struct Head {
    embedding: Weight,
    embedding_norm: Option<LayerNorm>,
    positions: Option<Weight>,
    norm: Option<LayerNorm>,
    output: MatPart,
}

impl Head {
    fn declare(w: &mut Weights<'_>, f: &Family) -> Head {
        let (dim, n_vocab) = (f.c.n_embd, w.vocab_rows());
        // Either may stand for both.
        let output = w.opt_matrix("output.weight", n_vocab, dim);
        let embedding = match (w.has("token_embd.weight"), output) {
            (false, Some(output)) => output,
            _ => w.matrix("token_embd.weight", n_vocab, dim),
        };
        let output = output.unwrap_or(embedding);
        let bias = f.output_bias.then(|| w.opt_vector("output.bias", n_vocab)).flatten();
        w.ignore("output.bias");
        let scale = w.scale("output") * f.logit_scale;
        let positions = w.dims("position_embd.weight");
        let name = |part: &str| format!("{}.{part}", f.output_norm);
        let norm = match w.has(&name("weight")) || f.norm == NormKind::Rms {
            true => {
                let weight = Some(w.vector(&name("weight"), dim));
                Some(LayerNorm { weight, bias: w.opt_vector(&name("bias"), dim) })
            }
            false => Some(LayerNorm { weight: None, bias: None }),
        };
        Head {
            embedding,
            embedding_norm: (f.output_norm != "token_embd_norm")
                .then(|| LayerNorm::declare(w, "token_embd_norm", dim))
                .flatten(),
            positions: (!positions.is_empty()).then(|| w.table("position_embd.weight", &positions)),
            norm,
            output: MatPart { weight: output, bias, scale },
        }
    }

    fn embed(&self, p: &mut Builder, f: &Family) -> Val {
        let x = p.embed(self.embedding); // [n, dim]
        let x = p.scale(x, f.embedding_scale);
        if let Some(weight) = self.positions {
            p.general(crate::plan::General::Positions { weight, out: x });
        }
        f.normed(p, self.embedding_norm, x)
    }

    fn logits(&self, p: &mut Builder, f: &Family, x: Val) -> Val {
        let h = match self.norm {
            Some(LayerNorm { weight: Some(weight), bias: None }) if f.norm == NormKind::Rms => {
                p.rms_norm_output(x, weight, f.c.eps)
            }
            norm => {
                let norm = norm.unwrap_or(LayerNorm { weight: None, bias: None });
                p.normalize_output(f.norm, x, norm.weight, norm.bias, f.c.eps)
            }
        }; // [w, dim]
        let logits = p.matmul("logits", h, vec![self.output]); // [w, vocab]
        if let Some(cap) = f.logit_cap {
            let all = p.all(logits);
            p.map_into(all, (1, all.stride), (Act::SoftCap(cap), Arg::Cols(all), 1.0), (Join::Add, Arg::Number(0.0)));
        }
        logits
    }
}

/// What several families read off their keys.
impl Family {
    /// The first `leading_dense_block_count` layers have no experts.
    ///
    /// # Errors
    /// `bad_hparam`, as all here.
    pub fn dense_first(&mut self, r: &Reader<'_>) -> Result<()> {
        let dense = r.int("leading_dense_block_count", Some(0), 0, 1024)?;
        self.layers.iter_mut().take(dense).for_each(|layer| layer.experts = false);
        Ok(())
    }

    /// Routing as the keys have it; without them by `gating`, with weights as they come.
    ///
    /// # Errors
    /// As above.
    pub fn route_by_keys(&mut self, r: &Reader<'_>, gating: Gating) -> Result<()> {
        self.moe.gating = match r.int("expert_gating_func", Some(0), 0, 4)? {
            1 => Gating::Softmax,
            2 => Gating::Sigmoid,
            3 => Gating::SoftmaxOfTaken,
            4 => Gating::SqrtSoftplus,
            _ => gating,
        };
        self.moe.normalized = r.flag("expert_weights_norm", false)?;
        self.group(r)
    }

    /// Groups of experts, if there are several.
    ///
    /// # Errors
    /// As above.
    pub fn group(&mut self, r: &Reader<'_>) -> Result<()> {
        let count = r.int("expert_group_count", Some(0), 0, 1024)?;
        if count > 1 {
            let used = r.int("expert_group_used_count", None, 1, count as u64)?;
            if !self.c.n_expert.is_multiple_of(count) {
                let what = format!("a divisor of expert_count {}", self.c.n_expert);
                return Err(r.bad("expert_group_count", &what, count));
            }
            self.moe.groups = Some(Groups { count, used });
        }
        Ok(())
    }

    /// Layers slide as keys say, all but one in `period`, if there is a window.
    ///
    /// # Errors
    /// As above.
    pub fn slide_by_keys(&mut self, r: &Reader<'_>, period: usize, dense_first: bool) -> Result<Vec<bool>> {
        if self.c.window == 0 {
            return Ok(vec![false; self.c.n_layer]);
        }
        let sliding = r.sliding(self.c.n_layer, period, dense_first)?;
        let base = match r.has("rope.freq_base_swa") {
            true => Some(r.float("rope.freq_base_swa", None, 1.0, 1e12)?),
            false => None,
        };
        self.slide(&sliding, Mask::Window(self.c.window), base);
        Ok(sliding)
    }
}

/// What hybrids and latent attention read off their keys.
impl Family {
    /// Sizes of state-space layers.
    ///
    /// # Errors
    /// `bad_hparam`, as all here.
    pub fn read_recurrent(&mut self, r: &Reader<'_>) -> Result<()> {
        let (conv, inner) = (r.int("ssm.conv_kernel", None, 2, 64)?, r.int("ssm.inner_size", None, 1, 1 << 20)?);
        let state = r.int("ssm.state_size", None, 1, 1 << 12)?;
        let heads = r.int("ssm.time_step_rank", None, 1, 1 << 14)?;
        let groups = r.int("ssm.group_count", Some(1), 0, heads.max(1) as u64)?.max(1);
        self.recurrent = Recurrent { conv, inner, state, heads, groups, tiled: false, scaled: false };
        if r.has("ssm.group_count") && (!inner.is_multiple_of(heads) || !heads.is_multiple_of(groups)) {
            let what = format!("a divisor of inner_size {inner} and a multiple of group_count {groups}");
            return Err(r.bad("ssm.time_step_rank", &what, heads));
        }
        Ok(())
    }

    /// Every layer mixes so, and nothing else.
    pub fn mix_all(&mut self, mix: Mix) {
        for layer in &mut self.layers {
            (layer.mix, layer.n_ff, layer.experts, layer.rope) = ([Some(mix), None], 0, false, None);
        }
    }

    /// Sizes of latent attention.
    ///
    /// # Errors
    /// As above.
    pub fn read_mla(&mut self, r: &Reader<'_>) -> Result<()> {
        let rank = r.int("attention.kv_lora_rank", None, 8, crate::plan::MAX_HEAD_DIM as u64)?;
        let rope = r.int("rope.dimension_count", None, 0, 1024)?;
        let k_dim = r.int("attention.key_length_mla", Some(self.c.k_dim as u64), rope.max(1) as u64 + 1, 1 << 14)?;
        let v_dim = r.int("attention.value_length_mla", Some(self.c.v_dim as u64), 1, 1 << 14)?;
        let q_rank = r.int("attention.q_lora_rank", Some(0), 0, 1 << 20)?;
        if rank + rope > crate::plan::MAX_HEAD_DIM {
            return Err(r.bad("attention.kv_lora_rank", "at most 576 with the rotated columns", rank + rope));
        }
        self.mla = MlaSizes { rank, q_rank, rope, k_dim, v_dim };
        self.tables[0].dims = rope;
        // Scores grow with the context that YaRN reaches.
        let log = r.float("rope.scaling.yarn_log_multiplier", Some(0.0), -1e3, 1e3)?;
        let s = self.c.scaling;
        if s.yarn.is_some() {
            let by = 1.0 + 0.1 * log * (1.0 / s.freq_scale).ln();
            self.attention_scale = Some(by * by / (k_dim as f32).sqrt());
        }
        Ok(())
    }
}
