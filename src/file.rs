//! Output files that are there whole or not at all.
//!
//! Data goes to a file without a name (where the system has such files, so that even a kill leaves nothing behind) or to
//! a temporary one beside the target; [`Replacing::finish`] syncs it and puts it in the target's place in one step.

use crate::{Error, Result};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// A file being written that will replace `target`.
pub struct Replacing {
    target: PathBuf,
    temporary: PathBuf,
    named: bool,
    out: BufWriter<File>,
}

/// A file in `folder` that has no name yet.
#[cfg(target_os = "linux")]
fn nameless(folder: &Path) -> Option<File> {
    use rustix::fs::{open, Mode, OFlags};
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    open(folder, flags, Mode::from_raw_mode(0o644)).ok().map(File::from)
}

#[cfg(not(target_os = "linux"))]
fn nameless(_: &Path) -> Option<File> {
    None
}

/// Gives a nameless file a name.
#[cfg(target_os = "linux")]
fn name(file: &File, path: &Path) -> std::io::Result<()> {
    use rustix::fs::{linkat, AtFlags, CWD};
    use std::os::fd::AsRawFd;
    let descriptor = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(linkat(CWD, descriptor, CWD, path, AtFlags::SYMLINK_FOLLOW)?)
}

#[cfg(not(target_os = "linux"))]
fn name(_: &File, _: &Path) -> std::io::Result<()> {
    Ok(())
}

impl Replacing {
    /// Starts a file that will stand at `target`.
    ///
    /// # Errors
    /// What the system says, or that `target` is a folder.
    pub fn create(target: &Path) -> Result<Replacing> {
        if target.is_dir() {
            return Err(Error::Request(format!("{}: expected a file name, found a folder", target.display())));
        }
        let folder = target.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let stem = target.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        let temporary = folder.join(format!(".{stem}.{}.part", std::process::id()));
        let (file, named) = match nameless(folder) {
            Some(file) => (file, false),
            None => (File::create(&temporary).map_err(|e| Error::io(target, e))?, true),
        };
        Ok(Replacing { target: target.to_path_buf(), temporary, named, out: BufWriter::with_capacity(1 << 20, file) })
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// A full disk, a file-size limit.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.out.write_all(bytes).map_err(|e| Error::io(&self.target, e))
    }

    /// Syncs, and puts the file in the target's place.
    ///
    /// # Errors
    /// As [`Replacing::write`]; the former file then still stands.
    pub fn finish(mut self) -> Result<()> {
        let put = |me: &mut Replacing| -> std::io::Result<()> {
            me.out.flush()?;
            me.out.get_ref().sync_all()?;
            if !me.named {
                name(me.out.get_ref(), &me.temporary)?;
                me.named = true;
            }
            std::fs::rename(&me.temporary, &me.target)?;
            me.named = false;
            // The new name must survive a crash too; some file systems cannot sync a folder, and that is their answer.
            let folder = me.target.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
            let _ = File::open(folder).and_then(|folder| folder.sync_all());
            Ok(())
        };
        put(&mut self).map_err(|e| Error::io(&self.target, e))
    }
}

impl Drop for Replacing {
    fn drop(&mut self) {
        if self.named {
            let _ = std::fs::remove_file(&self.temporary);
        }
    }
}
