//! Intel GPUs. None was measured: shapes are estimates from how they are built, from what others published, and from what Mesa's
//! compiler makes of the kernels.
//!
//! A subgroup has 128 registers, of 8 words on Xe and of 16 on Xe2: 128 for each of its threads where it has as few as it may, 64
//! where Xe has 16. So GEMV and decode attention have the fewest (`subgroups.rs`), and a subgroup takes two outputs at a time only
//! where their decoding is cheap.

use super::portable;
use super::table::{
    known, ClassChoices, Evidence, Formats, GemvRow, Groups, HeadsRow, ManyRows, ManyRowsShape, PrefillTile,
    RouterShape, Span, SplitAttention, When, ALWAYS,
};
use super::ActivationQuant::Q8;
use pumex_quant::FormatId::{self, *};

/// What ANV's compiler makes of the kernels.
pub(super) const RECORD: &str = "2026-11-25, no GPU: what ANV compiles for Xe and Xe2";

const TWO_ROWS: Evidence = Evidence::Estimate("others' rows of a workgroup on Intel: two");
const SMALL: Evidence =
    Evidence::Estimate("an Xe core holds 1,024 threads of 16 lanes' subgroups, in four workgroups of 256");
const UNSEEN: Evidence = Evidence::Estimate("more than there is work for; other values were not tried");
const LITTLE: Evidence = Evidence::Estimate("a thread of a subgroup of 16 has 64 registers, half of them for 32 sums");
const NO_SPILLS: Evidence = Evidence::Record(RECORD);
const NO_PROMISE: Evidence = Evidence::Estimate("nobody tried whether all workgroups run at once");

/// Threads hold the activations of a workgroup until they are coded: of so many inputs 256 threads would take most registers for it.
const LONG: When = When { inputs: Span::from(8193), ..ALWAYS };
/// Gate and up are two outputs by themselves.
const GATED: When = When { gated: Some(true), ..ALWAYS };
const WIDE: When =
    When { outputs: Span::from(8192), columns: Span::below(3), formats: Formats::These(PLAIN), ..ALWAYS };
const FEW: When = When { columns: Span::below(3), ..ALWAYS };
const HALVES_GATED: When = When { formats: Formats::These(&[F16, Bf16]), gated: Some(true), ..ALWAYS };

/// And several rows of them in turn.
const LONG_ROWS: When = When { inputs: Span::from(6145), columns: Span::from(2), ..ALWAYS };
/// Gate and up together have twice what a thread decodes and sums up.
const APART: &[When] = &[
    When { formats: Formats::These(&[Q5K, Q6K]), ..ALWAYS },
    When { formats: Formats::These(DECODED), columns: Span::from(2), ..ALWAYS },
];
const APART_XE2: &[When] = &[APART[0], APART[1], When { formats: Formats::These(&[Q3K]), ..ALWAYS }];
const DECODED: &[FormatId] =
    &[Q2K, Q3K, Q4K, Iq2Xxs, Iq2Xs, Iq2S, Iq3Xxs, Iq3S, Iq3SExpanded, Iq4Xs, Tq1_0, Tq2_0, Q1_0, Q2_0];

/// Most activation rows of what has the most to decode.
const FEWER_XE1: &[(When, usize)] = &[(When { formats: Formats::These(&[Q5K, Q6K]), ..ALWAYS }, 2), (HALVES_GATED, 2)];
const FEWER_XE2: &[(When, usize)] = &[(When { formats: Formats::These(&[Q6K]), ..ALWAYS }, 2)];

/// Formats of two outputs at a time.
const PLAIN: &[FormatId] = &[Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2K, Q3K, Q4K, Q1_0, Q2_0, Mxfp4];

const fn row(name: &'static str, when: When, tile: (u32, u32), groups: Groups, evidence: Evidence) -> GemvRow {
    GemvRow { name, when, threads: tile.0, rows: tile.1, groups, evidence }
}

const GEMV: &[GemvRow] = &[
    row("long", LONG, (512, 1), Groups::PerCore(4), NO_SPILLS),
    row("long, several rows", LONG_ROWS, (512, 1), Groups::PerCore(4), NO_SPILLS),
    row("gated", GATED, (256, 1), Groups::PerCore(8), NO_SPILLS),
    row("wide", WIDE, (256, 2), Groups::PerCore(8), TWO_ROWS),
    row("all", ALWAYS, (256, 1), Groups::PerCore(4), TWO_ROWS),
];
const GEMV_FLOAT: &[GemvRow] = &[
    row("one or two rows", FEW, (32, 2), Groups::All, NO_SPILLS),
    row("all", ALWAYS, (32, 1), Groups::All, NO_SPILLS),
];
/// Numbers of 16 bits take a register each there.
const GEMV_FLOAT_XE1: &[GemvRow] = &[
    row("gated, halves", HALVES_GATED, (32, 1), Groups::All, NO_SPILLS),
    row("one or two rows", FEW, (32, 2), Groups::All, NO_SPILLS),
    row("all", ALWAYS, (32, 1), Groups::All, NO_SPILLS),
];

const HEADS: &[HeadsRow] = &[
    HeadsRow { matrices: None, positions: Span::below(1025), heads: 1, evidence: SMALL },
    HeadsRow { matrices: None, positions: Span::ALL, heads: 2, evidence: NO_SPILLS },
];

const fn prefill(dim: usize, rows: u32, span: u32) -> PrefillTile {
    PrefillTile { dim, rows, span }
}

const PREFILL: &[PrefillTile] = &[prefill(128, 32, 32), prefill(256, 32, 16), prefill(usize::MAX, 8, 16)];
/// More positions leave the compiler a loop over the columns of wide heads.
const PREFILL_XE1: &[PrefillTile] = &[prefill(256, 16, 16), prefill(usize::MAX, 16, 32)];

/// Xe2 and newer.
pub(super) const XE2: ClassChoices = ClassChoices {
    evidence: TWO_ROWS,
    activations: known(Q8, Evidence::Estimate("dot products of bytes are as fast as they get")),
    gemv: GEMV,
    two_chunks: known(&[], UNSEEN),
    gemv_float: GEMV_FLOAT,
    held: known(16, NO_SPILLS),
    gemv_columns: known(4, NO_SPILLS),
    fewer_columns: known(FEWER_XE2, NO_SPILLS),
    gates_apart: known(APART_XE2, NO_SPILLS),
    prefill: known(PREFILL, NO_SPILLS),
    expert_threads: known(256, NO_SPILLS),
    many_rows: known(ManyRowsShape { by: &ManyRows::USUAL, bytes: Formats::Any, wide: 1, buffers: 2 }, LITTLE),
    megakernel_threads: known(None, NO_PROMISE),
    attention_heads: HEADS,
    split_attention: known(SplitAttention { threads: 128, span: 32, least: 128 }, SMALL),
    busy_groups: known(128, Evidence::Estimate("four for each of some 32 Xe cores")),
    router: known(RouterShape::Spread { threads: 256 }, UNSEEN),
    row_threads: known(256, UNSEEN),
    ..portable::CHOICES
};

/// Xe and what came before: a thread has half the registers of 16 that those of Xe2 have.
pub(super) const XE1: ClassChoices = ClassChoices {
    prefill: known(PREFILL_XE1, NO_SPILLS),
    gates_apart: known(APART, NO_SPILLS),
    fewer_columns: known(FEWER_XE1, NO_SPILLS),
    gemv_float: GEMV_FLOAT_XE1,
    ..XE2
};
