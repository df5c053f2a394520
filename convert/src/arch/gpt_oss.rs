//! gpt-oss: experts in MXFP4, gate and up in alternate rows, sinks of attention.

use super::parameters::{usual, FamilyKeys};
use super::plain::{fill, ATTENTION, BIASES, ENDS, PLAIN};
use super::rows::{self, must, Any, ExpertFf, Experts as E, TensorRow, Width};
use super::table::Family;
use super::{usual_name, Model};
use crate::content::{Content, Mxfp4Blocks, Weights};
use crate::folder::ModelFolder;
use crate::metadata::Meta;
use crate::{Error, Result};
use serde_json::json;

const LAYER: &[TensorRow] = &[
    must("model.layers.{}.input_layernorm", "blk.{}.attn_norm", &[Width]),
    must("model.layers.{}.post_attention_layernorm", "blk.{}.post_attention_norm", &[Width]),
    must("model.layers.{}.self_attn.sinks", "blk.{}.attn_sinks", &[Any]),
    must("model.layers.{}.mlp.router", "blk.{}.ffn_gate_inp", &[E, Width]),
    must("model.layers.{}.mlp.router.bias", "blk.{}.ffn_gate_inp.bias", &[E]),
    must("model.layers.{}.mlp.experts.gate_proj", "blk.{}.ffn_gate_exps", &[E, ExpertFf, Width]),
    must("model.layers.{}.mlp.experts.up_proj", "blk.{}.ffn_up_exps", &[E, ExpertFf, Width]),
    must("model.layers.{}.mlp.experts.down_proj", "blk.{}.ffn_down_exps", &[E, Width, ExpertFf]),
    must("model.layers.{}.mlp.experts.gate_proj.bias", "blk.{}.ffn_gate_exps.bias", &[E, ExpertFf]),
    must("model.layers.{}.mlp.experts.up_proj.bias", "blk.{}.ffn_up_exps.bias", &[E, ExpertFf]),
    must("model.layers.{}.mlp.experts.down_proj.bias", "blk.{}.ffn_down_exps.bias", &[E, Width]),
];

fn name(name: &str) -> Option<String> {
    usual_name(&if name.contains("sinks") { format!("{name}.weight") } else { name.to_string() })
}

/// Whether a tensor is a part of experts in MXFP4, which come first.
fn is_blocks(_: &Model, name: &str) -> bool {
    name.ends_with("_blocks") || name.ends_with("_scales")
}

/// Experts in MXFP4.
fn blocks(model: &Model, folder: &ModelFolder, _: &mut Meta) -> Result<Vec<(String, Content)>> {
    let at = |name: &str| folder.tensors().iter().position(|t| t.name == name);
    let mut out = Vec::new();
    for (scales, stored) in folder.tensors().iter().enumerate() {
        let Some(base) = stored.name.strip_suffix("_scales") else { continue };
        let wrong = |what: String| Error::file(folder.path(scales), format!("tensor {}: {what}", stored.name));
        let codes = at(&format!("{base}_blocks"))
            .ok_or_else(|| wrong(format!("expected {base}_blocks beside it, found none")))?;
        let parts: &[(&str, usize, usize)] = match base.rsplit('.').next() {
            Some("down_proj") => &[("down_proj", 0, 1)],
            Some("gate_up_proj") => &[("gate_proj", 0, 2), ("up_proj", 1, 2)],
            _ => return Err(wrong("expected an expert's".into())),
        };
        let stem = base.rsplit_once('.').map_or("", |(stem, _)| stem);
        for (part, start, step) in parts {
            let named = format!("{stem}.{part}.weight");
            let mapped =
                rows::gguf(model, &named).ok_or_else(|| wrong(format!("expected one of {}'s", model.family.arch)))?;
            out.push((mapped, Content::Blocks(Mxfp4Blocks::new(folder, codes, scales, *start, *step)?)));
        }
    }
    Ok(out)
}

fn modify(_: &Model, name: &str, weights: Weights) -> std::result::Result<Vec<(String, Weights)>, String> {
    if name.ends_with("down_proj_bias") {
        return Ok(vec![(name.replace("down_proj_bias", "down_proj.bias"), weights)]);
    }
    if let Some(stem) = name.strip_suffix("gate_up_proj_bias") {
        let half = |part: &str, start| (format!("{stem}{part}.bias"), weights.clone().columns(start, 2));
        return Ok(vec![half("gate_proj", 0), half("up_proj", 1)]);
    }
    if name.ends_with("down_proj") {
        return Ok(vec![(name.replace("down_proj", "down_proj.weight"), weights.transpose()?)]);
    }
    if let Some(stem) = name.strip_suffix("gate_up_proj") {
        let weights = weights.transpose()?;
        let rows = weights.shape[weights.shape.len() - 2];
        let (gate, up) = (weights.clone().take(rows, rows / 2, 0, 2)?, weights.take(rows, rows / 2, 1, 2)?);
        return Ok(vec![(format!("{stem}gate_proj.weight"), gate), (format!("{stem}up_proj.weight"), up)]);
    }
    Ok(vec![(name.to_string(), weights)])
}

fn parameters(model: &Model, file_type: u32, meta: &mut Meta) -> Result<()> {
    usual(model, file_type, meta)?;
    let mut keys = FamilyKeys::new(model, meta);
    keys.u32("attention.sliding_window", model.config.u32(&["sliding_window"])?);
    keys.u32("expert_feed_forward_length", model.config.u32(&["intermediate_size"])?);
    Ok(())
}

/// gpt-oss.
pub const GPT_OSS: Family = Family {
    title: "gpt-oss",
    classes: &["GptOssForCausalLM"],
    arch: "gpt-oss",
    model_types: &["gpt_oss"],
    defaults: |config| {
        fill(config, 131072, 150000.0, 1e-5, false);
        config.default("num_key_value_heads", json!(8));
        config.default("head_dim", json!(64));
        config.default("sliding_window", json!(128));
        config.default("num_local_experts", json!(128));
        config.default("num_experts_per_tok", json!(4));
        let yarn = json!({
            "rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": false,
            "original_max_position_embeddings": 4096,
        });
        config.default("rope_scaling", yarn);
    },
    rows: &[ENDS, ATTENTION, BIASES, LAYER],
    name,
    is_left: is_blocks,
    modify,
    extra: blocks,
    parameters,
    takes_mxfp4: true,
    ..PLAIN
};
