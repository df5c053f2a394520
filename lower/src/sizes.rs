//! Bytes of what dispatches need beside weights and states: scratch, workspaces, packed activations. Pure, so that memory is
//! planned before any is taken.

use super::rows::{sample_parts, MAX_K};
use super::target::{RowPacking, Shape, Target};
use super::{chosen, scan};
use super::{fuse_ops, Packing};
use crate::policy;
use crate::policy::matrix::{FEW, MOST_COLUMNS, PACKED_LEN};
use crate::policy::panels::READ_AHEAD;
use crate::policy::{matrix as tiles, panels, MatrixLayout, PackedRowsRequest};
use pumex_plan::{General, Op, Placement, Plan};
use pumex_shaders::block::Block;
use pumex_shaders::stage::Stage;
use pumex_vk::Caps;
use std::collections::HashSet;

/// Bytes of a route of one expert, which products of experts side by side have for each of a row's.
const ROUTE_BYTES: usize = 16;

/// Bytes of the split-reduction workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SplitReduction {
    /// What workgroups leave for the last of them.
    pub partials: u64,
    /// Counters of arrivals, zero between dispatches.
    pub arrivals: u64,
}

/// Enough for every step of `plan` with up to `max_rows` rows, all of them output rows or none.
pub fn split_reduction(caps: &Caps, plan: &Plan, max_rows: usize) -> SplitReduction {
    let argmax = (1..=max_rows).map(|rows| 8 * rows * policy::argmax_parts(caps, rows)).max();
    let candidates = max_rows * sample_parts(caps, plan.n_vocab) * (MAX_K + 1);
    let (mut bytes, mut counters) = (argmax.unwrap_or(8).max(8 * candidates), max_rows);
    let pairs = plan.ops.iter().map(|op| match op {
        Op::General(General::ExpertsMatMul(e)) => ROUTE_BYTES * max_rows * e.top_k.k,
        Op::General(General::Scan(s)) => scan::workspace(caps, plan, s, max_rows),
        _ => 0,
    });
    let panels = panels::split_workspace(caps);
    (bytes, counters) = (bytes.max(panels.0), counters.max(panels.1));
    bytes = bytes.max(pairs.max().unwrap_or(0)).max(chosen::workspace(plan, max_rows));
    let mut known = HashSet::new(); // most layers are alike
    for op in &plan.ops {
        let Op::Attend { spec: c, .. } = op else { continue };
        if !known.insert((c.heads, c.kv_heads, c.head_dim, c.v_dim)) {
            continue;
        }
        for rows in 1..=max_rows {
            for heads in 1..=policy::ATTN_HEADS {
                let tile = policy::attn_tile(caps, c, rows, 16, heads);
                bytes = bytes.max(4 * rows * c.heads * tile.parts as usize * (4 + c.v_dim));
            }
            counters = counters.max(rows * c.heads);
        }
    }
    SplitReduction { partials: bytes as u64, arrivals: 4 * counters as u64 }
}

/// Bytes of packed activations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Packed {
    /// Most inputs of a packed row.
    pub k: usize,
    /// Rows as halves, and their factors.
    pub codes: u64,
    /// Factors of the packed rows.
    pub factors: u64,
    /// Sums of squares of rows that come packed for a norm.
    pub squares: u64,
    /// What they are packed over.
    pub powers: u64,
    /// The largest matrix that becomes halves for its products; 0 where none does.
    pub decoded: u64,
    /// What experts with many rows take: the tiles' list, packed rows, factors and products.
    pub moe: Option<[u64; 4]>,
}

impl Packed {
    /// Enough for steps of `plan` with up to `max_rows` rows, on a device that takes packed rows as asked.
    pub fn of(plan: &Plan, max_rows: usize, caps: &Caps, asked: PackedRowsRequest) -> Packed {
        let inputs = |op: &Op| match op {
            Op::MatMul { parts, .. } => parts.first().map(|p| plan.weights[p.weight.0].cols),
            Op::GatedMatMul { gate, .. } => Some(plan.weights[gate.weight.0].cols),
            _ => None,
        };
        let k = plan.ops.iter().filter_map(inputs).max().unwrap_or(0).next_multiple_of(PACKED_LEN);
        let rows = max_rows.next_multiple_of(policy::MOST_GROUP_ROWS);
        Packed {
            k,
            codes: (2 * rows * k + READ_AHEAD) as u64,
            factors: (4 * rows) as u64,
            squares: (4 * FEW * k / tiles::MAT_M) as u64,
            powers: (8 * FEW + 4 * rows) as u64,
            decoded: if policy::decodes(caps, max_rows, asked) { largest_decoded(plan) } else { 0 },
            moe: moe(plan, max_rows, caps),
        }
    }

    /// Bytes of each buffer, with those of the maps for matrices of so many columns, and of the factors of rows that the op
    /// before packs.
    pub fn buffers(&self, columns: &[u32]) -> Vec<u64> {
        let maps = columns.iter().map(|mat_n| 4 * tiles::MAT_M as u64 * u64::from(*mat_n));
        let fixed = [self.codes, self.factors, self.squares, self.powers, 8 * FEW as u64];
        let decoded = (self.decoded > 0).then_some(self.decoded);
        fixed.into_iter().chain(maps).chain(decoded).chain(self.moe.into_iter().flatten()).collect()
    }

    /// What lowering asks of them, on a device whose threads hold matrices so.
    pub fn packing(&self, layout: MatrixLayout) -> Packing {
        Packing { layout, k: self.k, moe: self.moe.is_some() }
    }

    /// What lowering asks of rows for products without matrices, where the device takes them so.
    pub fn rows(&self, caps: &Caps, asked: PackedRowsRequest) -> Option<RowPacking> {
        policy::packs_rows(caps, asked).then_some(RowPacking { asked, moe: self.moe.is_some() })
    }
}

/// Bytes of the largest matrix that becomes halves for a product.
fn largest_decoded(plan: &Plan) -> u64 {
    let weights = |op: &Op| match op {
        Op::MatMul { parts, .. } => parts.iter().map(|p| p.weight).collect(),
        Op::GatedMatMul { gate, up, .. } => vec![gate.weight, up.weight],
        Op::GatedExperts { gate, up, .. } => vec![*gate, *up],
        Op::ExpertsAdd { down, .. } => vec![*down],
        Op::General(General::ExpertsMatMul(e)) => vec![e.weight],
        _ => Vec::new(),
    };
    let infos = plan.ops.iter().flat_map(weights).map(|w| &plan.weights[w.0]);
    let bytes = infos.filter(|info| !policy::lies_as_halves(info.format)).map(|info| info.f16_bytes());
    bytes.filter(|bytes| *bytes <= policy::MOST_DECODED_BYTES).max().unwrap_or(0)
}

fn moe(plan: &Plan, max_rows: usize, caps: &Caps) -> Option<[u64; 4]> {
    let of = |op: &Op| match op {
        Op::GatedExperts { top_k, gate, .. } => Some((*top_k, plan.weights[gate.0].cols, 0)),
        Op::ExpertsAdd { top_k, down, out, .. } => Some((*top_k, plan.weights[down.0].cols, plan.values[out.0].width)),
        // Its products need no room of their own.
        Op::General(General::ExpertsMatMul(e)) => Some((e.top_k, plan.weights[e.weight.0].cols, 0)),
        _ => None,
    };
    let sizes = plan.ops.iter().filter_map(of).map(|(c, k, m)| {
        let sizes = (max_rows, c.k, c.n_expert); // fewer rows need no more
        let ways = [tiles::moe_tiles(sizes.0, sizes.1, sizes.2), panels::moe_panels(sizes.0, sizes.1, sizes.2)];
        let ways = &ways[..if caps.matrix_n.is_empty() { 1 } else { 2 }];
        let rows = ways.iter().map(|moe| moe.most * moe.columns).max().unwrap_or(0).next_multiple_of(MOST_COLUMNS);
        let codes = 2 * rows * k.next_multiple_of(PACKED_LEN) + READ_AHEAD;
        let bytes = [8 * rows, codes, 4 * rows, 4 * max_rows * c.k * m];
        bytes.map(|b| b.max(16) as u64)
    });
    sizes.reduce(|a, b| [0, 1, 2, 3].map(|i| a[i].max(b[i])))
}

/// Words of one recording, at most: stages of the megakernel, addresses of packed rows.
pub fn most_words(plan: &Plan) -> u64 {
    const STAGES_OF_AN_OP: usize = 3;
    (plan.ops.len() * STAGES_OF_AN_OP * Stage::LAYOUT.len_bytes() / 4) as u64
}

/// Bytes of the scratch arena: ops merge differently by the rows of a step, and values lie accordingly.
pub fn arena(target: &Target<'_>) -> u64 {
    let few = [1, 2, policy::GEMV_MAX_COLS, policy::GEMV_MAX_COLS + 1, policy::FEW_ROWS + 1, target.max_rows];
    let shapes = few.into_iter().flat_map(|rows| [true, false].map(|batch| shape(rows.min(target.max_rows), batch)));
    let sources: &[bool] = if target.plan.encoder.is_some() { &[false, true] } else { &[false] };
    let shapes = shapes.flat_map(|shape| sources.iter().map(move |source| Shape { source: *source, ..shape }));
    let lens = shapes.map(|shape| Placement::new(&fuse_ops(target, shape), target.max_rows, target.max_rows).len_bytes);
    lens.max().unwrap_or(0).max(Placement::new(target.plan, target.max_rows, target.max_rows).len_bytes)
}

fn shape(rows: usize, decode_batch: bool) -> Shape {
    Shape { rows, outputs: rows, decode_batch, heads: 1, ..Shape::default() }
}
