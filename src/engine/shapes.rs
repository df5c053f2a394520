//! From rows to the shape of their step, and the shapes whose pipelines are built ahead.

use super::program::Program;
use super::session::DeviceState;
use crate::exec::{bucket, pipelines};
use crate::lower::Shape;
use crate::policy;
use crate::step::{Checked, Row};
use crate::Result;
use std::collections::HashSet;
use std::time::Instant;

/// Rows of prompts shorter than a chunk whose products take tiles of their own.
const SHORT_PROMPTS: [usize; 4] = [20, 40, 64, 128];

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

/// What of a step is timed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Timed {
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
    checked: Checked,
    slot: usize,
    timed: Timed,
) -> Shape {
    let max_rows = state.layout.max_rows();
    // Many rows of a sequence have an attention of their own, which is the same for all lengths.
    let single = checked.one_each || rows.len() <= policy::FEW_ROWS;
    let longest = rows.iter().filter(|_| single).map(|row| row.pos as usize + 1).max().unwrap_or(0);
    let (heads, parts) = attention(program, state, longest);
    let outputs = bucket(checked.outputs, max_rows);
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
        source: rows.first().is_some_and(|row| row.token.is_source()),
        // Sums of squares cannot be taken back, should it give up.
        megakernel: megakernel.kernel.is_some() && megakernel.on && !timed.ops && state.importance.is_none(),
        parts: if rows.len() == 1 { parts } else { 0 },
        timed: timed.step,
        stamps: timed.ops,
    }
}

/// Builds the pipelines that a prompt's chunks and single rows take, whether greedy or sampled.
///
/// # Errors
/// A module the driver refuses.
pub(super) fn build_ahead(program: &Program, state: &DeviceState, max_rows: usize) -> Result<()> {
    let begun = Instant::now();
    let at = program.addresses(None, state, 0);
    let target = program.target(&at, state);
    let mut keys = HashSet::new();
    let shorter = SHORT_PROMPTS.iter().copied().filter(|rows| *rows < max_rows);
    let shapes = [1, max_rows].into_iter().flat_map(|rows| [(rows, false), (rows, true)]);
    let shapes = shapes.chain(shorter.map(|rows| (rows, false)));
    let lens = [1, 1 << 10, 1 << 20].map(|len: usize| len.min(program.n_ctx));
    let encodes = program.plan.encoder.is_some();
    for ((rows, drawn), len) in shapes.flat_map(|shape| lens.map(|len| (shape, len))) {
        let source = encodes && rows > 1;
        let (heads, parts) = attention(program, state, len);
        let shape = Shape {
            slot: 0,
            rows,
            outputs: usize::from(!source),
            logits: 0,
            sampled: drawn && !source,
            later: false,
            heads,
            decode_batch: rows == 1,
            source,
            megakernel: true,
            parts: if rows == 1 { parts } else { 0 },
            timed: false,
            stamps: false,
        };
        keys.extend(pipelines(&program.kernels, &target, shape)?);
    }
    program.kernels.build_all(keys, rayon::current_num_threads())?;
    program.kernels.save();
    let ms = begun.elapsed().as_secs_f64() * 1e3;
    tracing::info!("load: {} pipelines, {ms:.0} ms beside the weights", program.kernels.built());
    Ok(())
}
