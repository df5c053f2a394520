//! `general.*`: what a model is called, its size, who made it and from what, by its card, its configuration and its folder's name.

use crate::json::{self, Object};
use crate::metadata::{Meta, MetaValue};
use crate::model_card::Card;
use crate::name_parts::{parts, title, NameParts};
use crate::Result;
use std::path::Path;

/// The number of weights, as size labels count them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// All of them; negative for adapters.
    pub total: i64,
    /// Parameters that every token uses.
    pub shared: u64,
    /// Parameters of one expert of each matrix.
    pub expert: u64,
    /// Experts.
    pub experts: u64,
}

/// Counts the weights of tensors, by name and shape.
pub fn count<'a>(tensors: impl Iterator<Item = (&'a str, &'a [usize])>) -> Count {
    let mut count = Count::default();
    let (mut sum, mut stacks) = (0u64, 0u64);
    let mut first: Option<(&str, &[usize])> = None;
    let product = |shape: &[usize]| shape.iter().fold(1u64, |n, d| n.saturating_mul(*d as u64));
    for (name, shape) in tensors {
        if name.ends_with(".lora_a") {
            first = Some((name, shape));
            continue;
        }
        let size = match (name.strip_suffix(".lora_b"), first) {
            (Some(stem), Some((a, a_shape))) if a.strip_suffix(".lora_a") == Some(stem) => {
                product(&shape[..shape.len().saturating_sub(1)])
                    .saturating_mul(a_shape.last().copied().unwrap_or(1) as u64)
            }
            (Some(_), _) => return Count::default(),
            (None, _) => product(shape),
        };
        let from_end = if name.contains(".bias") { 2 } else { 3 };
        if name.contains("_exps.") && shape.len() >= 3 {
            let experts = shape[shape.len() - from_end].max(1) as u64;
            count.expert += size / experts;
            sum += experts;
            stacks += 1;
        } else {
            count.shared += size;
        }
        count.total = count.total.saturating_add(size as i64);
    }
    count.experts = sum.checked_div(stacks).unwrap_or(0);
    if first.is_some() {
        count.total = -count.total;
    }
    count
}

fn round_count(n: u64) -> String {
    let n = n as f64;
    let (scale, unit) = match n {
        n if n > 1e12 => (1e-12, "T"),
        n if n > 1e9 => (1e-9, "B"),
        n if n > 1e6 => (1e-6, "M"),
        _ => (1e-3, "K"),
    };
    let scaled = n * scale;
    let digits = format!("{scaled:.0}").trim_start_matches('0').len();
    format!("{scaled:.*}{unit}", 2usize.saturating_sub(digits))
}

/// What a count is called, such as 7.2B or 8x3.1B.
fn size_label(count: Count) -> String {
    match count.experts {
        0 => round_count(count.total.unsigned_abs()),
        n => format!("{n}x{}", round_count(count.shared + count.expert)),
    }
}

/// A parent's or a data set's keys.
fn source(meta: &mut Meta, prefix: &str, id: &str, total: i64) {
    let mut name = None;
    let link = ["http://", "https://", "ssh://"].iter().any(|p| id.starts_with(p));
    let hub = |url: &str| {
        let rest = url.strip_prefix("https://").or(url.strip_prefix("http://"))?;
        let rest = rest.strip_prefix("huggingface.co/")?;
        (rest.split('/').count() == 2 && !rest.split('/').any(str::is_empty)).then(|| rest.to_string())
    };
    let known = if link { hub(id) } else { Some(id.to_string()) };
    let found = known.map(|id| parts(&id, total)).unwrap_or_default();
    let mut set = |key: &str, value: Option<String>| {
        if let Some(value) = value {
            meta.set(format!("{prefix}.{key}"), value);
        }
    };
    let NameParts { full, organization, version, .. } = found;
    set("name", full.as_deref().map(title).inspect(|n| name = Some(n.clone())));
    set("version", version);
    set("organization", organization.as_deref().map(title));
    let of_hub = organization.zip(full).map(|(o, f)| format!("https://huggingface.co/{o}/{f}"));
    set("repo_url", if link { Some(id.to_string()) } else { of_hub });
}

/// Whether a number of a configuration counts as one; true and false do, as in Python.
fn number(value: &serde_json::Value) -> Option<f64> {
    value.as_f64().or(value.as_bool().map(|b| f64::from(u8::from(b))))
}

/// Recommended settings of the sampler.
fn sampling(meta: &mut Meta, settings: &Object) {
    const KEYS: [(&str, &str, bool); 10] = [
        ("top_k", "top_k", true),
        ("top_p", "top_p", false),
        ("min_p", "min_p", false),
        ("xtc_probability", "xtc_probability", false),
        ("xtc_threshold", "xtc_threshold", false),
        ("temp", "temperature", false),
        ("penalty_last_n", "penalty_last_n", true),
        ("penalty_repeat", "penalty_repeat", false),
        ("mirostat", "mirostat", true),
        ("mirostat_tau", "mirostat_tau", false),
    ];
    if let Some(text) = settings.get("sequence").and_then(|v| v.as_str()) {
        meta.set("general.sampling.sequence", text);
    }
    for (key, of, whole) in KEYS.iter().chain(&[("mirostat_eta", "mirostat_eta", false)]) {
        let other = if *of == "penalty_repeat" { settings.get("repetition_penalty") } else { None };
        let Some(value) = settings.get(*of).or(other).and_then(number) else { continue };
        let value = if *whole { MetaValue::I32(value as i32) } else { MetaValue::F32(value as f32) };
        meta.set(format!("general.sampling.{key}"), value);
    }
}

/// Sets `general.*` of a folder. `kind` comes first: the type, and what belongs to it.
///
/// # Errors
/// Files of the folder that are not what they should be.
pub fn set(meta: &mut Meta, dir: &Path, count: Count) -> Result<()> {
    let card = Card::read(dir)?;
    let config = json::object(&dir.join("config.json"))?.unwrap_or_default();
    let settings =
        json::text(&dir.join("generation_config.json"))?.and_then(|t| serde_json::from_str::<Object>(&t).ok());
    let id = config.get("_name_or_path").and_then(|v| v.as_str()).filter(|id| id.matches('/').count() <= 1);
    let folder = dir.file_name().map(|n| n.to_string_lossy().into_owned());
    let folder = folder
        .or_else(|| Some(dir.canonicalize().ok()?.file_name()?.to_string_lossy().into_owned()))
        .unwrap_or_default();
    let by_id = id.map(|id| parts(id, count.total)).unwrap_or_default();
    let by_folder = parts(&folder, count.total);
    let card_text = |keys: &[&str]| keys.iter().find_map(|k| card.text(k));
    let part = |keys: &[&str], of: fn(&NameParts) -> Option<String>| {
        card_text(keys).or_else(|| of(&by_id)).or_else(|| of(&by_folder))
    };

    let name = part(&["name", "model_name"], |p| p.full.as_deref().map(title)).unwrap_or(folder.clone());
    let organization = part(&["organization", "model_organization"], |p| p.organization.as_deref().map(title));
    let basename = part(&["basename", "model_basename", "model_type"], |p| p.basename.clone());
    let finetune = part(&["finetune", "model_finetune"], |p| p.finetune.clone());
    let version = part(&["version", "model_version"], |p| p.version.clone());
    let label = part(&["size_label", "model_size_label"], |p| p.size_label.clone());
    let label = label.or_else(|| (count.total > 0).then(|| size_label(count)));

    sampling(meta, &settings.unwrap_or_default());
    let mut text = |key: &'static str, value: Option<String>| value.into_iter().for_each(|v| meta.set(key, v));
    text("general.name", Some(name));
    text("general.author", card_text(&["author", "model_author", "model_creator"]));
    text("general.version", version);
    text("general.organization", organization);
    text("general.finetune", finetune);
    text("general.basename", basename);
    text("general.description", card_text(&["description", "model_description"]));
    text("general.size_label", label);
    text("general.license", card.list("license").map(|l| l.join(",")));
    text("general.license.name", card.text("license_name"));
    text("general.license.link", card.text("license_link"));
    text("general.source.url", card_text(&["url", "model_url"]));
    text("general.source.doi", card_text(&["doi", "model_doi"]));
    text("general.source.uuid", card_text(&["uuid", "model_uuid"]));
    text("general.source.repo_url", card_text(&["repo_url", "model_repo_url"]));
    let sources: [(&[&str], &str); 2] = [
        (&["base_model", "base_models", "base_model_sources"], "general.base_model"),
        (&["datasets", "dataset", "dataset_sources"], "general.dataset"),
    ];
    for (keys, prefix) in sources {
        let Some(key) = keys.iter().find(|k| card.has(k)) else { continue };
        let ids = card.list(key).unwrap_or_default();
        meta.set(format!("{prefix}.count"), MetaValue::U32(ids.len() as u32));
        ids.iter().enumerate().for_each(|(i, id)| source(meta, &format!("{prefix}.{i}"), id, count.total));
    }
    let lists = |keys: [&str; 2]| keys.iter().filter_map(|k| card.list(k)).flatten().collect::<Vec<_>>();
    meta.set("general.tags", MetaValue::Strs(lists(["tags", "pipeline_tag"])));
    meta.set("general.languages", MetaValue::Strs(lists(["languages", "language"])));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_two_digits_at_least() {
        let label = |total: i64| size_label(Count { total, ..Count::default() });
        assert_eq!([999, 1_500, 85_000_000, 7_240_000_000].map(label), ["1.0K", "1.5K", "85M", "7.2B"]);
        let mixture = Count { total: 9, shared: 2_000_000_000, expert: 1_000_000_000, experts: 8 };
        assert_eq!(size_label(mixture), "8x3.0B");
    }
}
