//! CPUs that run shaders. A workgroup costs more than a thread there, and all run on a few cores: few, narrow workgroups.

use super::nvidia::{GEMM_FEW, TWO_CHUNKS};
use super::table::{
    known, Choices, Evidence, GemvRow, Groups, HeadsRow, RouterShape, Span, SplitAttention, UploadShape, When, ALWAYS,
    ATTN_HEADS,
};
use super::ActivationQuant;

const LLVMPIPE: Evidence = Evidence::Record("2026-11-21, llvmpipe (Mesa 22.3.6, 2 cores)");
const GUESS: Evidence = Evidence::Estimate("narrow, as everything here");

const GEMV: &[GemvRow] =
    &[GemvRow { name: "all", when: ALWAYS, threads: 64, rows: 2, groups: Groups::Fixed(8), evidence: LLVMPIPE }];

const fn float(name: &'static str, when: When, rows: u32) -> GemvRow {
    GemvRow { name, when, threads: 8, rows, groups: Groups::All, evidence: LLVMPIPE }
}

const GEMV_FLOAT: &[GemvRow] =
    &[float("one or two rows", When { columns: Span::below(3), ..ALWAYS }, 4), float("several rows", ALWAYS, 2)];

/// What is chosen.
pub(super) const CHOICES: Choices = Choices {
    evidence: LLVMPIPE,
    activations: known(
        ActivationQuant::Q16,
        Evidence::Estimate("nothing to gain by fewer bits, so the more exact ones"),
    ),
    gemv: GEMV,
    two_chunks: known(TWO_CHUNKS, GUESS),
    gemv_float: GEMV_FLOAT,
    expert_threads: known(64, GUESS),
    gemm_few: GEMM_FEW,
    small_float_tiles: known(false, GUESS),
    megakernel_threads: known(None, Evidence::Estimate("its dispatches wait for nothing")),
    attention_heads: &[HeadsRow { matrices: None, positions: Span::ALL, heads: ATTN_HEADS, evidence: GUESS }],
    split_attention: known(SplitAttention { threads: 64, span: 16, least: 32 }, LLVMPIPE),
    busy_groups: known(6, GUESS),
    route_threads: known(64, GUESS),
    router: known(RouterShape::Fixed { threads: 64, experts: 4 }, GUESS),
    row_threads: known(64, LLVMPIPE),
    // Loops end after 65,535 turns of a thread in all, so that few threads with many turns are no choice.
    sample_threads: known(128, Evidence::Estimate("so that a vocabulary's turns stay within the driver's limit")),
    upload: known(
        UploadShape {
            threads: 4,
            batch_bytes: 1 << 20,
            slots: 4,
            reason: "software device: its kernels take the same cores",
        },
        GUESS,
    ),
    // One set of cores for both, and no cache keeps its pipelines, so that those never used would cost the most.
    builds_ahead: known(false, GUESS),
};
