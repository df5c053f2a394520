//! EXAONE with experts: q and k are normed, three of four layers slide, and only those rotate.

use crate::gguf::Gguf;
use crate::model::config::Reader;
use crate::model::decoder::Family;
use crate::plan::{Gating, Plan};
use crate::Result;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::neox(gguf)?;
    let sliding = f.slide_by_keys(&r, 4, false)?;
    f.layers.iter_mut().zip(sliding).filter(|(_, s)| !s).for_each(|(layer, _)| layer.rope = None);
    f.dense_first(&r)?;
    f.route_by_keys(&r, Gating::Sigmoid)?;
    f.plan(gguf)
}
