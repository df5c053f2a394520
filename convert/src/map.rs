//! A file mapped into memory, read only.
#![allow(unsafe_code)]

use crate::{Error, Result};
use std::fs::File;
use std::path::{Path, PathBuf};

/// The bytes of a file.
#[derive(Debug)]
pub struct FileBytes {
    path: PathBuf,
    map: memmap2::Mmap,
}

impl FileBytes {
    /// Maps a file.
    ///
    /// # Errors
    /// What the system says.
    pub fn open(path: &Path) -> Result<FileBytes> {
        let file = File::open(path).map_err(|e| Error::io(path, e))?;
        if !file.metadata().map_err(|e| Error::io(path, e))?.is_file() {
            return Err(Error::file(path, "expected a file, found something else"));
        }
        // SAFETY: the map is only read. Who changes the file meanwhile changes weights, which any bytes are; who cuts it short
        // ends the process by a signal, as with every program that maps.
        let map = unsafe { memmap2::Mmap::map(&file) }.map_err(|e| Error::io(path, e))?;
        Ok(FileBytes { path: path.to_path_buf(), map })
    }

    /// The path that the file was opened by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.map
    }
}
