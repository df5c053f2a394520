//! Mamba 2: every layer is one state-space model with heads, without a feed-forward block.

use crate::gguf::Gguf;
use crate::model::config::Reader;
use crate::model::decoder::{Family, Mix};
use crate::plan::Plan;
use crate::Result;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::of(gguf)?;
    f.read_recurrent(&r)?;
    f.mix_all(Mix::Mamba2);
    f.plan(gguf)
}
