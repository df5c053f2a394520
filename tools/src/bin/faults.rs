//! Applies the faults of `tests/faults` one by one to a copy of the checkout, and tells which test sees each. Ends with 1 where
//! one goes unseen. Arguments: parts of faults' names; none takes all.

use pumex_tools::faults::{all, By, Fault};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Profile of the builds: the crate with the faults as fast as it compiles, the others as fast as they need to run.
const PROFILE: [&str; 4] = [
    "profile.dev.opt-level=1",
    "profile.dev.debug=0",
    "profile.dev.package.pumex.opt-level=0",
    "profile.dev.package.pumex.overflow-checks=true",
];

/// A copy of the checkout, with a build folder of its own.
struct Copy {
    source: PathBuf,
    target: PathBuf,
}

/// What became of the tests of a fault.
enum FaultResult {
    /// These failed.
    By(Vec<String>),
    /// All passed.
    Not,
    /// They could not be built or run.
    Error(String),
}

impl Copy {
    /// Brings the copy up to date. Files that are the same keep their times, so that little is built anew.
    fn of(root: &Path) -> Result<Copy, String> {
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
        let folder = std::path::absolute(target).map_err(|e| e.to_string())?.join("faults");
        let copy = Copy { source: folder.join("source"), target: folder.join("target") };
        let list = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
        let listed = Command::new("git").args(list).current_dir(root).output().map_err(|e| format!("git: {e}"))?;
        let told = |file: &Path| {
            let file = file.display().to_string();
            move |e: std::io::Error| format!("{file}: {e}")
        };
        let mut kept = BTreeSet::new();
        for name in String::from_utf8_lossy(&listed.stdout).split('\0').filter(|name| !name.is_empty()) {
            let (from, to) = (root.join(name), copy.source.join(name));
            let Ok(bytes) = std::fs::read(&from) else { continue };
            if std::fs::read(&to).ok().as_ref() != Some(&bytes) {
                std::fs::create_dir_all(to.parent().unwrap_or(&to)).map_err(told(&to))?;
                std::fs::write(&to, bytes).map_err(told(&to))?;
            }
            kept.insert(to);
        }
        remove_others(&copy.source, &kept).map_err(told(&copy.source))?;
        #[cfg(unix)]
        if let (Ok(shared), false) = (root.join("../shared").canonicalize(), folder.join("shared").exists()) {
            std::os::unix::fs::symlink(shared, folder.join("shared")).map_err(told(&folder))?;
        }
        Ok(copy)
    }

    /// Runs tests, or with `build_only` builds them; gives whether all went well, and what was said.
    fn cargo(&self, by: &By, build_only: bool) -> Result<(bool, String), String> {
        let mut cargo = Command::new("cargo");
        cargo.arg("test").current_dir(&self.source).env("CARGO_TARGET_DIR", &self.target);
        for setting in PROFILE {
            cargo.args(["--config", setting]);
        }
        match by.target.as_str() {
            "main" => cargo.args(["-p", "pumex", "--test", "main"]),
            package => cargo.args(["-p", package]),
        };
        if build_only {
            cargo.arg("--no-run");
        }
        if !by.models.is_empty() {
            cargo.env("PUMEX_SEEDED", &by.models);
        }
        let done = cargo.arg("--").arg(&by.filter).output().map_err(|e| format!("cargo: {e}"))?;
        let said = [done.stdout, done.stderr].concat();
        Ok((done.status.success(), String::from_utf8_lossy(&said).into_owned()))
    }

    /// What the tests say.
    fn ask(&self, by: &By) -> Result<FaultResult, String> {
        let (built, said) = self.cargo(by, true)?;
        if !built {
            return Ok(FaultResult::Error(said));
        }
        let (passed, said) = self.cargo(by, false)?;
        let failed = said.lines().filter_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED"));
        let failed: Vec<String> = failed.map(str::to_string).collect();
        let none = said.lines().filter(|line| line.starts_with("running ")).all(|line| line.starts_with("running 0 "));
        Ok(match (none, passed, failed.is_empty()) {
            (true, ..) => FaultResult::Error(format!("no test is named {:?}", by.filter)),
            (_, true, _) => FaultResult::Not,
            (_, false, false) => FaultResult::By(failed),
            (_, false, true) => FaultResult::Error(said),
        })
    }

    /// Which tests see a fault. The file is as it was afterwards.
    fn with(&self, fault: &Fault) -> Result<FaultResult, String> {
        let file = self.source.join(&fault.file);
        let text = std::fs::read_to_string(&file).map_err(|e| format!("{}: {e}", fault.file))?;
        std::fs::write(&file, fault.apply(&text)?).map_err(|e| format!("{}: {e}", fault.file))?;
        let mut seen = Ok(FaultResult::Not);
        for by in &fault.by {
            seen = self.ask(by);
            if !matches!(seen, Ok(FaultResult::Not)) {
                break;
            }
        }
        std::fs::write(&file, text).map_err(|e| format!("{}: {e}", fault.file))?;
        seen
    }
}

/// Removes files of an older copy.
fn remove_others(folder: &Path, kept: &BTreeSet<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            remove_others(&path, kept)?;
        } else if !kept.contains(&path) {
            std::fs::remove_file(&path)?;
        }
    }
    Ok(())
}

/// The last lines of what was said.
fn end_of(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}

fn run() -> Result<bool, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let mut faults = all(&root)?;
    faults.retain(|fault| wanted.is_empty() || wanted.iter().any(|part| fault.what.contains(part)));
    let copy = Copy::of(&root)?;
    // What fails without a fault sees none.
    let tests: BTreeSet<(&str, &str, &str)> = faults
        .iter()
        .flat_map(|f| &f.by)
        .map(|by| (by.target.as_str(), by.filter.as_str(), by.models.as_str()))
        .collect();
    for (target, filter, models) in tests {
        let by = By { target: target.into(), filter: filter.into(), models: models.into() };
        match copy.ask(&by)? {
            FaultResult::Not => {}
            FaultResult::By(failed) => return Err(format!("without a fault {} fail", failed.join(", "))),
            FaultResult::Error(said) => return Err(format!("{target} {filter} {models}: {}", end_of(&said))),
        }
    }
    let mut unseen = 0;
    for fault in &faults {
        let seen = copy.with(fault)?;
        match &seen {
            FaultResult::By(tests) => println!("{}: seen by {}", fault.what, tests.join(", ")),
            FaultResult::Not => println!("{}: NOT SEEN", fault.what),
            FaultResult::Error(said) => println!("{}: ERROR\n{}", fault.what, end_of(said)),
        }
        unseen += usize::from(!matches!(seen, FaultResult::By(_)));
    }
    println!("{} of {} faults are seen", faults.len() - unseen, faults.len());
    Ok(unseen == 0)
}

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(e) => {
            eprintln!("{e}");
            ExitCode::FAILURE
        }
    }
}
