//! A family's tensors as a table: the model's name, GGUF's, the shape, and whether it has to be there.

use super::Model;
use crate::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};

/// A dimension, by what it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dim {
    /// Whatever it is.
    Any,
    /// The width of a row between layers.
    Width,
    /// Tokens.
    Vocab,
    /// All query heads.
    Q,
    /// All key heads.
    K,
    /// One head.
    Head,
    /// Within the feed-forward network.
    Ff,
    /// Within an expert.
    ExpertFf,
    /// Experts.
    Experts,
}
pub use Dim::*;

/// Whether a tensor has to be there.
#[derive(Clone, Copy, Debug)]
pub enum TensorPresence {
    /// Always.
    Must,
    /// In no layer, or in all.
    May,
    /// In layers for which this holds.
    Some(fn(&Model, usize) -> bool),
    /// If the output is not the embedding.
    Untied,
    /// In some files.
    Free,
}

/// A tensor's row.
#[derive(Clone, Copy, Debug)]
pub struct TensorRow {
    /// The model's name, `{}` for the layer, without `.weight`; with `.bias` where it is one.
    pub from: &'static str,
    /// GGUF's name, likewise.
    pub to: &'static str,
    /// Dimensions, the contiguous one last.
    pub dims: &'static [Dim],
    /// Whether it has to be there.
    pub need: TensorPresence,
}

/// A tensor that has to be there.
pub const fn must(from: &'static str, to: &'static str, dims: &'static [Dim]) -> TensorRow {
    TensorRow { from, to, dims, need: TensorPresence::Must }
}

/// A tensor that is in no layer, or in all.
pub const fn may(from: &'static str, to: &'static str, dims: &'static [Dim]) -> TensorRow {
    TensorRow { from, to, dims, need: TensorPresence::May }
}

/// A tensor that is in some files.
pub const fn free(from: &'static str, to: &'static str, dims: &'static [Dim]) -> TensorRow {
    TensorRow { from, to, dims, need: TensorPresence::Free }
}

/// A tensor that layers have for which `of` holds.
pub const fn some(
    from: &'static str,
    to: &'static str,
    dims: &'static [Dim],
    of: fn(&Model, usize) -> bool,
) -> TensorRow {
    TensorRow { from, to, dims, need: TensorPresence::Some(of) }
}

/// What dimensions are in a model; none where nothing says.
#[derive(Clone, Copy, Debug)]
pub struct ModelSizes {
    width: Option<usize>,
    vocab: Option<usize>,
    q: Option<usize>,
    k: Option<usize>,
    head: Option<usize>,
    ff: Option<usize>,
    expert_ff: Option<usize>,
    experts: Option<usize>,
}

impl ModelSizes {
    /// A model's.
    ///
    /// # Errors
    /// Hyper-parameters that are no numbers.
    pub fn of(model: &Model) -> Result<ModelSizes> {
        let c = &model.config;
        let size = |keys: &[&str]| c.opt_u32(keys).map(|n| n.map(|n| n as usize));
        let heads = size(&["num_attention_heads", "n_head", "n_heads"])?;
        let width = size(&["hidden_size", "n_embd", "dim"])?;
        let head = size(&["head_dim"])?.or_else(|| width?.checked_div(heads?));
        let kv =
            c.first(&["num_key_value_heads", "n_kv_heads"]).and_then(|(_, v)| v.as_u64()).map(|n| n as usize).or(heads);
        let times = |a: Option<usize>| a?.checked_mul(head?);
        Ok(ModelSizes {
            width,
            vocab: size(&["vocab_size"])?,
            q: times(heads),
            k: times(kv),
            head,
            ff: size(&["intermediate_size", "n_inner"])?,
            expert_ff: size(&["moe_intermediate_size", "intermediate_size"])?,
            experts: size(&["num_local_experts", "num_experts", "n_routed_experts"])?,
        })
    }

    fn get(&self, dim: Dim) -> Option<usize> {
        match dim {
            Any => None,
            Width => self.width,
            Vocab => self.vocab,
            Q => self.q,
            K => self.k,
            Head => self.head,
            Ff => self.ff,
            ExpertFf => self.expert_ff,
            Experts => self.experts,
        }
    }
}

/// A name without its last part, if that says that it is one of weights, and what follows GGUF's name.
fn stem(name: &str) -> (&str, &'static str) {
    match name.strip_suffix(".weight") {
        Some(stem) => (stem, ".weight"),
        None => (name, ""),
    }
}

/// What stands for `{}` in a name, and whether the rest is the pattern's.
fn fits<'a>(pattern: &str, name: &'a str) -> Option<Option<&'a str>> {
    let Some((begin, end)) = pattern.split_once("{}") else { return (pattern == name).then_some(None) };
    let layer = name.strip_prefix(begin)?.strip_suffix(end)?;
    (!layer.is_empty() && layer.bytes().all(|b| b.is_ascii_digit())).then_some(Some(layer))
}

/// The GGUF name of a model's tensor.
pub fn gguf(model: &Model, name: &str) -> Option<String> {
    let (stem, end) = stem(name);
    for row in model.family.rows.iter().flat_map(|rows| rows.iter()) {
        let Some(layer) = fits(row.from, stem) else { continue };
        if row.from.ends_with(".bias") != end.is_empty() {
            continue;
        }
        let Some(layer) = layer else { return Some(format!("{}{end}", row.to)) };
        let layer: usize = layer.parse().ok().filter(|l| *l < model.layers)?;
        return Some(format!("{}{end}", row.to.replace("{}", &layer.to_string())));
    }
    None
}

/// Checks that all tensors are there, in their shapes.
///
/// # Errors
/// One that is missing, or of another shape.
pub fn check(model: &Model, sizes: &ModelSizes, found: &[(&str, Vec<usize>)]) -> Result<()> {
    let by_name: BTreeMap<&str, &Vec<usize>> = found.iter().map(|(name, shape)| (*name, shape)).collect();
    let wrong = |what: String| Error::file(&model.dir, what);
    for row in model.family.rows.iter().flat_map(|rows| rows.iter()) {
        let end = if row.to.ends_with(".bias") { "" } else { ".weight" };
        let layers = if row.to.contains("{}") { model.layers } else { 1 };
        let name = |text: &str, layer: usize| format!("{}{end}", text.replace("{}", &layer.to_string()));
        let missing: BTreeSet<usize> =
            (0..layers).filter(|l| !by_name.contains_key(name(row.to, *l).as_str())).collect();
        let needed = |layer: usize| match row.need {
            TensorPresence::Must => true,
            TensorPresence::May => missing.len() < layers,
            TensorPresence::Some(of) => of(model, layer),
            TensorPresence::Untied => !model.config.is("tie_word_embeddings"),
            TensorPresence::Free => false,
        };
        if let Some(layer) = missing.iter().find(|l| needed(**l)) {
            return Err(wrong(format!(
                "tensor {}: expected it, for {}, found none",
                name(row.from, *layer),
                name(row.to, *layer)
            )));
        }
        for layer in (0..layers).filter(|l| !missing.contains(l)) {
            let shape = by_name[name(row.to, layer).as_str()];
            let at = |what| wrong(format!("tensor {}, for {}: {what}", name(row.from, layer), name(row.to, layer)));
            fit(row, sizes, shape).map_err(at)?;
        }
    }
    Ok(())
}

/// Whether a shape is a row's.
fn fit(row: &TensorRow, sizes: &ModelSizes, shape: &[usize]) -> std::result::Result<(), String> {
    let expected: Vec<Option<usize>> = row.dims.iter().map(|d| sizes.get(*d)).collect();
    let fits = shape.len() == expected.len() && shape.iter().zip(&expected).all(|(n, e)| e.is_none_or(|e| e == *n));
    if fits && !shape.contains(&0) {
        return Ok(());
    }
    let expected: Vec<String> = expected.iter().map(|e| e.map_or("any".to_string(), |n| n.to_string())).collect();
    Err(format!("expected shape [{}], found {shape:?}", expected.join(", ")))
}

/// Checks one tensor's shape.
///
/// # Errors
/// As text: another one than the table has.
pub fn check_one(model: &Model, sizes: &ModelSizes, gguf: &str, shape: &[usize]) -> std::result::Result<(), String> {
    let stem = gguf.strip_suffix(".weight").unwrap_or(gguf);
    let row = model.family.rows.iter().flat_map(|rows| rows.iter()).find(|row| fits(row.to, stem).is_some());
    row.map_or(Ok(()), |row| fit(row, sizes, shape))
}
