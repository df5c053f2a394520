//! Media in files of the server: of one folder alone.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::path::{Component, Path, PathBuf};

/// What a `file:` URL says: its path, decoded.
fn path_of(url: &str) -> Option<PathBuf> {
    let rest = url.get("file:".len()..)?;
    let rest = rest.strip_prefix("//").unwrap_or(rest);
    let rest = rest.strip_prefix("localhost/").map_or(rest.to_string(), |rest| format!("/{rest}"));
    let mut bytes = Vec::with_capacity(rest.len());
    let mut each = rest.bytes();
    while let Some(byte) = each.next() {
        let mut digit = || (each.next()? as char).to_digit(16);
        bytes.push(match byte {
            b'%' => u8::try_from(digit()? * 16 + digit()?).ok()?,
            other => other,
        });
    }
    let text = String::from_utf8(bytes).ok()?;
    (!text.contains('\0')).then(|| PathBuf::from(text))
}

/// The file of a `file:` URL: under the folder by its whole path, or by one from the folder on.
///
/// # Errors
/// One that does not stand under the folder, also by way of links; what is no plain file; one that has no bytes or more than these.
pub fn read(folder: &Path, url: &str, most: usize) -> Result<Vec<u8>, String> {
    // Of files elsewhere nothing is told, not even whether they are there.
    let absent = || "expected a file under the folder of --media-path, found none".to_string();
    let path = path_of(url).ok_or_else(absent)?;
    let within = path.strip_prefix(folder).or_else(|_| path.strip_prefix("/")).unwrap_or(&path);
    if !within.components().all(|part| matches!(part, Component::Normal(_))) {
        return Err(absent());
    }
    let folder = folder.canonicalize().map_err(|_| absent())?;
    let whole = folder.join(within).canonicalize().map_err(|_| absent())?;
    if !whole.starts_with(&folder) {
        return Err(absent());
    }
    let file = open(&whole).map_err(|_| absent())?;
    let about = file.metadata().map_err(|_| absent())?;
    if !about.is_file() {
        return Err(absent());
    }
    let too_long = || format!("expected a file of at most {most} bytes, found more");
    if about.len() > most as u64 {
        return Err(too_long());
    }
    let mut bytes = Vec::new();
    file.take(most as u64 + 1).read_to_end(&mut bytes).map_err(|_| absent())?;
    match bytes.len() {
        0 => Err("expected a file, found no bytes".into()),
        n if n > most => Err(too_long()),
        _ => Ok(bytes),
    }
}

/// Opens a file without waiting for those at the other end of one that is a pipe.
#[cfg(unix)]
fn open(path: &Path) -> std::io::Result<File> {
    use rustix::fs::OFlags;
    use std::os::unix::fs::OpenOptionsExt;
    let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::NOCTTY;
    OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path)
}

#[cfg(not(unix))]
fn open(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().read(true).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn only_plain_files_under_the_folder_are_read() {
        let root = std::env::temp_dir().join(format!("pumex-media-{}", std::process::id()));
        let folder = root.join("media");
        std::fs::create_dir_all(folder.join("sub")).unwrap();
        let write = |path: &str, text: &str| std::fs::write(root.join(path), text).unwrap();
        write("media/a.png", "a");
        write("media/sub/b c.png", "b");
        write("media/empty.png", "");
        write("media/long.png", &"x".repeat(11));
        write("secret.png", "s");
        std::fs::create_dir_all(root.join("media-too")).unwrap();
        write("media-too/t.png", "t");
        std::os::unix::fs::symlink("a.png", folder.join("inside.png")).unwrap();
        std::os::unix::fs::symlink("../secret.png", folder.join("outside.png")).unwrap();
        std::os::unix::fs::symlink("/etc", folder.join("etc")).unwrap();
        let pipe = folder.join("pipe.png");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
        let whole = folder.display().to_string();
        let found = |url: &str| read(&folder, url, 10);
        for (url, text) in [
            ("file:///a.png".to_string(), "a"),
            ("file://a.png".to_string(), "a"),
            ("file:a.png".to_string(), "a"),
            ("file://localhost/a.png".to_string(), "a"),
            (format!("file://{whole}/a.png"), "a"),
            (format!("FILE://{whole}/sub/b%20c.png"), "b"),
            ("file:///inside.png".to_string(), "a"),
        ] {
            assert_eq!(found(&url), Ok(text.as_bytes().to_vec()), "{url}");
        }
        for (url, words) in [
            ("file:///../secret.png", "found none"),
            ("file://sub/../../secret.png", "found none"),
            ("file:///%2e%2e/secret.png", "found none"),
            ("file:///outside.png", "found none"),
            ("file:///etc/passwd", "found none"),
            ("file:///pipe.png", "found none"),
            ("file:///sub", "found none"),
            ("file:///", "found none"),
            ("file:", "found none"),
            ("file:///no.png", "found none"),
            ("file:///a.png%00", "found none"),
            ("file:///a.png%2", "found none"),
            ("file:///empty.png", "no bytes"),
            ("file:///long.png", "at most 10 bytes"),
        ] {
            assert!(found(url).is_err_and(|e| e.contains(words)), "{url}");
        }
        for name in ["secret.png", "media-too/t.png"] {
            assert!(found(&format!("file://{}/{name}", root.display())).is_err(), "{name}");
        }
        std::fs::remove_dir_all(&root).unwrap();
    }
}
