//! The shape of the sources: who may know what, and how long a file may be.

use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Every source under the folders, as path from the root and text.
fn sources(folders: &[&str], ends: &[&str]) -> Vec<(String, String)> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, found);
            } else {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    folders.iter().for_each(|f| walk(&root().join(f), &mut found));
    let wanted = |p: &&PathBuf| ends.iter().any(|e| p.to_string_lossy().ends_with(e));
    let name = |p: &Path| p.strip_prefix(root()).unwrap().to_string_lossy().replace('\\', "/");
    found.iter().filter(wanted).map(|p| (name(p), std::fs::read_to_string(p).unwrap())).collect()
}

fn rust() -> Vec<(String, String)> {
    sources(&["src", "quant/src", "quant/tests", "shaders/src", "tools/src", "tests"], &[".rs"])
}

/// Asserts that only files for which `allowed` holds contain one of `words`.
fn only_in(words: &[&str], allowed: impl Fn(&str) -> bool) {
    for (name, text) in rust() {
        if !allowed(&name) && name != "tests/layout.rs" {
            for (i, line) in text.lines().enumerate() {
                assert!(!words.iter().any(|w| line.contains(w)), "{name}:{}: {}", i + 1, line.trim());
            }
        }
    }
}

#[test]
fn no_file_is_longer_than_a_reader_likes() {
    for (name, text) in rust().into_iter().chain(sources(&["shaders/glsl"], &[".comp", ".glsl"])) {
        let lines = text.lines().count();
        assert!(lines <= 600, "{name}: {lines} lines");
        let snapshot = name == "tests/plans.rs"; // a plan's lines are as long as they are
        assert!(snapshot || text.lines().all(|l| l.chars().count() <= 140), "{name}: a line over 140 characters");
    }
}

/// A shader with what it includes, as far as that is in files.
fn flattened(folder: &Path, text: &str) -> String {
    let included = |line: &str| {
        let name = line.strip_prefix("#include \"")?.strip_suffix('"')?;
        std::fs::read_to_string(folder.join(name)).ok().map(|text| flattened(folder, &text))
    };
    text.lines().map(|line| included(line).unwrap_or(format!("{line}\n"))).collect()
}

/// Compilers take the size for 1 above its declaration, and say nothing.
#[test]
fn shaders_declare_their_workgroup_before_they_ask_for_its_size() {
    let folder = root().join("shaders/glsl");
    for (name, text) in sources(&["shaders/glsl"], &[".comp"]) {
        let text = flattened(&folder, &text);
        let declared = text.find("layout(local_size_x").unwrap_or_else(|| panic!("{name}: no workgroup"));
        let asked = text.find("gl_WorkGroupSize").unwrap_or(text.len());
        assert!(declared < asked, "{name}: gl_WorkGroupSize before local_size_x");
    }
}

#[test]
fn unsafe_code_lives_in_the_vulkan_and_map_modules_and_says_why() {
    only_in(&["unsafe {", "unsafe fn", "unsafe impl"], |name| name.starts_with("src/vk/") || name == "src/map.rs");
    for (name, text) in rust().into_iter().filter(|(n, _)| n.starts_with("src/")) {
        let lines: Vec<&str> = text.lines().collect();
        for (i, _) in lines.iter().enumerate().filter(|(_, l)| l.contains("unsafe {")) {
            let near = &lines[i.saturating_sub(4)..=i];
            assert!(near.iter().any(|l| l.contains("SAFETY")), "{name}:{}: unsafe without its reason", i + 1);
        }
    }
}

#[test]
fn only_the_policy_knows_vendors() {
    only_in(&["0x10de", "0x10DE", "0x1002", "0x8086", "NVIDIA", "RADV"], |name| {
        name.starts_with("src/policy/") || name == "src/vk/select.rs" || name.starts_with("tests/")
    });
    only_in(&["DeviceKind::"], |name| {
        name.starts_with("src/policy/")
            || name.starts_with("src/vk/")
            || name.starts_with("tests/")
            || name == "src/cli/devices.rs"
    });
}

#[test]
fn the_environment_is_read_in_few_places() {
    only_in(&["env::var"], |name| {
        ["src/vk/cache.rs", "src/cli.rs"].contains(&name) || name.starts_with("tools/") || name.starts_with("tests/")
    });
}

#[test]
fn modules_depend_downwards_only() {
    // (module, what it must not know)
    let edges: &[(&str, &[&str])] = &[
        ("src/gguf", &["crate::model", "crate::plan", "crate::engine", "crate::vk", "crate::cli", "crate::text"]),
        ("src/text", &["crate::model", "crate::plan", "crate::engine", "crate::vk", "crate::cli"]),
        ("src/plan", &["crate::engine", "crate::vk", "crate::cli", "crate::text", "crate::reference"]),
        ("src/model", &["crate::engine", "crate::vk", "crate::cli", "crate::text", "crate::reference"]),
        ("src/reference", &["crate::engine", "crate::vk", "crate::cli", "crate::text"]),
        (
            "src/vk",
            &[
                "crate::step",
                "crate::sample",
                "crate::engine",
                "crate::model",
                "crate::plan",
                "crate::cli",
                "crate::gguf",
                "crate::kernel",
            ],
        ),
        ("src/sample", &["crate::engine", "crate::vk", "crate::model", "crate::cli"]),
        ("src/engine", &["crate::cli", "crate::text", "crate::conversation"]),
        ("src/conversation", &["crate::cli", "crate::vk"]),
        ("quant/src", &["pumex::", "ash", "std::fs", "std::env"]),
        ("shaders/src", &["pumex::", "ash::", "std::fs"]),
    ];
    for (module, forbidden) in edges {
        let (file, folder) = (format!("{module}.rs"), format!("{module}/"));
        for (name, text) in rust().into_iter().filter(|(n, _)| *n == file || n.starts_with(&folder)) {
            for line in text.lines().filter(|l| l.trim_start().starts_with("use ") || l.contains("crate::")) {
                assert!(!forbidden.iter().any(|f| line.contains(f)), "{name}: {}", line.trim());
            }
        }
    }
}

#[test]
fn every_source_says_what_it_is() {
    for (name, text) in rust() {
        assert!(text.starts_with("//!") || text.starts_with("// @generated"), "{name} starts without a description");
    }
}
