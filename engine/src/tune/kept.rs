//! What was found for a device and its models, kept for later runs.

use super::ways::Way;
use super::Found;
use crate::Options;
use pumex_gguf::{Error, Gguf, Result};
use pumex_vk as vk;
use pumex_vk::{Caps, Device, Disabled, Tuned};
use std::collections::BTreeMap;

/// Name of the file that keeps what was found.
const FILE: &str = "tuned";

/// What a device remembers.
#[derive(Default, serde::Serialize, serde::Deserialize)]
struct Memory {
    tuned: Vec<Tuned>,
    /// Models that it was tuned for.
    models: Vec<String>,
    /// Kernels of models for which others are faster than the policy's.
    #[serde(default)]
    ways: BTreeMap<String, Way>,
}

fn recalled(caps: &Caps) -> Memory {
    let known = vk::recall(caps, pumex_shaders::fingerprint(), FILE);
    known.and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default()
}

/// The device with the shapes that were found for it before.
pub fn applied(device: Device) -> Device {
    match known(device.caps()) {
        tuned if tuned.is_empty() => device,
        tuned => {
            let caps = Caps { tuned, ..device.caps().clone() };
            device.with_caps(caps)
        }
    }
}

/// Those shapes.
pub fn known(caps: &Caps) -> Vec<Tuned> {
    recalled(caps).tuned
}

/// Whether a device was tuned for a model.
pub fn knows(caps: &Caps, model: &str) -> bool {
    recalled(caps).models.iter().any(|known| known == model)
}

/// Keeps what was found for a model, in place of what was known of the same products; other processes with this device, driver and
/// version start with it.
///
/// # Errors
/// None that is known.
pub fn keep(caps: &Caps, model: &str, found: &Found) -> Result<()> {
    let (mut memory, reports) = (recalled(caps), &found.steps);
    for choice in reports.iter().flat_map(|report| &report.choices) {
        memory.tuned.retain(|tuned| tuned.product != choice.product);
    }
    for choice in reports.iter().filter(|report| report.kept).flat_map(|report| &report.choices) {
        memory.tuned.extend(choice.shape.map(|shape| Tuned { product: choice.product.clone(), shape }));
    }
    match found.ways.as_ref().map(|ways| ways.kept.clone()) {
        Some(Some(way)) => _ = memory.ways.insert(model.into(), way),
        Some(None) => _ = memory.ways.remove(model),
        None => {}
    }
    memory.models.retain(|known| known != model);
    memory.models.push(model.into());
    let text = serde_json::to_vec(&memory).map_err(|e| Error::Request(format!("JSON: {e}")))?;
    vk::remember(caps, pumex_shaders::fingerprint(), FILE, &text);
    Ok(())
}

/// Forgets what was found.
pub fn forget(caps: &Caps) {
    vk::remember(caps, pumex_shaders::fingerprint(), FILE, b"{\"tuned\":[],\"models\":[]}");
}

/// What a model is known by: its file's name, and its size.
pub fn name(gguf: &Gguf) -> String {
    let file = gguf.path().file_name().unwrap_or_default().to_string_lossy();
    let bytes: u64 = gguf.tensors().iter().map(|tensor| tensor.len_bytes).sum();
    format!("{file}, {bytes} bytes")
}

/// The device and options that make a model go the way that was found for it before.
pub(crate) fn gone(gguf: &Gguf, device: Device, options: &Options) -> (Device, Options) {
    let Some(way) = recalled(device.caps()).ways.remove(&name(gguf)) else { return (device, options.clone()) };
    let options = way.of(options);
    let mut caps = device.caps().clone();
    let why = || "another one is faster here".to_string();
    let others = options.without.iter().filter(|kernel| caps.disabled_reason(kernel).is_none());
    let others: Vec<_> = others.map(|kernel| Disabled { kernel: (*kernel).into(), why: why() }).collect();
    caps.disabled.extend(others);
    (device.with_caps(caps), options)
}
