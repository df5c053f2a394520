//! RoPE, the per-head norms before it and the cache's new entry, done by the attention that follows.

use super::{remove, Abilities};
use crate::{Access, AttentionSpec, Op, Plan};

pub(super) fn run(plan: &mut Plan, abilities: &dyn Abilities) {
    let mut gone = Vec::new();
    for at in 0..plan.ops.len() {
        let Some(reader) = attention_after(plan, at, abilities) else { continue };
        let Op::RopeKv { rope: rotation, .. } = plan.ops[at] else { continue };
        if let Op::Attend { rope, .. } = &mut plan.ops[reader] {
            *rope = Some(rotation);
            gone.push(at);
        }
    }
    remove(plan, &gone);
}

/// The attention that can do the RoPE at `at`: the only op that reads the rotated rows, before which no other reads or
/// writes them or the layer's cache.
fn attention_after(plan: &Plan, at: usize, abilities: &dyn Abilities) -> Option<usize> {
    let Op::RopeKv { qkv, spec, .. } = &plan.ops[at] else { return None };
    let mut readers = plan.readers(*qkv).map(|(i, _)| i).filter(|&i| i > at);
    let (Some(reader), None) = (readers.next(), readers.next()) else { return None };
    let touched = [Access::Value(*qkv), Access::State(spec.layer)];
    let between = &plan.ops[at + 1..reader];
    let alone = between.iter().all(|op| touched.iter().all(|t| !op.has_read(*t) && !op.has_write(*t)));
    let takes = |of: &AttentionSpec| of.layer == spec.layer && of.chosen.is_none();
    let own = matches!(&plan.ops[reader], Op::Attend { qkv: v, spec: of, rope: None, .. } if v == qkv && takes(of));
    (alone && own && abilities.rotates(plan, &plan.ops[reader])).then_some(reader)
}
