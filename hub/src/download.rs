//! One file fetched: locked against others, gone on with where an earlier try ended, checked, and only then put in its place.

use crate::cache::{make_folder, BlobPaths};
use crate::http::{self, Ask, ResponseHead};
use crate::{Error, Event, HubSettings, Result, Watch};
use sha2::{Digest, Sha256};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Tries of a file in a row that bring little.
const TRIES: u32 = 3;

/// What brings so much was no vain try.
const MUCH: u64 = 1 << 20;

/// A file of a host.
pub struct RemoteFile<'a> {
    pub url: String,
    pub name: &'a str,
    /// Bytes, if known before.
    pub size: Option<u64>,
    /// The SHA-256 of the contents, if known before.
    pub sha256: Option<&'a str>,
}

/// Bytes of the set before this file, and of all of it.
type Of = (u64, u64);

/// A file that grows.
struct Partial {
    path: PathBuf,
    /// The tag of the contents, where the name does not say what they are.
    tag: Option<PathBuf>,
    file: File,
    len: u64,
    hash: Sha256,
}

fn sibling_path(path: &Path, end: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(end);
    path.with_file_name(name)
}

impl Partial {
    fn open(place: &BlobPaths) -> Result<Partial> {
        let path = sibling_path(&place.blob, ".incomplete");
        let tag = (!place.by_content).then(|| sibling_path(&place.blob, ".etag"));
        let opened = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
        let file = opened.map_err(|e| Error::io(&path, e))?;
        let mut partial = Partial { path, tag, file, len: 0, hash: Sha256::new() };
        if partial.tag.is_some() && partial.saved_etag().is_none() {
            partial.restart()?; // nothing says what it is a part of
        }
        Ok(partial)
    }

    fn io<T>(&self, result: std::io::Result<T>) -> Result<T> {
        result.map_err(|e| Error::io(&self.path, e))
    }

    /// Reads what is there.
    fn read(&mut self, watch: &Watch<'_>) -> Result<()> {
        self.io((&self.file).rewind())?;
        (self.len, self.hash) = (0, Sha256::new());
        let mut buffer = vec![0; 1 << 20];
        loop {
            if watch.stop.load(Ordering::Relaxed) {
                return Err(Error::Stopped);
            }
            match self.io((&self.file).read(&mut buffer))? {
                0 => return Ok(()),
                n => {
                    self.hash.update(&buffer[..n]);
                    self.len += n as u64;
                }
            }
        }
    }

    fn restart(&mut self) -> Result<()> {
        self.io(self.file.set_len(0))?;
        self.io((&self.file).rewind())?;
        (self.len, self.hash) = (0, Sha256::new());
        Ok(())
    }

    fn write(&mut self, piece: &[u8]) -> Result<()> {
        let written = self.file.write_all(piece);
        self.io(written)?;
        self.hash.update(piece);
        self.len += piece.len() as u64;
        Ok(())
    }

    fn saved_etag(&self) -> Option<String> {
        let tag = std::fs::read_to_string(self.tag.as_ref()?).ok()?;
        let strong = tag.len() <= 256 && tag.starts_with('"') && tag.bytes().all(|b| (0x20..0x7f).contains(&b));
        strong.then_some(tag)
    }

    fn note_tag(&self, tag: Option<&str>) -> Result<()> {
        let Some(path) = &self.tag else { return Ok(()) };
        let noted = match tag {
            Some(tag) => std::fs::write(path, tag),
            None => std::fs::remove_file(path).or_else(|e| if path.exists() { Err(e) } else { Ok(()) }),
        };
        noted.map_err(|e| Error::io(path, e))
    }

    /// Puts the whole file in its place.
    fn finish(self, place: &Path) -> Result<()> {
        self.io(self.file.sync_all())?;
        std::fs::rename(&self.path, place).map_err(|e| Error::io(place, e))?;
        if let Some(tag) = &self.tag {
            let _ = std::fs::remove_file(tag);
        }
        Ok(())
    }
}

/// Waits for who else fetches the same file.
fn lock_file(path: &Path, name: &str, watch: &mut Watch<'_>) -> Result<File> {
    make_folder(path)?;
    let file =
        OpenOptions::new().write(true).create(true).truncate(false).open(path).map_err(|e| Error::io(path, e))?;
    let mut told = false;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) => {}
            // Some file systems have no locks.
            Err(TryLockError::Error(_)) => return Ok(file),
        }
        if !std::mem::replace(&mut told, true) {
            (watch.tell)(Event::Waits(name));
        }
        pause(Duration::from_millis(100), watch)?;
    }
}

fn pause(time: Duration, watch: &Watch<'_>) -> Result<()> {
    let until = std::time::Instant::now() + time;
    while std::time::Instant::now() < until {
        if watch.stop.load(Ordering::Relaxed) {
            return Err(Error::Stopped);
        }
        std::thread::sleep(Duration::from_millis(20).min(time));
    }
    Ok(())
}

/// Fetches a file into its place, if it is not there.
pub fn fetch(
    settings: &HubSettings,
    wanted: &RemoteFile<'_>,
    place: &BlobPaths,
    of: Of,
    watch: &mut Watch<'_>,
) -> Result<()> {
    make_folder(&place.blob)?;
    let _lock = lock_file(&place.lock, wanted.name, watch)?;
    let whole = std::fs::metadata(&place.blob).is_ok_and(|meta| wanted.size.is_none_or(|size| size == meta.len()));
    if whole {
        return Ok(());
    }
    let mut partial = Partial::open(place)?;
    partial.read(watch)?;
    let resumed = partial.len > 0;
    (watch.tell)(Event::Begins { name: wanted.name, total: of.1 });
    let (mut tries, mut fresh) = (0, !resumed);
    let mut expected = ExpectedFile { size: wanted.size, sha256: wanted.sha256.map(str::to_string) };
    loop {
        let before = partial.len;
        match attempt(settings, wanted, &mut partial, &mut expected, of, watch) {
            Ok(()) => match check(wanted, &partial, &expected) {
                Ok(()) => return partial.finish(&place.blob),
                Err(wrong) => {
                    partial.restart()?;
                    // The part that was there may have been what is wrong.
                    if std::mem::replace(&mut fresh, true) {
                        let _ = std::fs::remove_file(&partial.path);
                        return Err(wrong);
                    }
                }
            },
            Err(error) => {
                let passing = matches!(error, Error::Network { .. } | Error::Refused { status: 500.., .. });
                tries = if partial.len >= before + MUCH { 1 } else { tries + 1 };
                if !passing || tries >= TRIES {
                    return Err(error);
                }
                pause(settings.pause * tries, watch)?;
            }
        }
    }
}

/// What the file is to be.
struct ExpectedFile {
    size: Option<u64>,
    sha256: Option<String>,
}

fn bad(wanted: &RemoteFile<'_>, what: String) -> Error {
    Error::Answer { url: wanted.url.split(['?', '#']).next().unwrap_or_default().to_string(), what }
}

fn check(wanted: &RemoteFile<'_>, partial: &Partial, expected: &ExpectedFile) -> Result<()> {
    let found: String = partial.hash.clone().finalize().iter().map(|b| format!("{b:02x}")).collect();
    match &expected.sha256 {
        Some(sha256) if *sha256 != found => {
            Err(bad(wanted, format!("expected contents with SHA-256 {sha256}, found {found}")))
        }
        _ => Ok(()),
    }
}

/// Goes on with what is there, to the end.
fn attempt(
    settings: &HubSettings,
    wanted: &RemoteFile<'_>,
    partial: &mut Partial,
    expected: &mut ExpectedFile,
    of: Of,
    watch: &mut Watch<'_>,
) -> Result<()> {
    if expected.size.is_some_and(|size| partial.len > size) {
        partial.restart()?;
    }
    if expected.size == Some(partial.len) {
        return Ok(());
    }
    let if_range = partial.saved_etag();
    let ask = Ask { url: wanted.url.clone(), from: partial.len, if_range, accept: None };
    let (head, body) = http::get(settings, &ask, watch.stop)?;
    let size = match (head.status, head.range) {
        (206, Some((first, total))) if first == partial.len => Some(total),
        (206, found) => {
            let what = format!("expected the part from byte {}, found {found:?}", partial.len);
            return Err(bad(wanted, what));
        }
        (416, range) if range.is_none_or(|(_, total)| total != partial.len) => {
            partial.restart()?;
            return Err(Error::Network { url: wanted.url.clone(), what: "the file is another one by now".into() });
        }
        (416, _) => return Ok(()),
        _ => {
            partial.restart()?;
            head.length
        }
    };
    settle(wanted, expected, &head, size)?;
    partial.note_tag(head.etag.as_deref())?;
    let total = if of.1 > 0 { of.1 } else { expected.size.unwrap_or(0) };
    (watch.tell)(Event::Begins { name: wanted.name, total });
    while let Some(piece) = body.piece()? {
        if let Some(size) = expected.size.filter(|size| partial.len + piece.len() as u64 > *size) {
            partial.restart()?;
            return Err(bad(wanted, format!("expected {size} bytes, found more")));
        }
        partial.write(&piece)?;
        (watch.tell)(Event::Bytes(of.0 + partial.len));
    }
    match expected.size.filter(|size| *size != partial.len) {
        Some(size) => {
            let what = format!("expected {size} bytes, the connection ended after {}", partial.len);
            Err(Error::Network { url: wanted.url.clone(), what })
        }
        None => Ok(()),
    }
}

/// Holds what the host says of a file against what is known of it.
fn settle(wanted: &RemoteFile<'_>, expected: &mut ExpectedFile, head: &ResponseHead, size: Option<u64>) -> Result<()> {
    for found in [size, head.size].into_iter().flatten() {
        let known = *expected.size.get_or_insert(found);
        if known != found {
            return Err(bad(wanted, format!("expected {known} bytes, found {found}")));
        }
    }
    if expected.sha256.is_none() {
        expected.sha256 = head.sha256.clone();
    }
    Ok(())
}
