//! Phi 3 and 4: fused matrices, two sets of factors of rotations.

use super::parameters::{full, FamilyKeys};
use super::plain::{fill, fill_heads, ENDS, NORMS, PLAIN};
use super::rows::{must, Any, Ff, TensorRow, Width, Q};
use super::table::Family;
use super::Model;
use crate::config::Config;
use crate::content::{Content, Weights};
use crate::folder::ModelFolder;
use crate::json;
use crate::metadata::{Meta, MetaValue};
use crate::{Error, Result};
use serde_json::{json, Value as Json};

const FUSED: &[TensorRow] = &[
    must("model.layers.{}.self_attn.qkv_proj", "blk.{}.attn_qkv", &[Any, Width]),
    must("model.layers.{}.self_attn.o_proj", "blk.{}.attn_output", &[Width, Q]),
    must("model.layers.{}.mlp.gate_up_proj", "blk.{}.ffn_up", &[Any, Width]),
    must("model.layers.{}.mlp.down_proj", "blk.{}.ffn_down", &[Width, Ff]),
];

fn original(model: &Model) -> Result<u32> {
    let rope = model.config.rope();
    let found = rope.get("original_max_position_embeddings").and_then(Json::as_u64).and_then(|n| u32::try_from(n).ok());
    let what = "original_max_position_embeddings: expected a number, found none";
    found.filter(|n| *n > 1).ok_or_else(|| Error::file(&model.config.path, what))
}

/// Elements of a head that are rotated.
fn rotary_dims(model: &Model) -> Result<u32> {
    let part = model.config.rope().get("partial_rotary_factor").and_then(Json::as_f64).unwrap_or(1.0);
    let (width, heads) = (model.config.u32(&["hidden_size"])?, model.config.u32(&["num_attention_heads"])?);
    let what = "num_attention_heads: expected some, found 0";
    ((part * f64::from(width)) as u32).checked_div(heads).ok_or_else(|| Error::file(&model.config.path, what))
}

/// Factors of rotations for texts up to the first length and past it.
fn factors(model: &Model, _: &ModelFolder, meta: &mut Meta) -> Result<Vec<(String, Content)>> {
    let rope = model.config.rope();
    let wrong = |what: String| Error::file(&model.config.path, format!("rope_scaling.{what}"));
    let list = |key: &str| rope.get(key).and_then(Json::as_array).filter(|l| !l.is_empty());
    let Some(long) = list("long_factor") else { return Ok(Vec::new()) };
    let Some(short) = list("short_factor") else {
        return Err(wrong("short_factor: expected numbers, found none".into()));
    };
    let (first, scale) = (
        f64::from(original(model)?),
        f64::from(model.config.u32(&["max_position_embeddings"])?) / f64::from(original(model)?),
    );
    let factor = match rope.get("rope_type").and_then(Json::as_str).map(str::to_lowercase).as_deref() {
        Some("su" | "longrope") => (1.0 + scale.ln() / first.ln()).sqrt(),
        Some("yarn") => 0.1 * scale.ln() + 1.0,
        other => return Err(wrong(format!("type: expected longrope or yarn, found {}", other.unwrap_or("none")))),
    };
    FamilyKeys::new(model, meta).f32("rope.scaling.attn_factor", if scale > 1.0 { factor } else { 1.0 });
    let half = rotary_dims(model)? as usize;
    let mut out = Vec::new();
    for (key, list, name) in
        [("long_factor", long, "rope_factors_long.weight"), ("short_factor", short, "rope_factors_short.weight")]
    {
        let numbers: Option<Vec<f32>> = list.iter().map(|v| v.as_f64().map(|n| n as f32)).collect();
        let numbers = numbers.filter(|n| n.len() * 2 == half);
        let numbers =
            numbers.ok_or_else(|| wrong(format!("{key}: expected {} numbers, found {}", half / 2, list.len())))?;
        out.push((name.to_string(), Content::Weights(Weights::values(numbers))));
    }
    Ok(out)
}

fn parameters(model: &Model, file_type: u32, meta: &mut Meta) -> Result<()> {
    let (c, first, rotated) = (&model.config, original(model)?, rotary_dims(model)?);
    let theta = full(&c.rope()).get("rope_theta").and_then(Json::as_f64);
    let theta = theta.ok_or_else(|| Error::file(&c.path, "rope_theta: expected a number, found none"))?;
    let mut keys = FamilyKeys::new(model, meta);
    keys.u32("context_length", c.u32(&["n_positions", "max_position_embeddings"])?);
    keys.u32("rope.scaling.original_context_length", first);
    keys.u32("embedding_length", c.u32(&["hidden_size", "n_embd"])?);
    keys.u32("feed_forward_length", c.u32(&["intermediate_size"])?);
    keys.u32("block_count", model.layers as u32);
    keys.u32("attention.head_count", c.u32(&["num_attention_heads", "n_head"])?);
    keys.u32("attention.head_count_kv", c.u32(&["num_key_value_heads", "n_head_kv"])?);
    keys.f32("attention.layer_norm_rms_epsilon", c.f64("rms_norm_eps")?);
    keys.u32("rope.dimension_count", rotated);
    keys.f32("rope.freq_base", theta);
    meta.set("general.file_type", MetaValue::U32(file_type));
    // 0 where there is none: so Phi 4 is told apart.
    let window = c.opt_u32(&["sliding_window"])?.unwrap_or(0);
    meta.set(model.key("attention.sliding_window"), MetaValue::U32(window));
    Ok(())
}

fn vocabulary(model: &Model, meta: &mut Meta) -> Result<()> {
    let settings = json::object(&model.dir.join("tokenizer_config.json"))?.unwrap_or_default();
    if settings.get("tokenizer_class").and_then(Json::as_str) == Some("GPT2Tokenizer") {
        return model.source().bpe(meta);
    }
    model.source().spm_of_phi(meta)
}

fn defaults(config: &mut Config) {
    fill(config, 4096, 10000.0, 1e-5, false);
    fill_heads(config);
    config.default("original_max_position_embeddings", json!(4096));
    config.default("partial_rotary_factor", json!(1.0));
    if let Some(Json::Object(mut rope)) = config.get("rope_scaling").cloned() {
        if matches!(rope.get("type").and_then(Json::as_str), Some("su" | "yarn")) {
            rope.insert("type".into(), json!("longrope"));
            config.set("rope_scaling", Json::Object(rope));
        }
    }
}

/// Phi 3 and 4.
pub const PHI3: Family = Family {
    title: "Phi 3, 4",
    classes: &["Phi3ForCausalLM"],
    arch: "phi3",
    model_types: &["phi3"],
    defaults,
    rows: &[ENDS, FUSED, NORMS],
    extra: factors,
    parameters,
    vocabulary,
    ..PLAIN
};
