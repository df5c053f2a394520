//! Files that change what a model does: LoRA adapters and control vectors.
//!
//! [`attach`] adds their tensors to an opened model, stacked as the plan's products want them; the plan then has further ops
//! ([`pumex_plan::Plan::add_adapters`]). [`Deltas`] adds them to weights instead, for a file of its own.

mod control;
mod lora;
mod stack;

pub use control::Layers;
pub use lora::{open_all, Deltas, Lora};

use crate as model;
use pumex_gguf::{Error, Gguf, Result};
use pumex_plan::{Plan, SiteKind};
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

/// The largest rank of an adapter's pair of matrices.
pub const MAX_RANK: u64 = 4096;
/// Most adapters, and most control vectors, at once.
pub const MAX_FILES: usize = 64;

/// Fails where there are more files than can be.
fn check_count(what: &str, count: usize) -> Result<()> {
    match count <= MAX_FILES {
        true => Ok(()),
        false => Err(Error::Usage(format!("{what}: expected at most {MAX_FILES} files, found {count}"))),
    }
}

/// Attaches adapters and control vectors, each times its scale, to the model they are for. Adapters of scale 0 only have their files
/// checked.
///
/// # Errors
/// Adapters for another model, or for tensors of which products of low rank do not do; control vectors of another width; a model
/// without a plan.
pub fn attach(gguf: &mut Gguf, loras: &[(Lora, f32)], vectors: &[(PathBuf, f32)], layers: Layers) -> Result<()> {
    check_count("--lora", loras.len())?;
    check_count("--control-vector", vectors.len())?;
    let plan = model::plan(gguf)?;
    let loras: Vec<(&Lora, f32)> = loras.iter().map(|(lora, scale)| (lora, *scale)).collect();
    attach_loras(gguf, &plan, &loras, ScaledBy::Matrices)?;
    control::attach(gguf, &plan, vectors, layers)
}

/// Attaches adapters that count with the scales which each sequence has for them ([`pumex_step::Runner::set_adapter_scales`]), 0 unless
/// told, and control vectors, each times its scale.
///
/// # Errors
/// As [`attach`].
pub fn attach_by_sequence(gguf: &mut Gguf, loras: &[Lora], vectors: &[(PathBuf, f32)], layers: Layers) -> Result<()> {
    check_count("--lora", loras.len())?;
    check_count("--control-vector", vectors.len())?;
    let plan = model::plan(gguf)?;
    let loras: Vec<(&Lora, f32)> = loras.iter().map(|lora| (lora, 1.0)).collect();
    attach_loras(gguf, &plan, &loras, ScaledBy::Sequences)?;
    control::attach(gguf, &plan, vectors, layers)
}

/// What has the scales of adapters.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ScaledBy {
    /// The matrices; those of scale 0 are left out.
    Matrices,
    /// Each sequence of a runner.
    Sequences,
}

fn attach_loras(gguf: &mut Gguf, plan: &Plan, loras: &[(&Lora, f32)], scaled: ScaledBy) -> Result<()> {
    loras.iter().try_for_each(|(lora, _)| lora.check(gguf))?;
    let own = |name: &&str| [".lora_a", ".lora_b"].iter().any(|end| name.ends_with(end));
    if let Some((lora, name)) = loras.iter().find_map(|(lora, _)| lora.names().find(own).map(|name| (lora, name))) {
        let what = format!("{name}: expected a matrix of the model, found one of an adapter that it has of its own");
        return Err(Error::file(lora.path(), "unsupported_adapter", what));
    }
    let loras: Vec<_> = loras.iter().filter(|(_, scale)| *scale != 0.0).copied().collect();
    if loras.is_empty() {
        return Ok(());
    }
    let (mut made, mut used) = (HashMap::new(), HashSet::new());
    for site in plan.ops.iter().flat_map(|op| op.sites()) {
        let Some(stacked) = stack::Stacked::of(gguf, plan, &site, &loras)? else { continue };
        used.extend(site.parts.iter().map(|(w, _)| plan.weights[w.0].name.as_str()));
        let names = site.names(plan);
        // Layers that are gone through again have the same products again.
        if let Some(before) = made.insert(names.clone(), site.clone()) {
            if before != site {
                let what = format!("{}: expected a tensor of one product, found it in several", names[0]);
                return Err(Error::file(gguf.path(), "unsupported_adapter", what));
            }
            continue;
        }
        let count = if let SiteKind::Each(count) = site.kind { count } else { 1 };
        let ranks = (scaled == ScaledBy::Sequences).then(|| stacked.ranks());
        for (name, (entry, bytes)) in names.into_iter().zip(stacked.tensors(count).into_iter().chain(ranks)) {
            gguf.attach(pumex_gguf::write::Entry { name, ..entry }, bytes);
        }
    }
    for (lora, _) in &loras {
        for name in lora.names().filter(|name| !used.contains(name)) {
            if plan.weights.iter().any(|w| w.name == name) {
                let what = format!(
                    "{name}: expected a tensor that rows are multiplied with, found one that is used otherwise"
                );
                return Err(Error::file(lora.path(), "unsupported_adapter", what));
            }
            tracing::warn!("{}: {name}: the model does not use this tensor, nor its adapter", lora.path().display());
        }
    }
    Ok(())
}
