//! K2 Horizon: norms over parts of a row, a norm for each head of q and k, a gate after attention by a softplus to base 2; with
//! experts, values too come from experts.

mod values;

use crate::config::Reader;
use crate::decoder::{Family, HeadGate};
use pumex_gguf::{Gguf, Result};
use pumex_plan::{Gating, Plan, TopK};
use std::rc::Rc;
use values::ValueExperts;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::neox(gguf)?;
    f.norms.groups = r.int("attention.group_norm_groups", Some(1), 0, f.c.n_embd as u64)?.max(1);
    if !f.c.n_embd.is_multiple_of(f.norms.groups) {
        let what = format!("a divisor of embedding_length {}", f.c.n_embd);
        return Err(r.bad("attention.group_norm_groups", &what, f.norms.groups));
    }
    f.attention.qk_norm.by_head = true;
    f.attention.gate = HeadGate::SoftplusOf2;
    f.rotation.tables.iter_mut().for_each(|table| table.factors = false);
    if f.c.n_expert > 0 {
        f.dense_first(&r)?;
        f.route_by_keys(&r, Gating::Sigmoid)?;
    }
    let n_expert = r.int("attention.value_expert_count", Some(0), 0, 2048)?;
    let k = r.int("attention.value_expert_used_count", Some(0), 0, 64)?;
    if n_expert > 0 && !(1..=n_expert).contains(&k) || n_expert == 0 && k > 0 {
        let what = if n_expert > 0 { format!("1 to {n_expert}") } else { "0 without value_expert_count".into() };
        return Err(r.bad("attention.value_expert_used_count", &what, k));
    }
    if n_expert > 0 {
        let values = Rc::new(ValueExperts(TopK { n_expert, k }));
        for layer in f.layers.iter_mut().filter(|layer| layer.ffn.experts) {
            layer.values = Some(values.clone());
        }
    }
    f.plan(gguf)
}
