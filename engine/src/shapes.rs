//! From rows to the shape of their step, and the shapes whose pipelines are built ahead.

use super::buffers::DeviceState;
use super::program::Program;
use crate::exec::{bucket, pipelines};
use crate::kernel::KernelKey;
use pumex_gguf::Result;
use pumex_lower::{policy, Shape};
use pumex_step::{CheckedStep, Row};
use rayon::prelude::*;
use std::collections::{HashMap, HashSet};
use std::time::Instant;

/// Rows of prompts shorter than a chunk whose products take tiles of their own.
const SHORT_PROMPTS: [usize; 6] = [20, 40, 64, 128, 256, 512];

/// Most query heads of a workgroup of attention over `len` positions, and in how many parts a megakernel attends to them: 0 where
/// attention is a dispatch, as it is with as many heads as asked.
fn attention(program: &Program, state: &DeviceState, len: usize) -> (usize, u32) {
    let asked = program.debug.attn_heads.map(|n| n.clamp(1, policy::ATTN_HEADS));
    let heads = asked.unwrap_or_else(|| {
        let (by_matrices, _) = program.attends_by_matrices(state);
        policy::attn_heads(program.device.caps(), by_matrices, len)
    });
    let kernel = state.megakernel.kernel.as_ref().filter(|_| asked.is_none());
    (heads, kernel.map_or(0, |(kernel, _)| kernel.parts(len)))
}

/// How many rows, the first ones, attend each by itself: all of a step of few rows or of single ones; of another, those before
/// the first of a sequence that has several.
pub(super) fn singles(rows: &[Row], checked: CheckedStep) -> usize {
    if checked.one_each || rows.len() <= policy::FEW_ROWS {
        return rows.len();
    }
    let mut of_seq: HashMap<u32, usize> = HashMap::new();
    rows.iter().for_each(|row| *of_seq.entry(row.seq).or_default() += 1);
    rows.iter().take_while(|row| of_seq[&row.seq] == 1 && !row.token.is_source()).count()
}

/// Rows for which a recording has room that attend each by itself beside many others.
fn singles_bucket(singles: usize, max_rows: usize) -> usize {
    match singles {
        0 => 0,
        n => n.next_power_of_two().max(policy::FEW_ROWS).min(max_rows),
    }
}

/// What of a step is timed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TimedParts {
    /// The step.
    pub step: bool,
    /// Its ops.
    pub ops: bool,
}

/// The shape of a step of `rows` in a slot.
pub(super) fn shape_of(
    program: &Program,
    state: &DeviceState,
    rows: &[Row],
    checked: CheckedStep,
    slot: usize,
    timed: TimedParts,
) -> Shape {
    let max_rows = state.layout.max_rows();
    // Many rows of a sequence have an attention of their own, which is the same for all lengths.
    let singles = singles(rows, checked);
    let longest = rows[..singles].iter().map(|row| row.pos as usize + 1).max().unwrap_or(0);
    let (heads, parts) = attention(program, state, longest);
    let mixed = rows.len() > policy::FEW_ROWS && !checked.one_each;
    // Beside many rows a few outputs more cost nothing, and shapes are fewer.
    let least = if mixed && checked.outputs > 1 { policy::FEW_ROWS } else { 0 };
    let outputs = bucket(checked.outputs, max_rows).max(least);
    let megakernel = &state.megakernel;
    Shape {
        slot,
        rows: bucket(rows.len(), max_rows),
        outputs,
        logits: checked.logits.next_power_of_two().min(outputs) * usize::from(checked.logits > 0),
        sampled: checked.sampled,
        later: checked.later,
        heads,
        decode_batch: checked.one_each,
        singles: if mixed { singles_bucket(singles, max_rows) } else { 0 },
        source: rows.first().is_some_and(|row| row.token.is_source()),
        vectors: checked.vectors,
        groups: checked.vectors && rows.iter().any(|row| row.group().is_some()),
        // Sums of squares cannot be taken back, should it give up.
        megakernel: megakernel.kernel.is_some()
            && megakernel.on
            && !timed.ops
            && state.importance.is_none()
            && !checked.vectors,
        parts: if rows.len() == 1 && !checked.vectors { parts } else { 0 },
        timed: timed.step,
        stamps: timed.ops,
    }
}

/// A step that nothing is asked of but ids.
fn plain(program: &Program, state: &DeviceState, (rows, outputs, len): (usize, usize, usize)) -> Shape {
    let source = program.plan.encoder.is_some() && rows > 1;
    let (heads, parts) = attention(program, state, len);
    Shape {
        slot: 0,
        rows,
        outputs: if source { 0 } else { outputs },
        logits: 0,
        sampled: false,
        later: false,
        heads,
        decode_batch: rows == 1,
        singles: 0,
        source,
        vectors: false,
        groups: false,
        megakernel: true,
        parts: if rows == 1 { parts } else { 0 },
        timed: false,
        stamps: false,
    }
}

/// Lengths of sequences that attention goes by.
fn lengths(program: &Program) -> [usize; 3] {
    [1, 1 << 10, 1 << 20].map(|len: usize| len.min(program.n_ctx))
}

/// Builds the pipelines that a prompt's chunks and single rows take, whether greedy or sampled.
///
/// # Errors
/// A module the driver refuses.
pub(super) fn build_ahead(program: &Program, state: &DeviceState, max_rows: usize) -> Result<()> {
    let shorter = SHORT_PROMPTS.iter().copied().filter(|rows| *rows < max_rows);
    let sizes = [1, max_rows].into_iter().flat_map(|rows| [(rows, false), (rows, true)]);
    let sizes = sizes.chain(shorter.map(|rows| (rows, false)));
    let shape = |((rows, drawn), len): ((usize, bool), usize)| {
        let shape = plain(program, state, (rows, 1, len));
        Shape { sampled: drawn && !shape.source, ..shape }
    };
    let shapes = sizes.flat_map(|size| lengths(program).map(|len| (size, len))).map(shape);
    build(program, state, shapes)
}

/// Builds those of steps of so many rows of one sequence, all with outputs.
///
/// # Errors
/// A module the driver refuses.
pub(super) fn build_rows(program: &Program, state: &DeviceState, counts: &[usize]) -> Result<()> {
    let max_rows = state.layout.max_rows();
    let rows = counts.iter().map(|count| bucket(*count, max_rows));
    build(program, state, rows.map(|rows| plain(program, state, (rows, rows, rows))))
}

/// Builds those of every step that a session of `n_seqs` sequences can take.
///
/// # Errors
/// A module the driver refuses.
pub(super) fn build_all(program: &Program, state: &DeviceState, (max_rows, n_seqs): (usize, usize)) -> Result<()> {
    let mut counts: Vec<usize> = (1..=max_rows).map(|rows| bucket(rows, max_rows)).collect();
    counts.dedup();
    // What comes behind the last norm goes by output rows, all else by rows.
    let whole = counts.iter().flat_map(|rows| [(*rows, 1), (*rows, *rows)]);
    let sizes: Vec<(usize, usize)> = whole.chain(counts.iter().map(|outputs| (max_rows, *outputs))).collect();
    let most_seqs = bucket(n_seqs, max_rows);
    let of = |(rows, outputs): (usize, usize), len: usize| {
        let shape = plain(program, state, (rows, outputs, len));
        let batch =
            (rows > 1 && rows <= most_seqs).then_some(Shape { decode_batch: true, source: false, outputs, ..shape });
        let answer = shape.source.then_some(Shape { source: false, outputs, ..shape });
        let all = [Some(shape), batch, answer].into_iter().flatten();
        all.flat_map(|shape| [shape, Shape { sampled: shape.outputs > 0, ..shape }]).collect::<Vec<_>>()
    };
    // Single rows beside others differ from these in attention alone.
    let singles = counts.iter().copied().filter(|n| *n >= policy::FEW_ROWS && *n <= most_seqs.max(policy::FEW_ROWS));
    let beside = singles.filter(|_| max_rows > policy::FEW_ROWS).flat_map(|singles| {
        lengths(program).map(|len| Shape { singles, source: false, ..plain(program, state, (max_rows, 1, len)) })
    });
    let shapes = sizes.into_iter().flat_map(|size| lengths(program).map(|len| of(size, len))).flatten();
    build(program, state, shapes.chain(beside))
}

fn build(program: &Program, state: &DeviceState, shapes: impl Iterator<Item = Shape>) -> Result<()> {
    let (begun, before) = (Instant::now(), program.device.counters());
    let at = program.addresses(None, state, 0);
    let target = program.target(&at, state);
    let shapes: Vec<Shape> = shapes.collect::<HashSet<_>>().into_iter().collect();
    let of = |shape: Shape| pipelines(&program.kernels, &target, shape);
    let joined = |mut all: HashSet<KernelKey>, more| {
        all.extend(more);
        Ok(all)
    };
    let keys = shapes.into_par_iter().map(of).try_reduce(HashSet::new, joined)?;
    program.kernels.build_all(keys, rayon::current_num_threads())?;
    program.kernels.save();
    let (after, ms) = (program.device.counters(), begun.elapsed().as_secs_f64() * 1e3);
    let (built, thread_ms) = (after.pipelines - before.pipelines, (after.pipeline_us - before.pipeline_us) / 1e3);
    tracing::info!("load: {built} pipelines, {ms:.0} ms beside the weights, {thread_ms:.0} ms of all threads together");
    Ok(())
}
