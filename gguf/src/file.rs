//! Output files that are there whole or not at all.
//!
//! Data goes to a file without a name (where the system has such files, so that even a kill leaves nothing behind) or to
//! a temporary one beside the target; [`Replacing::finish`] syncs it and puts it in the target's place in one step. What is no
//! regular file cannot be replaced without being lost: pipes and devices that take characters are written to as they stand.

use crate::{Error, Result};
use std::fs::{File, Metadata, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Links that are followed to a target, as many as Linux follows.
const MOST_LINKS: usize = 40;

/// Where data goes until it is whole.
enum TemporaryFile {
    /// A file without a name.
    Nameless,
    /// The temporary one, which goes unless it is put in the target's place.
    Named,
    /// The target itself, which cannot be replaced.
    Direct,
}

/// A file being written that will replace `target`, or what stands there and is no file.
pub struct Replacing {
    /// The path that the user gave, for messages.
    asked: PathBuf,
    /// What its links lead to.
    target: PathBuf,
    temporary: PathBuf,
    place: TemporaryFile,
    out: BufWriter<File>,
}

/// Whether data goes to what stands there and not to a file that replaces it.
#[cfg(unix)]
fn is_direct(meta: &Metadata) -> Option<bool> {
    use std::os::unix::fs::FileTypeExt;
    let kind = meta.file_type();
    if kind.is_fifo() || kind.is_char_device() {
        return Some(true);
    }
    kind.is_file().then_some(false)
}

#[cfg(not(unix))]
fn is_direct(meta: &Metadata) -> Option<bool> {
    meta.is_file().then_some(false)
}

/// What the links of a name lead to, which need not be there; none where they lead to what a process has open, which has no name
/// to be replaced at.
fn resolve_links(target: &Path) -> std::io::Result<Option<PathBuf>> {
    let mut path = target.to_path_buf();
    for _ in 0..MOST_LINKS {
        if !path.symlink_metadata().is_ok_and(|meta| meta.is_symlink()) {
            return Ok(Some(path));
        }
        let folder = folder(&path).canonicalize()?;
        if folder.starts_with("/proc") {
            return Ok(None);
        }
        path = folder.join(path.read_link()?);
    }
    Err(std::io::Error::other(format!("expected at most {MOST_LINKS} links to a file, found more")))
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Opens what stands at `target` to write behind it, or a new file.
///
/// # Errors
/// What the system says, or that `target` is a folder or another thing that cannot be written to in order.
pub fn append(target: &Path) -> Result<File> {
    let found = std::fs::metadata(target).ok();
    found.as_ref().map_or(Some(false), is_direct).ok_or_else(|| misplaced_error(target))?;
    OpenOptions::new().create(true).append(true).open(target).map_err(|e| Error::io(target, e))
}

fn misplaced_error(target: &Path) -> Error {
    let what = match target.is_dir() {
        true => "expected a file name, found a folder",
        false => "expected a file, a pipe or a device that takes characters, found something else",
    };
    Error::Request(format!("{}: {what}", target.display()))
}

/// A file in `folder` that has no name yet.
#[cfg(target_os = "linux")]
fn nameless(folder: &Path) -> Option<File> {
    use rustix::fs::{open, Mode, OFlags};
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    open(folder, flags, Mode::from_raw_mode(0o666)).ok().map(File::from)
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
    /// Starts a file that will stand at `target`, or where its links lead. A pipe or a device there gets the data as it comes.
    ///
    /// # Errors
    /// What the system says, or that `target` is a folder or another thing that can be neither replaced nor written to in order.
    pub fn create(target: &Path) -> Result<Replacing> {
        let failed = |e: std::io::Error| Error::io(target, e);
        let found = std::fs::metadata(target).ok();
        let direct = found.as_ref().map_or(Some(false), is_direct).ok_or_else(|| misplaced_error(target))?;
        let place = if direct { None } else { resolve_links(target).map_err(failed)? };
        let Some(place) = place else {
            // Appending is what a shell's >> means, and no different where there is no end.
            let file = OpenOptions::new().append(true).open(target).map_err(failed)?;
            return Ok(Self::new(target, target.to_path_buf(), PathBuf::new(), (file, TemporaryFile::Direct)));
        };
        let folder = folder(&place);
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let temporary = folder.join(format!(".pumex.{}.{number}.part", std::process::id()));
        let opened = match nameless(folder) {
            Some(file) => (file, TemporaryFile::Nameless),
            None => (
                OpenOptions::new().write(true).create_new(true).open(&temporary).map_err(failed)?,
                TemporaryFile::Named,
            ),
        };
        Ok(Self::new(target, place, temporary, opened))
    }

    fn new(asked: &Path, target: PathBuf, temporary: PathBuf, (file, place): (File, TemporaryFile)) -> Replacing {
        Replacing { asked: asked.to_path_buf(), target, temporary, place, out: BufWriter::with_capacity(1 << 20, file) }
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// A full disk, a file-size limit.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.out.write_all(bytes).map_err(|e| Error::io(&self.asked, e))
    }

    /// Syncs, and puts the file in the target's place, with the permissions that a former file there had.
    ///
    /// # Errors
    /// As [`Replacing::write`]; the former file then still stands.
    pub fn finish(mut self) -> Result<()> {
        self.put().map_err(|e| Error::io(&self.asked, e))
    }

    fn put(&mut self) -> std::io::Result<()> {
        self.out.flush()?;
        if matches!(self.place, TemporaryFile::Direct) {
            return Ok(());
        }
        let file = self.out.get_ref();
        if let Ok(former) = std::fs::metadata(&self.target) {
            if is_direct(&former) != Some(false) {
                return Err(std::io::Error::other("expected a file or none, found what came there meanwhile"));
            }
            file.set_permissions(former.permissions())?;
        }
        file.sync_all()?;
        if matches!(self.place, TemporaryFile::Nameless) {
            name(file, &self.temporary)?;
            self.place = TemporaryFile::Named;
        }
        std::fs::rename(&self.temporary, &self.target)?;
        self.place = TemporaryFile::Direct;
        // The new name must survive a crash too; some file systems cannot sync a folder, and that is their answer.
        let _ = File::open(folder(&self.target)).and_then(|folder| folder.sync_all());
        Ok(())
    }
}

impl Drop for Replacing {
    fn drop(&mut self) {
        if matches!(self.place, TemporaryFile::Named) {
            let _ = std::fs::remove_file(&self.temporary);
        }
    }
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{symlink, FileTypeExt, PermissionsExt};

    fn put(path: &Path, bytes: &[u8]) -> Result<()> {
        let mut file = Replacing::create(path)?;
        file.write(bytes)?;
        file.finish()
    }

    fn scratch(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("pumex-file-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn links_stay_and_what_they_lead_to_is_replaced() {
        let folder = scratch("links");
        let (link, far, near) = (folder.join("link"), folder.join("far"), folder.join("sub/near"));
        std::fs::create_dir(folder.join("sub")).unwrap();
        symlink("sub/near", &far).unwrap();
        symlink(&far, &link).unwrap();
        for text in ["first", "second"] {
            put(&link, text.as_bytes()).unwrap();
            assert_eq!(std::fs::read_to_string(&near).unwrap(), text);
        }
        assert!(link.is_symlink() && far.is_symlink() && !near.is_symlink());
        std::fs::set_permissions(&near, std::fs::Permissions::from_mode(0o600)).unwrap();
        put(&link, b"third").unwrap();
        assert_eq!(near.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        symlink("round", folder.join("round")).unwrap();
        assert!(put(&folder.join("round"), b"").is_err());
        // What was begun and not finished leaves nothing, and the former file as it was.
        Replacing::create(&link).unwrap().write(b"part").unwrap();
        assert_eq!(std::fs::read_to_string(&near).unwrap(), "third");
        assert_eq!(std::fs::read_dir(folder.join("sub")).unwrap().count(), 1);
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn pipes_and_devices_are_written_to_and_stay() {
        let folder = scratch("pipes");
        let (pipe, link) = (folder.join("pipe"), folder.join("link"));
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        symlink("pipe", &link).unwrap();
        for name in [&pipe, &link] {
            let from = pipe.clone();
            let reader = std::thread::spawn(move || std::fs::read(from).unwrap());
            put(name, b"bytes").unwrap();
            assert_eq!(reader.join().unwrap(), b"bytes");
            assert!(pipe.symlink_metadata().unwrap().file_type().is_fifo() && link.is_symlink());
        }
        let null = folder.join("null");
        symlink("/dev/null", &null).unwrap();
        put(&null, b"bytes").unwrap();
        let of = Path::new("/dev/null").symlink_metadata().unwrap().file_type();
        assert!(of.is_char_device() && null.is_symlink());
        // A link to what the process has open, as /dev/stdout is one.
        let open = OpenOptions::new().append(true).create(true).open(folder.join("open")).unwrap();
        (&open).write_all(b"before, ").unwrap();
        let descriptor = std::os::fd::AsRawFd::as_raw_fd(&open);
        put(Path::new(&format!("/dev/fd/{descriptor}")), b"after").unwrap();
        assert_eq!(std::fs::read(folder.join("open")).unwrap(), b"before, after");
        std::fs::remove_dir_all(folder).unwrap();
    }
}
