//! Python's operations on strings, with marks kept.

use std::ops::Range;

use crate::budget::RenderBudget;
use crate::error::{Error, Result};
use crate::text::{Builder, Text};

/// Python's white space: Unicode's and four separators.
pub(crate) fn space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

/// `strip`, `lstrip` and `rstrip`: of white space, or of any of `chars`.
pub(crate) fn strip(budget: &RenderBudget, text: &Text, chars: Option<&str>, left: bool, right: bool) -> Result<Text> {
    budget.scan(text.len())?;
    let set: Option<std::collections::HashSet<char>> = chars.map(|c| c.chars().collect());
    let gone = |c: char| set.as_ref().map_or_else(|| space(c), |set| set.contains(&c));
    let s = text.as_str();
    let start = if left { s.len() - s.trim_start_matches(gone).len() } else { 0 };
    let end = if right { start + s[start..].trim_end_matches(gone).len() } else { s.len() };
    text.slice(budget, start..end)
}

/// `split` and `rsplit`; `limit` splits at most.
pub(crate) fn split(
    budget: &RenderBudget,
    text: &Text,
    sep: Option<&str>,
    limit: Option<usize>,
    right: bool,
) -> Result<Vec<Text>> {
    budget.scan(text.len())?;
    let s = text.as_str();
    let limit = limit.unwrap_or(usize::MAX);
    let mut parts: Vec<Range<usize>> = Vec::new();
    match (sep, right) {
        (Some(""), _) => return Err(Error::template("empty separator")),
        (Some(sep), false) => {
            let mut at = 0;
            while let Some(found) = (parts.len() < limit).then(|| s[at..].find(sep)).flatten() {
                parts.push(at..at + found);
                at += found + sep.len();
            }
            parts.push(at..s.len());
        }
        (Some(sep), true) => {
            let mut end = s.len();
            while let Some(found) = (parts.len() < limit).then(|| s[..end].rfind(sep)).flatten() {
                parts.push(found + sep.len()..end);
                end = found;
            }
            parts.push(0..end);
            parts.reverse();
        }
        (None, false) => {
            let mut at = s.len() - s.trim_start_matches(space).len();
            while at < s.len() {
                let len = match parts.len() < limit {
                    true => s[at..].find(space).unwrap_or(s.len() - at),
                    false => s.len() - at,
                };
                parts.push(at..at + len);
                at = s.len() - s[at + len..].trim_start_matches(space).len();
            }
        }
        (None, true) => {
            let mut end = s.trim_end_matches(space).len();
            while end > 0 {
                let word =
                    s[..end].char_indices().rev().find(|(_, c)| space(*c)).map_or(0, |(at, c)| at + c.len_utf8());
                let start = if parts.len() < limit { word } else { 0 };
                parts.push(start..end);
                end = s[..start].trim_end_matches(space).len();
            }
            parts.reverse();
        }
    }
    budget.elements(parts.len())?;
    parts.into_iter().map(|range| text.slice(budget, range)).collect()
}

/// `splitlines`: at all line ends that Python knows.
pub(crate) fn lines(budget: &RenderBudget, text: &Text, keep: bool) -> Result<Vec<Text>> {
    budget.scan(text.len())?;
    let s = text.as_str();
    let ends = |c: char| {
        matches!(c, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}')
    };
    let mut lines = Vec::new();
    let mut at = 0;
    while at < s.len() {
        let (end, next) = match s[at..].char_indices().find(|(_, c)| ends(*c)) {
            Some((i, '\r')) if s[at + i + 1..].starts_with('\n') => (at + i, at + i + 2),
            Some((i, c)) => (at + i, at + i + c.len_utf8()),
            None => (s.len(), s.len()),
        };
        budget.elements(1)?;
        lines.push(text.slice(budget, at..if keep { next } else { end })?);
        at = next;
    }
    Ok(lines)
}

/// `replace`, `count` times at most.
pub(crate) fn replace(budget: &RenderBudget, text: &Text, old: &str, new: &Text, count: Option<usize>) -> Result<Text> {
    budget.scan(text.len())?;
    let s = text.as_str();
    let mut out = Builder::new(budget);
    let mut at = 0;
    // An empty `old` matches before every character and at the end.
    for (found, _) in s.match_indices(old).take(count.unwrap_or(usize::MAX)) {
        out.push_slice(text, at..found)?;
        out.push(new)?;
        at = found + old.len();
    }
    out.push_slice(text, at..s.len())?;
    Ok(out.finish().with_safe(text.safe))
}

/// A text joined from parts.
pub(crate) fn join(budget: &RenderBudget, sep: &Text, parts: &[Text]) -> Result<Text> {
    let mut out = Builder::new(budget);
    for (i, part) in parts.iter().enumerate() {
        if i > 0 {
            out.push(sep)?;
        }
        out.push(part)?;
    }
    Ok(out.finish())
}

/// Every character replaced by others.
pub(crate) fn map(budget: &RenderBudget, text: &Text, mut each: impl FnMut(char, &mut String)) -> Result<Text> {
    budget.work(1 + text.len() / 4)?;
    let mut out = Builder::new(budget);
    let mut piece = String::new();
    for (c, marked) in text.chars() {
        piece.clear();
        each(c, &mut piece);
        out.push_str(&piece, marked)?;
    }
    Ok(out.finish().with_safe(text.safe))
}

pub(crate) fn upper(budget: &RenderBudget, text: &Text) -> Result<Text> {
    map(budget, text, |c, out| out.extend(c.to_uppercase()))
}

pub(crate) fn lower(budget: &RenderBudget, text: &Text) -> Result<Text> {
    map(budget, text, |c, out| out.extend(c.to_lowercase()))
}

/// A character at the start of a word: of those that become several, only the first letter is large.
fn large(c: char, out: &mut String) {
    let mut cased = false;
    for upper in c.to_uppercase() {
        if cased {
            out.extend(upper.to_lowercase());
        } else {
            out.push(upper);
        }
        cased |= upper.is_uppercase();
    }
}

/// The first character large, the others small.
pub(crate) fn capitalize(budget: &RenderBudget, text: &Text) -> Result<Text> {
    let mut first = true;
    map(budget, text, |c, out| if std::mem::take(&mut first) { large(c, out) } else { out.extend(c.to_lowercase()) })
}

/// Words capitalized; `inside` says after which characters a word goes on.
pub(crate) fn title(budget: &RenderBudget, text: &Text, inside: impl Fn(char) -> bool) -> Result<Text> {
    let mut start = true;
    map(budget, text, |c, out| {
        if start {
            large(c, out)
        } else {
            out.extend(c.to_lowercase())
        }
        start = !inside(c);
    })
}

/// What must not stand in HTML, escaped as markupsafe does.
pub(crate) fn escape(budget: &RenderBudget, text: &Text) -> Result<Text> {
    let escaped = map(budget, text, |c, out| match c {
        '&' => out.push_str("&amp;"),
        '<' => out.push_str("&lt;"),
        '>' => out.push_str("&gt;"),
        '\'' => out.push_str("&#39;"),
        '"' => out.push_str("&#34;"),
        c => out.push(c),
    })?;
    Ok(escaped.with_safe(true))
}

/// `ljust`, `rjust`, `center` and `zfill`: filled up to a width. `left` and `right` say on which sides.
pub(crate) fn fill(
    budget: &RenderBudget,
    text: &Text,
    width: i128,
    with: char,
    left: bool,
    right: bool,
) -> Result<Text> {
    let len = text.as_str().chars().count();
    let width = usize::try_from(width.max(0)).unwrap_or(usize::MAX);
    let missing = width.saturating_sub(len);
    budget.string(missing)?;
    let before = match (left, right) {
        // Python puts the odd one on the left if the width is odd, too.
        (true, true) => missing / 2 + (missing & width & 1),
        (true, false) => missing,
        _ => 0,
    };
    let mut out = Builder::new(budget);
    // What fills may be a character from outside.
    let marked = !matches!(with, ' ' | '0');
    (0..before).try_for_each(|_| out.push_char(with, marked))?;
    out.push(text)?;
    (before..missing).try_for_each(|_| out.push_char(with, marked))?;
    Ok(out.finish().with_safe(text.safe))
}
