//! Models fetched from the Hugging Face Hub, or from any URL, into the cache that other tools share.
//!
//! [`fetch`] lists a repository, chooses a file, and fetches it with all parts of its set. Knows names, HTTP and files; no
//! model and no environment: [`Settings::from`] is told what the variables are.

mod cache;
mod download;
mod http;
pub mod name;

pub use cache::Settings;

use cache::{Cache, Place};
use download::Wanted;
use name::{Entry, Repo};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// Result of everything here.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong, on one line.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A name that is none, or that nothing has.
    #[error("{0}")]
    Name(String),
    /// The host answered with a refusal.
    #[error("{url}: {what}")]
    Refused {
        /// What was asked for.
        url: String,
        /// HTTP status.
        status: u16,
        /// In words.
        what: String,
    },
    /// The host cannot be reached, or stopped answering.
    #[error("{url}: {what}")]
    Network {
        /// What was asked for.
        url: String,
        /// In words.
        what: String,
    },
    /// The host answered with what cannot be.
    #[error("{url}: {what}")]
    Answer {
        /// What was asked for.
        url: String,
        /// Expected and found.
        what: String,
    },
    /// The system refused a file operation.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The flag was set; what came so far is kept.
    #[error("stopped; the next download goes on from here")]
    Stopped,
}

impl Error {
    fn io(path: &Path, source: std::io::Error) -> Error {
        Error::Io { path: path.to_path_buf(), source }
    }
}

/// What happens meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// A file is fetched into the cache.
    Begins {
        /// Its name in the repository or URL.
        name: &'a str,
        /// Bytes of all files of the set; 0 where the host does not say.
        total: u64,
    },
    /// Bytes of the set that are there.
    Bytes(u64),
    /// Another program fetches the same file; it is waited for.
    Waits(&'a str),
    /// The host could not be reached; what is in the cache is taken.
    Cached(&'a str),
}

/// Who is told, and who can stop it.
pub struct Watch<'a> {
    /// Told of all events.
    pub tell: &'a mut dyn FnMut(Event<'_>),
    /// Stops soon after it is set.
    pub stop: &'a AtomicBool,
}

/// The model of `repo` (`user/repo` or `user/repo:quant`), or its `file`, in the cache. Gives the path of its first part.
///
/// Without a quant: Q4_K_M, else Q8_0, else the first file. Offline, what the cache has is taken.
///
/// # Errors
/// A name that is none; a host that cannot be reached or refuses; no such file; a file that is not what its checksum says; a full
/// disk; [`Error::Stopped`].
pub fn fetch(settings: &Settings, repo: &str, file: Option<&str>, watch: &mut Watch<'_>) -> Result<PathBuf> {
    let repo = Repo::parse(repo)?;
    if let Some(file) = file {
        name::check_path(file)?;
    }
    let cache = Cache::new(settings, &repo);
    fetch_revision(settings, &cache, &repo, "main", file, watch)
}

/// The projector of pictures and sounds that a repository has beside its models, in the cache; none where it has none.
///
/// # Errors
/// As [`fetch`].
pub fn fetch_projector(settings: &Settings, repo: &str, watch: &mut Watch<'_>) -> Result<Option<PathBuf>> {
    let repo = Repo::parse(repo)?;
    let cache = Cache::new(settings, &repo);
    let known = || cache.get_ref("main").map(|commit| cache.entries(&commit)).unwrap_or_default();
    let entries = match settings.offline {
        true => known(),
        false => match listed(settings, &repo, "main", watch) {
            Ok((_, entries)) => entries,
            Err(Error::Network { .. }) => known(),
            Err(other) => return Err(other),
        },
    };
    let Some(entry) = name::projector(&entries) else { return Ok(None) };
    fetch_revision(settings, &cache, &repo, "main", Some(&entry.path), watch).map(Some)
}

fn fetch_revision(
    settings: &Settings,
    cache: &Cache,
    repo: &Repo,
    revision: &str,
    file: Option<&str>,
    watch: &mut Watch<'_>,
) -> Result<PathBuf> {
    if settings.offline {
        return cached(cache, repo, revision, file);
    }
    let (commit, entries) = match listed(settings, repo, revision, watch) {
        Ok(listed) => listed,
        // Without a network, what is there will do.
        Err(Error::Network { url, what }) => {
            return match cached(cache, repo, revision, file) {
                Ok(path) => {
                    (watch.tell)(Event::Cached(&what));
                    Ok(path)
                }
                Err(_) => Err(Error::Network { url, what }),
            };
        }
        Err(other) => return Err(other),
    };
    let parts = name::chosen(&entries, repo, file)?;
    let total = parts.iter().map(|part| part.size).sum();
    let mut first = None;
    let mut done = 0;
    for part in parts {
        let path = cache.pointer(&commit, &part.path);
        if !cache.has(&path, part) {
            let url = format!("{}/{}/resolve/{commit}/{}", settings.endpoint, repo.id, name::escaped(&part.path));
            let wanted = Wanted { url, name: &part.path, size: Some(part.size), sha256: part.sha256.as_deref() };
            let place = Place { blob: cache.blob(&part.blob), lock: cache.lock(&part.blob), by_content: true };
            download::fetch(settings, &wanted, &place, (done, total), watch)?;
            cache.point(&commit, &part.path, &part.blob)?;
        }
        done += part.size;
        first.get_or_insert(path);
    }
    cache.set_ref(revision, &commit)?;
    first.ok_or_else(|| Error::Name(format!("{}: expected a file, found none", repo.id)))
}

fn cached(cache: &Cache, repo: &Repo, revision: &str, file: Option<&str>) -> Result<PathBuf> {
    let missing = || {
        let folder = cache.folder().display();
        Error::Name(format!(
            "{}: expected its files in {folder}, as there is no network (--offline), found none",
            repo.id
        ))
    };
    let commit = cache.get_ref(revision).ok_or_else(missing)?;
    let entries = cache.entries(&commit);
    let parts = name::chosen(&entries, repo, file).map_err(|_| missing())?;
    parts.first().map(|part| cache.pointer(&commit, &part.path)).ok_or_else(missing)
}

/// Commit and files of a revision.
fn listed(settings: &Settings, repo: &Repo, revision: &str, watch: &mut Watch<'_>) -> Result<(String, Vec<Entry>)> {
    let url = format!("{}/api/models/{}/revision/{}?blobs=true", settings.endpoint, repo.id, name::escaped(revision));
    let bad = |what: &str| Error::Answer { url: url.clone(), what: what.to_string() };
    let text = http::text(settings, &url, watch.stop)?;
    let json: Value = serde_json::from_slice(&text).map_err(|_| bad("expected JSON, found something else"))?;
    let commit =
        json["sha"].as_str().filter(|sha| name::is_hex(sha, 40)).ok_or_else(|| bad("expected a commit in sha"))?;
    let files = json["siblings"].as_array().ok_or_else(|| bad("expected a list in siblings"))?;
    // Names that lead elsewhere are no files of a model.
    Ok((commit.to_string(), files.iter().filter_map(entry).collect()))
}

fn entry(json: &Value) -> Option<Entry> {
    let path = json["rfilename"].as_str().filter(|path| name::check_path(path).is_ok())?;
    let sha256 = json["lfs"]["sha256"].as_str().filter(|sha| name::is_hex(sha, 64)).map(str::to_ascii_lowercase);
    let git = json["blobId"].as_str().filter(|sha| name::is_hex(sha, 40)).map(str::to_ascii_lowercase);
    let size = json["lfs"]["size"].as_u64().or(json["size"].as_u64())?;
    Some(Entry { path: path.to_string(), blob: sha256.clone().or(git)?, sha256, size })
}

/// The model at `url`, with all parts of its set, in the cache. A file of the Hub goes where [`fetch`] puts it. Gives the path of
/// its first part.
///
/// # Errors
/// As [`fetch`].
pub fn fetch_url(settings: &Settings, url: &str, watch: &mut Watch<'_>) -> Result<PathBuf> {
    let bad = |what: &str| Error::Name(format!("{url}: {what}"));
    http::origin(url).ok_or_else(|| bad("expected a URL that begins with http:// or https://"))?;
    let plain = url.split(['?', '#']).next().unwrap_or(url);
    if let Some((repo, revision, file)) = hub_file(settings, plain) {
        let cache = Cache::new(settings, &repo);
        return fetch_revision(settings, &cache, &repo, &revision, Some(&file), watch);
    }
    let file = plain.rsplit('/').next().filter(|f| name::check_path(f).is_ok());
    let file = file.ok_or_else(|| bad("expected a file name at its end"))?;
    let folder = cache::url_folder(settings, plain);
    let mut first = None;
    for part in name::parts(file) {
        let path = folder.join(&part);
        first.get_or_insert(path.clone());
        if path.is_file() {
            continue;
        }
        if settings.offline {
            let what = "expected it in the cache, as there is no network (--offline), found";
            return Err(bad(&format!("{what} no {}", path.display())));
        }
        let wanted = Wanted { url: url.replacen(file, &part, 1), name: &part, size: None, sha256: None };
        let place = Place { lock: path.with_extension("lock"), blob: path, by_content: false };
        download::fetch(settings, &wanted, &place, (0, 0), watch)?;
    }
    first.ok_or_else(|| bad("expected a file name at its end"))
}

/// Repository, revision and file of a URL of the Hub.
fn hub_file(settings: &Settings, url: &str) -> Option<(Repo, String, String)> {
    let path = url.strip_prefix(&settings.endpoint)?.strip_prefix('/')?;
    let parts: Vec<&str> = path.splitn(5, '/').collect();
    let [user, repo, "resolve" | "blob", revision, file] = parts[..] else { return None };
    let repo = Repo::parse(&format!("{user}/{repo}")).ok()?;
    name::check_path(revision).ok()?;
    // Names with escapes keep their URL.
    (name::check_path(file).is_ok() && !file.contains('%')).then(|| (repo, revision.to_string(), file.to_string()))
}
