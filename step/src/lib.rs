//! One step of work: rows of several sequences, and the interface every interpreter of a plan offers.
//!
//! Rows have an output each: nothing, the id of the largest logit, an id sampled as requested, or logits. Rows with logits come
//! first among the output rows; only theirs are copied. A step is admitted whole or not at all.

pub mod sample;

mod medium;
mod prompt_chunks;

pub use medium::{text_position, whole_groups, Media, Medium, MediumRow, Positions, Stream, VectorLimits, MEDIA_IDS};
pub use prompt_chunks::{piece_end, whole, PIECE};

use crate::sample::{Allowed, SampleRequest, SamplerOptions, Shortlist, ShortlistRequest};
use pumex_gguf::{Error, Result};
use std::io::{Read, Write};

/// Where a row's token id comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token {
    /// A known id, below the vocabulary's size; of a row of a medium, [`Medium::id`].
    Id(u32),
    /// A known id of the sequence's source, where the model has an encoder: the sequence begins with it, all of it stands in one
    /// step, and no other rows do.
    Source(u32),
    /// The id that the last output row of the same sequence gave, in an earlier step; it need not have reached the host yet.
    Sampled,
}

impl Token {
    /// Whether it is one of a source.
    pub fn is_source(self) -> bool {
        matches!(self, Token::Source(_))
    }
}

/// Refuses rows that are told later which ids are allowed, for runners that choose ids at once.
///
/// # Errors
/// There is such a row.
pub fn check_told(rows: &[Row]) -> Result<()> {
    match rows.iter().position(|row| *row.allowed_ids() == Allowed::Later) {
        Some(i) => {
            Err(Error::Request(format!("row {i}: expected ids that are allowed now: this runner chooses at once")))
        }
        None => Ok(()),
    }
}

/// What a row gives.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum RowOutput {
    /// Nothing but its entry in the cache.
    #[default]
    None,
    /// The id of its largest logit.
    Id,
    /// An id sampled as requested. See [`Runner::refuses`].
    Sample(SampleRequest),
    /// The id of its largest logit, and the best of its logits on the host. See [`Runner::lists`].
    Shortlist(ShortlistRequest),
    /// The id of its largest logit, and all logits on the host.
    Logits,
}

/// One token of one sequence.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Which sequence, `0..n_seqs`.
    pub seq: u32,
    /// Position in the sequence, from 0; rows of a sequence come in rising order without gaps.
    pub pos: u32,
    /// The token itself.
    pub token: Token,
    /// What is asked for.
    pub output: RowOutput,
    /// The vector that it is, if it is one, in place of its id's.
    pub medium: Option<MediumRow>,
}

impl Row {
    /// Whether it is an output row: its logits are computed, and an id comes of them.
    pub fn has_output(&self) -> bool {
        self.output != RowOutput::None
    }

    /// Which ids its output may be.
    pub fn allowed_ids(&self) -> &Allowed {
        match &self.output {
            RowOutput::Sample(request) => &request.allowed,
            RowOutput::Shortlist(request) => &request.allowed,
            _ => &Allowed::All,
        }
    }
}

/// A step that was started and whose results are not read yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(pub u64);

/// What a step produced.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Output {
    /// An id per output row, in row order.
    pub ids: Vec<u32>,
    /// Logits of the rows that ask for them, in row order, `[rows, vocab]`.
    pub logits: Vec<f32>,
    /// Shortlists of the rows that ask for one, in row order.
    pub shortlists: Vec<Shortlist>,
    /// Output rows of which no id could be chosen, in row order: their logits are NaN, or they go on from such an id.
    pub nan: Vec<Nan>,
}

/// An output row whose logits are NaN. Its id in [`Output::ids`] means nothing, and its sequence has no sampled id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nan {
    /// Which of the output rows it is.
    pub output: usize,
    /// The row of the step that spoilt it.
    pub row: usize,
}

impl Output {
    /// Itself, where all output rows have an id.
    ///
    /// # Errors
    /// Logits that are NaN.
    pub fn sound(self) -> Result<Output> {
        match self.nan.first() {
            None => Ok(self),
            Some(nan) => Err(Error::nan_logits(nan.row)),
        }
    }
}

/// What all output rows of a step are to give.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Want<'a> {
    /// Greedy ids only: 4 bytes per output row.
    Ids,
    /// Greedy ids and all logits.
    Logits,
    /// Sampled ids, a request per output row, in row order.
    Drawn(&'a [SampleRequest]),
}

impl Want<'_> {
    /// The rows with that output in place of what output rows asked for.
    ///
    /// # Errors
    /// Another number of requests than of output rows.
    pub fn of(self, rows: &[Row]) -> Result<Vec<Row>> {
        let (mut rows, mut next) = (rows.to_vec(), 0);
        for row in rows.iter_mut().filter(|row| row.has_output()) {
            row.output = match self {
                Want::Ids => RowOutput::Id,
                Want::Logits => RowOutput::Logits,
                Want::Drawn(requests) => requests.get(next).cloned().map_or(RowOutput::Id, RowOutput::Sample),
            };
            next += 1;
        }
        match self {
            Want::Drawn(requests) if requests.len() != next => {
                let found = requests.len();
                let what = format!("sample requests of a step: expected one per output row, {next}, found {found}");
                Err(Error::Request(what))
            }
            _ => Ok(rows),
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
pub trait Runner: Send {
    /// Vocabulary size: logits per row.
    fn n_vocab(&self) -> usize;
    /// Context: positions a sequence may hold.
    fn n_ctx(&self) -> usize;
    /// Most rows one step takes.
    fn max_rows(&self) -> usize;
    /// Vectors that rows may be ([`Row::medium`]); none where all rows are ids.
    fn vectors(&self) -> Option<VectorLimits> {
        None
    }
    /// Frees what it can make again, so that there is memory for other steps; those under way keep what they need.
    fn shed(&mut self) {}

    /// Adapters of which each sequence has scales of its own; 0 where there are none.
    fn adapters(&self) -> usize {
        0
    }
    /// Has a sequence's adapters count so much from its next rows on: a scale for each, in order. They stay until they are set anew,
    /// whatever the sequence holds; what it holds is as it was computed.
    ///
    /// # Errors
    /// No such sequence; fewer scales than adapters.
    fn set_adapter_scales(&mut self, seq: u32, scales: &[f32]) -> Result<()> {
        let _ = (seq, scales);
        Ok(())
    }

    /// Id that answers begin with, where the model answers sources that an encoder sees ([`Token::Source`]); none where it
    /// continues texts.
    fn answers_from(&self) -> Option<u32> {
        None
    }
    /// Starts a step. At most two steps may be unfinished; tickets finish in order. A step that cannot start leaves all as it
    /// was.
    ///
    /// # Errors
    /// A row outside the context or the vocabulary, or not in order (see [`Limits::check`]); more rows than `max_rows`; a
    /// sampled token of a sequence that has none; a request that is refused; too few free blocks; a lost device.
    fn start(&mut self, rows: &[Row]) -> Result<Ticket>;
    /// Waits for a started step and reads its results. Rows whose logits are NaN are told in [`Output::nan`]; those of other
    /// sequences are as if they had been alone.
    ///
    /// # Errors
    /// A ticket that is not the oldest one's; a lost device.
    fn finish_each(&mut self, ticket: Ticket) -> Result<Output>;
    /// Waits for a started step and reads its results, where all output rows must have an id.
    ///
    /// # Errors
    /// As [`Runner::finish_each`]; logits that are NaN, after which the sequence has no sampled id.
    fn finish(&mut self, ticket: Ticket) -> Result<Output> {
        self.finish_each(ticket)?.sound()
    }
    /// Whether a step is under way while its caller goes on, so that starting the next one before it is read gains time; else
    /// [`Runner::start`] does all of the work.
    fn runs_ahead(&self) -> bool {
        false
    }
    /// Whether a step may be started whose rows are told later which ids are allowed ([`Allowed::Later`]).
    fn allows_later(&self) -> bool {
        false
    }
    /// Says which ids are allowed in the newest step, whose forward pass may be under way already: one entry for each output row
    /// in row order; those that were not to be told later keep what they have. A step is in need of that before another one is
    /// started. If it finishes without, it gives no ids, and the sequences of its output rows have no sampled id.
    ///
    /// # Errors
    /// A step that was told already, or is not to be told; another number of entries than of output rows; a lost device.
    fn allow(&mut self, ticket: Ticket, _allowed: &[Allowed]) -> Result<()> {
        Err(Error::Request(format!("step {}: expected one that is told later which ids are allowed", ticket.0)))
    }
    /// Whether a shortlist ([`RowOutput::Shortlist`]) costs it less than all logits.
    fn lists(&self) -> bool {
        false
    }
    /// All logits of the output rows of the step that was finished last, in row order, `[rows, vocab]`. No step may have been
    /// started since.
    ///
    /// # Errors
    /// No such step; a lost device.
    fn last_logits(&mut self) -> Result<Vec<f32>> {
        Err(Error::Request("the runner keeps no logits".into()))
    }
    /// Why this runner cannot sample ids by such a chain, so that the caller has to, from logits; none if it can.
    fn refuses(&self, _chain: &SamplerOptions) -> Option<String> {
        Some("the runner gives only logits and greedy ids".into())
    }
    /// Forgets a sequence from position `from` on (0: all of it), and the id it sampled. Gives how many positions are still held:
    /// fewer than `from` where a state cannot go back, or a window no longer has what rows from there on read; 0 if there is no
    /// such sequence.
    fn forget(&mut self, seq: u32, from: u32) -> usize;
    /// Whether a sequence can be cut at position `from`: whether [`Runner::forget`] would leave all before it.
    fn can_cut(&self, _seq: u32, _from: u32) -> bool {
        true
    }
    /// Makes `to` a sequence of the first `n_positions` of `from`, whose blocks they share until one of them writes there;
    /// what `to` held is forgotten. `to` has no sampled id.
    ///
    /// # Errors
    /// No such sequences, or fewer positions than asked for.
    fn fork(&mut self, from: u32, to: u32, n_positions: u32) -> Result<()> {
        let _ = (from, to, n_positions);
        Err(Error::Request("the runner cannot fork sequences".into()))
    }
    /// Positions that a sequence holds.
    fn sequence_len(&self, _seq: u32) -> usize {
        0
    }
    /// How the bytes of saved states lie: they go only between runners that say the same.
    fn state_layout(&self) -> String {
        String::new()
    }
    /// Writes what a sequence keeps. No step may be in flight.
    ///
    /// # Errors
    /// No such sequence, a step in flight, what `to` says, a lost device.
    fn save(&mut self, _seq: u32, _to: &mut dyn Write) -> Result<()> {
        Err(Error::Request("the runner cannot save sequences".into()))
    }
    /// Makes a sequence what [`Runner::save`] wrote of one, on a runner of the same layout; it has no sampled id, and what it held
    /// is forgotten. On an error it holds nothing. No step may be in flight.
    ///
    /// # Errors
    /// No such sequence, a step in flight, too few free blocks, sizes that do not fit, what `from` says, a lost device.
    fn restore(&mut self, _seq: u32, _from: &mut dyn Read) -> Result<()> {
        Err(Error::Request("the runner cannot restore sequences".into()))
    }
    /// Writes what a sequence keeps beside what another one, which goes on from where it ends, has of the same positions: states
    /// and windows, that are where it ends. No step may be in flight.
    ///
    /// # Errors
    /// As [`Runner::save`].
    fn save_beside(&mut self, _seq: u32, _to: &mut dyn Write) -> Result<()> {
        Err(Error::Request("the runner cannot save beginnings of sequences".into()))
    }
    /// Makes a sequence a beginning of `beside`, with what [`Runner::save_beside`] wrote; the rest of [`Runner::restore`] holds.
    ///
    /// # Errors
    /// As [`Runner::restore`]; more positions than `beside` has.
    fn restore_beside(&mut self, _beside: u32, _seq: u32, _from: &mut dyn Read) -> Result<()> {
        Err(Error::Request("the runner cannot restore beginnings of sequences".into()))
    }
    /// Blocks of the cache that no sequence holds, of `KV_BLOCK` positions each.
    fn free_blocks(&self) -> usize {
        usize::MAX
    }
    /// Blocks that a step of these rows would take of the free ones.
    fn blocks_needed(&self, _rows: &[Row]) -> usize {
        0
    }
    /// Fills the table that rows of the next step start from, where the plan is a later part of a model.
    /// No step may be in flight.
    fn fill_rows(&mut self, _rows: &[f32]) {}
    /// Whether the GPU's time of the steps started from now on is counted, which costs a little.
    fn time_steps(&mut self, _on: bool) {}
    /// Whether the device was lost and the model loaded anew meanwhile: what was timed until then tells nothing.
    fn was_revived(&self) -> bool {
        false
    }
    /// What may have later steps go through other kernels than those before of the same shape, with other rounding; none where nothing
    /// does.
    fn may_change(&self) -> Option<String> {
        None
    }
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

    /// Starts and finishes a step whose output rows all want the same.
    ///
    /// # Errors
    /// As [`Runner::start`] and [`Runner::finish`]; another number of requests than of output rows.
    fn run(&mut self, rows: &[Row], want: Want<'_>) -> Result<Output> {
        let ticket = self.start(&want.of(rows)?)?;
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
    /// Pipelines built.
    pub pipelines: u64,
    /// Host time spent recording, microseconds.
    pub record_us: f64,
    /// Time that steps waited for pipelines that were not built yet, microseconds; [`Counters::record_us`] has it, too.
    pub build_us: f64,
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
    /// Positions are below this too, where it is set: see `Plan::dense_positions`.
    pub dense_positions: Option<usize>,
    /// Most rows.
    pub max_rows: usize,
    /// Sequences are below this.
    pub n_seqs: usize,
    /// Vectors that rows may be, if they may be some.
    pub vectors: Option<VectorLimits>,
}

/// What a step was found to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckedStep {
    /// Output rows.
    pub outputs: usize,
    /// Output rows that want logits on the host.
    pub logits: usize,
    /// Whether an output row has its id sampled by more than the largest logit, or is to be listed.
    pub sampled: bool,
    /// Whether an output row is told later which ids are allowed.
    pub later: bool,
    /// Whether no two rows are of one sequence.
    pub one_each: bool,
    /// Whether a row is a vector.
    pub vectors: bool,
}

/// Rows up to which the row before of the same sequence is sought among all; more rows take a table.
const FEW: usize = 16;

impl Limits {
    /// Checks every row, and that those of a sequence have positions one above the other.
    ///
    /// # Errors
    /// [`Error::Request`] naming the row's field with expected and found.
    pub fn check(&self, rows: &[Row]) -> Result<CheckedStep> {
        let bad = |what: String| Err(Error::Request(what));
        if rows.is_empty() || rows.len() > self.max_rows {
            return bad(format!("rows of a step: expected 1 to {}, found {}", self.max_rows, rows.len()));
        }
        // Position after the last row of each sequence, 0 before its first.
        let mut next = if rows.len() > FEW { vec![0u32; self.n_seqs] } else { Vec::new() };
        let mut found =
            CheckedStep { outputs: 0, logits: 0, sampled: false, later: false, one_each: true, vectors: false };
        for (i, row) in rows.iter().enumerate() {
            self.check_row(row)?;
            let before = match next.get_mut(row.seq as usize) {
                Some(next) => std::mem::replace(next, row.pos + 1),
                None => rows[..i].iter().rfind(|r| r.seq == row.seq).map_or(0, |r| r.pos + 1),
            };
            found.one_each &= before == 0;
            if before > 0 && row.pos != before {
                let (seq, pos) = (row.seq, row.pos);
                return bad(format!("row {i}, sequence {seq}: expected position {before} after the last, found {pos}"));
            }
            found.outputs += usize::from(row.has_output());
            found.logits += usize::from(row.output == RowOutput::Logits);
            found.later |= *row.allowed_ids() == Allowed::Later;
            found.vectors |= row.medium.is_some();
            found.sampled |= match &row.output {
                RowOutput::Sample(request) => !request.is_argmax(),
                RowOutput::Shortlist(_) => true,
                _ => false,
            };
        }
        if found.sampled && !found.one_each {
            check_sampled_alone(rows)?;
        }
        if found.vectors {
            self.check_vectors(rows)?;
        }
        Ok(found)
    }

    fn check_row(&self, row: &Row) -> Result<()> {
        let bad = |what: String| Err(Error::Request(what));
        if row.seq as usize >= self.n_seqs {
            return bad(format!("sequence: expected below {}, found {}", self.n_seqs, row.seq));
        }
        if row.pos as usize >= self.n_ctx {
            return bad(format!("position: expected below the context's {}, found {}", self.n_ctx, row.pos));
        }
        if let Some(most) = self.dense_positions.filter(|most| row.pos as usize >= *most) {
            return bad(format!(
                "position: expected below attention.indexer.top_k (of blocks, times their size), {most}, since choosing among more \
                 positions is not there; found {}",
                row.pos
            ));
        }
        match row.token {
            Token::Id(id) if id >= MEDIA_IDS && row.medium.is_some() => Ok(()),
            Token::Id(id) | Token::Source(id) if id as usize >= self.n_vocab => {
                bad(format!("token id: expected below {}, found {id}", self.n_vocab))
            }
            _ => Ok(()),
        }
    }
}

/// Checks that no request's recent ids depend on what another row of the step samples.
fn check_sampled_alone(rows: &[Row]) -> Result<()> {
    let outputs = |seq: u32| rows.iter().filter(|row| row.seq == seq && row.has_output()).count();
    let after_sampled = |row: &&Row| row.has_output() && row.token == Token::Sampled;
    match rows.iter().filter(after_sampled).find(|row| outputs(row.seq) > 1) {
        Some(row) => Err(Error::Request(format!(
            "sequence {}: expected one output row in a step that samples after a sampled id, found more",
            row.seq
        ))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits =
        Limits { n_vocab: 10, n_ctx: 100, dense_positions: None, max_rows: 40, n_seqs: 3, vectors: None };

    fn row(seq: u32, pos: u32) -> Row {
        Row { seq, pos, token: Token::Id(1), output: RowOutput::Id, medium: None }
    }

    fn refusal_reason(rows: &[Row]) -> String {
        LIMITS.check(rows).unwrap_err().to_string()
    }

    #[test]
    fn a_position_that_an_indexer_would_have_to_choose_for_is_refused() {
        let limits = Limits { dense_positions: Some(8), ..LIMITS };
        assert!(limits.check(&[row(0, 7)]).is_ok());
        let refused = limits.check(&[row(0, 8)]).unwrap_err().to_string();
        assert!(refused.contains("indexer.top_k") && refused.contains("found 8"), "{refused}");
    }

    #[test]
    fn rows_of_a_sequence_come_one_above_the_other_however_many_there_are() {
        for count in [3, 30] {
            let turns: Vec<Row> = (0..count).flat_map(|i| [row(0, 4 + i), row(2, i)]).take(count as usize).collect();
            let checked = LIMITS.check(&turns).unwrap();
            assert_eq!((checked.outputs, checked.one_each), (count as usize, false));
            let last = turns.len() - 1;
            for wrong in [-1i64, 1] {
                let mut bad = turns.clone();
                bad[last].pos = (i64::from(bad[last].pos) + wrong) as u32;
                let found = refusal_reason(&bad);
                assert!(found.contains(&format!("expected position {}", turns[last].pos)), "{count}: {found}");
            }
        }
        assert!(LIMITS.check(&[row(0, 0), row(1, 0), row(2, 99)]).unwrap().one_each);
        assert!(refusal_reason(&[row(0, 7), row(0, 7)]).contains("expected position 8 after the last, found 7"));
    }

    #[test]
    fn a_step_says_what_it_holds() {
        let request = |temperature| SampleRequest {
            options: std::sync::Arc::new(SamplerOptions { temperature, ..Default::default() }),
            recent: vec![],
            unit: 0.5,
            allowed: Allowed::All,
        };
        let of = |outputs: &[RowOutput]| {
            let rows = outputs.iter().zip(0..).map(|(output, seq)| Row { output: output.clone(), ..row(seq, 0) });
            LIMITS.check(&rows.collect::<Vec<_>>()).unwrap()
        };
        let (greedy, warm) = (RowOutput::Sample(request(0.0)), RowOutput::Sample(request(0.8)));
        assert_eq!(
            of(&[RowOutput::None, RowOutput::Logits, greedy]),
            CheckedStep { outputs: 2, logits: 1, sampled: false, later: false, one_each: true, vectors: false }
        );
        assert!(of(&[RowOutput::Id, warm.clone()]).sampled);
        let two = [0, 1].map(|pos| Row { token: Token::Sampled, output: warm.clone(), ..row(1, pos) });
        assert!(refusal_reason(&two).contains("sequence 1: expected one output row"));
    }

    #[test]
    fn one_output_for_all_rows_leaves_rows_without_one_alone() {
        let rows = [Row { output: RowOutput::None, ..row(0, 0) }, row(0, 1)];
        let filled = Want::Logits.of(&rows).unwrap();
        assert_eq!((&filled[0].output, &filled[1].output), (&RowOutput::None, &RowOutput::Logits));
        let error = Want::Drawn(&[]).of(&rows).unwrap_err().to_string();
        assert!(error.contains("expected one per output row, 1, found 0"), "{error}");
    }
}
