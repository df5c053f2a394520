//! Strings that know which of their bytes came from outside the template.
//!
//! Messages, tools and a request's other values are *marked*; a template's own text is not. Every operation on strings is made of
//! slices and joins of these, so marks are exact wherever a character can be followed from its source, and cover the whole
//! result where it cannot.

use std::ops::Range;
use std::sync::Arc;

use crate::budget::RenderBudget;
use crate::error::Result;

/// Which bytes are marked.
#[derive(Clone, Debug)]
enum MarkedBytes {
    None,
    All,
    /// Sorted, neither empty nor touching.
    Some(Arc<[Range<usize>]>),
}

/// A string of a template's world.
#[derive(Clone, Debug)]
pub(crate) struct Text {
    s: Arc<str>,
    marks: MarkedBytes,
    /// What Python calls `Markup`: the filter `safe` made it, and `+` escapes what it meets.
    pub safe: bool,
}

impl Text {
    /// The template's own text.
    pub fn plain(s: impl Into<Arc<str>>) -> Text {
        Text { s: s.into(), marks: MarkedBytes::None, safe: false }
    }

    /// Text from outside.
    pub fn from_outside(s: impl Into<Arc<str>>) -> Text {
        Text { s: s.into(), marks: MarkedBytes::All, safe: false }
    }

    /// A string computed from others in a way that loses places: marked if one of them was.
    pub fn derive(s: String, from: &[&Text]) -> Text {
        let marks = if from.iter().any(|t| t.any_marked()) { MarkedBytes::All } else { MarkedBytes::None };
        Text { s: s.into(), marks, safe: false }
    }

    pub fn as_str(&self) -> &str {
        &self.s
    }

    pub fn to_shared(&self) -> Arc<str> {
        Arc::clone(&self.s)
    }

    pub fn len(&self) -> usize {
        self.s.len()
    }

    pub fn is_empty(&self) -> bool {
        self.s.is_empty()
    }

    pub fn any_marked(&self) -> bool {
        !self.s.is_empty() && !matches!(self.marks, MarkedBytes::None)
    }

    /// This text with its flag of being safe HTML set to `safe`.
    pub fn with_safe(mut self, safe: bool) -> Text {
        self.safe = safe;
        self
    }

    /// Marked byte ranges within `range`, relative to its start.
    pub fn marks_in(&self, range: Range<usize>) -> Vec<Range<usize>> {
        match &self.marks {
            MarkedBytes::None => Vec::new(),
            MarkedBytes::All if range.is_empty() => Vec::new(),
            MarkedBytes::All => std::iter::once(0..range.len()).collect(),
            MarkedBytes::Some(all) => {
                let first = all.partition_point(|m| m.end <= range.start);
                let near = all[first..].iter().take_while(|m| m.start < range.end);
                near.map(|m| m.start.max(range.start) - range.start..m.end.min(range.end) - range.start).collect()
            }
        }
    }

    /// The text in pieces that are wholly marked or wholly not.
    pub fn runs(&self) -> Vec<(Range<usize>, bool)> {
        let mut runs = Vec::new();
        let mut at = 0;
        for mark in self.marks_in(0..self.len()) {
            if mark.start > at {
                runs.push((at..mark.start, false));
            }
            at = mark.end;
            runs.push((mark, true));
        }
        if at < self.len() {
            runs.push((at..self.len(), false));
        }
        runs
    }

    /// Every character with its mark.
    pub fn chars(&self) -> impl Iterator<Item = (char, bool)> + '_ {
        self.runs().into_iter().flat_map(move |(range, marked)| self.s[range].chars().map(move |c| (c, marked)))
    }

    /// The bytes of a range, at borders of characters.
    pub fn slice(&self, budget: &RenderBudget, range: Range<usize>) -> Result<Text> {
        if range == (0..self.len()) {
            return Ok(self.clone());
        }
        budget.take(range.len() + 32)?;
        let marks = match &self.marks {
            MarkedBytes::Some(_) => MarkedBytes::of(self.marks_in(range.clone()), range.len()),
            whole => whole.clone(),
        };
        Ok(Text { s: self.s[range].into(), marks, safe: self.safe })
    }
}

impl MarkedBytes {
    fn of(ranges: Vec<Range<usize>>, len: usize) -> MarkedBytes {
        match ranges.as_slice() {
            [] => MarkedBytes::None,
            [all] if *all == (0..len) => MarkedBytes::All,
            _ => MarkedBytes::Some(ranges.into()),
        }
    }
}

/// A text in the making.
pub(crate) struct Builder<'b> {
    s: String,
    marks: Vec<Range<usize>>,
    budget: &'b RenderBudget,
}

impl<'b> Builder<'b> {
    pub fn new(budget: &'b RenderBudget) -> Self {
        Builder { s: String::new(), marks: Vec::new(), budget }
    }

    pub fn push_str(&mut self, s: &str, marked: bool) -> Result<()> {
        self.grow(s.len())?;
        if marked {
            self.mark(self.s.len()..self.s.len() + s.len())?;
        }
        self.s.push_str(s);
        Ok(())
    }

    pub fn push_char(&mut self, c: char, marked: bool) -> Result<()> {
        self.push_str(c.encode_utf8(&mut [0; 4]), marked)
    }

    pub fn push(&mut self, text: &Text) -> Result<()> {
        self.push_slice(text, 0..text.len())
    }

    pub fn push_slice(&mut self, text: &Text, range: Range<usize>) -> Result<()> {
        self.grow(range.len())?;
        let start = self.s.len();
        match &text.marks {
            MarkedBytes::None => (),
            MarkedBytes::All => self.mark(start..start + range.len())?,
            MarkedBytes::Some(_) => {
                for mark in text.marks_in(range.clone()) {
                    self.mark(start + mark.start..start + mark.end)?;
                }
            }
        }
        self.s.push_str(&text.s[range]);
        Ok(())
    }

    fn grow(&self, more: usize) -> Result<()> {
        self.budget.string(self.s.len().saturating_add(more))?;
        self.budget.take(more)
    }

    fn mark(&mut self, range: Range<usize>) -> Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        match self.marks.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => {
                self.budget.take(std::mem::size_of::<Range<usize>>())?;
                self.marks.push(range);
            }
        }
        Ok(())
    }

    /// Marks all of it, if any of it is marked.
    pub fn spread(&mut self) {
        if !self.marks.is_empty() {
            self.marks = std::iter::once(0..self.s.len()).collect();
        }
    }

    pub fn len(&self) -> usize {
        self.s.len()
    }

    pub fn finish(self) -> Text {
        let marks = MarkedBytes::of(self.marks, self.s.len());
        Text { s: self.s.into(), marks, safe: false }
    }

    /// The string and its marked ranges.
    pub fn into_parts(self) -> (String, Vec<Range<usize>>) {
        (self.s, self.marks)
    }
}
