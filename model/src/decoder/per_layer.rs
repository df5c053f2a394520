//! Embeddings for each layer, which Gemma 3n and 4 add after it, and the factor of what a layer gives.

use super::{Family, LayerNorm};
use crate::weights::Weights;
use pumex_plan::{Act, Arg, Builder, Cols, General, Join, MatPart, NormKind, Normalize, Val, Weight};

/// Embeddings that layers add.
#[derive(Clone, Copy, Debug)]
pub struct PerLayer {
    /// Columns for each layer.
    pub width: usize,
    /// Whether they follow from ids too, instead of from the embedded rows alone.
    pub by_ids: bool,
}

/// Weights of the inputs of all layers.
pub struct Inputs {
    width: usize,
    /// `[vocab, layers * per_layer]`; none where rows alone say what layers add.
    embedding: Option<Weight>,
    /// `[layers * per_layer, dim]`
    projection: MatPart,
    /// `[per_layer]`
    norm: Weight,
}

impl Inputs {
    /// Declares `per_layer_*`.
    pub fn declare(w: &mut Weights<'_>, f: &Family, PerLayer { width, by_ids }: PerLayer) -> Inputs {
        let (wide, n_vocab) = (width * f.c.n_layer, w.vocab_rows());
        Inputs {
            width,
            embedding: by_ids.then(|| w.matrix("per_layer_token_embd.weight", n_vocab, wide)),
            projection: w.linear("per_layer_model_proj", wide, f.c.n_embd),
            norm: w.vector("per_layer_proj_norm.weight", width),
        }
    }

    /// What all layers add, from the embedded rows `x` `[n, dim]`: `[n, layers * per_layer]`.
    pub fn run(&self, p: &mut Builder, f: &Family, x: Val) -> Val {
        let half = std::f32::consts::FRAC_1_SQRT_2;
        let own = self.embedding.map(|embedding| p.embed(embedding));
        let projection = MatPart { scale: 1.0 / (f.c.n_embd as f32).sqrt(), ..self.projection };
        let projected = p.matmul("per_layer", x, vec![projection]);
        let cols = Cols { val: projected, at: 0, stride: self.width };
        p.general(General::Normalize(Normalize {
            kind: NormKind::Rms,
            x: cols,
            groups: f.c.n_layer,
            len: self.width,
            weight: Some(self.norm),
            bias: None,
            gate: None,
            eps: f.c.eps,
            out: cols,
        }));
        let Some(own) = own else { return projected };
        p.scale(projected, half);
        p.add(own, (self.width as f32).sqrt() * half, projected)
    }
}

/// What follows a layer.
pub struct After {
    /// Gate, product back, and its norm.
    inputs: Option<(MatPart, MatPart, Option<LayerNorm>)>,
    /// Factor of what the layer gives.
    pub scale: f32,
}

impl After {
    /// Declares `blk.N.{inp_gate,proj,post_norm,layer_output_scale}`.
    pub fn declare(w: &mut Weights<'_>, f: &Family, i: usize) -> After {
        let (dim, name) = (f.c.n_embd, |part: &str| format!("blk.{i}.{part}"));
        let inputs = f.embedding.per_layer.map(|PerLayer { width, .. }| {
            let gate = w.linear(&name("inp_gate"), width, dim);
            let back = w.linear(&name("proj"), dim, width);
            (gate, back, LayerNorm::declare(w, &name("post_norm"), dim))
        });
        let scale = w.opt_vector(&name("layer_output_scale.weight"), 1);
        let scale = scale.and_then(|s| w.values(s).first().copied()).unwrap_or(1.0);
        After { inputs, scale }
    }

    /// What layer `i`'s own inputs add to rows `x`, both `[n, dim]`.
    pub fn read_inputs(&self, p: &mut Builder, f: &Family, i: usize, inputs: Option<Val>, x: Val) -> Option<Val> {
        let (gate, back, norm) = self.inputs.as_ref()?;
        let gate = p.matmul("inp_gate", x, vec![*gate]); // [n, per_layer]
        let (all, width) = (p.all(gate), p.width_of(gate));
        let own = Arg::Cols(Cols { val: inputs?, at: i * width, stride: width });
        p.map_into(all, (1, width), (Act::Gelu, Arg::Cols(all), 1.0), (Join::Mul, own));
        let back = p.matmul("proj", gate, vec![*back]);
        Some(f.normalize(p, *norm, back))
    }

    /// Rows after layer `i`, `[n, dim]`. `inputs` are those of all layers.
    pub fn run(&self, p: &mut Builder, f: &Family, i: usize, inputs: Option<Val>, x: Val) -> Val {
        if let Some(back) = self.read_inputs(p, f, i, inputs, x) {
            p.add(back, 1.0, x);
        }
        p.scale(x, self.scale)
    }
}
