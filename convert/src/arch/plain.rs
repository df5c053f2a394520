//! What a family is where it says nothing else.

use super::rows::{may, must, Ff, Head, TensorPresence, TensorRow, Vocab, Width, K, Q};
use super::table::{ExpertLayout, Family};
use super::{parameters, usual_name, Model};
use crate::config::Config;
use crate::content::{Content, Weights};
use crate::folder::ModelFolder;
use crate::metadata::Meta;
use crate::Result;
use serde_json::json;

/// A family of the usual kind.
pub const PLAIN: Family = Family {
    title: "",
    classes: &[],
    arch: "",
    model_types: &[],
    defaults: |_| {},
    adjust: |_| Ok(()),
    rows: &[],
    name: usual_name,
    is_left: |_, _| false,
    modify: as_it_is,
    experts: None,
    extra: nothing,
    parameters: parameters::usual,
    vocabulary: |model, meta| model.source().bpe(meta),
    takes_mxfp4: false,
};

/// A tensor's name and data as they are.
pub fn as_it_is(_: &Model, name: &str, weights: Weights) -> std::result::Result<Vec<(String, Weights)>, String> {
    Ok(vec![(name.to_string(), weights)])
}

fn nothing(_: &Model, _: &ModelFolder, _: &mut Meta) -> Result<Vec<(String, Content)>> {
    Ok(Vec::new())
}

/// Without the output matrix, which is the embedding.
pub fn without_output(name: &str) -> Option<String> {
    if name == "lm_head.weight" {
        return None;
    }
    usual_name(name)
}

/// Sets what a configuration means where it is silent.
pub fn fill(config: &mut Config, context: u32, theta: f64, eps: f64, tied: bool) {
    config.default("max_position_embeddings", json!(context));
    config.default("rope_theta", json!(theta));
    config.default("rms_norm_eps", json!(eps));
    config.default("tie_word_embeddings", json!(tied));
}

/// Sets the number of key heads to that of query heads, where the configuration does not say.
pub fn fill_heads(config: &mut Config) {
    if let Some(heads) = config.get("num_attention_heads").cloned() {
        config.fill("num_key_value_heads", heads);
    }
}

/// The embedding, the last norm and the output.
pub const ENDS: &[TensorRow] = &[
    must("model.embed_tokens", "token_embd", &[Vocab, Width]),
    must("model.norm", "output_norm", &[Width]),
    TensorRow { from: "lm_head", to: "output", dims: &[Vocab, Width], need: TensorPresence::Untied },
];

/// The embedding and the last norm, where the output is the embedding.
pub const TIED_ENDS: &[TensorRow] =
    &[must("model.embed_tokens", "token_embd", &[Vocab, Width]), must("model.norm", "output_norm", &[Width])];

/// Attention by four matrices.
pub const ATTENTION: &[TensorRow] = &[
    must("model.layers.{}.self_attn.q_proj", "blk.{}.attn_q", &[Q, Width]),
    must("model.layers.{}.self_attn.k_proj", "blk.{}.attn_k", &[K, Width]),
    must("model.layers.{}.self_attn.v_proj", "blk.{}.attn_v", &[K, Width]),
    must("model.layers.{}.self_attn.o_proj", "blk.{}.attn_output", &[Width, Q]),
];

/// Its biases, which some models have.
pub const BIASES: &[TensorRow] = &[
    may("model.layers.{}.self_attn.q_proj.bias", "blk.{}.attn_q.bias", &[Q]),
    may("model.layers.{}.self_attn.k_proj.bias", "blk.{}.attn_k.bias", &[K]),
    may("model.layers.{}.self_attn.v_proj.bias", "blk.{}.attn_v.bias", &[K]),
    may("model.layers.{}.self_attn.o_proj.bias", "blk.{}.attn_output.bias", &[Width]),
];

/// Norms of heads.
pub const HEAD_NORMS: &[TensorRow] = &[
    must("model.layers.{}.self_attn.q_norm", "blk.{}.attn_q_norm", &[Head]),
    must("model.layers.{}.self_attn.k_norm", "blk.{}.attn_k_norm", &[Head]),
];

/// The norms before attention and before the feed-forward network.
pub const NORMS: &[TensorRow] = &[
    must("model.layers.{}.input_layernorm", "blk.{}.attn_norm", &[Width]),
    must("model.layers.{}.post_attention_layernorm", "blk.{}.ffn_norm", &[Width]),
];

/// A feed-forward network with a gate.
pub const FEED_FORWARD: &[TensorRow] = &[
    must("model.layers.{}.mlp.gate_proj", "blk.{}.ffn_gate", &[Ff, Width]),
    must("model.layers.{}.mlp.up_proj", "blk.{}.ffn_up", &[Ff, Width]),
    must("model.layers.{}.mlp.down_proj", "blk.{}.ffn_down", &[Width, Ff]),
];

/// Experts as `model.layers.N.mlp.experts.N.NAME_proj`.
pub const EXPERTS: ExpertLayout = ExpertLayout {
    part: "mlp.experts.",
    parts: ["down_proj", "gate_proj", "up_proj"],
    name: |layer, expert, part| format!("model.layers.{layer}.mlp.experts.{expert}.{part}.weight"),
    stacked: |layer, part| format!("model.layers.{layer}.mlp.experts.{part}.weight"),
};
