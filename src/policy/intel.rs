//! Intel GPUs. None was measured: shapes are estimates from how they are built, and from what others published.
//!
//! Subgroups are pinned to 16, which all Xe have; an Xe core runs eight or sixteen hardware threads of them on each of its units.
//! A subgroup is little, so that it takes two outputs at a time.

use super::nvidia;
use super::table::{
    known, Choices, Evidence, Formats, GemvRow, Groups, HeadsRow, ManyRows, ManyRowsShape, RouterShape, Span,
    SplitAttention, When, ALWAYS,
};
use super::ActivationQuant::Q8;

const TWO_ROWS: Evidence = Evidence::Estimate("others' rows of a workgroup on Intel: two");
const SMALL: Evidence =
    Evidence::Estimate("an Xe core holds 1,024 threads of 16 lanes' subgroups, in four workgroups of 256");
const UNSEEN: Evidence = Evidence::Estimate("more than there is work for; other values were not tried");
const LITTLE: Evidence = Evidence::Estimate("a thread of a subgroup of 16 has 64 registers, half of them for 32 sums");
const NO_PROMISE: Evidence = Evidence::Estimate("nobody tried whether all workgroups run at once");

const WIDE: When = When { outputs: Span::from(8192), ..ALWAYS };
const FEW: When = When { columns: Span::below(3), ..ALWAYS };

const fn row(name: &'static str, when: When, tile: (u32, u32), groups: Groups) -> GemvRow {
    GemvRow { name, when, threads: tile.0, rows: tile.1, groups, evidence: TWO_ROWS }
}

const GEMV: &[GemvRow] =
    &[row("wide", WIDE, (256, 2), Groups::PerCore(8)), row("all", ALWAYS, (256, 1), Groups::PerCore(4))];
const GEMV_FLOAT: &[GemvRow] =
    &[row("one or two rows", FEW, (32, 4), Groups::All), row("all", ALWAYS, (32, 2), Groups::All)];

const HEADS: &[HeadsRow] = &[
    HeadsRow { matrices: None, positions: Span::below(1025), heads: 1, evidence: SMALL },
    HeadsRow { matrices: None, positions: Span::ALL, heads: 4, evidence: SMALL },
];

/// What is chosen.
pub(super) const CHOICES: Choices = Choices {
    evidence: TWO_ROWS,
    activations: known(Q8, Evidence::Estimate("dot products of bytes are as fast as they get")),
    gemv: GEMV,
    two_chunks: known(&[], UNSEEN),
    gemv_float: GEMV_FLOAT,
    expert_threads: known(128, SMALL),
    many_rows: known(ManyRowsShape { by: &ManyRows::USUAL, bytes: Formats::Any, wide: 1, buffers: 2 }, LITTLE),
    megakernel_threads: known(None, NO_PROMISE),
    attention_heads: HEADS,
    split_attention: known(SplitAttention { threads: 128, span: 32, least: 128 }, SMALL),
    busy_groups: known(128, Evidence::Estimate("four for each of some 32 Xe cores")),
    router: known(RouterShape::Spread { threads: 256 }, UNSEEN),
    row_threads: known(256, UNSEEN),
    ..nvidia::CHOICES
};
