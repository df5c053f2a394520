//! Names with a slip in them, and which name of a list is meant.

/// The name of those that is meant by one with a slip in it: without regard to case, `_`, `-` and `.`, or one letter off.
pub fn nearest<'a>(found: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let plain = |text: &str| -> Vec<char> {
        text.chars().filter(|c| c.is_alphanumeric()).map(|c| c.to_ascii_lowercase()).collect()
    };
    let found = plain(found);
    let nearest = names.into_iter().map(|name| (distance(&found, &plain(name)), name)).min_by_key(|(n, _)| *n);
    nearest.filter(|(n, _)| !found.is_empty() && *n <= found.len() / 4).map(|(_, name)| name)
}

/// How many letters are to be added, taken away or changed.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut corner = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let changed = corner + usize::from(x != y);
            corner = row[j + 1];
            row[j + 1] = changed.min(corner + 1).min(row[j] + 1);
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_told_from_another_word() {
        let names = ["Q4_K_M", "Q4_K_S", "Q8_0", "IQ3_S"];
        for (found, meant) in [("Q4KM", Some("Q4_K_M")), ("q8-0", Some("Q8_0")), ("iq3s", Some("IQ3_S"))] {
            assert_eq!(nearest(found, names), meant, "{found}");
        }
        assert_eq!(nearest("lama-8b", ["llama-8b", "qwen3-8b"]), Some("llama-8b"));
        assert_eq!((nearest("", names), nearest("float", names)), (None, None));
    }
}
