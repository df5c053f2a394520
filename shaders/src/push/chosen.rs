//! Push constants of attention over chosen positions.

use crate::block::blocks;

blocks! {
    /// Positions that rows see.
    ChoosePositions("score_positions", "choose_positions") = {
        /// Heads.
        q: F32,
        /// A column for each head, if WEIGHTS.
        weights: F32,
        /// `[rows from first_row on, slots]`.
        scores: F32,
        /// `[n, list_width]`: how many positions, then which.
        list: U32,
        /// Keys of the layer.
        k_cache: uvec2,
        /// StepParams.
        params: Step,
        /// Of `q`.
        q_stride: uint,
        /// Of `q`.
        q_width: uint,
        /// Of `weights`.
        w_stride: uint,
        /// Of `weights`.
        w_width: uint,
        /// Of `list`.
        list_width: uint,
        /// Heads.
        heads: uint,
        /// Positions of a block.
        every: uint,
        /// Blocks that a sequence may have.
        slots: uint,
        /// Positions of blocks that are chosen.
        most: uint,
        /// 1: what the last block lacks goes to the next best one.
        fills: uint,
        /// The first row of the step that is gone over.
        first_row: uint,
        /// Words from a row's block table to that of the layer's kind of state.
        table_at: uint,
    }
}
