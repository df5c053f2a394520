//! The layers of one row in one dispatch: whether and in what shape, and what its workgroups have room for.

use super::class::{choices, integer_dots};
use super::gemv::dot_span;
use super::shared::table_room;
use super::table::ATTN_HEADS;
use super::Activations;
use crate::plan::KV_BLOCK;
use crate::vk::Caps;
use pumex_quant::Format;

/// Shape of a dispatch that does products one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainTile {
    /// Threads of a workgroup.
    pub size: u32,
    /// Workgroups, which must all run at once.
    pub groups: u32,
}

/// How the ops of one row follow each other in one dispatch, if they do: where the driver tells how many multiprocessors
/// there are, each of which can hold a workgroup, or, if it is `wanted`, by a single workgroup. (Those drivers' devices also
/// store and load 16 bytes of a thread at once, which the kernel counts on.)
pub fn chain_tile(caps: &Caps, wanted: Option<bool>) -> Option<ChainTile> {
    let threads = choices(caps).megakernel_threads.value;
    match (wanted, caps.cores) {
        (Some(false), _) => None,
        _ if !integer_dots(caps) || !caps.subgroup_ballot || !caps.subgroup_shuffle || caps.subgroup_size < 8 => None,
        (_, Some(cores)) if threads.is_some() => {
            Some(ChainTile { size: threads?.min(caps.max_workgroup_invocations), groups: cores })
        }
        (Some(true), _) => Some(ChainTile { size: 64.max(caps.subgroup_size), groups: 1 }),
        (None, _) => None,
    }
}

/// Rows that a chain deals at a time to a workgroup: those of a packet.
pub const PACKET: usize = 16;

/// Packets that a workgroup of a chain has of `m` rows, at most.
pub fn chain_packets(tile: ChainTile, m: usize) -> usize {
    m.div_ceil(PACKET * tile.groups as usize)
}

/// Rows that each of a chain's subgroups takes at a time of `m`: two share what is read of the activations, where that leaves
/// no subgroup without any.
pub fn chain_rows(tile: ChainTile, lanes: u32, m: usize) -> u32 {
    let (own, subgroups) = (PACKET * chain_packets(tile, m), (tile.size / lanes) as usize);
    let turns = |rows: usize| own.div_ceil(rows * subgroups) * rows;
    if m > 0 && turns(2) <= turns(1) {
        2
    } else {
        1
    }
}

/// Outputs of a product above which it is worth a dispatch of its own, whatever comes before it.
pub const CHAIN_MAX_ROWS: usize = 1 << 16;

/// Positions of a sequence up to which attention, with heads of `head_dim`, is a stage of a chain: whole, a workgroup for each
/// head, and, if there can be, in parts. Beyond, a dispatch that reads K and V faster is better.
pub fn chain_positions(head_dim: usize, in_parts: bool) -> (usize, usize) {
    if in_parts {
        (256, (1 << 22) / head_dim)
    } else {
        ((1 << 17) / head_dim, 0)
    }
}

/// Most parts of a sequence's positions that chains join.
pub const MOST_PARTS: usize = 64;

/// Query heads of a K/V head, if a chain's workgroup can take them all at once: some subgroups each, of which four loads of K
/// are of one block of the cache.
pub fn chain_heads(tile: ChainTile, lanes: u32, head_dim: usize, per_kv: usize) -> Option<usize> {
    let (subgroups, run) = ((tile.size / lanes) as usize, 4 * lanes as usize / (head_dim / 8));
    let fits = per_kv.is_power_of_two() && per_kv <= ATTN_HEADS.min(subgroups) && KV_BLOCK.is_multiple_of(run);
    fits.then_some(per_kv)
}

/// Parts that positions are in for a chain whose workgroups attend to so many groups of heads: one for each workgroup, as far as
/// a subgroup of 32 joins them in two rounds of loads.
pub fn chain_parts(tile: ChainTile, groups: usize) -> u32 {
    (tile.groups as usize / groups).clamp(2, MOST_PARTS / 2) as u32
}

/// Whether a chain's workgroups attend with heads of so many dimensions: its subgroups hold some positions each.
pub fn chain_attends(tile: ChainTile, lanes: u32, head_dim: usize) -> bool {
    head_dim.is_power_of_two()
        && (32..=128).contains(&head_dim)
        && head_dim <= 8 * lanes as usize
        && head_dim <= tile.size as usize
}

/// Bytes of shared memory for what the subgroups of a chain that attends have of `pair` heads each.
pub fn chain_attention_bytes(tile: ChainTile, lanes: u32, head_dim: usize, pair: usize) -> usize {
    (tile.size / lanes) as usize * pair * head_dim * 4
}

/// Whether a chain's workgroups choose among so many experts, each for itself.
pub fn chain_ranks(tile: ChainTile, experts: usize, used: usize) -> bool {
    experts <= 512 && used <= 32.min(tile.size as usize)
}

/// Bytes of shared memory that a chain takes beside activations and packets.
const CHAIN_SHARED: usize = 8 << 10;

/// Whether a chain's workgroups can hold the codes of `k` inputs, with an eighth of padding and 4 bits each for scales and sums,
/// beside a table of `table` bytes and the `room` taken by packets that they send ([`chain_packets`]) and by attention, where
/// codes are at other times ([`chain_attention_bytes`]).
pub fn chain_span(
    caps: &Caps,
    (format, table): (&Format, usize),
    k: usize,
    codes: Activations,
    room: (usize, usize),
) -> bool {
    let held = chain_held(k, codes, room) + table;
    dot_span(caps, format, k, 1, codes) == Some(k) && held <= caps.max_shared_bytes as usize
}

/// Bytes of shared memory that a chain takes beside a table.
fn chain_held(k: usize, codes: Activations, (packets, heads): (usize, usize)) -> usize {
    let coded = k * (codes.bits() + codes.bits() / 8) as usize / 8;
    coded.max(heads) + k / 2 + packets * (8 * PACKET + 8) + CHAIN_SHARED
}

/// Bytes of a chain's shared memory for a format's table, beside the codes of up to `k` inputs.
pub fn chain_table_room(caps: &Caps, k: usize, codes: Activations, room: (usize, usize)) -> usize {
    table_room(caps, chain_held(k, codes, room))
}
