//! The shape of the sources: who may know what, and how long a file may be.

mod uses;

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
    sources(
        &[
            "src",
            "chat/src",
            "chat/tests",
            "convert/src",
            "convert/tests",
            "cpu/src",
            "cpu/tests",
            "examples",
            "grammar/src",
            "hub/src",
            "hub/tests",
            "media/src",
            "media/tests",
            "quant/src",
            "quant/tests",
            "serve/src",
            "serve/tests",
            "shaders/src",
            "tools/src",
            "tools/shaders/src",
            "tests",
        ],
        &[".rs"],
    )
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
fn unsafe_code_lives_in_the_kernels_the_vulkan_and_the_map_modules_and_says_why() {
    only_in(&["unsafe {", "unsafe fn", "unsafe impl"], |name| {
        name.starts_with("src/vk/")
            || name.starts_with("cpu/src/")
            || name == "convert/src/map.rs"
            || name == "src/map.rs"
            || name == "src/map/sigbus.rs"
    });
    for (name, text) in rust().into_iter().filter(|(n, _)| n.starts_with("src/") || n.starts_with("cpu/src/")) {
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
        name.starts_with("src/policy/")
            || name == "src/vk/select.rs"
            || name.starts_with("tests/")
            || name.starts_with("chat/tests/") // models are named after them
            || name == "src/cli/bench/compare.rs" // where published figures were measured
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
        ["src/api/hub.rs", "src/vk/cache.rs", "src/cli.rs", "src/cli/fetch.rs", "src/cli/chat/environment.rs"]
            .contains(&name)
            || name.starts_with("tools/")
            || name.starts_with("tests/")
            || name.starts_with("convert/tests/")
            || name.starts_with("media/tests/")
            || name.starts_with("serve/tests/")
    });
}

/// What a user names to be written is opened in one place, which loses no input, no pipe and no former file of a write that fails.
#[test]
fn outputs_are_opened_in_one_place() {
    let words = ["File::create", "fs::write(", "OpenOptions", "fs::rename", "fs::copy", "fs::remove_file"];
    // A cache of its own, whose name nobody gives.
    let allowed = ["src/file.rs", "src/vk/cache.rs"];
    for (name, text) in rust().into_iter().filter(|(name, _)| name.starts_with("src/") && !name.ends_with("tests.rs")) {
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        let found = words.iter().find(|word| code.contains(**word) && !allowed.contains(&name.as_str()));
        assert!(found.is_none(), "{name}: {found:?}: expected crate::file");
        let unchecked = name.starts_with("src/cli/") && name != "src/cli/files.rs" && code.contains("Replacing::");
        assert!(!unchecked, "{name}: expected outputs to be opened by cli::files");
    }
}

/// Every module of the library, lowest first, and what it may name: only rows above it, so that no circle can come about.
/// `a::B` allows nothing of `a` but `B`. Errors are everybody's.
const MODULES: &[(&str, &[&str])] = &[
    ("error", &[]),
    ("map", &[]),
    ("file", &[]),
    ("gguf", &["map"]),
    ("imatrix", &["gguf", "map"]),
    ("text", &["gguf"]),
    ("chat", &["gguf", "text"]),
    ("sample", &[]),
    ("vocabulary", &["sample", "text"]),
    ("step", &["sample"]),
    ("plan", &["step::Limits", "step::Squares", "step::VectorLimits"]),
    ("model", &["gguf", "plan"]),
    ("quantize", &["file", "gguf", "imatrix"]),
    ("adapter", &["gguf", "model", "plan", "quantize"]),
    ("pruning", &["gguf", "model", "plan", "quantize"]),
    ("synthetic", &["gguf", "quantize", "sample"]),
    ("session", &["plan::KV_BLOCK", "plan::LayerState", "step"]),
    ("embedding", &["gguf", "session::KV_BLOCK", "step", "text"]),
    ("vk", &["map"]),
    // These two are pure: capabilities are all they know of devices.
    (
        "policy",
        &[
            "plan::AttentionSpec",
            "plan::KV_BLOCK",
            "vk::Caps",
            "vk::DeviceKind",
            "vk::Disabled",
            "vk::KernelSubgroup",
            "vk::Tuned",
            "vk::TunedProduct",
            "vk::TunedShape",
            "vk::Way",
        ],
    ),
    ("lower", &["plan", "policy", "vk::Caps", "vk::TunedProduct"]),
    ("kernel", &["policy", "vk"]),
    ("exec", &["kernel", "lower", "plan", "policy", "vk"]),
    ("cpu", &["gguf", "plan", "sample", "session", "step"]),
    ("state", &["file", "gguf", "step"]),
    ("conversation", &["file", "imatrix", "map", "sample", "step"]),
    ("dialogue", &["conversation", "file", "sample", "step", "text"]),
    ("grammar", &["conversation", "text"]),
    (
        "engine",
        &[
            "exec",
            "file",
            "gguf",
            "kernel",
            "lower",
            "model",
            "plan",
            "policy",
            "quantize",
            "cpu",
            "sample",
            "session",
            "step",
            "synthetic",
            "vk",
        ],
    ),
    ("projector", &["conversation", "cpu", "engine", "gguf", "plan", "step", "text"]),
    (
        "server",
        &[
            "chat",
            "conversation",
            "dialogue",
            "embedding",
            "engine",
            "file",
            "gguf",
            "grammar",
            "model",
            "projector",
            "quantize",
            "sample",
            "session",
            "state",
            "step",
            "text",
            "vocabulary",
        ],
    ),
    (
        "api",
        &[
            "adapter",
            "conversation",
            "engine",
            "gguf",
            "grammar",
            "model",
            "plan",
            "projector",
            "sample",
            "server",
            "step",
            "text",
        ],
    ),
    ("profile", &["conversation", "cpu", "engine", "exec", "lower", "plan", "policy", "sample", "step"]),
];

/// What is named against [`MODULES`] and is to go. An entry that nothing needs any more fails, too.
const NAMED_YET: &[(&str, &str)] = &[];

/// Edges of circles among files of a folder that are there yet, and are to go. One that is in no circle any more fails, too.
const IN_CIRCLES_YET: &[(&str, &[(&str, &str)])] =
    &[("src/lower", &[("target", "megakernel"), ("product", "megakernel")])];

/// The library's sources below a folder, as module and text. The binary's stand in `main.rs` and `cli`.
fn library(folder: &str) -> Vec<(Vec<String>, String)> {
    let root = folder.split('/').next() != Some("src");
    let below = if root { format!("{folder}/") } else { "src/".to_string() };
    let files = sources(&[folder], &[".rs"]).into_iter();
    let module = |name: &str| uses::module_of(name.strip_prefix(&below).unwrap_or(name));
    let modules = files.map(|(name, text)| (module(&name), text));
    modules.filter(|(m, _)| !["lib", "main", "cli"].contains(&m[0].as_str())).collect()
}

#[test]
fn modules_name_only_what_stands_below_them() {
    let mut edges = uses::Edges::new();
    let mut against = std::collections::BTreeSet::new();
    for (module, text) in library("src") {
        let own = module[0].as_str();
        let Some((_, allowed)) = MODULES.iter().find(|(name, _)| *name == own) else { panic!("{own}: not in MODULES") };
        for path in uses::paths(&module, &text) {
            let names = [path[0].clone(), path[..path.len().min(2)].join("::")];
            if own == names[0] || ["Error", "Result", "error"].contains(&names[0].as_str()) {
                continue;
            }
            if let Some(yet) = NAMED_YET.iter().find(|(of, to)| *of == own && names.iter().any(|n| n == to)) {
                against.insert(*yet);
                continue;
            }
            assert!(names.iter().any(|n| allowed.contains(&n.as_str())), "{}: {}", module.join("/"), path.join("::"));
            edges.insert((own.to_string(), names[0].clone()));
        }
    }
    let gone: Vec<_> = NAMED_YET.iter().filter(|yet| !against.contains(*yet)).collect();
    assert!(gone.is_empty(), "not named any more, take out of NAMED_YET: {gone:?}");
    assert_eq!(uses::circles(&edges), []);
}

#[test]
fn rules_allow_only_what_stands_above_them() {
    for (at, (module, allowed)) in MODULES.iter().enumerate() {
        for name in *allowed {
            let top = name.split("::").next().unwrap();
            assert!(
                MODULES[..at].iter().any(|(above, _)| *above == top),
                "{module} may name {name}, which is not above"
            );
        }
    }
}

#[test]
fn files_of_a_folder_do_not_name_each_other_in_circles() {
    let modules = MODULES.iter().map(|(name, _)| format!("src/{name}")).filter(|f| root().join(f).is_dir());
    let mut count = 0;
    for folder in modules.chain(["quant/src".to_string()]) {
        let (above, module) = match folder.strip_prefix("src/") {
            Some(module) => (format!("{folder}.rs"), vec![module.to_string()]),
            None => (format!("{folder}/lib.rs"), vec![]),
        };
        let above = std::fs::read_to_string(root().join(above)).unwrap();
        let mut edges = uses::among_siblings(&module, &above, &library(&folder));
        count += edges.len();
        let known = IN_CIRCLES_YET.iter().find(|(of, _)| *of == folder).map_or(&[][..], |(_, edges)| edges);
        for (from, to) in known {
            let (edge, around) = ((from.to_string(), to.to_string()), uses::circles(&edges));
            assert!(around.contains(&edge), "{folder}: {edge:?} is in no circle, take it out of IN_CIRCLES_YET");
        }
        edges.retain(|(from, to)| !known.contains(&(from.as_str(), to.as_str())));
        assert_eq!(uses::circles(&edges), [], "{folder}");
    }
    assert!(count > 100, "{count} edges: are uses found at all?");
}

#[test]
fn crates_below_the_library_know_no_device_and_no_file() {
    let rules: &[(&str, &[&str])] = &[
        ("chat/src/", &["pumex::", "ash::", "std::fs", "std::env", "pumex_"]),
        ("grammar/src/", &["pumex::", "ash::", "std::env", "pumex_shaders", "pumex_quant"]),
        ("quant/src/", &["pumex::", "ash", "std::fs", "std::env", "pumex_shaders"]),
        ("cpu/src/", &["pumex::", "ash::", "std::env", "pumex_shaders"]),
        ("convert/src/", &["pumex::", "ash::", "std::env", "pumex_cpu", "pumex_shaders", "fs::write", "File::create"]),
        ("hub/src/", &["pumex::", "ash::", "std::env", "pumex_"]),
        ("media/src/", &["pumex::", "ash::", "std::fs", "std::env", "pumex_cpu", "pumex_shaders"]),
        ("shaders/src/", &["pumex::", "ash::", "std::fs", "pumex_quant"]),
    ];
    for (folder, forbidden) in rules {
        for (name, text) in rust().into_iter().filter(|(n, _)| n.starts_with(folder)) {
            for line in uses::code(&text).lines().filter(|l| l.trim_start().starts_with("use ") || l.contains("::")) {
                assert!(!forbidden.iter().any(|f| line.contains(f)), "{name}: {}", line.trim());
            }
        }
    }
    only_in(&[" ash::", "use ash"], |name| !name.starts_with("src/") || name.starts_with("src/vk/"));
}

#[test]
fn every_source_says_what_it_is() {
    for (name, text) in rust() {
        assert!(text.starts_with("//!") || text.starts_with("// @generated"), "{name} starts without a description");
    }
}
