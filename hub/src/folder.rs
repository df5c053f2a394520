//! A folder of models, as a server has it: files, and folders with one model each.
//!
//! Names that no file may have are written with `%2F` for `/` and `%3A` for `:`, so that `llama3.2:1b` is a model of its own name.

use crate::cache_entries::{names, CachedModel, RemovedFiles};
use crate::name::{self, Host, Name};
use crate::{Error, Result, ASIDE};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// A folder of models.
#[derive(Clone, Debug)]
pub struct LocalFolder {
    root: PathBuf,
}

/// Characters that stand otherwise in names of files.
const ESCAPES: [(&str, &str); 3] = [("%", "%25"), ("/", "%2F"), (":", "%3A")];

/// A model's name as the name of a file or folder.
pub fn escape(name: &str) -> String {
    ESCAPES.iter().fold(name.to_string(), |name, (plain, escaped)| name.replace(plain, escaped))
}

/// The model's name that a file or folder has.
pub fn unescape(file: &str) -> String {
    ESCAPES.iter().rev().fold(file.to_string(), |file, (plain, escaped)| file.replace(escaped, plain))
}

/// A model's name without the tag that says nothing.
fn plain(name: &str) -> Result<&str> {
    let plain = name.strip_suffix(":latest").unwrap_or(name);
    Name::of(Host::Ollama, plain).map(|_| plain)
}

/// The stem of a file that is a model, but for its part's number.
fn stem(file: &str) -> Option<&str> {
    file.strip_suffix(".gguf").filter(|_| name::is_model(file))
}

impl LocalFolder {
    /// The folder at a path, which need not be there yet.
    pub fn new(root: &Path) -> LocalFolder {
        LocalFolder { root: root.to_path_buf() }
    }

    /// All models, by name.
    pub fn models(&self) -> Vec<CachedModel> {
        let mut found = Vec::new();
        // What is being put there has a name that begins with a point.
        for entry in names(&self.root).into_iter().filter(|name| !name.starts_with('.')) {
            let path = self.root.join(&entry);
            if path.is_dir() {
                let mut files = names(&path);
                files.retain(|file| stem(file).is_some());
                if let [only] = &files[..] {
                    found.extend(read_cached_model(unescape(&entry), &path, only));
                }
            } else if let Some(stem) = stem(&entry) {
                found.extend(read_cached_model(unescape(stem), &self.root, &entry));
            }
        }
        found.sort_by(|a, b| a.name.cmp(&b.name));
        found
    }

    /// The model of that name.
    ///
    /// # Errors
    /// None that has it.
    pub fn find(&self, name: &str) -> Result<CachedModel> {
        let plain = name.strip_suffix(":latest").unwrap_or(name);
        let found = self.models().into_iter().find(|kept| kept.name == plain || kept.name == name);
        found.ok_or_else(|| {
            let folder = self.root.display();
            Error::Name(format!("{name}: expected a model of {folder}, found none of that name"))
        })
    }

    /// Takes in a model's files under a name, in place of one that has it: links where the file system has them, else copies.
    /// Gives the path of its first part.
    ///
    /// # Errors
    /// A name that no model may have; what the file system says.
    pub fn add(&self, name: &str, model: &Path, projector: Option<&Path>) -> Result<PathBuf> {
        let plain = plain(name)?;
        let file = model.file_name().and_then(|file| file.to_str()).unwrap_or("model.gguf").to_string();
        let mut files: Vec<PathBuf> = name::parts(&file).iter().map(|part| model.with_file_name(part)).collect();
        files.extend(Some(aside_of(model)).filter(|path| path.is_file()));
        files.extend(projector.map(Path::to_path_buf));
        self.place(plain, &files)?;
        Ok(self.root.join(escape(plain)).join(file))
    }

    /// Puts files into the folder of a name, all or none.
    fn place(&self, name: &str, files: &[PathBuf]) -> Result<()> {
        let target = self.root.join(escape(name));
        let beside = self.root.join(format!(".{}-{}.part", escape(name), std::process::id()));
        let io = |path: &Path| {
            let path = path.to_path_buf();
            move |e| Error::io(&path, e)
        };
        let _ = std::fs::remove_dir_all(&beside);
        std::fs::create_dir_all(&beside).map_err(io(&beside))?;
        let linked = files.iter().try_for_each(|file| link(file, &beside.join(file.file_name().unwrap_or_default())));
        if let Err(error) = linked {
            let _ = std::fs::remove_dir_all(&beside);
            return Err(error);
        }
        if let Ok(old) = self.find(name) {
            self.take(&old)?;
        }
        std::fs::rename(&beside, &target).map_err(|e| {
            let _ = std::fs::remove_dir_all(&beside);
            Error::io(&target, e)
        })
    }

    /// Takes a model's files away.
    ///
    /// # Errors
    /// No such model; what the file system says.
    pub fn remove(&self, name: &str) -> Result<RemovedFiles> {
        self.take(&self.find(name)?)
    }

    fn take(&self, kept: &CachedModel) -> Result<RemovedFiles> {
        let mut removed = RemovedFiles::default();
        let folder = kept.path.parent().unwrap_or(&self.root);
        let mut paths: Vec<PathBuf> = name::parts(&kept.file).iter().map(|part| folder.join(part)).collect();
        paths.push(aside_of(&kept.path));
        if folder != self.root {
            let files = names(folder).into_iter().filter(|file| file.ends_with(".gguf"));
            paths.extend(files.map(|file| folder.join(file)));
        }
        paths.sort();
        paths.dedup();
        for path in paths.iter().filter(|path| path.is_file()) {
            removed.take(path)?;
        }
        if folder != self.root {
            // What else stands there is its user's.
            let _ = std::fs::remove_dir(folder);
        }
        Ok(removed)
    }

    /// Gives a model a second name. Its bytes are there once where the file system has links.
    ///
    /// # Errors
    /// No such model; a name that no model may have; what the file system says.
    pub fn copy(&self, from: &str, to: &str) -> Result<()> {
        let (kept, to) = (self.find(from)?, plain(to)?);
        if kept.name == to {
            return Ok(());
        }
        let folder = kept.path.parent().unwrap_or(&self.root);
        let mut files: Vec<PathBuf> = name::parts(&kept.file).iter().map(|part| folder.join(part)).collect();
        files.extend(Some(aside_of(&kept.path)).filter(|path| path.is_file()));
        if folder != self.root {
            let projector = |file: &String| file.contains("mmproj") && file.ends_with(".gguf");
            files.extend(names(folder).into_iter().filter(projector).map(|file| folder.join(file)));
        }
        self.place(to, &files)
    }

    /// Writes what is said of how a model is used ([`ASIDE`]) beside it, in place of the keys that were said before.
    ///
    /// # Errors
    /// No such model; what the file system says.
    pub fn say(&self, name: &str, said: &serde_json::Map<String, Value>) -> Result<()> {
        let kept = self.find(name)?;
        let path = aside_of(&kept.path);
        let known = std::fs::read_to_string(&path).ok().and_then(|text| serde_json::from_str(&text).ok());
        let mut all: serde_json::Map<String, Value> = known.unwrap_or_default();
        for (key, value) in said {
            match (all.get_mut(key), value) {
                (Some(Value::Object(known)), Value::Object(new)) => known.extend(new.clone()),
                _ => drop(all.insert(key.clone(), value.clone())),
            }
        }
        // The file may be a link to what another name has.
        let beside = path.with_extension("part");
        let written = std::fs::write(&beside, Value::Object(all).to_string());
        written.and_then(|()| std::fs::rename(&beside, &path)).map_err(|e| Error::io(&path, e))
    }
}

/// What a model's file has beside it.
pub fn aside_of(model: &Path) -> PathBuf {
    let mut name = model.file_name().unwrap_or_default().to_os_string();
    name.push(ASIDE);
    model.with_file_name(name)
}

fn read_cached_model(name: String, folder: &Path, file: &str) -> Option<CachedModel> {
    let path = folder.join(file);
    let meta = std::fs::metadata(&path).ok().filter(|meta| meta.is_file())?;
    let size = |part: &String| std::fs::metadata(folder.join(part)).map_or(0, |meta| meta.len());
    let bytes = name::parts(file).iter().map(size).sum();
    Some(CachedModel { name, file: file.to_string(), path, bytes, modified: meta.modified().ok() })
}

/// One file under a second name.
fn link(from: &Path, to: &Path) -> Result<()> {
    // A name of the cache is a link itself.
    let real = from.canonicalize().map_err(|e| Error::io(from, e))?;
    match std::fs::hard_link(&real, to) {
        Ok(()) => Ok(()),
        Err(_) => std::fs::copy(&real, to).map(drop).map_err(|e| Error::io(to, e)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A folder of its own, gone at the end.
    struct Own(PathBuf);

    impl Own {
        fn new(name: &str) -> Own {
            let path = std::env::temp_dir().join(format!("pumex-hub-folder-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Own(path)
        }

        fn file(&self, name: &str, text: &str) -> PathBuf {
            let path = self.0.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, text).unwrap();
            path
        }
    }

    impl Drop for Own {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn list_files(folder: &LocalFolder) -> Vec<String> {
        folder.models().into_iter().map(|kept| kept.name).collect()
    }

    #[test]
    fn names_go_through_files_and_back() {
        for name in ["m", "llama3.2:1b", "hf.co/user/m:Q4_K_M", "100%", "a%2Fb"] {
            assert_eq!(unescape(&escape(name)), name);
            assert!(!escape(name).contains(['/', ':']));
        }
    }

    #[test]
    fn models_are_added_copied_and_removed_by_name() {
        let (from, own) = (Own::new("from"), Own::new("models"));
        let folder = LocalFolder::new(&own.0.join("new"));
        assert!(folder.models().is_empty());
        let model = from.file("x-00001-of-00002.gguf", "one");
        from.file("x-00002-of-00002.gguf", "second");
        from.file(&format!("x-00001-of-00002.gguf{ASIDE}"), r#"{"system":"a","parameters":{"top_k":1}}"#);
        let projector = from.file("mmproj-x.gguf", "eyes");
        let path = folder.add("x:1b", &model, Some(&projector)).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one");
        assert!(path.with_file_name("mmproj-x.gguf").is_file());
        assert_eq!((list_files(&folder), folder.find("x:1b").unwrap().bytes), (vec!["x:1b".to_string()], 9));
        folder.copy("x:1b", "y:latest").unwrap();
        assert_eq!(list_files(&folder), ["x:1b", "y"]);
        let said = json!({"system": "b", "parameters": {"top_p": 0.5}});
        folder.say("y", said.as_object().unwrap()).unwrap();
        let aside = |name: &str| -> Value {
            let path = aside_of(&folder.find(name).unwrap().path);
            serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
        };
        assert_eq!(aside("y:latest"), json!({"system": "b", "parameters": {"top_k": 1, "top_p": 0.5}}));
        assert_eq!(aside("x:1b")["system"], "a", "the other name's stays as it was");
        // A name that is taken gets the new one.
        let other = from.file("z.gguf", "another");
        folder.add("y", &other, None).unwrap();
        assert_eq!((list_files(&folder).len(), folder.find("y").unwrap().bytes), (2, 7));
        assert_eq!(folder.remove("x:1b").unwrap().files, 4);
        assert_eq!(list_files(&folder), ["y"]);
        assert!(folder.remove("x:1b").is_err() && folder.copy("x:1b", "w").is_err());
        for bad in ["../evil", "", "a/../b", "/etc/x", "a\0b"] {
            assert!(folder.add(bad, &other, None).is_err() && folder.copy("y", bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_file_of_the_folder_is_a_model_and_goes_alone() {
        let own = Own::new("plain");
        own.file("a.gguf", "a");
        own.file("b-00001-of-00002.gguf", "b");
        own.file("b-00002-of-00002.gguf", "b");
        own.file("two/x.gguf", "x");
        own.file("two/y.gguf", "y");
        own.file("mmproj-a.gguf", "eyes");
        let folder = LocalFolder::new(&own.0);
        assert_eq!(list_files(&folder), ["a", "b-00001-of-00002"]);
        folder.copy("a", "c").unwrap();
        assert_eq!(folder.remove("a").unwrap(), RemovedFiles { files: 1, bytes: 1 });
        assert_eq!(folder.remove("b-00001-of-00002").unwrap(), RemovedFiles { files: 2, bytes: 2 });
        assert_eq!(list_files(&folder), ["c"]);
        assert!(own.0.join("mmproj-a.gguf").is_file() && own.0.join("two/x.gguf").is_file());
    }
}
