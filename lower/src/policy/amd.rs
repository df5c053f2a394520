//! AMD GPUs. None was measured: shapes are estimates from how they are built, and from what others published.
//!
//! A compute unit of RDNA has two units of 32 lanes (which subgroups have 64 threads there: [`super::subgroups`]), one of GCN and
//! CDNA four of 16 lanes that take 64 threads in turn. Workgroups are of 256 threads: all activations are coded by each workgroup, so
//! that small ones would code them too often, and larger ones leave 64 KiB of shared memory to one of them.

use super::portable;
use super::table::{
    known, ClassChoices, Evidence, Formats, GemvRow, Groups, HeadsRow, ManyRows, ManyRowsShape, RouterShape, Span,
    SplitAttention, When, ALWAYS, ATTN_HEADS,
};
use super::ActivationQuant::Q8;
use pumex_quant::FormatId::{self, Iq4Nl, Iq4Xs, Mxfp4, Tq1_0, F32, Q1_0, Q3K, Q4_0, Q5_0, Q6K, Q8_0};

/// What RADV's compiler makes of the kernels.
const RECORD: &str = "2026-11-25, no GPU: what RADV compiles for RDNA and GCN";

const TWO_EACH: Evidence = Evidence::Estimate("two workgroups of 256 threads for each compute unit's shared memory");
const ONE_ROW: Evidence =
    Evidence::Estimate("others' rows of a workgroup on RDNA: one of legacy formats, two of K-quants");
const FOUR_ROWS: Evidence = Evidence::Estimate("others' rows of a workgroup on GCN: twice those of RDNA");
const UNSEEN: Evidence = Evidence::Estimate("more than there is work for; other values were not tried");
const PACKED: Evidence =
    Evidence::Estimate("four products of bytes at a time, two of halves; a thread of 32 has registers for 64 sums");
const UNPACKED: Evidence = Evidence::Estimate("GCN up to Polaris has halves at the rate of floats");
const NO_SPILLS: Evidence = Evidence::Record(RECORD);
const BYTES: Evidence =
    Evidence::Estimate("others multiply these formats by matrices of bytes, on RDNA 4 those without minima");
const NO_PROMISE: Evidence = Evidence::Estimate("nobody tried whether all workgroups run at once");

const WIDE: When = When { outputs: Span::from(8192), ..ALWAYS };

/// Threads hold the activations of a workgroup until they are coded: of so many inputs 256 threads would take most registers for it.
const LONG: When = When { inputs: Span::from(24_576), ..ALWAYS };
/// Gate and up of two outputs have 32 sums of 8 rows; of TQ1_0, whose digits take most registers to decode, those of one row are enough.
const GATED: When = When { gated: Some(true), columns: Span::from(5), ..ALWAYS };
const GATED_DIGITS: When = When { gated: Some(true), formats: Formats::These(&[Tq1_0]), ..ALWAYS };

const fn row(name: &'static str, when: When, rows: u32, groups: Groups, evidence: Evidence) -> GemvRow {
    GemvRow { name, when, threads: 256, rows, groups, evidence }
}

const RDNA_GEMV: &[GemvRow] = &[
    row("gated, many rows", GATED, 1, Groups::PerCore(4), NO_SPILLS),
    row("gated, TQ1_0", GATED_DIGITS, 1, Groups::PerCore(4), NO_SPILLS),
    GemvRow { threads: 512, ..row("long", LONG, 1, Groups::PerCore(2), NO_SPILLS) },
    row("wide", WIDE, 2, Groups::PerCore(4), ONE_ROW),
    row("all", ALWAYS, 1, Groups::PerCore(2), TWO_EACH),
];
const GCN_GEMV: &[GemvRow] =
    &[row("wide", WIDE, 4, Groups::PerCore(4), FOUR_ROWS), row("all", ALWAYS, 2, Groups::PerCore(2), FOUR_ROWS)];

const fn float(name: &'static str, when: When, rows: u32, evidence: Evidence) -> GemvRow {
    GemvRow { name, when, threads: 64, rows, groups: Groups::All, evidence }
}

const FEW: When = When { columns: Span::below(3), ..ALWAYS };
/// Gate and up of two outputs are four lines of weights as floats, beside the sums of all rows.
const SEVERAL_GATED: When = When { gated: Some(true), columns: Span::from(2), ..ALWAYS };
const FLOATS: When = When { formats: Formats::These(&[F32]), ..ALWAYS };
const RDNA_FLOAT: &[GemvRow] = &[
    float("gated, several rows", SEVERAL_GATED, 1, NO_SPILLS),
    float("F32", FLOATS, 2, ONE_ROW),
    float("one or two rows", FEW, 4, ONE_ROW),
    float("all", ALWAYS, 2, ONE_ROW),
];
const GCN_FLOAT: &[GemvRow] = &[
    float("gated, several rows", SEVERAL_GATED, 1, NO_SPILLS),
    float("F32", FLOATS, 2, FOUR_ROWS),
    float("one or two rows", FEW, 4, FOUR_ROWS),
    float("all", ALWAYS, 2, FOUR_ROWS),
];

/// A thread has 128 weights of it at a time, as floats.
const FEWER_FLOATS: &[(When, usize)] = &[(When { formats: Formats::These(&[Q1_0]), ..ALWAYS }, 1)];

/// Heads of a workgroup, the longer the sequence the more: what they share is worth more then.
const HEADS: &[HeadsRow] = &[
    HeadsRow { matrices: None, positions: Span::below(1025), heads: 2, evidence: TWO_EACH },
    HeadsRow { matrices: None, positions: Span::ALL, heads: ATTN_HEADS, evidence: TWO_EACH },
];

/// Formats whose offsets, if there are some, are whole multiples of their scales: others' list for RDNA 4.
const PLAIN: &[FormatId] = &[Q4_0, Q5_0, Q8_0, Iq4Nl, Iq4Xs, Mxfp4, Q3K, Q6K];

/// RDNA 2.
pub(super) const RDNA: ClassChoices = ClassChoices {
    evidence: TWO_EACH,
    activations: known(Q8, Evidence::Estimate("dot products of bytes are as fast as they get")),
    gemv: RDNA_GEMV,
    two_chunks: known(&[], UNSEEN),
    held: known(24, NO_SPILLS),
    gemv_float: RDNA_FLOAT,
    expert_threads: known(256, TWO_EACH),
    many_rows: known(ManyRowsShape { by: &ManyRows::USUAL, bytes: Formats::Any, wide: 2, buffers: 1 }, PACKED),
    megakernel_threads: known(None, NO_PROMISE),
    attention_heads: HEADS,
    split_attention: known(SplitAttention { threads: 128, span: 64, least: 256 }, TWO_EACH),
    busy_groups: known(256, Evidence::Estimate("four for each of some 64 compute units")),
    router: known(RouterShape::Spread { threads: 256 }, UNSEEN),
    row_threads: known(256, UNSEEN),
    ..portable::CHOICES
};

/// RDNA 1, most of whose cards have no dot products of bytes.
pub(super) const RDNA1: ClassChoices = ClassChoices { fewer_columns: known(FEWER_FLOATS, NO_SPILLS), ..RDNA };

/// RDNA 3 and 3.5.
pub(super) const RDNA3: ClassChoices = ClassChoices {
    many_rows: known(ManyRowsShape { by: &ManyRows::WITH_BYTES, bytes: Formats::Any, wide: 2, buffers: 1 }, BYTES),
    ..RDNA
};

/// RDNA 4.
pub(super) const RDNA4: ClassChoices = ClassChoices {
    many_rows: known(
        ManyRowsShape { by: &ManyRows::WITH_BYTES, bytes: Formats::These(PLAIN), wide: 2, buffers: 1 },
        BYTES,
    ),
    ..RDNA
};

/// GCN and CDNA.
pub(super) const GCN: ClassChoices = ClassChoices {
    gemv: GCN_GEMV,
    gemv_float: GCN_FLOAT,
    fewer_columns: known(FEWER_FLOATS, NO_SPILLS),
    many_rows: known(ManyRowsShape { by: &[ManyRows::Dot], bytes: Formats::Any, wide: 2, buffers: 1 }, UNPACKED),
    ..RDNA
};
