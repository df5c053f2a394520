//! A file mapped into memory, read only, and whether it is still the file that it was.
//!
//! A step with a mapped file that changed is an error that names it; pages that are gone read as zeros instead of ending the
//! process (`map/sigbus.rs`).
#![allow(unsafe_code)]

#[cfg(target_os = "linux")]
mod sigbus;

use crate::{Error, Result};
use std::fs::{File, Metadata};
use std::io::Read;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

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
pub struct FileAccess {
    /// They are read when the file is opened, so that it may change or go then; else it is mapped.
    pub read: bool,
    /// They are locked, so that the system never drops them or swaps them out; where it does not allow that, a warning says so.
    pub lock: bool,
}

/// The bytes of a file; a handle, unmapped with the last.
#[derive(Clone, Debug)]
pub struct Map(Option<Arc<Mapped>>);

#[derive(Debug)]
struct Mapped {
    /// Ends before the map does.
    #[cfg(target_os = "linux")]
    watch: Option<sigbus::Watch>,
    map: memmap2::Mmap,
    /// Identifies a file that is mapped; none where it was read.
    file: Option<Was>,
}

/// A file, and what it was when it was opened.
#[derive(Debug)]
struct Was {
    file: File,
    path: PathBuf,
    len: u64,
    written: Option<SystemTime>,
}

impl Was {
    fn of(file: File, path: &Path, meta: &Metadata) -> Was {
        Was { file, path: path.to_path_buf(), len: meta.len(), written: meta.modified().ok() }
    }

    fn check(&self) -> Result<()> {
        let meta = self.file.metadata().map_err(|e| Error::io(&self.path, e))?;
        let changed = |what: String| Err(Error::file(&self.path, "changed", what));
        match (meta.len(), meta.modified().ok()) {
            (len, _) if len != self.len => changed(format!("expected the {} bytes that it had, found {len}", self.len)),
            (_, written) if written != self.written => changed("it was written to since it was opened".into()),
            _ => Ok(()),
        }
    }
}

impl Map {
    /// Maps a regular file; an empty one gives no bytes.
    ///
    /// # Errors
    /// What the system says, or that the path is no regular file.
    pub fn open(path: &Path) -> Result<Map> {
        Self::open_with(path, FileAccess::default())
    }

    /// Maps a regular file, or reads it, as `access` says; where it is read, all of it is there then.
    ///
    /// # Errors
    /// As [`Map::open`]; memory that does not suffice, a file that became shorter meanwhile.
    pub fn open_with(path: &Path, access: FileAccess) -> Result<Map> {
        let irregular = || Error::file(path, "not_gguf", "expected a regular file, found a directory, pipe or device");
        // Opening a pipe would wait for somebody who writes.
        if !std::fs::metadata(path).map_err(|e| Error::io(path, e))?.is_file() {
            return Err(irregular());
        }
        let file = File::open(path).map_err(|e| Error::io(path, e))?;
        let meta = file.metadata().map_err(|e| Error::io(path, e))?;
        if !meta.is_file() {
            return Err(irregular());
        }
        if meta.len() == 0 {
            return Ok(Map(None));
        }
        let map = if access.read { read(&file, path, meta.len())? } else { map_file(&file, path)? };
        #[cfg(target_os = "linux")]
        let watch = if access.read { None } else { sigbus::Watch::of(&map) };
        tracing::debug!("{}: {} bytes {}", path.display(), meta.len(), if access.read { "read" } else { "mapped" });
        if access.lock {
            lock(&map, path);
        }
        let file = (!access.read).then(|| Was::of(file, path, &meta));
        Ok(Map(Some(Arc::new(Mapped {
            #[cfg(target_os = "linux")]
            watch,
            map,
            file,
        }))))
    }

    /// Whether the bytes are still those of the file as it was opened; what was computed with others is wrong.
    ///
    /// # Errors
    /// A mapped file that became shorter, or was written to.
    pub fn check(&self) -> Result<()> {
        let Some(mapped) = &self.0 else { return Ok(()) };
        let Some(was) = &mapped.file else { return Ok(()) };
        #[cfg(target_os = "linux")]
        if mapped.watch.as_ref().is_some_and(sigbus::Watch::is_gone) {
            return Err(Error::file(&was.path, "changed", "it became shorter while it was read"));
        }
        was.check()
    }

    /// Brings in the pages of a range at once, where the system can: faster than one by one as they are read, and a file
    /// that has become shorter is an error, not the end of the process.
    ///
    /// # Errors
    /// What the system says of pages that are not there any more.
    pub fn touch(&self, start: usize, len: usize) -> std::io::Result<()> {
        #[cfg(target_os = "linux")]
        if let Some(map) = &self.0 {
            let touched = map.map.advise_range(memmap2::Advice::PopulateRead, start, len);
            // Systems that do not know the advice refuse it in several ways; only missing pages matter.
            return touched.or_else(|e| if e.raw_os_error() == Some(EFAULT) { Err(e) } else { Ok(()) });
        }
        let _ = (start, len);
        Ok(())
    }
}

fn map_file(file: &File, path: &Path) -> Result<memmap2::Mmap> {
    // SAFETY: the map is read only; where another process changes the file while it is read, `Map::check` tells so of what was read.
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
        self.0.as_ref().map_or(&[], |mapped| &mapped.map)
    }
}
