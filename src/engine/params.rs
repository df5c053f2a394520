//! StepParams: all that changes per step, as words that [`pumex_shaders::step`] names.

use super::draw::{DRAW_WORDS, MAX_IDS};
use super::kv::Blocks;
use crate::step::{Row, Token};
use crate::vk::Buffer;
use crate::{Error, Result};
use pumex_shaders::block::Block;
use pumex_shaders::step::{StepHeader, StepRow, TOKEN_SAMPLED};

const HEADER_WORDS: usize = StepHeader::LAYOUT.len_bytes() / 4;
const ROW_WORDS: usize = StepRow::LAYOUT.len_bytes() / 4;

/// Where things lie in the buffer.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    max_rows: usize,
    table_stride: usize,
    n_seqs: usize,
}

impl Layout {
    /// For steps of up to `max_rows` rows over `n_seqs` block tables of `table_stride` words.
    pub fn new(max_rows: usize, n_seqs: usize, table_stride: usize) -> Self {
        Layout { max_rows, table_stride, n_seqs }
    }

    fn wanted_at(&self) -> usize {
        HEADER_WORDS + self.max_rows * ROW_WORDS
    }

    fn tables_at(&self) -> usize {
        self.wanted_at() + self.max_rows
    }

    /// Word where the draws start.
    pub fn draws_at(&self) -> usize {
        self.tables_at() + self.n_seqs * self.table_stride
    }

    /// Words for a draw per row and the ids that a draw per sequence may lower, and some.
    fn draw_words(&self) -> usize {
        self.max_rows * DRAW_WORDS + 2 * MAX_IDS * self.n_seqs.max(8)
    }

    /// Bytes of the buffer.
    pub fn len_bytes(&self) -> u64 {
        4 * (self.draws_at() + self.draw_words()) as u64
    }
}

/// One slot's buffer, and how much of each block table it already holds.
pub struct Params {
    /// The buffer shaders read.
    pub buffer: Buffer,
    layout: Layout,
    tables: Vec<Vec<u32>>,
}

impl Params {
    /// Wraps a mapped buffer of `layout`'s size.
    pub fn new(buffer: Buffer, layout: Layout) -> Self {
        Params { buffer, layout, tables: vec![Vec::new(); layout.n_seqs] }
    }

    /// Writes a step, whose packets' tags start at `tags`; only the entries of the block tables that changed since this slot's
    /// last step.
    pub fn write(&mut self, rows: &[Row], blocks: &Blocks, tags: u32) {
        let l = self.layout;
        let wanted: Vec<u32> = (0..rows.len() as u32).filter(|&i| rows[i as usize].wanted).collect();
        let (n, output) = (rows.len() as u32, wanted.len() as u32);
        let header =
            StepHeader { rows: n, wanted: output, wanted_at: l.wanted_at() as u32, tags, ..Default::default() };
        let mut bytes = header.bytes();
        for row in rows {
            let token = match row.token {
                Token::Id(id) => id,
                Token::Sampled => TOKEN_SAMPLED,
            };
            let table = (l.tables_at() + row.seq as usize * l.table_stride) as u32;
            StepRow { token, pos: row.pos, seq: row.seq, table }.put(&mut bytes);
        }
        self.buffer.write(0, &bytes);
        if !wanted.is_empty() {
            self.buffer.write(4 * l.wanted_at() as u64, bytemuck::cast_slice(&wanted));
        }
        for seq in 0..l.n_seqs {
            let (now, had) = (blocks.table(seq), &mut self.tables[seq]);
            let same = now.iter().zip(had.iter()).take_while(|(a, b)| a == b).count();
            if same < now.len() {
                let at = 4 * (l.tables_at() + seq * l.table_stride + same) as u64;
                self.buffer.write(at, bytemuck::cast_slice(&now[same..]));
            }
            had.truncate(same);
            had.extend_from_slice(&now[same..]);
        }
    }

    /// Writes the words of a step's draws, made for [`Layout::draws_at`].
    ///
    /// # Errors
    /// More ids to lower than there is room for.
    pub fn write_draws(&mut self, words: &[u32]) -> Result<()> {
        let room = self.layout.draw_words();
        if words.len() > room {
            let what = format!("draws of a step: expected at most {room} words, found {}", words.len());
            return Err(Error::Request(what));
        }
        self.buffer.write(4 * self.layout.draws_at() as u64, bytemuck::cast_slice(words));
        Ok(())
    }
}
