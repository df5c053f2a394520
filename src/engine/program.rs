//! What sessions of one model share: the plan, its pipelines and places, and the weights. Nothing of it changes.

use super::session::DeviceState;
use super::{CacheType, Debug, Options};
use crate::exec::{Buffers, PackedMemory};
use crate::kernel::Kernels;
use crate::lower::{self, sizes, Addresses, PackedAt, Target};
use crate::plan::Plan;
use crate::policy::{self, Activations};
use crate::vk::{Buffer, Class, Device};
use crate::Result;
use std::sync::Arc;

/// All but the weights.
pub(super) struct Program {
    /// The device.
    pub device: Device,
    /// Its pipelines.
    pub kernels: Arc<Kernels>,
    /// What runs.
    pub plan: Arc<Plan>,
    /// Bytes of a session's scratch arena, where its values lie.
    pub arena_bytes: u64,
    /// Tables of all formats.
    pub codebooks: Buffer,
    /// Tables of RoPE, one after the other.
    pub ropes: Buffer,
    /// Elements of K and V.
    pub cache_types: (CacheType, CacheType),
    /// Codes of activations in products by integers.
    pub activations: Activations,
    /// What tests choose.
    pub debug: Debug,
    /// Positions a sequence may have.
    pub n_ctx: usize,
}

/// A model on a device.
pub(super) struct Model {
    /// All but the weights.
    pub program: Program,
    /// In the plan's order.
    pub weights: Vec<Buffer>,
    /// Goes when the last session does.
    pub _freeing: Freeing,
}

/// What lets go of an upload's memory beside the first step; waited for, as a process must not end amid it.
pub(super) struct Freeing(Option<std::thread::JoinHandle<()>>);

impl Freeing {
    /// Drops `spent` on a thread of its own.
    pub fn of<T: Send + 'static>(spent: T) -> Freeing {
        Freeing(Some(std::thread::spawn(|| drop(spent))))
    }
}

impl Drop for Freeing {
    fn drop(&mut self) {
        if let Some(thread) = self.0.take() {
            let _ = thread.join();
        }
    }
}

impl Program {
    /// For sequences of up to `n_ctx` positions.
    ///
    /// # Errors
    /// Memory that ran out.
    pub fn new(
        (device, kernels, codebooks): (Device, Arc<Kernels>, Buffer),
        (plan, arena_bytes): (Arc<Plan>, u64),
        options: &Options,
        n_ctx: usize,
    ) -> Result<Program> {
        let tables = plan.ropes.concat();
        let ropes = device.buffer("ropes", (4 * tables.len() as u64).max(16), Class::Params)?;
        ropes.write(0, bytemuck::cast_slice(&tables));
        Ok(Program {
            cache_types: (options.cache_type_k, options.cache_type_v),
            activations: options.activations.unwrap_or_else(|| policy::activations(device.caps())),
            debug: options.debug,
            device,
            kernels,
            plan,
            arena_bytes,
            codebooks,
            ropes,
            n_ctx,
        })
    }

    /// Where all lies that recordings for a slot of a session name. Without `weights`, for their pipelines alone, these may lie
    /// anywhere.
    pub fn addresses(&self, weights: Option<&[Buffer]>, state: &DeviceState, slot: usize) -> Addresses {
        let slot = &state.slots[slot];
        let megakernel = state.megakernel.kernel.as_ref().map(|(_, memory)| memory);
        Addresses {
            arena: state.arena.address(),
            weights: weights.map_or(vec![0; self.plan.weights.len()], |w| w.iter().map(Buffer::address).collect()),
            states: state.caches.iter().map(|(k, v)| [k.address(), v.address()]).collect(),
            codebooks: self.codebooks.address(),
            ropes: self.ropes.address(),
            sampled: state.sampled.address(),
            params: slot.params.buffer.address(),
            ids: slot.ids.address(),
            partials: state.split_reduction.partials.address(),
            arrivals: state.split_reduction.arrivals.address(),
            fault: state.megakernel.fault.address(),
            importance: state.importance.as_ref().map_or(0, Buffer::address),
            words: 0,
            packed: state.packed.as_ref().map_or_else(PackedAt::default, PackedMemory::addresses),
            gave_up: megakernel.map_or(0, |memory| memory.gave_up.address()),
            messages: megakernel.map_or(0, |memory| memory.messages.address()),
        }
    }

    /// What a session's recordings are lowered for.
    pub fn target<'a>(&'a self, at: &'a Addresses, state: &'a DeviceState) -> Target<'a> {
        Target {
            plan: &self.plan,
            caps: self.device.caps(),
            at,
            planes: self.device.stages_weights(),
            fuse: self.debug.fuse,
            max_rows: state.layout.max_rows(),
            n_ctx: self.n_ctx,
            cache_types: self.cache_types,
            activations: self.activations,
            draws_at: state.layout.requests_at(),
            importance: state.importance.is_some(),
            packing: state.packed.as_ref().map(PackedMemory::packing),
            megakernel: state.megakernel.kernel.as_ref().map(|(kernel, _)| kernel),
        }
    }

    /// Whether attention goes through cooperative matrices: of few rows, of many.
    pub fn attends_by_matrices(&self, state: &DeviceState) -> (bool, bool) {
        let packing = state.packed.as_ref().map(PackedMemory::packing);
        let few = lower::target::attends_by_matrices(&self.plan, self.cache_types, packing);
        (few, few && packing.is_some_and(|p| p.ordered))
    }

    /// The buffers that recordings for a slot keep.
    pub fn buffers<'a>(&'a self, weights: &'a [Buffer], state: &'a DeviceState, slot: usize) -> Buffers<'a> {
        let slot = &state.slots[slot];
        let mut kept: Vec<&Buffer> = weights.iter().collect();
        kept.extend([&self.codebooks, &self.ropes, &state.arena, &state.sampled, &slot.params.buffer, &slot.ids]);
        kept.extend([&state.split_reduction.partials, &state.split_reduction.arrivals, &state.megakernel.fault]);
        let megakernel = state.megakernel.kernel.iter();
        kept.extend(megakernel.flat_map(|(_, memory)| [&memory.gave_up, &memory.messages]));
        kept.extend(state.packed.iter().flat_map(PackedMemory::buffers));
        kept.extend(state.caches.iter().flat_map(|(k, v)| [k, v]).chain(&state.importance));
        Buffers { arena: &state.arena, logits: slot.logits.as_ref(), kept }
    }
}

/// Bytes of the scratch arena of a model, whatever shape a step has. `packed`: activations for cooperative matrices, if there are
/// some.
pub(super) fn arena_bytes(
    plan: &Plan,
    device: &Device,
    options: &Options,
    (max_rows, packed): (usize, Option<&sizes::Packed>),
) -> u64 {
    let at = Addresses::default();
    let target = Target {
        plan,
        caps: device.caps(),
        at: &at,
        planes: device.stages_weights(),
        fuse: options.debug.fuse,
        max_rows,
        n_ctx: 1,
        cache_types: (options.cache_type_k, options.cache_type_v),
        activations: options.activations.unwrap_or_else(|| policy::activations(device.caps())),
        draws_at: 0,
        importance: false,
        packing: packed.map(|sizes| sizes.packing(true, true)),
        megakernel: None,
    };
    sizes::arena(&target)
}
