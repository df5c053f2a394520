//! Families of models: which tensors are called what, how they lie, and which hyper-parameters a file has. One file for each kind.

mod bert;
mod deepseek2;
mod gemma;
mod gpt_oss;
mod granite;
mod lfm2;
mod llama;
mod olmo2;
mod parameters;
mod phi3;
mod plain;
mod qwen;
mod rows;
mod table;

pub use table::{families, Family};

use crate::config::Config;
use crate::content::{Content, Weights};
use crate::conversion::{Conversion, ConversionOptions, Tensor};
use crate::folder::ModelFolder;
use crate::general::{self, Count};
use crate::metadata::{Meta, MetaValue};
use crate::types::{FileType, TensorType};
use crate::vocab::VocabularySource;
use crate::{json, Error, Result};
use rows::ModelSizes;
use safetensors::tensor::Dtype;
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A model of a folder.
#[derive(Debug)]
pub struct Model {
    /// The folder.
    pub dir: PathBuf,
    /// Its hyper-parameters.
    pub config: Config,
    /// The class of its code.
    pub class: String,
    /// Layers.
    pub layers: usize,
    /// Its family.
    pub family: &'static Family,
    /// `tokenizer.ggml.pre`, where it is given.
    pub pre: Option<String>,
    /// The codes of experts are MXFP4 already.
    pub mxfp4: bool,
}

/// The class that a configuration names.
fn class(path: &Path, config: &json::Object) -> Result<String> {
    let first = |o: &json::Object| Some(o.get("architectures")?.get(0)?.as_str()?.to_string());
    let text = config.get("text_config").and_then(Json::as_object).and_then(first);
    text.or_else(|| first(config))
        .ok_or_else(|| Error::file(path, "architectures: expected a class of models, found none"))
}

impl Model {
    /// Reads a folder's configuration.
    ///
    /// # Errors
    /// A file that is missing or not what it should be, a class that is not known, weights that are quantized in a way that is not known.
    pub fn read(dir: &Path, options: &ConversionOptions) -> Result<Model> {
        let path = dir.join("config.json");
        let values =
            json::object(&path)?.ok_or_else(|| Error::file(&path, "expected a model's configuration, found none"))?;
        let class = class(&path, &values)?;
        let family = table::find(&class).ok_or_else(|| {
            let known: Vec<&str> = families().iter().flat_map(|f| f.classes).copied().collect();
            Error::file(&path, format!("architectures: {class} is not known; known are {}", known.join(", ")))
        })?;
        let mut config = Config::new(&path, values);
        let method = config
            .get("quantization_config")
            .map(|q| q.get("quant_method").and_then(Json::as_str).unwrap_or("?").to_string());
        let mxfp4 = method.as_deref() == Some("mxfp4") && family.takes_mxfp4;
        if let Some(method) = method.filter(|_| !mxfp4) {
            let what = format!("quantization_config: expected weights that are not quantized, found {method}");
            return Err(Error::file(&path, what));
        }
        if config.text("model_type").is_some_and(|t| family.model_types.contains(&t)) {
            (family.defaults)(&mut config);
        }
        (family.adjust)(&mut config)?;
        let layers = config.layers()?;
        Ok(Model { dir: dir.to_path_buf(), config, class, layers, family, pre: options.pre.clone(), mxfp4 })
    }

    /// Where vocabularies are read.
    pub fn source(&self) -> VocabularySource<'_> {
        VocabularySource { dir: &self.dir, config: &self.config, pre: self.pre.as_deref() }
    }

    /// An own key.
    pub fn key(&self, key: &str) -> String {
        format!("{}.{key}", self.family.arch)
    }

    fn wrong(&self, what: impl Into<String>) -> Error {
        Error::file(&self.config.path, what)
    }
}

/// Names that hold no weights of a text model, and the prefixes and parts of such of other media.
fn is_text(name: &str) -> bool {
    const BEGIN: [&str; 10] = [
        "mlp",
        "vit.",
        "vpm.",
        "siglip2.",
        "conformer.",
        "merger.",
        "resampler.",
        "sound_encoder.",
        "sound_projection.",
        "speech_embeddings.",
    ];
    const PART: [&str; 18] = [
        "visual.",
        "vision.",
        "audio.",
        "talker.",
        "vision_",
        "audio_",
        "token2wav.",
        "code2wav.",
        "projector.",
        "pre_mm_projector_norm",
        "image_newline",
        "view_seperator",
        "patch_embed",
        "patch_embedding",
        "patch_merger.",
        "patch_merge_mlp.",
        "model.connector.",
        "\0",
    ];
    !BEGIN.iter().any(|b| name.starts_with(b)) && !PART.iter().any(|p| name.contains(p))
}

/// What every family's tensors pass: those of other media go, and some parts of names.
pub fn usual_name(name: &str) -> Option<String> {
    let name = name.replace("e_score_correction_bias", "e_score_correction.bias");
    is_text(&name).then(|| name.replace("language_model.", ""))
}

/// Tensors that have no place in a file.
fn is_needless(name: &str) -> bool {
    [".attention.masked_bias", ".attention.bias", ".rotary_emb.inv_freq"].iter().any(|end| name.ends_with(end))
}

/// The first number in a name.
pub fn layer_of(name: &str) -> Option<usize> {
    name.split('.').find(|p| !p.is_empty() && p.bytes().all(|b| b.is_ascii_digit()))?.parse().ok()
}

/// A tensor on its way: the name that its family's table knows, and its data.
pub type NamedContents = Vec<(String, Content)>;

/// What a stored tensor becomes: names that its family's table knows, and weights; else what is wrong with it.
pub type NamedWeights = std::result::Result<Vec<(String, Weights)>, String>;

/// Experts that are not complete yet: of each layer, by name.
type Waiting = BTreeMap<usize, BTreeMap<String, Weights>>;

/// Puts a layer's experts together, once all are there.
fn experts(model: &Model, name: &str, weights: Weights, waiting: &mut Waiting) -> Result<NamedContents> {
    let numbered =
        |part: &str| name.split_once(part).is_some_and(|(_, rest)| rest.starts_with(|c: char| c.is_ascii_digit()));
    let Some(rule) = model.family.experts.filter(|rule| numbered(rule.part)) else {
        return Ok(vec![(name.to_string(), Content::Weights(weights))]);
    };
    let count = model.config.u32(&["num_local_experts", "num_experts", "n_routed_experts"])? as usize;
    let layer = layer_of(name)
        .filter(|l| *l < model.layers)
        .ok_or_else(|| model.wrong(format!("tensor {name}: expected an expert of a layer")))?;
    let found = waiting.entry(layer).or_default();
    found.insert(name.to_string(), weights);
    if found.len() < count * 3 {
        return Ok(Vec::new());
    }
    let mut all = waiting.remove(&layer).unwrap_or_default();
    let mut moved = Vec::new();
    for part in rule.parts {
        let mut parts = Vec::new();
        for expert in 0..count {
            let name = (rule.name)(layer, expert, part);
            let what = || model.wrong(format!("tensor {name}: expected one of {count} experts, found none"));
            parts.push(all.remove(&name).ok_or_else(what)?);
        }
        let stacked = Weights::stack(parts).map_err(|what| model.wrong(format!("tensor {name}: {what}")))?;
        moved.push(((rule.stacked)(layer, part), Content::Weights(stacked)));
    }
    match all.keys().next() {
        Some(name) => Err(model.wrong(format!("tensor {name}: expected {count} experts, found one more"))),
        None => Ok(moved),
    }
}

/// All tensors of a folder by their GGUF names, in order, with the first stored tensor that each is made of.
fn tensors(model: &Model, folder: &ModelFolder, meta: &mut Meta) -> Result<Vec<(String, Content)>> {
    let mut out = (model.family.extra)(model, folder, meta)?;
    let mut waiting = Waiting::new();
    for (at, stored) in folder.tensors().iter().enumerate() {
        let Some(name) = (model.family.name)(&stored.name).filter(|n| !is_needless(n)) else { continue };
        let wrong = |what: String| Error::file(folder.path(at), format!("tensor {}: {what}", stored.name));
        if (model.family.is_left)(model, &name) {
            continue;
        }
        folder.readable(at)?;
        for (name, weights) in (model.family.modify)(model, &name, Weights::from_folder(folder, at)).map_err(wrong)? {
            for (name, content) in experts(model, &name, weights, &mut waiting)? {
                let mapped = rows::gguf(model, &name)
                    .ok_or_else(|| wrong(format!("expected one of {}'s, found {name}", model.family.arch)))?;
                out.push((mapped, content));
            }
        }
    }
    if let Some((layer, found)) = waiting.iter().next() {
        let name = found.keys().next().map_or("", String::as_str);
        let what = format!(
            "layer {layer}: expected three matrices of every expert, found {} in all, the first {name}",
            found.len()
        );
        return Err(Error::file(&model.dir, what));
    }
    let mut seen = BTreeSet::new();
    if let Some((name, _)) = out.iter().find(|(name, _)| !seen.insert(name.clone())) {
        return Err(Error::file(&model.dir, format!("tensor {name}: expected it once, found it twice")));
    }
    Ok(out)
}

/// The GGUF name of a model's tensor.
pub fn gguf_name(model: &Model, name: &str) -> Option<String> {
    rows::gguf(model, name)
}

/// Checks one tensor's shape.
///
/// # Errors
/// As text: another shape than the family's table has.
pub fn check_shape(model: &Model, gguf: &str, shape: &[usize]) -> std::result::Result<(), String> {
    let sizes = ModelSizes::of(model).map_err(|e| e.to_string())?;
    rows::check_one(model, &sizes, gguf, shape)
}

/// The type of a tensor in a file of that type.
pub fn kind(name: &str, shape: &[usize], of: FileType) -> TensorType {
    const FLOATS: [&str; 5] = [
        "ffn_gate_inp.weight",
        "ffn_gate_inp_shexp.weight",
        "position_embd.weight",
        "token_types.weight",
        "shortconv.conv.weight",
    ];
    let end = [".weight", ".lora_a", ".lora_b"].iter().any(|end| name.ends_with(end));
    let last = name.strip_prefix("blk.").and_then(|n| n.split_once('.')).map_or(name, |(_, rest)| rest);
    if shape.len() <= 1 || name.ends_with("_norm.weight") || !end || FLOATS.contains(&last) {
        return TensorType::F32;
    }
    let kind = of.kind();
    let row = shape.last().copied().unwrap_or(1);
    if kind.row_bytes(row).is_some() {
        kind
    } else {
        TensorType::F16
    }
}

/// What F16 or BF16 a folder's first matrix has.
pub fn guess(model: &Model, folder: &ModelFolder) -> FileType {
    let matrices = folder.tensors().iter().filter(|t| t.shape.len() >= 2 && (model.family.name)(&t.name).is_some());
    let first = matrices.map(|t| t.dtype).find(|d| matches!(d, Dtype::BF16 | Dtype::F16));
    if first == Some(Dtype::BF16) {
        FileType::Bf16
    } else {
        FileType::F16
    }
}

/// Reads a model's folder.
///
/// # Errors
/// Everything that is wrong with it.
pub fn read(dir: &Path, options: &ConversionOptions) -> Result<Conversion> {
    let model = Model::read(dir, options)?;
    let folder = ModelFolder::open(dir, "model")?;
    let file_type = match options.file_type {
        None | Some(FileType::Auto) => guess(&model, &folder),
        Some(known) => known,
    };
    let mut meta = Meta::default();
    meta.set("general.architecture", model.family.arch);
    let found = tensors(&model, &folder, &mut meta)?;
    let shape = |content: &Content| match content {
        Content::Weights(weights) => weights.shape.clone(),
        Content::Blocks(blocks) => blocks.shape.clone(),
    };
    let shapes: Vec<(&str, Vec<usize>)> = found.iter().map(|(name, content)| (name.as_str(), shape(content))).collect();
    rows::check(&model, &ModelSizes::of(&model)?, &shapes)?;
    let count: Count = general::count(shapes.iter().map(|(name, shape)| (*name, shape.as_slice())));
    meta.set("general.type", "model");
    general::set(&mut meta, dir, count)?;
    let mixed = model.mxfp4 && !matches!(file_type, FileType::Q8_0);
    let id = if mixed { MXFP4_MOE } else { file_type.id() };
    (model.family.parameters)(&model, id, &mut meta)?;
    meta.set("general.quantization_version", MetaValue::U32(2));
    (model.family.vocabulary)(&model, &mut meta)?;
    let kinds: Vec<TensorType> = shapes.iter().map(|(name, shape)| kind(name, shape, file_type)).collect();
    let tensors = found.into_iter().zip(kinds).map(|((name, content), kind)| Tensor { name, content, kind }).collect();
    Ok(Conversion { meta, tensors, folder, class: model.class })
}

/// `general.file_type` of files whose experts are MXFP4.
const MXFP4_MOE: u32 = 38;
