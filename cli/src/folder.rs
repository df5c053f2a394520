//! A folder in place of a model file (`-m DIR`): a Hugging Face folder is converted once, into the cache.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use pumex_gguf::{Error, Result};

/// The model file that a folder stands for. It is made in `cache` when the folder is first named, and again once its files changed;
/// `stop` ends that, and the program.
///
/// # Errors
/// A folder of something else; a model that cannot be converted; a full disk.
pub fn model(dir: &Path, cache: Option<&Path>, stop: &AtomicBool) -> Result<PathBuf> {
    if dir.join("config.json").is_file() {
        return convert::into_cache(dir, cache, stop);
    }
    let expected = "expected a model file or a Hugging Face folder, which has config.json, found a folder";
    let io = |source| Error::io(dir, source);
    let mut files: Vec<String> = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(io)? {
        let name = entry.map_err(io)?.file_name().to_string_lossy().into_owned();
        if name.ends_with(".gguf") {
            files.push(name);
        }
    }
    files.sort();
    let found = match &files[..] {
        _ if dir.join("adapter_config.json").is_file() => {
            " of an adapter: `pumex convert` makes a file for --lora of it".to_string()
        }
        [] => " without".into(),
        [name] => format!(" with {name}: -m {}", dir.join(name).display()),
        [name, ..] => format!(" with {} model files, such as {name}: name one of them", files.len()),
    };
    Err(Error::file(dir, "bad_folder", format!("{expected}{found}")))
}

#[cfg(not(feature = "convert"))]
mod convert {
    use super::*;

    pub fn into_cache(dir: &Path, _: Option<&Path>, _: &AtomicBool) -> Result<PathBuf> {
        let what = "expected a build with the feature `convert` for a folder, found one without; give a GGUF file";
        Err(Error::file(dir, "bad_folder", what))
    }
}

#[cfg(feature = "convert")]
mod convert {
    use super::*;
    use crate::convert::{failure, write};
    use crate::{output, signals};
    use pumex_convert::{Conversion, ConversionOptions};
    use std::collections::hash_map::DefaultHasher;
    use std::hash::{Hash, Hasher};

    /// A hash as text.
    fn hash_of(what: impl Hash) -> String {
        let mut hasher = DefaultHasher::new();
        what.hash(&mut hasher);
        format!("{:016x}", hasher.finish())
    }

    /// What a folder has: names, sizes and times of its files, and who converts them.
    fn state(dir: &Path) -> std::io::Result<String> {
        let mut files = Vec::new();
        for entry in std::fs::read_dir(dir)? {
            let entry = entry?;
            // What a link of the Hub's cache points to.
            let Ok(meta) = std::fs::metadata(entry.path()) else { continue };
            if meta.is_file() {
                files.push((entry.file_name(), meta.len(), meta.modified().ok()));
            }
        }
        files.sort();
        Ok(hash_of((env!("CARGO_PKG_VERSION"), files)))
    }

    pub fn into_cache(dir: &Path, cache: Option<&Path>, stop: &AtomicBool) -> Result<PathBuf> {
        let whole = std::fs::canonicalize(dir).map_err(|e| Error::io(dir, e))?;
        let expected = "expected HOME or XDG_CACHE_HOME, where the converted model goes, found neither";
        let cache = cache.ok_or_else(|| Error::file(dir, "bad_folder", expected))?.join("converted");
        let name = whole.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let stem = format!("{name}-{}-", hash_of(&whole));
        let file = cache.join(format!("{stem}{}.gguf", state(&whole).map_err(|e| Error::io(dir, e))?));
        if file.is_file() {
            return Ok(file);
        }
        std::fs::create_dir_all(&cache).map_err(|e| Error::io(&cache, e))?;
        output::say(format_args!("converting {} to {}, once\n", dir.display(), file.display()));
        let conversion = Conversion::new(&whole, &ConversionOptions::default()).map_err(failure)?;
        if write(&conversion, &file, stop)?.is_none() {
            signal_hook::low_level::exit(signals::code());
        }
        // What the folder had before.
        for entry in std::fs::read_dir(&cache).map_err(|e| Error::io(&cache, e))?.flatten() {
            let old = entry.file_name().to_string_lossy().starts_with(&stem) && entry.path() != file;
            if old && std::fs::remove_file(entry.path()).is_err() {
                tracing::warn!("{}: could not be removed", entry.path().display());
            }
        }
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_no_models_says_what_it_has() {
        let dir = std::env::temp_dir().join(format!("pumex-folder-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let told = || model(&dir, None, &AtomicBool::new(false)).unwrap_err().to_string();
        assert!(told().ends_with("found a folder without"), "{}", told());
        std::fs::write(dir.join("a.gguf"), b"GGUF").unwrap();
        assert!(told().ends_with(&format!("-m {}", dir.join("a.gguf").display())), "{}", told());
        std::fs::write(dir.join("b.gguf"), b"GGUF").unwrap();
        assert!(told().contains("2 model files, such as a.gguf"), "{}", told());
        std::fs::write(dir.join("adapter_config.json"), b"{}").unwrap();
        assert!(told().contains("--lora"), "{}", told());
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
