//! LFM2: short convolutions between layers of attention.

use super::parameters::{usual, FamilyKeys};
use super::plain::{fill, PLAIN};
use super::rows::{must, some, Any, Head, TensorRow, Vocab, Width, K, Q};
use super::table::Family;
use super::{usual_name, Model};
use crate::config::Config;
use crate::content::Weights;
use crate::metadata::Meta;
use crate::{Error, Result};
use serde_json::{json, Value as Json};

fn is_conv(model: &Model, layer: usize) -> bool {
    let kinds = model.config.get("layer_types").and_then(Json::as_array);
    kinds.and_then(|k| k.get(layer)).and_then(Json::as_str) == Some("conv")
}

fn is_attention(model: &Model, layer: usize) -> bool {
    !is_conv(model, layer)
}

const ROWS: &[TensorRow] = &[
    must("model.embed_tokens", "token_embd", &[Vocab, Width]),
    must("model.embedding_norm", "token_embd_norm", &[Width]),
    must("model.layers.{}.operator_norm", "blk.{}.attn_norm", &[Width]),
    must("model.layers.{}.ffn_norm", "blk.{}.ffn_norm", &[Width]),
    must("model.layers.{}.feed_forward.w1", "blk.{}.ffn_gate", &[Any, Width]),
    must("model.layers.{}.feed_forward.w2", "blk.{}.ffn_down", &[Width, Any]),
    must("model.layers.{}.feed_forward.w3", "blk.{}.ffn_up", &[Any, Width]),
    some("model.layers.{}.conv.conv", "blk.{}.shortconv.conv", &[Width, Any], is_conv),
    some("model.layers.{}.conv.in_proj", "blk.{}.shortconv.in_proj", &[Any, Width], is_conv),
    some("model.layers.{}.conv.out_proj", "blk.{}.shortconv.out_proj", &[Width, Any], is_conv),
    some("model.layers.{}.self_attn.q_proj", "blk.{}.attn_q", &[Q, Width], is_attention),
    some("model.layers.{}.self_attn.k_proj", "blk.{}.attn_k", &[K, Width], is_attention),
    some("model.layers.{}.self_attn.v_proj", "blk.{}.attn_v", &[K, Width], is_attention),
    some("model.layers.{}.self_attn.out_proj", "blk.{}.attn_output", &[Width, Q], is_attention),
    some("model.layers.{}.self_attn.q_layernorm", "blk.{}.attn_q_norm", &[Head], is_attention),
    some("model.layers.{}.self_attn.k_layernorm", "blk.{}.attn_k_norm", &[Head], is_attention),
];

fn modify(_: &Model, name: &str, weights: Weights) -> std::result::Result<Vec<(String, Weights)>, String> {
    if !name.contains("conv.conv") {
        return Ok(vec![(name.to_string(), weights)]);
    }
    let [channels, 1, taps] = weights.shape[..] else {
        return Err(format!("expected shape [channels, 1, taps], found {:?}", weights.shape));
    };
    Ok(vec![(name.to_string(), weights.reshape(vec![channels, taps]))])
}

/// The width within feed-forward networks.
fn inner(config: &Config) -> Result<u32> {
    let width = config.u32(&["block_ff_dim", "intermediate_size"])?;
    if !config.is("block_auto_adjust_ff_dim") {
        return Ok(width);
    }
    let two_thirds = (2.0 * f64::from(width) / 3.0) as u64;
    let times = config.opt_f64(&["block_ffn_dim_multiplier"])?;
    let width = times.map_or(two_thirds, |t| (t * two_thirds as f64) as u64);
    let of = u64::from(config.u32(&["block_multiple_of"])?.max(1));
    u32::try_from(width.div_ceil(of) * of)
        .map_err(|_| Error::file(&config.path, "block_ff_dim: expected a width, found a larger one"))
}

fn parameters(model: &Model, file_type: u32, meta: &mut Meta) -> Result<()> {
    usual(model, file_type, meta)?;
    let c = &model.config;
    let mut keys = FamilyKeys::new(model, meta);
    keys.u32("vocab_size", c.u32(&["vocab_size"])?);
    keys.u32("shortconv.l_cache", c.u32(&["conv_L_cache"])?);
    keys.f32("attention.layer_norm_rms_epsilon", c.f64("norm_eps")?);
    keys.u32("feed_forward_length", inner(c)?);
    let heads: Vec<i32> =
        (0..model.layers).map(|l| if is_conv(model, l) { 0 } else { heads(model).unwrap_or(0) }).collect();
    keys.set("attention.head_count_kv", crate::MetaValue::I32s(heads));
    Ok(())
}

fn heads(model: &Model) -> Option<i32> {
    i32::try_from(model.config.get("num_key_value_heads")?.as_u64()?).ok()
}

fn defaults(config: &mut Config) {
    fill(config, 128000, 1e6, 1e-5, true);
    // Its own name stands for the usual one.
    config.remove("rms_norm_eps");
    config.default("norm_eps", json!(1e-5));
    config.default("num_key_value_heads", json!(8));
    config.default("conv_L_cache", json!(3));
    config.default("block_multiple_of", json!(256));
    config.default("block_ffn_dim_multiplier", json!(1.0));
    config.default("block_auto_adjust_ff_dim", json!(true));
    let all = config.layers().unwrap_or(0);
    let full = config.get("full_attn_idxs").and_then(Json::as_array).cloned();
    let is_full = |layer: usize| full.as_ref().is_none_or(|f| f.iter().any(|v| v.as_u64() == Some(layer as u64)));
    let kinds: Vec<&str> = (0..all).map(|l| if is_full(l) { "full_attention" } else { "conv" }).collect();
    config.fill("layer_types", json!(kinds));
    if let Some(width) = config.get("block_ff_dim").cloned() {
        config.set("intermediate_size", width);
    }
}

/// LFM2.
pub const LFM2: Family = Family {
    title: "LFM2",
    classes: &["Lfm2ForCausalLM", "LFM2ForCausalLM"],
    arch: "lfm2",
    model_types: &["lfm2"],
    defaults,
    rows: &[ROWS],
    name: |name| usual_name(&name.replace("lfm.", "model.")),
    modify,
    parameters,
    ..PLAIN
};
