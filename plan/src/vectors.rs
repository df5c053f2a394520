//! Rows that are vectors in place of ids: where they go into the residual stream, by which positions they rotate, and what those
//! that see each other see.

use super::{AttentionSpec, General, Mask, Op, Plan};
use pumex_step::{Limits, VectorLimits};

/// What a row of a group, whose rows see each other, sees of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GroupSight {
    /// All of it behind itself, and before itself what its window lets it.
    #[default]
    All,
    /// In layers with a window, all behind itself and what the window lets it before; in others no more than other rows.
    Windows,
}

/// Which of a row's four positions rotates which pair: time, height, width, and one that is 0 for text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sections {
    /// Pairs of each.
    pub pairs: [usize; 4],
    /// Whether the first three take turns, instead of one following the other.
    pub interleaved: bool,
}

impl Sections {
    /// Which of the four positions rotates a pair.
    pub fn stream(&self, pair: usize) -> usize {
        let p = self.pairs;
        let at = pair % p.iter().sum::<usize>().max(1);
        match self.interleaved {
            true if at < 3 * p[at % 3] => at % 3,
            true => 3,
            false => (0..3).find(|stream| at < p[..=*stream].iter().sum()).unwrap_or(3),
        }
    }
}

impl Sections {
    /// Words that kernels read: pairs of all, and a bit for those that take turns; pairs of the first three.
    pub fn words(&self) -> [u32; 2] {
        let p = self.pairs.map(|pairs| pairs as u32 & 1023);
        [p.iter().sum::<u32>() | u32::from(self.interleaved) << 16, p[0] | p[1] << 10 | p[2] << 20]
    }
}

impl GroupSight {
    /// First and last position that a row sees of its sequence, where causal rows see those of `seen`, and `group` is where the
    /// group of rows lies that see each other and of which it is one.
    pub fn of(self, mask: Mask, seen: (usize, usize), group: Option<(usize, usize)>) -> (usize, usize) {
        match group.filter(|_| self.reaches(mask)) {
            Some((_, end)) => (seen.0, seen.1.max(end)),
            None => seen,
        }
    }

    /// Whether rows under a mask see those behind them of their group.
    fn reaches(self, mask: Mask) -> bool {
        matches!((self, mask), (GroupSight::All, Mask::Causal) | (_, Mask::Window(_)))
    }
}

impl Plan {
    /// Vectors that rows may be; none where rows are ids alone.
    pub fn vector_limits(&self) -> Option<VectorLimits> {
        let alike = |spec: &AttentionSpec| spec.chosen.is_none() && matches!(spec.mask, Mask::Causal | Mask::Window(_));
        let others = |op: &Op| {
            matches!(op, Op::General(General::AttendBlocks(_) | General::ChooseBlocks(_) | General::ChoosePositions(_)))
        };
        let windows = self.attention().any(|spec| matches!(spec.mask, Mask::Window(_) | Mask::Chunk(_)));
        (self.vectors > 0 && self.encoder.is_none()).then(|| VectorLimits {
            width: self.vectors,
            streams: self.sections.is_some(),
            windows,
            groups: self.attention().all(alike) && !self.ops.iter().any(others),
        })
    }

    /// What steps may hold of sequences of `n_ctx` positions.
    pub fn limits(&self, n_ctx: usize, max_rows: usize, n_seqs: usize) -> Limits {
        let (n_vocab, dense_positions, vectors) = (self.n_ids(), self.dense_positions, self.vector_limits());
        Limits { n_vocab, n_ctx, dense_positions, max_rows, n_seqs, vectors }
    }

    /// The plan of steps in which rows see each other.
    pub fn with_groups(&mut self) {
        let sight = self.sight;
        for op in &mut self.ops {
            if let Op::Attend { spec, .. } = op {
                spec.groups = sight.reaches(spec.mask);
            }
        }
    }

    /// The plan of steps without vectors.
    pub fn without_vectors(&mut self) {
        self.ops.retain(|op| !matches!(op, Op::General(General::TakeVectors(_))));
    }

    /// Which of a row's positions rotates a pair.
    pub fn stream(&self, pair: usize) -> usize {
        self.sections.map_or(0, |sections| sections.stream(pair))
    }

    /// All tables as devices hold them, in floats: those of text's rotations, other numbers, and those of rotations by several
    /// positions, if there are some.
    pub fn tables(&self) -> Vec<f32> {
        let (text, streams) = (self.text_ropes(), self.sections.iter().flat_map(|_| &self.ropes));
        text.iter().chain(&self.numbers).chain(streams).flatten().copied().collect()
    }

    /// Where the tables of rotations by several positions start among [`Plan::tables`].
    pub fn stream_ropes_at(&self) -> usize {
        self.numbers_at(self.numbers.len())
    }

    /// Tables of RoPE as rows of text rotate by them, by one position: pairs of the fourth do not rotate.
    pub fn text_ropes(&self) -> Vec<Vec<f32>> {
        let Some(sections) = self.sections else { return self.ropes.clone() };
        let of = |(pair, freq): (usize, &f32)| if sections.stream(pair) == 3 { 0.0 } else { *freq };
        self.ropes.iter().map(|table| table.iter().enumerate().map(of).collect()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(stream: usize, pairs: [usize; 4], interleaved: bool) -> Vec<usize> {
        let sections = Sections { pairs, interleaved };
        (0..64).filter(|i| sections.stream(*i) == stream).collect()
    }

    #[test]
    fn pairs_in_no_section_of_three_are_the_fourths() {
        assert_eq!(of(3, [24, 20, 20, 0], true), [61, 62]);
        assert_eq!(of(3, [11, 11, 10, 0], true), [] as [usize; 0]);
        assert_eq!(of(3, [16, 24, 24, 0], false), [] as [usize; 0]);
        assert_eq!(of(3, [16, 24, 20, 4], false), [60, 61, 62, 63]);
        assert_eq!(of(3, [4, 2, 1, 1], false), [7, 15, 23, 31, 39, 47, 55, 63]);
    }

    #[test]
    fn sections_follow_each_other_or_take_turns() {
        assert_eq!(of(1, [30, 2, 32, 0], false), [30, 31]);
        assert_eq!(of(2, [20, 40, 4, 0], false), [60, 61, 62, 63]);
        assert_eq!(of(1, [60, 2, 2, 0], true), [1, 4]);
        assert_eq!(of(0, [2, 31, 31, 0], true), [0, 3]);
    }

    #[test]
    fn rows_of_a_group_see_its_last_one_where_their_layer_lets_them() {
        let group = Some((4, 9));
        assert_eq!(GroupSight::All.of(Mask::Causal, (0, 5), group), (0, 9));
        assert_eq!(GroupSight::All.of(Mask::Window(2), (4, 5), group), (4, 9));
        assert_eq!(GroupSight::Windows.of(Mask::Causal, (0, 5), group), (0, 5));
        assert_eq!(GroupSight::Windows.of(Mask::Window(2), (4, 5), group), (4, 9));
        assert_eq!(GroupSight::All.of(Mask::Causal, (0, 5), None), (0, 5));
        assert_eq!(GroupSight::All.of(Mask::Full, (0, 12), group), (0, 12));
    }
}
