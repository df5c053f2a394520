//! What the cache has, and taking it out again.

use crate::cache::Cache;
use crate::name::{self, Host, Name, Repo};
use crate::{source, Error, HubSettings, Result, ASIDE};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// A model in the cache.
#[derive(Clone, Debug)]
pub struct CachedModel {
    /// What it is fetched by: `user/repo:quant`, likewise behind `modelscope:`, `ollama:model:tag`, or the path of a file of a URL.
    pub name: String,
    /// Its file in the repository; of a set the first one.
    pub file: String,
    /// Where it is.
    pub path: PathBuf,
    /// Bytes of all its parts.
    pub bytes: u64,
    /// When it was fetched.
    pub modified: Option<SystemTime>,
}

/// What was taken out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemovedFiles {
    /// Files, parts of sets each.
    pub files: usize,
    /// Bytes that are free now.
    pub bytes: u64,
}

/// Repositories in a host's part of the cache.
fn repositories(settings: &HubSettings, host: Host) -> Vec<Name> {
    let folders = std::fs::read_dir(settings.root(host)).into_iter().flatten().flatten();
    let mut ids: Vec<String> = folders
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter_map(|name| Some(name.strip_prefix("models--")?.replacen("--", "/", 1)))
        .collect();
    ids.sort();
    ids.iter().filter_map(|id| Some(Name { host, repo: Repo::parse(id).ok()? })).collect()
}

/// Names in a folder.
pub fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// Revisions of a repository with their commits, and commits that no revision names.
fn snapshots(cache: &Cache) -> Vec<(Option<String>, String)> {
    let revisions: BTreeMap<String, String> = names(&cache.folder().join("refs"))
        .into_iter()
        .filter_map(|name| Some((cache.get_ref(&name)?, name)))
        .collect();
    let commits = names(&cache.folder().join("snapshots")).into_iter().filter(|name| name::is_hex(name, 40));
    commits.map(|commit| (revisions.get(&commit).cloned(), commit)).collect()
}

/// All models that the cache has, by name.
pub fn list_cached_models(settings: &HubSettings) -> Vec<CachedModel> {
    let mut found: BTreeMap<(String, String), CachedModel> = BTreeMap::new();
    for of in Host::ALL.into_iter().flat_map(|host| repositories(settings, host)) {
        let cache = Cache::new(settings, &of);
        let mut snapshots = snapshots(&cache);
        // The one that is named comes last, and is told of.
        snapshots.sort();
        for (revision, commit) in snapshots {
            let entries = cache.entries(&commit);
            for entry in entries.iter().filter(|entry| name::is_model(&entry.path)) {
                let quant = match (of.host, &revision) {
                    (Host::Ollama, Some(tag)) => Some(tag.as_str()),
                    // A tag's older contents have no name.
                    (Host::Ollama, None) => None,
                    _ => name::quant_of(&entry.path),
                };
                let quant = quant.map(|quant| format!(":{quant}")).unwrap_or_default();
                let path = cache.pointer(&commit, &entry.path);
                let parts = name::parts(&entry.path);
                let of_set = entries.iter().filter(|e| parts.contains(&e.path));
                let one = CachedModel {
                    name: format!("{}{quant}", of.repository()),
                    file: entry.path.clone(),
                    bytes: of_set.map(|e| e.size).sum(),
                    modified: std::fs::metadata(&path).and_then(|meta| meta.modified()).ok(),
                    path,
                };
                found.insert((one.name.clone(), one.file.clone()), one);
            }
        }
    }
    found.extend(of_urls(settings).into_iter().map(|one| ((one.name.clone(), one.file.clone()), one)));
    found.into_values().collect()
}

fn of_urls(settings: &HubSettings) -> Vec<CachedModel> {
    let root = settings.cache.join("pumex-urls");
    let files = names(&root).into_iter().flat_map(|folder| {
        let folder = root.join(folder);
        names(&folder).into_iter().filter(|name| name::is_model(name)).map(move |name| folder.join(name))
    });
    let one = |path: PathBuf| {
        let meta = std::fs::metadata(&path).ok()?;
        let file = path.file_name()?.to_str()?.to_string();
        let parts = name::parts(&file);
        let size = |part: &String| std::fs::metadata(path.with_file_name(part)).map_or(0, |meta| meta.len());
        let bytes = parts.iter().map(size).sum();
        Some(CachedModel { name: path.display().to_string(), file, path, bytes, modified: meta.modified().ok() })
    };
    files.filter_map(one).collect()
}

/// Takes a model out of the cache: that of a quant or tag, or, where the name says none, all models of the repository. A file of
/// a URL is named by its path. Other files of the repository stay, as other tools may use them.
///
/// # Errors
/// A name that is none, or that the cache does not have; files that cannot be removed.
pub fn remove(settings: &HubSettings, text: &str) -> Result<RemovedFiles> {
    if let Some(kept) = of_urls(settings).into_iter().find(|kept| kept.name == text) {
        let mut removed = RemovedFiles::default();
        for part in name::parts(&kept.file) {
            removed.take(&kept.path.with_file_name(part))?;
        }
        let _ = kept.path.parent().map(std::fs::remove_dir);
        return Ok(removed);
    }
    let of = Name::parse(text)?;
    let cache = Cache::new(settings, &of);
    let mut removed = RemovedFiles::default();
    let (mut rest, mut gone) = (0, Vec::new());
    for (revision, commit) in snapshots(&cache) {
        let entries = cache.entries(&commit);
        let whole = of.repo.quant.is_none() || (of.host == Host::Ollama && revision.as_deref() == Some(of.tag()));
        let mut paths: Vec<String> = match (whole, of.host) {
            (true, Host::Hub | Host::Scope) => {
                let models = entries.iter().filter(|e| e.path.to_ascii_lowercase().ends_with(".gguf"));
                models.map(|e| e.path.clone()).collect()
            }
            (true, Host::Ollama) => entries.iter().map(|e| e.path.clone()).collect(),
            (false, Host::Ollama) => Vec::new(),
            (false, _) => source::choose_file_parts(&of, &entries, None)
                .map_or(Vec::new(), |parts| parts.into_iter().map(|part| part.path.clone()).collect()),
        };
        // Parts of a set whose download was stopped go as well.
        paths.retain(|path| entries.iter().any(|entry| entry.path == *path));
        rest += entries.len() - paths.len();
        for path in paths {
            let pointer = cache.pointer(&commit, &path);
            gone.extend(std::fs::read_link(&pointer).ok().and_then(|to| Some(cache.blob(to.file_name()?.to_str()?))));
            removed.files += usize::from(!path.ends_with(ASIDE));
            // Where there are no links, the file itself stands there.
            let bytes = std::fs::symlink_metadata(&pointer).map_or(0, |m| if m.is_file() { m.len() } else { 0 });
            std::fs::remove_file(&pointer).map_err(|e| Error::io(&pointer, e))?;
            removed.bytes += bytes;
        }
    }
    if removed.files == 0 {
        let what = format!("expected a model in {}, found none", cache.folder().display());
        return Err(Error::Name(format!("{text}: {what}")));
    }
    let used = links(&cache);
    gone.sort();
    gone.dedup();
    for blob in gone.iter().filter(|blob| !used.contains(blob)) {
        removed.bytes += std::fs::metadata(blob).map_or(0, |meta| meta.len());
        std::fs::remove_file(blob).map_err(|e| Error::io(blob, e))?;
    }
    if rest == 0 {
        // Nothing of it is left but names.
        std::fs::remove_dir_all(cache.folder()).map_err(|e| Error::io(cache.folder(), e))?;
    }
    Ok(removed)
}

impl RemovedFiles {
    /// Removes a file, if it is there.
    pub fn take(&mut self, path: &Path) -> Result<()> {
        let Ok(meta) = std::fs::metadata(path) else { return Ok(()) };
        std::fs::remove_file(path).map_err(|e| Error::io(path, e))?;
        (self.files, self.bytes) = (self.files + 1, self.bytes + meta.len());
        Ok(())
    }
}

/// Blobs that names lead to.
fn links(cache: &Cache) -> Vec<PathBuf> {
    let commits = snapshots(cache);
    let pointers = commits.iter().flat_map(|(_, commit)| {
        let paths = cache.entries(commit).into_iter();
        paths.map(|entry| cache.pointer(commit, &entry.path)).collect::<Vec<_>>()
    });
    pointers.filter_map(|p| Some(cache.blob(std::fs::read_link(p).ok()?.file_name()?.to_str()?))).collect()
}
