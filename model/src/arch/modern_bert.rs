//! ModernBERT: norms before each block, GeGLU; two of three layers see half a window to either side and rotate by a base of their own.

use crate::config::Reader;
use crate::decoder::{Family, OutputRows};
use pumex_gguf::{Gguf, Result};
use pumex_plan::{Act, Plan};

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::neox(gguf)?.layer_norm();
    f.output.rows = OutputRows::Embeddings;
    f.see_all();
    let act = match r.word("hidden_activation")?.unwrap_or("gelu") {
        "silu" | "swish" | "swiglu" => Act::Silu,
        "reglu" => Act::Relu,
        "gelu" | "geglu" => Act::Gelu,
        other => return Err(r.bad("hidden_activation", "gelu, geglu, silu, swish, swiglu or reglu", other)),
    };
    f.activate(act);
    if f.c.window > 0 {
        let sliding = r.sliding(f.c.n_layer, 3, true)?;
        f.slide_around(&r, &sliding)?;
    }
    f.plan(gguf)
}
