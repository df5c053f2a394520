//! Dispatches as text: kernel, constants, push constants by name, bytes read and written. Needs no device.

use super::dispatch::{Access, Dispatch};
use super::megakernel::{Megakernel, MegakernelOptions};
use super::CacheType;
use super::{lower, sizes, Addresses, Lowered, Shape, StateAt, Target};
use crate::policy;
use crate::policy::{Candidate, MatrixLayout, PackedRowsRequest};
use pumex_gguf::Result;
use pumex_plan::Plan;
use pumex_shaders::block::Value;
use pumex_vk::Caps;
use std::fmt::Write;

/// Bytes between the made-up addresses of two buffers.
pub(crate) const APART: u64 = 1 << 40;

/// Addresses that a dry run takes: a buffer each, far apart, so that text can name them again.
pub fn made_up_addresses(plan: &Plan, matrix_columns: &[u32]) -> Addresses {
    let mut next = 0;
    let mut address = || {
        next += APART;
        next
    };
    let mut at = Addresses {
        arena: address(),
        codebooks: address(),
        ropes: address(),
        sampled: address(),
        params: address(),
        ids: address(),
        partials: address(),
        arrivals: address(),
        fault: address(),
        importance: address(),
        words: address(),
        gave_up: address(),
        messages: address(),
        ..Addresses::default()
    };
    let p = &mut at.packed;
    for part in [&mut p.codes, &mut p.factors, &mut p.epilogue_factors, &mut p.squares, &mut p.powers] {
        *part = address();
    }
    p.moe = [address(), address(), address(), address()];
    p.maps = matrix_columns.iter().map(|mat_n| (*mat_n, address())).collect();
    at.states = plan.layers.iter().map(|_| StateAt { k: address(), v: address(), table_at: 0 }).collect();
    at.weights = plan.weights.iter().map(|_| address()).collect();
    at
}

/// Buffers by name, for addresses of [`made_up_addresses`].
fn name(at: &Addresses, plan: &Plan, address: u64) -> String {
    let base = address / APART * APART;
    let named = [
        (at.arena, "arena"),
        (at.codebooks, "codebooks"),
        (at.ropes, "ropes"),
        (at.vectors, "vectors"),
        (at.adapter_scales, "adapter_scales"),
        (at.sampled, "sampled"),
        (at.params, "params"),
        (at.ids, "ids"),
        (at.partials, "partials"),
        (at.arrivals, "arrivals"),
        (at.fault, "fault"),
        (at.importance, "importance"),
        (at.words, "words"),
        (at.gave_up, "gave_up"),
        (at.messages, "messages"),
        (at.packed.codes, "packed"),
        (at.packed.factors, "packed_factors"),
        (at.packed.epilogue_factors, "epilogue_factors"),
        (at.packed.squares, "squares"),
        (at.packed.powers, "powers"),
        (at.packed.moe[0], "moe_tiles"),
        (at.packed.moe[1], "moe_packed"),
        (at.packed.moe[2], "moe_factors"),
        (at.packed.moe[3], "moe_products"),
    ];
    let weight = || at.weights.iter().position(|w| *w == base).map(|i| plan.weights[i].name.clone());
    let state = || {
        let layer = at.states.iter().position(|s| s.k == base || s.v == base)?;
        Some(format!("{}{layer}", if at.states[layer].k == base { "k" } else { "v" }))
    };
    let map = || at.packed.maps.iter().find(|(_, map)| *map == base).map(|(mat_n, _)| format!("map{mat_n}"));
    let found = named.iter().find(|(a, _)| *a == base && base > 0).map(|(_, name)| (*name).to_string());
    let found = found.or_else(state).or_else(map).or_else(weight).unwrap_or_else(|| format!("{base:#x}"));
    match address - base {
        _ if address == 0 => "0".into(),
        0 => found,
        offset => format!("{found}+{offset}"),
    }
}

/// Bytes of accesses, all together.
fn bytes(accesses: &[Access]) -> u64 {
    accesses.iter().map(|a| a.bytes).sum()
}

/// A dispatch for a device of `caps` as text; `name_of` names what lies at an address.
pub(crate) fn describe(
    d: &Dispatch,
    barrier: bool,
    caps: &Caps,
    name_of: &dyn Fn(u64) -> String,
    variants: Vec<Candidate>,
) -> DispatchText {
    let value = |value: &Value| match value {
        Value::Address(address) => name_of(*address),
        other => other.to_string(),
    };
    let set = |v: &Value| !matches!(v, Value::Address(0) | Value::Word(0)) && *v != Value::Float(0.0);
    let module = d.format.map_or(d.kernel.to_string(), |format| format!("{}.{format}", d.kernel));
    DispatchText {
        op: d.op,
        barrier,
        grid: d.grid,
        subgroup: caps.own_subgroup(&module),
        module,
        constants: d.constants.clone(),
        push: d.push.named().iter().filter(|(_, v)| set(v)).map(|(name, v)| (*name, value(v))).collect(),
        read_bytes: bytes(&d.reads),
        written_bytes: bytes(&d.writes),
        variants,
    }
}

/// All dispatches of a step, a line each, with a line for each barrier.
pub fn text(target: &Target<'_>, lowered: &Lowered) -> String {
    let mut out = String::new();
    let name_of = |address| name(target.at, target.plan, address);
    for (dispatch, barrier) in lowered.dispatches.iter().zip(&lowered.barriers) {
        let d = describe(dispatch, *barrier, target.caps, &name_of, Vec::new());
        let constants: Vec<String> = d.constants.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let push: Vec<String> = d.push.iter().map(|(name, value)| format!("{name}={value}")).collect();
        if d.barrier {
            out.push_str("barrier\n");
        }
        let (grid, constants, push) = (d.grid, constants.join(" "), push.join(" "));
        let (read, written) = (d.read_bytes, d.written_bytes);
        let _ = writeln!(out, "{} {grid:?} {{{constants}}} ({push}) reads {read} writes {written}", d.module);
    }
    out
}

/// What a dry run is of.
#[derive(Clone, Copy, Debug)]
pub struct DryRun<'a> {
    /// The plan as the model file gives it.
    pub plan: &'a Plan,
    /// The device, which need not be there.
    pub caps: &'a Caps,
    /// Rows of the step.
    pub rows: usize,
    /// Each row is of a sequence of its own; else all are of one.
    pub decode_batch: bool,
    /// Output rows.
    pub outputs: usize,
    /// Types of K and V.
    pub cache_types: (CacheType, CacheType),
    /// Positions of the longest sequence.
    pub len: usize,
    /// The rows are those of sources, which an encoder sees; they have no output.
    pub source: bool,
}

/// A dispatch of a dry run, with the buffers that its push constants name by name.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct DispatchText {
    /// Index into the ops of the plan as it runs; the last one's for a dispatch that does several.
    pub op: usize,
    /// Whether a barrier stands before it.
    pub barrier: bool,
    /// Row of the kernel table, with the weight format that the module is for.
    pub module: String,
    /// Workgroups.
    pub grid: [u32; 3],
    /// Threads of its subgroups, where the policy has others for it than for most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subgroup: Option<u32>,
    /// Specialization constants.
    pub constants: Vec<(&'static str, u32)>,
    /// Push constants but for zeros.
    pub push: Vec<(&'static str, String)>,
    /// Bytes that it reads.
    pub read_bytes: u64,
    /// Bytes that it writes.
    pub written_bytes: u64,
    /// Kernels that could do it, best first, of which the first that is not passed over does; empty where there is no choice.
    pub variants: Vec<Candidate>,
}

/// What a step would run.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Explained {
    /// Ops of the plan as it runs, with others merged into them.
    pub ops: Vec<String>,
    /// Dispatches, in order.
    pub dispatches: Vec<DispatchText>,
}

/// The dispatches of a step on a device; cooperative matrices are taken to be held as the kernels expect, and the megakernel's
/// workgroups to run at once.
pub fn explain(run: &DryRun<'_>) -> Result<Explained> {
    lower_for(run, |target, lowered| {
        let name_of = |address| name(target.at, target.plan, address);
        let text =
            |(d, barrier): (&Dispatch, &bool)| describe(d, *barrier, target.caps, &name_of, d.candidates(target.caps));
        Explained {
            ops: lowered.plan.ops.iter().map(|op| lowered.plan.line(op)).collect(),
            dispatches: lowered.dispatches.iter().zip(&lowered.barriers).map(text).collect(),
        }
    })
}

/// The dispatches of a step on a device, as text with a line for each dispatch and each barrier.
pub fn dry_run(run: &DryRun<'_>) -> Result<String> {
    lower_for(run, text)
}

fn lower_for<T>(run: &DryRun<'_>, of: impl FnOnce(&Target<'_>, &Lowered) -> T) -> Result<T> {
    let DryRun { plan, caps, rows, .. } = *run;
    let at = made_up_addresses(plan, &caps.matrix_n);
    let (max_rows, activations) = (rows.max(512), policy::activations(caps));
    let halves = run.cache_types == (CacheType::F16, CacheType::F16);
    let direct = policy::matrix::may_be_direct(caps);
    let asked = PackedRowsRequest { forced: None, activations };
    let packed = sizes::Packed::of(plan, max_rows, caps, asked);
    let packing =
        (!caps.matrix_n.is_empty()).then(|| packed.packing(MatrixLayout { direct, ordered: direct, panels: direct }));
    let megakernel = Megakernel::of(plan, caps, MegakernelOptions { wanted: None, groups: None, activations, halves });
    let target = Target {
        plan,
        caps,
        at: &at,
        soa: !caps.unified,
        fuse: true,
        chunks: policy::scans_by_windows(caps),
        max_rows,
        n_ctx: plan.n_ctx_train.max(run.len),
        cache_types: run.cache_types,
        activations,
        requests_at: 0,
        importance: false,
        packing,
        rows: packed.rows(caps, asked),
        megakernel: megakernel.as_ref(),
    };
    let shape = Shape {
        rows,
        outputs: if run.source { 0 } else { run.outputs },
        source: run.source,
        heads: policy::attn_heads(caps, target.all_attend_by_matrices(), run.len),
        decode_batch: run.decode_batch || rows == 1,
        megakernel: megakernel.is_some(),
        parts: megakernel.as_ref().filter(|_| rows == 1).map_or(0, |kernel| kernel.parts(run.len)),
        ..Shape::default()
    };
    Ok(of(&target, &lower(&target, shape)?))
}
