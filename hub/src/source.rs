//! What a repository has, host by host, and its files fetched into the cache.

use crate::cache::{BlobPaths, Cache};
use crate::download::{self, RemoteFile};
use crate::http::{self, Ask};
use crate::name::{self, Host, Name, RepositoryFile};
use crate::{ollama, Error, Event, HubSettings, Result, Watch};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::path::PathBuf;

/// What a revision has.
pub struct Listing {
    /// Its name in the cache, of 40 hexadecimal digits.
    pub commit: String,
    pub entries: Vec<RepositoryFile>,
}

/// The revision of a name: of Ollama's registry its tag, else the main one.
pub fn revision(of: &Name) -> &str {
    match of.host {
        Host::Ollama => of.tag(),
        Host::Hub | Host::Scope => "main",
    }
}

/// Bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// The parts of the file that is meant, the first one first.
///
/// # Errors
/// None that is meant, and what there is.
pub fn choose_file_parts<'a>(
    of: &Name,
    entries: &'a [RepositoryFile],
    file: Option<&str>,
) -> Result<Vec<&'a RepositoryFile>> {
    if of.host == Host::Ollama && file.is_none() {
        // A tag has one model, however it is called.
        let alone = name::Repo { id: of.repo.id.clone(), quant: None };
        return name::choose_file_parts(entries, &alone, None);
    }
    name::choose_file_parts(entries, &of.repo, file)
}

/// The file that is meant, or all parts of its set; gives the path of the first one.
pub fn fetch(
    settings: &HubSettings,
    of: &Name,
    revision: &str,
    file: Option<&str>,
    watch: &mut Watch<'_>,
) -> Result<PathBuf> {
    let cache = Cache::new(settings, of);
    if settings.offline {
        return find_cached(&cache, of, revision, file);
    }
    let settings = &settings.at(of.host);
    let listing = match list_repository(settings, of, revision, watch) {
        Ok(listing) => listing,
        // Without a network, what is there will do.
        Err(Error::Network { url, what }) => {
            return match find_cached(&cache, of, revision, file) {
                Ok(path) => {
                    (watch.tell)(Event::Cached(&what));
                    Ok(path)
                }
                Err(_) => Err(Error::Network { url, what }),
            };
        }
        Err(other) => return Err(other),
    };
    let parts = choose_file_parts(of, &listing.entries, file)?;
    let total = parts.iter().map(|part| part.size).sum();
    let mut first = None;
    let mut done = 0;
    for part in parts {
        let path = cache.pointer(&listing.commit, &part.path);
        if !cache.has(&path, part) {
            let wanted = RemoteFile {
                url: part.url.clone(),
                name: &part.path,
                size: Some(part.size),
                sha256: part.sha256.as_deref(),
            };
            let place = BlobPaths { blob: cache.blob(&part.blob), lock: cache.lock(&part.blob), by_content: true };
            download::fetch(settings, &wanted, &place, (done, total), watch)?;
            cache.point(&listing.commit, &part.path, &part.blob)?;
        }
        done += part.size;
        first.get_or_insert(path);
    }
    let first = first.ok_or_else(|| Error::Name(format!("{}: expected a file, found none", of.repository())))?;
    if of.host == Host::Ollama {
        ollama::keep_aside(settings, of, &cache, &listing, &first, watch)?;
    }
    cache.set_ref(revision, &listing.commit)?;
    Ok(first)
}

/// The projector that a revision has.
pub fn projector(settings: &HubSettings, of: &Name, watch: &mut Watch<'_>) -> Result<Option<PathBuf>> {
    let (cache, revision) = (Cache::new(settings, of), revision(of));
    let known = || cache.get_ref(revision).map(|commit| cache.entries(&commit)).unwrap_or_default();
    let entries = match settings.offline {
        true => known(),
        false => match list_repository(&settings.at(of.host), of, revision, watch) {
            Ok(listing) => listing.entries,
            Err(Error::Network { .. }) => known(),
            Err(other) => return Err(other),
        },
    };
    let Some(entry) = name::projector(&entries) else { return Ok(None) };
    fetch(settings, of, revision, Some(&entry.path), watch).map(Some)
}

fn find_cached(cache: &Cache, of: &Name, revision: &str, file: Option<&str>) -> Result<PathBuf> {
    let missing = || {
        let folder = cache.folder().display();
        let name = of.repository();
        Error::Name(format!("{name}: expected its files in {folder}, as there is no network (--offline), found none"))
    };
    let commit = cache.get_ref(revision).ok_or_else(missing)?;
    let entries = cache.entries(&commit);
    let parts = choose_file_parts(of, &entries, file).map_err(|_| missing())?;
    parts.first().map(|part| cache.pointer(&commit, &part.path)).ok_or_else(missing)
}

fn list_repository(settings: &HubSettings, of: &Name, revision: &str, watch: &Watch<'_>) -> Result<Listing> {
    match of.host {
        Host::Hub => hub(settings, of, revision, watch),
        Host::Scope => scope(settings, of, watch),
        Host::Ollama => ollama::list_tag_files(settings, of, watch),
    }
}

/// An answer that is JSON.
pub fn json(settings: &HubSettings, ask: Ask, watch: &Watch<'_>) -> Result<(Vec<u8>, Value)> {
    let bad = Error::Answer { url: ask.url.clone(), what: "expected JSON, found something else".into() };
    let text = http::text(settings, ask, watch.stop)?;
    let json = serde_json::from_slice(&text).map_err(|_| bad)?;
    Ok((text, json))
}

fn hub(settings: &HubSettings, of: &Name, revision: &str, watch: &Watch<'_>) -> Result<Listing> {
    let (endpoint, id) = (&settings.endpoint, &of.repo.id);
    let url = format!("{endpoint}/api/models/{id}/revision/{}?blobs=true", name::escape_url_path(revision));
    let bad = |what: &str| Error::Answer { url: url.clone(), what: what.to_string() };
    let (_, json) = json(settings, Ask { url: url.clone(), ..Ask::default() }, watch)?;
    let commit =
        json["sha"].as_str().filter(|sha| name::is_hex(sha, 40)).ok_or_else(|| bad("expected a commit in sha"))?;
    let files = json["siblings"].as_array().ok_or_else(|| bad("expected a list in siblings"))?;
    let entry = |json: &Value| {
        // Names that lead elsewhere are no files of a model.
        let path = json["rfilename"].as_str().filter(|path| name::check_path(path).is_ok())?;
        let sha256 = json["lfs"]["sha256"].as_str().filter(|sha| name::is_hex(sha, 64)).map(str::to_ascii_lowercase);
        let git = json["blobId"].as_str().filter(|sha| name::is_hex(sha, 40)).map(str::to_ascii_lowercase);
        let size = json["lfs"]["size"].as_u64().or(json["size"].as_u64())?;
        let url = format!("{endpoint}/{id}/resolve/{commit}/{}", name::escape_url_path(path));
        Some(RepositoryFile { path: path.to_string(), blob: sha256.clone().or(git)?, sha256, size, url })
    };
    Ok(Listing { commit: commit.to_string(), entries: files.iter().filter_map(entry).collect() })
}

/// ModelScope tells no commit of a list: the list itself is one.
fn scope(settings: &HubSettings, of: &Name, watch: &Watch<'_>) -> Result<Listing> {
    let at = format!("{}/api/v1/models/{}/repo", settings.scope, of.repo.id);
    let url = format!("{at}/files?Revision=master&Recursive=true");
    let (_, json) = json(settings, Ask { url: url.clone(), ..Ask::default() }, watch)?;
    let files = json["Data"]["Files"].as_array().ok_or_else(|| {
        let said = json["Message"].as_str().unwrap_or("something else");
        Error::Answer { url: url.clone(), what: format!("expected a list in Data.Files, found {said:.200}") }
    })?;
    let entry = |json: &Value| {
        let path = json["Path"].as_str().filter(|path| name::check_path(path).is_ok())?;
        let sha256 = json["Sha256"].as_str().filter(|sha| name::is_hex(sha, 64))?.to_ascii_lowercase();
        let url = format!("{at}?Revision=master&FilePath={}", name::escape_url_path(path));
        let size = json["Size"].as_u64().filter(|_| json["Type"] != "tree")?;
        Some(RepositoryFile { path: path.to_string(), blob: sha256.clone(), sha256: Some(sha256), size, url })
    };
    let entries: Vec<RepositoryFile> = files.iter().filter_map(entry).collect();
    let mut all = Sha256::new();
    entries.iter().for_each(|entry| all.update(format!("{}\0{}\n", entry.path, entry.blob)));
    Ok(Listing { commit: hex(&all.finalize()[..20]), entries })
}
