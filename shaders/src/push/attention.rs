//! Push constants of attention.

use crate::block::blocks;

blocks! {
    /// Per-head norms and RoPE of q and k in place, k and v into the cache.
    RopeKv("rope_kv") = {
        /// `[n, heads * HEAD_DIM | kv_heads * HEAD_DIM | kv_heads * V_DIM]`.
        qkv: F32x2,
        /// `[HEAD_DIM]`, if NORM.
        q_norm: F32,
        /// `[HEAD_DIM]`, if NORM.
        k_norm: F32,
        /// `[rope_dims / 2]`, radians per position.
        inv_freq: F32,
        /// K of the layer.
        k_cache: uvec2,
        /// V of the layer.
        v_cache: uvec2,
        /// StepParams.
        params: Step,
        /// Query heads.
        heads: uint,
        /// K/V heads.
        kv_heads: uint,
        /// Dimensions of a head that are rotated.
        rope_dims: uint,
        /// Of the norms.
        eps: float,
        /// Words from a row's block table to that of the layer's kind of state.
        table_at: uint,
    }

    /// Attention of few rows, in parts that meet.
    AttendFew("attn_split", "attn_mat") = {
        /// `[n, heads * HEAD_DIM | kv_heads * HEAD_DIM | kv_heads * V_DIM]`.
        qkv: F32,
        /// `[n, heads * V_DIM]`, or packed as PACK_EPILOGUE says.
        y: F32,
        /// K of the layer.
        k_cache: uvec2,
        /// V of the layer.
        v_cache: uvec2,
        /// StepParams.
        params: Step,
        /// `[n, heads, parts, STATE]`: largest score, sum, two unused, weighted V; with LEAVES where parts are left.
        partials: Partials,
        /// `[n, heads / GH]`, zero between dispatches.
        arrivals: Arrivals,
        /// `[HEAD_DIM]`, if NORM; for MASK_CHOSEN `[n, window]`, how many positions a row sees, then which.
        q_norm: F32,
        /// `[HEAD_DIM]`, if NORM.
        k_norm: F32,
        /// `[rope_dims / 2]`, radians per position.
        inv_freq: F32,
        /// `[heads]`, if RULES has sinks; `[heads, 2 * BIAS_REACH + 1]`, if it has biases.
        sinks: uvec2,
        /// Query heads.
        heads: uint,
        /// K/V heads.
        kv_heads: uint,
        /// Dimensions of a head that are rotated.
        rope_dims: uint,
        /// Factor of scores.
        scale: float,
        /// Of the norms.
        eps: float,
        /// Epoch of parts that are left, among the step's.
        epoch: uint,
        /// Words from a row's block table to that of the layer's kind of state.
        table_at: uint,
        /// Positions of MASK.
        window: uint,
        /// What scores are capped at, if RULES has it.
        soft_cap: float,
        /// ALiBi's largest bias, if RULES has it.
        alibi: float,
    }

    /// Attention of many rows; the kernels read and write rows in types of their own, as GLSL's Rows.
    AttendMany("attn_flash", "attn_prompt", "attn_staged", "attn_matrix2", "attn_prefill") = {
        /// `[n, heads * HEAD_DIM | kv_heads * HEAD_DIM | kv_heads * V_DIM]`, rotated.
        qkv: Rows,
        /// `[n, heads * V_DIM]`.
        y: Rows,
        /// K of the layer.
        k_cache: uvec2,
        /// V of the layer.
        v_cache: uvec2,
        /// StepParams.
        params: Step,
        /// `[heads]`, if RULES has sinks; `[heads, 2 * BIAS_REACH + 1]`, if it has biases.
        sinks: uvec2,
        /// Query heads.
        heads: uint,
        /// K/V heads.
        kv_heads: uint,
        /// Factor of scores.
        scale: float,
        /// Words from a row's block table to that of the layer's kind of state.
        table_at: uint,
        /// Positions of MASK.
        window: uint,
        /// What scores are capped at, if RULES has it.
        soft_cap: float,
        /// ALiBi's largest bias, if RULES has it.
        alibi: float,
    }
}
