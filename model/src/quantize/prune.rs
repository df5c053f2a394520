//! Metadata of a model without some of its layers: what has an entry for each layer loses theirs, and counts of layers go down.

use super::set;
use pumex_gguf::{Gguf, Result, Value};
use std::collections::BTreeSet;

/// Arrays that may be as long as there are layers, and have no entry for each.
const NOT_BY_LAYER: [&str; 3] = ["rope.dimension_sections", "target_layers", "classifier.output_labels"];
/// Counts of layers from the first one on.
const FIRST: [&str; 2] = ["leading_dense_block_count", "hash_layer_count"];
/// The count of the last layers that take keys and values of others.
const SHARING: &str = "attention.shared_kv_layers";
/// The count of layers behind all others, which predict further ids.
const PREDICTING: &str = "nextn_predict_layers";

/// Takes the layers out of the metadata.
///
/// # Errors
/// A file without a count of layers, or with one of another type.
pub(super) fn metadata(gguf: &Gguf, pruned: &BTreeSet<usize>, meta: &mut Vec<(String, Value)>) -> Result<()> {
    let arch = gguf.meta().arch()?;
    let full = |key: &str| format!("{arch}.{key}");
    let number = |key: &str| gguf.meta().opt_u32(&full(key)).ok().flatten().map(|n| n as usize);
    let all = gguf.meta().u32(&full("block_count"))? as usize;
    let predicting = number(PREDICTING).unwrap_or(0);
    let main = all.saturating_sub(predicting);
    let gone = |from: usize, to: usize| pruned.iter().filter(|layer| (from..to).contains(*layer)).count();
    let mut lower = |key: &str, count: Option<usize>, gone: usize| {
        if let Some(count) = count.filter(|_| gone > 0) {
            set(meta, &full(key), Value::U32(u32::try_from(count.saturating_sub(gone)).unwrap_or(u32::MAX)));
        }
    };
    lower("block_count", Some(all), pruned.len());
    lower(PREDICTING, Some(predicting), gone(main, all));
    for key in FIRST {
        let count = number(key);
        lower(key, count, gone(0, count.unwrap_or(0)));
    }
    let sharing = number(SHARING);
    lower(SHARING, sharing, gone(main.saturating_sub(sharing.unwrap_or(0)), main));
    let by_layer = |key: &str| {
        let other = ["tokenizer.", "general."].iter().any(|of| key.starts_with(of));
        !other && !NOT_BY_LAYER.iter().any(|other| key.ends_with(other))
    };
    for (_, value) in meta.iter_mut().filter(|(key, _)| by_layer(key)) {
        if let Value::Array { element, raw } = value {
            let size = usize::try_from(element.size()).unwrap_or(usize::MAX).max(1);
            if [all, main].contains(&(raw.len() / size)) {
                let kept = raw.chunks_exact(size).enumerate().filter(|(layer, _)| !pruned.contains(layer));
                *raw = kept.flat_map(|(_, entry)| entry.to_vec()).collect();
            }
        }
    }
    Ok(())
}
