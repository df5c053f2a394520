//! An answer's lines, broken between words where the terminal ends. Code, tables and indented lines stay as they are.
//!
//! A word is shown when it is over, so that none is begun on one line and then moved to the next.

use console::measure_text_width;

/// Columns of indentation from which on a line is code.
const CODE_INDENT: usize = 4;
/// A tab leads to the next multiple of so many columns.
const TAB: usize = 8;

/// Where a text's end stands on a terminal.
#[derive(Debug, Default)]
pub struct WordWrap {
    column: usize,
    /// What of the last word is known, and the blanks before it.
    word: String,
    blanks: String,
    /// Whether the word's beginning is shown already.
    cut: bool,
    /// Whether something stands on the line.
    begun: bool,
    /// Whether the line is left as it is.
    verbatim: bool,
    /// Whether lines are those of a block of code.
    fenced: bool,
}

impl WordWrap {
    /// What of a text, and of what came before it, is to be shown now on a terminal of so many columns; 0: as it is.
    pub fn push(&mut self, text: &str, width: usize) -> String {
        let mut out = String::new();
        for c in text.chars() {
            match c {
                '\n' => {
                    self.end_word(&mut out, width);
                    out.push_str(&std::mem::take(&mut self.blanks));
                    out.push('\n');
                    *self = WordWrap { fenced: self.fenced, ..WordWrap::default() };
                }
                ' ' | '\t' => {
                    self.end_word(&mut out, width);
                    self.blanks.push(c);
                }
                c if is_wide(c) => {
                    // Such scripts have no blanks: lines may end anywhere.
                    self.end_word(&mut out, width);
                    self.word.push(c);
                    self.end_word(&mut out, width);
                }
                c => self.word.push(c),
            }
        }
        // A line's first word may be a fence, which is known when it is over.
        let verbatim = self.begun && (self.verbatim || self.fenced);
        if width == 0 || verbatim || measure_text_width(&self.word) >= width {
            let cut = self.cut || !self.word.is_empty();
            self.flush_into(&mut out, width);
            self.cut = cut;
        }
        out
    }

    /// What was held back; the text may go on behind it.
    pub fn flush(&mut self, width: usize) -> String {
        let mut out = String::new();
        self.flush_into(&mut out, width);
        out
    }

    fn flush_into(&mut self, out: &mut String, width: usize) {
        self.end_word(out, width);
        // Blanks that a break may stand for wait for the next word.
        if width == 0 || self.verbatim || self.fenced {
            let blanks = std::mem::take(&mut self.blanks);
            self.column += blanks_width(self.column, &blanks);
            out.push_str(&blanks);
        }
    }

    fn end_word(&mut self, out: &mut String, width: usize) {
        let cut = std::mem::take(&mut self.cut);
        if self.word.is_empty() {
            return;
        }
        let (word, blanks) = (std::mem::take(&mut self.word), std::mem::take(&mut self.blanks));
        let before = blanks_width(self.column, &blanks);
        if !self.begun {
            let fence = before < CODE_INDENT && (word.starts_with("```") || word.starts_with("~~~"));
            self.fenced ^= fence;
            self.verbatim = fence || before >= CODE_INDENT || word.starts_with('|');
        }
        let wide = measure_text_width(&word);
        let fits = width == 0 || self.verbatim || self.fenced || self.column + before + wide <= width;
        if fits || cut || !self.begun {
            out.push_str(&blanks);
            self.column += before + wide;
        } else {
            out.push('\n');
            self.column = wide;
        }
        if width > 0 {
            self.column = match self.column % width {
                0 if self.column > 0 => width,
                column => column, // a word longer than lines is broken by the terminal
            };
        }
        self.begun = true;
        out.push_str(&word);
    }
}

/// Columns of blanks that begin in a column.
fn blanks_width(column: usize, blanks: &str) -> usize {
    let end = blanks.chars().fold(column, |at, c| if c == '\t' { (at / TAB + 1) * TAB } else { at + 1 });
    end - column
}

fn is_wide(c: char) -> bool {
    // What is below has one column each.
    c >= '\u{1100}' && measure_text_width(c.encode_utf8(&mut [0; 4])) == 2
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A text in one piece, which is as in pieces of each size.
    fn wrap(text: &str, width: usize) -> String {
        let mut whole = WordWrap::default();
        let whole = whole.push(text, width) + &whole.flush(width);
        let chars: Vec<char> = text.chars().collect();
        for size in 1..6 {
            let mut wrap = WordWrap::default();
            let parts: String = chars.chunks(size).map(|c| wrap.push(&c.iter().collect::<String>(), width)).collect();
            assert_eq!(parts + &wrap.flush(width), whole, "pieces of {size} of {text:?}");
        }
        whole
    }

    #[test]
    fn lines_break_between_words() {
        assert_eq!(wrap("the quick brown fox", 10), "the quick\nbrown fox");
        assert_eq!(wrap("the quick  brown\nfox jumps over it\n", 9), "the quick\nbrown\nfox jumps\nover it\n");
        assert_eq!(wrap("exactly ten", 11), "exactly ten");
        assert_eq!(wrap("a wordlongerthanaline b", 8), "a\nwordlongerthanaline b");
        assert_eq!(wrap("  - a list of words", 10), "  - a list\nof words");
        assert_eq!(wrap("nothing is known of it", 0), "nothing is known of it");
        assert_eq!(wrap("", 10), "");
    }

    #[test]
    fn wide_characters_take_two_columns_and_lines_end_behind_any() {
        assert_eq!(wrap("日本語の文章", 6), "日本語\nの文章");
        assert_eq!(wrap("ab 日本語", 6), "ab 日\n本語");
        assert_eq!(wrap("é à ü ñ", 3), "é à\nü ñ");
    }

    #[test]
    fn code_tables_and_indented_lines_stay() {
        let code = "```python\nprint(a, b, c, d)\n  if x then y else z\n```\n";
        assert_eq!(wrap(&format!("{code}the quick brown"), 10), format!("{code}the quick\nbrown"));
        for line in ["    indented code is long", "| a table | has | cells |", "\ta tab before code"] {
            assert_eq!(wrap(line, 8), line);
        }
        // A code span within a line is text.
        assert_eq!(wrap("call ```x``` now and then", 12), "call ```x```\nnow and then");
    }
}
