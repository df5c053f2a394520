//! Norms of a convolution's first columns, done by the convolution.

use super::{remove, Abilities};
use crate::{ConvNorm, General, NormKind, Op, Plan};

pub(super) fn run(plan: &mut Plan, abilities: &dyn Abilities) {
    let mut gone = Vec::new();
    for at in 1..plan.ops.len() {
        let Op::General(General::Normalize(n)) = plan.ops[at] else { continue };
        let Op::General(General::Conv(conv)) = &mut plan.ops[at - 1] else { continue };
        let bare = matches!(n.kind, NormKind::Unit | NormKind::L2) && n.weight.is_none() && n.bias.is_none();
        let in_place = n.x == n.out && n.x.val == conv.out.val && n.x.at == conv.out.at && n.x.stride == n.len;
        let whole = n.groups * n.len <= conv.channels && n.gate.is_none() && conv.norm.is_none();
        if bare && in_place && whole && abilities.norms_columns(conv, &n) {
            conv.norm = Some(ConvNorm { least: n.kind == NormKind::L2, groups: n.groups, len: n.len, eps: n.eps });
            gone.push(at);
        }
    }
    remove(plan, &gone);
}
