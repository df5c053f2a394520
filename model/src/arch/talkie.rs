//! Talkie: norms without weights, of the embedding too, which each layer adds again; a factor for each head of queries.

use crate::config::Reader;
use crate::decoder::{Decoder, Family, Forward, QkPlace, Stack};
use crate::weights::Weights;
use pumex_gguf::{Gguf, Result};
use pumex_plan::{Builder, Plan, Val};
use std::rc::Rc;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::neox(gguf)?;
    (f.norms.bare, f.embedding.normed) = (true, true);
    f.attention.qk_norm.place = QkPlace::AfterWithoutWeights;
    f.output.scale = r.factor("logit_scale", 1.0)?;
    f.stack = Rc::new(EmbeddingAgain);
    f.plan(gguf)
}

/// Layers behind each of which embedded rows are added once more, times the file's `layer_output_scale`.
#[derive(Debug)]
struct EmbeddingAgain;

impl Stack for EmbeddingAgain {
    fn declare(&self, _w: &mut Weights<'_>, _f: &Family) -> Box<dyn Forward> {
        Box::new(EmbeddingAgain)
    }
}

impl Forward for EmbeddingAgain {
    fn run(&self, p: &mut Builder, f: &Family, d: &Decoder, x: Val) -> Val {
        let embedded = p.copy(x);
        let mut x = x;
        for (i, block) in d.blocks.iter().enumerate() {
            x = block.run(p, f, i, (x, &mut None));
            x = p.add(embedded, block.after.scale, x);
            f.end_layer(p, i, x);
        }
        x
    }
}
