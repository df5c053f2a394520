//! One step of work: rows of several sequences, and the interface every interpreter of a plan offers.

use crate::sample::{Draw, SamplerOptions};
use crate::Result;
use std::collections::HashMap;

/// Where a row's token id comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token {
    /// A known id, below the vocabulary's size.
    Id(u32),
    /// The id that the last wanted row of the same sequence sampled; it need not have reached the host yet.
    Sampled,
}

/// One token of one sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Which sequence, `0..n_seqs`.
    pub seq: u32,
    /// Position in the sequence, from 0; rows of a sequence come in rising order without gaps.
    pub pos: u32,
    /// The token itself.
    pub token: Token,
    /// Whether this row's logits are computed (and an id sampled).
    pub wanted: bool,
}

/// A step that was started and whose results are not read yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(pub u64);

/// What a step produced.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Output {
    /// Sampled id per wanted row, in row order.
    pub ids: Vec<u32>,
    /// Logits per wanted row, `[wanted, vocab]`; empty unless asked for.
    pub logits: Vec<f32>,
}

/// How ids are sampled, and what the step should hand back beside them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Want<'a> {
    /// Greedy ids only: 4 bytes per wanted row.
    Ids,
    /// Greedy ids and all logits.
    Logits,
    /// Only ids, each drawn by its row's chain: a draw per wanted row, in row order. See [`Runner::refuses`].
    Drawn(&'a [Draw]),
}

impl<'a> Want<'a> {
    /// The draws; none if ids are greedy.
    pub fn draws(self) -> &'a [Draw] {
        match self {
            Want::Drawn(draws) => draws,
            Want::Ids | Want::Logits => &[],
        }
    }
}

/// Sums of the squares of a product's inputs.
#[derive(Clone, Debug, PartialEq)]
pub struct Squares {
    /// GGUF names of the tensors it is multiplied with.
    pub names: Vec<String>,
    /// `[matrices, cols]`
    pub sums: Vec<f32>,
    /// Rows that each matrix saw; empty if the only one saw them all.
    pub counts: Vec<f32>,
}

/// An interpreter of a plan, with its KV cache: the CPU reference or the Vulkan engine.
pub trait Runner {
    /// Vocabulary size: logits per row.
    fn n_vocab(&self) -> usize;
    /// Context: positions a sequence may hold.
    fn n_ctx(&self) -> usize;
    /// Most rows one step takes.
    fn max_rows(&self) -> usize;
    /// Starts a step. At most two steps may be unfinished; tickets finish in order.
    ///
    /// # Errors
    /// A row outside the context or the vocabulary, more rows than `max_rows`, draws that are refused, a lost device.
    fn start(&mut self, rows: &[Row], want: Want<'_>) -> Result<Ticket>;
    /// Waits for a started step and reads its results.
    fn finish(&mut self, ticket: Ticket) -> Result<Output>;
    /// Why this runner cannot draw ids by such a chain, so that the caller has to, from logits; none if it can.
    fn refuses(&self, _chain: &SamplerOptions) -> Option<String> {
        Some("the runner gives only logits and greedy ids".into())
    }
    /// Forgets a sequence from position `from` on (0: all of it).
    fn forget(&mut self, seq: u32, from: u32);
    /// Whether the GPU's time of the steps started from now on is counted, which costs a little.
    fn time_steps(&mut self, _on: bool) {}
    /// Counters since the start, for `--counters`.
    fn counters(&self) -> Counters;
    /// One line naming the device.
    fn device(&self) -> String;

    /// From now on sums the squares of every product's inputs, for an importance matrix.
    ///
    /// # Errors
    /// Memory that ran out.
    fn collect_importance(&mut self) -> Result<()>;
    /// The sums so far.
    ///
    /// # Errors
    /// A lost device.
    fn importance(&mut self) -> Result<Vec<Squares>>;

    /// Starts and finishes.
    fn run(&mut self, rows: &[Row], want: Want<'_>) -> Result<Output> {
        let ticket = self.start(rows, want)?;
        self.finish(ticket)
    }
}

/// Running totals; a difference of two snapshots is what happened between them. All zero on the CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Counters {
    /// Queue submissions.
    pub submits: u64,
    /// Waits of the host for one timeline value.
    pub host_waits: u64,
    /// Waits for a whole device or queue; there is one where a device is closed, and none else.
    pub device_waits: u64,
    /// Pipeline barriers executed.
    pub barriers: u64,
    /// Dispatches executed.
    pub dispatches: u64,
    /// Bytes of push constants in executed recordings.
    pub push_bytes: u64,
    /// Bytes the host wrote for the device.
    pub bytes_to_device: u64,
    /// Bytes the host read back.
    pub bytes_from_device: u64,
    /// Device memory allocations.
    pub allocations: u64,
    /// Command buffers recorded.
    pub recordings: u64,
    /// Host time spent recording, microseconds.
    pub record_us: f64,
    /// GPU time of finished steps that were timed, microseconds.
    pub gpu_us: f64,
}

/// What a step may hold; shared by both interpreters so that they refuse the same things.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Ids are below this.
    pub n_vocab: usize,
    /// Positions are below this.
    pub n_ctx: usize,
    /// Most rows.
    pub max_rows: usize,
    /// Sequences are below this.
    pub n_seqs: usize,
}

impl Limits {
    /// Checks every row.
    ///
    /// # Errors
    /// [`crate::Error::Request`] naming the row's field with expected and found.
    pub fn check(&self, rows: &[Row]) -> Result<()> {
        let bad = |what: String| Err(crate::Error::Request(what));
        if rows.is_empty() || rows.len() > self.max_rows {
            return bad(format!("rows of a step: expected 1 to {}, found {}", self.max_rows, rows.len()));
        }
        for row in rows {
            if row.seq as usize >= self.n_seqs {
                return bad(format!("sequence: expected below {}, found {}", self.n_seqs, row.seq));
            }
            if row.pos as usize >= self.n_ctx {
                return bad(format!("position: expected below the context's {}, found {}", self.n_ctx, row.pos));
            }
            if let Token::Id(id) = row.token {
                if id as usize >= self.n_vocab {
                    return bad(format!("token id: expected below {}, found {id}", self.n_vocab));
                }
            }
        }
        Ok(())
    }

    /// Checks that there is a draw per wanted row, and none whose recent ids another row of the step would decide.
    ///
    /// # Errors
    /// [`crate::Error::Request`] with expected and found.
    pub fn check_draws(rows: &[Row], want: Want<'_>) -> Result<()> {
        let Want::Drawn(draws) = want else { return Ok(()) };
        let wanted: Vec<&Row> = rows.iter().filter(|r| r.wanted).collect();
        if wanted.len() != draws.len() {
            let what = format!("draws of a step: expected one per wanted row, {}, found {}", wanted.len(), draws.len());
            return Err(crate::Error::Request(what));
        }
        let mut rows_of: HashMap<u32, usize> = HashMap::new();
        wanted.iter().for_each(|row| *rows_of.entry(row.seq).or_default() += 1);
        match wanted.iter().find(|row| row.token == Token::Sampled && rows_of[&row.seq] > 1) {
            Some(row) => Err(crate::Error::Request(format!(
                "sequence {}: expected one wanted row in a step that draws after a sampled id, found more",
                row.seq
            ))),
            None => Ok(()),
        }
    }
}
