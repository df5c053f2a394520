//! Tells the program which commit it is built of (`PUMEX_COMMIT`), where it is built in a checkout and nobody tells it.

use std::process::Command;

fn git(args: &[&str]) -> Option<String> {
    let done = Command::new("git").args(args).output().ok().filter(|done| done.status.success())?;
    String::from_utf8(done.stdout).ok().map(|text| text.trim().to_string())
}

fn main() {
    // Not at each commit: what was built of the same sources need not be built again.
    for entry in std::fs::read_dir("..").into_iter().flatten().flatten() {
        let sources = entry.path().join("src");
        if sources.is_dir() {
            println!("cargo::rerun-if-changed={}", sources.display());
        }
    }
    println!("cargo::rerun-if-changed=../src");
    println!("cargo::rerun-if-changed=../Cargo.toml");
    println!("cargo::rerun-if-env-changed=PUMEX_COMMIT");
    let own = || git(&["rev-parse", "--show-prefix"]).filter(|prefix| prefix == "cli/");
    let commit =
        std::env::var("PUMEX_COMMIT").ok().or_else(|| own().and_then(|_| git(&["rev-parse", "--short", "HEAD"])));
    if let Some(commit) = commit.filter(|commit| !commit.is_empty()) {
        println!("cargo::rustc-env=PUMEX_COMMIT={commit}");
    }
}
