//! Granite: Llama with four multipliers.

use super::llama;
use super::parameters::FamilyKeys;
use super::plain::{fill, fill_heads};
use super::table::Family;
use super::{usual_name, Model};
use crate::metadata::Meta;
use crate::Result;
use serde_json::json;

fn name(name: &str) -> Option<String> {
    let other = name.starts_with("encoder.")
        || ["image_", "layerwise_projectors", "spatial_projectors"].iter().any(|p| name.contains(p));
    if other {
        return None;
    }
    usual_name(&name.replace("text_model.", ""))
}

fn parameters(model: &Model, file_type: u32, meta: &mut Meta) -> Result<()> {
    llama::parameters(model, file_type, meta)?;
    let mut keys = FamilyKeys::new(model, meta);
    const SCALES: [(&str, &str); 4] = [
        ("attention.scale", "attention_multiplier"),
        ("embedding_scale", "embedding_multiplier"),
        ("residual_scale", "residual_multiplier"),
        ("logit_scale", "logits_scaling"),
    ];
    for (key, from) in SCALES {
        if let Some(scale) = model.config.opt_f64(&[from])?.filter(|s| *s != 0.0) {
            keys.f32(key, scale);
        }
    }
    Ok(())
}

/// Granite 3.
pub const GRANITE: Family = Family {
    title: "Granite",
    classes: &["GraniteForCausalLM"],
    arch: "granite",
    model_types: &["granite"],
    defaults: |config| {
        fill(config, 2048, 10000.0, 1e-6, false);
        fill_heads(config);
        for key in ["embedding_multiplier", "logits_scaling", "residual_multiplier", "attention_multiplier"] {
            config.default(key, json!(1.0));
        }
    },
    adjust: |config| {
        config.remove("head_dim");
        Ok(())
    },
    name,
    parameters,
    ..llama::LLAMA
};
