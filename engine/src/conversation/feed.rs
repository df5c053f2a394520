//! Texts with media in them, as ids and what takes the place of some.

use pumex_step::{Media, Medium, Row, RowOutput, Token};
use std::sync::Arc;

/// What stands in a prompt's text where a medium goes.
pub const MARK: &str = "<__media__>";

/// A text under way: ids, and media that take the place of as many of them.
///
/// Media stand in the ids as [`Medium::ids`], so that two texts begin alike as far as their ids do.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Feed {
    /// Ids of its tokens and of rows of its media.
    pub ids: Vec<u32>,
    /// Its media, by where they begin in `ids`.
    pub media: Media,
}

impl Feed {
    /// Adds ids of tokens.
    pub fn text(&mut self, ids: &[u32]) {
        self.ids.extend_from_slice(ids);
    }

    /// Adds the rows of a medium.
    pub fn medium(&mut self, medium: Arc<Medium>) {
        let at = self.ids.len();
        self.ids.extend(medium.ids());
        self.media.push(at, medium);
    }

    /// Rows of sequence 0 from position `start` on, each with the output that `output(position)` says.
    pub fn rows(&self, start: usize, output: impl Fn(usize) -> RowOutput) -> Vec<Row> {
        let start = start.min(self.ids.len());
        feed_rows(&self.ids[start..], start, &self.media, |i| output(start + i))
    }
}

/// Rows of sequence 0 for `ids` at positions from `start` on, each with the output that `output(index)` says. `media` are those of the
/// sequence, by their positions there.
pub fn feed_rows(ids: &[u32], start: usize, media: &Media, output: impl Fn(usize) -> RowOutput) -> Vec<Row> {
    let row = |(i, &id): (usize, &u32)| Row {
        seq: 0,
        pos: (start + i) as u32,
        token: Token::Id(id),
        output: output(i),
        medium: media.row(start + i),
    };
    ids.iter().enumerate().map(row).collect()
}
