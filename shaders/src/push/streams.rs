//! Push constants of several residual streams.

use crate::block::blocks;

blocks! {
    /// Sums of groups of columns.
    Mix("mix") = {
        /// Groups in.
        x: F32,
        /// How much of each.
        by: F32,
        /// Groups out.
        y: F32,
        /// StepParams.
        params: Step,
        /// Of `x`.
        x_stride: uint,
        /// Of `x`.
        x_width: uint,
        /// Of `by`.
        by_stride: uint,
        /// Of `by`.
        by_width: uint,
        /// Of `y`.
        y_stride: uint,
        /// Of `y`.
        y_width: uint,
        /// Groups in.
        from: uint,
        /// Groups out.
        to: uint,
        /// Columns of a group.
        len: uint,
    }

    /// Softmax of groups of columns in place.
    Softmax("softmax") = {
        /// Groups.
        x: F32,
        /// StepParams.
        params: Step,
        /// Of `x`.
        stride: uint,
        /// Of `x`.
        width: uint,
        /// Groups of a row.
        groups: uint,
        /// Columns of a group.
        len: uint,
    }

    /// Logits of streams -> their shares, in place.
    StreamGates("stream_gates") = {
        /// `[n, len]`.
        x: F32,
        /// A factor for each part.
        scale: F32,
        /// `[len]`.
        base: F32,
        /// StepParams.
        params: Step,
        /// Of `x`.
        width: uint,
        /// Columns.
        len: uint,
        /// Rounds of the matrix.
        rounds: uint,
        /// Added to the first part and to sums.
        eps: float,
        /// Of the second part.
        magnitude: float,
        /// Added to the second part.
        post_eps: float,
    }
}
