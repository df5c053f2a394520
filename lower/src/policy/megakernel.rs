//! The layers of one row in one dispatch: whether and in what shape, and what its workgroups have room for.

use super::class::{choices, integer_dots};
use super::gemv::dot_span;
use super::shared::table_room;
use super::table::ATTN_HEADS;
use super::ActivationQuant;
use pumex_plan::KV_BLOCK;
use pumex_quant::Format;
use pumex_vk::Caps;

/// Shape of a dispatch that does products one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MegakernelTile {
    /// Threads of a workgroup.
    pub size: u32,
    /// Workgroups, which must all run at once.
    pub groups: u32,
}

/// How the ops of one row follow each other in one dispatch, if they do: where the driver tells how many multiprocessors
/// there are, each of which can hold a workgroup, or, if it is `wanted`, by a single workgroup. (Those drivers' devices also
/// store and load 16 bytes of a thread at once, which the kernel counts on.)
pub fn megakernel_tile(caps: &Caps, wanted: Option<bool>) -> Option<MegakernelTile> {
    let threads = choices(caps).megakernel_threads.value;
    match (wanted, caps.cores) {
        (Some(false), _) => None,
        _ if ["megakernel", "megakernel_moe"].iter().any(|kernel| caps.disabled_reason(kernel).is_some()) => None,
        _ if caps.emulated_subgroups => None,
        _ if !integer_dots(caps) || !caps.subgroup_ballot || !caps.subgroup_shuffle || caps.subgroup_size < 8 => None,
        (_, Some(cores)) if threads.is_some() => {
            Some(MegakernelTile { size: threads?.min(caps.max_workgroup_invocations), groups: cores })
        }
        (Some(true), _) => Some(MegakernelTile { size: 64.max(caps.subgroup_size), groups: 1 }),
        (None, _) => None,
    }
}

/// Rows of a flagged message: those that a workgroup takes at a time.
pub const MESSAGE: usize = 16;

/// Messages that a workgroup of a megakernel has of `m` rows, at most.
pub fn megakernel_messages(tile: MegakernelTile, m: usize) -> usize {
    m.div_ceil(MESSAGE * tile.groups as usize)
}

/// Rows that each of a megakernel's subgroups takes at a time of `m`: two share what is read of the activations, where that leaves
/// no subgroup without any.
pub fn megakernel_rows(tile: MegakernelTile, lanes: u32, m: usize) -> u32 {
    let (own, subgroups) = (MESSAGE * megakernel_messages(tile, m), (tile.size / lanes) as usize);
    let turns = |rows: usize| own.div_ceil(rows * subgroups) * rows;
    if m > 0 && turns(2) <= turns(1) {
        2
    } else {
        1
    }
}

/// Waits for messages from which on a dispatch of several stages is faster than theirs one by one, which have shapes of their own
/// (2026-11-25, device A, in `benches/archive/families.md`).
pub const MEGAKERNEL_LEAST_WAITS: usize = 2;

/// Outputs of a product above which it is worth a dispatch of its own, whatever comes before it.
pub const MEGAKERNEL_MAX_ROWS: usize = 1 << 16;

/// Positions of a sequence up to which attention, with heads of `head_dim`, is a stage of a megakernel: whole, a workgroup for each
/// head, and, if there can be, in parts. Beyond, a dispatch that reads K and V faster is better.
pub fn megakernel_positions(head_dim: usize, in_parts: bool) -> (usize, usize) {
    if in_parts {
        (256, (1 << 22) / head_dim)
    } else {
        ((1 << 17) / head_dim, 0)
    }
}

/// Most parts of a sequence's positions that megakernels join.
pub const MOST_ATTENTION_PARTS: usize = 64;

/// Query heads of a K/V head, if a megakernel's workgroup can take them all at once: some subgroups each, of which four loads of K
/// are of one block of the cache.
pub fn megakernel_heads(tile: MegakernelTile, lanes: u32, head_dim: usize, per_kv: usize) -> Option<usize> {
    let (subgroups, run) = ((tile.size / lanes) as usize, 4 * lanes as usize / (head_dim / 8));
    let fits = per_kv.is_power_of_two() && per_kv <= ATTN_HEADS.min(subgroups) && KV_BLOCK.is_multiple_of(run);
    fits.then_some(per_kv)
}

/// Parts that positions are in for a megakernel whose workgroups attend to so many groups of heads: one for each workgroup, as far as
/// a subgroup of 32 joins them in two rounds of loads.
pub fn megakernel_parts(tile: MegakernelTile, groups: usize) -> u32 {
    (tile.groups as usize / groups).clamp(2, MOST_ATTENTION_PARTS / 2) as u32
}

/// Whether a megakernel's workgroups attend with heads of so many dimensions: its subgroups hold some positions each.
pub fn megakernel_attends(tile: MegakernelTile, lanes: u32, head_dim: usize) -> bool {
    head_dim.is_power_of_two()
        && (32..=128).contains(&head_dim)
        && head_dim <= 8 * lanes as usize
        && head_dim <= tile.size as usize
}

/// Bytes of shared memory for what the subgroups of a megakernel that attends have of `pair` heads each.
pub fn megakernel_attention_bytes(tile: MegakernelTile, lanes: u32, head_dim: usize, pair: usize) -> usize {
    (tile.size / lanes) as usize * pair * head_dim * 4
}

/// Whether a megakernel's workgroups choose among so many experts, each for itself.
pub fn megakernel_ranks(tile: MegakernelTile, experts: usize, used: usize) -> bool {
    experts <= 512 && used <= 32.min(tile.size as usize)
}

/// Bytes of shared memory that a megakernel takes beside activations and messages.
const MEGAKERNEL_SHARED: usize = 8 << 10;

/// Whether a megakernel's workgroups can hold the codes of `k` inputs, with an eighth of padding and 4 bits each for scales and sums,
/// beside a table of `table` bytes and the `room` taken by messages that they send ([`megakernel_messages`]) and by attention, where
/// codes are at other times ([`megakernel_attention_bytes`]).
pub fn megakernel_span(
    caps: &Caps,
    (format, table): (&Format, usize),
    k: usize,
    codes: ActivationQuant,
    room: (usize, usize),
) -> bool {
    let held = megakernel_held(k, codes, room) + table;
    dot_span(caps, format, k, 1, codes) == Some(k) && held <= caps.max_shared_bytes as usize
}

/// Bytes of shared memory that a megakernel takes beside a table.
fn megakernel_held(k: usize, codes: ActivationQuant, (messages, heads): (usize, usize)) -> usize {
    let coded = k * (codes.bits() + codes.bits() / 8) as usize / 8;
    coded.max(heads) + k / 2 + messages * (8 * MESSAGE + 8) + MEGAKERNEL_SHARED
}

/// Bytes of a megakernel's shared memory for a format's table, beside the codes of up to `k` inputs.
pub fn megakernel_table_room(caps: &Caps, k: usize, codes: ActivationQuant, room: (usize, usize)) -> usize {
    table_room(caps, megakernel_held(k, codes, room))
}
