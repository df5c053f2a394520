//! What a session's recordings are lowered for: addresses, facts, and the buffers that they keep.

use super::buffers::DeviceState;
use super::program::Program;
use crate::exec::{Buffers, PackedMemory};
use pumex_lower::{policy, Addresses, PackedAt, StateAt, Target};
use pumex_vk::Buffer;

impl Program {
    /// Where all lies that recordings for a slot of a session name. Without `weights`, for their pipelines alone, these may lie
    /// anywhere.
    pub fn addresses(&self, weights: Option<&[Buffer]>, state: &DeviceState, slot: usize) -> Addresses {
        let slot = &state.slots[slot];
        let megakernel = state.megakernel.kernel.as_ref().map(|(_, memory)| memory);
        Addresses {
            arena: state.arena.address(),
            weights: weights.map_or(vec![0; self.plan.weights.len()], |w| w.iter().map(Buffer::address).collect()),
            states: self.states(state),
            codebooks: self.codebooks.address(),
            ropes: self.ropes.address(),
            vectors: slot.vectors.as_ref().map_or(0, Buffer::address),
            adapter_scales: slot.adapter_scales.as_ref().map_or(0, Buffer::address),
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

    /// Where the state of each layer lies.
    fn states(&self, state: &DeviceState) -> Vec<StateAt> {
        let at = |(layer, (k, v)): (usize, &(Buffer, Buffer))| {
            let store = self.stores.of_layer(layer).unwrap_or(0);
            StateAt { k: k.address(), v: v.address(), table_at: state.layout.table_at(store) as u32 }
        };
        state.caches.iter().enumerate().map(at).collect()
    }

    /// What a session's recordings are lowered for.
    pub fn target<'a>(&'a self, at: &'a Addresses, state: &'a DeviceState) -> Target<'a> {
        Target {
            plan: &self.plan,
            caps: self.device.caps(),
            at,
            soa: self.device.stages_weights(),
            fuse: self.debug.fuse,
            chunks: self.debug.chunks.unwrap_or_else(|| policy::scans_by_windows(self.device.caps())),
            max_rows: state.layout.max_rows(),
            n_ctx: self.n_ctx,
            cache_types: self.cache_types,
            activations: self.activations,
            requests_at: state.layout.requests_at(),
            importance: state.importance.is_some(),
            packing: state.packed.as_ref().and_then(PackedMemory::packing),
            rows: state.packed.as_ref().and_then(PackedMemory::rows),
            megakernel: state.megakernel.kernel.as_ref().map(|(kernel, _)| kernel),
        }
    }

    /// Whether all attention goes through cooperative matrices: of few rows, of many.
    pub fn attends_by_matrices(&self, state: &DeviceState) -> (bool, bool) {
        let at = Addresses::default();
        let target = self.target(&at, state);
        (target.all_attend_by_matrices(), target.all_attend_many_by_matrices())
    }

    /// The buffers that recordings for a slot keep.
    pub fn buffers<'a>(&'a self, weights: &'a [Buffer], state: &'a DeviceState, slot: usize) -> Buffers<'a> {
        let slot = &state.slots[slot];
        let mut kept: Vec<&Buffer> = weights.iter().collect();
        kept.extend([&self.codebooks, &self.ropes, &state.arena, &state.sampled, &slot.params.buffer, &slot.ids]);
        kept.extend(slot.vectors.iter().chain(&slot.adapter_scales));
        kept.extend([&state.split_reduction.partials, &state.split_reduction.arrivals, &state.megakernel.fault]);
        let megakernel = state.megakernel.kernel.iter();
        kept.extend(megakernel.flat_map(|(_, memory)| [&memory.gave_up, &memory.messages]));
        kept.extend(state.packed.iter().flat_map(PackedMemory::buffers));
        kept.extend(state.caches.iter().flat_map(|(k, v)| [k, v]).chain(&state.importance));
        Buffers { arena: &state.arena, logits: slot.logits.as_ref(), kept }
    }
}
