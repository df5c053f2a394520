//! Numbers that Rust and GLSL must agree on beside blocks of words. GLSL has them as `#include "words/kv.glsl"`,
//! `"words/mask.glsl"` and `"words/shared.glsl"`.

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
    /// Of RULES: scores are capped.
    RULE_SOFT_CAP = 1;
    /// Of RULES: each head has a score without a value.
    RULE_SINKS = 2;
    /// Of RULES: scores fall with distance.
    RULE_ALIBI = 4;
}
