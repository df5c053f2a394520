//! Records dispatches into a command buffer, once per shape of a step, and keeps what they need in memory.
//!
//! Steps of one shape share a command buffer; all that changes from step to step lies in StepParams. Up to 16 rows a shape is
//! exact; above, row counts are rounded up to a power of two. The recordings that were used least recently go first.

mod conv2d;
mod fragment;
mod megakernel;
mod workspace;

use crate::kernel::{KernelKey, Kernels};
pub use conv2d::{conv2d, Conv2dBuffers};
pub use fragment::{fragment_layout, FragmentLayout};
pub use megakernel::{run_at_once, trial, MegakernelMemory};
use pumex_gguf::Result;
use pumex_lower as lower;
use pumex_lower::{policy, Addresses, Lowered, Shape, Target};
use pumex_plan::{Op, Plan};
use pumex_vk as vk;
use pumex_vk::{Buffer, Class, Device, Recording};
use std::collections::HashSet;
use std::sync::Arc;
pub use workspace::{PackedMemory, SplitReductionMemory};

/// Rows of a recording for a step of `n`: exact for few, then the next power of two.
pub fn bucket(n: usize, max_rows: usize) -> usize {
    if n <= policy::FEW_ROWS {
        n
    } else {
        n.next_power_of_two().min(max_rows)
    }
}

/// A recorded step.
pub struct RecordedStep {
    /// The commands.
    pub recording: Recording,
    /// The recording of the ops that choose ids, where they are apart ([`Shape::later`]).
    pub choice: Option<Recording>,
    /// Where in the arena logits lie.
    pub logits_at: u64,
    /// The plan that it runs: with ops merged.
    pub plan: Arc<Plan>,
    /// What its stamps stand behind, in order; empty if it has none.
    pub stamped: Vec<StampedOp>,
}

/// An op of a recording's plan that it has a stamp behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StampedOp {
    /// Index into the ops of the recording's plan; those that no row wants have no stamp.
    pub op: usize,
    /// Dispatches it takes.
    pub dispatches: u64,
}

/// The buffers behind a target's addresses that are not the same for all recordings, and those to be kept.
pub struct Buffers<'a> {
    /// Scratch arena.
    pub arena: &'a Buffer,
    /// Logits for the host.
    pub logits: Option<&'a Buffer>,
    /// All buffers that addresses name.
    pub kept: Vec<&'a Buffer>,
}

/// Records the plan of `target` for `shape`.
///
/// # Errors
/// A pipeline that could not be built, memory that ran out, a lost device.
pub fn record(
    device: &Device,
    kernels: &Kernels,
    target: &Target<'_>,
    buffers: &Buffers<'_>,
    shape: Shape,
) -> Result<RecordedStep> {
    let (lowered, words) = with_words(device, target, shape)?;
    let stamps = if shape.stamps { lowered.dispatches.len() as u32 } else { 0 };
    let timed = shape.timed || shape.stamps;
    let recorder = || if timed { device.recorder_with_stamps(stamps) } else { device.recorder_untimed() };
    let (mut rec, mut forward) = (recorder()?, None);
    let mut stamped: Vec<StampedOp> = Vec::new();
    let pipelines = kernels.get_all(&lowered.dispatches)?;
    let mut queue = lowered.dispatches.iter().zip(&pipelines).zip(&lowered.barriers).peekable();
    while let Some(((dispatch, pipeline), barrier)) = queue.next() {
        let chooses = matches!(lowered.plan.ops[dispatch.op], Op::Sample { .. });
        if shape.later && chooses && forward.is_none() {
            forward = Some(std::mem::replace(&mut rec, recorder()?));
        } else if *barrier {
            rec.barrier();
        }
        rec.dispatch(pipeline, &dispatch.push.bytes(), dispatch.grid);
        let op = dispatch.op;
        match stamped.last_mut() {
            Some(last) if last.op == op => last.dispatches += 1,
            _ => stamped.push(StampedOp { op, dispatches: 1 }),
        }
        if shape.stamps && queue.peek().is_none_or(|((next, _), _)| next.op != op) {
            rec.stamp();
        }
    }
    if shape.outputs > 0 {
        if let (true, Some(host)) = (shape.logits > 0, buffers.logits) {
            let len = (shape.logits * lowered.plan.n_vocab * 4) as u64;
            rec.copy_barrier();
            rec.copy(buffers.arena, lowered.places.offsets[lowered.plan.logits.0], host, 0, len);
        }
        rec.host_barrier();
    }
    let logits_at = lowered.places.offsets.get(lowered.plan.logits.0).copied().unwrap_or(0);
    words.iter().chain(buffers.kept.iter().copied()).for_each(|b| forward.as_mut().unwrap_or(&mut rec).keep(b));
    if forward.is_some() {
        buffers.kept.iter().for_each(|b| rec.keep(b));
    }
    let (recording, choice) = match forward {
        Some(forward) => (forward.finish()?, Some(rec.finish()?)),
        None => (rec.finish()?, None),
    };
    let stamped = if shape.stamps { stamped } else { Vec::new() };
    Ok(RecordedStep { recording, choice, logits_at, plan: Arc::new(lowered.plan), stamped })
}

/// Lowers with the words that only this recording needs in a buffer of their own.
fn with_words(device: &Device, target: &Target<'_>, shape: Shape) -> Result<(Lowered, Option<Buffer>)> {
    let lowered = lower::lower(target, shape)?;
    if lowered.words.is_empty() {
        return Ok((lowered, None));
    }
    let words = device.buffer("words", 4 * lowered.words.len() as u64, Class::Scratch)?;
    let at = Addresses { words: words.address(), ..target.at.clone() };
    let lowered = lower::lower(&Target { at: &at, ..*target }, shape)?;
    vk::send(device, &words, bytemuck::cast_slice(&lowered.words))?;
    Ok((lowered, Some(words)))
}

/// The pipelines that a recording for `shape` takes; addresses may be any.
///
/// # Errors
/// A kernel that needs more than the device has.
pub fn pipelines(kernels: &Kernels, target: &Target<'_>, shape: Shape) -> Result<HashSet<KernelKey>> {
    let lowered = lower::lower(target, shape)?;
    lowered.dispatches.iter().map(|d| kernels.key(d.kernel, d.format, &d.constants)).collect()
}
