//! Chameleon: heads of q and k are normed by mean and deviation, the big one norms what blocks give instead of what they take,
//! and its feed-forward block takes what attention gave alone; ids of pictures are never next.

use crate::config::Reader;
use crate::decoder::{Family, Parallel};
use pumex_gguf::{Gguf, Result};
use pumex_plan::{NormKind, Plan};

/// Ids of parts of pictures.
const PICTURES: (usize, usize) = (4, 8196);

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::of(gguf)?;
    f.qk_norm = Some((NormKind::Layer, 1e-5));
    f.masked_ids = PICTURES;
    if r.flag("swin_norm", false)? {
        (f.pre_norms, f.post_norms, f.parallel) = (false, true, Parallel::Given);
        f.post_norm_names = ["attn_norm", "ffn_norm"];
    }
    f.plan(gguf)
}
