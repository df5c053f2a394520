//! Apertus: llama's shape with norms of q and k, and xIELU without a gate, by parameters of each layer.

use crate::decoder::Family;
use pumex_gguf::{Gguf, Result};
use pumex_plan::{Act, Plan};

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let mut f = Family::neox(gguf)?;
    let read = |key: &str| -> Result<Vec<f32>> {
        let values = gguf.meta().opt_f32s(&format!("xielu.{key}"));
        match values {
            Ok(Some(values)) if values.len() >= f.c.n_layer => Ok(values),
            _ => Ok(vec![gguf.meta().f32(&format!("xielu.{key}"))?; f.c.n_layer]),
        }
    };
    let [n, p, beta, eps] = [read("alpha_n")?, read("alpha_p")?, read("beta")?, read("eps")?];
    for (i, layer) in f.layers.iter_mut().enumerate() {
        layer.ffn.act = Act::Xielu([n[i], p[i], beta[i], eps[i]]);
    }
    f.plan(gguf)
}
