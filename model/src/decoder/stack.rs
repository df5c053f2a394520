//! How rows go through the layers. Most families go through each layer once, one after the other; the file of an architecture that
//! does otherwise has a [`Stack`] of its own.

use super::{Decoder, Family};
use crate::weights::Weights;
use pumex_plan::{Builder, LayerState, Val, Weight};
use std::fmt::Debug;

/// The order of a family's layers, and what goes on between them.
pub trait Stack: Debug {
    /// How many layers the file has; a stack that goes through some of them several times has fewer than the family has steps.
    fn blocks(&self, f: &Family) -> usize {
        f.c.n_layer
    }

    /// What it keeps of a sequence beside what layers keep.
    fn states(&self, _f: &Family) -> Vec<LayerState> {
        Vec::new()
    }

    /// Declares the weights that it has beside those of the layers.
    fn declare(&self, w: &mut Weights<'_>, f: &Family) -> Box<dyn Forward>;
}

/// A stack with its weights.
pub trait Forward {
    /// Ids → rows of the embedding, `[n, dim]`.
    fn embed(&self, p: &mut Builder, embedding: Weight) -> Val {
        p.embed(embedding)
    }

    /// Embedded rows `[n, dim]` → the residual stream behind the last layer, `[n, dim]` unless `finish` takes another width.
    fn run(&self, p: &mut Builder, f: &Family, d: &Decoder, x: Val) -> Val;

    /// The residual stream → logits `[w, vocab]` or embeddings `[w, columns]` of the output rows.
    fn finish(&self, p: &mut Builder, f: &Family, d: &Decoder, x: Val) -> Val {
        d.head.finish(p, f, x)
    }
}

/// Each layer once.
#[derive(Debug)]
pub struct Once;

impl Stack for Once {
    fn declare(&self, _w: &mut Weights<'_>, _f: &Family) -> Box<dyn Forward> {
        Box::new(Once)
    }
}

impl Forward for Once {
    fn run(&self, p: &mut Builder, f: &Family, d: &Decoder, x: Val) -> Val {
        d.layers(p, f, x)
    }
}
