//! Constants of products of many packed rows, and of their attention; formats of the megakernel.

use super::{COPIES, EXPERTS, GATE, KV, SEEN, SIGNED_DOTS, SLAB_ROWS, SOA};

/// Formats, and pairs of them, that usual recipes hold; the first, which gate and up have, may have a table.
pub const MEGAKERNEL_FORMATS: [&str; 14] = [
    "q4_k+q6_k",
    "q5_k+q6_k",
    "q4_0+q6_k",
    "q8_0",
    "q6_k",
    "q4_k+q5_k",
    "iq4_xs+q5_k",
    "iq4_nl+q5_k",
    "q3_k+q4_k",
    "q3_k+q5_k",
    "iq3_s+q4_k",
    "iq2_xs+q4_k",
    "iq2_xxs+q4_k",
    "iq3_s_expanded+q4_k",
];

/// Likewise, of models with experts.
pub const MEGAKERNEL_MOE_FORMATS: [&str; 8] =
    ["q4_k+q6_k", "q5_k+q6_k", "q4_0+q6_k", "q8_0", "q6_k", "iq4_xs+q5_k", "mxfp4+q8_0", "iq3_s_expanded+q4_k"];

/// Attention of many rows, by matrices that threads fill themselves.
pub(super) const ATTN_PROMPT: [(&str, u32); 8] = [("SIZE", 0), ("GH", 1), KV[0], KV[1], KV[2], KV[3], SEEN[0], SEEN[1]];

/// Products of many rows packed by `pack_rows`.
pub(super) const GEMM_ROWS: [(&str, u32); 15] = [
    ("EPILOGUE", 1),
    ("WIDE", 2),
    ("COLUMNS", 3),
    ("GATHER", 4),
    EXPERTS[0],
    EXPERTS[1],
    SOA,
    SLAB_ROWS,
    COPIES,
    SIGNED_DOTS,
    GATE[0],
    GATE[1],
    GATE[2],
    GATE[3],
    GATE[4],
];

/// Likewise, by cooperative matrices.
pub(super) const STAGED: [(&str, u32); 20] =
    with(GEMM_ROWS, [("MAT_M", 5), ("MAT_N", 6), ("MAT_K", 7), ("WAVES", 8), ("BUFFERS", 9)]);

/// Likewise, of bytes.
pub(super) const BYTES: [(&str, u32); 19] = with(GEMM_ROWS, [("MAT_M", 5), ("MAT_N", 6), ("MAT_K", 7), ("WAVES", 8)]);

/// Likewise, of halves that a workgroup holds together.
pub(super) const MATRIX2: [(&str, u32); 23] = with(
    GEMM_ROWS,
    [("SIZE", 0), ("K", 5), ("TILE", 6), ("ROWS", 7), ("STEP", 8), ("WAY", 9), ("RUN", 12), ("WHOLE", 13)],
);

/// Packs rows for those by panels.
pub(super) const PACK_PANELS: [(&str, u32); 6] =
    [("SIZE", 0), ("K", 1), ("NORM", 2), ("GATHER", 3), ("COLUMNS", 4), ("WIDTH", 5)];

/// By panels of activations.
pub(super) const PANELS: [(&str, u32); 17] = with(
    [
        ("SIZE", 0),
        ("GATED", 3),
        ("ADD", 4),
        ("K", 5),
        ("SPLIT", 7),
        ("TALL", 8),
        ("WIDE", 9),
        ("WHOLE_ROWS", 19),
        EXPERTS[0],
        EXPERTS[1],
        SOA,
        SLAB_ROWS,
    ],
    GATE,
);

/// Constants, and more of them.
pub(super) const fn with<const SOME: usize, const MORE: usize, const ALL: usize>(
    some: [(&'static str, u32); SOME],
    more: [(&'static str, u32); MORE],
) -> [(&'static str, u32); ALL] {
    assert!(SOME + MORE == ALL, "as many as both have");
    let (mut all, mut i) = ([("", 0); ALL], 0);
    while i < ALL {
        all[i] = if i < SOME { some[i] } else { more[i - SOME] };
        i += 1;
    }
    all
}
