//! StepParams: all that changes per step, as words that [`pumex_shaders::step`] names.

use super::request::{ID_WORDS, MAX_IDS, REQUEST_WORDS};
use crate::session::BlockAllocator;
use pumex_gguf::{Error, Result};
use pumex_shaders::block::Block;
pub use pumex_shaders::step::ID_NAN;
use pumex_shaders::step::{StepHeader, StepMedium, StepRow, TOKEN_SAMPLED};
use pumex_step::{Row, Token, MEDIA_IDS};
use pumex_vk::Buffer;

const HEADER_WORDS: usize = StepHeader::LAYOUT.len_bytes() / 4;
/// In place of a block that a sequence no longer holds.
const NO_BLOCK: u32 = u32::MAX;
const ROW_WORDS: usize = StepRow::LAYOUT.len_bytes() / 4;
const MEDIUM_WORDS: usize = StepMedium::LAYOUT.len_bytes() / 4;

/// Where things lie in the buffer.
#[derive(Clone, Copy, Debug)]
pub struct ParamsLayout {
    max_rows: usize,
    table_stride: usize,
    n_seqs: usize,
    stores: usize,
}

impl ParamsLayout {
    /// For steps of up to `max_rows` rows of `n_seqs` sequences, each with a block table of `table_stride` words in each of `stores`.
    pub fn new(max_rows: usize, n_seqs: usize, table_stride: usize, stores: usize) -> Self {
        ParamsLayout { max_rows, table_stride, n_seqs, stores }
    }

    /// Most rows of a step.
    pub fn max_rows(&self) -> usize {
        self.max_rows
    }

    /// Word where the list of output rows starts.
    fn outputs_at(&self) -> usize {
        HEADER_WORDS + self.max_rows * ROW_WORDS
    }

    /// Word where, for each of them, its place among the sampled ids stands.
    fn places_at(&self) -> usize {
        self.outputs_at() + self.max_rows
    }

    fn tables_at(&self) -> usize {
        self.places_at() + self.max_rows
    }

    /// Words from a sequence's table in the first store to that in another.
    pub fn table_at(&self, store: usize) -> usize {
        store * self.n_seqs * self.table_stride
    }

    /// Word where the sample requests start.
    pub fn requests_at(&self) -> usize {
        self.tables_at() + self.table_at(self.stores)
    }

    /// Words for a request per row and the ids that a request per sequence may name, and some.
    fn request_words(&self) -> usize {
        self.max_rows * REQUEST_WORDS + ID_WORDS * MAX_IDS * self.n_seqs.max(8)
    }

    /// Word where the positions of each sequence's source stand.
    fn sources_at(&self) -> usize {
        self.requests_at() + self.request_words()
    }

    /// Word where what rows of media are stands.
    fn media_at(&self) -> usize {
        self.sources_at() + self.n_seqs
    }

    /// Bytes of the buffer.
    pub fn len_bytes(&self) -> u64 {
        4 * (self.media_at() + self.max_rows * MEDIUM_WORDS) as u64
    }

    /// Words of the sampled ids: one for each sequence, and one for rows that are not the last of theirs.
    pub fn sampled_word_count(&self) -> usize {
        self.n_seqs + 1
    }
}

/// An output row of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputRow {
    /// Index of the row in the step.
    pub row: u32,
    /// Its sequence.
    pub seq: u32,
    /// Whether it is the last output row of its sequence, whose next row may start from its id.
    pub last: bool,
}

/// The output rows of a step as it lists them: first those with logits for the host, each part in row order. `one_each`: no two
/// rows are of one sequence.
pub fn outputs_of(rows: &[Row], one_each: bool) -> Vec<OutputRow> {
    let mut outputs: Vec<OutputRow> = Vec::new();
    for logits in [true, false] {
        let wanted = |row: &Row| row.has_output() && (row.output == pumex_step::RowOutput::Logits) == logits;
        let listed = rows.iter().zip(0..).filter(|(row, _)| wanted(row));
        outputs.extend(listed.map(|(row, i)| OutputRow { row: i, seq: row.seq, last: true }));
    }
    if !one_each {
        let mut seen = std::collections::HashSet::new();
        let mut order: Vec<usize> = (0..outputs.len()).collect();
        order.sort_unstable_by_key(|&i| std::cmp::Reverse(outputs[i].row));
        order.into_iter().for_each(|i| outputs[i].last = seen.insert(outputs[i].seq));
    }
    outputs
}

/// A token as shaders read it: of a row of a medium, the first id.
pub fn token_word(token: Token) -> u32 {
    match token {
        Token::Id(id) if id >= MEDIA_IDS => 0,
        Token::Id(id) | Token::Source(id) => id,
        Token::Sampled => TOKEN_SAMPLED,
    }
}

/// One slot's buffer, and how much of each block table it already holds.
pub struct Params {
    /// The buffer shaders read.
    pub buffer: Buffer,
    layout: ParamsLayout,
    /// By store and sequence, the blocks from the first of the sequence on; what lies before a table's first is not read.
    tables: Vec<Vec<u32>>,
    /// By sequence, the positions of its source.
    sources: Vec<u32>,
}

impl Params {
    /// Wraps a mapped buffer of `layout`'s size.
    pub fn new(buffer: Buffer, layout: ParamsLayout) -> Self {
        Params {
            buffer,
            layout,
            tables: vec![Vec::new(); layout.stores * layout.n_seqs],
            sources: vec![0; layout.n_seqs],
        }
    }

    /// Writes a step, of which the first `singles` rows attend each by itself and whose messages' epochs start at `epochs`; only the
    /// entries of the block tables and the lengths of sources that changed since this slot's last step.
    pub fn write(
        &mut self,
        rows: &[Row],
        outputs: &[OutputRow],
        blocks: &BlockAllocator,
        (singles, epochs): (usize, u32),
    ) {
        let l = self.layout;
        let header = StepHeader {
            rows: rows.len() as u32,
            outputs: outputs.len() as u32,
            outputs_at: l.outputs_at() as u32,
            epochs,
            places_at: l.places_at() as u32,
            sources_at: l.sources_at() as u32,
            singles: singles as u32,
            media_at: l.media_at() as u32,
        };
        self.buffer.write(0, &header.bytes());
        self.write_rows(rows, blocks, token_word);
        self.write_media(rows, blocks);
        if !outputs.is_empty() {
            let listed: Vec<u32> = outputs.iter().map(|o| o.row).collect();
            self.buffer.write(4 * l.outputs_at() as u64, bytemuck::cast_slice(&listed));
            let place = |o: &OutputRow| if o.last { o.seq } else { l.n_seqs as u32 };
            let places: Vec<u32> = outputs.iter().map(place).collect();
            self.buffer.write(4 * l.places_at() as u64, bytemuck::cast_slice(&places));
        }
        for (i, had) in self.tables.iter_mut().enumerate() {
            let now = blocks.table(i / l.n_seqs, i % l.n_seqs);
            had.truncate(now.end());
            had.resize(had.len().max(now.first), NO_BLOCK);
            let same = now.blocks.iter().zip(&had[now.first..]).take_while(|(a, b)| a == b).count();
            let new = &now.blocks[same..];
            had.truncate(now.first + same);
            if !new.is_empty() {
                let at = 4 * (l.tables_at() + i * l.table_stride + had.len()) as u64;
                self.buffer.write(at, bytemuck::cast_slice(new));
                had.extend_from_slice(new);
            }
        }
        let sources = (0..l.n_seqs as u32).map(|seq| blocks.source(seq) as u32);
        if !sources.clone().eq(self.sources.iter().copied()) {
            self.sources = sources.collect();
            self.buffer.write(4 * l.sources_at() as u64, bytemuck::cast_slice(&self.sources));
        }
    }

    /// Writes the rows alone, each token as `word` makes it.
    pub fn write_rows(&mut self, rows: &[Row], blocks: &BlockAllocator, word: impl Fn(Token) -> u32) {
        let l = self.layout;
        let mut words: Vec<u32> = Vec::with_capacity(rows.len() * ROW_WORDS);
        for row in rows {
            let token = word(row.token);
            let table = l.tables_at() + row.seq as usize * l.table_stride;
            let end = words.len() + ROW_WORDS;
            words.extend([token, row.pos, row.seq, table as u32, blocks.position(row)[0]]);
            words.resize(end, 0); // rows are padded as blocks are
        }
        self.buffer.write(4 * HEADER_WORDS as u64, bytemuck::cast_slice(&words));
    }

    /// Writes what rows are of media, if some are.
    fn write_media(&mut self, rows: &[Row], blocks: &BlockAllocator) {
        if rows.iter().all(|row| row.medium.is_none()) {
            return;
        }
        let (mut words, mut vectors): (Vec<u32>, u32) = (Vec::with_capacity(rows.len() * MEDIUM_WORDS), 0);
        for row in rows {
            let (end, group) = (words.len() + MEDIUM_WORDS, row.group().map_or(0, |(_, last)| last as u32 + 1));
            vectors += u32::from(row.medium.is_some());
            words.extend(blocks.position(row));
            words.extend([group, if row.medium.is_some() { vectors } else { 0 }]);
            words.resize(end, 0);
        }
        self.buffer.write(4 * self.layout.media_at() as u64, bytemuck::cast_slice(&words));
    }

    /// Writes the words of a step's sample requests, made for [`ParamsLayout::requests_at`].
    ///
    /// # Errors
    /// More ids than there is room for.
    pub fn write_requests(&mut self, words: &[u32]) -> Result<()> {
        let room = self.layout.request_words();
        if words.len() > room {
            let what = format!("sample requests of a step: expected at most {room} words, found {}", words.len());
            return Err(Error::Request(what));
        }
        self.buffer.write(4 * self.layout.requests_at() as u64, bytemuck::cast_slice(words));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pumex_step::RowOutput;

    #[test]
    fn rows_with_logits_are_listed_first_and_the_last_of_a_sequence_is_known() {
        let row = |seq, output| Row { seq, pos: 0, token: Token::Id(0), output, medium: None };
        let rows = [
            row(0, RowOutput::Id),
            row(1, RowOutput::Logits),
            row(0, RowOutput::None),
            row(0, RowOutput::Logits),
            row(1, RowOutput::Id),
        ];
        let found = outputs_of(&rows, false).into_iter().map(|o| (o.row, o.seq, o.last)).collect::<Vec<_>>();
        assert_eq!(found, [(1, 1, false), (3, 0, true), (0, 0, false), (4, 1, true)]);
        assert_eq!(outputs_of(&rows[2..3], true), []);
    }
}
