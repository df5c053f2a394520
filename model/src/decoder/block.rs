//! The weights of a layer.

use super::{ffn, per_layer, Family, LayerNorm, Mixer, Rows};
use crate::weights::Weights;
use pumex_plan::{Builder, MatPart, NormKind, Val};

/// Where a layer's feed-forward block takes its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parallel {
    /// After attention, through a norm of its own.
    No,
    /// Beside attention, from the same normed rows.
    Shared,
    /// Beside attention, through a norm of its own.
    Own,
}

/// How blocks go with the residual stream.
#[derive(Clone, Copy, Debug)]
pub struct Residual {
    /// Where the feed-forward block takes its input.
    pub parallel: Parallel,
    /// Factor of what blocks add.
    pub scale: f32,
}

/// Weights of a layer.
pub struct Block {
    /// Before the mixers.
    pub attn_norm: Option<LayerNorm>,
    /// Before the mixers, where the feed-forward block takes what `attn_norm` gives.
    pub attn_norm_2: Option<LayerNorm>,
    /// What rows are mixed with: none, one, or two beside each other.
    pub mixers: Vec<Box<dyn Mixer>>,
    /// Behind each mixer's product.
    pub attn_post_norm: Option<LayerNorm>,
    /// A norm of the residual stream behind attention.
    pub attn_end_norm: Option<LayerNorm>,
    /// A norm of that with what came into the layer added.
    pub attn_end_norm_2: Option<LayerNorm>,
    /// Before the feed-forward block.
    pub ffn_norm: Option<LayerNorm>,
    /// The feed-forward block.
    pub ffn: Option<ffn::Ffn>,
    /// Behind the feed-forward block.
    pub ffn_post_norm: Option<LayerNorm>,
    /// A norm of the residual stream behind the layer.
    pub end_norm: Option<LayerNorm>,
    /// What follows the layer.
    pub after: per_layer::After,
}

impl Block {
    /// Declares `blk.N.*`.
    pub fn declare(w: &mut Weights<'_>, f: &Family, i: usize) -> Block {
        let (dim, layer) = (f.c.n_embd, &f.layers[i]);
        let norm = |w: &mut Weights<'_>, name: &str, wanted: bool| {
            let name = format!("blk.{i}.{name}");
            // A family that norms without weights has none in any layer.
            let bare = LayerNorm::BARE;
            match wanted {
                false => None,
                true if f.norms.bare => Some(bare),
                // Embeddings that are normed are not normed once more by the first layer.
                true if f.embeds() && i == 0 && !w.has(&format!("{name}.weight")) => None,
                true if f.norms.kind == NormKind::Layer && !w.has(&format!("{name}.weight")) => Some(bare),
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
        let (attends, feeds) = (!layer.mix.is_empty(), layer.ffn.experts || layer.ffn.width > 0);
        let own_norm_2 = layer.mix.iter().any(|mix| mix.has_norm_2());
        // Where no others are, they must be there.
        let after = |w: &mut Weights<'_>, which: usize| match (f.norms.after, f.norms.before) {
            (None, _) => None,
            (Some(names), true) => opt(w, names[which], true),
            (Some(names), false) => norm(w, names[which], true),
        };
        let own_norm = feeds && f.norms.before && f.residual.parallel != Parallel::Shared;
        Block {
            attn_norm: norm(w, "attn_norm", f.norms.before && (attends || f.residual.parallel != Parallel::No)),
            attn_norm_2: opt(w, "attn_norm_2", f.norms.before && f.norms.ffn != "attn_norm_2" && !own_norm_2),
            mixers: layer.mix.iter().map(|mix| mix.declare(w, f, i)).collect(),
            attn_post_norm: after(w, 0),
            attn_end_norm: opt(w, "attn_output_norm", f.norms.stream),
            attn_end_norm_2: opt(w, "attn_norm_2", f.norms.stream),
            ffn_norm: norm(w, f.norms.ffn, own_norm),
            ffn: feeds.then(|| ffn::Ffn::declare(w, f, i)),
            ffn_post_norm: after(w, 1),
            end_norm: opt(w, "layer_output_norm", f.norms.stream),
            after: per_layer::After::declare(w, f, i),
        }
    }

    /// Normed rows `h` `[n, dim]` through each mixer: what it gives, and the product that is to follow. All read `h` before any
    /// adds to what that was made of.
    pub fn mix(
        &self,
        p: &mut Builder,
        f: &Family,
        i: usize,
        (h, handed): (Val, &mut Option<Val>),
    ) -> Vec<(Val, MatPart)> {
        let states = [i, f.c.n_layer + i];
        let mixers = self.mixers.iter().zip(states);
        mixers
            .map(|(mixer, state)| {
                let rows = Rows { h, layer: &f.layers[i], state, handed: &mut *handed };
                (mixer.run(p, f, rows), mixer.output())
            })
            .collect()
    }
}

impl Family {
    /// Adds a product to the residual stream, by way of a norm if there is one.
    pub fn join(&self, p: &mut Builder, h: Val, part: MatPart, norm: Option<LayerNorm>, x: Val) -> Val {
        if norm.is_none() && (self.residual.scale == 1.0 || part.bias.is_none()) {
            return p.matmul_add(h, MatPart { scale: part.scale * self.residual.scale, ..part }, x);
        }
        let out = p.matmul("out", h, vec![part]);
        self.join_value(p, out, norm, x)
    }

    /// Adds a value to the residual stream, by way of a norm if there is one.
    pub fn join_value(&self, p: &mut Builder, out: Val, norm: Option<LayerNorm>, x: Val) -> Val {
        let out = self.normalize_by(p, norm, self.norms.after_eps.unwrap_or(self.c.eps), out);
        p.add(out, self.residual.scale, x)
    }
}
