//! The crate's one error type.
//!
//! Errors are for what a caller cannot foresee: a bad file, a missing feature, memory that ran out, a lost device.
//! Each names the thing (file, key, tensor, flag, device) and says expected and found, on one line.

use std::path::{Path, PathBuf};

/// Result of everything that can fail here.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong, in the user's terms.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused a file operation.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file is not a well-formed GGUF container, or does not describe a model that can run.
    ///
    /// `code` is a stable short name (`truncated_data`, `bad_hparam`, `missing_tensor`, ...).
    #[error("{}: {code}: {what}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Stable short name of the class of fault.
        code: &'static str,
        /// One line naming the key or tensor, with expected and found.
        what: String,
    },
    /// No device, or none that fits what was asked.
    #[error("device: {0}")]
    Device(String),
    /// The device lacks something Pumex cannot do without.
    #[error("device {device}: missing {feature}")]
    MissingFeature {
        /// Device name.
        device: String,
        /// Feature in the Vulkan specification's words.
        feature: String,
    },
    /// Memory ran out; all three numbers are in the text.
    #[error("out of memory: {0}")]
    OutOfMemory(String),
    /// A Vulkan call failed in a way the caller could not foresee.
    #[error("{call} failed on {device}: {result}")]
    Vulkan {
        /// The function.
        call: &'static str,
        /// Device name.
        device: String,
        /// Vulkan's result code in words.
        result: String,
    },
    /// A device that stopped: the driver calls it lost, or it did not answer in time.
    #[error("device lost: {0}")]
    Lost(String),
    /// A request that the loaded model or the options cannot satisfy.
    #[error("{0}")]
    Request(String),
    /// A flag or argument is wrong (exit code 2).
    #[error("{0}")]
    Usage(String),
}

impl Error {
    /// An [`Error::File`] about `path`.
    pub fn file(path: &Path, code: &'static str, what: impl Into<String>) -> Self {
        Error::File { path: path.to_path_buf(), code, what: what.into() }
    }

    /// An [`Error::Io`] about `path`.
    pub fn io(path: &Path, source: std::io::Error) -> Self {
        Error::Io { path: path.to_path_buf(), source }
    }

    /// Logits of the `row`th row of a step that are NaN, of which no id can be chosen.
    pub fn nan_logits(row: usize) -> Self {
        Error::Request(format!("logits of row {row}: expected finite numbers, found NaN"))
    }

    /// Exit code for the process: 2 for bad usage, 1 for everything else.
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::Usage(_) => 2,
            _ => 1,
        }
    }
}

/// `n` times a value, where a file or a request says how often: memory that does not suffice is an error, not the process's end.
///
/// # Errors
/// There is not so much memory. `what` it is for is told.
pub fn try_filled_vec<T: Clone>(value: T, n: usize, what: &str) -> Result<Vec<T>> {
    let mut all = Vec::new();
    reserve(&mut all, n, what)?;
    all.resize(n, value);
    Ok(all)
}

/// Makes room for `n` elements in all.
///
/// # Errors
/// As [`try_filled_vec`].
pub fn reserve<T>(all: &mut Vec<T>, n: usize, what: &str) -> Result<()> {
    let bytes = n as u128 * std::mem::size_of::<T>() as u128;
    let more = n.saturating_sub(all.len());
    all.try_reserve_exact(more).map_err(|_| Error::OutOfMemory(format!("{what}: {bytes} bytes are not to be had")))
}

#[cfg(test)]
mod tests {
    use super::{reserve, try_filled_vec};

    #[test]
    fn memory_that_is_not_there_is_an_error() {
        assert_eq!(try_filled_vec(7u32, 3, "a list").unwrap(), [7; 3]);
        for n in [usize::MAX, usize::MAX / 4, 1 << 60] {
            let error = try_filled_vec(0.0f32, n, "tensor t").unwrap_err().to_string();
            assert!(
                error.starts_with("out of memory: tensor t: ") && error.contains(&(n as u128 * 4).to_string()),
                "{error}"
            );
        }
        let mut some = vec![1u8; 10];
        assert!(reserve(&mut some, 4, "").is_ok() && reserve(&mut some, usize::MAX, "").is_err() && some.len() == 10);
    }
}
