//! Push constants of the ops beside those of the usual transformer. Addresses of columns are those of the first group's first
//! one; `stride` is from one group to the next, `width` from one row to the next.

use crate::block::blocks;

blocks! {
    /// A function of columns, times or plus others; or of a dot product of each group of columns.
    Map("map", "dot") = {
        /// First operand, if it is no number.
        a: F32,
        /// Second operand, likewise.
        b: F32,
        /// Columns out, of dot products one per group.
        y: F32,
        /// StepParams.
        params: Step,
        /// Of `a`.
        a_stride: uint,
        /// Of `a`; of weights, how many there are.
        a_width: uint,
        /// Of `b`.
        b_stride: uint,
        /// Of `b`; of weights, how many there are.
        b_width: uint,
        /// Of `y`.
        y_stride: uint,
        /// Of `y`.
        y_width: uint,
        /// Groups of a row.
        groups: uint,
        /// Columns of a group.
        len: uint,
        /// Of the function of `a`, or of the products' sum.
        scale: float,
        /// The first operand, if it is a number.
        a_number: float,
        /// The second one.
        b_number: float,
        /// What the function is of beside `a`, or beside the sum.
        p: float[4],
    }

    /// A norm of groups of columns.
    Normalize("normalize") = {
        /// Columns in.
        x: F32,
        /// `[groups, len]` or `[len]`, if WEIGHTED.
        weight: F32,
        /// Likewise, if BIASED.
        bias: F32,
        /// Columns that gate, if GATED.
        gate: F32,
        /// Columns out.
        y: F32,
        /// StepParams.
        params: Step,
        /// Of `x`.
        x_stride: uint,
        /// Of `x`.
        x_width: uint,
        /// Of `y`.
        y_stride: uint,
        /// Of `y`.
        y_width: uint,
        /// Of `gate`.
        gate_stride: uint,
        /// Of `gate`.
        gate_width: uint,
        /// Weights in all.
        weights: uint,
        /// Biases in all.
        biases: uint,
        /// Keeps the divisor from zero.
        eps: float,
    }

    /// RoPE of columns.
    Rotate("rotate") = {
        /// Columns out.
        x: F32,
        /// Columns in.
        from: F32,
        /// `[dims / 2]`, radians per position.
        inv_freq: F32,
        /// StepParams.
        params: Step,
        /// Of `x`.
        stride: uint,
        /// Of `x`.
        width: uint,
        /// Of `from`.
        from_stride: uint,
        /// Of `from`.
        from_width: uint,
        /// Positions that are rotated as the first of them.
        every: uint,
        /// Groups of a row.
        groups: uint,
        /// Columns of a group that are rotated.
        dims: uint,
        /// Columns of a group that the position's factor scales, if TEMPERED.
        len: uint,
        /// Of rotated columns.
        magnitude: float,
        /// Of the logarithm.
        temper_scale: float,
        /// Positions that have the same factor.
        temper_floor: float,
        /// Added to the position.
        temper_offset: float,
    }

    /// Rows of a matrix by position, added.
    Positions("positions") = {
        /// `[positions, dim]`.
        w: uvec2,
        /// `[n, dim]`, added to.
        y: F32x4,
        /// StepParams.
        params: Step,
        /// Tables of all formats.
        tables: U32x2,
        /// Rows of the matrix.
        positions: uint,
        /// Columns.
        dim: uint,
    }

    /// Columns by the id of each row.
    ById("by_id") = {
        /// Entries of an id and its columns; the first is that of ids which none has.
        list: F32,
        /// `[n, len]`.
        y: F32,
        /// StepParams.
        params: Step,
        /// Sampled id of each sequence, `[n_seqs]`.
        sampled: U32,
        /// How many.
        entries: uint,
        /// Columns.
        len: uint,
    }

    /// Parts of the vectors that rows are.
    TakeVectors("take_vectors") = {
        /// The step's vectors, `[vectors, width]`.
        vectors: F32,
        /// `[n, dim]`.
        y: F32,
        /// StepParams.
        params: Step,
        /// Columns of a vector.
        width: uint,
        /// The first of them that is taken.
        at: uint,
        /// How many are taken.
        dim: uint,
    }

    /// Columns of adapters by the scales of rows.
    AdapterScales("adapter_scales") = {
        /// Of each row's adapters, `[rows, adapters]`.
        scales: F32,
        /// Whose column each of a group's is, `[len]`.
        list: F32,
        /// `[n, width]`, or `[w, width]` of output rows.
        y: F32,
        /// StepParams.
        params: Step,
        /// Adapters.
        adapters: uint,
        /// Columns of a group.
        len: uint,
        /// Columns.
        width: uint,
    }

    /// A matrix for each group of columns.
    HeadMatMul("head_matmul") = {
        /// `[heads, m, k]`.
        w: uvec2,
        /// `[m]`, if flags is 1.
        bias: F32,
        /// Groups of `k`.
        x: uvec2,
        /// Groups of `m`.
        y: F32,
        /// Tables of all formats.
        tables: U32x2,
        /// Inputs.
        k: uint,
        /// Outputs.
        m: uint,
        /// Rows.
        n: uint,
        /// Of `x`.
        x_stride: uint,
        /// Of `x`.
        x_width: uint,
        /// Of `y`.
        y_stride: uint,
        /// Of `y`.
        y_width: uint,
        /// 1: there is a bias.
        flags: uint,
        /// Factor of the product.
        scale: float,
    }

    /// Router logits -> each row's experts, by any rule.
    Choose("choose") = {
        /// `[n, EXPERTS]`.
        logits: F32,
        /// `[EXPERTS]`, if BIASED.
        bias: F32,
        /// `[n, 4 * USED]`: see [`super::Route`].
        route: F32,
        /// StepParams.
        params: Step,
        /// `[vocab, USED]`, the experts of each id, if TABLE.
        table: U32,
        /// Sampled id of each sequence, `[n_seqs]`.
        sampled: U32,
        /// Least sum that weights are divided by, if DIVIDED.
        least_sum: float,
        /// Of the weights.
        scale: float,
    }

    /// Routes of rows -> routes without weights and scales.
    RoutePairs("route_pairs") = {
        /// `[n, 4 * USED]`.
        route: F32,
        /// `[n * USED, 4]` with APART, or `[n, 4 * USED]`.
        pairs: F32,
        /// Rows.
        n: uint,
    }

    /// Biases of a row's experts, added to their products or to the weighted sum of these.
    ExpertsBias("experts_bias") = {
        /// `[n, 4 * USED]`.
        route: F32,
        /// `[experts, m]`.
        bias: F32,
        /// `[n, USED * m]`, or `[n, m]` with SUMMED.
        y: F32,
        /// StepParams.
        params: Step,
        /// Outputs of an expert.
        m: uint,
    }

    /// A convolution over the rows of a sequence.
    Conv("conv") = {
        /// Columns in.
        x: F32,
        /// Columns out.
        y: F32,
        /// `[channels, K]`, unless SHIFT.
        weight: F32,
        /// `[channels]`, if BIASED.
        bias: F32,
        /// `[K - 1, channels]` of the first block of states.
        state: uvec2,
        /// StepParams.
        params: Step,
        /// Columns.
        channels: uint,
        /// Of `x`.
        x_width: uint,
        /// Of `y`.
        y_width: uint,
        /// Words from a row's block table to that of recurrent states.
        table_at: uint,
        /// Floats of a block.
        elements: uint,
        /// Groups of SIZE columns that are normed, if NORM.
        norms: uint,
        /// Of the norm.
        eps: float,
    }

    /// A recurrence over the rows of a sequence; strides and widths are constants of the pipeline.
    Scan("scan", "scan_pairs", "scan_chunks") = {
        /// Columns of each group.
        q: F32,
        /// Likewise.
        k: F32,
        /// Columns of each head.
        v: F32,
        /// Columns of each head, if DECAYS.
        decay: F32,
        /// A column of each head, if RATED.
        rate: F32,
        /// Columns of each head, of WKV7.
        a: F32,
        /// Likewise.
        b: F32,
        /// `[HEADS]` or `[HEADS, K_DIM]`, by FACTORS.
        factor: F32,
        /// `[HEADS]`, if SOFT.
        soft: F32,
        /// `[HEADS]`, if SKIP.
        skip: F32,
        /// Columns out, of each head.
        y: F32,
        /// `[HEADS, V_DIM, K_DIM]` of the first block of states.
        state: uvec2,
        /// StepParams.
        params: Step,
        /// Words from a row's block table to that of recurrent states.
        table_at: uint,
        /// Floats of a block.
        elements: uint,
        /// Of the result.
        scale: float,
        /// What rows of a window are to each other, `[windows, HEADS, 2, CHUNK, CHUNK]`; of `scan` nothing.
        pairs: F32,
    }
}
