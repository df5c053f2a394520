//! Push constants of products of many rows that one kernel packs for them.

use crate::block::blocks;

blocks! {
    /// Activations as rows of bytes or halves.
    PackRows("pack_rows") = {
        /// Rows in, `[n, k]`.
        x: F32x4,
        /// Weights of the norm, `[k]`, if NORM.
        norm: F32x4,
        /// Packed rows, `[n, k]`.
        codes: U32,
        /// Of bytes, of every 32: scale, scaled sums of the halves and of all, `[n, k / 32]`; of halves a factor, `[n]`.
        scales: F32x4,
        /// Inputs of a row.
        k: uint,
        /// Of the norm.
        eps: float,
        /// The list of tiles (moe_permute.comp), if GATHER.
        list: U32,
        /// The most tiles there can be, if GATHER.
        most: uint,
    }

    /// A matrix as halves.
    DecodeWeights("decode_weights") = {
        /// `[m, k]`, or of all experts.
        w: uvec2,
        /// Halves, `[m, k]`.
        y: Units,
        /// Tables of all formats.
        tables: U32x2,
        /// Inputs of a row.
        k: uint,
        /// Rows.
        m: uint,
    }

    /// Product of many packed rows with one matrix, or with that of each row's experts.
    GemmRows("gemm_dot", "gemm_half", "gemm_staged", "gemm_bytes", "gemm_matrix2") = {
        /// `[m, k]`, or of all experts.
        w: uvec2,
        /// `[m]`, or of all experts, if flags is 1.
        bias: F32,
        /// Packed rows.
        x: uvec2,
        /// What they come with.
        scales: F32x4,
        /// Outputs, `[n, y_stride]` or a row for each pair, written from column y_at on.
        y: F32,
        /// Tables of all formats.
        tables: U32x2,
        /// The list of tiles (moe_permute.comp), if EXPERTS.
        list: U32,
        /// `[n, 4 * USED]`: see route.comp, if EXPERTS.
        route: F32,
        /// Inputs of a row.
        k: uint,
        /// Rows of the matrix, or of one expert's.
        m: uint,
        /// Rows of inputs.
        n: uint,
        /// Distance of output rows.
        y_stride: uint,
        /// First column that is written.
        y_at: uint,
        /// 1: there is a bias.
        flags: uint,
        /// Factor of the product.
        scale: float,
        /// The most tiles there can be, if EXPERTS.
        most: uint,
    }
}
