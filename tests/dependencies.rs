//! What `deny.toml` says of other people's crates, as far as the lock file tells it: which are there twice, and where they come from.

use std::collections::{BTreeMap, BTreeSet};

fn file(name: &str) -> String {
    std::fs::read_to_string(format!("{}/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

/// What stands in quotes behind `key = ` in a text.
fn quoted_value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.split_once(&format!("{key} = \""))?.1.split('"').next()
}

#[test]
fn crates_that_are_there_twice_are_named_with_a_reason() {
    let (lock, deny) = (file("Cargo.lock"), file("deny.toml"));
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for package in lock.split("[[package]]").skip(1) {
        let (name, version) = (quoted_value(package, "name").unwrap(), quoted_value(package, "version").unwrap());
        versions.entry(name).or_default().insert(version);
    }
    assert!(versions.len() > 150, "{}", versions.len());
    let skipped: BTreeMap<&str, &str> =
        deny.lines().filter_map(|line| quoted_value(line, "crate")?.split_once('@')).collect();
    assert_eq!(deny.matches("reason = \"").count(), skipped.len(), "each with its reason");
    for (name, versions) in &versions {
        // All but one of several versions are named.
        let named =
            |version: &&&str| skipped.get(name).is_some_and(|skipped| version.starts_with(&format!("{skipped}.")));
        let left = versions.iter().filter(|version| !named(version)).count();
        assert!(left <= 1, "{name}: {versions:?}");
        assert!(!skipped.contains_key(name) || versions.len() > 1, "{name}: it is there once");
    }
}

#[test]
fn crates_come_from_one_registry() {
    for name in ["Cargo.lock", "fuzz/Cargo.lock", "python/Cargo.lock"] {
        let lock = file(name);
        let sources: BTreeSet<&str> = lock.lines().filter_map(|line| quoted_value(line, "source")).collect();
        assert_eq!(sources.len(), 1, "{name}: {sources:?}");
        assert!(sources.iter().all(|source| source.starts_with("registry+")), "{name}: {sources:?}");
    }
}
