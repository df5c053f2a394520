//! StepParams: all that changes per step, as words, and what lies beside it. GLSL has them as `#include "words/step.glsl"`,
//! `"words/request.glsl"` and `"words/pack_norm.glsl"`.

use crate::block::{blocks, constants};

blocks! {
    /// What StepParams starts with; STEP_ before each field.
    StepHeader = {
        /// Rows in this step.
        rows: uint,
        /// Of which so many have their logits computed.
        outputs: uint,
        /// Word where the indices of the output rows start.
        outputs_at: uint,
        /// What epochs of the step's messages start at (megakernel.comp).
        epochs: uint,
        /// Word where, for each output row, its place among the sampled ids stands.
        places_at: uint,
        /// Word where, for each sequence, the positions of its source stand.
        sources_at: uint,
        /// So many rows, the first ones, attend each by itself: all, or, of many, those that are alone of their sequence.
        singles: uint,
        /// Word where, for each row of a step with vectors, a StepMedium stands.
        media_at: uint,
    }

    /// A row of the step; rows follow the header. ROW_ before each field.
    StepRow = {
        /// Token, or TOKEN_SAMPLED.
        token: uint,
        /// Position.
        pos: uint,
        /// Sequence.
        seq: uint,
        /// Word where the sequence's block table starts.
        table: uint,
        /// Position by which it rotates: where it stands, but behind pictures that take up fewer positions.
        rope: uint,
    }

    /// What a row is of a medium, in a step with vectors. MEDIUM_ before each field.
    StepMedium = {
        /// Its positions in the four streams that models with rope sections rotate by.
        time: uint,
        /// See `time`.
        height: uint,
        /// See `time`.
        width: uint,
        /// See `time`.
        fourth: uint,
        /// One past the last position of those that see each other and of which it is one; 0 if it is none.
        end: uint,
        /// Which of the step's vectors it is, from 1 on; 0 if it is none.
        vector: uint,
    }

    /// An output row's sample request; REQUEST_ before each field.
    SampleRequestWords = {
        /// Sequence.
        seq: uint,
        /// DRAW flags.
        flags: uint,
        /// Candidates.
        k: uint,
        /// Word where the ids start that are changed: id, occurrences or BANNED, bias. If the row is listed: ids whose logits are wanted.
        ids_at: uint,
        /// How many there are.
        ids: uint,
        /// Random number, of 2^32.
        unit: uint,
        /// Top-p, of 2^32.
        p: uint,
        /// Logarithm of min-p.
        ln_min_p: float,
        /// Temperature.
        temperature: float,
        /// Repeat penalty.
        repeat: float,
        /// Frequency penalty.
        frequency: float,
        /// Presence penalty.
        presence: float,
        /// Address of a bit for each id, whether it may be sampled; 0: all may.
        mask: uvec2,
        /// Where the row is listed: its best candidates as logit and id, as many as there may be; the best logit and the sum of the
        /// exponentials of what all logits are above it, over the temperature; the wanted ids' logits.
        listed_at: uvec2,
    }

    /// Addresses of what products of few rows hand on to a norm (lib/pack_norm.glsl); EPILOGUE_ before each field.
    EpilogueAddresses = {
        /// Weights of the norm, `[k]`.
        norm: uvec2,
        /// Packed rows, in one layout and in another.
        codes: uvec2[2],
        /// Sums of squares, `[row, k / 16]`.
        squares: uvec2,
        /// What rows are packed over, `[row]`.
        powers: uvec2,
        /// That of the next norm, left by who reads the rows, `[row]`.
        next: uvec2,
    }
}

constants! {
    /// Constants of StepParams.
    STEP:
    /// Token of a row that is what its sequence sampled last.
    TOKEN_SAMPLED = u32::MAX;
    /// Instead of an id, for the host: a logit of the row is NaN. No vocabulary is as large.
    ID_NAN = u32::MAX - 1;
    /// Positions per block of the KV cache.
    KV_BLOCK = 32;
    /// In place of how often an id occurred: it is never sampled.
    BANNED = u32::MAX;
}

/// Flags of a [`SampleRequestWords`]; REQUEST_ before each in GLSL.
pub mod request {
    use crate::block::constants;

    constants! {
        /// All of them.
        FLAGS:
        /// The row is the last output row of its sequence, whose next row starts from its id.
        LAST = 1;
        /// The row's own token occurred too, and only the device knows it.
        JOINS = 2;
        /// There is a top-p.
        TOP_P = 4;
        /// There is a min-p.
        MIN_P = 8;
        /// The best one is taken.
        GREEDY = 16;
        /// The best ones are listed for the host.
        LISTED = 32;
    }
}
