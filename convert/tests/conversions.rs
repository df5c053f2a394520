//! Seeded folders become the bytes that `convert_hf_to_gguf.py` makes of them, of which the sums are kept.
//!
//! `PUMEX_CONVERT_OUT=FOLDER` writes the folders there, for `tests/oracle.py` to convert.

#![allow(clippy::unwrap_used, missing_docs)]

mod recipe;

use pumex_convert::{Conversion, ConversionOptions, FileType};
use recipe::cases::all;
use recipe::RecipeFolder;
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};

const TYPES: [(&str, FileType); 4] =
    [("f32", FileType::F32), ("f16", FileType::F16), ("bf16", FileType::Bf16), ("q8_0", FileType::Q8_0)];

/// A folder of its own, gone at the end.
struct TemporaryFolder(PathBuf);

impl TemporaryFolder {
    fn new(name: &str) -> TemporaryFolder {
        let path = std::env::temp_dir().join(format!("pumex-convert-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        TemporaryFolder(path)
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn options(folder: &RecipeFolder, dir: &Path, file_type: FileType) -> ConversionOptions {
    let base = folder.base.map(|base| dir.parent().unwrap().join(base));
    ConversionOptions { file_type: Some(file_type), pre: pre(folder), base }
}

fn pre(folder: &RecipeFolder) -> Option<String> {
    let of = folder.base.map(|base| all().into_iter().find(|f| f.name == base).unwrap().pre);
    of.unwrap_or(folder.pre).map(String::from)
}

fn bytes(conversion: &Conversion) -> Vec<u8> {
    let mut out = Vec::new();
    let report = conversion
        .write(
            &mut |bytes| {
                out.extend(bytes);
                Ok(())
            },
            &mut |_| true,
        )
        .unwrap();
    assert_eq!(report.bytes, out.len() as u64);
    out
}

fn sum(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect()
}

#[test]
fn folders_become_what_the_oracle_makes_of_them() {
    let kept = std::env::var("PUMEX_CONVERT_OUT").ok().map(PathBuf::from);
    let scratch = TemporaryFolder::new("oracle");
    let into = kept.clone().unwrap_or(scratch.0.clone());
    let golden = include_str!("golden/sums.txt");
    let mut wrong = Vec::new();
    for folder in all() {
        let dir = folder.write(&into);
        if kept.is_some() {
            let line =
                format!("{}\n{}\n{}\n", folder.name, pre(&folder).unwrap_or_default(), folder.base.unwrap_or_default());
            std::fs::write(into.join(format!("{}.oracle", folder.name)), line).unwrap();
        }
        for (name, file_type) in TYPES {
            let bytes = match Conversion::new(&dir, &options(&folder, &dir, file_type)) {
                Ok(conversion) => bytes(&conversion),
                Err(e) => {
                    wrong.push(format!("{} {name}: {e}", folder.name));
                    continue;
                }
            };
            if kept.is_some() {
                std::fs::write(into.join(format!("{}.{name}.ours.gguf", folder.name)), &bytes).unwrap();
            }
            let line = format!("{} {name} {}", folder.name, sum(&bytes));
            if !golden.lines().any(|l| l == line) {
                wrong.push(line);
            }
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!(golden.lines().count(), all().len() * TYPES.len());
}

/// What documents say of a folder's family.
fn row(folder: &RecipeFolder) -> String {
    let config = |f: &RecipeFolder| serde_json::from_slice::<serde_json::Value>(&f.files["config.json"]).unwrap();
    let of = folder.base.map(|base| all().into_iter().find(|f| f.name == base).unwrap());
    let config = config(of.as_ref().unwrap_or(folder));
    let class = config["architectures"][0].as_str().unwrap();
    let family = pumex_convert::families().iter().find(|f| f.classes.contains(&class)).unwrap();
    format!("| {} | `{class}` | `{}` | equal | equal | equal | equal |", folder.title, family.arch)
}

#[test]
fn documents_list_every_folder_and_every_class() {
    let document = include_str!("../../docs/convert.md");
    let rows: Vec<String> = all().iter().map(row).collect();
    let missing: Vec<&String> = rows.iter().filter(|row| !document.contains(row.as_str())).collect();
    assert!(missing.is_empty(), "docs/convert.md: expected these rows:\n{rows:#?}");
    assert_eq!(document.matches("| equal | equal | equal | equal |").count(), rows.len());
    for class in pumex_convert::families().iter().flat_map(|f| f.classes) {
        assert!(document.contains(&format!("`{class}`")), "docs/convert.md: {class}");
    }
}
