//! `wordwrap`, as Python's textwrap breaks lines.

use crate::error::{Error, Result};
use crate::template::args::CallArgs;
use crate::template::run::Machine;
use crate::template::strings;
use crate::text::Text;
use crate::value::{show, Value};

/// What separates words; other white space is part of them.
fn separates(c: char) -> bool {
    matches!(c, '\t'..='\r' | ' ')
}

/// The filter.
pub(super) fn wrap(machine: &Machine, text: &Text, mut args: CallArgs) -> Result<Value> {
    let names = ["width", "break_long_words", "wrapstring", "break_on_hyphens"];
    let [width, long, with, hyphens] = args.bind("wordwrap", names)?;
    let width = width.map_or(Ok(79), |w| w.index())?;
    if width <= 0 {
        return Err(Error::template(format!("invalid width {width} (must be > 0)")));
    }
    let style = WrapStyle {
        width: usize::try_from(width).unwrap_or(usize::MAX),
        long: long.is_none_or(|l| l.truth()),
        hyphens: hyphens.is_none_or(|h| h.truth()),
    };
    let with = with.map_or(Ok(Text::plain("\n")), |w| show::text(machine.budget, &w))?;
    let mut all = Vec::new();
    for line in strings::lines(machine.budget, text, false)? {
        let chars: Vec<char> = line.as_str().chars().collect();
        all.push(style.break_line(&chars).join(with.as_str()));
        machine.budget.take(all.last().map_or(0, String::len) + with.len())?;
    }
    Ok(Value::Str(Text::derive(all.join(with.as_str()), &[text, &with])))
}

struct WrapStyle {
    width: usize,
    /// Words that are longer than a line are broken.
    long: bool,
    /// Words may be broken at their hyphens.
    hyphens: bool,
}

impl WrapStyle {
    fn break_line(&self, line: &[char]) -> Vec<String> {
        let blank = |chunk: &[char]| chunk.iter().all(|c| strings::space(*c));
        let mut chunks = self.chunks(line);
        let (mut lines, mut at): (Vec<String>, usize) = (Vec::new(), 0);
        while at < chunks.len() {
            let (mut made, mut used): (Vec<&[char]>, usize) = (Vec::new(), 0);
            at += usize::from(!lines.is_empty() && blank(chunks[at]));
            while let Some(chunk) = chunks.get(at).filter(|chunk| used + chunk.len() <= self.width) {
                made.push(chunk);
                used += chunk.len();
                at += 1;
            }
            if let Some(chunk) = chunks.get(at).copied().filter(|chunk| chunk.len() > self.width) {
                if self.long {
                    let (head, rest) = chunk.split_at(self.cut(chunk, self.width - used));
                    made.push(head);
                    chunks[at] = rest;
                } else if made.is_empty() {
                    made.push(chunk);
                    at += 1;
                }
            }
            made.pop_if(|last| blank(last));
            if !made.is_empty() {
                lines.push(made.concat().into_iter().collect());
            }
        }
        lines
    }

    /// How much of a word that is too long stands in the room that is left.
    fn cut(&self, word: &[char], room: usize) -> usize {
        let hyphen = word[..room].iter().rposition(|c| *c == '-').filter(|_| self.hyphens);
        hyphen.filter(|at| word[..*at].iter().any(|c| *c != '-')).map_or(room, |at| at + 1)
    }

    /// Words, or parts of them, and what stands between.
    fn chunks<'a>(&self, line: &'a [char]) -> Vec<&'a [char]> {
        let (mut chunks, mut from) = (Vec::new(), 0);
        while from < line.len() {
            let same = |at: &usize| separates(line[*at]) != separates(line[from]);
            let end = (from + 1..line.len()).find(same).unwrap_or(line.len());
            let dashes = dashes(line, from);
            let end = match self.hyphens && !separates(line[from]) {
                true if dashes > 0 => from + dashes,
                true => (from + 1..end).find(|at| breaks(line, from, *at)).unwrap_or(end),
                false => end,
            };
            chunks.push(&line[from..end]);
            from = end;
        }
        chunks
    }
}

fn word(c: Option<&char>) -> bool {
    c.is_some_and(|c| c.is_alphanumeric() || *c == '_')
}

fn letter(c: Option<&char>) -> bool {
    word(c) && !c.is_some_and(|c| c.is_numeric())
}

/// Hyphens of a dash between two words that begins there: two or more.
fn dashes(line: &[char], at: usize) -> usize {
    let before = at.checked_sub(1).and_then(|i| line.get(i));
    if !word(before) && !before.is_some_and(|c| "!\"'&.,?".contains(*c)) {
        return 0;
    }
    let count = line[at..].iter().take_while(|c| **c == '-').count();
    if count > 1 && word(line.get(at + count)) {
        count
    } else {
        0
    }
}

/// Whether the word that begins at `from` may be broken before `at`: behind a hyphen between letters, or before a dash.
fn breaks(line: &[char], from: usize, at: usize) -> bool {
    if dashes(line, at) > 0 {
        return true;
    }
    let back = |n: usize| at.checked_sub(n).and_then(|i| line.get(i));
    let ahead = letter(line.get(at))
        && (letter(line.get(at + 1)) || line.get(at + 1) == Some(&'-') && letter(line.get(at + 2)));
    let two = letter(back(2)) && letter(back(3));
    let one =
        back(3) == Some(&'-') && letter(back(4)) && (word(back(2)) || back(2).is_some_and(|c| "!\"'&.,?".contains(*c)));
    at > from + 1 && back(1) == Some(&'-') && ahead && (two || one)
}
