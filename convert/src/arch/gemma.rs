//! Gemma 1 to 3: norms are stored less 1, the output is the embedding.

use super::parameters::{full, usual, FamilyKeys};
use super::plain::{fill, without_output, ATTENTION, BIASES, ENDS, FEED_FORWARD, HEAD_NORMS, NORMS, PLAIN, TIED_ENDS};
use super::rows::{must, TensorRow, Width};
use super::table::Family;
use super::Model;
use crate::config::Config;
use crate::content::Weights;
use crate::metadata::{Meta, MetaValue};
use crate::vocab::Special;
use crate::{json, Error, Result};
use serde_json::json;

const FOUR_NORMS: &[TensorRow] = &[
    must("model.layers.{}.input_layernorm", "blk.{}.attn_norm", &[Width]),
    must("model.layers.{}.post_attention_layernorm", "blk.{}.post_attention_norm", &[Width]),
    must("model.layers.{}.pre_feedforward_layernorm", "blk.{}.ffn_norm", &[Width]),
    must("model.layers.{}.post_feedforward_layernorm", "blk.{}.post_ffw_norm", &[Width]),
];

fn plus_one(_: &Model, name: &str, weights: Weights) -> std::result::Result<Vec<(String, Weights)>, String> {
    let weights = if name.ends_with("norm.weight") { weights.plus(1.0) } else { weights };
    Ok(vec![(name.to_string(), weights)])
}

/// Rows of the embedding past the vocabulary go.
fn modify_3(model: &Model, name: &str, weights: Weights) -> std::result::Result<Vec<(String, Weights)>, String> {
    if !name.contains("embed_tokens.weight") {
        return plus_one(model, name, weights);
    }
    let rows = weights.rows();
    let len = vocab_len(model).map_err(|e| e.to_string())?.min(rows);
    let weights = if len < rows { weights.take(rows, len, 0, 1)? } else { weights };
    Ok(vec![(name.to_string(), weights)])
}

fn vocab_len(model: &Model) -> Result<usize> {
    if model.source().has_spm() {
        return model.source().spm_len();
    }
    let path = model.dir.join("tokenizer.json");
    let tokenizer = json::object(&path)?.ok_or_else(|| Error::file(&path, "expected a tokenizer, found none"))?;
    let vocab = tokenizer.get("model").and_then(|m| m.get("vocab"));
    let vocab = vocab.and_then(|v| v.as_object().map(|o| o.len()).or_else(|| v.as_array().map(Vec::len)));
    let added = tokenizer.get("added_tokens").and_then(|a| a.as_array()).map(Vec::len);
    vocab
        .zip(added)
        .map(|(a, b)| a + b)
        .ok_or_else(|| Error::file(&path, "expected model.vocab and added_tokens, found none"))
}

/// What all three write.
fn first(model: &Model, file_type: u32, meta: &mut Meta) -> Result<()> {
    let (c, mut keys) = (&model.config, FamilyKeys::new(model, meta));
    keys.u32("context_length", c.u32(&["max_position_embeddings"])?);
    keys.u32("embedding_length", c.u32(&["hidden_size"])?);
    keys.u32("block_count", model.layers as u32);
    keys.u32("feed_forward_length", c.u32(&["intermediate_size"])?);
    keys.u32("attention.head_count", c.u32(&["num_attention_heads"])?);
    keys.u32("attention.head_count_kv", c.u32(&["num_key_value_heads", "num_attention_heads"])?);
    keys.f32("attention.layer_norm_rms_epsilon", c.f64("rms_norm_eps")?);
    keys.u32("attention.key_length", c.u32(&["head_dim"])?);
    keys.u32("attention.value_length", c.u32(&["head_dim"])?);
    meta.set("general.file_type", MetaValue::U32(file_type));
    Ok(())
}

fn parameters_2(model: &Model, file_type: u32, meta: &mut Meta) -> Result<()> {
    first(model, file_type, meta)?;
    let (c, mut keys) = (&model.config, FamilyKeys::new(model, meta));
    keys.f32("attn_logit_softcapping", c.f64("attn_logit_softcapping")?);
    keys.f32("final_logit_softcapping", c.f64("final_logit_softcapping")?);
    keys.u32("attention.sliding_window", c.u32(&["sliding_window"])?);
    Ok(())
}

fn parameters_3(model: &Model, file_type: u32, meta: &mut Meta) -> Result<()> {
    usual(model, file_type, meta)?;
    let (c, mut keys) = (&model.config, FamilyKeys::new(model, meta));
    keys.u32("context_length", c.opt_u32(&["max_position_embeddings"])?.unwrap_or(131072));
    keys.u32("attention.head_count", c.opt_u32(&["num_attention_heads"])?.unwrap_or(8));
    keys.f32("attention.layer_norm_rms_epsilon", c.opt_f64(&["rms_norm_eps"])?.unwrap_or(1e-6));
    let head = c.opt_u32(&["head_dim"])?.unwrap_or(256);
    keys.u32("attention.key_length", head);
    keys.u32("attention.value_length", head);
    let theta = full(&c.rope()).get("rope_theta").and_then(|v| v.as_f64());
    keys.f32("rope.freq_base", theta.unwrap_or(1e6));
    if c.get("attn_logit_softcapping").is_some() {
        return Err(Error::file(&c.path, "attn_logit_softcapping: expected none, which Gemma 3 has not, found one"));
    }
    if let Some(cap) = c.opt_f64(&["final_logit_softcapping"])?.filter(|cap| *cap != 0.0) {
        keys.f32("final_logit_softcapping", cap);
    }
    if c.opt_u32(&["sliding_window_pattern"])? != Some(1) {
        keys.u32("attention.sliding_window", c.u32(&["sliding_window"])?);
    }
    keys.u32("attention.head_count_kv", c.opt_u32(&["num_key_value_heads"])?.unwrap_or(4));
    Ok(())
}

fn without_space(model: &Model, meta: &mut Meta) -> Result<()> {
    model.source().spm(meta)?;
    meta.set("tokenizer.ggml.add_space_prefix", MetaValue::Bool(false));
    Ok(())
}

fn vocabulary(model: &Model, meta: &mut Meta) -> Result<()> {
    model.source().spm(meta)?;
    let mut special = Special::read_types(&model.dir, false, None, &["prefix", "suffix", "middle", "fsep", "eot"])?;
    // The end of a turn; the other signs of Code Gemma have no keys.
    special.id("eot", 107);
    special.without_templates().put(meta);
    meta.set("tokenizer.ggml.add_space_prefix", MetaValue::Bool(false));
    Ok(())
}

fn fill_gemma(config: &mut Config, context: u32, theta: f64, kv: u32) {
    fill(config, context, theta, 1e-6, true);
    config.default("num_key_value_heads", json!(kv));
    config.default("head_dim", json!(256));
}

/// Gemma.
pub const GEMMA: Family = Family {
    title: "Gemma",
    classes: &["GemmaForCausalLM"],
    arch: "gemma",
    model_types: &["gemma"],
    defaults: |config| fill_gemma(config, 8192, 10000.0, 16),
    rows: &[TIED_ENDS, ATTENTION, NORMS, FEED_FORWARD],
    name: without_output,
    modify: plus_one,
    parameters: first,
    vocabulary,
    ..PLAIN
};

/// Gemma 2.
pub const GEMMA2: Family = Family {
    title: "Gemma 2",
    classes: &["Gemma2ForCausalLM"],
    arch: "gemma2",
    model_types: &["gemma2"],
    defaults: |config| {
        fill_gemma(config, 8192, 10000.0, 4);
        config.default("sliding_window", json!(4096));
        config.default("final_logit_softcapping", json!(30.0));
        config.default("attn_logit_softcapping", json!(50.0));
    },
    rows: &[TIED_ENDS, ATTENTION, FOUR_NORMS, FEED_FORWARD],
    parameters: parameters_2,
    vocabulary: without_space,
    ..GEMMA
};

/// Gemma 3, of which the pictures' tower is no part.
pub const GEMMA3: Family = Family {
    title: "Gemma 3",
    classes: &["Gemma3ForCausalLM", "Gemma3ForConditionalGeneration"],
    arch: "gemma3",
    model_types: &["gemma3_text", "gemma3"],
    defaults: |config| {
        fill_gemma(config, 131072, 1e6, 4);
        config.default("vocab_size", json!(262208));
        config.default("num_attention_heads", json!(8));
        config.default("sliding_window", json!(4096));
        config.default("rope_local_base_freq", json!(10000.0));
    },
    rows: &[ENDS, ATTENTION, BIASES, HEAD_NORMS, FOUR_NORMS, FEED_FORWARD],
    modify: modify_3,
    parameters: parameters_3,
    vocabulary: |model, meta| {
        if model.source().has_spm() {
            without_space(model, meta)
        } else {
            model.source().bpe(meta)
        }
    },
    ..PLAIN
};
