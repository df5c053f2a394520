//! A file mapped into memory, read only.
#![allow(unsafe_code)]

use crate::{Error, Result};
use std::fs::File;
use std::io::Read;
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

/// How a file's bytes come into memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// They are read when the file is opened, so that it may change or go then; else it is mapped.
    pub read: bool,
    /// They are locked, so that the system never drops them or swaps them out; where it does not allow that, a warning says so.
    pub lock: bool,
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
        Self::open_with(path, Access::default())
    }

    /// Likewise, or reads it; all of it is there then.
    ///
    /// # Errors
    /// As [`Map::open`]; memory that does not suffice, a file that became shorter meanwhile.
    pub fn open_with(path: &Path, access: Access) -> Result<Map> {
        let file = File::open(path).map_err(|e| Error::io(path, e))?;
        let meta = file.metadata().map_err(|e| Error::io(path, e))?;
        if !meta.is_file() {
            return Err(Error::file(path, "not_gguf", "expected a regular file, found a directory or device"));
        }
        if meta.len() == 0 {
            return Ok(Map(None));
        }
        let map = if access.read { read(&file, path, meta.len())? } else { mapped(&file, path)? };
        tracing::debug!("{}: {} bytes {}", path.display(), meta.len(), if access.read { "read" } else { "mapped" });
        if access.lock {
            lock(&map, path);
        }
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

fn mapped(file: &File, path: &Path) -> Result<memmap2::Mmap> {
    // SAFETY: the map is read only; that another process does not shrink the file while it is read is the user's
    // part, as with every mapped model file.
    unsafe { memmap2::Mmap::map(file) }.map_err(|e| Error::io(path, e))
}

/// The whole file, in pages of the program's own: they lie as those of a mapped file do.
fn read(mut file: &File, path: &Path, len: u64) -> Result<memmap2::Mmap> {
    let len = usize::try_from(len).map_err(|_| Error::io(path, std::io::ErrorKind::OutOfMemory.into()))?;
    let mut pages = memmap2::MmapMut::map_anon(len).map_err(|e| Error::io(path, e))?;
    file.read_exact(&mut pages).map_err(|e| Error::io(path, e))?;
    pages.make_read_only().map_err(|e| Error::io(path, e))
}

fn lock(map: &memmap2::Mmap, path: &Path) {
    #[cfg(unix)]
    match map.lock() {
        Ok(()) => tracing::debug!("{}: {} bytes locked", path.display(), map.len()),
        Err(e) => {
            tracing::warn!("{}: --mlock: {} bytes are not locked: {e} (see ulimit -l)", path.display(), map.len())
        }
    }
    #[cfg(not(unix))]
    tracing::warn!("{}: --mlock has no effect here: {} bytes are not locked", path.display(), map.len());
}

impl Deref for Map {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        self.0.as_ref().map_or(&[], |map| map)
    }
}
