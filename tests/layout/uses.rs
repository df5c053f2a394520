//! Which modules a source names, and whether some name each other in a circle.

use std::collections::{BTreeMap, BTreeSet};

/// Which names which.
pub type Edges = BTreeSet<(String, String)>;

/// The module of a source below `root`: `vk/upload/fill.rs` is `[vk, upload, fill]`.
pub fn module_of(path: &str) -> Vec<String> {
    path.trim_end_matches(".rs").split('/').map(String::from).collect()
}

/// A source without comments and without its unit tests, which may know more.
pub fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let line = |l: &str| match l.find("//") {
        Some(at) if l[..at].chars().next_back().is_none_or(char::is_whitespace) => l[..at].to_string(),
        _ => l.to_string(),
    };
    text.lines().map(|l| line(l) + "\n").collect()
}

/// Paths from the crate's root that a source of `module` names by `crate::` and `super::`, groups taken unfused.
pub fn paths(module: &[String], text: &str) -> Vec<Vec<String>> {
    let text = code(text);
    let mut found = Vec::new();
    for (at, start) in text.match_indices("crate::").chain(text.match_indices("super::")) {
        let before = text[..at].chars().next_back().unwrap_or(' ');
        if before.is_alphanumeric() || "_:$".contains(before) {
            continue; // a part of another path
        }
        let (mut rest, mut prefix) = (&text[at + start.len()..], Vec::new());
        if start == "super::" {
            prefix = module[..module.len() - 1].to_vec();
            while let Some(above) = rest.strip_prefix("super::") {
                rest = above;
                prefix.pop();
            }
        }
        tree(&prefix, rest, &mut found);
    }
    found
}

/// Takes one path, or a group of them, off the front of `rest`, and gives what is left.
fn tree<'a>(prefix: &[String], rest: &'a str, found: &mut Vec<Vec<String>>) -> &'a str {
    let mut rest = rest.trim_start();
    if let Some(mut group) = rest.strip_prefix('{') {
        loop {
            group = tree(prefix, group, found).trim_start();
            group = match group.split_at_checked(1) {
                Some((",", more)) => more.trim_start(),
                Some((_, after)) => return after,
                None => return group,
            };
            if let Some(after) = group.strip_prefix('}') {
                return after;
            }
        }
    }
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    let (name, after) = rest.split_at(end);
    let mut path = prefix.to_vec();
    if !name.is_empty() && name != "self" {
        path.push(name.to_string());
    }
    if let Some(below) = after.strip_prefix("::").filter(|b| b.starts_with(|c: char| c.is_alphabetic() || c == '{')) {
        return tree(&path, below, found);
    }
    found.push(path);
    rest = after.strip_prefix("::*").unwrap_or(after).trim_start();
    match rest.strip_prefix("as ") {
        Some(alias) => alias.trim_start().trim_start_matches(|c: char| c.is_alphanumeric() || c == '_'),
        None => rest,
    }
}

/// What a folder's root file gives on under its own name: item → the file it is from.
pub fn reexports(root: &str) -> BTreeMap<String, String> {
    let code = code(root);
    let mut items = BTreeMap::new();
    for (at, start) in code.match_indices("use ") {
        if !code[..at].trim_end().ends_with(['b', ')']) {
            continue; // no `pub use`, no `pub(crate) use`
        }
        let mut found = Vec::new();
        tree(&[], &code[at + start.len()..], &mut found);
        items.extend(found.into_iter().filter(|p| p.len() > 1).map(|p| (p[p.len() - 1].clone(), p[0].clone())));
    }
    items
}

/// Who names whom among the files of a folder whose module is `folder`, by files' first names; items that `root` gives on count
/// as those of the file they are from.
pub fn among_siblings(folder: &[String], root: &str, files: &[(Vec<String>, String)]) -> Edges {
    let given = reexports(root);
    let names: BTreeSet<&String> = files.iter().map(|(module, _)| &module[folder.len()]).collect();
    let mut edges = Edges::new();
    for (module, text) in files {
        let own = &module[folder.len()];
        for path in paths(module, text).iter().filter(|p| p.len() > folder.len() && p.starts_with(folder)) {
            let name = &path[folder.len()];
            let to = if names.contains(name) { Some(name) } else { given.get(name) };
            edges.extend(to.filter(|to| *to != own).map(|to| (own.clone(), to.clone())));
        }
    }
    edges
}

/// Modules that are in a circle, each with one it names in the circle.
pub fn circles(edges: &Edges) -> Vec<(String, String)> {
    let reaches = |from: &str, to: &str| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
        while let Some(at) = open.pop() {
            if at == to {
                return true;
            }
            if seen.insert(at) {
                open.extend(edges.iter().filter(|(a, _)| a == at).map(|(_, b)| b.as_str()));
            }
        }
        false
    };
    edges.iter().filter(|(a, b)| reaches(b, a)).cloned().collect()
}

fn strings(path: &[&str]) -> Vec<String> {
    path.iter().map(|s| s.to_string()).collect()
}

#[test]
fn paths_of_groups_aliases_and_super_are_found() {
    let text = "//! crate::no\nuse crate::{a, b::{self, C as D, e::*}, Result};\nuse super::super::x::Y;\n\
        fn f(g: crate::g::H) { super::i::j(); mycrate::k(); } // crate::l\n\
        #[cfg(test)]\nmod tests {\n use crate::m; }\n";
    let mut found: Vec<String> =
        paths(&strings(&["vk", "upload", "fill"]), text).iter().map(|p| p.join("::")).collect();
    found.sort();
    assert_eq!(found, ["Result", "a", "b", "b::C", "b::e", "g::H", "vk::upload::i::j", "vk::x::Y"]);
}

#[test]
fn circles_are_found_through_what_a_root_gives_on() {
    let root = "mod a;\nmod b;\npub use a::{A, Other};\npub(crate) use b::B;\nuse c::Hidden;\n";
    let file = |name: &str, text: &str| (strings(&["vk", name]), text.to_string());
    let files = [file("a", "use super::b::B;"), file("b", "use crate::vk::A;"), file("c", "use super::{a, Other};")];
    let edges = among_siblings(&strings(&["vk"]), root, &files);
    let pairs: Vec<_> = edges.iter().map(|(a, b)| format!("{a} {b}")).collect();
    assert_eq!(pairs, ["a b", "b a", "c a"]);
    let around = circles(&edges);
    assert_eq!(around.iter().map(|(a, b)| format!("{a} {b}")).collect::<Vec<_>>(), ["a b", "b a"]);
    let without: Edges = edges.into_iter().filter(|(a, _)| a != "b").collect();
    assert_eq!(circles(&without), []);
}
