//! Passes: a plan → a plan that computes the same with fewer ops, where the interpreter that runs it can do two at once.
//!
//! Each pass moves the reads of an op to where its reader stands. That is right only if nothing writes what is read in
//! between, which `unchanged` checks on what ops declare; a plan in which something does keeps its ops.

mod fold_conv_norm;
mod fold_norm;
mod fold_rope;
mod fold_router;

use super::{Access, Conv, Normalize, Op, Plan};

/// What an interpreter can do in one op, for one shape of a step. All false leaves a plan as it is.
pub trait Abilities {
    /// Whether a reader of a normed value can norm its input itself. `op` reads the normed value.
    fn norms_input(&self, plan: &Plan, op: &Op) -> bool;
    /// Whether attention can rotate q and k, and write the cache's new entries: no row of the step needs another's.
    fn rotates(&self, plan: &Plan, attend: &Op) -> bool;
    /// Whether the op that chooses experts can do the router's product.
    fn routes(&self, plan: &Plan, matmul: &Op) -> bool;
    /// Whether a convolution can norm its first columns, as the op after it does.
    fn norms_columns(&self, conv: &Conv, norm: &Normalize) -> bool;
    /// Whether rows whose logits are wanted are all rows of the step, in order.
    fn all_rows_output(&self) -> bool;
}

/// Runs all passes.
pub fn fuse(plan: &Plan, abilities: &dyn Abilities) -> Plan {
    let mut fused = plan.clone();
    fold_rope::run(&mut fused, abilities);
    fold_router::run(&mut fused, abilities);
    fold_norm::run(&mut fused, abilities);
    fold_conv_norm::run(&mut fused, abilities);
    fused
}

/// Whether no op after `from`, up to `to` and including it, writes `access`: a read of it may move from the one to the other.
fn is_unchanged(plan: &Plan, access: Access, from: usize, to: usize) -> bool {
    plan.ops[from + 1..=to].iter().all(|op| !op.has_write(access))
}

/// Takes ops out of the plan.
fn remove(plan: &mut Plan, gone: &[usize]) {
    let mut at = 0..;
    plan.ops.retain(|_| !at.next().is_some_and(|i| gone.contains(&i)));
}
