//! ModernBERT: norms before each block, GeGLU; two of three layers see half a window to either side and rotate by a base of their own.

use crate::gguf::Gguf;
use crate::model::config::Reader;
use crate::model::decoder::Family;
use crate::plan::{Act, Plan};
use crate::Result;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::neox(gguf)?.layer_norm();
    f.embeds = true;
    f.see_all();
    f.act = match r.word("hidden_activation")?.unwrap_or("gelu") {
        "silu" | "swish" | "swiglu" => Act::Silu,
        "reglu" => Act::Relu,
        "gelu" | "geglu" => Act::Gelu,
        other => return Err(r.bad("hidden_activation", "gelu, geglu, silu, swish, swiglu or reglu", other)),
    };
    if f.c.window > 0 {
        let sliding = r.sliding(f.c.n_layer, 3, true)?;
        f.slide_around(&r, &sliding)?;
    }
    f.plan(gguf)
}
