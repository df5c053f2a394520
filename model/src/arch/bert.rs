//! BERT: norms after each block, of the residual stream; embeddings come out. Rows see all rows of their text.

use crate::decoder::{Family, OutputRows};
use pumex_gguf::{Gguf, Result};
use pumex_plan::{Act, Plan};

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let mut f = encoder(gguf)?.no_rope();
    f.activate(Act::Gelu);
    f.plan(gguf)
}

/// What encoders share.
///
/// # Errors
/// As [`Family::of`].
pub fn encoder(gguf: &Gguf) -> Result<Family> {
    let mut f = Family::neox(gguf)?.layer_norm();
    (f.output.rows, f.norms.before) = (OutputRows::Embeddings, false);
    f.see_all();
    Ok(f)
}
