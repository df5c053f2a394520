//! The base of all classes: what a GPU that nobody measured gets, and what the other classes take over where nothing is known to be
//! better. It names no measurement, so that a shape found best on one device changes no other.
//!
//! GPUs of other vendors have it as it is, as do those of NVIDIA whose driver tells no multiprocessors. A class that is measured gets a
//! file of its own.

use super::table::{
    known, ClassChoices, Evidence, FewRow, Formats, GemvRow, Groups, HeadsRow, ManyRowsShape, RouterShape, Span,
    SplitAttention, UploadShape, When, ALWAYS, GEMV_MAX_COLS, USUAL_PREFILL,
};
use super::ActivationQuant::Q8;
use pumex_quant::FormatId::F32;

const USUAL: Evidence = Evidence::Estimate("a shape that is far from the best on no GPU that was seen");
const UNSEEN: Evidence = Evidence::Estimate("more than there is work for; other values were not tried");
const SHARED: Evidence = Evidence::Estimate("what heads share is read once, and is worth more the longer the sequence");

const ONE: When = When { columns: Span::ONE, ..ALWAYS };
const WIDE: When = When { outputs: Span::from(8192), ..ALWAYS };
/// An output matrix.
const HEAD: When = When { outputs: Span::from(65_536), ..ALWAYS };

const fn row(name: &'static str, when: When, threads: u32, rows: u32, per_core: u32) -> GemvRow {
    GemvRow { name, when, threads, rows, groups: Groups::PerCore(per_core), evidence: USUAL }
}

/// Workgroups wide enough to quantize the activations at once, and few, so that few do it.
const GEMV: &[GemvRow] = &[
    row("up to 2,048 outputs", When { outputs: Span::below(2049), inputs: Span::below(8193), ..ONE }, 256, 1, 2),
    row("gated", When { gated: Some(true), ..ALWAYS }, 512, 1, 1),
    row("head", HEAD, 512, 2, 4),
    row("wide", WIDE, 512, 2, 1),
    row("one row", ONE, 512, 1, 1),
    row("several rows", ALWAYS, 512, 2, 1),
];

const FEW: When = When { columns: Span::below(3), ..ALWAYS };
const SHORT: Span = Span::below(8192);

const fn float(name: &'static str, when: When, threads: u32, rows: u32) -> GemvRow {
    GemvRow { name, when, threads, rows, groups: Groups::All, evidence: USUAL }
}

/// A subgroup's worth of threads for few outputs; more threads for long rows.
const GEMV_FLOAT: &[GemvRow] = &[
    float("F32, short rows", When { formats: Formats::These(&[F32]), inputs: SHORT, ..ALWAYS }, 32, 2),
    float("F32", When { formats: Formats::These(&[F32]), ..ALWAYS }, 64, 2),
    float("one or two rows, short", When { inputs: SHORT, ..FEW }, 32, 4),
    float("one or two rows", FEW, 64, 4),
    float("several rows, short", When { inputs: SHORT, ..ALWAYS }, 32, 2),
    float("several rows", ALWAYS, 64, 2),
];

const fn few(name: &'static str, when: When, threads: u32, split: u32, per_core: u32) -> FewRow {
    FewRow { name, when, threads, split, per_core, evidence: USUAL }
}

const GEMM_FEW: &[FewRow] = &[
    few("up to 4,224 outputs", When { outputs: Span::below(4225), ..ALWAYS }, 256, 8, u32::MAX),
    few("up to 8,192 outputs", When { outputs: Span::below(8193), ..ALWAYS }, 128, 4, u32::MAX),
    few("gated", When { gated: Some(true), ..ALWAYS }, 256, 8, 4),
    // Each workgroup fills its table.
    few("table", When { formats: Formats::Tables, ..ALWAYS }, 128, 4, 8),
    few("wide", ALWAYS, 128, 2, u32::MAX),
];

const fn heads(matrices: bool, positions: Span, heads: usize) -> HeadsRow {
    HeadsRow { matrices: Some(matrices), positions, heads, evidence: SHARED }
}

const ATTENTION_HEADS: &[HeadsRow] = &[
    heads(true, Span::below(257), 2),
    heads(true, Span::ALL, 8),
    heads(false, Span::below(769), 1),
    heads(false, Span::below(2049), 2),
    heads(false, Span::ALL, 8),
];

/// What is chosen.
pub(super) const CHOICES: ClassChoices = ClassChoices {
    evidence: USUAL,
    activations: known(Q8, Evidence::Estimate("dot products of bytes are as fast as they get where a device has them")),
    gemv: GEMV,
    two_chunks: known(&[], Evidence::Estimate("how many registers a thread has is not known")),
    gemv_float: GEMV_FLOAT,
    held: known(u32::MAX, UNSEEN),
    gemv_columns: known(GEMV_MAX_COLS, UNSEEN),
    fewer_columns: known(&[], UNSEEN),
    gates_apart: known(&[], UNSEEN),
    expert_threads: known(512, USUAL),
    gemm_few: GEMM_FEW,
    many_rows: known(
        ManyRowsShape { by: &[], bytes: Formats::Any, wide: 2, buffers: 2 },
        Evidence::Estimate("without matrices nothing is known to be faster than floats"),
    ),
    small_float_tiles: known(true, USUAL),
    megakernel_threads: known(None, Evidence::Estimate("nobody tried whether all workgroups run at once")),
    attention_heads: ATTENTION_HEADS,
    split_attention: known(SplitAttention { threads: 256, span: 64, least: 256 }, USUAL),
    prefill: known(USUAL_PREFILL, USUAL),
    busy_groups: known(528, Evidence::Estimate("what keeps a large GPU busy; more than a small one needs")),
    route_threads: known(256, UNSEEN),
    router: known(RouterShape::Spread { threads: 256 }, USUAL),
    row_threads: known(512, UNSEEN),
    sample_threads: known(256, UNSEEN),
    upload: known(
        UploadShape { threads: 12, batch_bytes: 8 << 20, slots: 5, reason: "the device reads the host's memory" },
        Evidence::Estimate("bounded by the host's memory, whatever the device"),
    ),
    builds_ahead: known(true, Evidence::Estimate("pipelines are compiled by cores that wait for the file")),
};
