//! Models fetched from the Hugging Face Hub, ModelScope, Ollama's registry, or any URL, into the cache that other tools share.
//!
//! [`fetch`] lists a repository, chooses a file, and fetches it with all parts of its set; [`list_cached_models`] lists what the cache
//! has, and [`remove`] takes it out. Knows names, HTTP and files; no model and no environment: [`HubSettings::from`] is told what the
//! variables are.

mod cache;
mod cache_entries;
mod download;
mod folder;
mod http;
pub mod name;
mod ollama;
mod source;

pub use cache::HubSettings;
pub use cache_entries::{list_cached_models, remove, CachedModel, RemovedFiles};
pub use folder::{aside_of, escape, unescape, LocalFolder};
pub use ollama::ASIDE;

use cache::BlobPaths;
use download::RemoteFile;
use name::{Host, Name, Repo};
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

/// The model of a name, or its `file`, in the cache. Gives the path of its first part. Names are `user/repo` or `user/repo:quant` of
/// the Hub, likewise behind `modelscope:`, and `ollama:model:tag` of Ollama's registry ([`name::Name`]).
///
/// Without a quant: Q4_K_M, else Q8_0, else the first file. Offline, what the cache has is taken. What Ollama's registry says beside
/// a model stands in a file beside it ([`ASIDE`]).
///
/// # Errors
/// A name that is none; a host that cannot be reached or refuses; no such file; a file that is not what its checksum says; a full
/// disk; [`Error::Stopped`].
pub fn fetch(settings: &HubSettings, name: &str, file: Option<&str>, watch: &mut Watch<'_>) -> Result<PathBuf> {
    let name = Name::parse(name)?;
    if let Some(file) = file {
        name::check_path(file)?;
    }
    source::fetch(settings, &name, source::revision(&name), file, watch)
}

/// The projector of pictures and sounds that a repository has beside its models, in the cache; none where it has none.
///
/// # Errors
/// As [`fetch`].
pub fn fetch_projector(settings: &HubSettings, name: &str, watch: &mut Watch<'_>) -> Result<Option<PathBuf>> {
    source::projector(settings, &Name::parse(name)?, watch)
}

/// The model at `url`, with all parts of its set, in the cache. A file of the Hub goes where [`fetch`] puts it. Gives the path of
/// its first part.
///
/// # Errors
/// As [`fetch`].
pub fn fetch_url(settings: &HubSettings, url: &str, watch: &mut Watch<'_>) -> Result<PathBuf> {
    let bad = |what: &str| Error::Name(format!("{url}: {what}"));
    http::origin(url).ok_or_else(|| bad("expected a URL that begins with http:// or https://"))?;
    let plain = url.split(['?', '#']).next().unwrap_or(url);
    if let Some((repo, revision, file)) = hub_file(settings, plain) {
        return source::fetch(settings, &Name { host: Host::Hub, repo }, &revision, Some(&file), watch);
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
        let wanted = RemoteFile { url: url.replacen(file, &part, 1), name: &part, size: None, sha256: None };
        let place = BlobPaths { lock: path.with_extension("lock"), blob: path, by_content: false };
        download::fetch(settings, &wanted, &place, (0, 0), watch)?;
    }
    first.ok_or_else(|| bad("expected a file name at its end"))
}

/// Repository, revision and file of a URL of the Hub.
fn hub_file(settings: &HubSettings, url: &str) -> Option<(Repo, String, String)> {
    let path = url.strip_prefix(&settings.endpoint)?.strip_prefix('/')?;
    let parts: Vec<&str> = path.splitn(5, '/').collect();
    let [user, repo, "resolve" | "blob", revision, file] = parts[..] else { return None };
    let repo = Repo::parse(&format!("{user}/{repo}")).ok()?;
    name::check_path(revision).ok()?;
    // Names with escapes keep their URL.
    (name::check_path(file).is_ok() && !file.contains('%')).then(|| (repo, revision.to_string(), file.to_string()))
}
