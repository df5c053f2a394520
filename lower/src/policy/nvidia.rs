//! NVIDIA GPUs whose driver tells how many multiprocessors there are. Measured on an H200 (132 of them).
//!
//! Shapes of `gemv_dot` are those that `sweep` and whole tokens found best: workgroups wide enough to quantize the activations at
//! once, and as many as multiprocessors, so that each does it once. Limits on outputs lie between the shapes of llama-1b,
//! llama-8b and qwen3-30b-a3b; 65,536 and more are output matrices.

use super::table::{
    known, ClassChoices, Evidence, FewRow, Formats, GemvRow, Groups, HeadsRow, ManyRowsShape, RouterShape, Span,
    SplitAttention, UploadShape, When, ALWAYS, GEMV_MAX_COLS, USUAL_PREFILL,
};
use super::ActivationQuant::Q8;
use pumex_quant::FormatId::*;

const FLOATS: Evidence = Evidence::Record(
    "2026-11-21, device A: planes, coded activations without bank conflicts, fused norms, attention in parts, experts",
);
const CORES: Evidence =
    Evidence::Record("2026-11-21, device A: what a token waits for; attention by depth; router and top-k in one");
const MATRICES: Evidence =
    Evidence::Record("2026-11-21, device A: several rows by cooperative matrices, prompts too; attention by them");
const BITS8: Evidence = Evidence::Record(
    "2026-11-21, device A: codes of 8 bits; packets with tags instead of a counter; attention, routers and experts in the chain",
);
const FEW_AGAIN: Evidence = Evidence::Record(
    "2026-11-22, device A: few rows, again; weights in large pieces; the sampler; 64 weights of small formats at a time",
);
const TABLES: Evidence = Evidence::Record(
    "2026-11-22, device A: formats with tables, with random codes; rows that come packed to a norm; what a chain waits for",
);
const ORDER: Evidence = Evidence::Record("2026-11-22, device A: codes in an order of their own");
const EXPANDED: Evidence = Evidence::Record(
    "2026-11-22, device A: codebooks written out; prompts: attention by matrices, wider tiles, experts together",
);
const UPLOADS: Evidence =
    Evidence::Record("2026-11-22, device A: uploads in batches that the device reads where they are");
const UNSEEN: Evidence = Evidence::Estimate("more than there is work for; other values were not tried");

/// Outputs from which on a matrix is taken for the model's last.
const HEAD: usize = 65_536;
const ONE: When = When { columns: Span::ONE, ..ALWAYS };
/// One row, activations of 8 bits.
const SHORT: When = When { activations: Some(Q8), ..ONE };
const SHORT_HEAD: When = When { outputs: Span::from(HEAD), ..SHORT };
const WIDE: When = When { outputs: Span::below(HEAD), ..SHORT };

/// `threads`, `rows` of a subgroup at a time, workgroups of a multiprocessor.
const fn row(name: &'static str, when: When, tile: (u32, u32, u32), evidence: Evidence) -> GemvRow {
    GemvRow { name, when, threads: tile.0, rows: tile.1, groups: Groups::PerCore(tile.2), evidence }
}

const fn of(formats: Formats, when: When) -> When {
    When { formats, ..when }
}

const GEMV: &[GemvRow] = &[
    // Codebooks written out.
    row("IQ1_M expanded, head", of(Formats::These(&[Iq1MExpanded]), SHORT_HEAD), (1024, 4, 1), EXPANDED),
    row(
        "IQ3_S expanded",
        of(Formats::These(&[Iq3SExpanded]), When { gated: Some(false), ..WIDE }),
        (512, 1, 2),
        EXPANDED,
    ),
    row(
        "IQ3_S expanded, head",
        of(Formats::These(&[Iq3SExpanded]), When { gated: Some(false), ..SHORT_HEAD }),
        (512, 1, 3),
        EXPANDED,
    ),
    row("expanded", of(Formats::Expanded, When { gated: Some(false), ..WIDE }), (256, 2, 2), EXPANDED),
    row("expanded, head", of(Formats::Expanded, When { gated: Some(false), ..SHORT_HEAD }), (256, 2, 3), EXPANDED),
    // Below 8,192 outputs: q, k, v, o, down.
    row(
        "up to 2,048 outputs, beside others",
        When { outputs: Span::below(2049), inputs: Span::below(8193), ..ONE },
        (256, 1, 2),
        CORES,
    ),
    row("up to 4,224 outputs", When { outputs: Span::below(4225), ..ONE }, (1024, 1, 1), CORES),
    row("below 8,192 outputs", When { outputs: Span::below(8192), ..ONE }, (512, 1, 1), CORES),
    row("below 8,192 outputs, several rows", When { outputs: Span::below(8192), ..ALWAYS }, (512, 2, 1), CORES),
    // From 8,192 outputs on: gate and up.
    row("gated", When { gated: Some(true), ..ALWAYS }, (512, 1, 1), CORES),
    row(
        "wide, many registers",
        of(Formats::These(&[Q5K, Q6K]), When { outputs: Span::below(HEAD), ..ONE }),
        (512, 2, 1),
        CORES,
    ),
    row("wide, codebook", of(Formats::Codebooks, WIDE), (512, 1, 1), TABLES),
    row("wide, NVFP4", of(Formats::These(&[Nvfp4]), WIDE), (512, 1, 1), ORDER),
    row("wide, IQ4_XS", of(Formats::These(&[Iq4Xs]), WIDE), (1024, 1, 1), ORDER),
    row("wide", When { outputs: Span::below(HEAD), ..ONE }, (1024, 2, 1), CORES),
    row("wide, several rows", When { outputs: Span::below(HEAD), ..ALWAYS }, (512, 2, 1), CORES),
    // The output matrix, activations of 8 bits.
    row("head, Q4_K", of(Formats::These(&[Q4K]), SHORT), (512, 1, 2), BITS8),
    row("head, many registers", of(Formats::These(&[Q5K, Q6K]), SHORT), (256, 1, 4), BITS8),
    row("head, IQ4_NL", of(Formats::These(&[Iq4Nl]), SHORT), (1024, 1, 1), ORDER),
    row("head, IQ1_S", of(Formats::These(&[Iq1S]), SHORT), (1024, 4, 1), ORDER),
    row("head, table", of(Formats::Tables, SHORT), (1024, 2, 1), ORDER),
    row("head, Q2_K and Q3_K", of(Formats::These(&[Q2K, Q3K]), SHORT), (1024, 2, 1), ORDER),
    row("head, Q2_0", of(Formats::These(&[Q2_0]), SHORT), (512, 2, 2), ORDER),
    row("head, bytes", of(Formats::These(&[Q8_0, Q8K]), SHORT), (1024, 1, 3), BITS8),
    row("head, ternary", of(Formats::These(&[Tq2_0, Tq1_0]), SHORT), (512, 4, 2), ORDER),
    // The output matrix, activations of 16 bits, or of 8 where nothing above is for the format.
    row("head, under 2.2 bits", of(Formats::BitsBelow(2.2), ONE), (1024, 4, 1), CORES),
    row("head, Q4_K, 16 bits", of(Formats::These(&[Q4K]), ONE), (512, 4, 2), CORES),
    row("head, many registers, 16 bits", of(Formats::These(&[Q5K, Q6K]), ONE), (512, 2, 1), CORES),
    row("head, under 6.1 bits", of(Formats::BitsBelow(6.1), ONE), (1024, 2, 2), CORES),
    row("head", ONE, (256, 2, 8), CORES),
    row("head, several rows", ALWAYS, (512, 2, 4), CORES),
];

/// Two chunks under way of the widest matrices, where the block is simple enough that registers allow it.
const TWO_CHUNKS: &[When] = &[of(Formats::These(&[Q2_0, Q2K, Q3K, Q4K, Q8_0, Q8K, Iq4Nl, Mxfp4]), SHORT_HEAD)];

const UP_TO_2: When = When { columns: Span::below(3), ..ALWAYS };
const SHORT_ROWS: Span = Span::below(8192);

const fn float(name: &'static str, when: When, threads: u32, rows: u32) -> GemvRow {
    GemvRow { name, when, threads, rows, groups: Groups::All, evidence: FLOATS }
}

/// A subgroup's worth of threads per few outputs; more threads for long rows.
const GEMV_FLOAT: &[GemvRow] = &[
    float("F32, short rows", When { formats: Formats::These(&[F32]), inputs: SHORT_ROWS, ..ALWAYS }, 32, 2),
    float("F32", of(Formats::These(&[F32]), ALWAYS), 64, 2),
    float("one or two rows, short", When { inputs: SHORT_ROWS, ..UP_TO_2 }, 32, 4),
    float("one or two rows", UP_TO_2, 64, 4),
    float("several rows, short", When { inputs: SHORT_ROWS, ..ALWAYS }, 32, 2),
    float("several rows", ALWAYS, 64, 2),
];

const fn few(name: &'static str, when: When, tile: (u32, u32, u32), evidence: Evidence) -> FewRow {
    FewRow { name, when, threads: tile.0, split: tile.1, per_core: tile.2, evidence }
}

const GEMM_FEW: &[FewRow] = &[
    few("up to 4,224 outputs", When { outputs: Span::below(4225), ..ALWAYS }, (256, 8, u32::MAX), MATRICES),
    few("up to 8,192 outputs", When { outputs: Span::below(8193), ..ALWAYS }, (128, 4, u32::MAX), MATRICES),
    few("gated", When { gated: Some(true), ..ALWAYS }, (256, 8, 4), TABLES),
    // Each workgroup fills its table.
    few("table", of(Formats::Tables, ALWAYS), (128, 4, 8), FEW_AGAIN),
    few("wide", ALWAYS, (128, 2, u32::MAX), MATRICES),
];

const fn heads(matrices: bool, positions: Span, heads: usize, evidence: Evidence) -> HeadsRow {
    HeadsRow { matrices: Some(matrices), positions, heads, evidence }
}

const ATTENTION_HEADS: &[HeadsRow] = &[
    heads(true, Span::below(257), 2, MATRICES),
    heads(true, Span::ALL, 8, MATRICES),
    heads(false, Span::below(769), 1, CORES),
    heads(false, Span::below(2049), 2, CORES),
    heads(false, Span::ALL, 8, CORES),
];

/// What is chosen.
pub(super) const CHOICES: ClassChoices = ClassChoices {
    evidence: BITS8,
    activations: known(Q8, BITS8),
    gemv: GEMV,
    two_chunks: known(TWO_CHUNKS, ORDER),
    gemv_float: GEMV_FLOAT,
    held: known(u32::MAX, BITS8),
    gemv_columns: known(GEMV_MAX_COLS, BITS8),
    fewer_columns: known(&[], BITS8),
    gates_apart: known(&[], BITS8),
    expert_threads: known(512, CORES),
    gemm_few: GEMM_FEW,
    many_rows: known(
        ManyRowsShape { by: &[], bytes: Formats::Any, wide: 2, buffers: 2 },
        Evidence::Estimate("matrices do it where there are some; before them there were no fast halves"),
    ),
    small_float_tiles: known(true, EXPANDED),
    megakernel_threads: known(Some(512), BITS8),
    attention_heads: ATTENTION_HEADS,
    split_attention: known(SplitAttention { threads: 256, span: 64, least: 256 }, FLOATS),
    prefill: known(USUAL_PREFILL, FLOATS),
    busy_groups: known(528, Evidence::Estimate("four for each of an H200's multiprocessors")),
    route_threads: known(256, UNSEEN),
    router: known(RouterShape::Spread { threads: 256 }, CORES),
    row_threads: known(512, UNSEEN),
    sample_threads: known(256, UNSEEN),
    upload: known(
        UploadShape { threads: 12, batch_bytes: 8 << 20, slots: 5, reason: "the device reads the host's memory" },
        UPLOADS,
    ),
    builds_ahead: known(true, UPLOADS),
};

/// Before Turing: threads of a subgroup take turns, so that one that waits for another of its own would wait for ever.
pub(super) const PASCAL: ClassChoices = ClassChoices {
    evidence: Evidence::Estimate("as measured on an H200, but for what needs newer hardware"),
    megakernel_threads: known(None, Evidence::Estimate("its threads wait for each other")),
    ..CHOICES
};
