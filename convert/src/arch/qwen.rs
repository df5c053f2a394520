//! Qwen 2, Qwen 3 and its mixtures.

use super::parameters::{usual, FamilyKeys};
use super::plain::{fill, ATTENTION, BIASES, ENDS, EXPERTS, FEED_FORWARD, HEAD_NORMS, NORMS, PLAIN};
use super::rows::{some, ExpertFf, Experts as E, Ff, TensorRow, Width};
use super::table::Family;
use super::Model;
use crate::content::Weights;
use crate::metadata::{Meta, MetaValue};
use crate::{json, Error, Result};
use serde_json::json;

/// Whether a layer has experts.
fn has_experts(model: &Model, layer: usize) -> bool {
    let dense = model.config.get("mlp_only_layers").and_then(|l| l.as_array());
    let step = model.config.opt_u32(&["decoder_sparse_step"]).ok().flatten().unwrap_or(1).max(1) as usize;
    !dense.is_some_and(|l| l.iter().any(|v| v.as_u64() == Some(layer as u64))) && (layer + 1).is_multiple_of(step)
}

const MIXTURE: &[TensorRow] = &[
    some("model.layers.{}.mlp.gate", "blk.{}.ffn_gate_inp", &[E, Width], has_experts),
    some("model.layers.{}.mlp.experts.gate_proj", "blk.{}.ffn_gate_exps", &[E, ExpertFf, Width], has_experts),
    some("model.layers.{}.mlp.experts.up_proj", "blk.{}.ffn_up_exps", &[E, ExpertFf, Width], has_experts),
    some("model.layers.{}.mlp.experts.down_proj", "blk.{}.ffn_down_exps", &[E, Width, ExpertFf], has_experts),
    some("model.layers.{}.mlp.gate_proj", "blk.{}.ffn_gate", &[Ff, Width], |m, l| !has_experts(m, l)),
    some("model.layers.{}.mlp.up_proj", "blk.{}.ffn_up", &[Ff, Width], |m, l| !has_experts(m, l)),
    some("model.layers.{}.mlp.down_proj", "blk.{}.ffn_down", &[Width, Ff], |m, l| !has_experts(m, l)),
];

/// How a model's vectors are pooled, where a folder says so.
///
/// # Errors
/// A kind that is not known.
pub fn pooling(model: &Model, meta: &mut Meta) -> Result<()> {
    let path = model.dir.join("modules.json");
    let Some(text) = json::text(&path)? else { return Ok(()) };
    let modules: Vec<serde_json::Value> =
        serde_json::from_str(&text).map_err(|e| Error::file(&path, format!("expected a list of modules: {e}")))?;
    let of_pooling =
        |m: &&serde_json::Value| m.get("type").and_then(|t| t.as_str()).is_some_and(|t| t.ends_with("Pooling"));
    let Some(folder) = modules.iter().find(of_pooling).and_then(|m| m.get("path")).and_then(|p| p.as_str()) else {
        return Ok(());
    };
    if folder.contains("..") || folder.starts_with('/') {
        return Err(Error::file(&path, format!("expected a folder within this one, found {folder}")));
    }
    let path = model.dir.join(folder).join("config.json");
    let settings =
        json::object(&path)?.ok_or_else(|| Error::file(&path, "expected how vectors are pooled, found none"))?;
    let is = |key: &str| settings.get(key).and_then(|v| v.as_bool()) == Some(true);
    let kind = match settings.get("pooling_mode").and_then(|v| v.as_str()) {
        _ if is("pooling_mode_mean_tokens") => 1,
        _ if is("pooling_mode_cls_token") => 2,
        _ if is("pooling_mode_lasttoken") => 3,
        Some("mean") => 1,
        Some("cls") => 2,
        Some("lasttoken") => 3,
        _ => return Err(Error::file(&path, "expected pooling by mean, cls or lasttoken, found another")),
    };
    meta.set(model.key("pooling_type"), MetaValue::U32(kind));
    Ok(())
}

fn parameters(model: &Model, file_type: u32, meta: &mut Meta) -> Result<()> {
    usual(model, file_type, meta)?;
    pooling(model, meta)
}

fn parameters_of_mixtures(model: &Model, file_type: u32, meta: &mut Meta) -> Result<()> {
    usual(model, file_type, meta)?;
    let mut keys = FamilyKeys::new(model, meta);
    keys.copy_u32("expert_feed_forward_length", &["moe_intermediate_size"])?;
    keys.copy_u32("expert_shared_feed_forward_length", &["shared_expert_intermediate_size"])
}

/// Experts that stand together come apart into gate and up.
fn split_gate_up(_: &Model, name: &str, weights: Weights) -> std::result::Result<Vec<(String, Weights)>, String> {
    let stem = name.strip_suffix(".weight").unwrap_or(name);
    if stem.ends_with("mlp.experts.down_proj") {
        return Ok(vec![(format!("{stem}.weight"), weights)]);
    }
    let Some(base) = stem.strip_suffix("mlp.experts.gate_up_proj") else {
        return Ok(vec![(name.to_string(), weights)]);
    };
    let rows = weights.shape.iter().rev().nth(1).copied().unwrap_or(0);
    if weights.shape.len() != 3 || !rows.is_multiple_of(2) || rows == 0 {
        return Err(format!("expected shape [experts, 2 n_ff, n_embd], found {:?}", weights.shape));
    }
    let half = |start: usize| weights.clone().take(rows, rows / 2, start, 1);
    Ok(vec![
        (format!("{base}mlp.experts.gate_proj.weight"), half(0)?),
        (format!("{base}mlp.experts.up_proj.weight"), half(rows / 2)?),
    ])
}

/// Qwen 2 and 2.5.
pub const QWEN2: Family = Family {
    title: "Qwen 2, 2.5",
    classes: &["Qwen2ForCausalLM"],
    arch: "qwen2",
    model_types: &["qwen2"],
    defaults: |config| {
        fill(config, 32768, 10000.0, 1e-6, false);
        config.default("num_key_value_heads", json!(32));
    },
    rows: &[ENDS, ATTENTION, BIASES, NORMS, FEED_FORWARD],
    parameters,
    vocabulary: |model, meta| model.source().spm_or_bpe(meta),
    ..PLAIN
};

/// Qwen 3.
pub const QWEN3: Family = Family {
    title: "Qwen 3",
    classes: &["Qwen3ForCausalLM"],
    arch: "qwen3",
    model_types: &["qwen3"],
    defaults: |config| {
        fill(config, 32768, 10000.0, 1e-6, false);
        config.default("num_key_value_heads", json!(32));
        config.default("head_dim", json!(128));
    },
    rows: &[ENDS, ATTENTION, BIASES, HEAD_NORMS, NORMS, FEED_FORWARD],
    ..QWEN2
};

/// Mixtures of Qwen 3.
pub const QWEN3MOE: Family = Family {
    title: "Qwen 3 MoE",
    classes: &["Qwen3MoeForCausalLM"],
    arch: "qwen3moe",
    model_types: &["qwen3_moe"],
    defaults: |config| {
        fill(config, 32768, 10000.0, 1e-6, false);
        config.default("num_key_value_heads", json!(4));
        config.default("num_experts", json!(128));
        config.default("num_experts_per_tok", json!(8));
        config.default("moe_intermediate_size", json!(768));
        config.default("intermediate_size", json!(6144));
    },
    rows: &[ENDS, ATTENTION, BIASES, HEAD_NORMS, NORMS, MIXTURE],
    modify: split_gate_up,
    experts: Some(EXPERTS),
    parameters: parameters_of_mixtures,
    vocabulary: |model, meta| model.source().bpe(meta),
    ..PLAIN
};
