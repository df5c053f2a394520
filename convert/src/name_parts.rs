//! What a model's id says: organization, base, size, version and fine-tune, as GGUF's naming convention divides it.

use regex::Regex;
use std::sync::LazyLock;

/// The parts of an id; none where it does not say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NameParts {
    /// The id without its organization.
    pub full: Option<String>,
    /// Who made it.
    pub organization: Option<String>,
    /// The family.
    pub basename: Option<String>,
    /// What it was tuned for.
    pub finetune: Option<String>,
    /// Its version.
    pub version: Option<String>,
    /// Its size.
    pub size_label: Option<String>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Is {
    basename: bool,
    size: bool,
    finetune: bool,
    version: bool,
    kind: bool,
}

impl Is {
    fn any(self) -> bool {
        self.basename || self.size || self.finetune || self.version || self.kind
    }

    fn count(self) -> usize {
        [self.basename, self.size, self.finetune, self.version, self.kind].iter().filter(|b| **b).count()
    }
}

#[allow(clippy::unwrap_used)] // they are constant, and every test of this module compiles them
fn pattern(text: &str) -> Regex {
    Regex::new(&format!("^(?i:{text})$")).unwrap()
}

static VERSION: LazyLock<Regex> = LazyLock::new(|| pattern(r"(v|iter)?\d+([.]\d+)*"));
static KIND: LazyLock<Regex> = LazyLock::new(|| pattern(r"i?q\d(_\w)*|b?fp?(16|32)"));
static SIZE: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(([A]|\d+[x])?\d+([._]\d+)?[KMBT][\d]?|small|mini|medium|large|x?xl)"));
static TUNE: LazyLock<Regex> = LazyLock::new(|| pattern("chat|instruct|vision|lora"));
static NO_TITLE: LazyLock<Regex> = LazyLock::new(|| pattern(r"v\d+(?:\.\d+)*|\d.*"));

/// An id as a title: words of small letters get a capital, unless they are versions.
pub fn title(id: &str) -> String {
    let lower = |w: &str| w.chars().any(char::is_lowercase) && !w.chars().any(char::is_uppercase);
    // `$` stands before a last line break, too; words have none.
    let small = |w: &str| lower(w) && !NO_TITLE.is_match(w);
    let dashes = id.trim().replace('-', " ");
    let words = dashes.split_whitespace().map(|w| if small(w) { capitalize(w) } else { w.to_string() });
    words.collect::<Vec<_>>().join(" ")
}

/// A capital after everything that is no letter.
fn capitalize(word: &str) -> String {
    let mut out = String::new();
    let mut after = false;
    for c in word.chars() {
        if after {
            out.push(c);
        } else {
            out.extend(c.to_uppercase());
        }
        after = c.is_lowercase() || c.is_uppercase();
    }
    out
}

/// A part that looks like a size, as it is written, and whether the model's size says that it is something else.
fn size(part: &str, total: i64) -> (String, bool) {
    let mut chars: Vec<char> = part.replace('_', ".").chars().collect();
    let n = chars.len();
    if chars[n - 1].is_ascii_digit() && n >= 2 {
        // 7b1 is 7.1b
        let (unit, digit) = (chars[n - 2], chars[n - 1]);
        chars.splice(n - 2.., ['.', digit, unit]);
    }
    let n = chars.len();
    if n > 1 && chars[n - 2].is_ascii_digit() && "kmbt".contains(chars[n - 1]) {
        chars[n - 1] = chars[n - 1].to_ascii_uppercase();
    }
    let last = chars[n - 1];
    let text: String = chars.iter().collect();
    let number = chars[..n - 1].iter().collect::<String>().parse::<f64>().ok();
    let (Some(number), true) = (number, total != 0) else { return (text, false) };
    let power = " KMBT".find(last).map_or(-1, |at| at as i32);
    let label = number * 1000f64.powi(power);
    let parameters = total.unsigned_abs();
    let other = match total < 0 {
        true => label < (parameters / 8) as f64,
        false => (label - total as f64).abs() > (7 * parameters / 8) as f64,
    };
    if !other {
        return (text, false);
    }
    // Likely the length of a context.
    chars[n - 1] = last.to_ascii_lowercase();
    (chars.iter().collect(), true)
}

/// The parts of an id. `total` is the number of weights; negative for adapters, 0 if it is not known.
pub fn parts(id: &str, total: i64) -> NameParts {
    if id.contains(' ') {
        return NameParts { full: Some(id.to_string()), ..NameParts::default() };
    }
    let (organization, full) = match id.split_once('/') {
        Some((organization, full)) => (Some(organization).filter(|o| !o.starts_with('.')), full),
        None => (None, id),
    };
    let mut names: Vec<String> = full.split('-').filter(|p| !p.is_empty()).map(String::from).collect();
    let mut is = vec![Is::default(); names.len()];
    for (i, (name, is)) in names.iter_mut().zip(&mut is).enumerate() {
        if VERSION.is_match(name) {
            is.version = true;
        } else if KIND.is_match(name) {
            is.kind = true;
            *name = name.to_uppercase();
        } else if i > 0 && SIZE.is_match(name) {
            let (text, other) = size(name, total);
            *name = text;
            is.finetune = other;
            is.size = !other;
        } else if i > 0 && TUNE.is_match(name) {
            let redundant = total < 0 && name.eq_ignore_ascii_case("lora");
            is.kind = redundant;
            is.finetune = !redundant;
        }
    }
    let digits = |n: &String| n.chars().any(|c| c.is_numeric());
    if names.iter().zip(&is).any(|(n, is)| is.size && digits(n)) {
        let words = names.iter().zip(&mut is).filter(|(n, is)| is.size && n.chars().all(char::is_alphabetic));
        words.for_each(|(_, is)| is.size = false);
    }
    let mut at_start = true;
    for (name, is) in names.iter().zip(&mut is) {
        if at_start && (!is.any() && name.starts_with(char::is_alphabetic) || is.version) {
            is.basename = true;
        } else {
            at_start = false;
            is.finetune |= !is.any();
        }
    }
    for is in is.iter_mut().rev() {
        if !is.basename || is.count() < 2 {
            break;
        }
        is.basename = false;
    }
    let join = |wanted: fn(&Is) -> bool, once: bool| {
        let mut found: Vec<&str> = Vec::new();
        for (name, is) in names.iter().zip(&is) {
            if wanted(is) && !(once && found.contains(&name.as_str())) {
                found.push(name);
            }
        }
        Some(found.join("-")).filter(|text| !text.is_empty())
    };
    let basename = join(|is| is.basename, false);
    let size_label = join(|is| is.size, true);
    let finetune = join(|is| is.finetune, false);
    let version = join(|is| is.version && !is.basename, false);
    let ambiguous = size_label.is_none() && finetune.is_none() && version.is_none();
    NameParts {
        full: Some(full.to_string()),
        organization: organization.map(String::from),
        basename: basename.filter(|_| !ambiguous),
        finetune,
        version,
        size_label,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_come_apart_as_the_naming_convention_says() {
        let rows = [
            ("Mistral-7B-Instruct-v0.2", 7_000_000_000, "Mistral|Instruct|v0.2|7B"),
            ("bloom-7b1-petals", 7_100_000_000, "bloom|petals||7.1B"),
            ("tiny-llama-32k", 1_000_000_000, "tiny-llama|32k||"),
            ("all-MiniLM-L6-v2", 22_700_000, "all-MiniLM-L6||v2|"),
            ("model", 0, "|||"),
        ];
        for (id, total, expected) in rows {
            let p = parts(id, total);
            let found = [p.basename, p.finetune, p.version, p.size_label].map(Option::unwrap_or_default).join("|");
            assert_eq!(found, expected, "{id}");
        }
        assert_eq!(title("tiny-llama-v1.5-7B"), "Tiny Llama v1.5 7B");
    }
}
