//! How attention is spread over workgroups: of many rows, and of single ones over long sequences.

use super::class::{choices, cores};
use super::table::{HeadsRow, SplitAttention, ATTN_HEADS};
use pumex_plan::AttentionSpec;
use pumex_shaders::step::KV_BLOCK;
use pumex_vk::Caps;

/// Workgroups of prefill attention that a core is to have, to work while others wait for tiles.
const PREFILL_GROUPS: usize = 3;

/// Rows and positions per tile of prefill attention of so many rows: as many as leave all cores enough workgroups. Of wide values
/// they are few anyway, since a thread holds outputs of all of their columns.
pub fn prefill_tile(caps: &Caps, c: &AttentionSpec, rows: usize) -> (u32, u32) {
    let (enough, wide) = (PREFILL_GROUPS * cores(caps) as usize, c.head_dim.max(c.v_dim));
    let mut tiles = choices(caps).prefill.value.iter();
    let (most, span) = tiles.find(|tile| wide <= tile.dim).map_or((8, 16), |tile| (tile.rows, tile.span));
    let groups = |height: usize| rows.div_ceil(height) * c.heads;
    match () {
        () if most >= 32 && c.v_dim <= 256 && groups(32) >= enough => (32, span),
        () if most >= 16 && groups(16) >= enough => (16, span),
        () => (8, 16),
    }
}

/// How a decode step's attention is spread over workgroups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttnTile {
    /// Row of the kernel table: `attn_split` or `attn_mat`.
    pub kernel: &'static str,
    /// Threads of a workgroup.
    pub size: u32,
    /// Positions it takes at a time.
    pub span: u32,
    /// Positions that are worth a workgroup.
    pub least: u32,
    /// Query heads a workgroup takes, all of one K/V head.
    pub heads: u32,
    /// Parts that a long sequence is split into.
    pub parts: u32,
}

/// Most query heads that a workgroup should take for sequences of up to `len` positions. K and V are read once for all of
/// them, but one at a time they keep more of the device busy, which is worth more while there is little to read. By cooperative
/// matrices (`matrices`) more heads cost less.
pub fn attn_heads(caps: &Caps, matrices: bool, len: usize) -> usize {
    let holds = |row: &&HeadsRow| row.matrices.is_none_or(|m| m == matrices) && row.positions.holds(len);
    choices(caps).attention_heads.iter().find(holds).map_or(ATTN_HEADS, |row| row.heads)
}

/// Bytes of shared memory of an `attn_split` of so many heads and positions at a time: heads with the newest k and v, their norms
/// and frequencies, scores, sums, and a tile of K in units of `unit` elements.
fn attn_bytes(c: &AttentionSpec, heads: usize, (size, span): (usize, usize), unit: usize) -> usize {
    let of_heads = (heads + 2) * c.head_dim + c.head_dim * 5 / 2;
    4 * (of_heads + heads * size + 8 * size) + 16 * span * (c.head_dim / unit + 1) + 256
}

/// Attention of `rows` single rows, of elements of so many `bits` if they are not quantized, by workgroups of at most `most` heads.
pub fn attn_tile(caps: &Caps, c: &AttentionSpec, rows: usize, bits: u32, most: usize) -> AttnTile {
    let (per_kv, wide, dim) = (c.heads / c.kv_heads, bits == 32, c.head_dim.max(c.v_dim));
    let SplitAttention { threads, span, least } = choices(caps).split_attention.value;
    let wanted = threads.max((dim / 4).next_power_of_two() as u32);
    // A thread gives four columns of the result.
    let threads = wanted.min(caps.max_workgroup_invocations).max((c.v_dim / 4).next_power_of_two() as u32);
    // A tile of K stays within 16 KiB and a bit, of whatever type.
    let mut span = if dim > 128 || wide { span / 2 } else { span };
    let fits = |heads: usize, span: u32| {
        let unit = if wide { 4 } else { 8 };
        attn_bytes(c, heads, (threads as usize, span as usize), unit) <= caps.max_shared_bytes as usize
    };
    while span > 4 && !fits(1, span) {
        span /= 2;
    }
    let holds = |h: &usize| per_kv.is_multiple_of(*h) && fits(*h, span);
    let taken = (1..=most.min(per_kv)).rev().find(holds).unwrap_or(1);
    let parts = (choices(caps).busy_groups.value / (rows * c.heads / taken)).clamp(1, 64);
    AttnTile { kernel: "attn_split", size: threads, span, least, heads: taken as u32, parts: parts as u32 }
}

/// How scores of an indexer are spread over workgroups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexTile {
    /// Threads of a workgroup, each with a key.
    pub size: u32,
    /// Heads whose queries are in shared memory at a time.
    pub heads: u32,
}

/// The tile for heads of `dim` columns: as many at a time as 8 KiB hold, of which each takes a register.
pub fn index_tile(caps: &Caps, dim: usize) -> IndexTile {
    IndexTile { size: super::row_threads(caps).min(256), heads: (2048 / dim.max(1) as u32).clamp(1, 8) }
}

/// Whether `attn_mat` and `attn_flash` take such heads.
pub fn attn_mat_fits(c: &AttentionSpec) -> bool {
    c.head_dim == c.v_dim && matches!(c.head_dim, 64 | 128)
}

/// Attention of `rows` single rows by cooperative matrices whose parts threads fill themselves ([`super::matrix::direct`]), of caches
/// that become halves.
pub fn attn_mat_tile(caps: &Caps, c: &AttentionSpec, rows: usize, most: usize) -> AttnTile {
    let per_kv = c.heads / c.kv_heads;
    let taken = (1..=most.min(per_kv).min(ATTN_HEADS)).rev().find(|h| per_kv.is_multiple_of(*h)).unwrap_or(1);
    let parts = (2 * cores(caps) as usize / (rows * c.heads / taken)).clamp(1, 64) as u32;
    AttnTile { kernel: "attn_mat", size: 128, span: 128, least: 128, heads: taken as u32, parts }
}

/// How attention of many rows is spread over workgroups, by such matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlashTile {
    /// Threads of a workgroup.
    pub size: u32,
    /// Query heads it takes, of one K/V head.
    pub heads: u32,
    /// Rows of each.
    pub rows: u32,
}

/// Four subgroups, of as many heads of a K/V head as there are, for these share what they read.
pub fn attn_flash_tile(c: &AttentionSpec) -> FlashTile {
    let heads = [4, 2, 1].into_iter().find(|h| (c.heads / c.kv_heads).is_multiple_of(*h)).unwrap_or(1) as u32;
    FlashTile { size: 128, heads, rows: 16 * 4 / heads }
}

/// Subgroups of a workgroup of `attn_prompt`, by the width of heads, rows that each takes, and positions that go through shared memory at
/// a time: as registers and shared memory hold two workgroups with narrow heads, and one with wide ones.
const PROMPT_SHAPES: [(usize, u32, u32, usize); 3] = [(64, 4, 32, 32), (128, 8, 32, 32), (256, 8, 16, 16)];

/// The tile of `attn_prompt`, where it takes such heads, positions and rules.
pub fn attn_prompt_tile(c: &AttentionSpec) -> Option<FlashTile> {
    let plain = c.soft_cap.is_none() && c.alibi.is_none() && c.biases.is_none();
    let (_, subgroups, rows, _) = PROMPT_SHAPES.into_iter().find(|(dim, ..)| (c.head_dim, c.v_dim) == (*dim, *dim))?;
    let heads = [4, 2, 1].into_iter().find(|h| (c.heads / c.kv_heads).is_multiple_of(*h)).unwrap_or(1) as u32;
    (plain && c.ends_at_its_own()).then_some(FlashTile { size: 32 * subgroups, heads, rows: subgroups / heads * rows })
}

/// Bytes of shared memory of such a tile: twice its positions of K, and of V with a unit more for each.
pub fn attn_prompt_bytes(c: &AttentionSpec) -> usize {
    let positions =
        PROMPT_SHAPES.iter().find(|(dim, ..)| *dim == c.head_dim).map_or(KV_BLOCK as usize, |shape| shape.3);
    2 * positions * (2 * c.head_dim + 2 * c.v_dim + 16)
}

#[cfg(test)]
mod tests {
    use super::super::devices;
    use super::*;

    /// A tile that does not fit makes a pipeline that drivers refuse, or worse, run.
    #[test]
    fn single_rows_attend_within_the_shared_memory_of_every_device() {
        for (name, caps) in devices::all() {
            for (heads, kv_heads, head_dim) in [(8, 1, 64), (32, 4, 128), (8, 1, 256), (16, 8, 256), (16, 1, 576)] {
                let spec = AttentionSpec::causal(0, heads, kv_heads, head_dim);
                for (bits, unit) in [(16, 8), (32, 4)] {
                    let tile = attn_tile(&caps, &spec, 1, bits, ATTN_HEADS);
                    let bytes = attn_bytes(&spec, tile.heads as usize, (tile.size as usize, tile.span as usize), unit);
                    assert!(
                        bytes <= caps.max_shared_bytes as usize,
                        "{name}, heads of {head_dim}: {tile:?}, {bytes} bytes"
                    );
                }
            }
        }
    }
}
