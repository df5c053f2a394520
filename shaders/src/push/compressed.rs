//! Push constants of attention over blocks of rows.

use crate::block::blocks;

blocks! {
    /// Columns of rows that end a block -> what a layer keeps.
    Keep("keep") = {
        /// Columns.
        x: F32,
        /// Of the first block of states.
        state: uvec2,
        /// StepParams.
        params: Step,
        /// Of `x`.
        x_width: uint,
        /// Columns that are kept.
        len: uint,
        /// Floats from one block's to the next.
        stride: uint,
        /// Rows of a block.
        every: uint,
        /// Blocks that are kept.
        slots: uint,
        /// Words from a row's block table to that of recurrent states.
        table_at: uint,
        /// Floats of a block of states.
        elements: uint,
    }

    /// Rows of blocks -> entries.
    Pool("pool") = {
        /// Values, then scores.
        x: F32,
        /// `[every, columns of values]`, added to scores.
        place: F32,
        /// Entries.
        y: F32,
        /// Rows that are kept, of the first block of states.
        state: uvec2,
        /// StepParams.
        params: Step,
        /// Of `x`.
        x_width: uint,
        /// Of `y`.
        y_width: uint,
        /// Columns of an entry.
        len: uint,
        /// Rows of a block.
        every: uint,
        /// Words from a row's block table to that of recurrent states.
        table_at: uint,
        /// Floats of a block of states.
        elements: uint,
    }

    /// Entries that rows see.
    ChooseBlocks("score_blocks", "choose_blocks") = {
        /// Heads.
        q: F32,
        /// A column for each head.
        weights: F32,
        /// A column for each entry.
        y: F32,
        /// Entries, of the first block of states.
        state: uvec2,
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
        /// Of `y`.
        y_width: uint,
        /// Heads.
        heads: uint,
        /// Columns of a head.
        dim: uint,
        /// Floats from one entry to the next.
        entry_stride: uint,
        /// Rows of an entry's block.
        every: uint,
        /// Entries that are kept.
        slots: uint,
        /// Entries that are chosen.
        most: uint,
        /// Words from a row's block table to that of recurrent states.
        table_at: uint,
        /// Floats of a block of states.
        elements: uint,
    }

    /// Attention over the last rows and entries of blocks.
    AttendBlocks("attend_blocks") = {
        /// Heads.
        q: F32,
        /// Keys of the step's rows.
        k: F32,
        /// `[heads]`.
        sinks: F32,
        /// Heads out.
        y: F32,
        /// Above 0 for each entry that is seen, if CHOSEN.
        chosen: F32,
        /// Keys that are kept, of the first block of states.
        state: uvec2,
        /// StepParams.
        params: Step,
        /// Of `q`.
        q_stride: uint,
        /// Of `q`.
        q_width: uint,
        /// Of `k`.
        k_width: uint,
        /// Of `y`.
        y_stride: uint,
        /// Of `y`.
        y_width: uint,
        /// Of `chosen`.
        chosen_width: uint,
        /// Floats from one entry to the next.
        entry_stride: uint,
        /// Floats from keys to entries.
        entries_at: uint,
        /// Rows of an entry's block; 0 if there are no entries.
        every: uint,
        /// Entries that are kept.
        slots: uint,
        /// Of scores.
        scale: float,
        /// Words from a row's block table to that of recurrent states.
        table_at: uint,
        /// Floats of a block of states.
        elements: uint,
    }
}
