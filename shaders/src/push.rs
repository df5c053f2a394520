//! Push constants of every kernel. GLSL has them as `#include "push/KERNEL.glsl"`, where types that `lib/types.glsl` and
//! `lib/step.glsl` lack are the kernel's own.
//!
//! `n` counts rows of a step, `w` output rows; arrays are row by row, the last dimension first in memory.

mod attention;
mod chosen;
mod compressed;
mod general;
mod images;
mod probe;
mod rows;
mod streams;
mod tower;

use crate::block::{blocks, Block, Layout};
pub use attention::{AttendFew, AttendMany, RopeKv};
pub use chosen::ChoosePositions;
pub use compressed::{AttendBlocks, ChooseBlocks, Keep, Pool};
pub use general::{
    AdapterScales, ById, Choose, Conv, ExpertsBias, HeadMatMul, Map, Normalize, Positions, Rotate, RoutePairs, Scan,
    TakeVectors,
};
pub use images::Conv2d;
pub use probe::{FragmentMap, Occupancy, Stream};
pub use rows::{DecodeWeights, GemmRows, PackRows};
pub use streams::{Mix, Softmax, StreamGates};
pub use tower::{
    TowerAttend, TowerAttendFragments, TowerChoose, TowerCopy, TowerDepthwise, TowerGlobalResponse, TowerHeadProducts,
    TowerMap, TowerNearest, TowerNorm, TowerPackKeys, TowerPermute, TowerPick, TowerRotate, TowerSoftmax, TowerUnfold,
};

/// Bytes of push constants that every device has.
pub const MOST_BYTES: usize = 128;

blocks! {
    /// Token ids of a step's rows -> rows of the embedding.
    Embed("embed") = {
        /// Matrix, `[vocab, dim]`.
        embd: uvec2,
        /// Rows out, `[n, dim]`.
        y: F32x4,
        /// StepParams.
        params: Step,
        /// Sampled id of each sequence, `[n_seqs]`.
        sampled: U32,
        /// Tables of all formats.
        tables: U32x2,
        /// Pairs of ids, of which the second's row is the first's.
        pairs: F32,
        /// Width of a row.
        dim: uint,
        /// How many pairs.
        n_pairs: uint,
    }

    /// RMS norm of rows times weights.
    RmsNorm("rms_norm") = {
        /// Rows in, `[n, dim]`.
        x: F32x4,
        /// `[dim]`.
        weight: F32x4,
        /// Rows out, `[n or w, dim]`.
        y: F32x4,
        /// StepParams.
        params: Step,
        /// Width of a row.
        dim: uint,
        /// Added to the mean square.
        eps: float,
    }

    /// Products of rows with up to three matrices of one format, one below the other, or with gate and up, or with matrices of
    /// experts.
    Gemv("gemv", "gemv_dot", "gemm_mat") = {
        /// First matrix, `[m0, k]`, or of all experts.
        w0: uvec2,
        /// Second one, `[m01 - m0, k]`, or up of all experts.
        w1: uvec2,
        /// Third one, `[m - m01, k]`.
        w2: uvec2,
        /// Bias of the first matrix, if bit 0 of `flags` is set.
        b0: F32,
        /// Of the second, bit 1; with EXPERTS above 2 the list of tiles (moe_permute.comp).
        b1: F32,
        /// Of the third, bit 2; with EXPERTS the route, `[n, 4 * USED]`.
        b2: F32,
        /// Inputs, `[COLS, k]`, or packed ones (pack.comp).
        x: F32x4,
        /// Outputs, `[COLS, y_stride]`.
        y: F32,
        /// Tables of all formats.
        tables: U32x2,
        /// Weights of the norm, `[k]`, if NORM; of packed inputs: a factor for each row.
        norm: F32x4,
        /// Inputs of a row.
        k: uint,
        /// Rows of w0; with EXPERTS above 2 the most tiles there can be.
        m0: uint,
        /// Rows of w0 and w1.
        m01: uint,
        /// Rows of all, or outputs of gate and up, or of one expert.
        m: uint,
        /// Distance of output rows.
        y_stride: uint,
        /// Bit i: bias i is there. Of packed inputs, from bit 8 on: rows.
        flags: uint,
        /// Of the norm.
        eps: float,
        /// Factor of the first matrix's product.
        s0: float,
        /// Of the second's.
        s1: float,
        /// Of the third's.
        s2: float,
    }

    /// Likewise of up to 32 packed rows, of which up to 16 may go on to a norm.
    GemmFew("gemm_few") = product: Gemv + {
        /// Addresses of what NORM_PROLOGUE or NORM_EPILOGUE need (lib/pack_norm.glsl).
        norm_epilogue: U32x2,
    }

    /// Likewise of rows packed in panels.
    GemmPanels("gemm_panels") = product: Gemv + {
        /// With SPLIT above 1: addresses of what workgroups leave, and of counters of their arrivals.
        split: U32x2,
    }

    /// Product of many rows with one matrix; the kernels read `w` in types of their own, as GLSL's Matrix.
    Gemm("gemm_tile", "gemm_float") = {
        /// `[m, k]`.
        w: Matrix,
        /// `[m]`, if flags is 1.
        bias: F32,
        /// Inputs, `[n, k]`.
        x: F32x4,
        /// Outputs, `[n, y_stride]`, written from column y_at on.
        y: F32,
        /// Tables of all formats.
        tables: U32x2,
        /// Inputs of a row.
        k: uint,
        /// Rows of the matrix.
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
        /// Distance of input rows, with HEADS.
        x_width: uint,
        /// From a group of inputs to the next, with HEADS.
        x_head: uint,
        /// From a group of outputs to the next, with HEADS.
        y_head: uint,
    }

    /// ActivationQuant as halves in the order that cooperative matrices are loaded in.
    Pack("pack") = {
        /// Rows in.
        x: F32x4,
        /// Weights of the norm, `[k]`, if NORM.
        norm: F32x4,
        /// Packed rows.
        codes: Halves,
        /// Factor of each row, `[rows]`.
        factors: F32,
        /// Where threads hold what (fragment_layout.comp).
        map: U32,
        /// `[rows]`, if NORM: what rows are to be packed over next (lib/pack_norm.glsl).
        powers: F32,
        /// Rows in.
        n: uint,
        /// Of the norm.
        eps: float,
        /// The list of tiles (moe_permute.comp), if GATHER.
        groups: U32,
        /// The most tiles there can be, if GATHER.
        most: uint,
    }

    /// Rows for products by panels of 64.
    PackPanels("pack_panels") = {
        /// Rows in, `[n, K]`.
        x: F32x4,
        /// Weights of the norm, `[K]`, if NORM.
        norm: F32x4,
        /// Panels.
        codes: Groups,
        /// Factor of each row, `[rows]`.
        factors: F32,
        /// Rows in.
        n: uint,
        /// Of the norm.
        eps: float,
        /// The list of tiles (moe_permute.comp), if GATHER.
        groups: U32,
        /// The most tiles there can be, if GATHER.
        most: uint,
    }

    /// Rows of each expert come together, in tiles of one expert each.
    MoePermute("moe_permute") = {
        /// `[n, 4 * USED]`: see route.comp.
        route: F32,
        /// Expert of each of `most` tiles, or NONE; then its pairs, row * USED + slot, or NONE, `[most, COLUMNS]`.
        groups: U32,
        /// StepParams.
        params: Step,
        /// The most tiles there can be.
        most: uint,
    }

    /// Weighted products of a row's experts, added to the row.
    MoeCombine("moe_combine") = {
        /// Products, `[n, USED, m]`.
        x: F32x4,
        /// `[n, m]`, added to.
        y: F32x4,
        /// StepParams.
        params: Step,
        /// Width of a row.
        m: uint,
    }

    /// Router logits -> each row's experts and their weights.
    Route("route") = {
        /// `[n, EXPERTS]`.
        logits: F32,
        /// `[n, 4 * USED]`: ids, weights, factors of gate and of up.
        route: F32,
        /// Factor of each expert's gate, if bit 0 of `flags` is set.
        gate_scale: F32,
        /// Of its up, bit 1.
        up_scale: F32,
        /// Of its down, bit 2.
        down_scale: F32,
        /// StepParams.
        params: Step,
        /// Which factors there are.
        flags: uint,
        /// What the weights sum up to.
        scale: float,
    }

    /// A few rows -> their experts: the router's product and the choice.
    Router("router") = {
        /// Matrix, `[EXPERTS, k]`.
        w: uvec2,
        /// `[EXPERTS]`, if bit 3 of `flags` is set.
        product_bias: F32,
        /// Rows in, `[n, k]`.
        x: F32x4,
        /// Weights of the norm, `[k]`, if NORM.
        norm: F32x4,
        /// Tables of all formats.
        tables: U32x2,
        /// `[n, EXPERTS]`.
        logits: Logits,
        /// `[n]`, zero between dispatches.
        arrivals: Arrivals,
        /// `[n, 4 * USED]`: as of route.comp.
        route: F32,
        /// Factor of each expert's gate, if bit 0 of `flags` is set.
        gate_scale: F32,
        /// Of its up, bit 1.
        up_scale: F32,
        /// Of its down, bit 2.
        down_scale: F32,
        /// Inputs of a row.
        k: uint,
        /// Which factors and biases there are.
        flags: uint,
        /// Of the norm.
        eps: float,
        /// Factor of the product.
        product_scale: float,
        /// What the weights sum up to.
        scale: float,
    }

    /// A few rows -> their experts by any rule: the router's product and the choice.
    RouterChoose("router_choose") = {
        /// Matrix, `[EXPERTS, k]`.
        w: uvec2,
        /// `[EXPERTS]`, if bit 3 of `flags` is set.
        product_bias: F32,
        /// Rows in, `[n, k]`.
        x: F32x4,
        /// Weights of the norm, `[k]`, if NORM.
        norm: F32x4,
        /// Tables of all formats.
        tables: U32x2,
        /// `[n, EXPERTS]`.
        logits: Logits,
        /// `[n]`, zero between dispatches.
        arrivals: Arrivals,
        /// `[n, 4 * USED]`: as of route.comp.
        route: F32,
        /// `[EXPERTS]`, added to what experts are chosen by, if BIASED.
        bias: F32,
        /// Inputs of a row.
        k: uint,
        /// Whether there is a bias of the product.
        flags: uint,
        /// Of the norm.
        eps: float,
        /// Factor of the product.
        product_scale: float,
        /// Least sum that weights are divided by, if DIVIDED.
        least_sum: float,
        /// Of the weights.
        scale: float,
    }

    /// Blocks of weights as files have them -> structure of arrays.
    Repack("repack") = {
        /// `[rows, blocks]` of block_bytes bytes.
        from: U32,
        /// `[rows, row_words]`.
        to: U32,
        /// Rows.
        rows: uint,
        /// Blocks of a row.
        blocks: uint,
        /// Bytes of a block.
        block_bytes: uint,
        /// Words of a row as it will be.
        row_words: uint,
        /// Bytes of it.
        row_bytes: uint,
        /// Parts that a block has.
        fields: uint,
        /// Of each part: its byte in the block, or, from REPACK_CODES on, in the codes; its bytes.
        place: uint[10],
        /// Of the bits of the codes: kind, from bit 24 on, and which.
        places: U32,
        /// Codebook of the format in files (quant/src/tables.rs).
        codebook: U32,
    }

    /// Sums of squares of each column of rows, for an importance matrix.
    SquareSums("square_sums") = {
        /// `[n, k]` or `[n, used, k]`.
        x: F32x4,
        /// `[matrices, k]`, added to.
        sums: F32x4,
        /// StepParams.
        params: Step,
        /// `[n, 4 * used]`, if EXPERTS.
        route: F32,
        /// Columns.
        k: uint,
        /// Experts of a row, else 1.
        used: uint,
    }

    /// Logits -> ids drawn by the sampler's chain.
    Sample("sample") = {
        /// `[w, vocab]`.
        logits: F32,
        /// StepParams.
        params: Step,
        /// Sampled id of each sequence, `[n_seqs]`.
        sampled: U32,
        /// Ids for the host, `[w]`.
        ids: U32,
        /// Candidates, `[w, K * parts]`, k of each part.
        found: Found,
        /// `[w]`, zero between dispatches.
        arrivals: Arrivals,
        /// Logits of a row.
        vocab: uint,
        /// Word of StepParams where the first row's sample request is.
        requests_at: uint,
    }

    /// Logits -> ids of the largest.
    Argmax("argmax") = {
        /// `[w, vocab]`.
        logits: F32,
        /// StepParams.
        params: Step,
        /// Sampled id of each sequence, `[n_seqs]`.
        sampled: U32,
        /// Ids for the host, `[w]`.
        ids: U32,
        /// The best of each part, `[w, parts, 2]`: value, id.
        found: Found,
        /// `[w]`, zero between dispatches.
        arrivals: Found,
        /// Logits of a row.
        vocab: uint,
    }

    /// A program of stages for the megakernel.
    Megakernel("megakernel", "megakernel_moe") = {
        /// `[stages, STAGE_WORDS]`: see [`crate::Stage`].
        program: U32,
        /// StepParams.
        params: Step,
        /// 1 if a thread ever gave up.
        gave_up: Flag,
        /// Likewise, for the host.
        fault: Flag,
        /// Stages of the program.
        stages: uint,
        /// Tables of all formats.
        tables: U32x2,
    }
}

/// Every block of push constants.
pub const LAYOUTS: &[Layout] = &[
    Embed::LAYOUT,
    RmsNorm::LAYOUT,
    Gemv::LAYOUT,
    GemmFew::LAYOUT,
    GemmPanels::LAYOUT,
    Gemm::LAYOUT,
    GemmRows::LAYOUT,
    Pack::LAYOUT,
    PackPanels::LAYOUT,
    PackRows::LAYOUT,
    DecodeWeights::LAYOUT,
    MoePermute::LAYOUT,
    MoeCombine::LAYOUT,
    FragmentMap::LAYOUT,
    RopeKv::LAYOUT,
    AttendFew::LAYOUT,
    AttendMany::LAYOUT,
    Route::LAYOUT,
    Router::LAYOUT,
    RouterChoose::LAYOUT,
    Repack::LAYOUT,
    Stream::LAYOUT,
    Occupancy::LAYOUT,
    SquareSums::LAYOUT,
    Sample::LAYOUT,
    Argmax::LAYOUT,
    Megakernel::LAYOUT,
    Map::LAYOUT,
    Normalize::LAYOUT,
    Rotate::LAYOUT,
    Positions::LAYOUT,
    ById::LAYOUT,
    TakeVectors::LAYOUT,
    AdapterScales::LAYOUT,
    HeadMatMul::LAYOUT,
    Choose::LAYOUT,
    RoutePairs::LAYOUT,
    ExpertsBias::LAYOUT,
    Conv::LAYOUT,
    Scan::LAYOUT,
    Conv2d::LAYOUT,
    Mix::LAYOUT,
    Softmax::LAYOUT,
    StreamGates::LAYOUT,
    Pool::LAYOUT,
    ChooseBlocks::LAYOUT,
    AttendBlocks::LAYOUT,
    ChoosePositions::LAYOUT,
    Keep::LAYOUT,
    TowerAttend::LAYOUT,
    TowerAttendFragments::LAYOUT,
    TowerChoose::LAYOUT,
    TowerCopy::LAYOUT,
    TowerDepthwise::LAYOUT,
    TowerGlobalResponse::LAYOUT,
    TowerHeadProducts::LAYOUT,
    TowerMap::LAYOUT,
    TowerNearest::LAYOUT,
    TowerNorm::LAYOUT,
    TowerPackKeys::LAYOUT,
    TowerPermute::LAYOUT,
    TowerPick::LAYOUT,
    TowerRotate::LAYOUT,
    TowerSoftmax::LAYOUT,
    TowerUnfold::LAYOUT,
];

const _: () = {
    let mut i = 0;
    while i < LAYOUTS.len() {
        assert!(LAYOUTS[i].len_bytes() <= MOST_BYTES, "push constants that not every device has room for");
        i += 1;
    }
};

/// The push constants of a kernel.
pub fn of(kernel: &str) -> Option<&'static Layout> {
    LAYOUTS.iter().find(|layout| layout.kernels.contains(&kernel))
}

/// Bytes of [`Repack`] before `blocks`: addresses of both sides and the number of rows, which each batch of an upload has of its own.
pub const REPACK_BATCH_BYTES: usize = Repack::LAYOUT.offset(3);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::{Kind, Value};
    use crate::KERNELS;

    #[test]
    fn every_kernel_has_one_block_and_every_block_a_kernel() {
        for kernel in KERNELS {
            let count = LAYOUTS.iter().filter(|l| l.kernels.contains(&kernel.name)).count();
            assert_eq!(count, 1, "{}", kernel.name);
        }
        for name in LAYOUTS.iter().flat_map(|l| l.kernels) {
            assert!(KERNELS.iter().any(|k| k.name == *name), "{name}");
        }
    }

    /// Of two fields with a gap between them, and of those that a block starts with.
    #[test]
    fn bytes_lie_as_in_std430() {
        let push = Megakernel { program: 1, fault: 2, stages: 3, tables: 0x0102_0304_0506_0708, ..Default::default() };
        let bytes = push.bytes();
        assert_eq!(bytes.len(), 48);
        assert_eq!((bytes[0], bytes[24], bytes[32]), (1, 2, 3));
        assert_eq!(bytes[36..40], [0; 4], "addresses are aligned");
        assert_eq!(bytes[40..], [8, 7, 6, 5, 4, 3, 2, 1]);
        let product = Gemv { k: 7, s2: 0.5, ..Default::default() };
        let few = GemmFew { product, norm_epilogue: 9 };
        assert_eq!(few.bytes()[..120], product.bytes());
        assert_eq!((few.bytes()[80], few.bytes()[120], few.bytes().len()), (7, 9, 128));
        let repack = Repack { place: [0, 0, 0, 0, 0, 0, 0, 0, 0, 6], places: 5, ..Default::default() };
        assert_eq!((repack.words()[18], repack.words()[19], repack.words()[20]), (0, 6, 5));
    }

    #[test]
    fn fields_are_named_in_order() {
        let few = GemmFew { product: Gemv { w1: 16, eps: 0.5, ..Default::default() }, norm_epilogue: 9 };
        let named = few.named();
        assert_eq!(named[1], ("w1", Value::Address(16)));
        assert_eq!(named[named.len() - 1], ("norm_epilogue", Value::Address(9)));
        let names: Vec<&str> = GemmFew::LAYOUT.fields.iter().map(|f| f.name).collect();
        assert_eq!(named.iter().map(|(name, _)| *name).collect::<Vec<_>>(), names);
        let eps = GemmFew::LAYOUT.fields.iter().find(|f| f.name == "eps").unwrap();
        assert_eq!((eps.kind, eps.glsl, eps.count), (Kind::Float, "float", 1));
        assert_eq!(Value::Array(vec![Value::Word(1), Value::Address(255)]).to_string(), "[1, 0xff]");
    }
}
