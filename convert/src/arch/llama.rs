//! Llama and Mistral, Mixtral, and SmolLM3: rows of queries and keys are ordered for rotations of neighbours.

use super::parameters::{full, usual, FamilyKeys};
use super::plain::{fill, fill_heads, ATTENTION, BIASES, ENDS, FEED_FORWARD, NORMS, PLAIN};
use super::rows::{may, must, ExpertFf, Experts as E, Ff, TensorRow, Width};
use super::table::{ExpertLayout, Family};
use super::{usual_name, Model};
use crate::config::Config;
use crate::content::{Content, Weights};
use crate::folder::ModelFolder;
use crate::metadata::Meta;
use crate::Result;
use serde_json::{json, Value};

/// Biases that some models have.
const MORE_BIASES: &[TensorRow] = &[
    may("model.layers.{}.mlp.gate_proj.bias", "blk.{}.ffn_gate.bias", &[Ff]),
    may("model.layers.{}.mlp.up_proj.bias", "blk.{}.ffn_up.bias", &[Ff]),
    may("model.layers.{}.mlp.down_proj.bias", "blk.{}.ffn_down.bias", &[Width]),
];

const MIXTURE: &[TensorRow] = &[
    must("model.layers.{}.block_sparse_moe.gate", "blk.{}.ffn_gate_inp", &[E, Width]),
    must("layers.{}.feed_forward.experts.w1", "blk.{}.ffn_gate_exps", &[E, ExpertFf, Width]),
    must("layers.{}.feed_forward.experts.w2", "blk.{}.ffn_down_exps", &[E, Width, ExpertFf]),
    must("layers.{}.feed_forward.experts.w3", "blk.{}.ffn_up_exps", &[E, ExpertFf, Width]),
];

fn name(name: &str) -> Option<String> {
    usual_name(&name.replace("text_model.", ""))
}

/// Orders rows of queries and keys.
pub fn modify(model: &Model, name: &str, weights: Weights) -> std::result::Result<Vec<(String, Weights)>, String> {
    let heads = |keys: &[&str]| model.config.opt_u32(keys).map_err(|e| e.to_string()).map(|n| n.map(|n| n as usize));
    let n_head = heads(&["n_heads", "num_attention_heads"])?.unwrap_or(0);
    let of = |part: &str| name.ends_with(&format!("{part}.weight")) || name.ends_with(&format!("{part}.bias"));
    let weights = if of("q_proj") {
        weights.interleave(n_head)?
    } else if of("k_proj") {
        weights.interleave(heads(&["n_kv_heads", "num_key_value_heads"])?.unwrap_or(n_head))?
    } else {
        weights
    };
    Ok(vec![(name.to_string(), weights)])
}

/// Factors of rotations as Llama 3 stretches them.
fn factors(model: &Model, _: &ModelFolder, _: &mut Meta) -> Result<Vec<(String, Content)>> {
    let rope = full(&model.config.rope());
    if !rope.get("rope_type").and_then(Value::as_str).is_some_and(|t| t.eq_ignore_ascii_case("llama3")) {
        return Ok(Vec::new());
    }
    let number = |key: &str, or: f64| rope.get(key).and_then(Value::as_f64).unwrap_or(or);
    let (base, factor) = (number("rope_theta", 10000.0), number("factor", 8.0));
    let (low, high) = (number("low_freq_factor", 1.0), number("high_freq_factor", 4.0));
    let old = number("original_max_position_embeddings", 8192.0);
    let dim = model.config.head_dim()?;
    let factor_of = |i: u32| {
        let power = (base as f32).powf(i as f32 / dim as f32);
        let wave = (2.0 * std::f64::consts::PI) as f32 / (1.0 / power);
        if f64::from(wave) < old / high {
            return 1.0;
        }
        if f64::from(wave) > old / low {
            return factor as f32;
        }
        let smooth = (old as f32 / wave - low as f32) / (high - low) as f32;
        1.0 / ((1.0 - smooth) / factor as f32 + smooth)
    };
    let factors = (0..dim).step_by(2).map(factor_of).collect();
    Ok(vec![("rope_freqs.weight".to_string(), Content::Weights(Weights::values(factors)))])
}

/// What most families write, and the width of rotations.
pub fn parameters(model: &Model, file_type: u32, meta: &mut Meta) -> Result<()> {
    usual(model, file_type, meta)?;
    let mut keys = FamilyKeys::new(model, meta);
    keys.u32("vocab_size", model.config.u32(&["vocab_size"])?);
    keys.u32("rope.dimension_count", model.config.head_dim()?);
    Ok(())
}

fn defaults(config: &mut Config) {
    let (context, theta, eps) = match config.text("model_type") {
        Some("mistral") => (131072, 10000.0, 1e-6),
        Some("mixtral") => (131072, 1e6, 1e-5),
        _ => (2048, 10000.0, 1e-6),
    };
    fill(config, context, theta, eps, false);
    match config.text("model_type") {
        Some("llama") => {
            fill_heads(config);
            if let Ok(dim) = config.head_dim() {
                config.fill("head_dim", json!(dim));
            }
        }
        _ => config.default("num_key_value_heads", json!(8)),
    }
    if config.text("model_type") == Some("mixtral") {
        config.default("num_local_experts", json!(8));
        config.default("num_experts_per_tok", json!(2));
    }
}

/// Llama and Mistral.
pub const LLAMA: Family = Family {
    title: "Llama, Mistral",
    classes: &["LlamaForCausalLM", "LLaMAForCausalLM", "MistralForCausalLM"],
    arch: "llama",
    model_types: &["llama", "mistral"],
    defaults,
    rows: &[ENDS, ATTENTION, BIASES, NORMS, FEED_FORWARD, MORE_BIASES],
    name,
    modify,
    extra: factors,
    parameters,
    vocabulary: |model, meta| model.source().llama(meta),
    ..PLAIN
};

/// Mixtral.
pub const MIXTRAL: Family = Family {
    title: "Mixtral",
    classes: &["MixtralForCausalLM"],
    model_types: &["mixtral"],
    rows: &[ENDS, ATTENTION, NORMS, MIXTURE],
    experts: Some(ExpertLayout {
        part: "block_sparse_moe.experts.",
        parts: ["w1", "w2", "w3"],
        name: |layer, expert, part| format!("model.layers.{layer}.block_sparse_moe.experts.{expert}.{part}.weight"),
        stacked: |layer, part| format!("layers.{layer}.feed_forward.experts.{part}.weight"),
    }),
    ..LLAMA
};

/// SmolLM3.
pub const SMOLLM3: Family = Family {
    title: "SmolLM3",
    classes: &["SmolLM3ForCausalLM"],
    arch: "smollm3",
    model_types: &["smollm3"],
    defaults: |config| {
        fill(config, 32768, 2e6, 1e-6, true);
        config.default("num_key_value_heads", json!(4));
    },
    ..LLAMA
};
