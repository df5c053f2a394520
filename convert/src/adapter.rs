//! Adapters (LoRA) of PEFT: two matrices of low rank for each tensor of a base model, whose configuration says what they are called.

use crate::arch::{self, Model};
use crate::content::{Content, Weights};
use crate::conversion::{Conversion, ConversionOptions, Tensor};
use crate::folder::ModelFolder;
use crate::metadata::{Meta, MetaValue};
use crate::types::FileType;
use crate::{general, json, Error, Result};
use std::path::Path;

/// What a stored tensor is of a base model's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AdapterTensor {
    A,
    B,
    /// A norm in place of the base's.
    Norm,
}

/// What a tensor's name says; none for a part that is left out.
fn part(name: &str) -> Option<(AdapterTensor, String)> {
    let base = name.replace("base_model.model.", "");
    let of = |ends: [&str; 2]| ends.iter().find(|end| base.contains(**end)).map(|end| base.replace(end, ".weight"));
    if let Some(base) = of([".lora_A.weight", ".lora_embedding_A"]) {
        return Some((AdapterTensor::A, base));
    }
    if let Some(base) = of([".lora_B.weight", ".lora_embedding_B"]) {
        return Some((AdapterTensor::B, base));
    }
    (name.contains("_layernorm") || name.contains(".norm")).then_some((AdapterTensor::Norm, base))
}

/// Reads an adapter's folder.
///
/// # Errors
/// Everything that is wrong with it, and a base model whose folder is not named.
pub fn read(dir: &Path, options: &ConversionOptions) -> Result<Conversion> {
    let path = dir.join("adapter_config.json");
    let settings = json::object(&path)?.unwrap_or_default();
    let wrong = |what: String| Error::file(&path, what);
    let base = options.base.as_deref().ok_or_else(|| {
        let base =
            settings.get("base_model_name_or_path").and_then(|v| v.as_str()).unwrap_or("a model that is not named");
        wrong(format!("expected the folder of its base model, which is {base}, found none; --base DIR names it"))
    })?;
    let alpha = settings
        .get("lora_alpha")
        .and_then(|v| v.as_f64())
        .ok_or_else(|| wrong("lora_alpha: expected a number, found none".into()))?;
    for key in ["alora_invocation_tokens", "invocation_string"] {
        if settings.get(key).is_some_and(|v| !v.is_null()) {
            return Err(wrong(format!("{key}: expected none, found one; adapters that are invoked are not known")));
        }
    }
    let model = Model::read(base, options)?;
    let folder = ModelFolder::open(dir, "adapter_model")?;
    let file_type = match options.file_type {
        None => FileType::F32,
        Some(FileType::Auto) => arch::guess(&model, &folder),
        Some(known) => known,
    };
    let mut meta = Meta::default();
    meta.set("general.architecture", model.family.arch);
    let found = tensors(&model, &folder)?;
    let shapes: Vec<(&str, Vec<usize>)> =
        found.iter().map(|(name, weights)| (name.as_str(), weights.shape.clone())).collect();
    let count = general::count(shapes.iter().map(|(name, shape)| (*name, shape.as_slice())));
    meta.set("general.type", "adapter");
    meta.set("adapter.type", "lora");
    general::set(&mut meta, dir, count)?;
    meta.set("adapter.lora.alpha", MetaValue::F32(alpha as f32));
    meta.set("general.quantization_version", MetaValue::U32(2));
    let kinds: Vec<_> = shapes.iter().map(|(name, shape)| arch::kind(name, shape, file_type)).collect();
    let tensors = found
        .into_iter()
        .zip(kinds)
        .map(|((name, w), kind)| Tensor { name, content: Content::Weights(w), kind })
        .collect();
    Ok(Conversion { meta, tensors, folder, class: model.class })
}

/// An adapter's tensors by their GGUF names, pair by pair; norms stand first.
fn tensors(model: &Model, folder: &ModelFolder) -> Result<Vec<(String, Weights)>> {
    let mut pairs: Vec<(String, Option<usize>, Option<usize>)> = Vec::new();
    let mut out = Vec::new();
    for (at, stored) in folder.tensors().iter().enumerate() {
        let wrong = |what: String| Error::file(folder.path(at), format!("tensor {}: {what}", stored.name));
        if stored.name.contains(".base_layer.weight") {
            continue;
        }
        folder.readable(at)?;
        let (part, base) = part(&stored.name).ok_or_else(|| wrong("expected lora_A, lora_B or a norm".into()))?;
        let Some(name) = (model.family.name)(&base) else { continue };
        if part == AdapterTensor::Norm {
            let moved = one(model, &name, Weights::from_folder(folder, at)).map_err(wrong)?;
            out.push(moved);
            continue;
        }
        let pair = match pairs.iter().position(|(n, ..)| *n == name) {
            Some(pair) => pair,
            None => {
                pairs.push((name, None, None));
                pairs.len() - 1
            }
        };
        let side = if part == AdapterTensor::A { &mut pairs[pair].1 } else { &mut pairs[pair].2 };
        *side = Some(at);
    }
    for (name, a, b) in pairs {
        let (Some(a), Some(b)) = (a, b) else {
            let (there, missing) = if a.is_some() { ("lora_A", "lora_B") } else { ("lora_B", "lora_A") };
            let path = folder.path(a.or(b).unwrap_or(0));
            return Err(Error::file(path, format!("tensor {name}: expected {missing} beside {there}, found none")));
        };
        let wrong = |what: String| Error::file(folder.path(b), format!("tensor {name}: {what}"));
        let (first, second) = (Weights::from_folder(folder, a), Weights::from_folder(folder, b));
        let ranks = (first.shape.len() == 2 && second.shape.len() == 2).then(|| (first.shape[0], second.shape[1]));
        if ranks.is_none_or(|(a, b)| a != b || a == 0) {
            return Err(wrong(format!(
                "expected lora_A of rank rows and lora_B of rank columns, found {:?} and {:?}",
                first.shape, second.shape
            )));
        }
        let product = [second.shape[0], first.shape[1]];
        let (gguf, second) = one(model, &name, second).map_err(wrong)?;
        arch::check_shape(model, &gguf, &product).map_err(wrong)?;
        let first = if gguf.contains("token_embd.weight") { first.transpose().map_err(wrong)? } else { first };
        out.push((format!("{gguf}.lora_a"), first));
        out.push((format!("{gguf}.lora_b"), second));
    }
    if out.is_empty() {
        return Err(Error::file(&model.dir, "expected an adapter's tensors, found none"));
    }
    Ok(out)
}

/// The one tensor that a stored one becomes.
fn one(model: &Model, name: &str, weights: Weights) -> std::result::Result<(String, Weights), String> {
    let mut moved = (model.family.modify)(model, name, weights)?;
    let (1, Some((name, weights))) = (moved.len(), moved.pop()) else {
        return Err(
            "expected a tensor that stays one, found one that comes apart, of which adapters are not known".into()
        );
    };
    let gguf = arch::gguf_name(model, &name)
        .ok_or_else(|| format!("expected one of {}'s, found {name}", model.family.arch))?;
    Ok((gguf, weights))
}
