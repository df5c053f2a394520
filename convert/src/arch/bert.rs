//! BERT and Nomic BERT: encoders.

use super::parameters::{usual, FamilyKeys};
use super::plain::PLAIN;
use super::qwen::pooling;
use super::rows::{free, may, must, Any, Ff, TensorRow, Vocab, Width};
use super::table::Family;
use super::{usual_name, Model};
use crate::config::Config;
use crate::content::Weights;
use crate::metadata::{Meta, MetaValue};
use crate::{Error, Result};
use serde_json::{json, Value as Json};

const ENDS: &[TensorRow] = &[
    must("embeddings.word_embeddings", "token_embd", &[Vocab, Width]),
    must("embeddings.position_embeddings", "position_embd", &[Any, Width]),
    free("classifier.out_proj", "cls.output", &[Any, Width]),
    free("classifier.out_proj.bias", "cls.output.bias", &[Any]),
];

const NORM: &[TensorRow] = &[
    must("embeddings.LayerNorm", "token_embd_norm", &[Width]),
    must("embeddings.LayerNorm.bias", "token_embd_norm.bias", &[Width]),
];

const TYPES: &[TensorRow] = &[must("embeddings.token_type_embeddings", "token_types", &[Any, Width])];

const LAYERS: &[TensorRow] = &[
    must("encoder.layer.{}.attention.self.query", "blk.{}.attn_q", &[Width, Width]),
    must("encoder.layer.{}.attention.self.query.bias", "blk.{}.attn_q.bias", &[Width]),
    must("encoder.layer.{}.attention.self.key", "blk.{}.attn_k", &[Width, Width]),
    must("encoder.layer.{}.attention.self.key.bias", "blk.{}.attn_k.bias", &[Width]),
    must("encoder.layer.{}.attention.self.value", "blk.{}.attn_v", &[Width, Width]),
    must("encoder.layer.{}.attention.self.value.bias", "blk.{}.attn_v.bias", &[Width]),
    must("encoder.layer.{}.attention.output.dense", "blk.{}.attn_output", &[Width, Width]),
    must("encoder.layer.{}.attention.output.dense.bias", "blk.{}.attn_output.bias", &[Width]),
    must("encoder.layer.{}.attention.output.LayerNorm", "blk.{}.attn_output_norm", &[Width]),
    must("encoder.layer.{}.attention.output.LayerNorm.bias", "blk.{}.attn_output_norm.bias", &[Width]),
    must("encoder.layer.{}.intermediate.dense", "blk.{}.ffn_up", &[Ff, Width]),
    must("encoder.layer.{}.intermediate.dense.bias", "blk.{}.ffn_up.bias", &[Ff]),
    must("encoder.layer.{}.output.dense", "blk.{}.ffn_down", &[Width, Ff]),
    must("encoder.layer.{}.output.dense.bias", "blk.{}.ffn_down.bias", &[Width]),
    must("encoder.layer.{}.output.LayerNorm", "blk.{}.layer_output_norm", &[Width]),
    must("encoder.layer.{}.output.LayerNorm.bias", "blk.{}.layer_output_norm.bias", &[Width]),
];

const NOMIC: &[TensorRow] = &[
    must("embeddings.word_embeddings", "token_embd", &[Vocab, Width]),
    may("embeddings.token_type_embeddings", "token_types", &[Any, Width]),
    must("emb_ln", "token_embd_norm", &[Width]),
    must("emb_ln.bias", "token_embd_norm.bias", &[Width]),
    must("encoder.layers.{}.attn.Wqkv", "blk.{}.attn_qkv", &[Any, Width]),
    must("encoder.layers.{}.attn.out_proj", "blk.{}.attn_output", &[Width, Width]),
    must("encoder.layers.{}.norm1", "blk.{}.attn_output_norm", &[Width]),
    must("encoder.layers.{}.norm1.bias", "blk.{}.attn_output_norm.bias", &[Width]),
    must("encoder.layers.{}.mlp.fc11", "blk.{}.ffn_up", &[Ff, Width]),
    must("encoder.layers.{}.mlp.fc12", "blk.{}.ffn_gate", &[Ff, Width]),
    must("encoder.layers.{}.mlp.fc2", "blk.{}.ffn_down", &[Width, Ff]),
    must("encoder.layers.{}.norm2", "blk.{}.layer_output_norm", &[Width]),
    must("encoder.layers.{}.norm2.bias", "blk.{}.layer_output_norm.bias", &[Width]),
];

fn name(name: &str) -> Option<String> {
    let name = name.strip_prefix("bert.").unwrap_or(name);
    let name = match (name.strip_suffix(".gamma"), name.strip_suffix(".beta")) {
        (Some(stem), _) => format!("{stem}.weight"),
        (_, Some(stem)) => format!("{stem}.bias"),
        _ => name.to_string(),
    };
    let needless = matches!(name.as_str(), "embeddings.position_ids" | "pooler.dense.weight" | "pooler.dense.bias");
    if needless || ["cls.predictions", "cls.seq_relationship"].iter().any(|begin| name.starts_with(begin)) {
        return None;
    }
    usual_name(&name)
}

/// What a classifier's outputs mean, by their numbers; none where nothing is said.
fn labels(config: &Config) -> Vec<(i64, String)> {
    let of = config.get("id2label").and_then(Json::as_object);
    let mut labels: Vec<(i64, String)> = of
        .into_iter()
        .flatten()
        .filter_map(|(id, text)| Some((id.parse().ok()?, text.as_str()?.to_string())))
        .collect();
    labels.sort();
    if labels.len() == 2 && labels[0] == (0, "LABEL_0".to_string()) {
        labels.clear();
    }
    labels
}

fn modify(model: &Model, name: &str, weights: Weights) -> std::result::Result<Vec<(String, Weights)>, String> {
    let name = match name {
        "classifier.weight" if !labels(&model.config).is_empty() => "classifier.out_proj.weight",
        "classifier.bias" if !labels(&model.config).is_empty() => "classifier.out_proj.bias",
        other => other,
    };
    Ok(vec![(name.to_string(), weights)])
}

fn parameters(model: &Model, file_type: u32, meta: &mut Meta) -> Result<()> {
    usual(model, file_type, meta)?;
    let mut keys = FamilyKeys::new(model, meta);
    keys.set("attention.causal", MetaValue::Bool(false));
    pooling(model, meta)?;
    let labels: Vec<String> = labels(&model.config).into_iter().map(|(_, text)| text).collect();
    meta.set(model.key("classifier.output_labels"), MetaValue::Strs(labels));
    Ok(())
}

/// What its code does is one thing, whatever its configuration could say.
fn nomic(config: &mut Config) -> Result<()> {
    let wrong = |what: String| Err(Error::file(&config.path, what));
    let expected = [
        ("activation_function", json!("swiglu")),
        ("causal", json!(false)),
        ("qkv_proj_bias", json!(false)),
        ("mlp_fc1_bias", json!(false)),
        ("mlp_fc2_bias", json!(false)),
        ("prenorm", json!(false)),
        ("rotary_emb_fraction", json!(1.0)),
        ("rotary_emb_interleaved", json!(false)),
    ];
    if config.opt_u32(&["moe_every_n_layers"])?.unwrap_or(0) > 0 {
        return wrong("moe_every_n_layers: expected none, found some; experts of Nomic BERT are not known".into());
    }
    for (key, value) in expected {
        let found = config.get(key).cloned().unwrap_or(Json::Null);
        if found != value && found.as_f64().is_none_or(|n| Some(n) != value.as_f64()) {
            return wrong(format!("{key}: expected {value}, found {found}"));
        }
    }
    // What models were trained for is less than what their configurations say.
    let trained = config.opt_u32(&["max_trained_positions"])?.unwrap_or(2048);
    let positions = match (config.u32(&["n_positions"])?, trained) {
        (8192, 2048) => 2048,
        (2048, 2048) => 512,
        (found, _) => {
            return wrong(format!("n_positions: expected 8192 or 2048, of 2048 trained, found {found} of {trained}"))
        }
    };
    config.set("n_positions", json!(positions));
    Ok(())
}

/// BERT.
pub const BERT: Family = Family {
    title: "BERT",
    classes: &["BertModel", "BertForMaskedLM", "BertForSequenceClassification"],
    arch: "bert",
    model_types: &["bert"],
    defaults: |config| {
        config.default("max_position_embeddings", json!(512));
        config.default("layer_norm_eps", json!(1e-12));
        config.default("type_vocab_size", json!(2));
    },
    rows: &[ENDS, NORM, TYPES, LAYERS],
    name,
    modify,
    parameters,
    vocabulary: |model, meta| model.source().word_piece(meta),
    ..PLAIN
};

/// Nomic BERT.
pub const NOMIC_BERT: Family = Family {
    title: "Nomic BERT",
    classes: &["NomicBertModel"],
    arch: "nomic-bert",
    model_types: &["nomic_bert"],
    defaults: |_| {},
    adjust: nomic,
    rows: &[NOMIC],
    ..BERT
};
