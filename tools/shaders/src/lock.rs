//! What the committed SPIR-V was made of, and what it is: `shaders/spirv.lock`, a line for each kernel. Whether sources changed
//! since, and whether the modules are those that were made then, is seen without a compiler.

use crate::sources::parts;
use pumex_shaders::kernels::KERNELS;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

const HEAD: &str =
    "# Made by build-shaders: kernel, SHA-256 (32 digits) of all that it is compiled from, and of its archive.\n";

/// What one kernel's archive was made of, and what it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LockLine {
    /// The hash of its sources.
    pub sources: String,
    /// The hash of the archive.
    pub archive: String,
}

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lock {
    /// Name and version of the compiler.
    pub compiler: String,
    /// By kernel.
    pub kernels: BTreeMap<String, LockLine>,
}

fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// The list of archives, of all kernels: `shaders/src/modules.rs`.
pub fn index() -> String {
    let mut kernels: Vec<&str> = KERNELS.iter().map(|k| k.name).collect();
    kernels.sort_unstable();
    let mut index =
        String::from("//! Made by build-shaders; the archive of every kernel's modules, sorted by name.\n\n");
    index += "/// Archives, one for each kernel.\npub const ARCHIVES: &[&[u8]] = &[\n";
    index.extend(kernels.iter().map(|kernel| format!("    include_bytes!(\"../spirv/{kernel}.bin\"),\n")));
    index + "];\n"
}

/// What the tree under `root` has now.
///
/// # Errors
/// A file that cannot be read.
pub fn lock_of_tree(root: &Path) -> Result<Lock, String> {
    let read = |path: &Path| fs::read(path).map_err(|e| format!("{}: {e}", path.display()));
    let versions = String::from_utf8(read(&root.join("Cargo.lock"))?).map_err(|e| format!("Cargo.lock: {e}"))?;
    let version = versions.split("name = \"shaderc\"\nversion = \"").nth(1).and_then(|rest| rest.split('"').next());
    let compiler = format!("shaderc {}", version.ok_or("Cargo.lock: expected shaderc, found none")?);
    let mut kernels = BTreeMap::new();
    for kernel in KERNELS {
        let mut all = Vec::new();
        for (name, content) in parts(kernel, &root.join("shaders/glsl"))? {
            all.extend(format!("{} {} {name}\n", name.len(), content.len()).into_bytes());
            all.extend(content.into_bytes());
        }
        let archive = hash(&read(&root.join(format!("shaders/spirv/{}.bin", kernel.name)))?);
        kernels.insert(kernel.name.to_string(), LockLine { sources: hash(&all), archive });
    }
    Ok(Lock { compiler, kernels })
}

/// Archives and the list of them that no kernel has, or that are not as they should be.
///
/// # Errors
/// A file that cannot be read.
pub fn strays(root: &Path) -> Result<Vec<String>, String> {
    let folder = root.join("shaders/spirv");
    let mut strays = Vec::new();
    for entry in fs::read_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))? {
        let path = entry.map_err(|e| e.to_string())?.path();
        if !KERNELS.iter().any(|k| path == folder.join(format!("{}.bin", k.name))) {
            strays.push(format!("no source makes {}", path.display()));
        }
    }
    if fs::read_to_string(root.join("shaders/src/modules.rs")).ok() != Some(index()) {
        strays.push("shaders/src/modules.rs does not list the archives of all kernels".into());
    }
    Ok(strays)
}

impl Lock {
    /// What [`Lock::text`] wrote; lines that are none are left out, and so missed.
    pub fn parse(text: &str) -> Lock {
        let mut lock = Lock::default();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            match line.split_whitespace().collect::<Vec<_>>()[..] {
                ["compiler", name, version] => lock.compiler = format!("{name} {version}"),
                [kernel, sources, archive] => {
                    let line = LockLine { sources: sources.into(), archive: archive.into() };
                    lock.kernels.insert(kernel.into(), line);
                }
                _ => {}
            }
        }
        lock
    }

    /// The file's text.
    pub fn text(&self) -> String {
        let kernels = self.kernels.iter().map(|(kernel, line)| format!("{kernel} {} {}\n", line.sources, line.archive));
        format!("{HEAD}compiler {}\n", self.compiler) + &kernels.collect::<String>()
    }

    /// In what the tree differs from it.
    pub fn differences(&self, found: &Lock) -> Vec<String> {
        let mut told = Vec::new();
        if self.compiler != found.compiler {
            told.push(format!("the compiler was {}, now it is {}", self.compiler, found.compiler));
        }
        for (kernel, now) in &found.kernels {
            match self.kernels.get(kernel) {
                None => told.push(format!("{kernel}: was never compiled")),
                Some(then) if then.sources != now.sources => told.push(format!("{kernel}: its sources changed since")),
                Some(then) if then.archive != now.archive => told.push(format!("{kernel}: its SPIR-V is another")),
                Some(_) => {}
            }
        }
        let gone = self.kernels.keys().filter(|kernel| !found.kernels.contains_key(*kernel));
        told.extend(gone.map(|kernel| format!("{kernel}: there is no such kernel")));
        told
    }

    /// Kernels that were compiled since `base`; all of them with another compiler.
    pub fn kernels_changed_since(&self, base: &Lock) -> Vec<&str> {
        let other = self.compiler != base.compiler;
        let new = self.kernels.iter().filter(|(kernel, line)| other || base.kernels.get(*kernel) != Some(line));
        new.map(|(kernel, _)| kernel.as_str()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root() -> &'static Path {
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
    }

    #[test]
    fn the_committed_modules_are_those_that_the_committed_sources_made() {
        let committed = Lock::parse(&fs::read_to_string(root().join("shaders/spirv.lock")).unwrap());
        let differences = committed.differences(&lock_of_tree(root()).unwrap());
        assert!(differences.is_empty(), "make shaders: {differences:#?}");
        assert_eq!(strays(root()).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn what_changed_is_told_by_kernel() {
        let line = |sources: &str, archive: &str| LockLine { sources: sources.into(), archive: archive.into() };
        let kernels = ["a", "b", "c", "d"].map(|kernel| (kernel.to_string(), line("1", "2")));
        let base = Lock { compiler: "shaderc 1".into(), kernels: kernels.into() };
        assert_eq!(Lock::parse(&base.text()), base);
        let mut now = base.clone();
        now.kernels.insert("b".into(), line("3", "2"));
        now.kernels.insert("c".into(), line("1", "4"));
        now.kernels.insert("e".into(), line("5", "6"));
        now.kernels.remove("d");
        let told = base.differences(&now).join("; ");
        let parts =
            ["b: its sources changed", "c: its SPIR-V is another", "e: was never compiled", "d: there is no such"];
        assert!(parts.iter().all(|part| told.contains(part)) && !told.contains("a:"), "{told}");
        assert_eq!(now.kernels_changed_since(&base), ["b", "c", "e"]);
        let other = Lock { compiler: "shaderc 2".into(), ..base.clone() };
        assert!(base.differences(&other).len() == 1 && other.kernels_changed_since(&base).len() == 4);
    }

    #[test]
    fn a_kernel_is_made_of_all_that_it_includes() {
        let kernel = KERNELS.iter().find(|k| k.name == "megakernel").unwrap();
        let parts = parts(kernel, &root().join("shaders/glsl")).unwrap();
        let has = |name: &str| parts.contains_key(name);
        assert!(
            has("megakernel.comp") && has("lib/megakernel.glsl") && has("lib/types.glsl") && has("words/stage.glsl")
        );
        assert!(
            has("quant/q4_k.glsl") && has("quant/contract.glsl") && has("fields.glsl of q4_k"),
            "{:?}",
            parts.keys()
        );
        assert!(parts["jobs"].contains("megakernel."), "{}", parts["jobs"]);
    }
}
