//! Grok 1 and 2: norms before and after each block, soft-capped scores, GELU experts, in Grok 2 beside a dense block.

use crate::config::Reader;
use crate::decoder::{BesideExperts, Family};
use pumex_gguf::{Gguf, Result};
use pumex_plan::{Act, Plan};

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::neox(gguf)?;
    let layer_norms = gguf.tensor("blk.0.layer_output_norm.weight").is_some();
    let of_ffn = if layer_norms { "layer_output_norm" } else { "post_ffw_norm" };
    f.norms.after = Some(["attn_output_norm", of_ffn]);
    f.activate(Act::Gelu);
    f.moe.act = Act::Gelu;
    f.moe.beside = BesideExperts::Dense;
    f.moe.average = Some(std::f32::consts::FRAC_1_SQRT_2);
    f.embedding.scale = r.factor("embedding_scale", 78.383_67)?;
    f.output.scale = r.factor("logit_scale", 0.577_350_26)?;
    f.attention.scale = Some(r.factor("attention.output_scale", 0.088_388_346)?);
    f.attention.cap = Some(r.factor("attn_logit_softcapping", 30.0)?);
    f.output.cap = Some(r.factor("final_logit_softcapping", 0.0)?).filter(|c| *c != 0.0);
    f.plan(gguf)
}
