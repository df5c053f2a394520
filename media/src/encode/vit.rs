//! The tower that nearly all encoders of pictures have: patches, and blocks of attention and feed-forward.

use super::Context;
use crate::graph::{Act, NormKind, Part, RotationPairs, Spans, Val, Window};
use crate::{Activation, Attention, Builder, Clip, Error, Result};

/// A rotation of some columns of each head.
#[derive(Clone, Debug)]
pub struct Turn {
    /// First column of a head, and how many.
    pub columns: (usize, usize),
    /// Which with which.
    pub pairs: RotationPairs,
    /// `[rows, columns / 2]`
    pub angles: Vec<f32>,
}

/// What a tower's blocks are.
#[derive(Clone, Debug)]
pub struct Vit {
    /// Prefix of the blocks' tensors, for instance `v.blk`.
    pub blocks: String,
    /// The kind of all norms.
    pub norm: NormKind,
    /// The epsilon of all norms.
    pub eps: f32,
    /// Width of the rows.
    pub width: usize,
    /// Heads of q.
    pub heads: usize,
    /// Heads of k and v.
    pub kv_heads: usize,
    /// Columns of a head.
    pub head_dim: usize,
    /// The factor of the scores.
    pub scale: f32,
    /// The activation of the feed-forward part.
    pub act: Act,
    /// Bounds of a gate and of what it gates: the gate at most this, the other from minus this to this.
    pub clamp: Option<f32>,
    /// Whether files may have the names of the feed-forward's two matrices swapped.
    pub swapped: bool,
    /// Rotations of q and k.
    pub turns: Vec<Turn>,
    /// A norm of each head of v without weights.
    pub norm_v: bool,
}

/// The function that a file's keys name.
pub fn activation(clip: &Clip) -> Act {
    match clip.activation {
        Activation::Gelu => Act::Gelu,
        Activation::Silu => Act::Silu,
        Activation::GeluQuick => Act::GeluQuick,
    }
}

impl Vit {
    /// The usual blocks of a file: norms by mean and deviation, the file's activation, no rotation.
    pub fn new(clip: &Clip) -> Vit {
        Vit {
            blocks: format!("{}.blk", clip.prefix()),
            norm: NormKind::Layer,
            eps: clip.eps,
            width: clip.width,
            heads: clip.heads,
            kv_heads: clip.kv_heads,
            head_dim: clip.head_dim,
            scale: 1.0 / (clip.head_dim as f32).sqrt(),
            act: activation(clip),
            clamp: None,
            swapped: false,
            turns: Vec::new(),
            norm_v: false,
        }
    }

    /// One block; each query sees the keys that `spans` says.
    ///
    /// # Errors
    /// Tensors that are missing or have other shapes.
    pub fn block(&self, b: &mut Builder<'_>, x: Val, index: usize, spans: Option<Spans>) -> Result<Val> {
        self.block_by(b, x, index, &Attention { spans, ..self.rules() })
    }

    /// One block with an attention by these rules.
    ///
    /// # Errors
    /// Tensors that are missing or have other shapes.
    pub fn block_by(&self, b: &mut Builder<'_>, x: Val, index: usize, rules: &Attention) -> Result<Val> {
        let name = |part: &str| format!("{}.{index}.{part}", self.blocks);
        let normed = b.norm(self.norm, x, &name("ln1"), self.eps)?;
        let attended = self.attention(b, normed, index, rules)?;
        let attended = self.scale_by_tensor(b, attended, &name("ls1"))?;
        let attended = self.post(b, attended, &name("attn_post_norm"))?;
        let x = b.add(x, attended)?;
        let normed = b.norm(self.norm, x, &name("ln2"), self.eps)?;
        let fed = self.feed(b, normed, &format!("{}.{index}", self.blocks))?;
        let fed = self.scale_by_tensor(b, fed, &name("ls2"))?;
        let fed = self.post(b, fed, &name("ffn_post_norm"))?;
        let x = b.add(x, fed)?;
        self.scale_by_tensor(b, x, &name("out_scale"))
    }

    /// Blocks `0..count`, all rows seeing each other.
    ///
    /// # Errors
    /// Tensors that are missing or have other shapes.
    pub fn run(&self, b: &mut Builder<'_>, mut x: Val, count: usize) -> Result<Val> {
        for index in 0..count {
            x = self.block(b, x, index, None)?;
        }
        Ok(x)
    }

    /// Rules of an attention where all see each other.
    pub fn rules(&self) -> Attention {
        Attention { heads: self.heads, kv_heads: self.kv_heads, scale: self.scale, ..Attention::default() }
    }

    /// q, k and v with the block's norms and rotations.
    ///
    /// # Errors
    /// Tensors that are missing or have other shapes.
    pub fn qkv(&self, b: &mut Builder<'_>, x: Val, index: usize) -> Result<(Part, Part, Part)> {
        let name = |part: &str| format!("{}.{index}.{part}", self.blocks);
        let (q_cols, kv_cols) = (self.heads * self.head_dim, self.kv_heads * self.head_dim);
        let (q, k, v) = if b.has(&name("attn_qkv.weight")) {
            let all = b.linear(x, &name("attn_qkv"))?;
            if b.cols(all) != q_cols + 2 * kv_cols {
                return Err(Error::Shape(format!(
                    "{}: expected {} rows, found {}",
                    name("attn_qkv.weight"),
                    q_cols + 2 * kv_cols,
                    b.cols(all)
                )));
            }
            (b.part(all, 0, q_cols)?, b.part(all, q_cols, kv_cols)?, b.part(all, q_cols + kv_cols, kv_cols)?)
        } else {
            let mut one = |part: &str, cols: usize| {
                let val = b.linear(x, &name(part))?;
                match b.cols(val) == cols {
                    true => Ok(b.all(val)),
                    false => Err(Error::Shape(format!("{}: expected {cols} rows, found {}", name(part), b.cols(val)))),
                }
            };
            (one("attn_q", q_cols)?, one("attn_k", kv_cols)?, one("attn_v", kv_cols)?)
        };
        let q = self.head_norm(b, q, self.heads, &name("attn_q_norm"))?;
        let k = self.head_norm(b, k, self.kv_heads, &name("attn_k_norm"))?;
        for turn in &self.turns {
            b.rotate(q, self.heads, turn.columns, turn.pairs, &turn.angles)?;
            b.rotate(k, self.kv_heads, turn.columns, turn.pairs, &turn.angles)?;
        }
        let v = match self.norm_v {
            true => {
                let normed = b.norm_with(NormKind::Rms, v, self.kv_heads, (None, None), self.eps)?;
                b.all(normed)
            }
            false => v,
        };
        Ok((q, k, v))
    }

    /// The attention of a block, its output product included.
    ///
    /// # Errors
    /// Tensors that are missing or have other shapes.
    pub fn attention(&self, b: &mut Builder<'_>, x: Val, index: usize, rules: &Attention) -> Result<Val> {
        let qkv = self.qkv(b, x, index)?;
        let attended = b.attend(qkv, rules)?;
        b.linear(attended, &format!("{}.{index}.attn_out", self.blocks))
    }

    fn head_norm(&self, b: &mut Builder<'_>, x: Part, heads: usize, name: &str) -> Result<Part> {
        if !b.has(&format!("{name}.weight")) {
            return Ok(x);
        }
        let len: usize = b.shape(&format!("{name}.weight"))?.iter().product();
        let weight = b.vector(&format!("{name}.weight"), len)?;
        let bias = b.vector_if(&format!("{name}.bias"), len)?;
        let groups = if len == self.head_dim { heads } else { 1 };
        let normed = b.norm_with(self.norm, x, groups, (Some(weight), bias), self.eps)?;
        Ok(b.all(normed))
    }

    fn scale_by_tensor(&self, b: &mut Builder<'_>, x: Val, name: &str) -> Result<Val> {
        let name = format!("{name}.weight");
        if !b.has(&name) {
            return Ok(x);
        }
        let len: usize = b.shape(&name)?.iter().product();
        b.mul_weight(x, &name, 1, len)
    }

    fn post(&self, b: &mut Builder<'_>, x: Val, name: &str) -> Result<Val> {
        match b.has(&format!("{name}.weight")) {
            true => b.norm(self.norm, x, name, self.eps),
            false => Ok(x),
        }
    }

    /// The feed-forward part of tensors `prefix.ffn_*`: with a gate if there is one.
    ///
    /// # Errors
    /// Tensors that are missing or have other shapes.
    pub fn feed(&self, b: &mut Builder<'_>, x: Val, prefix: &str) -> Result<Val> {
        let swapped = self.swapped && b.shape(&format!("{prefix}.ffn_down.weight"))?[0] == self.width;
        let (up, down) = if swapped { ("ffn_down", "ffn_up") } else { ("ffn_up", "ffn_down") };
        let name = |part: &str| format!("{prefix}.{part}");
        let fed = b.linear(x, &name(up))?;
        let fed = if b.has(&name("ffn_gate.weight")) {
            let gate = b.linear(x, &name("ffn_gate"))?;
            self.gate_activation(b, gate, fed)?
        } else {
            b.act(self.act, fed)?
        };
        b.linear(fed, &name(down))
    }

    /// `act(gate) * up`, clamped where the tower says so.
    ///
    /// # Errors
    /// Different shapes.
    pub fn gate_activation(&self, b: &mut Builder<'_>, gate: Val, up: Val) -> Result<Val> {
        match self.clamp {
            None => b.gate(self.act, gate, up),
            Some(c) => {
                let gate = b.act(Act::Clamp(f32::MIN, c), gate)?;
                let up = b.act(Act::Clamp(-c, c), up)?;
                b.gate(self.act, gate, up)
            }
        }
    }
}

/// Rows of patches: `name.weight` over each patch, with `name.bias` if there is one. Those of two frames are added, the second
/// by `name.weight.1`; a single picture counts as both.
///
/// # Errors
/// Tensors that are missing or have other shapes; a picture smaller than a patch.
pub fn embed_patches(b: &mut Builder<'_>, of: &Context<'_>) -> Result<Val> {
    let (patch, out) = (of.clip.patch, of.patches()?);
    let size = [of.inputs[0].width, of.inputs[0].height];
    let window = Window { size, kernel: [patch; 2], stride: [patch; 2], before: [0; 2], out };
    let mut unfolded = Vec::new();
    for _ in of.inputs {
        let pixels = b.input(size[0] * size[1], 3)?;
        unfolded.push(b.unfold(pixels, window)?);
    }
    let rows = b.linear(unfolded[0], "v.patch_embd")?;
    if !b.has("v.patch_embd.weight.1") {
        return match unfolded.len() {
            1 => Ok(rows),
            n => Err(Error::Medium(format!("expected one picture, found {n} frames"))),
        };
    }
    let second = b.matrix("v.patch_embd.weight.1", 3 * patch * patch)?;
    let frame = b.all(unfolded[unfolded.len() - 1]);
    let second = b.product(frame, second, None)?;
    b.add(rows, second)
}

/// Adds the table of learned positions `v.position_embd.weight`, a row for each patch.
///
/// # Errors
/// No such tensor; another number of rows.
pub fn add_positions(b: &mut Builder<'_>, x: Val) -> Result<Val> {
    let (rows, cols) = (b.rows(x), b.cols(x));
    b.add_weight(x, "v.position_embd.weight", rows, cols)
}

/// Norm `v.post_ln` or another one, if the file has it.
///
/// # Errors
/// Another length.
pub fn norm_if(b: &mut Builder<'_>, kind: NormKind, x: Val, name: &str, eps: f32) -> Result<Val> {
    match b.has(&format!("{name}.weight")) {
        true => b.norm(kind, x, name, eps),
        false => Ok(x),
    }
}

/// `name.0`, an activation, `name.1`: two linear layers by their whole names.
///
/// # Errors
/// Tensors that are missing or have other shapes.
pub fn mlp(b: &mut Builder<'_>, x: Val, first: &str, act: Act, second: &str) -> Result<Val> {
    let x = b.linear(x, first)?;
    let x = b.act(act, x)?;
    b.linear(x, second)
}
