//! Push constants of encoders' ops. Addresses name the first number of an operand; strides are numbers from a row to the next.

use crate::block::blocks;

blocks! {
    /// What each place of a window sees, side by side.
    TowerUnfold("tower_unfold") = {
        /// `[width * height, channels]`.
        x: F32,
        /// `[places, channels * window]`.
        y: F32,
        /// Width and height of what the window moves over.
        size: uint[2],
        /// Of the window.
        kernel: uint[2],
        /// Steps.
        stride: uint[2],
        /// Zeros in front.
        before: uint[2],
        /// Places side by side.
        places_wide: uint,
        /// Channels.
        channels: uint,
        /// Numbers of `y`.
        count: uint,
    }

    /// A convolution of each channel with a window of its own.
    TowerDepthwise("tower_depthwise") = {
        /// `[width * height, channels]`.
        x: F32,
        /// `[channels, window]`.
        weight: F32,
        /// `[channels]`, if `biased`.
        bias: F32,
        /// `[places, channels]`.
        y: F32,
        /// Width and height of what the window moves over.
        size: uint[2],
        /// Of the window.
        kernel: uint[2],
        /// Steps.
        stride: uint[2],
        /// Zeros in front.
        before: uint[2],
        /// Places side by side.
        places_wide: uint,
        /// Channels.
        channels: uint,
        /// Numbers of `y`.
        count: uint,
        /// 1: there is a bias.
        biased: uint,
    }

    /// A norm of each of the groups of a row.
    TowerNorm("tower_norm") = {
        /// Rows in.
        x: F32,
        /// Factors, if `weights` is above 0.
        weight: F32,
        /// Added then, if `biases` is above 0.
        bias: F32,
        /// Rows out; may be those in.
        y: F32,
        /// Of `x`.
        x_stride: uint,
        /// Of `y`.
        y_stride: uint,
        /// Groups of a row.
        groups: uint,
        /// Columns of a group.
        len: uint,
        /// Factors: those of a group or of a row.
        weights: uint,
        /// Likewise.
        biases: uint,
        /// Rows times groups.
        count: uint,
        /// 1: by mean and deviation, else by the root of the mean square.
        layer: uint,
        /// Keeps the divisor from zero.
        eps: float,
    }

    /// A norm over all rows of each column.
    TowerGlobalResponse("tower_global_response") = {
        /// `[rows, cols]`.
        x: F32,
        /// `[cols]`.
        weight: F32,
        /// `[cols]`.
        bias: F32,
        /// Length of each column, `[cols]`.
        lengths: F32,
        /// `[rows, cols]`.
        y: F32,
        /// Rows.
        rows: uint,
        /// Columns.
        cols: uint,
        /// Keeps the divisor from zero.
        eps: float,
    }

    /// `scale * act(a)`, then plus or times `b`.
    TowerMap("tower_map") = {
        /// Rows in.
        a: F32,
        /// Second operand, if `join` is 1 to 4.
        b: F32,
        /// Rows out; may be those of an operand.
        y: F32,
        /// Of `a`.
        a_stride: uint,
        /// Of `b`.
        b_stride: uint,
        /// Of `y`.
        y_stride: uint,
        /// Columns.
        cols: uint,
        /// Columns of `b`, which are repeated.
        b_cols: uint,
        /// Rows of `b`, likewise.
        b_rows: uint,
        /// Numbers.
        count: uint,
        /// ACT_*.
        act: uint,
        /// 0: nothing; 1: plus `b`; 2: times `b`; 3: plus `number`; 4: times it.
        join: uint,
        /// Of act(a).
        scale: float,
        /// Second operand that is the same everywhere.
        number: float,
        /// Of ACT_CLAMP.
        low: float,
        /// Likewise.
        high: float,
    }

    /// Weighted sums of rows.
    TowerPick("tower_pick") = {
        /// `[n, cols]`.
        x: F32,
        /// Row and factor, `[rows, each, 2]`; rows below 0 are zeros.
        picks: U32,
        /// `[rows, cols]`.
        y: F32,
        /// Columns.
        cols: uint,
        /// Entries of a row.
        each: uint,
        /// Numbers of `y`.
        count: uint,
    }

    /// Numbers in another order.
    TowerPermute("tower_permute") = {
        /// Numbers.
        x: F32,
        /// As many.
        y: F32,
        /// Of each dimension, the fastest varying first.
        lens: uint[8],
        /// Numbers apart in `x`.
        apart: uint[8],
        /// Dimensions.
        dims: uint,
        /// Numbers.
        count: uint,
    }

    /// Columns copied, and zeros beside them.
    TowerCopy("tower_copy") = {
        /// Rows in.
        x: F32,
        /// Rows out.
        y: F32,
        /// Of `x`.
        x_stride: uint,
        /// Of `y`.
        y_stride: uint,
        /// Columns that are copied.
        cols: uint,
        /// Columns that are written: zeros behind those copied.
        y_cols: uint,
        /// Numbers that are written.
        count: uint,
    }

    /// Columns of heads turned in place.
    TowerRotate("tower_rotate") = {
        /// Rows.
        x: F32,
        /// Cosines of all pairs of a row, then sines, `[n, 2 * half_dims]`.
        turns: F32,
        /// Of `x`.
        x_stride: uint,
        /// Heads.
        heads: uint,
        /// Columns of a head.
        head_dim: uint,
        /// Pairs of a head.
        half_dims: uint,
        /// 1: pairs are neighbours, else half of the turned columns apart.
        adjacent: uint,
        /// Pairs of all rows.
        count: uint,
    }

    /// Attention of all heads.
    TowerAttend("tower_attend", "tower_attend_matrix") = {
        /// `[n, heads * D]`.
        q: F32,
        /// `[m, kv_heads * D]`.
        k: F32,
        /// `[m, kv_heads * DV]`.
        v: F32,
        /// `[n, heads * DV]`.
        y: F32,
        /// First key and the one behind the last of each query, `[n, 2]`, if `spanned`.
        spans: U32,
        /// A score of each head without a value, `[heads]`, if `sunk`.
        sinks: F32,
        /// What biases lie in.
        arena: F32,
        /// Eight words for each bias: see lib/tower_bias.glsl.
        biases: U32,
        /// Of `q`.
        q_stride: uint,
        /// Of `k`.
        k_stride: uint,
        /// Of `v`.
        v_stride: uint,
        /// Queries.
        n: uint,
        /// Keys.
        m: uint,
        /// Heads.
        heads: uint,
        /// Heads of `k` and `v`.
        kv_heads: uint,
        /// Biases.
        n_biases: uint,
        /// 1: there are spans.
        spanned: uint,
        /// 1: there are sinks.
        sunk: uint,
        /// Of the scores.
        scale: float,
        /// Of the scores, if above 0.
        cap: float,
    }

    /// Keys and values as halves, in the order of tower_attend_fragments.
    TowerPackKeys("tower_pack_keys") = {
        /// `[m, kv_heads * D]`.
        k: F32x4,
        /// `[m, kv_heads * D]`.
        v: F32,
        /// Halves, `[kv_heads, key_room / 16, STEPS, 32, 8]`.
        keys: Units,
        /// Halves, `[kv_heads, key_room / 16, STEPS, 32, 8]`.
        values: Units,
        /// Of `k`.
        k_stride: uint,
        /// Of `v`.
        v_stride: uint,
        /// Keys.
        m: uint,
        /// Keys that there is room for: a multiple of 32.
        key_room: uint,
        /// Units of sixteen bytes.
        count: uint,
    }

    /// Attention of all heads, with keys and values of tower_pack_keys.
    TowerAttendFragments("tower_attend_fragments") = {
        /// `[n, heads * D]`.
        q: F32x4,
        /// As tower_pack_keys leaves them.
        keys: U32x4,
        /// As tower_pack_keys leaves them.
        values: U32x4,
        /// `[n, heads * D]`.
        y: F32,
        /// First key and the one behind the last of each query, `[n, 2]`, if `spanned`.
        spans: U32,
        /// A score of each head without a value, `[heads]`, if `sunk`.
        sinks: F32,
        /// Of `q`.
        q_stride: uint,
        /// Queries.
        n: uint,
        /// Keys.
        m: uint,
        /// Keys that there is room for: a multiple of 32.
        key_room: uint,
        /// Heads.
        heads: uint,
        /// Heads of keys and values.
        kv_heads: uint,
        /// 1: there are spans.
        spanned: uint,
        /// 1: there are sinks.
        sunk: uint,
        /// Of the scores.
        scale: float,
    }

    /// Products of rows with rows, per head.
    TowerHeadProducts("tower_head_products") = {
        /// `[n, heads * dim]`.
        a: F32,
        /// `[m, heads * dim]` or `[m, dim]`.
        b: F32,
        /// `[n, heads * m]`.
        y: F32,
        /// Of `a`.
        a_stride: uint,
        /// Of `b`.
        b_stride: uint,
        /// From a head of `b` to the next.
        b_head: uint,
        /// Columns of a head.
        dim: uint,
        /// Rows of `b`.
        m: uint,
        /// Numbers of a row of `y`.
        y_cols: uint,
        /// Numbers of `y`.
        count: uint,
    }

    /// Of each row the largest columns, each its part of their sum.
    TowerChoose("tower_choose") = {
        /// `[n, cols]`.
        x: F32,
        /// `[cols]`, if `biased`.
        bias: F32,
        /// `[n, cols]`.
        y: F32,
        /// Columns.
        cols: uint,
        /// How many are taken.
        taken: uint,
        /// 1: there is a bias.
        biased: uint,
        /// Rows.
        count: uint,
    }

    /// Of each row what stands beside the nearest code.
    TowerNearest("tower_nearest") = {
        /// `[n, cols]`.
        x: F32,
        /// `[codes, cols]`.
        codes: F32,
        /// `[codes, y_cols]`.
        values: F32,
        /// `[n, y_cols]`.
        y: F32,
        /// Columns.
        cols: uint,
        /// How many codes.
        n_codes: uint,
        /// Columns of what comes out.
        y_cols: uint,
        /// Rows.
        count: uint,
    }

    /// Each row's shares by its softmax.
    TowerSoftmax("tower_softmax") = {
        /// `[n, cols]`.
        x: F32,
        /// `[n, cols]`.
        y: F32,
        /// Columns.
        cols: uint,
        /// Rows.
        count: uint,
    }
}
