//! Constants of products of many packed rows.

use super::{with, COPIES, EXPERTS, GATE, SIGNED_DOTS, SOA};

/// Products of many rows packed by `pack_rows`.
pub(super) const GEMM_ROWS: [(&str, u32); 14] = [
    ("EPILOGUE", 1),
    ("WIDE", 2),
    ("COLUMNS", 3),
    ("GATHER", 4),
    EXPERTS[0],
    EXPERTS[1],
    SOA,
    COPIES,
    SIGNED_DOTS,
    GATE[0],
    GATE[1],
    GATE[2],
    GATE[3],
    GATE[4],
];

/// Likewise, by cooperative matrices.
pub(super) const STAGED: [(&str, u32); 19] =
    with(GEMM_ROWS, [("MAT_M", 5), ("MAT_N", 6), ("MAT_K", 7), ("WAVES", 8), ("BUFFERS", 9)]);

/// Likewise, of bytes.
pub(super) const BYTES: [(&str, u32); 18] = with(GEMM_ROWS, [("MAT_M", 5), ("MAT_N", 6), ("MAT_K", 7), ("WAVES", 8)]);

/// Likewise, of halves that a workgroup holds together.
pub(super) const MATRIX2: [(&str, u32); 22] = with(
    GEMM_ROWS,
    [("SIZE", 0), ("K", 5), ("TILE", 6), ("ROWS", 7), ("STEP", 8), ("WAY", 9), ("RUN", 12), ("WHOLE", 13)],
);
