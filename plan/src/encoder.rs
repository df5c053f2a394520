//! Models of two parts: an encoder sees a whole source at once and leaves keys and values of it, and a decoder that sees those
//! writes the answer. One plan has the ops of both. A sequence begins with the positions of its source, which are rows of one
//! step and take the encoder's ops; those of its answer come after them and take the others.
//!
//! Both are in the same blocks, so that forks share sources. Masks tell them apart by the source's length, which is in
//! StepParams.

use super::{Op, Plan, Rows, Val};
use std::borrow::Cow;
use std::ops::Range;

/// The encoder of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encoder {
    /// The plan's first ops are its: so many.
    pub ops: usize,
    /// What its last norm gives, `[n, dim]`.
    pub rows: Val,
    /// Id that answers begin with.
    pub start: u32,
}

impl Plan {
    /// The ops that rows take, those of a `source` or others.
    pub fn ops_of(&self, source: bool) -> Range<usize> {
        match self.encoder {
            Some(encoder) if source => 0..encoder.ops,
            encoder => encoder.map_or(0, |e| e.ops)..self.ops.len(),
        }
    }

    /// The plan with these ops alone; values, weights and states are as they were.
    pub fn plan_of(&self, source: bool) -> Cow<'_, Plan> {
        match self.encoder {
            None => Cow::Borrowed(self),
            Some(_) => Cow::Owned(Plan { ops: self.ops[self.ops_of(source)].to_vec(), encoder: None, ..self.clone() }),
        }
    }

    /// The encoder alone, which gives rows of its last norm.
    pub(super) fn encoder_alone(mut self, encoder: Encoder) -> Plan {
        let gives = |op: &Op| matches!(op, Op::RmsNorm { out, .. } if *out == encoder.rows);
        let end = self.ops[..encoder.ops].iter().position(gives).map_or(encoder.ops, |at| at + 1);
        self.ops.truncate(end);
        self.ops.push(Op::Sample { logits: encoder.rows });
        self.values[encoder.rows.0].rows = Rows::Output;
        (self.logits, self.n_vocab) = (encoder.rows, self.values[encoder.rows.0].width);
        self.encoder = None;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AttentionSpec, Builder, KvSpec, LayerState, MatPart, Rope, RopeNorm, RopeStyle, Weight, WeightInfo};

    /// An encoder that leaves keys and values, and a decoder of one norm.
    fn plan() -> Plan {
        let format = pumex_quant::FormatId::F32.format();
        let weight = |(i, (rows, cols)): (usize, (usize, usize))| WeightInfo {
            name: format!("w{i}"),
            tensor: i,
            rows,
            cols,
            format,
        };
        let weights = [(64, 32), (1, 32), (64, 32)].into_iter().enumerate().map(weight).collect();
        let (embed, norm, keys) = (Weight(0), Weight(1), MatPart { weight: Weight(2), bias: None, scale: 1.0 });
        let mut p = Builder::new(weights);
        let x = p.embed(embed);
        let rows = p.rms_norm(x, norm, 1e-5);
        let kv = p.matmul("kv", rows, vec![keys]);
        let rope = Rope { style: RopeStyle::Neox, dims: 0, table: 0, norm_eps: 1e-5 };
        p.rope_kv(kv, AttentionSpec::causal(0, 0, 1, 32), RopeNorm { rope, q_norm: None, k_norm: None });
        p.end_encoder(rows, 3);
        let x = p.embed(embed);
        let out = p.rms_norm_output(x, norm, 1e-5);
        let kept = LayerState::KeysValues(KvSpec { kv_heads: 1, k_dim: 32, v_dim: 32, window: None });
        p.finish("made", out, vec![kept], Vec::new(), 64)
    }

    #[test]
    fn rows_of_a_source_take_the_first_ops_and_others_the_rest() {
        let plan = plan();
        assert_eq!((plan.ops_of(true), plan.ops_of(false)), (0..4, 4..7));
        assert_eq!((plan.plan_of(true).ops.len(), plan.plan_of(false).ops.len()), (4, 3));
        let whole = plan.clone().plan_of(true).into_owned();
        assert_eq!((whole.ops_of(false), whole.plan_of(true).ops.len()), (0..4, 4), "a part has no parts");
    }

    #[test]
    fn embeddings_are_rows_of_the_encoder_and_keep_no_keys_for_a_decoder() {
        let plan = plan().embedding();
        assert_eq!((plan.ops.len(), plan.n_vocab, plan.weights.len()), (3, 32, 2));
        assert_eq!((plan.encoder, &plan.layers[..]), (None, &[LayerState::Nothing][..]));
        assert_eq!(plan.values[plan.logits.0].rows, Rows::Output);
    }
}
