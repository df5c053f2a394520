//! Norms that all readers of the normed value do themselves: it is never written then.

use super::{is_unchanged, remove, Abilities};
use crate::{Access, Choose, General, Norm, Op, Plan, Rows, Val};

pub(super) fn run(plan: &mut Plan, abilities: &dyn Abilities) {
    let norms: Vec<usize> = (0..plan.ops.len()).filter(|&i| folds(plan, i, abilities)).collect();
    for &at in &norms {
        let Op::RmsNorm { x, weight, eps, out } = plan.ops[at] else { continue };
        let norm = Norm { weight, eps };
        plan.ops[at + 1..].iter_mut().for_each(|op| take(op, out, x, norm));
    }
    remove(plan, &norms);
}

/// Whether every reader of the norm at `at` can do it, and finds its input as the norm would have.
fn folds(plan: &Plan, at: usize, abilities: &dyn Abilities) -> bool {
    let Op::RmsNorm { x, out, .. } = plan.ops[at] else { return false };
    let mut readers = plan.readers(out).peekable();
    let same_rows = plan.values[out.0].rows == Rows::Step || abilities.all_rows_output();
    let whole = readers.peek().is_some() && out != plan.logits && same_rows;
    let one_norm = plan.ops.iter().filter(|op| op.has_write(Access::Value(out))).count() == 1;
    whole
        && one_norm
        && readers.all(|(i, op)| {
            takes(op, out) && abilities.norms_input(plan, op) && is_unchanged(plan, Access::Value(x), at, i)
        })
}

/// Whether `v` is the one input of the op that a norm may stand before.
fn takes(op: &Op, v: Val) -> bool {
    match op {
        Op::MatMul { x, norm: None, .. }
        | Op::GatedMatMul { x, norm: None, .. }
        | Op::GatedExperts { x, norm: None, .. } => *x == v,
        Op::Route { router: Some(router), .. } | Op::General(General::Choose(Choose { router: Some(router), .. })) => {
            router.x == v && router.norm.is_none()
        }
        _ => false,
    }
}

/// Lets the op read `x` and norm it, if it reads the normed value.
fn take(op: &mut Op, normed: Val, from: Val, by: Norm) {
    match op {
        Op::MatMul { x, norm, .. } | Op::GatedMatMul { x, norm, .. } | Op::GatedExperts { x, norm, .. }
            if *x == normed =>
        {
            (*x, *norm) = (from, Some(by));
        }
        Op::Route { router: Some(router), .. } | Op::General(General::Choose(Choose { router: Some(router), .. }))
            if router.x == normed =>
        {
            (router.x, router.norm) = (from, Some(by));
        }
        _ => {}
    }
}
