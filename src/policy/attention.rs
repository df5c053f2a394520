//! How attention is spread over workgroups: of many rows, and of single ones over long sequences.

use super::class::{choices, cores};
use super::table::{HeadsRow, SplitAttention, ATTN_HEADS};
use crate::plan::AttentionSpec;
use crate::vk::Caps;

/// Rows and positions per tile of prefill attention; shared memory holds both and the scores.
pub fn prefill_tile(head_dim: usize) -> (u32, u32) {
    if head_dim <= 128 {
        (16, 32)
    } else {
        (8, 16)
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

/// Attention of `rows` single rows with heads of `head_dim`, of a `wide` cache if its elements take 32 bits, by workgroups
/// of at most `most` heads.
pub fn attn_tile(caps: &Caps, c: &AttentionSpec, rows: usize, wide: bool, most: usize) -> AttnTile {
    let (heads, head_dim, per_kv) = (c.heads, c.head_dim, c.heads / c.kv_heads);
    let taken = (1..=most.min(per_kv)).rev().find(|h| per_kv.is_multiple_of(*h)).unwrap_or(1);
    let parts = (choices(caps).busy_groups.value / (rows * heads / taken)).clamp(1, 64);
    // A tile of K stays within 16 KiB and a bit, of whatever type.
    let SplitAttention { threads, span, least } = choices(caps).split_attention.value;
    let span = if head_dim > 128 || wide { span / 2 } else { span };
    AttnTile { kernel: "attn_split", size: threads, span, least, heads: taken as u32, parts: parts as u32 }
}

/// Whether `attn_mat` takes heads of so many dimensions.
pub fn attn_mat_fits(head_dim: usize) -> bool {
    matches!(head_dim, 64 | 128)
}

/// As [`attn_tile`], by cooperative matrices whose parts threads fill themselves ([`super::matrix::direct`]), of caches that become halves.
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
