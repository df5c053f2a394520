//! Ollama's registry: a model is a manifest of layers, of which one is a GGUF file, and small ones say how it is used.

use crate::cache::Cache;
use crate::http::{self, Ask};
use crate::name::{self, Name, RepositoryFile};
use crate::source::{self, Listing};
use crate::{Error, HubSettings, Result, Watch};
use serde_json::{json, Map, Value};
use sha2::{Digest, Sha256};
use std::path::Path;

/// What a file's name ends in that says how the model of the name before is used: a JSON object of `parameters`, `system`, `template`
/// and `license`, with Ollama's words.
pub const ASIDE: &str = ".ollama.json";

/// Most bytes of a layer that is a text.
const MOST_TEXT: u64 = 1 << 20;

/// Sorts of layers.
const KIND: &str = "application/vnd.ollama.image.";

/// The form of a manifest.
const MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";

/// A layer of a manifest.
struct ManifestLayer {
    kind: String,
    sha256: String,
    size: u64,
}

fn layer(json: &Value) -> Option<ManifestLayer> {
    let kind = json["mediaType"].as_str()?.strip_prefix(KIND)?.to_string();
    let sha256 = json["digest"].as_str()?.strip_prefix("sha256:").filter(|sha| name::is_hex(sha, 64))?;
    Some(ManifestLayer { kind, sha256: sha256.to_ascii_lowercase(), size: json["size"].as_u64()? })
}

/// Names of texts in [`ASIDE`], by their layers'.
const TEXTS: &[(&str, &str)] =
    &[("params", "parameters"), ("system", "system"), ("template", "template"), ("license", "license")];

/// The files of a tag: the model and its projector under names of their own, and layers that are texts under their kinds.
pub fn list_tag_files(settings: &HubSettings, of: &Name, watch: &Watch<'_>) -> Result<Listing> {
    let at = format!("{}/v2/{}", settings.ollama, of.repo.id);
    let url = format!("{at}/manifests/{}", of.tag());
    let ask = Ask { url: url.clone(), accept: Some(MANIFEST), ..Ask::default() };
    let (text, json) = source::json(settings, ask, watch)?;
    let bad = |what: String| Error::Answer { url: url.clone(), what };
    let layers = json["layers"].as_array().ok_or_else(|| bad("expected a list in layers".into()))?;
    let layers: Vec<ManifestLayer> = layers.iter().filter_map(layer).collect();
    let kinds = || layers.iter().map(|layer| layer.kind.as_str()).collect::<Vec<_>>().join(", ");
    if layers.iter().filter(|layer| layer.kind == "model").count() != 1 {
        return Err(bad(format!("expected one layer that is a GGUF model, found {}", kinds())));
    }
    if layers.iter().any(|layer| layer.kind == "adapter") {
        return Err(bad("expected a model without an adapter, found one with it".into()));
    }
    let stem = format!("{}-{}", of.repo.id.rsplit('/').next().unwrap_or_default(), of.tag());
    let entry = |layer: &ManifestLayer| {
        let path = match layer.kind.as_str() {
            "model" => format!("{stem}.gguf"),
            "projector" => format!("mmproj-{stem}.gguf"),
            other => format!("layer-{other}"),
        };
        let url = format!("{at}/blobs/sha256:{}", layer.sha256);
        RepositoryFile { path, blob: layer.sha256.clone(), sha256: Some(layer.sha256.clone()), size: layer.size, url }
    };
    let commit = source::hex(&Sha256::digest(&text)[..20]);
    Ok(Listing { commit, entries: layers.iter().map(entry).collect() })
}

/// Writes what the registry says beside a model to a file beside it.
pub fn keep_aside(
    settings: &HubSettings,
    of: &Name,
    cache: &Cache,
    listing: &Listing,
    model: &Path,
    watch: &Watch<'_>,
) -> Result<()> {
    let Some(file) = model.file_name().and_then(|name| name.to_str()) else { return Ok(()) };
    let (path, mut said) = (format!("{file}{ASIDE}"), Map::new());
    if cache.pointer(&listing.commit, &path).is_file() || file.starts_with("mmproj-") {
        return Ok(());
    }
    for (kind, key) in TEXTS {
        let layer = format!("layer-{kind}");
        let all = listing.entries.iter().filter(|entry| entry.path == layer);
        let texts = all.map(|entry| text(settings, entry, watch)).collect::<Result<Vec<String>>>()?;
        if texts.is_empty() {
            continue;
        }
        let text = texts.join("\n");
        let value = match *kind {
            "params" => serde_json::from_str(&text).unwrap_or(Value::Null),
            _ => json!(text),
        };
        said.insert(key.to_string(), value);
    }
    said.insert("from".into(), json!(format!("{}:{}", of.repository(), of.tag())));
    let said = Value::Object(said).to_string();
    let blob = source::hex(&Sha256::digest(&said));
    let place = cache.blob(&blob);
    std::fs::write(&place, said).map_err(|e| Error::io(&place, e))?;
    cache.point(&listing.commit, &path, &blob)
}

/// The text of a layer, which is what its digest says.
fn text(settings: &HubSettings, entry: &RepositoryFile, watch: &Watch<'_>) -> Result<String> {
    let bad = |what: String| Error::Answer { url: entry.url.clone(), what };
    if entry.size > MOST_TEXT {
        return Err(bad(format!("expected a text of at most {MOST_TEXT} bytes, found {}", entry.size)));
    }
    let found = http::text(settings, Ask { url: entry.url.clone(), ..Ask::default() }, watch.stop)?;
    let sha256 = source::hex(&Sha256::digest(&found));
    if sha256 != entry.blob {
        return Err(bad(format!("expected contents with SHA-256 {}, found {sha256}", entry.blob)));
    }
    String::from_utf8(found).map_err(|_| bad("expected UTF-8, found other bytes".into()))
}
