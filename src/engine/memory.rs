//! What a model takes of a device's memory, before any is taken: weights, scratch, and a cache of as many positions as fit.

use super::{weights, Options};
use crate::plan::Plan;
use crate::session::KV_BLOCK;
use crate::vk::Caps;
use crate::{Error, Result};

/// Share of free memory the plan may use; the rest is left to the driver and the desktop.
const MEMORY_SHARE: f64 = 0.95;

/// What the memory plan came to.
#[derive(Debug, PartialEq)]
pub(super) struct MemoryPlan {
    /// Positions of a sequence.
    pub n_ctx: usize,
    /// Of the cache.
    pub blocks: usize,
}

/// Of a device that copies weights, if it `stages` them, beside `arena` bytes.
fn plan_memory(plan: &Plan, caps: &Caps, stages: bool, options: &Options, arena: u64) -> Result<MemoryPlan> {
    let (k, v) = (options.cache_type_k, options.cache_type_v);
    let (mut widest, mut per_block) = (1, 0);
    for (layer, kv) in plan.kv_layers() {
        for (t, dim) in [(k, kv.k_dim), (v, kv.v_dim)] {
            if t.is_quantized() && !dim.is_multiple_of(32) {
                let what = format!("cache type {}: expected heads of a multiple of 32, found {dim}", t.name());
                return Err(Error::Request(format!("layer {layer}: {what}")));
            }
            let bytes = t.bytes((kv.kv_heads * dim * KV_BLOCK) as u64);
            (widest, per_block) = (bytes.max(widest), per_block + bytes);
        }
    }
    let per_block = per_block.max(1);
    let weights: u64 = plan.weights.iter().map(|w| weights::device_bytes(w, stages)).sum();
    let free = (caps.memory_budget_bytes as f64 * MEMORY_SHARE) as u64;
    let fit = free.saturating_sub(weights + arena) / per_block;
    let fit = fit.min(caps.max_allocation_bytes / widest) as usize;
    let seqs = options.n_seqs.max(1) as usize;
    let asked = options.n_ctx.filter(|&n| n > 0).map(|n| n as usize);
    let n_ctx = asked.unwrap_or_else(|| plan.n_ctx_train.min(fit / seqs * KV_BLOCK));
    let positions = options.cache_positions.map(|n| n as usize);
    let blocks = positions.map_or(n_ctx.div_ceil(KV_BLOCK) * seqs, |n| n.div_ceil(KV_BLOCK));
    if blocks == 0 || blocks > fit {
        let mib = |b: u64| b >> 20;
        return Err(Error::OutOfMemory(format!(
            "device {}: weights {} MiB, scratch {} MiB and a cache of {} positions {} MiB exceed \
             the {} MiB free; a context of {} would fit (-c)",
            caps.name,
            mib(weights),
            mib(arena),
            blocks.max(1) * KV_BLOCK,
            mib(per_block * blocks.max(1) as u64),
            mib(free),
            fit / seqs * KV_BLOCK
        )));
    }
    Ok(MemoryPlan { n_ctx, blocks })
}

/// The plan with weights as the device is to hold them, and its memory: wider than in the file if that is asked for, or if nothing is
/// said and the context is as long.
///
/// # Errors
/// Memory that does not suffice, with the numbers.
pub(super) fn fitted(
    plan: Plan,
    caps: &Caps,
    stages: bool,
    options: &Options,
    arena: u64,
) -> Result<(Plan, MemoryPlan)> {
    let memory = |plan: &Plan| plan_memory(plan, caps, stages, options, arena);
    let wide = weights::widened(&plan).filter(|_| stages);
    match (options.debug.wide, wide) {
        (Some(true), Some(wide)) => memory(&wide).map(|m| (wide, m)),
        (None, Some(wide)) => {
            let narrow = memory(&plan)?;
            let as_long = memory(&wide).is_ok_and(|m| m == narrow);
            Ok((if as_long { wide } else { plan }, narrow))
        }
        _ => memory(&plan).map(|m| (plan, m)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Debug;
    use crate::vk::fake_with;

    /// A device with so much memory runs a model of codebooks; whether it holds them written out, and how long its context is.
    fn held(budget: u64, wide: Option<bool>, n_ctx: Option<u32>) -> Result<(bool, usize)> {
        let recipe = crate::quantize::recipe::find("IQ3_S").ok_or_else(|| Error::Request("none".into()))?;
        let shape = crate::synthetic::find("llama-8b").ok_or_else(|| Error::Request("none".into()))?;
        let plan = crate::model::plan(&shape.model(recipe)?)?;
        let debug = Debug { wide, ..Debug::default() };
        let options = Options { n_ctx, debug, ..Options::default() };
        let (plan, memory) = fitted(plan, &fake_with(budget), true, &options, 1 << 28)?;
        Ok((plan.weights.iter().any(|w| w.format.is_wide()), memory.n_ctx))
    }

    #[test]
    fn weights_lie_wider_where_the_context_is_as_long() -> Result<()> {
        let (room, tight, full) = (64 << 30, 6 << 30, 4 << 30);
        assert!(held(room, None, None)?.0 && !held(room, Some(false), None)?.0);
        // What is left for the context would be less.
        let (wide, n_ctx) = held(tight, None, None)?;
        assert_eq!((wide, n_ctx), (false, held(tight, Some(false), None)?.1));
        assert!(held(tight, Some(true), None)?.1 < n_ctx);
        // A short context fits either way.
        assert!(held(tight, None, Some(1024))?.0);
        // Narrow weights fit, wide ones do not.
        assert!(!held(full, None, Some(1024))?.0);
        assert!(held(full, Some(true), Some(1024)).is_err());
        Ok(())
    }
}
