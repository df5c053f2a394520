//! A stage of the megakernel: its words and flags. GLSL has them as `#include "words/stage.glsl"`, AT_ before each field.

use crate::block::{blocks, constants};

blocks! {
    /// What a stage reads, does and sends. Fields mean what they say of products; what else they are is said where it is so.
    Stage = {
        /// Matrices, as [`crate::push::Gemv`] has them. Of attention: K, V, `inv_freq`. Of the router: its matrix.
        w: uvec2[3],
        /// Biases, if bits 0 to 2 of `flags` are set. Of attention: per-head norms of q and k, or 0.
        b: uvec2[3],
        /// Inputs that an earlier dispatch wrote, `[k]`.
        x: uvec2,
        /// Outputs, `[m]`.
        y: uvec2,
        /// Weights of the norm, `[k]`, if NORM.
        norm: uvec2,
        /// Inputs. Of attention: query heads.
        k: uint,
        /// Rows of the first matrix, or outputs of one expert. Of attention: K/V heads.
        m0: uint,
        /// Rows of the first two. Of attention: dimensions of a head that are rotated.
        m01: uint,
        /// Rows of all, or outputs of gate and up. Of attention: values it makes. Of the router: experts.
        m: uint,
        /// Of the norm, or of attention's norms.
        eps: float,
        /// Factor of the first matrix's product. Of attention: of scores. Of experts: what their weights sum up to.
        scale: float,
        /// Of attention: query heads that a workgroup takes at once. Of products: bits of the second factor.
        heads: uint,
        /// Of attention: parts of the positions. Of products: bits of the third factor.
        parts: uint,
        /// Workgroup that takes the first rows.
        first: uint,
        /// Bit i: bias i is there; then the flags of this file.
        flags: uint,
        /// Messages that it waits for, if RECEIVE.
        messages_in: uvec2,
        /// Where its messages go, if SEND. Of the router: the logits.
        messages_out: uvec2,
        /// Factors of the values that messages hold, or 0.
        factors_out: uvec2,
        /// Epoch of the messages it waits for, among the step's.
        epoch_in: uint,
        /// Of those it sends.
        epoch_out: uint,
        /// Where its values go one by one, if SEND_VALUES. Of first products of experts: the logits it waits for.
        values: uvec2,
        /// Epoch of these.
        values_epoch: uint,
    }
}

impl Stage {
    /// With factors of the products of its matrices.
    pub fn with_scales(self, scales: [f32; 3]) -> Stage {
        Stage { scale: scales[0], heads: scales[1].to_bits(), parts: scales[2].to_bits(), ..self }
    }
}

constants! {
    /// Flags of a stage, above those of the biases.
    FLAGS:
    /// Gate and up in one.
    GATED = 1 << 3;
    /// Adds to its outputs.
    ADD = 1 << 4;
    /// Norms its inputs.
    NORM = 1 << 5;
    /// Waits for messages.
    RECEIVE = 1 << 6;
    /// Quantizes inputs that an earlier dispatch wrote.
    QUANTIZE = 1 << 7;
    /// Its weights are of the module's second format.
    SECOND_FORMAT = 1 << 8;
    /// Its inputs are K_2.
    SECOND_K = 1 << 9;
    /// Sends messages.
    SEND = 1 << 10;
    /// There are biases or factors.
    ODD = 1 << 11;
    /// No product: a message from each workgroup to all.
    TRIAL = 1 << 12;
    /// No product: attention, of the values of the stages before.
    ATTEND = 1 << 13;
    /// Sends its values one by one.
    SEND_VALUES = 1 << 14;
    /// RoPE rotates halves, not neighbours.
    NEOX = 1 << 15;
    /// The logits of a layer of experts.
    ROUTER = 1 << 16;
    /// First products of the experts chosen.
    OF_CHOSEN = 1 << 17;
    /// Second products of the experts chosen.
    OVER_CHOSEN = 1 << 18;
    /// No product: joins the parts of attention.
    JOIN = 1 << 19;
}

/// Names of the flags that are set in `flags`, the biases' first.
pub fn flag_names(flags: u32) -> Vec<&'static str> {
    let biases = [("BIAS_0", 1, ""), ("BIAS_1", 2, ""), ("BIAS_2", 4, "")];
    biases.iter().chain(FLAGS).filter(|(_, bit, _)| flags & bit != 0).map(|(name, _, _)| *name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::Block;

    #[test]
    fn every_flag_has_a_bit_of_its_own() {
        assert_eq!(FLAGS.iter().fold(7, |all, (_, bit, _)| all | bit).count_ones() as usize, 3 + FLAGS.len());
        assert_eq!(flag_names(GATED | JOIN | 2), ["BIAS_1", "GATED", "JOIN"]);
    }

    /// Addresses take two words wherever they are: a stage is words to GLSL, and none may be between.
    #[test]
    fn words_of_a_stage_have_no_gaps() {
        let layout = Stage::LAYOUT;
        let fields: usize = layout.fields.iter().map(|f| f.kind.bytes() * f.count).sum();
        assert_eq!(layout.offset(layout.fields.len()), fields);
        let stage = Stage { y: 1 << 32, ..Stage::default() }.with_scales([1.0, 2.0, 3.0]);
        let words = stage.words();
        let at = |name: &str| layout.offset(layout.fields.iter().position(|f| f.name == name).unwrap()) / 4;
        assert_eq!(words[at("y")..at("y") + 2], [0, 1]);
        assert_eq!(words[at("scale")..at("scale") + 3], [1f32, 2.0, 3.0].map(f32::to_bits));
    }
}
