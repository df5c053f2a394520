//! Which ops the kernels do at once, by the shape of a step: what passes ask.

use super::general::INPUTS;
use super::slabs;
use super::target::{Shape, Target};
use crate::policy;
use crate::policy::{matrix as tiles, ManyRows, WeightSource};
use pumex_plan::pass::Abilities;
use pumex_plan::{Choose, Conv, General, MatPart, Normalize, Op, Plan, Rows, Val, WeightInfo};
use pumex_quant::Format;

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

/// Whether products of `n` rows with all of these go through cooperative matrices.
pub(super) fn by_matrices(t: &Target<'_>, plan: &Plan, parts: &[MatPart], n: usize) -> bool {
    let takes = |p: &MatPart| tiles::takes(t.caps, plan.weights[p.weight.0].format, n) && !is_short(plan, p);
    t.packing.is_some() && parts.iter().all(takes) && !by_groups(t, plan, parts, n)
}

/// How products of `n` rows with all of these go, if it is by packed rows.
pub(super) fn many_rows(t: &Target<'_>, plan: &Plan, parts: &[MatPart], n: usize) -> Option<ManyRows> {
    by_rows(t, plan, parts, n).filter(|_| !by_matrices(t, plan, parts, n))
}

/// Whether they go by matrices that workgroups hold.
fn by_groups(t: &Target<'_>, plan: &Plan, parts: &[MatPart], n: usize) -> bool {
    matches!(by_rows(t, plan, parts, n), Some(ManyRows::Group(_)))
}

/// The best kernel for packed rows, whatever else could do it.
fn by_rows(t: &Target<'_>, plan: &Plan, parts: &[MatPart], n: usize) -> Option<ManyRows> {
    let asked = t.rows?.asked;
    let formats: Vec<&Format> = parts.iter().map(|p| plan.weights[p.weight.0].format).collect();
    if parts.iter().any(|part| is_short(plan, part)) {
        return None;
    }
    let by = policy::many_rows(t.caps, &formats, n, asked)?;
    parts.iter().all(|p| takes(t, &plan.weights[p.weight.0], by)).then_some(by)
}

/// Whether a kernel for packed rows takes a matrix: halves need room for as many, and what workgroups load as one matrix is in one
/// buffer.
pub(super) fn takes(t: &Target<'_>, w: &WeightInfo, by: ManyRows) -> bool {
    let in_slabs = slabs::slab_rows(w, t.caps.largest_buffer(), t.soa).is_some();
    match by {
        ManyRows::Group(source) => {
            !in_slabs && (source != WeightSource::Halves || w.f16_bytes() <= policy::MOST_DECODED_BYTES)
        }
        _ => true,
    }
}

/// Whether one dispatch multiplies with gate and up.
pub(super) fn gates_in_one(t: &Target<'_>, plan: &Plan, gate: &MatPart, up: &MatPart, n: usize) -> bool {
    let format = |p: &MatPart| plan.weights[p.weight.0].format.id;
    (n <= policy::GEMV_MAX_COLS || by_matrices(t, plan, &[*gate, *up], n)) && format(gate) == format(up)
}

/// The abilities of the kernels.
pub(super) struct Rules<'a> {
    pub t: &'a Target<'a>,
    pub shape: Shape,
}

impl Abilities for Rules<'_> {
    /// GEMV norms its input, and so does packing for cooperative matrices. An importance matrix wants the normed values.
    fn norms_input(&self, plan: &Plan, op: &Op) -> bool {
        let few = |x: &Val| rows_of(plan, self.shape, *x) <= policy::GEMV_MAX_COLS;
        let packs =
            |x: &Val, parts: &[MatPart]| many_rows(self.t, plan, parts, rows_of(plan, self.shape, *x)).is_some();
        let takes = match op {
            Op::MatMul { parts, .. } if parts.iter().any(|part| is_short(plan, part)) => false,
            Op::MatMul { x, parts, .. } => {
                few(x) || by_matrices(self.t, plan, parts, rows_of(plan, self.shape, *x)) || packs(x, parts)
            }
            Op::GatedMatMul { x, gate, up, .. } => {
                gates_in_one(self.t, plan, gate, up, rows_of(plan, self.shape, *x)) || packs(x, &[*gate, *up])
            }
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

    /// Of many rows, a product that reads the matrix once for all of them is worth a dispatch.
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
