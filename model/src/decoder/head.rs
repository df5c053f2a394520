//! What stands before and after the layers: the embedding, the last norm, the product that gives logits.

use super::{Family, Forward, LayerNorm};
use crate::weights::Weights;
use pumex_plan::{Act, Arg, Builder, General, Join, MatPart, NormKind, Val, Weight};

/// Weights before and after the layers.
pub struct Head {
    embedding: Weight,
    embedding_norm: Option<LayerNorm>,
    positions: Option<Weight>,
    /// `[types, dim]`, of which the first row is every row's.
    types: Option<Weight>,
    norm: LayerNorm,
    /// `[vocab, dim]`; none where embeddings come out, unless they have a product of their own.
    output: Option<MatPart>,
}

impl Head {
    /// Declares `token_embd`, `output` and what goes with them.
    pub fn declare(w: &mut Weights<'_>, f: &Family) -> Head {
        let (dim, n_vocab) = (f.c.n_embd, w.vocab_rows());
        // Either may stand for both.
        let projects = f.embeds_wide > 0;
        if f.embeds && !projects {
            w.ignore("output.weight");
        }
        let projection = projects.then(|| w.matrix("output.weight", f.embeds_wide, dim));
        let output = (!f.embeds).then(|| w.opt_matrix("output.weight", n_vocab, dim)).flatten();
        let embedding = match (w.has("token_embd.weight"), output) {
            (false, Some(output)) => output,
            _ => w.matrix("token_embd.weight", n_vocab, dim),
        };
        let output = output.unwrap_or(embedding);
        let bias = if f.embeds { None } else { w.opt_vector("output.bias", n_vocab) };
        w.ignore("output.input_scale"); // of quantized activations, which these are not
        let scale = w.scale("output") * f.logit_scale;
        let positions = w.dims("position_embd.weight");
        let types = w.dims("token_types.weight");
        let normed = (f.pre_norms || !f.embeds) && !f.bare_norms;
        let norm = match f.output_norm.filter(|_| normed) {
            Some(name) if w.has(&format!("{name}.weight")) || f.norm == NormKind::Rms => {
                let weight = Some(w.vector(&format!("{name}.weight"), dim));
                LayerNorm { weight, bias: w.opt_vector(&format!("{name}.bias"), dim) }
            }
            _ => LayerNorm::BARE,
        };
        Head {
            embedding,
            embedding_norm: (f.output_norm != Some("token_embd_norm"))
                .then(|| LayerNorm::declare(w, "token_embd_norm", dim))
                .flatten()
                .or(f.embedding_norm.then_some(LayerNorm::BARE)),
            positions: (!positions.is_empty()).then(|| w.table("position_embd.weight", &positions)),
            types: (!types.is_empty()).then(|| w.table("token_types.weight", &types)),
            norm,
            output: projection.or((!f.embeds).then_some(output)).map(|weight| MatPart { weight, bias, scale }),
        }
    }

    /// Ids → rows `[n, dim]`.
    pub fn embed(&self, p: &mut Builder, f: &Family, by: &dyn Forward) -> Val {
        let x = by.embed(p, self.embedding);
        f.vectors.take(p, x, true);
        let x = p.scale(x, f.embedding_scale);
        f.vectors.take(p, x, false);
        if let Some(weight) = self.positions {
            p.general(General::Positions { weight, out: x });
        }
        if let Some(types) = self.types {
            let all = p.all(x);
            p.map_into(all, (1, all.stride), (Act::Same, Arg::Cols(all), 1.0), (Join::Add, Arg::Weight(types)));
        }
        f.normed(p, self.embedding_norm, x)
    }

    /// Rows through the last norm, `[n, dim]`.
    pub fn normed(&self, p: &mut Builder, f: &Family, x: Val) -> Val {
        f.normed(p, Some(self.norm), x)
    }

    /// The output rows through the last norm, which is that of the last layer, `last`, if that has one: `[w, dim]`.
    pub fn embedding(&self, p: &mut Builder, f: &Family, last: Option<LayerNorm>, x: Val) -> Val {
        match last.unwrap_or(self.norm) {
            norm if f.norm_groups > 1 => f.normed_apart(p, norm, f.c.eps, (x, true)),
            LayerNorm { weight: Some(weight), bias: None } if f.norm == NormKind::Rms => {
                p.rms_norm_output(x, weight, f.c.eps)
            }
            LayerNorm { weight, bias } => p.normalize_output(f.norm, x, weight, bias, f.c.eps),
        }
    }

    /// Likewise, through the product of embeddings if there is one: `[w, dim]` or `[w, wide]`.
    pub fn embeddings(&self, p: &mut Builder, f: &Family, last: Option<LayerNorm>, x: Val) -> Val {
        let h = self.embedding(p, f, last, x); // [w, dim]
        self.output.map_or(h, |output| p.matmul("embedding", h, vec![output]))
    }

    /// Rows → logits of the output rows, `[w, vocab]`.
    pub fn logits(&self, p: &mut Builder, f: &Family, x: Val) -> Val {
        let h = self.embedding(p, f, None, x); // [w, dim]
        self.multiply(p, f, h)
    }

    /// Output rows through the last norm → their logits.
    pub fn multiply(&self, p: &mut Builder, f: &Family, h: Val) -> Val {
        let Some(output) = self.output else { return h };
        let logits = p.matmul("logits", h, vec![output]); // [w, vocab]
        if let Some(cap) = f.logit_cap {
            let all = p.all(logits);
            p.map_into(all, (1, all.stride), (Act::SoftCap(cap), Arg::Cols(all), 1.0), (Join::Add, Arg::Number(0.0)));
        }
        logits
    }
}
