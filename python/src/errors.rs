//! Errors as Python's exceptions.

use pyo3::exceptions::{PyFileNotFoundError, PyMemoryError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;

pyo3::create_exception!(_native, PumexError, PyRuntimeError, "What a device or a model failed of.");

/// An exception of the sort that Python's users expect: a file that is not there, a value that is wrong, memory that ran out.
pub fn raised(error: pumex::Error) -> PyErr {
    let text = error.to_string();
    match error {
        pumex::Error::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
            PyFileNotFoundError::new_err(text)
        }
        pumex::Error::OutOfMemory(_) => PyMemoryError::new_err(text),
        pumex::Error::File { .. } | pumex::Error::Request(_) | pumex::Error::Usage(_) => PyValueError::new_err(text),
        _ => PumexError::new_err(text),
    }
}

/// Lets other threads of Python run while something is computed.
pub fn unlocked<T: Send>(py: Python<'_>, work: impl FnOnce() -> pumex::Result<T> + Send) -> PyResult<T> {
    py.detach(work).map_err(raised)
}
