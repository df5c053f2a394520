//! What a model takes of a device's memory, before any is taken: weights, buffers of a session, and a cache of as many
//! positions as fit.
//!
//! Buffers that grow with what is asked for are not in the plan: logits for the host, and sums of squares.

use super::buffers::{block_bytes, state_bytes, SessionSize, RECORDINGS, SLOTS};
use super::{program, weights, CacheType, Options};
use crate::exec::MegakernelMemory;
use crate::session::{Stores, KV_BLOCK};
use pumex_gguf::{Error, Result};
use pumex_lower::megakernel::{Megakernel, MegakernelOptions};
use pumex_lower::{policy, sizes, slabs};
use pumex_plan::{General, LayerState, Op, Plan, ScanKind};
use pumex_vk::{Caps, LEAST_BYTES};

/// Share of free memory the plan may use; the rest is left to the driver and the desktop.
const MEMORY_SHARE: f64 = 0.95;

/// Most bytes of logits one step may hold, or this share of the device's free memory if that is more; the rows of a step follow from it
/// for large vocabularies.
const MAX_LOGITS_BYTES: u64 = 256 << 20;
const LOGITS_SHARE: u64 = 48;

/// What a driver may want beside a buffer.
const DRIVER_BYTES: u64 = 1 << 20;

/// What the memory plan came to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MemoryPlan {
    /// Positions of a sequence.
    pub n_ctx: usize,
    /// Blocks of the KV cache.
    pub blocks: usize,
    /// Bytes of the weights; those of a file whose own pages are used are no buffers.
    pub weights: u64,
    /// Bytes of the cache: keys and values, and recurrent states.
    pub cache: u64,
    /// Bytes of recurrent states.
    pub recurrent: u64,
    /// Bytes of all other buffers taken at the start: tables of formats, scratch, parameters and results.
    pub buffers: u64,
    /// Bytes of parameters, which the host writes.
    pub params: u64,
    /// Bytes of results, which the host reads.
    pub results: u64,
    /// Bytes that recordings may take later, at most.
    pub recordings: u64,
    /// Positions for which each sequence has room.
    pub longest: usize,
}

impl MemoryPlan {
    /// Bytes of all buffers there are once a model is loaded.
    pub fn at_start(&self) -> u64 {
        self.weights + self.cache + self.buffers
    }

    /// Positions of each of so many sequences that leave `bytes` more free, and what a driver may want beside.
    pub fn context_without(&self, bytes: u64, n_seqs: usize) -> usize {
        let per_block = (self.cache - self.recurrent) / self.blocks.max(1) as u64;
        let freed = (bytes + DRIVER_BYTES).div_ceil(per_block.max(1)) as usize;
        (self.blocks.saturating_sub(freed) / n_seqs.max(1) * KV_BLOCK).min(self.n_ctx)
    }
}

/// Bytes of the buffers that a session takes beside its cache.
struct SessionBytes {
    /// All of them.
    all: u64,
    /// Parameters.
    params: u64,
    /// Results.
    results: u64,
    /// What its recordings may take later.
    recordings: u64,
}

/// Whether activations are packed, for matrices or row by row.
fn packs(caps: &Caps, options: &Options) -> bool {
    let some = !caps.matrix_n.is_empty() || policy::packs_rows(caps, program::rows_asked(caps, options));
    options.debug.matrices && some
}

/// For a device whose workgroups run at once where a megakernel needs that.
fn session_bytes(plan: &Plan, arena: u64, caps: &Caps, options: &Options, size: SessionSize) -> SessionBytes {
    let debug = options.debug;
    let activations = options.activations.unwrap_or_else(|| policy::activations(caps));
    let halves = options.cache_types() == (CacheType::F16, CacheType::F16);
    let choices = MegakernelOptions { wanted: debug.megakernel, groups: debug.megakernel_groups, activations, halves };
    let megakernel = Megakernel::of(plan, caps, choices).filter(|_| debug.fuse);
    let packed = sizes::Packed::of(plan, size.max_rows, caps, program::rows_asked(caps, options));
    let packed = Some(packed).filter(|packed| packs(caps, options) && packed.k > 0);
    let layout = size.layout();
    let reduction = sizes::split_reduction(caps, plan, size.max_rows);
    let fault = 4;
    let least = |bytes: u64| bytes.max(LEAST_BYTES);
    let params = least(program::ropes_bytes(plan)) + SLOTS as u64 * least(layout.len_bytes());
    let results = least(fault) + SLOTS as u64 * least(4 * size.max_rows as u64);
    let scratch = [
        weights::codebooks_bytes(),
        arena,
        4 * layout.sampled_word_count() as u64,
        reduction.partials,
        reduction.arrivals,
    ]
    .into_iter()
    .chain(megakernel.iter().flat_map(|kernel| [kernel.message_bytes as u64, MegakernelMemory::GAVE_UP_BYTES]))
    .chain(packed.iter().flat_map(|packed| packed.buffers(&caps.matrix_n)));
    let words = if megakernel.is_some() || packed.is_some() { sizes::most_words(plan) } else { 0 };
    let all = scratch.map(least).sum::<u64>() + params + results;
    SessionBytes { all, params, results, recordings: RECORDINGS as u64 * 4 * words }
}

/// The largest step.
#[derive(Clone, Copy, Debug)]
pub(super) struct StepSize {
    /// Bytes of its values.
    pub arena: u64,
    /// Its rows.
    pub max_rows: usize,
}

/// The memory of a plan on a device that copies weights, if it `stages` them.
fn plan_memory(plan: &Plan, caps: &Caps, stages: bool, options: &Options, step: StepSize) -> Result<MemoryPlan> {
    let StepSize { arena, max_rows } = step;
    let (k, v) = options.cache_types();
    let (mut widest, mut per_block) = (1, 0);
    for (layer, kv) in plan.kv_layers() {
        for (t, dim) in [(k, kv.k_dim), (v, kv.v_dim)] {
            if t.is_quantized() && !dim.is_multiple_of(32) {
                let what = format!("cache type {}: expected heads of a multiple of 32, found {dim}", t.name());
                return Err(Error::Request(format!("layer {layer}: {what}")));
            }
        }
    }
    let stores = Stores::of(&plan.layers);
    for layer in (0..plan.layers.len()).filter(|i| stores.of_layer(*i) == Some(0)).map(|i| &plan.layers[i]) {
        for bytes in block_bytes(layer, (k, v)) {
            (widest, per_block) = (bytes.max(widest), per_block + bytes);
        }
    }
    let per_block = per_block.max(1);
    let largest = caps.largest_buffer();
    if let Some(w) = weights::too_large(plan, caps, stages).next() {
        let (name, found) = (&w.name, slabs::device_bytes(w, w.rows, stages));
        let what = format!(
            "{name}: expected at most {largest} bytes in one buffer, found {found}; -ot {name}=CPU keeps it off"
        );
        return Err(Error::OutOfMemory(format!("device {}: {what}", caps.name)));
    }
    let weights = weights::weight_memory(plan, caps, stages);
    let seqs = options.n_seqs.max(1) as usize;
    let asked = options.n_ctx.filter(|&n| n > 0).map(|n| n as usize);
    let n_seqs = options.sequences();
    let sized = |n_ctx, blocks| SessionSize { max_rows, n_seqs, n_ctx, blocks, stores: stores.count() };
    // What windows and recurrent states take does not grow with the blocks.
    let states = |size: SessionSize, of: fn(&LayerState) -> bool| {
        let sized = size.store_blocks(&stores);
        let layers = plan.layers.iter().enumerate().filter(|(_, layer)| of(layer));
        layers.flat_map(|layer| state_bytes(layer, (k, v), &stores, &sized)).sum::<u64>()
    };
    let state = |size: SessionSize| states(size, |_| true);
    let bytes_for = |n_ctx: usize| {
        let size = sized(n_ctx, 0);
        (session_bytes(plan, arena, caps, options, size), state(size))
    };
    // Tables of blocks are the longer, the longer the context is that turns out to fit.
    let (session, bounded) = bytes_for(asked.unwrap_or(plan.n_ctx_train));
    let (buffers, recordings) = (session.all, session.recordings);
    let free = (caps.memory_budget_bytes as f64 * MEMORY_SHARE) as u64;
    let fit = free.saturating_sub(weights + buffers + recordings + bounded) / per_block;
    let (free_blocks, fit) = (fit as usize, fit.min(largest / widest) as usize);
    let room = options.room_for.map(|n| n as usize);
    // A checkpoint shares all blocks but the one that it ends in.
    let checkpoints = options.checkpoints as usize;
    let shared = fit.saturating_sub(checkpoints);
    let most = shared / room.map_or(seqs, |_| 1) * KV_BLOCK;
    let n_ctx = asked.unwrap_or_else(|| plan.n_ctx_train.min(most));
    let whole = n_ctx.div_ceil(KV_BLOCK);
    let blocks = checkpoints
        + match (options.cache_positions, room) {
            (Some(positions), _) => (positions as usize).div_ceil(KV_BLOCK),
            (None, Some(room)) => (whole * room).min(shared).max(whole),
            (None, None) => whole * seqs,
        };
    if blocks > fit && blocks <= free_blocks {
        return Err(Error::OutOfMemory(format!(
            "device {}: expected at most {largest} bytes in one buffer, found {} of a layer's keys or values of {} positions; \
             a context of {most} would fit (-c)",
            caps.name,
            widest * blocks as u64,
            blocks * KV_BLOCK,
        )));
    }
    if blocks == 0 || n_ctx == 0 || blocks > fit {
        let mib = |b: u64| b >> 20;
        return Err(Error::OutOfMemory(format!(
            "device {}: weights {} MiB, scratch {} MiB and a cache of {} positions {} MiB exceed \
             the {} MiB free; a context of {} would fit (-c)",
            caps.name,
            mib(weights),
            mib(buffers + recordings),
            blocks.max(1) * KV_BLOCK,
            mib(per_block * blocks.max(1) as u64 + bounded),
            mib(free),
            most
        )));
    }
    let (SessionBytes { all: buffers, params, results, recordings }, _) = bytes_for(n_ctx);
    let size = sized(n_ctx, blocks);
    let stored = size.store_blocks(&stores);
    for (i, layer) in plan.layers.iter().enumerate() {
        if let Some(found) =
            state_bytes((i, layer), (k, v), &stores, &stored).into_iter().find(|bytes| *bytes > largest)
        {
            return Err(Error::OutOfMemory(format!(
                "device {}: expected at most {largest} bytes in one buffer, found {found} of what layer {i} keeps of {n_seqs} \
                 sequences; {} would fit (-np)",
                caps.name,
                (n_seqs as u64 * largest / found).saturating_sub(u64::from(options.checkpoints)),
            )));
        }
    }
    let recurrent = states(size, |layer| matches!(layer, LayerState::Recurrent(_)));
    let longest = (fit / seqs).saturating_mul(KV_BLOCK);
    Ok(MemoryPlan {
        n_ctx,
        blocks,
        weights,
        cache: state(size),
        recurrent,
        buffers,
        params,
        results,
        recordings,
        longest,
    })
}

/// What a runner is to take, before it takes any.
pub(super) struct FittedPlan {
    /// The plan as it is to run.
    pub plan: Plan,
    /// Its memory.
    pub memory: MemoryPlan,
    /// Its largest step.
    pub step: StepSize,
}

/// The plan with room for the context that is asked for, and with weights as a device of `caps` is to hold them, and its memory.
///
/// # Errors
/// Memory that does not suffice, with the numbers.
pub(super) fn plan_with_context(plan: Plan, caps: &Caps, stages: bool, options: &Options) -> Result<FittedPlan> {
    let plan = match options.n_ctx.filter(|n| *n > 0) {
        Some(n_ctx) => plan.with_room(n_ctx as usize),
        None => plan,
    };
    let largest = caps.largest_buffer();
    let most_logits = MAX_LOGITS_BYTES.max(caps.memory_budget_bytes / LOGITS_SHARE).min(largest);
    let most_logits = usize::try_from(most_logits).unwrap_or(usize::MAX);
    let told = options.max_rows.max(1);
    let long = policy::takes_long_steps(caps) && !scans_by_delta_rule(&plan);
    let told = if long { told.max(options.rows_with_room) } else { told } as usize;
    let asked = told.min((most_logits / (plan.n_vocab * 4)).max(1));
    // Kernels take so many rows at a time.
    let whole = asked / policy::MOST_GROUP_ROWS * policy::MOST_GROUP_ROWS;
    let asked = if asked < told && whole > 0 { whole } else { asked };
    let mut max_rows = asked;
    // A step's values lie in one buffer; where that is too large, a step has fewer rows.
    let arena = loop {
        let packed = sizes::Packed::of(&plan, max_rows, caps, program::rows_asked(caps, options));
        let packed = Some(packed).filter(|_| packs(caps, options));
        let arena = program::arena_bytes(&plan, (caps, stages), options, max_rows, packed.as_ref());
        let of_matrices = packed.iter().flat_map(|packed| packed.buffers(&caps.matrix_n)).max().unwrap_or(0);
        let partials = sizes::split_reduction(caps, &plan, max_rows).partials;
        let found = arena.max(of_matrices).max(partials);
        match found > largest {
            false => break arena,
            true if max_rows > 1 => max_rows /= 2,
            true => {
                let what =
                    format!("expected at most {largest} bytes in one buffer, found {found} of scratch for a row");
                return Err(Error::OutOfMemory(format!("device {}: {what}", caps.name)));
            }
        }
    };
    if max_rows < asked {
        tracing::info!("load: steps of {max_rows} rows instead of {asked}: no buffer has more than {largest} bytes");
    }
    let step = StepSize { arena, max_rows };
    let (plan, memory) = fit_plan(plan, caps, stages, options, step)?;
    Ok(FittedPlan { plan, memory, step })
}

/// Whether states are written by the delta rule: qwen3next-80b-a3b took prompts faster in steps of 512 rows than of 2,048 (2026-11-28 in
/// `benches/archive/prompts.md`).
fn scans_by_delta_rule(plan: &Plan) -> bool {
    plan.ops.iter().any(|op| matches!(op, Op::General(General::Scan(scan)) if scan.kind == ScanKind::Delta))
}

/// The plan with weights as the device is to hold them, and its memory: wider than in the file if that is asked for, or if nothing
/// is said and the context is as long.
///
/// # Errors
/// Memory that does not suffice, with the numbers.
fn fit_plan(plan: Plan, caps: &Caps, stages: bool, options: &Options, step: StepSize) -> Result<(Plan, MemoryPlan)> {
    let memory = |plan: &Plan| plan_memory(plan, caps, stages, options, step);
    let expanded = weights::with_expanded_codebooks(&plan).filter(|_| stages);
    match (options.debug.expand_codebooks, expanded) {
        (Some(true), Some(expanded)) => memory(&expanded).map(|m| (expanded, m)),
        (None, Some(expanded)) => {
            let narrow = memory(&plan)?;
            let as_long = memory(&expanded).ok().filter(|m| (m.n_ctx, m.blocks) == (narrow.n_ctx, narrow.blocks));
            Ok(as_long.map_or((plan, narrow), |m| (expanded, m)))
        }
        _ => memory(&plan).map(|m| (plan, m)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Debug;

    /// A device with so much memory runs a model of codebooks; whether it holds them written out, and how long its context is.
    fn choose_codebook_form(budget: u64, expanded: Option<bool>, n_ctx: Option<u32>) -> Result<(bool, usize)> {
        let recipe = pumex_model::quantize::recipe::find("IQ3_S").ok_or_else(|| Error::Request("none".into()))?;
        let shape = pumex_model::synthetic::find("llama-8b").ok_or_else(|| Error::Request("none".into()))?;
        let plan = pumex_model::plan(&shape.model(recipe)?)?;
        let debug = Debug { expand_codebooks: expanded, ..Debug::default() };
        let options = Options { n_ctx, debug, ..Options::default() };
        let (plan, memory) =
            fit_plan(plan, &Caps::with_memory(budget), true, &options, StepSize { arena: 64 << 10, max_rows: 64 })?;
        Ok((plan.weights.iter().any(|w| w.format.is_expanded()), memory.n_ctx))
    }

    #[test]
    fn weights_lie_wider_where_the_context_is_as_long() -> Result<()> {
        let (room, tight, full) = (64 << 30, 6 << 30, 4 << 30);
        assert!(choose_codebook_form(room, None, None)?.0 && !choose_codebook_form(room, Some(false), None)?.0);
        // What is left for the context would be less.
        let (expanded, n_ctx) = choose_codebook_form(tight, None, None)?;
        assert_eq!((expanded, n_ctx), (false, choose_codebook_form(tight, Some(false), None)?.1));
        assert!(choose_codebook_form(tight, Some(true), None)?.1 < n_ctx);
        // A short context fits either way.
        assert!(choose_codebook_form(tight, None, Some(1024))?.0);
        // Narrow weights fit, expanded ones do not.
        assert!(!choose_codebook_form(full, None, Some(1024))?.0);
        assert!(choose_codebook_form(full, Some(true), Some(1024)).is_err());
        Ok(())
    }

    /// A device with memory for anything, but none of whose buffers is larger than this, is asked for so much.
    fn fit_largest_buffer(shape: &str, largest: u64, options: &Options) -> Result<FittedPlan> {
        let recipe = pumex_model::quantize::recipe::find("Q4_K_M").ok_or_else(|| Error::Request("none".into()))?;
        let shape = pumex_model::synthetic::find(shape).ok_or_else(|| Error::Request("none".into()))?;
        let plan = pumex_model::plan(&shape.model(recipe)?)?;
        plan_with_context(plan, &Caps { max_buffer_bytes: Some(largest), ..Caps::with_memory(1 << 40) }, true, options)
    }

    #[test]
    fn what_no_buffer_holds_is_refused_by_its_name_and_size_with_what_would_fit() -> Result<()> {
        let most = 1u64 << 30;
        let with = |n_ctx| Options { n_ctx: Some(n_ctx), ..Options::default() };
        let told = |shape, largest, options: &Options| {
            fit_largest_buffer(shape, largest, options).err().map(|e| e.to_string())
        };
        // Keys of a position take 2 KiB.
        assert_eq!(fit_largest_buffer("llama-8b", most, &with(1 << 19))?.memory.n_ctx, 1 << 19);
        let long = told("llama-8b", most, &with(1 << 20)).unwrap_or_default();
        for part in
            ["keys or values of 1048576 positions", &format!("at most {most} bytes"), "a context of 524288 would fit"]
        {
            assert!(long.contains(part), "{part}: {long}");
        }
        // Nobody asked for so many: as many as fit. The output matrix lies in slabs, each in a buffer.
        assert_eq!(fit_largest_buffer("llama-8b", most >> 3, &Options::default())?.memory.n_ctx, 1 << 16);
        // Not even the rows that kernels take at once fit a buffer.
        let plan = fit_largest_buffer("llama-8b", most, &with(64))?.plan;
        let caps = Caps { max_buffer_bytes: Some(1 << 12), ..Caps::with_memory(1 << 40) };
        let step = StepSize { arena: 1 << 12, max_rows: 1 };
        let first = plan_memory(&plan, &caps, true, &with(64), step).err().map(|e| e.to_string()).unwrap_or_default();
        assert!(first.contains("output.weight: expected at most 4096 bytes"), "{first}");
        // A step's values lie in one buffer: it has fewer rows.
        let rows = |largest, max_rows| {
            let options = Options { max_rows, ..with(4096) };
            fit_largest_buffer("llama-8b", largest, &options).map(|fitted| (fitted.step.max_rows, fitted.step.arena))
        };
        let (all, arena) = rows(1 << 40, 512)?;
        assert_eq!(all, 512);
        let (wide, of_wide) = rows(most, 1 << 20)?;
        assert!((512..1 << 20).contains(&wide) && of_wide <= most, "{wide}: {of_wide}");
        assert!(of_wide > arena.min(most / 4), "no fewer rows than need be: {wide}: {of_wide}");
        Ok(())
    }
}
