//! A file mapped into memory, read only.
#![allow(unsafe_code)]

use crate::{Error, Result};
use std::fs::File;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

/// The error of pages that the file no longer has.
#[cfg(target_os = "linux")]
const EFAULT: i32 = 14;

/// Bytes of the system's pages, of which a mapping has a whole number; the least there are where the system is not asked.
pub fn page_bytes() -> u64 {
    #[cfg(target_os = "linux")]
    return rustix::param::page_size() as u64;
    #[cfg(not(target_os = "linux"))]
    4096
}

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

    /// Brings in the pages of a range at once, where the system can: faster than one by one as they are read, and a file
    /// that has become shorter is an error, not the end of the process.
    ///
    /// # Errors
    /// What the system says of pages that are not there any more.
    pub fn touch(&self, start: usize, len: usize) -> std::io::Result<()> {
        #[cfg(target_os = "linux")]
        if let Some(map) = &self.0 {
            let touched = map.advise_range(memmap2::Advice::PopulateRead, start, len);
            // Systems that do not know the advice refuse it in several ways; only missing pages matter.
            return touched.or_else(|e| if e.raw_os_error() == Some(EFAULT) { Err(e) } else { Ok(()) });
        }
        let _ = (start, len);
        Ok(())
    }
}

impl Deref for Map {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        self.0.as_ref().map_or(&[], |map| map)
    }
}
