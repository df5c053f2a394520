//! Seed-OSS: llama's shape with a norm named otherwise; halves rotate.

use crate::gguf::Gguf;
use crate::model::decoder::Family;
use crate::plan::Plan;
use crate::Result;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    Family::neox(gguf).map(|f| Family { ffn_norm: "post_attention_norm", ..f })?.plan(gguf)
}
