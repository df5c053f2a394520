//! Spark 2.5: sliding layers by a pattern, a gate for each head, GELU.

use crate::gguf::Gguf;
use crate::model::config::Reader;
use crate::model::decoder::Family;
use crate::plan::{Act, Plan};
use crate::Result;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::neox(gguf)?;
    f.act = Act::Gelu;
    f.slide_by_keys(&r, 0, false)?;
    f.plan(gguf)
}
