//! Deliberate faults: one replaced line of the sources each, and the tests that must see it.
//!
//! A file of `tests/faults` has for each fault a line `= what is wrong`, `in FILE`, `- what stands there`, which must occur there
//! once, `+ what stands there instead`, and one or more `by TARGET FILTER [of NAME,...]`: `main` (the test binary), or a
//! package whose unit tests are meant, what the names of its tests contain, and the seeded models they are to take.

use std::path::Path;

/// Tests that must see a fault.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct By {
    /// `main`, or a package whose unit tests are meant.
    pub target: String,
    /// What names of tests contain; empty takes all.
    pub filter: String,
    /// Seeded models, with commas between them; empty takes all.
    pub models: String,
}

/// A fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What is wrong then.
    pub what: String,
    /// File, from the root on.
    pub file: String,
    /// What stands there.
    pub right: String,
    /// What stands there instead.
    pub wrong: String,
    /// Tests, of which one must fail.
    pub by: Vec<By>,
}

impl Fault {
    /// The file with the fault.
    ///
    /// # Errors
    /// If what it replaces does not stand there once.
    pub fn apply(&self, text: &str) -> Result<String, String> {
        match text.matches(&self.right).count() {
            1 => Ok(text.replacen(&self.right, &self.wrong, 1)),
            n => Err(format!("{}: {:?} stands {n} times in {}, expected once", self.what, self.right, self.file)),
        }
    }

    fn is_whole(&self) -> bool {
        ![&self.file, &self.right, &self.wrong].iter().any(|part| part.is_empty()) && !self.by.is_empty()
    }
}

/// The faults of a file.
///
/// # Errors
/// The first line that is none of these, or a fault that lacks one.
pub fn parse(text: &str) -> Result<Vec<Fault>, String> {
    let mut faults: Vec<Fault> = Vec::new();
    let told = |line: &str| line.trim_end().to_string();
    for line in text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
        let (kind, rest) = line.split_once(' ').ok_or_else(|| format!("{line:?} is no line of a fault"))?;
        if kind == "=" {
            let empty = String::new;
            faults.push(Fault { what: told(rest), file: empty(), right: empty(), wrong: empty(), by: Vec::new() });
            continue;
        }
        let fault = faults.last_mut().ok_or_else(|| format!("{line:?} before any fault"))?;
        match kind {
            "in" => fault.file = told(rest),
            "-" => fault.right = told(rest),
            "+" => fault.wrong = told(rest),
            "by" => {
                let (tests, models) = rest.split_once(" of ").unwrap_or((rest, ""));
                let (target, filter) = tests.split_once(' ').unwrap_or((tests, ""));
                fault.by.push(By { target: told(target), filter: told(filter), models: told(models) });
            }
            _ => return Err(format!("{line:?} is no line of a fault")),
        }
    }
    match faults.iter().find(|fault| !fault.is_whole()) {
        Some(fault) => Err(format!("{}: a fault has `in`, `-`, `+` and `by`", fault.what)),
        None => Ok(faults),
    }
}

/// All faults of a checkout.
///
/// # Errors
/// A file that cannot be read, or is no list of faults.
pub fn all(root: &Path) -> Result<Vec<Fault>, String> {
    let folder = root.join("tests/faults");
    let told = |e: std::io::Error| format!("{}: {e}", folder.display());
    let mut files = Vec::new();
    for entry in std::fs::read_dir(&folder).map_err(told)? {
        files.push(entry.map_err(told)?.path());
    }
    files.sort();
    let mut faults = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).map_err(told)?;
        faults.extend(parse(&text).map_err(|e| format!("{}: {e}", file.display()))?);
    }
    Ok(faults)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn root() -> std::path::PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
    }

    #[test]
    fn every_fault_fits_the_sources_and_changes_them() {
        let faults = all(&root()).unwrap();
        assert!(faults.len() >= 40, "{} faults", faults.len());
        for fault in &faults {
            let text = std::fs::read_to_string(root().join(&fault.file)).unwrap();
            assert_ne!(fault.apply(&text).unwrap(), text, "{}", fault.what);
        }
        let mut names: Vec<&str> = faults.iter().map(|fault| fault.what.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), faults.len(), "two faults are of one name");
    }

    #[test]
    fn models_and_tests_that_are_to_see_a_fault_are_there() {
        for by in all(&root()).unwrap().iter().flat_map(|fault| &fault.by) {
            for model in by.models.split(',').filter(|model| !model.is_empty()) {
                assert!(root().join("tests/golden/seeded").join(model).with_extension("json").is_file(), "{model}");
            }
            if let Some((module, test)) = by.filter.split_once("::").filter(|_| by.target == "main") {
                let text = std::fs::read_to_string(root().join("tests").join(module).with_extension("rs")).unwrap();
                assert!(text.contains(&format!("fn {test}")), "{}", by.filter);
            }
        }
    }

    #[test]
    fn a_line_that_is_no_part_of_a_fault_is_told() {
        assert!(parse("in src/lib.rs").unwrap_err().contains("before any fault"));
        assert!(parse("= what\nis wrong").unwrap_err().contains("no line of a fault"));
        assert!(parse("= what\nin a\n- b\n+ c").unwrap_err().contains("`by`"));
        let fault =
            &parse("# a remark\n= what\nin a\n- b\n+ c\nby pumex-text stops\nby main x::y of llama,bert\n").unwrap()[0];
        assert_eq!(fault.by[0].models, "");
        assert_eq!((fault.by[1].filter.as_str(), fault.by[1].models.as_str()), ("x::y", "llama,bert"));
        assert_eq!(fault.apply("a b a").unwrap(), "a c a");
        assert!(fault.apply("b b").is_err());
    }
}
