//! What stands before and after the layers: the embedding, the last norm, the product that gives logits.

use super::{Family, Forward, LayerNorm, PerLayer, Vectors};
use crate::weights::Weights;
use pumex_plan::{Act, Arg, Builder, General, Join, MatPart, NormKind, Val, Weight};

/// What becomes of ids before the layers.
#[derive(Clone, Debug)]
pub struct Embedding {
    /// Factor of embedded rows.
    pub scale: f32,
    /// Whether they are normed, without weights.
    pub normed: bool,
    /// What rows that are vectors give and see.
    pub vectors: Vectors,
    /// Embeddings that layers add.
    pub per_layer: Option<PerLayer>,
}

/// What comes out behind the layers.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    /// What a row becomes.
    pub rows: OutputRows,
    /// Factor of logits.
    pub scale: f32,
    /// Logits become `cap * tanh(x / cap)`.
    pub cap: Option<f32>,
}

/// What an output row becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputRows {
    /// Logits of the next id.
    Logits,
    /// Embeddings: what the last norm gives.
    Embeddings,
    /// Embeddings of so many columns, by a product of their own.
    Projected(usize),
}

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
        let (projection, output) = match f.output.rows {
            OutputRows::Logits => (None, w.opt_matrix("output.weight", n_vocab, dim)),
            OutputRows::Embeddings => (None, None),
            OutputRows::Projected(wide) => (Some(w.matrix("output.weight", wide, dim)), None),
        };
        if f.output.rows == OutputRows::Embeddings {
            w.ignore("output.weight");
        }
        let embedding = match (w.has("token_embd.weight"), output) {
            (false, Some(output)) => output,
            _ => w.matrix("token_embd.weight", n_vocab, dim),
        };
        let output = output.unwrap_or(embedding);
        let bias = if f.embeds() { None } else { w.opt_vector("output.bias", n_vocab) };
        w.ignore("output.input_scale"); // of quantized activations, which these are not
        let scale = w.scale("output") * f.output.scale;
        let positions = w.dims("position_embd.weight");
        let types = w.dims("token_types.weight");
        let norm = match f.norms.last.filter(|_| !f.norms.bare) {
            Some(name) if w.has(&format!("{name}.weight")) || f.norms.kind == NormKind::Rms => {
                let weight = Some(w.vector(&format!("{name}.weight"), dim));
                LayerNorm { weight, bias: w.opt_vector(&format!("{name}.bias"), dim) }
            }
            _ => LayerNorm::BARE,
        };
        Head {
            embedding,
            embedding_norm: (f.norms.last != Some("token_embd_norm"))
                .then(|| LayerNorm::declare(w, "token_embd_norm", dim))
                .flatten()
                .or(f.embedding.normed.then_some(LayerNorm::BARE)),
            positions: (!positions.is_empty()).then(|| w.table("position_embd.weight", &positions)),
            types: (!types.is_empty()).then(|| w.table("token_types.weight", &types)),
            norm,
            output: projection.or((!f.embeds()).then_some(output)).map(|weight| MatPart { weight, bias, scale }),
        }
    }

    /// Ids → rows `[n, dim]`.
    pub fn embed(&self, p: &mut Builder, f: &Family, by: &dyn Forward) -> Val {
        let x = by.embed(p, self.embedding);
        f.embedding.vectors.take(p, x, true);
        let x = p.scale(x, f.embedding.scale);
        f.embedding.vectors.take(p, x, false);
        if let Some(weight) = self.positions {
            p.general(General::Positions { weight, out: x });
        }
        if let Some(types) = self.types {
            let all = p.all(x);
            p.map_into(all, (1, all.stride), (Act::Same, Arg::Cols(all), 1.0), (Join::Add, Arg::Weight(types)));
        }
        f.normalize(p, self.embedding_norm, x)
    }

    /// Rows through the last norm, `[n, dim]`.
    pub fn normalize(&self, p: &mut Builder, f: &Family, x: Val) -> Val {
        f.normalize(p, Some(self.norm), x)
    }

    /// The residual stream → logits or embeddings of the output rows, through the last norm.
    pub fn finish(&self, p: &mut Builder, f: &Family, x: Val) -> Val {
        let h = f.normalize_output(p, self.norm, x); // [w, dim]
        self.multiply(p, f, h)
    }

    /// Output rows behind the last norm, `[w, dim]` → their logits `[w, vocab]`, or embeddings `[w, columns]`.
    pub fn multiply(&self, p: &mut Builder, f: &Family, h: Val) -> Val {
        let Some(output) = self.output else { return h };
        let out = p.matmul(if f.embeds() { "embedding" } else { "logits" }, h, vec![output]);
        if let Some(cap) = f.output.cap {
            let all = p.all(out);
            p.map_into(all, (1, all.stride), (Act::SoftCap(cap), Arg::Cols(all), 1.0), (Join::Add, Arg::Number(0.0)));
        }
        out
    }
}
