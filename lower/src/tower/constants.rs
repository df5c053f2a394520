//! What a graph knows of its input's size, as words: tables, spans, picks, and where biases of scores are.

use pumex_media::graph::{Graph, GraphTable, Picks, Spans};

/// Words, and where in them each list begins.
pub(super) struct Constants {
    pub words: Vec<u32>,
    tables: Vec<usize>,
    spans: Vec<usize>,
    picks: Vec<usize>,
}

impl Constants {
    /// The constants of all lists of a graph.
    pub fn new(graph: &Graph) -> Constants {
        let mut words = Vec::new();
        let mut put = |all: &mut dyn Iterator<Item = u32>| {
            let at = words.len();
            words.extend(all);
            at
        };
        let tables = graph.tables.iter().map(|t| put(&mut t.values.iter().map(|x| x.to_bits()))).collect();
        let spans = graph.spans.iter().map(|s| put(&mut s.iter().flatten().copied())).collect();
        let pair = |(row, factor): &(i32, f32)| [*row as u32, factor.to_bits()];
        let picks = graph.picks.iter().map(|p| put(&mut p.entries.iter().flat_map(pair))).collect();
        Constants { words, tables, spans, picks }
    }

    /// Adds words; where they begin, in bytes.
    pub fn push(&mut self, words: &[u32]) -> u64 {
        let at = self.words.len();
        self.words.extend(words);
        4 * at as u64
    }

    /// Where a table begins, in bytes.
    pub fn table(&self, table: GraphTable) -> u64 {
        4 * self.tables[table.0] as u64
    }

    /// Where spans begin, in bytes.
    pub fn spans(&self, spans: Spans) -> u64 {
        4 * self.spans[spans.0] as u64
    }

    /// Where picks begin, in bytes.
    pub fn picks(&self, picks: Picks) -> u64 {
        4 * self.picks[picks.0] as u64
    }
}
