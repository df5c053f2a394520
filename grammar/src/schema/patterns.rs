//! Regular expressions as generators write them.

use serde_json::{Map, Value};

/// Keeps the seconds of times below 60: what reads them knows no leap seconds.
pub(super) fn seconds(out: &mut Map<String, Value>) {
    let is_time =
        out.get("format").and_then(Value::as_str).is_some_and(|format| ["time", "date-time"].contains(&format));
    if is_time && !out.contains_key("pattern") {
        out.insert("pattern".into(), "^[^:]*:[^:]*:[0-5]".into());
    }
}

/// A regular expression in words that the automata know: ends of a text as Python writes them, and a class of everything.
pub(super) fn as_known(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len());
    let mut rest = pattern;
    while let Some(next) = rest.chars().next() {
        let known = [("\\A", "^"), ("\\Z", "$"), ("\\z", "$"), ("[^]", "[\\s\\S]")];
        if let Some((word, same)) = known.iter().find(|(word, _)| rest.starts_with(word)) {
            out.push_str(same);
            rest = &rest[word.len()..];
            continue;
        }
        // What is behind a sign is no sign of its own.
        let len = next.len_utf8() + if next == '\\' { rest[1..].chars().next().map_or(0, char::len_utf8) } else { 0 };
        out.push_str(&rest[..len]);
        rest = &rest[len..];
    }
    out
}

/// Whether it is no regular expression in any notation: what is open stays open, or what repeats has nothing to repeat. All else that
/// cannot be compiled is beyond automata: it looks around, back, or at borders of words.
pub(super) fn is_broken(pattern: &str) -> bool {
    let (mut open, mut class, mut bare) = (0usize, false, true);
    let mut chars = pattern.chars().peekable();
    while let Some(next) = chars.next() {
        match next {
            '\\' if chars.next().is_none() => return true,
            '[' if !class => {
                class = true;
                if chars.peek() == Some(&'^') {
                    chars.next();
                }
            }
            ']' if class => class = false,
            _ if class => {}
            '(' => {
                open += 1;
                if chars.peek() == Some(&'?') {
                    chars.next();
                }
            }
            ')' if open == 0 => return true,
            ')' => open -= 1,
            '*' | '+' | '?' if bare => return true,
            _ => {}
        }
        bare = !class && matches!(next, '(' | '|');
    }
    class || open > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_that_are_broken_differ_from_those_beyond_automata() {
        for broken in ["^([a-z$", "(a", "a)", "*a", "a|+b", "(?", "[a", "a\\", "(*)"] {
            assert!(is_broken(broken), "{broken}");
        }
        for beyond in [
            "\\bfoo\\b",
            "^(?!x)a",
            "(a)\\1",
            "^\\cA$",
            "(?<=a)b",
            "[*+?(]",
            "a{,3}",
            "[^]]",
            "\\(",
            "(?:a)*",
            "a*?",
            "(a)+",
        ] {
            assert!(!is_broken(beyond), "{beyond}");
        }
    }

    #[test]
    fn words_of_other_notations_are_brought_over() {
        for (given, want) in
            [("\\A\\d+\\Z", "^\\d+$"), ("\\\\Aa", "\\\\Aa"), ("[^]+", "[\\s\\S]+"), ("a\\z", "a$"), ("é\\é", "é\\é")]
        {
            assert_eq!(as_known(given), want);
        }
    }
}
