//! The shape of the sources: who may know what, and how long a file may be.

mod uses;
mod words;

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

/// Folders of crates, lowest first, and which of the crates above in this list each may name: those that it depends on.
const CRATES: &[(&str, &[&str])] = &[
    ("quant", &[]),
    ("shaders", &[]),
    ("cpu", &["quant"]),
    ("chat", &[]),
    ("grammar", &["chat"]),
    ("hub", &[]),
    ("media", &["quant"]),
    ("convert", &["quant"]),
    ("serve", &["chat"]),
    ("gguf", &["quant"]),
    ("text", &["chat", "gguf"]),
    ("step", &["gguf"]),
    ("plan", &["quant", "shaders", "gguf", "step"]),
    ("model", &["quant", "convert", "gguf", "step", "plan"]),
    ("vk", &["gguf"]),
    ("lower", &["quant", "shaders", "media", "gguf", "plan", "vk"]),
    ("engine", &["quant", "shaders", "cpu", "media", "gguf", "step", "plan", "model", "vk", "lower"]),
    ("dialogue", &["quant", "chat", "grammar", "media", "gguf", "text", "step", "plan", "engine"]),
    ("server", &["chat", "serve", "gguf", "text", "step", "model", "engine", "dialogue"]),
    (
        "cli",
        &[
            "quant", "chat", "hub", "convert", "serve", "gguf", "text", "step", "plan", "model", "vk", "lower",
            "engine", "dialogue", "server",
        ],
    ),
    ("tools/shaders", &["quant", "shaders"]),
    // Of the library itself.
    ("capi", &[]),
];

fn rust() -> Vec<(String, String)> {
    let folders = CRATES.iter().map(|(folder, _)| *folder).chain(["examples", "python", "src", "tests", "tools"]);
    let all = folders.flat_map(|folder| match folder {
        "examples" | "src" | "tests" => vec![folder.to_string()],
        of => ["src", "tests"]
            .map(|part| format!("{of}/{part}"))
            .into_iter()
            .filter(|f| root().join(f).is_dir())
            .collect(),
    });
    sources(&all.collect::<Vec<_>>().iter().map(String::as_str).collect::<Vec<_>>(), &[".rs"])
}

/// What Cargo lets a crate name is what [`CRATES`] says, so that the list is true.
#[test]
fn crates_depend_only_on_what_stands_above_them_in_the_list() {
    for (at, (folder, allowed)) in CRATES.iter().enumerate() {
        let manifest = std::fs::read_to_string(root().join(folder).join("Cargo.toml")).unwrap();
        let rules = manifest.split("[dev-dependencies]").next().unwrap();
        let names = rules.lines().filter_map(|line| line.strip_prefix("pumex-"));
        let name = |line: &str| line.split(['.', ' ', '=']).next().unwrap().to_string();
        let mut found: Vec<String> = names.map(name).collect();
        let mut expected: Vec<String> = allowed.iter().map(|name| name.to_string()).collect();
        found.sort();
        expected.sort();
        assert_eq!(found, expected, "{folder}");
        let above = |name: &&str| CRATES[..at].iter().any(|(other, _)| other == name);
        assert!(allowed.iter().all(above), "{folder} may name only what is above it");
    }
    let members = std::fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let (from, to) = (members.find("members").unwrap(), members.find("resolver").unwrap());
    let members: Vec<&str> = members[from..to].split('"').skip(1).step_by(2).filter(|m| *m != "tools").collect();
    let mut listed: Vec<&str> = CRATES.iter().map(|(folder, _)| *folder).collect();
    listed.sort_unstable();
    assert_eq!(members, listed);
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
fn flatten_includes(folder: &Path, text: &str) -> String {
    let included = |line: &str| {
        let name = line.strip_prefix("#include \"")?.strip_suffix('"')?;
        std::fs::read_to_string(folder.join(name)).ok().map(|text| flatten_includes(folder, &text))
    };
    text.lines().map(|line| included(line).unwrap_or(format!("{line}\n"))).collect()
}

/// Compilers take the size for 1 above its declaration, and say nothing.
#[test]
fn shaders_declare_their_workgroup_before_they_ask_for_its_size() {
    let folder = root().join("shaders/glsl");
    for (name, text) in sources(&["shaders/glsl"], &[".comp"]) {
        let text = flatten_includes(&folder, &text);
        let declared = text.find("layout(local_size_x").unwrap_or_else(|| panic!("{name}: no workgroup"));
        let asked = text.find("gl_WorkGroupSize").unwrap_or(text.len());
        assert!(declared < asked, "{name}: gl_WorkGroupSize before local_size_x");
    }
}

#[test]
fn unsafe_code_lives_in_the_kernels_the_vulkan_the_map_modules_and_c_s_interface_and_says_why() {
    only_in(&["unsafe {", "unsafe fn", "unsafe impl"], |name| {
        name.starts_with("vk/src/")
            || name.starts_with("cpu/src/")
            || ["capi/src/lib.rs", "capi/tests/main.rs"].contains(&name)
            || name == "convert/src/map.rs"
            || name == "gguf/src/map.rs"
            || name == "gguf/src/map/sigbus.rs"
    });
    for (name, text) in rust().into_iter().filter(|(n, _)| !n.starts_with("tests/") && !n.starts_with("tools/")) {
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
        name.starts_with("lower/src/policy/")
            || name == "vk/src/select.rs"
            || name.starts_with("tests/")
            || name.starts_with("chat/tests/") // models are named after them
            || name == "cli/src/bench/compare.rs" // where published figures were measured
    });
    only_in(&["DeviceKind::"], |name| {
        name.starts_with("lower/src/policy/")
            || name.starts_with("vk/src/")
            || name.starts_with("tests/")
            || name == "cli/src/devices.rs"
            || name == "engine/src/lib.rs" // a made-up device of its tests
    });
}

#[test]
fn the_environment_is_read_in_few_places() {
    only_in(&["env::var"], |name| {
        ["src/api/hub.rs", "vk/src/cache.rs", "cli/src/lib.rs", "cli/src/fetch.rs", "cli/src/chat/environment.rs"]
            .contains(&name)
            || name.starts_with("tools/")
            || name.starts_with("tests/")
            || name.starts_with("capi/tests/")
            || name.starts_with("convert/tests/")
            || name.starts_with("media/tests/")
            || name.starts_with("serve/tests/")
    });
}

/// Sources that write what a user names.
const OPEN_BY_FILE: &[&str] = &[
    "src/",
    "gguf/src/",
    "text/src/",
    "step/src/",
    "plan/src/",
    "model/src/",
    "vk/src/",
    "lower/src/",
    "engine/src/",
    "dialogue/src/",
    "server/src/",
    "cli/src/",
];

/// What a user names to be written is opened in one place, which loses no input, no pipe and no former file of a write that fails.
#[test]
fn outputs_are_opened_in_one_place() {
    let words = ["File::create", "fs::write(", "OpenOptions", "fs::rename", "fs::copy", "fs::remove_file"];
    // Those after the first keep caches, whose names nobody gives.
    let allowed = ["gguf/src/file.rs", "vk/src/cache.rs", "cli/src/folder.rs"];
    for (name, text) in rust()
        .into_iter()
        .filter(|(name, _)| OPEN_BY_FILE.iter().any(|c| name.starts_with(c)) && !name.ends_with("tests.rs"))
    {
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        let found = words.iter().find(|word| code.contains(**word) && !allowed.contains(&name.as_str()));
        assert!(found.is_none(), "{name}: {found:?}: expected pumex_gguf::file");
        let unchecked = name.starts_with("cli/src/") && name != "cli/src/files.rs" && code.contains("Replacing::");
        assert!(!unchecked, "{name}: expected outputs to be opened by cli::files");
    }
}

/// Edges of circles among files of a folder that are there yet, and are to go. One that is in no circle any more fails, too.
const IN_CIRCLES_YET: &[(&str, &[(&str, &str)])] = &[
    ("cpu/src", &[("product", "rows"), ("rows", "product")]),
    ("hub/src", &[("cache", "http"), ("http", "cache"), ("ollama", "source"), ("source", "ollama")]),
    ("lower/src", &[("target", "megakernel"), ("product", "megakernel")]),
    (
        "lower/src/megakernel",
        &[
            ("attention", "config"),
            ("attention", "open"),
            ("config", "attention"),
            ("config", "experts"),
            ("experts", "config"),
            ("experts", "open"),
            ("open", "config"),
        ],
    ),
];

/// The sources of a crate's folder `src`, as module and text.
fn modules(folder: &str) -> Vec<(Vec<String>, String)> {
    let below = format!("{folder}/");
    let all = sources(&[folder], &[".rs"]).into_iter();
    let modules = all.map(|(name, text)| (uses::module_of(name.strip_prefix(&below).unwrap_or(&name)), text));
    modules.filter(|(module, _)| module[0] != "lib").collect()
}

/// Capabilities are all that the choice of kernels knows of Vulkan, so that any device's choices can be looked at anywhere.
#[test]
fn lowering_knows_only_capabilities_of_devices() {
    let allowed =
        ["Caps", "DeviceKind", "Disabled", "KernelSubgroup", "Tuned", "TunedProduct", "TunedShape", "UploadOptions"];
    let mut count = 0;
    for (module, text) in modules("lower/src") {
        for path in uses::paths(&module, &text.replace("pumex_vk::", "crate::pumex_vk::")) {
            if path[0] == "pumex_vk" {
                count += 1;
                assert!(
                    allowed.contains(&path[1].as_str()) || path[1] == "usable_columns",
                    "{}: {}",
                    module.join("/"),
                    path.join("::")
                );
            }
        }
    }
    assert!(count > 20, "{count} uses: are they found at all?");
}

#[test]
fn files_of_a_folder_do_not_name_each_other_in_circles() {
    let mut folders = Vec::new();
    for (folder, _) in CRATES.iter().filter(|(folder, _)| !HAVE_CIRCLES.contains(folder)) {
        let folder = format!("{folder}/src");
        let rooms: std::collections::BTreeSet<_> =
            modules(&folder).iter().filter(|(m, _)| m.len() > 1).map(|(m, _)| m[0].clone()).collect();
        folders.extend(
            rooms
                .into_iter()
                .filter(|room| root().join(format!("{folder}/{room}.rs")).is_file())
                .map(|room| (folder.clone(), vec![room])),
        );
        folders.push((folder, vec![]));
    }
    let (mut count, mut wrong) = (0, Vec::new());
    for (folder, module) in folders {
        let place = [vec![folder.clone()], module.clone()].concat().join("/");
        let above = if module.is_empty() { format!("{folder}/lib.rs") } else { format!("{place}.rs") };
        let above = std::fs::read_to_string(root().join(above)).unwrap();
        let files: Vec<_> =
            modules(&folder).into_iter().filter(|(m, _)| m.len() > module.len() && m.starts_with(&module)).collect();
        let mut edges = uses::among_siblings(&module, &above, &files);
        count += edges.len();
        let known = IN_CIRCLES_YET.iter().find(|(of, _)| *of == place).map_or(&[][..], |(_, edges)| edges);
        for (from, to) in known {
            let (edge, around) = ((from.to_string(), to.to_string()), uses::circles(&edges));
            assert!(around.contains(&edge), "{place}: {edge:?} is in no circle, take it out of IN_CIRCLES_YET");
        }
        edges.retain(|(from, to)| !known.contains(&(from.as_str(), to.as_str())));
        wrong.extend(uses::circles(&edges).into_iter().map(|edge| (place.clone(), edge)));
    }
    assert_eq!(wrong, []);
    assert!(count > 100, "{count} edges: are uses found at all?");
}

/// Crates whose files still name each other in circles, which are to go.
const HAVE_CIRCLES: &[&str] = &["chat", "cli", "convert", "serve"];

/// What one family alone needs stands in its own file: the shared decoder names none, and has few words for what families are.
#[test]
fn the_shared_decoder_knows_no_family_and_has_few_words_for_them() {
    for (name, text) in rust().into_iter().filter(|(n, _)| n.starts_with("model/src/decoder")) {
        assert!(!uses::code(&text).contains("arch::"), "{name}: names an architecture");
    }
    let text = std::fs::read_to_string(root().join("model/src/decoder.rs")).unwrap();
    for (name, most) in [("Family", 14), ("LayerSpec", 14)] {
        let fields = text.split_once(&format!("pub struct {name} {{")).unwrap().1.split_once("\n}").unwrap().0;
        let count = fields.lines().filter(|line| line.trim_start().starts_with("pub ")).count();
        assert!((1..=most).contains(&count), "{name} has {count} fields, expected at most {most}");
    }
}

#[test]
fn pure_crates_read_no_file_and_no_environment() {
    let rules: &[(&str, &[&str])] = &[
        ("chat/src/", &["std::fs", "std::env"]),
        ("grammar/src/", &["std::env"]),
        ("quant/src/", &["std::fs", "std::env"]),
        ("cpu/src/", &["std::env"]),
        ("convert/src/", &["std::env", "fs::write", "File::create"]),
        ("hub/src/", &["std::env"]),
        ("media/src/", &["std::fs", "std::env"]),
        ("shaders/src/", &["std::fs"]),
        ("step/src/", &["std::fs", "std::env"]),
        ("plan/src/", &["std::fs", "std::env"]),
        ("lower/src/", &["std::fs", "std::env"]),
    ];
    for (folder, forbidden) in rules {
        for (name, text) in rust().into_iter().filter(|(n, _)| n.starts_with(folder) && !n.ends_with("tests.rs")) {
            for line in uses::code(&text).lines().filter(|l| l.trim_start().starts_with("use ") || l.contains("::")) {
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
