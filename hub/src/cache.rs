//! Where files lie: the Hub's cache, `models--user--name/{blobs,refs,snapshots}`, as its own tools lay it out.

use crate::name::{self, Host, Name, RepositoryFile};
use crate::{Error, Result};
use sha2::{Digest, Sha256};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How things are fetched, and where they go.
#[derive(Clone, Debug)]
pub struct HubSettings {
    /// Folder of the cache.
    pub cache: PathBuf,
    /// Scheme, host and port of the Hub.
    pub endpoint: String,
    /// Scheme, host and port of ModelScope.
    pub scope: String,
    /// Scheme, host and port of Ollama's registry.
    pub ollama: String,
    /// Sent to the endpoint of the Hub, and to no other host.
    pub token: Option<String>,
    /// Uses no network.
    pub offline: bool,
    /// How long a host may say nothing.
    pub patience: Duration,
    /// Waited before the first retry, then twice as long.
    pub pause: Duration,
}

impl HubSettings {
    /// Settings as the variables of the environment say; those of llama.cpp before those of the Hub's own tools.
    ///
    /// # Errors
    /// No variable that names a folder; an endpoint that is no URL; a token that no header can hold.
    pub fn from(variable: impl Fn(&str) -> Option<OsString>) -> Result<HubSettings> {
        let set = |key: &str| variable(key).filter(|value| !value.is_empty());
        let text = |key: &str| set(key).and_then(|value| value.into_string().ok());
        let folders = [
            ("LLAMA_CACHE", ""),
            ("HF_HUB_CACHE", ""),
            ("HUGGINGFACE_HUB_CACHE", ""),
            ("HF_HOME", "hub"),
            ("XDG_CACHE_HOME", "huggingface/hub"),
            ("HOME", ".cache/huggingface/hub"),
            ("USERPROFILE", ".cache/huggingface/hub"),
        ];
        let cache = folders.iter().find_map(|(key, below)| set(key).map(|base| PathBuf::from(base).join(below)));
        let cache = cache.ok_or_else(|| Error::Name("HF_HOME: expected a folder for downloads, found none".into()))?;
        let host = |key: &str, told: Option<String>, usual: &str| {
            let url = told.unwrap_or(usual.into()).trim_end_matches('/').to_string();
            let what = || Error::Name(format!("{key}: expected http://HOST or https://HOST, found {url:?}"));
            crate::http::origin(&url).ok_or_else(what).map(|_| url.clone())
        };
        let endpoint = text("MODEL_ENDPOINT").or(text("HF_ENDPOINT"));
        let offline =
            text("HF_HUB_OFFLINE").is_some_and(|v| ["1", "on", "yes", "true"].contains(&&*v.to_ascii_lowercase()));
        let settings = HubSettings {
            cache,
            endpoint: host("HF_ENDPOINT", endpoint, "https://huggingface.co")?,
            scope: host("PUMEX_MODELSCOPE", text("PUMEX_MODELSCOPE"), "https://www.modelscope.cn")?,
            ollama: host("PUMEX_OLLAMA", text("PUMEX_OLLAMA"), "https://registry.ollama.ai")?,
            token: None,
            offline,
            patience: Duration::from_secs(30),
            pause: Duration::from_secs(1),
        };
        settings.with_token(text("HF_TOKEN"))
    }

    /// The folder that a host's repositories have in the cache.
    pub fn root(&self, host: Host) -> PathBuf {
        match host {
            Host::Hub => self.cache.clone(),
            Host::Scope => self.cache.join("pumex-modelscope"),
            Host::Ollama => self.cache.join("pumex-ollama"),
        }
    }

    /// For requests to a host: the token is the Hub's alone.
    pub(crate) fn at(&self, host: Host) -> HubSettings {
        HubSettings { token: self.token.clone().filter(|_| host == Host::Hub), ..self.clone() }
    }

    /// These settings with a token, which is the Hub's alone.
    ///
    /// # Errors
    /// One that no header can hold.
    pub fn with_token(mut self, token: Option<String>) -> Result<HubSettings> {
        let token = token.map(|token| token.trim().to_string()).filter(|token| !token.is_empty());
        if token.as_ref().is_some_and(|t| t.len() > 1024 || !t.bytes().all(|b| b.is_ascii_graphic())) {
            return Err(Error::Name("HF_TOKEN: expected letters and digits, found other characters".into()));
        }
        self.token = token.or(self.token);
        Ok(self)
    }
}

/// Where a file goes.
pub struct BlobPaths {
    /// Where it is when it is whole.
    pub blob: PathBuf,
    /// Locked meanwhile.
    pub lock: PathBuf,
    /// Whether the place's name says what the contents are, so that a partial file there is of the same.
    pub by_content: bool,
}

/// A repository's part of the cache.
pub struct Cache {
    root: PathBuf,
    folder: PathBuf,
    name: String,
}

impl Cache {
    pub fn new(settings: &HubSettings, of: &Name) -> Cache {
        let (root, name) = (settings.root(of.host), of.repo.folder());
        Cache { folder: root.join(&name), root, name }
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn blob(&self, blob: &str) -> PathBuf {
        self.folder.join("blobs").join(blob)
    }

    /// Where the Hub's own tools have it, so that they and we wait for each other.
    pub fn lock(&self, blob: &str) -> PathBuf {
        self.root.join(".locks").join(&self.name).join(format!("{blob}.lock"))
    }

    pub fn pointer(&self, commit: &str, path: &str) -> PathBuf {
        self.folder.join("snapshots").join(commit).join(path)
    }

    /// Whether a file is there, as long as it is to be.
    pub fn has(&self, pointer: &Path, entry: &RepositoryFile) -> bool {
        std::fs::metadata(pointer).is_ok_and(|meta| meta.is_file() && meta.len() == entry.size)
    }

    /// Gives a blob its name in the snapshot of a commit.
    pub fn point(&self, commit: &str, path: &str, blob: &str) -> Result<()> {
        let pointer = self.pointer(commit, path);
        let ups = "../".repeat(path.matches('/').count() + 2);
        make_folder(&pointer)?;
        link(&PathBuf::from(format!("{ups}blobs/{blob}")), &self.blob(blob), &pointer)
            .map_err(|e| Error::io(&pointer, e))
    }

    pub fn set_ref(&self, revision: &str, commit: &str) -> Result<()> {
        let path = self.folder.join("refs").join(revision);
        if self.get_ref(revision).as_deref() == Some(commit) || revision == commit {
            return Ok(());
        }
        make_folder(&path)?;
        let beside = path.with_extension(format!("{}.part", std::process::id()));
        std::fs::write(&beside, commit).and_then(|()| std::fs::rename(&beside, &path)).map_err(|e| Error::io(&path, e))
    }

    /// Commit of a revision, which may be one.
    pub fn get_ref(&self, revision: &str) -> Option<String> {
        if name::is_hex(revision, 40) {
            return Some(revision.to_string());
        }
        let text = std::fs::read_to_string(self.folder.join("refs").join(revision)).ok()?;
        Some(text.trim().to_string()).filter(|commit| name::is_hex(commit, 40))
    }

    /// Files of a commit that are there.
    pub fn entries(&self, commit: &str) -> Vec<RepositoryFile> {
        let root = self.folder.join("snapshots").join(commit);
        let mut found = Vec::new();
        let mut folders = vec![(root, String::new(), 0)];
        while let Some((folder, prefix, depth)) = folders.pop() {
            for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
                let Ok(name) = entry.file_name().into_string() else { continue };
                let path = format!("{prefix}{name}");
                match std::fs::metadata(entry.path()) {
                    Ok(meta) if meta.is_file() => {
                        found.push(RepositoryFile {
                            path,
                            blob: String::new(),
                            sha256: None,
                            size: meta.len(),
                            url: String::new(),
                        });
                    }
                    Ok(meta) if meta.is_dir() && depth < 8 => {
                        folders.push((entry.path(), format!("{path}/"), depth + 1));
                    }
                    _ => {}
                }
            }
        }
        found
    }
}

/// Makes the folder that a file is to stand in.
pub fn make_folder(file: &Path) -> Result<()> {
    let folder = file.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder).map_err(|e| Error::io(folder, e))
}

/// Links made so far, so that no two threads make one of the same name.
#[cfg(unix)]
static LINKS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

/// In one step, since others may be reading by that name. Where there are no links, the blob itself goes there.
#[cfg(unix)]
fn link(relative: &Path, blob: &Path, pointer: &Path) -> std::io::Result<()> {
    let number = LINKS.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let name = format!(".{}-{number}.link", std::process::id());
    let beside = pointer.with_file_name(name);
    match std::os::unix::fs::symlink(relative, &beside) {
        Ok(()) => std::fs::rename(&beside, pointer),
        Err(_) => std::fs::rename(blob, pointer),
    }
}

#[cfg(not(unix))]
fn link(_relative: &Path, blob: &Path, pointer: &Path) -> std::io::Result<()> {
    std::fs::rename(blob, pointer)
}

/// Folder of a file that is no repository's: parts of a set have one in common.
pub fn url_folder(settings: &HubSettings, url: &str) -> PathBuf {
    let place = url.rsplit_once('/').map_or(url, |(place, _)| place);
    let key: String = Sha256::digest(place.as_bytes()).iter().take(8).map(|b| format!("{b:02x}")).collect();
    settings.cache.join("pumex-urls").join(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(variables: &[(&str, &str)]) -> Result<HubSettings> {
        let found = |key: &str| variables.iter().find(|(k, _)| *k == key).map(|(_, v)| OsString::from(v));
        HubSettings::from(found)
    }

    #[test]
    fn the_first_variable_that_is_set_names_the_cache() {
        let all = [
            ("LLAMA_CACHE", "/a", "/a"),
            ("HF_HUB_CACHE", "/b", "/b"),
            ("HUGGINGFACE_HUB_CACHE", "/c", "/c"),
            ("HF_HOME", "/d", "/d/hub"),
            ("XDG_CACHE_HOME", "/e", "/e/huggingface/hub"),
            ("HOME", "/f", "/f/.cache/huggingface/hub"),
        ];
        for first in 0..all.len() {
            let mut set: Vec<(&str, &str)> = all[first..].iter().map(|(k, v, _)| (*k, *v)).collect();
            set.extend(all[..first].iter().map(|(k, _, _)| (*k, "")));
            assert_eq!(with(&set).unwrap().cache, Path::new(all[first].2));
        }
        assert!(with(&[]).is_err());
    }

    #[test]
    fn an_endpoint_and_a_token_are_what_they_say() {
        let home = ("HOME", "/h");
        let usual = with(&[home]).unwrap();
        assert_eq!(
            (usual.endpoint.as_str(), usual.token.is_none(), usual.offline),
            ("https://huggingface.co", true, false)
        );
        let own =
            with(&[home, ("HF_ENDPOINT", "http://127.0.0.1:9/"), ("HF_TOKEN", "hf_x\n"), ("HF_HUB_OFFLINE", "1")])
                .unwrap();
        assert_eq!(
            (own.endpoint.as_str(), own.token.as_deref(), own.offline),
            ("http://127.0.0.1:9", Some("hf_x"), true)
        );
        assert!(with(&[home, ("HF_ENDPOINT", "ftp://x")]).is_err());
        assert!(with(&[home, ("HF_TOKEN", "a\r\nX: y")]).is_err());
    }
}
