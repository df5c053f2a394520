//! Hyper-parameters that most families write alike.

use super::Model;
use crate::json::Object;
use crate::metadata::{Meta, MetaValue};
use crate::{Error, Result};
use serde_json::Value as Json;

/// Sets a family's keys.
pub struct FamilyKeys<'a> {
    model: &'a Model,
    meta: &'a mut Meta,
}

impl<'a> FamilyKeys<'a> {
    /// Starts the keys of `model`, which are written to `meta`.
    pub fn new(model: &'a Model, meta: &'a mut Meta) -> FamilyKeys<'a> {
        FamilyKeys { model, meta }
    }

    /// A value.
    pub fn set(&mut self, key: &str, value: impl Into<MetaValue>) {
        self.meta.set(self.model.key(key), value);
    }

    /// A whole number.
    pub fn u32(&mut self, key: &str, value: u32) {
        self.set(key, MetaValue::U32(value));
    }

    /// A number.
    pub fn f32(&mut self, key: &str, value: f64) {
        self.set(key, MetaValue::F32(value as f32));
    }

    /// A whole number of the configuration, if it is there.
    ///
    /// # Errors
    /// Another value.
    pub fn copy_u32(&mut self, key: &str, from: &[&str]) -> Result<()> {
        let value = self.model.config.opt_u32(from)?;
        value.into_iter().for_each(|v| self.u32(key, v));
        Ok(())
    }

    /// A number of the configuration, if it is there.
    ///
    /// # Errors
    /// Another value.
    pub fn copy_f32(&mut self, key: &str, from: &[&str]) -> Result<()> {
        let value = self.model.config.opt_f64(from)?;
        value.into_iter().for_each(|v| self.f32(key, v));
        Ok(())
    }

    /// A number of an object, if it is there.
    fn part_f32(&mut self, key: &str, object: &Object, from: &[&str]) {
        let value = from.iter().find_map(|k| object.get(*k)).and_then(Json::as_f64);
        value.into_iter().for_each(|v| self.f32(key, v));
    }
}

/// The parameters of rotations in layers that see everything.
pub fn full(rope: &Object) -> Object {
    rope.get("full_attention").and_then(Json::as_object).unwrap_or(rope).clone()
}

/// How rotations are scaled.
fn scaling(keys: &mut FamilyKeys<'_>, rope: &Object) -> Result<()> {
    let Some(kind) = rope.get("rope_type").and_then(Json::as_str) else { return Ok(()) };
    let factor = rope.get("factor").and_then(Json::as_f64);
    match (kind, factor) {
        ("linear", Some(factor)) => {
            keys.set("rope.scaling.type", "linear");
            keys.f32("rope.scaling.factor", factor);
        }
        ("yarn", Some(factor)) => {
            keys.set("rope.scaling.type", "yarn");
            keys.f32("rope.scaling.factor", factor);
            let original =
                rope.get("original_max_position_embeddings").and_then(Json::as_u64).and_then(|n| u32::try_from(n).ok());
            let what = "rope_scaling.original_max_position_embeddings: expected a number, as yarn wants it, found none";
            keys.u32(
                "rope.scaling.original_context_length",
                original.ok_or_else(|| Error::file(&keys.model.config.path, what))?,
            );
            keys.part_f32("rope.scaling.yarn_ext_factor", rope, &["extrapolation_factor"]);
            keys.part_f32("rope.scaling.yarn_attn_factor", rope, &["attention_factor", "attn_factor"]);
            keys.part_f32("rope.scaling.yarn_beta_fast", rope, &["beta_fast"]);
            keys.part_f32("rope.scaling.yarn_beta_slow", rope, &["beta_slow"]);
        }
        ("su" | "longrope", _) => keys.set("rope.scaling.type", "longrope"),
        _ => {}
    }
    Ok(())
}

/// Sets what most families have.
///
/// # Errors
/// Hyper-parameters that are not what they should be.
pub fn usual(model: &Model, file_type: u32, meta: &mut Meta) -> Result<()> {
    let (c, mut keys) = (&model.config, FamilyKeys::new(model, meta));
    keys.u32("block_count", model.layers as u32);
    let context =
        ["max_position_embeddings", "n_ctx", "n_positions", "max_length", "max_sequence_length", "model_max_length"];
    keys.copy_u32("context_length", &context)?;
    keys.copy_u32("embedding_length", &["hidden_size", "n_embd", "dim"])?;
    let inner =
        ["prefix_dense_intermediate_size", "dense_intermediate_size", "intermediate_size", "n_inner", "hidden_dim"];
    keys.copy_u32("feed_forward_length", &inner)?;
    keys.copy_u32("attention.head_count", &["num_attention_heads", "n_head", "n_heads"])?;
    let kv = ["num_key_value_heads", "n_kv_heads"];
    match c.first(&kv).map(|(_, v)| v) {
        Some(Json::Array(list)) => {
            let list = list.iter().map(|v| v.as_i64().and_then(|n| i32::try_from(n).ok()));
            let list: Option<Vec<i32>> = list.collect();
            let what = "num_key_value_heads: expected numbers, found something else";
            keys.set("attention.head_count_kv", MetaValue::I32s(list.ok_or_else(|| Error::file(&c.path, what))?));
        }
        _ => keys.copy_u32("attention.head_count_kv", &kv)?,
    }
    if c.get("is_causal").and_then(Json::as_bool) == Some(false) {
        keys.set("attention.causal", MetaValue::Bool(false));
    }
    let rope = c.rope();
    let of_all = full(&rope);
    scaling(&mut keys, &of_all)?;
    keys.part_f32("rope.freq_base", &of_all, &["rope_theta"]);
    if let Some(local) = rope.get("sliding_attention").and_then(Json::as_object) {
        keys.part_f32("rope.freq_base_swa", local, &["rope_theta"]);
    }
    keys.copy_f32("attention.layer_norm_rms_epsilon", &["rms_norm_eps", "norm_eps"])?;
    keys.copy_f32("attention.layer_norm_epsilon", &["layer_norm_eps", "layer_norm_epsilon", "norm_epsilon"])?;
    keys.copy_u32("expert_count", &["num_local_experts", "num_experts", "n_routed_experts"])?;
    keys.copy_u32("expert_used_count", &["num_experts_per_tok", "num_experts_per_token", "top_k_experts"])?;
    keys.copy_u32("expert_group_count", &["n_group"])?;
    keys.copy_u32("expert_group_used_count", &["topk_group"])?;
    let score = [
        "score_function",
        "scoring_func",
        "score_func",
        "moe_router_activation",
        "moe_router_activation_func",
        "expert_selection_fn",
    ];
    if let Some((key, value)) = c.first(&score) {
        let gate = match value.as_str() {
            Some("softmax") => 1,
            Some("sigmoid") => 2,
            Some("sqrtsoftplus") => 4,
            _ => {
                return Err(Error::file(
                    &c.path,
                    format!("{key}: expected softmax, sigmoid or sqrtsoftplus, found {value}"),
                ))
            }
        };
        keys.u32("expert_gating_func", gate);
    }
    keys.copy_u32("attention.key_length", &["head_dim"])?;
    keys.copy_u32("attention.value_length", &["head_dim"])?;
    keys.meta.set("general.file_type", MetaValue::U32(file_type));
    Ok(())
}
