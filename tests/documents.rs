//! What the documents say is so: commands are the program's, those marked as run do run, paths and links are there, pages are short.

use crate::cli::{pumex, stderr, stdout};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Names of the pages of `docs/`.
fn pages() -> Vec<String> {
    let entries = std::fs::read_dir(root().join("docs")).unwrap();
    let mut names: Vec<String> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.retain(|name| name.ends_with(".md"));
    names.sort();
    names
}

/// All documents for readers, as path from the root and text.
fn documents() -> Vec<(String, String)> {
    let own =
        ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "benches/RECORD.md"].map(String::from);
    let names = own.into_iter().chain(pages().into_iter().map(|name| format!("docs/{name}")));
    names.map(|name| (name.clone(), read(&root().join(name)))).collect()
}

/// A line as a shell takes it apart: words, quotes off, up to a comment.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote, mut begun) = (Vec::new(), String::new(), None, false);
    for c in line.chars() {
        match (quote, c) {
            (None, '\'' | '"') => (quote, begun) = (Some(c), true),
            (Some(open), c) if c == open => quote = None,
            (None, '#') if !begun => break,
            (None, c) if c.is_whitespace() => {
                if begun {
                    words.push(std::mem::take(&mut word));
                }
                begun = false;
            }
            (_, c) => {
                word.push(c);
                begun = true;
            }
        }
    }
    if begun {
        words.push(word);
    }
    words
}

/// A command of a document: where it stands, its words after `pumex`, and whether it is marked as run.
struct DocumentedCommand {
    at: String,
    args: Vec<String>,
    runs: bool,
}

/// Every line `$ pumex ...` in a fenced block.
fn documented_commands() -> Vec<DocumentedCommand> {
    let mut found = Vec::new();
    for (name, text) in documents() {
        let mut fence: Option<&str> = None;
        for (i, line) in text.lines().enumerate() {
            match (line.strip_prefix("```"), fence) {
                (Some(info), None) => fence = Some(info),
                (Some(_), Some(_)) => fence = None,
                _ => {}
            }
            if let (Some(info), Some(command)) = (fence, line.strip_prefix("$ pumex")) {
                let runs = info.split(',').any(|mark| mark == "runs");
                found.push(DocumentedCommand { at: format!("{name}:{}", i + 1), args: words(command), runs });
            }
        }
    }
    found
}

#[test]
fn lines_come_apart_as_a_shell_has_it() {
    for (line, expected) in [
        ("run -p \"a b\" -n 4", &["run", "-p", "a b", "-n", "4"][..]),
        ("run -j '{\"type\":\"integer\"}'   # what follows is a comment", &["run", "-j", "{\"type\":\"integer\"}"]),
        ("run -p '' a#b", &["run", "-p", "", "a#b"]),
    ] {
        assert_eq!(words(line), expected, "{line}");
    }
}

/// Names of flags by command, each with whether a value follows.
fn flags() -> BTreeMap<(String, String), bool> {
    let listed = pumex(&["flags", "--json"]);
    assert!(listed.status.success(), "{}", stderr(&listed));
    let all: Vec<Value> = serde_json::from_str(stdout(&listed)).unwrap();
    let mut known = BTreeMap::new();
    for flag in &all {
        let names = flag["names"].as_array().unwrap().iter().chain([&flag["flag"]]);
        for name in names.filter_map(Value::as_str) {
            let key = (flag["command"].as_str().unwrap().to_string(), name.to_string());
            known.insert(key, flag["takes_value"] == true);
        }
    }
    known
}

#[test]
fn commands_of_the_documents_are_the_programs() {
    let (known, shown) = (flags(), documented_commands());
    assert!(shown.len() > 30, "{}", shown.len());
    for DocumentedCommand { at, args, .. } in &shown {
        let (command, rest) = args.split_first().unwrap_or_else(|| panic!("{at}: no command"));
        // Commands that have no flags but help's.
        let is_known =
            known.keys().any(|(of, _)| of == command) || ["completions", "man", "flags"].contains(&command.as_str());
        assert!(is_known, "{at}: there is no command {command}");
        let mut rest = rest.iter();
        while let Some(arg) = rest.next() {
            let (name, given) = arg.split_once('=').map_or((arg.as_str(), false), |(name, _)| (name, true));
            if name.len() > 1 && name.starts_with('-') {
                let takes = known.get(&(command.clone(), name.to_string()));
                let takes = takes.unwrap_or_else(|| panic!("{at}: {command} has no flag {name}"));
                assert!(*takes || !given, "{at}: {name} takes no value");
                if *takes && !given {
                    assert!(rest.next().is_some(), "{at}: {name} without a value");
                }
            }
        }
    }
}

#[test]
fn flags_that_the_text_names_are_the_programs() {
    let known = flags();
    for (name, text) in documents().iter().filter(|(name, _)| name.starts_with("docs/") || name == "README.md") {
        for quoted in text.split('`').skip(1).step_by(2).filter(|quoted| quoted.starts_with("--")) {
            let flag = quoted.split([' ', '=', '\n']).next().unwrap_or_default();
            let is_known = flag == "--help" || known.keys().any(|(_, of)| of == flag);
            assert!(is_known, "{name}: no command has the flag {quoted}");
        }
    }
}

#[test]
fn commands_marked_as_run_do_run() {
    let folder = std::env::temp_dir().join(format!("pumex-documents-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("text.txt"), "In the beginning was the word, and the word was good. ".repeat(40))
        .unwrap();
    let shown: Vec<DocumentedCommand> = documented_commands().into_iter().filter(|shown| shown.runs).collect();
    assert!(shown.len() > 15, "{}", shown.len());
    for DocumentedCommand { at, args, .. } in &shown {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pumex"));
        let command = command.args(args).current_dir(&folder).stdin(Stdio::null()).env_remove("RUST_LOG");
        let done = command.env("LLAMA_ARG_DEVICE", "cpu").env("XDG_CACHE_HOME", &folder).output().unwrap();
        assert!(done.status.success(), "{at}: pumex {args:?}: {}", stderr(&done));
        let wrote = args.iter().any(|arg| arg == "-o");
        assert!(wrote || !done.stdout.is_empty(), "{at}: pumex {args:?} said nothing");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// What a document says is in the repository: paths in backquotes, but for names that stand for others, and links.
fn named_paths(text: &str) -> (Vec<&str>, Vec<&str>) {
    let folders = [
        "src/",
        "tests/",
        "docs/",
        "benches/",
        "shaders/",
        "quant/",
        "cpu/",
        "chat/",
        "grammar/",
        "media/",
        "hub/",
        "serve/",
        "tools/",
        "deploy/",
        "examples/",
        "assets/",
        "fuzz/",
        ".ci/",
    ];
    let quoted = text.split('`').skip(1).step_by(2);
    let is_path = |path: &&str| {
        folders.iter().any(|folder| path.starts_with(folder))
            && !path.contains(['*', ' ', '<', '(', ':'])
            && !path.rsplit('/').next().unwrap_or_default().starts_with("x.")
    };
    let links = text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
    let links = links.filter(|link| !link.is_empty() && !link.contains([' ', ':', '\n']));
    (quoted.filter(is_path).collect(), links.collect())
}

#[test]
fn paths_and_links_of_the_documents_are_there() {
    for (name, text) in documents() {
        // Blocks of text are what a terminal shows.
        let prose: Vec<&str> = text.split("\n```").step_by(2).collect();
        let prose = prose.join("\n");
        let (paths, links) = named_paths(&prose);
        for path in paths {
            assert!(root().join(path).exists(), "{name}: there is no {path}");
        }
        let folder = root().join(&name).parent().unwrap().to_path_buf();
        for link in links {
            assert!(folder.join(link).exists(), "{name}: the link {link} leads nowhere");
        }
    }
}

/// Numbers of a text, with their separators.
fn numbers(text: &str) -> Vec<&str> {
    let parts = text.split(|c: char| !c.is_ascii_digit() && c != ',' && c != '.');
    let parts = parts.map(|part| part.trim_matches([',', '.']));
    parts.filter(|part| part.starts_with(|c: char| c.is_ascii_digit())).collect()
}

#[test]
fn speeds_of_the_readme_stand_in_the_record() {
    let (readme, record) = (read(&root().join("README.md")), read(&root().join("benches/RECORD.md")));
    let known = numbers(&record);
    let table = readme.split_once("\n| machine, date, commit |").unwrap().1.split_once("\n\n").unwrap().0;
    let rows: Vec<&str> = table.lines().skip(2).collect();
    assert!(rows.len() > 5, "{table}");
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split('|').collect();
        // What a cell has in brackets names another day and commit first.
        let speeds =
            cells[2..].iter().flat_map(|cell| [cell.split('(').next(), cell.rsplit_once(':').map(|(_, new)| new)]);
        let speeds: Vec<&str> = speeds.flatten().flat_map(numbers).collect();
        assert!(speeds.len() >= 2, "{row}");
        for speed in speeds {
            assert!(known.contains(&speed), "README.md: {speed} of `{row}` is not in benches/RECORD.md");
        }
        if let Some(commit) = cells[0].rsplit(", ").next().map(str::trim).filter(|commit| !commit.is_empty()) {
            assert!(record.contains(commit), "README.md: the commit {commit} is not in benches/RECORD.md");
        }
    }
}

#[test]
fn the_book_has_every_page_once() {
    let summary = read(&root().join("docs/SUMMARY.md"));
    let mut listed: Vec<&str> = named_paths(&summary).1;
    listed.sort_unstable();
    let pages: Vec<String> = pages().into_iter().filter(|name| name != "SUMMARY.md").collect();
    assert_eq!(listed, pages);
}

#[test]
fn pages_that_lead_in_are_short() {
    let words = |name: &str| read(&root().join(name)).split_whitespace().count();
    assert!(words("ARCHITECTURE.md") <= 900, "{}", words("ARCHITECTURE.md"));
    let readme = read(&root().join("README.md"));
    assert!(readme.lines().count() <= 200, "{}", readme.lines().count());
    let terms = read(&root().join("docs/glossary.md")).lines().filter(|line| line.starts_with("| ")).count();
    assert!(terms >= 40, "{terms}");
}
