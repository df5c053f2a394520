//! DeepSeek 2 and 3: latent attention, whose second matrix comes apart by heads, and experts beside shared ones.

use super::parameters::{usual, FamilyKeys};
use super::plain::{fill, fill_heads, ENDS, EXPERTS, NORMS, PLAIN};
use super::rows::{free, must, some, Any, ExpertFf, Experts as E, Ff, TensorRow, Width};
use super::table::Family;
use super::{layer_of, Model};
use crate::config::Config;
use crate::content::Weights;
use crate::metadata::{Meta, MetaValue};
use crate::Result;
use serde_json::json;

/// The first layers that have no experts.
fn dense(model: &Model) -> usize {
    let has_experts = model.config.get("n_routed_experts").is_some();
    let first = model.config.opt_u32(&["first_k_dense_replace"]).ok().flatten().map(|n| n as usize);
    first.unwrap_or(if has_experts { 0 } else { model.layers })
}

fn is_dense(model: &Model, layer: usize) -> bool {
    layer < dense(model)
}

fn is_sparse(model: &Model, layer: usize) -> bool {
    !is_dense(model, layer)
}

fn has_shared(model: &Model, layer: usize) -> bool {
    is_sparse(model, layer) && model.config.opt_u32(&["n_shared_experts"]).ok().flatten().unwrap_or(0) > 0
}

fn is_low(model: &Model, _: usize) -> bool {
    model.config.get("q_lora_rank").is_some()
}

fn is_full(model: &Model, _: usize) -> bool {
    !is_low(model, 0)
}

const LAYER: &[TensorRow] = &[
    some("model.layers.{}.self_attn.q_proj", "blk.{}.attn_q", &[Any, Width], is_full),
    some("model.layers.{}.self_attn.q_a_proj", "blk.{}.attn_q_a", &[Any, Width], is_low),
    some("model.layers.{}.self_attn.q_a_layernorm", "blk.{}.attn_q_a_norm", &[Any], is_low),
    some("model.layers.{}.self_attn.q_b_proj", "blk.{}.attn_q_b", &[Any, Any], is_low),
    must("model.layers.{}.self_attn.kv_a_proj_with_mqa", "blk.{}.attn_kv_a_mqa", &[Any, Width]),
    must("model.layers.{}.self_attn.kv_a_layernorm", "blk.{}.attn_kv_a_norm", &[Any]),
    must("model.layers.{}.self_attn.k_b_proj", "blk.{}.attn_k_b", &[Any, Any, Any]),
    must("model.layers.{}.self_attn.v_b_proj", "blk.{}.attn_v_b", &[Any, Any, Any]),
    must("model.layers.{}.self_attn.o_proj", "blk.{}.attn_output", &[Width, Any]),
    some("model.layers.{}.mlp.gate_proj", "blk.{}.ffn_gate", &[Ff, Width], is_dense),
    some("model.layers.{}.mlp.up_proj", "blk.{}.ffn_up", &[Ff, Width], is_dense),
    some("model.layers.{}.mlp.down_proj", "blk.{}.ffn_down", &[Width, Ff], is_dense),
    some("model.layers.{}.mlp.gate", "blk.{}.ffn_gate_inp", &[E, Width], is_sparse),
    free("model.layers.{}.mlp.gate.e_score_correction.bias", "blk.{}.exp_probs_b.bias", &[E]),
    some("model.layers.{}.mlp.experts.gate_proj", "blk.{}.ffn_gate_exps", &[E, ExpertFf, Width], is_sparse),
    some("model.layers.{}.mlp.experts.up_proj", "blk.{}.ffn_up_exps", &[E, ExpertFf, Width], is_sparse),
    some("model.layers.{}.mlp.experts.down_proj", "blk.{}.ffn_down_exps", &[E, Width, ExpertFf], is_sparse),
    some("model.layers.{}.mlp.shared_experts.gate_proj", "blk.{}.ffn_gate_shexp", &[Any, Width], has_shared),
    some("model.layers.{}.mlp.shared_experts.up_proj", "blk.{}.ffn_up_shexp", &[Any, Width], has_shared),
    some("model.layers.{}.mlp.shared_experts.down_proj", "blk.{}.ffn_down_shexp", &[Width, Any], has_shared),
];

/// Layers past the last predict further tokens, and a tied output is the embedding.
fn is_left(model: &Model, name: &str) -> bool {
    let tied = model.config.is("tie_word_embeddings") && matches!(name, "lm_head.weight" | "model.lm_head.weight");
    tied || name.starts_with("model.layers.") && layer_of(name).is_some_and(|l| l >= model.layers)
}

fn modify(model: &Model, name: &str, weights: Weights) -> std::result::Result<Vec<(String, Weights)>, String> {
    if !name.ends_with("kv_b_proj.weight") {
        return Ok(vec![(name.to_string(), weights)]);
    }
    let size = |key: &str| model.config.size(key).map_err(|e| e.to_string());
    let (heads, v, k) = (size("num_key_value_heads")?, size("v_head_dim")?, size("qk_nope_head_dim")?);
    let [rows, columns] = weights.shape[..] else {
        return Err(format!("expected a matrix, found shape {:?}", weights.shape));
    };
    let head = k.checked_add(v).filter(|n| n.checked_mul(heads) == Some(rows));
    let head =
        head.ok_or_else(|| format!("expected {heads} heads of {k} and {v} rows, found shape {:?}", weights.shape))?;
    let heads = weights.reshape(vec![heads, head, columns]);
    let keys = heads.clone().take(head, k, 0, 1)?.transpose()?;
    let values = heads.take(head, v, k, 1)?;
    Ok(vec![(name.replace("kv_b_proj", "k_b_proj"), keys), (name.replace("kv_b_proj", "v_b_proj"), values)])
}

fn parameters(model: &Model, file_type: u32, meta: &mut Meta) -> Result<()> {
    usual(model, file_type, meta)?;
    let (c, mut keys) = (&model.config, FamilyKeys::new(model, meta));
    // Latent attention is one of a single key head.
    keys.u32("attention.head_count_kv", 1);
    keys.u32("leading_dense_block_count", dense(model) as u32);
    keys.u32("vocab_size", c.u32(&["vocab_size"])?);
    keys.copy_u32("attention.q_lora_rank", &["q_lora_rank"])?;
    let low = c.opt_u32(&["kv_lora_rank"])?.unwrap_or(512);
    let (rope, nope, v) = (c.u32(&["qk_rope_head_dim"])?, c.u32(&["qk_nope_head_dim"])?, c.u32(&["v_head_dim"])?);
    keys.u32("attention.kv_lora_rank", low);
    keys.u32("attention.key_length", low.saturating_add(rope));
    keys.u32("attention.value_length", low);
    keys.u32("attention.key_length_mla", nope.saturating_add(rope));
    keys.u32("attention.value_length_mla", v);
    keys.u32("expert_feed_forward_length", c.u32(&["moe_intermediate_size", "intermediate_size"])?);
    keys.copy_u32("expert_count", &["n_routed_experts"])?;
    keys.u32("expert_shared_count", c.opt_u32(&["n_shared_experts"])?.unwrap_or(0));
    keys.copy_f32("expert_weights_scale", &["routed_scaling_factor"])?;
    if c.is("norm_topk_prob") {
        keys.set("expert_weights_norm", MetaValue::Bool(true));
    }
    keys.u32("rope.dimension_count", rope);
    if let Some(scale) = c.rope().get("mscale_all_dim").and_then(|v| v.as_f64()) {
        keys.f32("rope.scaling.yarn_log_multiplier", 0.1 * scale);
    }
    Ok(())
}

fn defaults(config: &mut Config) {
    let three = config.text("model_type") == Some("deepseek_v3");
    fill(config, if three { 4096 } else { 2048 }, 10000.0, 1e-6, false);
    fill_heads(config);
    config.default("qk_rope_head_dim", json!(64));
    if let Some(dim) = config.get("qk_rope_head_dim").cloned() {
        config.set("head_dim", dim);
    }
    config.default("kv_lora_rank", json!(512));
    config.default("q_lora_rank", json!(1536));
    config.default("qk_nope_head_dim", json!(128));
    config.default("v_head_dim", json!(128));
    config.default("first_k_dense_replace", json!(if three { 3 } else { 0 }));
    config.default("n_routed_experts", json!(if three { 256 } else { 64 }));
    config.default("n_shared_experts", json!(if three { 1 } else { 2 }));
    config.default("routed_scaling_factor", json!(if three { 2.5 } else { 1.0 }));
    config.default("norm_topk_prob", json!(three));
    config.default("moe_intermediate_size", json!(if three { 2048 } else { 1407 }));
    if three {
        config.default("n_group", json!(8));
        config.default("topk_group", json!(4));
        config.default("num_experts_per_tok", json!(8));
    }
}

/// DeepSeek 2 and 3.
pub const DEEPSEEK2: Family = Family {
    title: "DeepSeek 2, 3",
    classes: &["DeepseekV2ForCausalLM", "DeepseekV3ForCausalLM"],
    arch: "deepseek2",
    model_types: &["deepseek_v2", "deepseek_v3"],
    defaults,
    rows: &[ENDS, NORMS, LAYER],
    is_left,
    modify,
    experts: Some(EXPERTS),
    parameters,
    ..PLAIN
};
