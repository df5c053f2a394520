//! OLMo 2: norms after attention and the feed-forward network, and of whole rows of queries and keys.

use super::plain::{fill, fill_heads, ATTENTION, BIASES, ENDS, FEED_FORWARD, PLAIN};
use super::rows::{must, TensorRow, Width, K, Q};
use super::table::Family;

const NORMS: &[TensorRow] = &[
    must("model.layers.{}.post_attention_layernorm", "blk.{}.post_attention_norm", &[Width]),
    must("model.layers.{}.post_feedforward_layernorm", "blk.{}.post_ffw_norm", &[Width]),
    must("model.layers.{}.self_attn.q_norm", "blk.{}.attn_q_norm", &[Q]),
    must("model.layers.{}.self_attn.k_norm", "blk.{}.attn_k_norm", &[K]),
];

/// OLMo 2.
pub const OLMO2: Family = Family {
    title: "OLMo 2",
    classes: &["Olmo2ForCausalLM"],
    arch: "olmo2",
    model_types: &["olmo2"],
    defaults: |config| {
        fill(config, 2048, 10000.0, 1e-5, false);
        fill_heads(config);
    },
    rows: &[ENDS, ATTENTION, BIASES, NORMS, FEED_FORWARD],
    ..PLAIN
};
