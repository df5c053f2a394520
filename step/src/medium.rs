//! Rows that are vectors: what an encoder made of a picture or a sound, in place of rows of the token embedding.

use super::{Limits, Row};
pub use crate::sample::MEDIA_IDS;
use pumex_gguf::{Error, Result};
use std::sync::Arc;

/// Where a row stands in one of the four streams that models with rope sections rotate by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// So many positions behind the sequence's counter as it is where the medium begins.
    After(u32),
    /// At this position.
    At(u32),
}

/// By which positions a medium's rows rotate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Positions {
    /// One behind the other, as rows of text do; the counter moves by as many.
    Sequential,
    /// By streams of their own.
    Streams {
        /// Time, height, width and the fourth one, of each row.
        rows: Arc<[[Stream; 4]]>,
        /// How far the counter moves.
        n_pos: usize,
    },
}

impl Positions {
    /// Positions of a grid of `nx` columns and `ny` rows, row by row: one time, height and width that rise, and a counter that moves by the
    /// longer side.
    pub fn grid(nx: usize, ny: usize) -> Positions {
        let at = |i: usize| {
            let (y, x) = (i / nx.max(1), i % nx.max(1));
            [Stream::After(0), Stream::After(y as u32), Stream::After(x as u32), Stream::At(0)]
        };
        Positions::Streams { rows: (0..nx.saturating_mul(ny)).map(at).collect(), n_pos: nx.max(ny) }
    }
}

/// What a model takes of vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VectorLimits {
    /// Numbers of a vector: a row of the residual stream, and those that later layers add.
    pub width: usize,
    /// Whether the model has rope sections, so that rows may have [`Positions::Streams`].
    pub streams: bool,
    /// Whether layers have windows, so that positions must be those in the sequence.
    pub windows: bool,
    /// Whether rows may see each other ([`Medium::sees_itself`]).
    pub groups: bool,
}

/// Rows of a picture, or of a part of it, or of a sound. They follow each other in a sequence.
#[derive(Clone, Debug, PartialEq)]
pub struct Medium {
    hash: u64,
    rows: Arc<[f32]>,
    n: usize,
    positions: Positions,
    sees_itself: bool,
}

impl Medium {
    /// Vectors `[n, rows.len() / n]`, row after row. `hash` tells these rows, with their positions, from those of any other medium:
    /// sequences are taken to hold the same where it is the same. `sees_itself`: each row sees all of them, also later ones, which
    /// must stand in one step.
    ///
    /// # Errors
    /// No rows, rows of no or of different lengths, another number of positions than of rows, a counter that does not move.
    pub fn new(hash: u64, rows: Arc<[f32]>, n: usize, positions: Positions, sees_itself: bool) -> Result<Medium> {
        let bad = |what: String| Err(Error::Request(format!("rows of a medium: {what}")));
        if n == 0 || rows.is_empty() || !rows.len().is_multiple_of(n) || n > MEDIA_IDS as usize {
            return bad(format!("expected numbers of {n} rows, at least one each, found {}", rows.len()));
        }
        if let Positions::Streams { rows, n_pos } = &positions {
            if rows.len() != n || *n_pos == 0 || *n_pos > MEDIA_IDS as usize {
                return bad(format!(
                    "expected {n} positions and a counter that moves, found {} and {n_pos}",
                    rows.len()
                ));
            }
        }
        Ok(Medium { hash, rows, n, positions, sees_itself })
    }

    /// Which one it is.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// How many rows it has.
    pub fn rows(&self) -> usize {
        self.n
    }

    /// Numbers of a row.
    pub fn width(&self) -> usize {
        self.rows.len() / self.n
    }

    /// How far the counter of positions moves.
    pub fn n_pos(&self) -> usize {
        match &self.positions {
            Positions::Sequential => self.n,
            Positions::Streams { n_pos, .. } => *n_pos,
        }
    }

    /// Whether its rows see each other, also later ones.
    pub fn sees_itself(&self) -> bool {
        self.sees_itself
    }

    /// A row, `[width]`; empty if there are not as many.
    pub fn vector(&self, index: usize) -> &[f32] {
        self.rows.chunks_exact(self.width()).nth(index).unwrap_or(&[])
    }

    /// What stands for a row in lists of ids: from [`MEDIA_IDS`] on, and below ids that mean something else to kernels.
    pub fn id(&self, index: usize) -> u32 {
        let mut h = self.hash ^ (index as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        h = (h ^ (h >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        h = (h ^ (h >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        MEDIA_IDS + ((h >> 33) as u32).min(MEDIA_IDS - 0x100)
    }

    /// What stands for all of its rows.
    pub fn ids(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.n).map(|index| self.id(index))
    }

    /// Whether it needs a model with rope sections.
    pub fn has_streams(&self) -> bool {
        matches!(self.positions, Positions::Streams { .. })
    }

    /// A row's positions in the four streams, where the counter is `counter` at the first row.
    pub fn position(&self, index: usize, counter: u32) -> [u32; 4] {
        let own = |stream: &Stream| match stream {
            Stream::After(n) => counter.saturating_add(*n),
            Stream::At(n) => *n,
        };
        match &self.positions {
            Positions::Streams { rows, .. } => rows.get(index).map_or([0; 4], |row| row.each_ref().map(own)),
            Positions::Sequential => text_position(counter.saturating_add(index as u32)),
        }
    }
}

/// Positions of a row of text in the four streams.
pub fn text_position(pos: u32) -> [u32; 4] {
    [pos, pos, pos, 0]
}

/// A row of a medium.
#[derive(Clone, Debug)]
pub struct MediumRow {
    /// The medium.
    pub of: Arc<Medium>,
    /// Which of its rows.
    pub index: u32,
}

impl PartialEq for MediumRow {
    fn eq(&self, other: &MediumRow) -> bool {
        self.index == other.index && self.of.hash == other.of.hash
    }
}

impl MediumRow {
    /// The vector.
    pub fn vector(&self) -> &[f32] {
        self.of.vector(self.index as usize)
    }

    /// Position in the sequence of the medium's first row, if this one is at `pos`.
    pub fn first(&self, pos: u32) -> Option<u32> {
        pos.checked_sub(self.index)
    }

    /// Whether it is the medium's last row.
    pub fn is_last(&self) -> bool {
        self.index as usize + 1 == self.of.n
    }
}

impl Row {
    /// Where the rows lie in the sequence that it sees whatever comes first; none if it sees none that come later.
    pub fn group(&self) -> Option<(usize, usize)> {
        let medium = self.medium.as_ref().filter(|medium| medium.of.sees_itself)?;
        let first = medium.first(self.pos)? as usize;
        Some((first, first + medium.of.n - 1))
    }
}

/// Media of a text, each in the place of as many of its ids, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Media(Vec<(usize, Arc<Medium>)>);

impl Media {
    /// None.
    pub fn new() -> Media {
        Media::default()
    }

    /// Puts a medium behind those that are there: its first row takes the place of id `at`.
    pub fn push(&mut self, at: usize, medium: Arc<Medium>) {
        self.0.push((at, medium));
    }

    /// Each, and where it begins.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &Arc<Medium>)> {
        self.0.iter().map(|(at, medium)| (*at, medium))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The row that takes the place of id `at`.
    pub fn row(&self, at: usize) -> Option<MediumRow> {
        let next = self.0.partition_point(|(begin, _)| *begin <= at);
        let (begin, of) = self.0.get(next.checked_sub(1)?)?;
        let index = at - begin;
        (index < of.n).then(|| MediumRow { of: of.clone(), index: index as u32 })
    }

    /// Where a text of these media can be cut at or before `at`, so that no medium is cut.
    pub fn cut_before(&self, at: usize) -> usize {
        self.row(at).map_or(at, |row| at - row.index as usize)
    }

    /// Where a text of these media can be cut at or behind `at`, so that no medium is cut.
    pub fn cut_behind(&self, at: usize) -> usize {
        match self.row(at) {
            Some(row) if row.index > 0 => at - row.index as usize + row.of.n,
            _ => at,
        }
    }

    /// Where ids stand for media of these. The last one's need not all be there.
    pub fn find(known: &[Arc<Medium>], ids: &[u32]) -> Media {
        let (mut media, mut at) = (Media::new(), 0);
        while let Some(first) = ids.get(at) {
            let stands = |of: &&Arc<Medium>| of.id(0) == *first && of.ids().zip(&ids[at..]).all(|(own, id)| own == *id);
            let found = known.iter().find(stands).filter(|_| *first >= MEDIA_IDS);
            at += found.map_or(1, |of| {
                media.push(at, of.clone());
                of.n
            });
        }
        media
    }
}

/// How many of `rows`, the first ones, a step of up to `most` rows takes so that rows which see each other stay together.
///
/// # Errors
/// More such rows than `most`.
pub fn whole_groups(rows: &[Row], most: usize) -> Result<usize> {
    let most = most.max(1);
    if rows.len() <= most {
        return Ok(rows.len());
    }
    match rows[most].group() {
        Some((begin, end)) if rows[most].pos as usize > begin => {
            let at =
                rows[..most].iter().rposition(|row| row.group() != Some((begin, end)) || row.seq != rows[most].seq);
            match at {
                Some(last) => Ok(last + 1),
                None => Err(too_many(end + 1 - begin, most)),
            }
        }
        _ => Ok(most),
    }
}

fn too_many(n: usize, most: usize) -> Error {
    Error::Request(format!(
        "a medium of {n} rows that see each other: expected at most {most}, as all of them must stand in one step (-ub)"
    ))
}

impl Limits {
    /// Checks the vectors of a step by themselves: their widths and positions, and that they are all there where they see each other.
    pub(super) fn check_vectors(&self, rows: &[Row]) -> Result<()> {
        let bad = |row: &Row, what: String| Err(Error::Request(format!("sequence {}: {what}", row.seq)));
        for (i, row) in rows.iter().enumerate() {
            let Some(MediumRow { of, index }) = &row.medium else { continue };
            let Some(limits) = self.vectors else {
                return bad(row, "expected ids: this model takes no rows of pictures or sounds".into());
            };
            if of.width() != limits.width {
                let what = format!("expected vectors of {} numbers for this model, found {}", limits.width, of.width());
                return bad(row, what);
            }
            if *index as usize >= of.n || *index > row.pos {
                let most = of.n.min(row.pos as usize + 1);
                return bad(row, format!("row of a medium at {}: expected one below {most}, found {index}", row.pos));
            }
            if of.has_streams() && (!limits.streams || limits.windows && of.n_pos() != of.n) {
                return bad(row, "expected positions in the sequence alone, found positions of several streams".into());
            }
            if of.sees_itself && !limits.groups {
                return bad(
                    row,
                    "rows that see each other: expected attention to all positions, found chosen ones".into(),
                );
            }
            let is_next =
                |next: &Row| next.medium.as_ref().is_some_and(|m| m.index == index + 1 && m.of.hash == of.hash);
            let next = rows[i + 1..].iter().find(|next| next.seq == row.seq);
            if row.medium.as_ref().is_some_and(|m| m.is_last()) {
                continue;
            }
            match next {
                Some(next) if !is_next(next) => {
                    return bad(
                        row,
                        format!("expected row {} of a medium behind row {index}, found another", index + 1),
                    );
                }
                None if of.sees_itself => {
                    let what = format!("of {} rows that see each other the step has the first {}", of.n, index + 1);
                    return Err(Error::Request(format!("{what}; {}", too_many(of.n, self.max_rows))));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{RowOutput, Token};
    use super::*;

    fn medium(n: usize, sees_itself: bool) -> Arc<Medium> {
        let rows: Vec<f32> = (0..2 * n).map(|i| i as f32).collect();
        Arc::new(Medium::new(7, rows.into(), n, Positions::Sequential, sees_itself).unwrap())
    }

    fn rows(of: &Arc<Medium>, from: u32) -> Vec<Row> {
        let row = |index: u32| Row {
            seq: 0,
            pos: from + index,
            token: Token::Id(of.id(index as usize)),
            output: RowOutput::None,
            medium: Some(MediumRow { of: of.clone(), index }),
        };
        (0..of.rows() as u32).map(row).collect()
    }

    const LIMITS: Limits = Limits {
        n_vocab: 10,
        n_ctx: 100,
        dense_positions: None,
        max_rows: 8,
        n_seqs: 1,
        vectors: Some(VectorLimits { width: 2, streams: false, windows: true, groups: true }),
    };

    #[test]
    fn ids_of_media_are_none_of_a_vocabulary_and_differ_by_row_and_medium() {
        let (one, mut ids) = (medium(1000, false), std::collections::HashSet::new());
        let other = Medium::new(8, vec![0.0; 4].into(), 2, Positions::Sequential, false).unwrap();
        assert!(one.ids().chain(other.ids()).all(|id| (MEDIA_IDS..u32::MAX - 1).contains(&id) && ids.insert(id)));
    }

    #[test]
    fn a_grid_moves_the_counter_by_its_longer_side() {
        let rows: Arc<[f32]> = vec![0.0; 6].into();
        let grid = Medium::new(1, rows.clone(), 6, Positions::grid(2, 3), false).unwrap();
        assert_eq!((grid.n_pos(), grid.position(3, 10)), (3, [10, 11, 11, 0]));
        assert!(Medium::new(1, rows, 6, Positions::grid(2, 2), false).is_err());
    }

    #[test]
    fn rows_that_see_each_other_are_not_cut() {
        let (of, before) = (medium(4, true), rows(&medium(6, false), 0));
        let all = [before.clone(), rows(&of, 6)].concat();
        assert_eq!(whole_groups(&all, 8).unwrap(), 6);
        assert_eq!(whole_groups(&all, 10).unwrap(), 10);
        assert_eq!(whole_groups(&before, 4).unwrap(), 4);
        let error = whole_groups(&rows(&of, 0), 3).unwrap_err().to_string();
        assert!(error.contains("4 rows that see each other: expected at most 3"), "{error}");
        let error = LIMITS.check(&rows(&of, 0)[..3]).unwrap_err().to_string();
        assert!(error.contains("of 4 rows that see each other the step has the first 3"), "{error}");
    }

    #[test]
    fn vectors_of_other_widths_and_positions_are_refused() {
        let of = medium(3, false);
        assert!(LIMITS.check(&rows(&of, 5)).is_ok());
        let refused = |limits: Limits, rows: &[Row]| limits.check(rows).unwrap_err().to_string();
        assert!(refused(Limits { vectors: None, ..LIMITS }, &rows(&of, 0)).contains("expected ids"));
        let wide = Limits { vectors: LIMITS.vectors.map(|v| VectorLimits { width: 3, ..v }), ..LIMITS };
        assert!(refused(wide, &rows(&of, 0)).contains("expected vectors of 3 numbers for this model, found 2"));
        let grid = Arc::new(Medium::new(9, vec![0.0; 8].into(), 4, Positions::grid(2, 2), false).unwrap());
        assert!(refused(LIMITS, &rows(&grid, 0)).contains("several streams"));
        let mut gap = rows(&of, 0);
        gap.remove(1);
        gap[1].pos = 1;
        assert!(refused(LIMITS, &gap).contains("expected row 1 of a medium behind row 0"));
    }

    #[test]
    fn media_lie_in_place_of_their_ids_and_are_cut_as_wholes() {
        let mut media = Media::new();
        media.push(2, medium(3, false));
        media.push(9, medium(2, false));
        let index = |at: usize| media.row(at).map(|row| row.index);
        assert_eq!([1, 2, 4, 5, 10, 11].map(index), [None, Some(0), Some(2), None, Some(1), None]);
        assert_eq!(
            [1, 2, 3, 5].map(|at| (media.cut_before(at), media.cut_behind(at))),
            [(1, 1), (2, 2), (2, 5), (5, 5)]
        );
        let ids: Vec<u32> = [1, 2].into_iter().chain(medium(3, false).ids()).chain([4]).collect();
        let begins = |ids: &[u32]| Media::find(&[medium(3, false)], ids).iter().map(|(at, _)| at).collect::<Vec<_>>();
        assert_eq!([begins(&ids), begins(&ids[..4]), begins(&ids[3..])], [vec![2], vec![2], vec![]]);
    }
}
