//! CPUs that run shaders. A workgroup costs more than a thread there, and all run on a few cores: few, narrow workgroups.

use super::portable;
use super::table::{
    known, ClassChoices, Evidence, Formats, GemvRow, Groups, HeadsRow, ManyRowsShape, RouterShape, Span,
    SplitAttention, UploadShape, When, ALWAYS, ATTN_HEADS, GEMV_MAX_COLS, USUAL_PREFILL,
};
use super::ActivationQuant;
use pumex_quant::FormatId::{Iq4Nl, Mxfp4, Q2K, Q2_0, Q3K, Q4K, Q8K, Q8_0};

const LLVMPIPE: Evidence = Evidence::Record("2026-11-21, llvmpipe (Mesa 22.3.6, 2 cores)");
const GUESS: Evidence = Evidence::Estimate("narrow, as everything here");

/// A pipeline is compiled when it is first run, for a time that grows with its square.
const SHORT: Evidence = Evidence::Estimate("llvmpipe compiles Q4_K 0.5 s for one output at a time, 0.9 s for two");

const GEMV: &[GemvRow] =
    &[GemvRow { name: "all", when: ALWAYS, threads: 64, rows: 1, groups: Groups::Fixed(8), evidence: SHORT }];

const GEMV_FLOAT: &[GemvRow] =
    &[GemvRow { name: "all", when: ALWAYS, threads: 8, rows: 2, groups: Groups::All, evidence: SHORT }];

/// The widest matrices of formats whose blocks are simple.
const TWO_CHUNKS: &[When] = &[When {
    formats: Formats::These(&[Q2_0, Q2K, Q3K, Q4K, Q8_0, Q8K, Iq4Nl, Mxfp4]),
    outputs: Span::from(65_536),
    columns: Span::ONE,
    activations: Some(ActivationQuant::Q8),
    ..ALWAYS
}];

/// What is chosen.
pub(super) const CHOICES: ClassChoices = ClassChoices {
    evidence: LLVMPIPE,
    activations: known(
        ActivationQuant::Q16,
        Evidence::Estimate("nothing to gain by fewer bits, so the more exact ones"),
    ),
    gemv: GEMV,
    two_chunks: known(TWO_CHUNKS, GUESS),
    gemv_float: GEMV_FLOAT,
    held: known(u32::MAX, GUESS),
    gemv_columns: known(GEMV_MAX_COLS, GUESS),
    fewer_columns: known(&[], GUESS),
    gates_apart: known(&[], GUESS),
    expert_threads: known(64, GUESS),
    gemm_few: portable::CHOICES.gemm_few,
    many_rows: known(
        ManyRowsShape { by: &[], bytes: Formats::Any, wide: 1, buffers: 2 },
        Evidence::Estimate("a CPU multiplies floats as fast, and bytes and halves by floats"),
    ),
    small_float_tiles: known(false, GUESS),
    megakernel_threads: known(None, Evidence::Estimate("its dispatches wait for nothing")),
    attention_heads: &[HeadsRow { matrices: None, positions: Span::ALL, heads: ATTN_HEADS, evidence: GUESS }],
    split_attention: known(SplitAttention { threads: 64, span: 16, least: 32 }, LLVMPIPE),
    prefill: known(USUAL_PREFILL, LLVMPIPE),
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
