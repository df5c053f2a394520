//! Numbers that Rust and GLSL must agree on beside blocks of words. GLSL has them as `#include "words/kv.glsl"`,
//! `"words/mask.glsl"`, `"words/general.glsl"`, `"words/tower.glsl"` and `"words/shared.glsl"`.

use crate::block::constants;

/// A type that elements of the KV cache may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvType {
    /// As on the command line; in GLSL `KV_NAME`.
    pub name: &'static str,
    /// Words of 32 elements.
    pub words: u32,
}

/// Types of the KV cache, in the order of their numbers.
pub const KV_TYPES: [KvType; 9] = [
    KvType { name: "f32", words: 32 },
    KvType { name: "f16", words: 16 },
    KvType { name: "bf16", words: 16 },
    KvType { name: "q8_0", words: 9 },
    KvType { name: "q4_0", words: 5 },
    KvType { name: "q4_1", words: 5 },
    KvType { name: "q5_0", words: 6 },
    KvType { name: "q5_1", words: 6 },
    KvType { name: "iq4_nl", words: 5 },
];

constants! {
    /// Shared by several kernels.
    SHARED:
    /// What gated units that go on packed were divided by: it leaves room for outliers, as they have, while what halves lose at
    /// the lower end is nothing beside them.
    GATED_FACTOR = 16;
    /// What repack.comp knows parts of the codes by: the place of their first byte.
    REPACK_CODES = 1 << 16;
}

constants! {
    /// Which positions attention sees, and what becomes of its scores.
    MASK:
    /// All up to the row's own.
    MASK_CAUSAL = 0;
    /// The last `window` of them.
    MASK_WINDOW = 1;
    /// Those of the row's own `window`, counted from position 0.
    MASK_CHUNK = 2;
    /// All of the sequence.
    MASK_FULL = 3;
    /// Those up to `window` before and behind the row's own.
    MASK_NEAR = 4;
    /// Those of the sequence's source.
    MASK_SOURCE = 5;
    /// Those after its source, up to the row's own.
    MASK_ANSWER = 6;
    /// Those that a list has, see `plan/src/sparse_attention.rs`.
    MASK_CHOSEN = 7;
    /// All up to the row's own, and those behind it that see each other with it.
    MASK_GROUP = 8;
    /// Of these, the last `window` up to its own, and all behind it.
    MASK_GROUP_WINDOW = 9;
    /// Of RULES: scores are capped.
    RULE_SOFT_CAP = 1;
    /// Of RULES: each head has a score without a value.
    RULE_SINKS = 2;
    /// Of RULES: scores fall with distance.
    RULE_ALIBI = 4;
    /// Of RULES: scores have a number added by distance and direction.
    RULE_BIASES = 8;
    /// Distance beyond which that stays the same.
    BIAS_REACH = 128;
}

constants! {
    /// What kernels of general ops do: see `plan/src/general.rs` and its neighbours.
    GENERAL:
    /// Output channels of a thread that convolves images.
    CONV2D_CHANNELS = 4;
    /// Outputs, and pixels, of a workgroup that convolves images by cooperative matrices.
    CONV2D_TILE = 64;
    /// The number itself.
    ACT_SAME = 0;
    /// SiLU.
    ACT_SILU = 1;
    /// GELU by tanh.
    ACT_GELU = 2;
    /// GELU by the error function.
    ACT_GELU_ERF = 3;
    /// GELU by a sigmoid.
    ACT_GELU_QUICK = 4;
    /// ReLU.
    ACT_RELU = 5;
    /// Its square.
    ACT_RELU_SQUARED = 6;
    /// Sigmoid.
    ACT_SIGMOID = 7;
    /// Tanh.
    ACT_TANH = 8;
    /// Softplus.
    ACT_SOFTPLUS = 9;
    /// Exponential.
    ACT_EXP = 10;
    /// Between two numbers.
    ACT_CLAMP = 11;
    /// Tanh, as wide as a number.
    ACT_SOFT_CAP = 12;
    /// SiLU with a factor, of at most a number.
    ACT_SILU_CLAMPED = 13;
    /// xIELU of four numbers.
    ACT_XIELU = 14;
    /// One by the number.
    ACT_INVERSE = 15;
    /// `sqrt(x)`
    ACT_SQRT = 16;
    /// The gate of Kimi K3.
    ACT_SITU = 17;
    /// Columns of each group.
    OPERAND_COLUMNS = 0;
    /// A column per group.
    OPERAND_PER_GROUP = 1;
    /// Weights of a group, or the same for all.
    OPERAND_WEIGHT = 2;
    /// A weight per group.
    OPERAND_GROUP_WEIGHT = 3;
    /// One number.
    OPERAND_NUMBER = 4;
    /// By the root of the mean square.
    NORM_RMS = 0;
    /// By mean and deviation.
    NORM_LAYER = 1;
    /// By the length.
    NORM_L2 = 2;
    /// Likewise, what keeps the divisor from zero under the root.
    NORM_UNIT = 3;
    /// Softmax over all experts.
    GATING_SOFTMAX = 0;
    /// Over those taken.
    GATING_SOFTMAX_OF_TAKEN = 1;
    /// Sigmoid.
    GATING_SIGMOID = 2;
    /// Root of softplus.
    GATING_SQRT_SOFTPLUS = 3;
    /// Mamba.
    SCAN_MAMBA = 0;
    /// Gated delta rule.
    SCAN_DELTA = 1;
    /// RWKV 6.
    SCAN_WKV6 = 2;
    /// Gated linear attention.
    SCAN_GLA = 3;
    /// RWKV 7.
    SCAN_WKV7 = 4;
}

constants! {
    /// What the kernel of encoders' maps does beside [`GENERAL`]'s functions.
    TOWER:
    /// `x * clamp(x / 6 + 1/2, 0, 1)`
    ACT_HARD_SWISH = 64;
    /// `clamp(x / 6 + 1/2, 0, 1)`
    ACT_HARD_SIGMOID = 65;
}
