//! Which ops the kernels do at once, by the shape of a step: what passes ask.

use super::general::INPUTS;
use super::slabs;
use super::target::{Shape, Target};
use crate::policy;
use crate::policy::{GemmFusion, ProductKernel, ProductQuery};
use pumex_plan::pass::Abilities;
use pumex_plan::{Choose, Conv, General, MatPart, Normalize, Op, Plan, Rows, Val, WeightInfo};
use pumex_quant::FormatId;

/// Rows of a value in a step of that shape.
pub(super) fn rows_of(plan: &Plan, shape: Shape, v: Val) -> usize {
    match plan.values[v.0].rows {
        Rows::Step => shape.rows,
        Rows::Output => shape.outputs,
    }
}

/// Whether the rows of a matrix are too short for the kernels of products, or end amid what these read at a time.
pub(super) fn is_short(plan: &Plan, part: &MatPart) -> bool {
    !plan.weights[part.weight.0].cols.is_multiple_of(INPUTS)
}

/// A product of `n` rows with all of these, which are gate and up or side by side, as one dispatch.
pub(super) fn product_query(
    t: &Target<'_>,
    plan: &Plan,
    parts: &[MatPart],
    n: usize,
    gate_and_up: bool,
) -> ProductQuery {
    let infos = || parts.iter().map(|part| &plan.weights[part.weight.0]);
    let any_in_slabs = infos().any(|info| lies_in_slabs(t, info));
    let first = infos().next();
    ProductQuery {
        formats: infos().map(|info| info.format.id).collect(),
        gate_and_up,
        short: parts.iter().any(|part| is_short(plan, part)),
        any_in_slabs,
        decoded_bytes: infos().map(WeightInfo::f16_bytes).max().unwrap_or(0),
        format: first.map_or(FormatId::F32, |info| info.format.id),
        in_slabs: any_in_slabs,
        size: (infos().map(|info| info.rows).sum(), first.map_or(0, |info| info.cols), n),
        fusion: GemmFusion { gated: gate_and_up, add: false, norm: false, soa: t.soa, activations: t.activations },
        gates: false,
        layout: t.packing.map(|packing| packing.layout),
        packed_rows: t.rows.map(|rows| rows.asked),
    }
}

/// Whether a matrix lies in slabs.
pub(super) fn lies_in_slabs(t: &Target<'_>, w: &WeightInfo) -> bool {
    slabs::slab_rows(w, t.caps.largest_buffer(), t.soa).is_some()
}

/// The kernel of a product with all of these.
pub(super) fn product_kernel(t: &Target<'_>, plan: &Plan, parts: &[MatPart], n: usize) -> ProductKernel {
    policy::choose_kernel(t.caps, &product_query(t, plan, parts, n, false))
}

/// The kernel of a product with gate and up.
pub(super) fn gated_kernel(t: &Target<'_>, plan: &Plan, (gate, up): (&MatPart, &MatPart), n: usize) -> ProductKernel {
    policy::choose_kernel(t.caps, &product_query(t, plan, &[*gate, *up], n, true))
}

/// The abilities of the kernels.
pub(super) struct Rules<'a> {
    pub t: &'a Target<'a>,
    pub shape: Shape,
}

impl Abilities for Rules<'_> {
    /// GEMV norms its input, and so does packing for cooperative matrices. An importance matrix wants the normed values.
    fn norms_input(&self, plan: &Plan, op: &Op) -> bool {
        let rows = |x: &Val| rows_of(plan, self.shape, *x);
        let few = |x: &Val| rows(x) <= policy::GEMV_MAX_COLS;
        let takes = match op {
            Op::MatMul { x, parts, .. } => product_kernel(self.t, plan, parts, rows(x)).norms_input(),
            Op::GatedMatMul { x, gate, up, .. } => gated_kernel(self.t, plan, (gate, up), rows(x)).norms_input(),
            Op::GatedExperts { x, .. } => few(x),
            Op::Route { router: Some(router), .. }
            | Op::General(General::Choose(Choose { router: Some(router), .. })) => few(&router.x),
            _ => false,
        };
        takes && !self.t.importance
    }

    fn rotates(&self, plan: &Plan, attend: &Op) -> bool {
        let Op::Attend { qkv, spec, .. } = attend else { return false };
        let one_norm = |op: &Op| match op {
            Op::RopeKv { qkv: of, rope, .. } => of == qkv && rope.q_norm.is_some() != rope.k_norm.is_some(),
            _ => false,
        };
        // Vectors may rotate by several positions, and see rows of their step.
        self.shape.decode_batch && !self.shape.vectors && spec.head_dim == spec.v_dim && !plan.ops.iter().any(one_norm)
    }

    /// Few rows: of many, a product that reads the matrix once for all of them is worth a dispatch.
    fn routes(&self, plan: &Plan, matmul: &Op) -> bool {
        let short = |op: &Op| matches!(op, Op::MatMul { parts, .. } if parts.iter().any(|part| is_short(plan, part)));
        !short(matmul) && self.shape.rows <= policy::GEMV_MAX_COLS && !self.t.importance
    }

    /// A workgroup takes a group of columns.
    fn norms_columns(&self, _: &Conv, norm: &Normalize) -> bool {
        let most = self.t.caps.max_workgroup_invocations.min(policy::MOST_NORMED) as usize;
        (self.t.caps.subgroup_size as usize..=most).contains(&norm.len) && norm.len.is_multiple_of(16)
    }

    fn all_rows_output(&self) -> bool {
        self.shape.rows == 1 && self.shape.outputs == 1
    }
}
