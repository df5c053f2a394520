//! What can go wrong, with the file that it is about.

use std::path::{Path, PathBuf};

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// A folder that cannot be converted, or a sink that takes no more.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file of the folder says what cannot be.
    #[error("{}: {what}", path.display())]
    File {
        /// The file, or the folder where one is missing.
        path: PathBuf,
        /// What was expected, and what was found.
        what: String,
    },
    /// What the system says of a file.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// What the caller's sink says.
    #[error(transparent)]
    Sink(Box<dyn std::error::Error + Send + Sync>),
    /// The caller asked to stop.
    #[error("stopped")]
    Stopped,
}

impl Error {
    /// About a file.
    pub fn file(path: &Path, what: impl Into<String>) -> Error {
        Error::File { path: path.to_path_buf(), what: what.into() }
    }

    /// What the system says of a file.
    pub fn io(path: &Path, source: std::io::Error) -> Error {
        Error::Io { path: path.to_path_buf(), source }
    }
}
