//! JSON files of a folder, read whole and with a cap.

use crate::{Error, Result};
use serde_json::{Map, Value};
use std::path::Path;

/// Bytes of the largest file that is read: vocabularies of a quarter million tokens have about 35 MB.
const MOST_BYTES: u64 = 512 << 20;

/// A JSON object.
pub type Object = Map<String, Value>;

/// The bytes of a small file; none where it is not there.
///
/// # Errors
/// A file that cannot be read or is too large.
pub fn bytes(path: &Path) -> Result<Option<Vec<u8>>> {
    let meta = match path.metadata() {
        Ok(meta) if meta.is_file() => meta,
        Ok(_) => return Err(Error::file(path, "expected a file, found something else")),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(Error::io(path, e)),
    };
    if meta.len() > MOST_BYTES {
        return Err(Error::file(path, format!("expected at most {MOST_BYTES} bytes, found {}", meta.len())));
    }
    std::fs::read(path).map(Some).map_err(|e| Error::io(path, e))
}

/// The text of a small file; none where it is not there.
///
/// # Errors
/// As [`bytes`], and what is not UTF-8.
pub fn text(path: &Path) -> Result<Option<String>> {
    let Some(bytes) = bytes(path)? else { return Ok(None) };
    String::from_utf8(bytes).map(Some).map_err(|e| Error::file(path, format!("expected UTF-8: {e}")))
}

/// A file's object; none where there is no file.
///
/// # Errors
/// As [`text`], and what is not an object.
pub fn object(path: &Path) -> Result<Option<Object>> {
    let Some(text) = text(path)? else { return Ok(None) };
    match serde_json::from_str(&text) {
        Ok(Value::Object(object)) => Ok(Some(object)),
        Ok(_) => Err(Error::file(path, "expected a JSON object, found another value")),
        Err(e) => Err(Error::file(path, format!("expected a JSON object: {e}"))),
    }
}
