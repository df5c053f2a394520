//! A file mapped into memory, read only.
#![allow(unsafe_code)]

use crate::{Error, Result};
use std::fs::File;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

/// The bytes of a file; a handle, unmapped with the last.
#[derive(Clone, Debug)]
pub struct Map(Option<Arc<memmap2::Mmap>>);

impl Map {
    /// Maps a regular file; an empty one gives no bytes.
    ///
    /// # Errors
    /// What the system says, or that the path is no regular file.
    pub fn open(path: &Path) -> Result<Map> {
        let file = File::open(path).map_err(|e| Error::io(path, e))?;
        let meta = file.metadata().map_err(|e| Error::io(path, e))?;
        if !meta.is_file() {
            return Err(Error::file(path, "not_gguf", "expected a regular file, found a directory or device"));
        }
        if meta.len() == 0 {
            return Ok(Map(None));
        }
        // SAFETY: the map is read only; that another process does not shrink the file while it is read is the user's
        // part, as with every mapped model file.
        let map = unsafe { memmap2::Mmap::map(&file) }.map_err(|e| Error::io(path, e))?;
        Ok(Map(Some(Arc::new(map))))
    }
}

impl Deref for Map {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        self.0.as_ref().map_or(&[], |map| map)
    }
}
