//! What loading a model would take of a device's memory, and where: told before anything is loaded, and without the device.

use super::memory::{plan_with_context, MemoryPlan};
use super::{weights, Options};
use pumex_gguf::{Gguf, Result};
use pumex_lower::policy;
use pumex_model as model;
use pumex_vk::{memory_of, Caps, Class};

/// A class of buffers.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Share {
    /// What is in them.
    pub what: &'static str,
    /// Bytes of all of them together.
    pub bytes: u64,
    /// Index of the device's memory type that they get.
    pub memory_type: Option<usize>,
    /// What that is: whose memory, and whether the host reaches it.
    pub lies: String,
}

/// What a model would take.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Fit {
    /// By class; what is there from the start comes first.
    pub shares: Vec<Share>,
    /// Positions of a sequence that there would be.
    pub n_ctx: usize,
    /// Positions for which there is room.
    pub longest: usize,
    /// Bytes of all buffers once the model is loaded.
    pub at_start: u64,
    /// Bytes of the device's memory that are free.
    pub free: u64,
}

/// What the model of `gguf` would take of a device of `caps`.
///
/// # Errors
/// A file that is no runnable model; memory that does not suffice, with the numbers and the context that would fit.
pub fn fit(gguf: &Gguf, caps: &Caps, options: &Options) -> Result<Fit> {
    let plan = model::plan(gguf)?;
    let plan = if options.embeds { plan.embedding() } else { plan };
    let stages = !caps.unified || options.debug.force_staging;
    let left = caps.memory_budget_bytes.saturating_sub(options.reserved_bytes);
    let memory = plan_with_context(plan, &Caps { memory_budget_bytes: left, ..caps.clone() }, stages, options)?.memory;
    let MemoryPlan { weights, cache, recurrent, buffers, params, results, recordings, .. } = memory;
    let tables = weights::codebooks_bytes();
    let (way, _) = policy::upload_way(caps, rayon::current_num_threads());
    let staging = if stages { (way.batch_bytes * way.slots) as u64 } else { 0 };
    let in_place = !stages && caps.host_import_alignment.is_some();
    let classes = [
        ("weights", weights, Class::Weights),
        ("tables of formats", tables, Class::Weights),
        ("keys and values", cache - recurrent, Class::State),
        ("recurrent states", recurrent, Class::State),
        ("scratch", buffers - params - results - tables, Class::Scratch),
        ("parameters", params, Class::Params),
        ("results", results, Class::Readback),
        ("recordings, at most", recordings, Class::Scratch),
        ("staging, while loading", staging, Class::Staging),
        ("encoder of media, at most", options.reserved_bytes, Class::Scratch),
    ];
    let share = |(what, bytes, class): (&'static str, u64, Class)| {
        if in_place && what == "weights" {
            let lies = "the file's own pages, where they can be imported".into();
            return Share { what, bytes, memory_type: None, lies };
        }
        let memory_type = memory_of(caps, class);
        Share { what, bytes, memory_type, lies: memory_type.map_or_else(String::new, |i| lies(caps, i)) }
    };
    Ok(Fit {
        shares: classes.into_iter().map(share).collect(),
        n_ctx: memory.n_ctx,
        longest: memory.longest,
        at_start: memory.at_start() - if in_place { weights } else { 0 },
        free: caps.memory_budget_bytes,
    })
}

/// A memory type in words.
fn lies(caps: &Caps, index: usize) -> String {
    let t = &caps.memory_types[index];
    let whose = if t.device_local { "the device's" } else { "the host's" };
    let reached = match (t.host_visible, t.host_cached) {
        (false, _) => "",
        (true, false) => ", mapped",
        (true, true) => ", mapped and cached",
    };
    format!("{whose} memory{reached} (type {index}, heap {})", t.heap)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pumex_vk::{Heap, MemoryType};

    fn t(heap: usize, flags: &str) -> MemoryType {
        let has = |c| flags.contains(c);
        let (device_local, host_visible) = (has('L'), has('V'));
        MemoryType { heap, device_local, host_visible, host_coherent: host_visible, host_cached: has('C') }
    }

    /// A kind of device: its heaps, memory types, whether it has one memory, GiB, and the types that classes get.
    type Kind = (&'static str, Vec<Heap>, Vec<MemoryType>, bool, u64, [usize; 6]);

    /// Bytes that each class puts where, in five kinds of devices: large ones never lie in memory that the host reaches while
    /// there is any other of the device's.
    #[test]
    fn classes_lie_where_they_are_meant_to_on_five_kinds_of_devices() -> Result<()> {
        let recipe =
            pumex_model::quantize::recipe::find("Q4_K_M").ok_or_else(|| pumex_gguf::Error::Request("none".into()))?;
        let shape =
            pumex_model::synthetic::find("llama-8b").ok_or_else(|| pumex_gguf::Error::Request("none".into()))?;
        let gguf = shape.model(recipe)?;
        let local = |gib: u64| Heap { len_bytes: gib << 30, budget_bytes: gib << 30, device_local: true };
        let host = Heap { device_local: false, ..local(32) };
        // Types of: weights, keys and values, scratch, parameters, results, staging.
        let devices: [Kind; 5] = [
            (
                "256 MB BAR",
                vec![local(24), host, local(1)],
                vec![t(0, "L"), t(1, "V"), t(1, "VC"), t(2, "LV")],
                false,
                24,
                [0, 0, 0, 3, 2, 2],
            ),
            (
                "ReBAR, visible type first",
                vec![local(24), host],
                vec![t(0, "LV"), t(0, "L"), t(1, "V"), t(1, "VC")],
                false,
                24,
                [1, 1, 1, 0, 3, 3],
            ),
            ("unified", vec![local(24)], vec![t(0, "LV"), t(0, "LVC")], true, 24, [0, 0, 0, 0, 1, 0]),
            ("small VRAM", vec![local(8), host], vec![t(0, "L"), t(1, "V"), t(1, "VC")], false, 8, [0, 0, 0, 1, 2, 2]),
            (
                "all local memory visible",
                vec![local(24), host],
                vec![t(1, "V"), t(0, "LV"), t(1, "VC")],
                false,
                24,
                [1, 1, 1, 1, 2, 2],
            ),
        ];
        for (name, heaps, memory_types, unified, gib, expected) in devices {
            let caps = Caps { heaps, memory_types, unified, ..Caps::with_memory(gib << 30) };
            let fit = fit(&gguf, &caps, &Options { n_ctx: Some(4096), ..Options::default() })?;
            let of = |what: &str| fit.shares.iter().find(|s| s.what.starts_with(what)).and_then(|s| s.memory_type);
            let names = ["weights", "keys and values", "scratch", "parameters", "results", "staging"];
            assert_eq!(names.map(of), expected.map(Some), "{name}: {fit:#?}");
            let loaded = |s: &&Share| !s.what.contains("at most") && !s.what.contains("loading");
            assert_eq!(fit.shares.iter().filter(loaded).map(|s| s.bytes).sum::<u64>(), fit.at_start, "{name}");
            assert!(fit.at_start < fit.free && fit.longest >= fit.n_ctx && fit.n_ctx == 4096, "{name}: {fit:#?}");
            // As long a context as is said to fit does, and not a block more.
            let most = fit.longest as u32;
            let with = |n_ctx| super::fit(&gguf, &caps, &Options { n_ctx: Some(n_ctx), ..Options::default() });
            assert!(with(most / 2).is_ok(), "{name}");
            let error = with(most + most / 8).map(|fit| fit.at_start).unwrap_err().to_string();
            assert!(error.contains("would fit"), "{name}: {error}");
        }
        Ok(())
    }
}
