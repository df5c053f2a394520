//! A router's product, done by the op that chooses the experts.

use super::{is_unchanged, remove, Abilities};
use crate::{Access, General, Op, Plan, Router};

pub(super) fn run(plan: &mut Plan, abilities: &dyn Abilities) {
    let mut gone = Vec::new();
    for at in 0..plan.ops.len() {
        let Some(reader) = choice_after(plan, at, abilities) else { continue };
        let Op::MatMul { x, norm, ref parts, .. } = plan.ops[at] else { continue };
        let taken = Router { x, norm, part: parts[0] };
        if let Some(router) = router_of(&mut plan.ops[reader]) {
            *router = Some(taken);
            gone.push(at);
        }
    }
    remove(plan, &gone);
}

/// The op that chooses experts by the logits of the product at `at`, if it alone reads them.
fn choice_after(plan: &Plan, at: usize, abilities: &dyn Abilities) -> Option<usize> {
    let Op::MatMul { x, parts, add: false, out, .. } = &plan.ops[at] else { return None };
    let mut readers = plan.readers(*out);
    let (Some((reader, choice)), None) = (readers.next(), readers.next()) else { return None };
    let free = match choice {
        Op::Route { router, .. } => router.is_none(),
        Op::General(General::Choose(c)) => c.router.is_none() && c.table.is_none(),
        _ => false,
    };
    let one = parts.len() == 1 && is_unchanged(plan, Access::Value(*x), at, reader);
    (free && one && abilities.routes(plan, &plan.ops[at])).then_some(reader)
}

/// The router of an op that chooses experts.
fn router_of(op: &mut Op) -> Option<&mut Option<Router>> {
    match op {
        Op::Route { router, .. } => Some(router),
        Op::General(General::Choose(c)) => Some(&mut c.router),
        _ => None,
    }
}
