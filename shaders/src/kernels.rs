//! The kernel table: one row per shader, with the specialization constants it has by name.
//!
//! Rows of one op stand together. `needs` says what a device must have beyond what it needs to be opened at all; for every
//! op and format there is a row that needs nothing.

mod rows;
mod tower;

use crate::push;
use rows::{with, ATTN_PROMPT, BYTES, GEMM_ROWS, MATRIX2, PACK_PANELS, PANELS, STAGED};
pub use rows::{MEGAKERNEL_FORMATS, MEGAKERNEL_MOE_FORMATS};

/// Which weight formats a kernel is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Formats {
    /// It reads no weight matrices.
    None,
    /// Every format.
    All,
    /// Those whose weights halves can hold.
    Halves,
    /// Those of blocks of small integers.
    Quantized,
    /// These, alone or two in one module, `A+B`.
    Pairs(&'static [&'static str]),
}

impl Formats {
    /// Whether a format of that stem, of so many weights per block, is among them.
    pub fn includes(self, stem: &str, block_len: usize) -> bool {
        match self {
            Formats::None | Formats::Pairs(_) => false,
            Formats::All => true,
            Formats::Halves => stem != "f32",
            Formats::Quantized => block_len > 1,
        }
    }
}

/// What a kernel asks of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Nothing beyond the floor.
    Nothing,
    /// Dot products of packed signed bytes.
    IntegerDot,
    /// Arithmetic of halves.
    Half,
    /// Cooperative matrices of halves with sums in floats, of any shape that kernels fill from shared memory.
    StagedMatrix,
    /// Cooperative matrices of signed bytes with sums in 32 bits, likewise.
    ByteMatrix,
    /// Cooperative matrices of halves with sums in floats, over subgroups of 32.
    Matrix,
    /// Cooperative matrices of halves that a workgroup holds, with sums in floats (VK_NV_cooperative_matrix2).
    Matrix2,
}

/// One shader.
#[derive(Debug)]
pub struct Kernel {
    /// Name, and stem of `glsl/NAME.comp`.
    pub name: &'static str,
    /// Weight formats it is compiled for, once each, as `NAME.STEM`.
    pub formats: Formats,
    /// What a device must have for it.
    pub needs: Needs,
    /// Specialization constants: name and id.
    pub spec: &'static [(&'static str, u32)],
}

/// What becomes of a gate and of what it gates: `lib/gate.glsl`.
const GATE: [(&str, u32); 5] = [("GATE_ACT", 30), ("GATE_A", 31), ("GATE_B", 32), ("UP_LIMIT", 33), ("UP_PLUS", 34)];

const KV: [(&str, u32); 4] = [("K_TYPE", 10), ("V_TYPE", 11), ("HEAD_DIM", 12), ("V_DIM", 15)];

/// Which positions a row sees, and rules of the scores: see [`crate::constants::MASK`].
const SEEN: [(&str, u32); 2] = [("MASK", 16), ("RULES", 17)];

/// By which of a row's positions pairs rotate.
const STREAMS: [(&str, u32); 2] = [("STREAMS", 40), ("SECTIONS", 41)];

/// Of attention of a few rows.
const ATTN: [(&str, u32); 15] = [
    ("SIZE", 0),
    ("GH", 1),
    ("ROPE", 2),
    ("NEOX", 3),
    ("NORM", 4),
    ("SPAN", 5),
    ("LEAST", 6),
    ("PACK_EPILOGUE", 13),
    ("LEAVES", 14),
    KV[0],
    KV[1],
    KV[2],
    KV[3],
    SEEN[0],
    SEEN[1],
];

/// Products with the matrices of each row's experts.
const EXPERTS: [(&str, u32); 2] = [("EXPERTS", 10), ("USED", 11)];

/// Of recurrences: shapes, and where columns are.
const SCAN: [(&str, u32); 28] = [
    ("SIZE", 0),
    ("KIND", 1),
    ("HEADS", 2),
    ("V_DIM", 3),
    ("K_DIM", 4),
    ("GROUPS", 5),
    ("TILED", 6),
    ("DECAYS", 7),
    ("FACTORS", 8),
    ("RATED", 9),
    ("SOFT", 31),
    ("SKIP", 32),
    ("Q_WIDTH", 12),
    ("Q_STRIDE", 13),
    ("K_WIDTH", 14),
    ("K_STRIDE", 15),
    ("V_WIDTH", 16),
    ("V_STRIDE", 17),
    ("DECAY_WIDTH", 18),
    ("DECAY_STRIDE", 19),
    ("RATE_WIDTH", 20),
    ("RATE_STRIDE", 21),
    ("A_WIDTH", 22),
    ("A_STRIDE", 23),
    ("B_WIDTH", 24),
    ("B_STRIDE", 25),
    ("Y_WIDTH", 26),
    ("Y_STRIDE", 27),
];

/// 1: weights lie as a structure of arrays, not as blocks.
const SOA: (&str, u32) = ("SOA", 20);

/// Rows of a slab, for a matrix that no buffer holds whole; 0 for one that lies in one piece.
const SLAB_ROWS: (&str, u32) = ("SLAB_ROWS", 35);

/// Times that a format's table stands in shared memory.
const COPIES: (&str, u32) = ("COPIES", 21);

/// 1: dot products of unsigned with signed bytes are made of signed ones.
const SIGNED_DOTS: (&str, u32) = ("SIGNED_DOTS", 22);

/// 1: no two rows of the step are of one sequence.
const ALONE: (&str, u32) = ("ALONE", 30);

/// Every shader.
pub const KERNELS: &[Kernel] = &[
    Kernel { name: "embed", formats: Formats::All, needs: Needs::Nothing, spec: &[("SIZE", 0), SOA, SLAB_ROWS] },
    Kernel {
        name: "rms_norm",
        formats: Formats::None,
        needs: Needs::Nothing,
        spec: &[("SIZE", 0), ("OUTPUT_ROWS", 1)],
    },
    Kernel {
        name: "gemv",
        formats: Formats::All,
        needs: Needs::Nothing,
        spec: &[
            ("SIZE", 0),
            ("ROWS", 1),
            ("COLS", 2),
            ("GATED", 3),
            ("ADD", 4),
            ("NORM", 6),
            EXPERTS[0],
            EXPERTS[1],
            SOA,
            SLAB_ROWS,
            GATE[0],
            GATE[1],
            GATE[2],
            GATE[3],
            GATE[4],
        ],
    },
    Kernel {
        name: "gemv_dot",
        formats: Formats::Quantized,
        needs: Needs::IntegerDot,
        spec: &[
            ("SIZE", 0),
            ("ROWS", 1),
            ("COLS", 2),
            ("GATED", 3),
            ("ADD", 4),
            ("K", 5),
            ("NORM", 6),
            ("SPAN", 7),
            ("DEPTH", 8),
            ("BITS", 9),
            EXPERTS[0],
            EXPERTS[1],
            ("WHOLE_ROWS", 19),
            SOA,
            SLAB_ROWS,
            COPIES,
            SIGNED_DOTS,
            ("APART", 23),
            ("SLICES", 24),
            GATE[0],
            GATE[1],
            GATE[2],
            GATE[3],
            GATE[4],
        ],
    },
    Kernel {
        name: "megakernel",
        formats: Formats::Pairs(&MEGAKERNEL_FORMATS),
        needs: Needs::IntegerDot,
        spec: &[
            ("SIZE", 0),
            ("K", 1),
            ("K_2", 2),
            ("ROWS_2", 3),
            ("LANES", 4),
            ("SPIN", 5),
            ("BITS", 6),
            ("MESSAGES", 7),
            ("HEAD_DIM", 8),
            ("PARTED", 12),
            ("HEADS_MOST", 13),
            ("PAIR", 14),
            SOA,
            COPIES,
            SIGNED_DOTS,
        ],
    },
    Kernel {
        name: "megakernel_moe",
        formats: Formats::Pairs(&MEGAKERNEL_MOE_FORMATS),
        needs: Needs::IntegerDot,
        spec: &[
            ("SIZE", 0),
            ("K", 1),
            ("K_2", 2),
            ("ROWS_2", 3),
            ("LANES", 4),
            ("SPIN", 5),
            ("BITS", 6),
            ("MESSAGES", 7),
            ("HEAD_DIM", 8),
            ("PARTED", 12),
            ("HEADS_MOST", 13),
            ("PAIR", 14),
            ("K_3", 9),
            EXPERTS[0],
            EXPERTS[1],
            SOA,
            COPIES,
            SIGNED_DOTS,
        ],
    },
    Kernel {
        name: "gemm_tile",
        formats: Formats::All,
        needs: Needs::Nothing,
        spec: &[("EPILOGUE", 1), ("HEADS", 2), SOA, SLAB_ROWS, GATE[0], GATE[1], GATE[2], GATE[3], GATE[4]],
    },
    Kernel { name: "gemm_dot", formats: Formats::Quantized, needs: Needs::IntegerDot, spec: &GEMM_ROWS },
    Kernel { name: "gemm_half", formats: Formats::Halves, needs: Needs::Half, spec: &GEMM_ROWS },
    Kernel { name: "gemm_staged", formats: Formats::Halves, needs: Needs::StagedMatrix, spec: &STAGED },
    Kernel { name: "gemm_bytes", formats: Formats::Quantized, needs: Needs::ByteMatrix, spec: &BYTES },
    Kernel { name: "gemm_matrix2", formats: Formats::Halves, needs: Needs::Matrix2, spec: &MATRIX2 },
    Kernel { name: "decode_weights", formats: Formats::Halves, needs: Needs::Nothing, spec: &[SOA, SLAB_ROWS, COPIES] },
    Kernel { name: "gemm_float", formats: Formats::None, needs: Needs::Nothing, spec: &[("EPILOGUE", 1)] },
    Kernel {
        name: "gemm_mat",
        formats: Formats::Halves,
        needs: Needs::Matrix,
        spec: &[
            ("SIZE", 0),
            ("GATED", 3),
            ("ADD", 4),
            ("K", 5),
            ("SPLIT", 7),
            ("MAT_N", 8),
            ("TILES", 9),
            EXPERTS[0],
            EXPERTS[1],
            SOA,
            SLAB_ROWS,
            GATE[0],
            GATE[1],
            GATE[2],
            GATE[3],
            GATE[4],
        ],
    },
    Kernel { name: "gemm_panels", formats: Formats::Halves, needs: Needs::Matrix, spec: &PANELS },
    Kernel {
        name: "gemm_few",
        formats: Formats::Halves,
        needs: Needs::Matrix,
        spec: &[
            ("SIZE", 0),
            ("GATED", 3),
            ("ADD", 4),
            ("K", 5),
            ("SPLIT", 7),
            ("TILES", 9),
            ("PACK_EPILOGUE", 12),
            ("TURN", 13),
            ("NORM_EPILOGUE", 14),
            ("NORM_EPILOGUE_2", 15),
            ("NORM_PROLOGUE", 16),
            SOA,
            SLAB_ROWS,
            COPIES,
            GATE[0],
            GATE[1],
            GATE[2],
            GATE[3],
            GATE[4],
        ],
    },
    Kernel {
        name: "pack",
        formats: Formats::None,
        needs: Needs::Nothing,
        spec: &[("SIZE", 0), ("K", 1), ("NORM", 2), ("CHUNKS", 3), ("GATHER", 4), ("COLUMNS", 5), ("MAT_N", 8)],
    },
    Kernel { name: "pack_panels", formats: Formats::None, needs: Needs::Nothing, spec: &PACK_PANELS },
    Kernel {
        name: "pack_rows",
        formats: Formats::None,
        needs: Needs::Nothing,
        spec: &[("SIZE", 0), ("BITS", 1), ("NORM", 2), ("GATHER", 3), ("COLUMNS", 4)],
    },
    Kernel {
        name: "moe_permute",
        formats: Formats::None,
        needs: Needs::Nothing,
        spec: &[("SIZE", 0), ("EXPERTS", 1), ("USED", 2), ("COLUMNS", 3)],
    },
    Kernel { name: "moe_combine", formats: Formats::None, needs: Needs::Nothing, spec: &[("SIZE", 0), ("USED", 1)] },
    Kernel { name: "fragment_layout", formats: Formats::None, needs: Needs::Matrix, spec: &[("USE", 1), ("MAT_N", 8)] },
    Kernel {
        name: "rope_kv",
        formats: Formats::None,
        needs: Needs::Nothing,
        spec: &[("SIZE", 0), ("NEOX", 1), ("NORM", 2), KV[0], KV[1], KV[2], KV[3], STREAMS[0], STREAMS[1]],
    },
    Kernel { name: "attn_split", formats: Formats::None, needs: Needs::Nothing, spec: &ATTN },
    Kernel { name: "attn_mat", formats: Formats::None, needs: Needs::Matrix, spec: &ATTN },
    Kernel { name: "attn_flash", formats: Formats::None, needs: Needs::Matrix, spec: &ATTN_PROMPT },
    Kernel { name: "attn_prompt", formats: Formats::None, needs: Needs::Matrix, spec: &ATTN_PROMPT },
    Kernel {
        name: "attn_matrix2",
        formats: Formats::None,
        needs: Needs::Matrix2,
        spec: &[("SIZE", 0), ("GH", 1), ("BR", 2), KV[0], KV[1], KV[2], KV[3], SEEN[0], SEEN[1]],
    },
    Kernel {
        name: "attn_staged",
        formats: Formats::None,
        needs: Needs::Matrix,
        spec: &[
            ("SIZE", 0),
            ("GH", 1),
            ("WAVES", 2),
            ("BR", 3),
            ("BC", 4),
            ("MAT_M", 5),
            ("MAT_N", 6),
            ("MAT_K", 7),
            KV[0],
            KV[1],
            KV[2],
            KV[3],
            SEEN[0],
            SEEN[1],
        ],
    },
    Kernel {
        name: "attn_prefill",
        formats: Formats::None,
        needs: Needs::Nothing,
        spec: &[("BR", 1), ("BC", 2), KV[0], KV[1], KV[2], KV[3], SEEN[0], SEEN[1]],
    },
    Kernel {
        name: "route",
        formats: Formats::None,
        needs: Needs::Nothing,
        spec: &[("SIZE", 0), ("EXPERTS", 1), ("USED", 2)],
    },
    Kernel {
        name: "router",
        formats: Formats::All,
        needs: Needs::Nothing,
        spec: &[("SIZE", 0), ("EXPERTS", 1), ("USED", 2), ("ROWS", 3), ("NORM", 4), SOA, SLAB_ROWS],
    },
    Kernel {
        name: "router_choose",
        formats: Formats::All,
        needs: Needs::Nothing,
        spec: &[
            ("SIZE", 0),
            ("EXPERTS", 1),
            ("USED", 2),
            ("ROWS", 3),
            ("NORM", 4),
            ("GATING", 5),
            ("BIASED", 6),
            ("EXPERT_GROUPS", 7),
            ("GROUPS_USED", 8),
            ("DIVIDED", 9),
            ("SHARING", 10),
            SOA,
            SLAB_ROWS,
        ],
    },
    Kernel {
        name: "choose",
        formats: Formats::None,
        needs: Needs::Nothing,
        spec: &[
            ("SIZE", 0),
            ("EXPERTS", 1),
            ("USED", 2),
            ("GATING", 3),
            ("BIASED", 4),
            ("EXPERT_GROUPS", 5),
            ("GROUPS_USED", 6),
            ("DIVIDED", 7),
            ("SHARING", 8),
            ("TABLE", 9),
        ],
    },
    Kernel { name: "route_pairs", formats: Formats::None, needs: Needs::Nothing, spec: &[("USED", 1), ("APART", 2)] },
    Kernel { name: "experts_bias", formats: Formats::None, needs: Needs::Nothing, spec: &[("USED", 1), ("SUMMED", 2)] },
    Kernel {
        name: "map",
        formats: Formats::None,
        needs: Needs::Nothing,
        spec: &[("SIZE", 0), ("ACT", 1), ("TIMES", 2), ("A_KIND", 3), ("B_KIND", 4), ("OUTPUT_ROWS", 5)],
    },
    Kernel {
        name: "dot",
        formats: Formats::None,
        needs: Needs::Nothing,
        spec: &[("SIZE", 0), ("ACT", 1), ("A_KIND", 2), ("B_KIND", 3)],
    },
    Kernel {
        name: "normalize",
        formats: Formats::None,
        needs: Needs::Nothing,
        spec: &[
            ("SIZE", 0),
            ("KIND", 1),
            ("WEIGHTED", 2),
            ("BIASED", 3),
            ("OUTPUT_ROWS", 4),
            ("LEN", 5),
            ("FOURS", 6),
            ("GATED", 7),
            ("ACT", 8),
        ],
    },
    Kernel {
        name: "rotate",
        formats: Formats::None,
        needs: Needs::Nothing,
        spec: &[("SIZE", 0), ("NEOX", 1), ("BACK", 2), ("TEMPERED", 3), STREAMS[0], STREAMS[1]],
    },
    Kernel { name: "positions", formats: Formats::All, needs: Needs::Nothing, spec: &[("SIZE", 0), SOA, SLAB_ROWS] },
    Kernel {
        name: "adapter_scales",
        formats: Formats::None,
        needs: Needs::Nothing,
        spec: &[("SIZE", 0), ("OUTPUTS", 1)],
    },
    Kernel { name: "take_vectors", formats: Formats::None, needs: Needs::Nothing, spec: &[("SIZE", 0), ("ADD", 1)] },
    Kernel { name: "by_id", formats: Formats::None, needs: Needs::Nothing, spec: &[("SIZE", 0)] },
    Kernel {
        name: "head_matmul",
        formats: Formats::All,
        needs: Needs::Nothing,
        spec: &[("SIZE", 0), ("LANES", 1), ("COLS", 2), ("ADD", 3), ("ALIGNED", 4), ("SINGLY", 5), SOA, SLAB_ROWS],
    },
    Kernel {
        name: "conv",
        formats: Formats::None,
        needs: Needs::Nothing,
        spec: &[("SIZE", 0), ("K", 1), ("SILU", 2), ("BIASED", 3), ("SHIFT", 4), ("IN_TURN", 5), ("NORM", 6), ALONE],
    },
    Kernel {
        name: "scan",
        formats: Formats::None,
        needs: Needs::Nothing,
        spec: &with::<28, 4, 32>(SCAN, [("ROWS", 10), ("LANES", 11), ("QUADS", 28), ALONE]),
    },
    Kernel {
        name: "scan_pairs",
        formats: Formats::None,
        needs: Needs::Nothing,
        spec: &with::<28, 2, 30>(SCAN, [("CHUNK", 28), ("PARTS", 29)]),
    },
    Kernel {
        name: "scan_chunks",
        formats: Formats::None,
        needs: Needs::Nothing,
        spec: &with::<28, 2, 30>(SCAN, [("CHUNK", 28), ("COLS", 29)]),
    },
    Kernel { name: "mix", formats: Formats::None, needs: Needs::Nothing, spec: &[("SIZE", 0), ("ADD", 1)] },
    Kernel { name: "softmax", formats: Formats::None, needs: Needs::Nothing, spec: &[("SIZE", 0)] },
    Kernel { name: "stream_gates", formats: Formats::None, needs: Needs::Nothing, spec: &[("SIZE", 0), ("COUNT", 1)] },
    Kernel { name: "keep", formats: Formats::None, needs: Needs::Nothing, spec: &[("SIZE", 0), ALONE] },
    Kernel {
        name: "pool",
        formats: Formats::None,
        needs: Needs::Nothing,
        spec: &[("SIZE", 0), ("OVERLAPS", 1), ("PLACED", 2), ALONE],
    },
    Kernel { name: "score_blocks", formats: Formats::None, needs: Needs::Nothing, spec: &[("SIZE", 0), ALONE] },
    Kernel { name: "choose_blocks", formats: Formats::None, needs: Needs::Nothing, spec: &[("SIZE", 0)] },
    Kernel {
        name: "score_positions",
        formats: Formats::None,
        needs: Needs::Nothing,
        spec: &[("SIZE", 0), ("GH", 1), ("WEIGHTS", 2), KV[0], KV[2]],
    },
    Kernel { name: "choose_positions", formats: Formats::None, needs: Needs::Nothing, spec: &[("SIZE", 0)] },
    Kernel {
        name: "attend_blocks",
        formats: Formats::None,
        needs: Needs::Nothing,
        spec: &[("SIZE", 0), ("DIM", 1), ("WINDOW", 2), ("OWN", 3), ("CHOSEN", 4), ALONE],
    },
    Kernel { name: "repack", formats: Formats::None, needs: Needs::Nothing, spec: &[] },
    Kernel {
        name: "conv2d",
        formats: Formats::None,
        needs: Needs::Nothing,
        spec: &[("SIZE", 0), ("HALVES", 1), ("BIAS", 2)],
    },
    Kernel {
        name: "conv2d_staged",
        formats: Formats::None,
        needs: Needs::StagedMatrix,
        spec: &[("SIZE", 0), ("HALVES", 1), ("BIAS", 2), ("MAT_M", 3), ("MAT_N", 4), ("MAT_K", 5), ("WAVES", 6)],
    },
    Kernel {
        name: "conv2d_matrix2",
        formats: Formats::None,
        needs: Needs::Matrix2,
        spec: &[("SIZE", 0), ("HALVES", 1), ("BIAS", 2)],
    },
    Kernel { name: "occupancy", formats: Formats::None, needs: Needs::Nothing, spec: &[("SIZE", 0), ("WORDS", 1)] },
    Kernel { name: "stream", formats: Formats::None, needs: Needs::Nothing, spec: &[("COPY", 1)] },
    Kernel { name: "square_sums", formats: Formats::None, needs: Needs::Nothing, spec: &[("EXPERTS", 0)] },
    Kernel {
        name: "sample",
        formats: Formats::None,
        needs: Needs::Nothing,
        spec: &[("SIZE", 0), ("K", 1), ("LOADS", 2)],
    },
    Kernel { name: "argmax", formats: Formats::None, needs: Needs::Nothing, spec: &[("SIZE", 0)] },
    tower::UNFOLD,
    tower::DEPTHWISE,
    tower::NORM,
    tower::GLOBAL_RESPONSE,
    tower::MAP,
    tower::PICK,
    tower::PERMUTE,
    tower::COPY,
    tower::ROTATE,
    tower::ATTEND,
    tower::ATTEND_MATRIX,
    tower::ATTEND_FRAGMENTS,
    tower::PACK_KEYS,
    tower::HEAD_PRODUCTS,
    tower::CHOOSE,
    tower::NEAREST,
    tower::SOFTMAX,
];

impl Kernel {
    /// Bytes of push constants.
    pub fn push_bytes(&self) -> u32 {
        push::of(self.name).map_or(0, |layout| layout.len_bytes() as u32)
    }

    /// Id of a specialization constant.
    pub fn spec_id(&self, name: &str) -> Option<u32> {
        self.spec.iter().find(|(n, _)| *n == name).map(|(_, id)| *id)
    }
}

/// The row of that name.
pub fn find(name: &str) -> Option<&'static Kernel> {
    KERNELS.iter().find(|k| k.name == name)
}
