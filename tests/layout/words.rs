//! Names that say too little: the lists of `docs/glossary.md`, and that no type, function or file has one of them.

use std::collections::BTreeSet;

/// Sources whose names are still to be mended.
const EXEMPT_YET: &[&str] =
    &["engine/src/selftest.rs", "engine/src/tower", "engine/src/tune", "lower/", "model/", "shaders/"];

/// Words in backquotes of the glossary's list item that begins with `- kind: `.
fn banned(kind: &str) -> BTreeSet<String> {
    let glossary = std::fs::read_to_string(super::root().join("docs/glossary.md")).unwrap();
    let start = format!("- {kind}: ");
    let list = glossary.split("\n\n").flat_map(|part| part.split("\n- ")).map(|item| format!("- {item}"));
    let item = list.into_iter().map(|item| item.replace("- - ", "- ")).find(|item| item.starts_with(&start));
    let item = item.unwrap_or_else(|| panic!("docs/glossary.md has no list of {kind}"));
    item.split('`').skip(1).step_by(2).map(str::to_string).collect()
}

/// Names that a source defines with one of `keywords`, such as `struct`.
fn defined<'a>(code: &'a str, keywords: &[&str]) -> Vec<&'a str> {
    let words: Vec<&str> =
        code.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty()).collect();
    words.windows(2).filter(|pair| keywords.contains(&pair[0])).map(|pair| pair[1]).collect()
}

#[test]
fn no_type_function_or_file_has_a_name_that_says_too_little() {
    let (types, functions, files) = (banned("Types"), banned("Functions"), banned("Files"));
    assert!(types.len() > 20 && functions.len() > 20 && files.len() > 10);
    let sources = super::rust().into_iter().filter(|(name, _)| !EXEMPT_YET.iter().any(|part| name.starts_with(part)));
    let mut wrong = Vec::new();
    for (name, text) in sources {
        let code: String = text.lines().filter(|l| !l.trim_start().starts_with("//")).flat_map(|l| [l, "\n"]).collect();
        let stem = name.rsplit('/').next().unwrap_or_default().trim_end_matches(".rs");
        let found = defined(&code, &["struct", "enum", "trait"]).into_iter().filter(|word| types.contains(*word));
        let found = found.chain(defined(&code, &["fn"]).into_iter().filter(|word| functions.contains(*word)));
        let found = found.chain(Some(stem).filter(|word| files.contains(*word)));
        wrong.extend(found.map(|word| format!("{name}: {word}")));
    }
    assert_eq!(wrong, Vec::<String>::new(), "docs/glossary.md bans these names");
}
