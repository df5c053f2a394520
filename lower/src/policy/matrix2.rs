//! Tiles of `gemm_matrix2`: products of many packed rows by cooperative matrices that a whole workgroup holds
//! (VK_NV_cooperative_matrix2).

use super::matrix::chunk_len;
use super::shared::table_bytes;
use super::table::WeightSource;
use pumex_plan::{AttentionSpec, KV_BLOCK};
use pumex_quant::{Format, FormatId};
use pumex_vk::Caps;

/// A tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupTile {
    /// Threads of a workgroup.
    pub size: u32,
    /// Outputs it takes.
    pub outputs: u32,
    /// Rows it takes.
    pub rows: u32,
    /// Inputs it takes at a time.
    pub step: u32,
    /// How weights come.
    pub source: WeightSource,
    /// Steps that are summed up in halves before floats take them; 0 where all sums are floats.
    pub run: u32,
}

impl GroupTile {
    /// Constants of its pipeline, by name, for a matrix of `m` outputs of `k` inputs.
    pub fn spec(&self, (m, k): (usize, usize)) -> Vec<(&'static str, u32)> {
        let way = match self.source {
            WeightSource::Halves => 0,
            WeightSource::Load => 1,
            WeightSource::Shared => 2,
        };
        let whole = u32::from(m.is_multiple_of(self.outputs as usize));
        let tile = [("SIZE", self.size), ("TILE", self.outputs), ("ROWS", self.rows), ("STEP", self.step)];
        tile.into_iter().chain([("K", k as u32), ("WAY", way), ("RUN", self.run), ("WHOLE", whole)]).collect()
    }

    /// Bytes of shared memory beside those that the device keeps for itself, as `shaders/glsl/gemm_matrix2.comp` has them.
    pub fn shared_bytes(&self, format: &Format) -> usize {
        let staged = if self.source == WeightSource::Shared { self.outputs * (self.step / 8 + 1) } else { 1 };
        16 * staged as usize + table_bytes(format)
    }
}

/// Most rows of a tile.
pub const MOST_GROUP_ROWS: usize = 256;
/// Chunks that a workgroup of `decode_weights` takes.
pub const DECODE_CHUNKS: usize = 64;
/// Its most workgroups in x: every device has so many.
pub const DECODE_GRID: usize = 65_535;

/// Bytes of halves that a matrix may become for one product: larger ones are multiplied in another way.
pub const MOST_DECODED_BYTES: u64 = 512 << 20;

/// Whether weights of a format lie as such products read them.
pub fn lies_as_halves(format: &Format) -> bool {
    format.id == FormatId::F16
}

/// How attention of many rows is spread over workgroups that hold matrices together (`attn_matrix2`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupAttention {
    /// Threads of a workgroup.
    pub size: u32,
    /// Query heads it takes, of one K/V head.
    pub heads: u32,
    /// Queries: rows of each of these heads.
    pub queries: u32,
}

impl GroupAttention {
    /// Constants of its pipeline, by name.
    pub fn spec(&self) -> Vec<(&'static str, u32)> {
        vec![("SIZE", self.size), ("GH", self.heads), ("BR", self.queries)]
    }

    /// Bytes of shared memory beside those that the device keeps for itself, as `shaders/glsl/attn_matrix2.comp` has them where the
    /// cache is not of halves.
    fn shared_bytes(&self, c: &AttentionSpec) -> usize {
        let edge = if self.size > 128 { 32 } else { 16 };
        let stride = (c.head_dim.max(c.v_dim).next_multiple_of(edge) / 8) | 1;
        16 * KV_BLOCK * stride + 32 * self.queries as usize
    }
}

/// Width of heads from which on `attn_matrix2` is faster than `attn_staged` (2026-11-26, device B, in `benches/archive/prompts.md`): 576
/// and 512 by half at 8,192 positions, while of 256 prompts of 512 are slower by 3 %.
const WIDE_HEADS: usize = 320;

/// Whether attention of such heads goes by matrices that workgroups hold before those from shared memory.
pub fn matrix2_first(c: &AttentionSpec) -> bool {
    c.head_dim >= WIDE_HEADS
}

/// The tile of such heads; none where the device cannot take them. Threads hold queries and sums in registers: of wide heads there
/// are more threads.
pub fn matrix2_attention(caps: &Caps, c: &AttentionSpec) -> Option<GroupAttention> {
    let matrix2 = caps.matrix2.as_ref().filter(|_| caps.group_matrix())?;
    let heads = [8, 4, 2, 1].into_iter().find(|h| (c.heads / c.kv_heads).is_multiple_of(*h)).unwrap_or(1) as u32;
    let wide = c.head_dim.max(c.v_dim);
    let (size, queries) = match wide {
        ..=128 => (128, 64),
        129..=256 => (128, 32),
        _ => (256, 32),
    };
    let tile = GroupAttention { size, heads, queries };
    let room = (caps.max_shared_bytes as usize).saturating_sub(matrix2.reserved_shared_bytes as usize);
    let fits = tile.shared_bytes(c) <= room && wide.next_multiple_of(32) <= matrix2.max_dimension as usize;
    let units = c.head_dim.is_multiple_of(8) && c.v_dim.is_multiple_of(8);
    (fits && units).then_some(tile)
}

/// The tile of a product whose columns are to be in whole runs of `columns`; the largest that fits shared memory.
pub fn group_tile(caps: &Caps, source: WeightSource, format: &Format, columns: usize) -> GroupTile {
    let reserved = caps.matrix2.as_ref().map_or(0, |m| m.reserved_shared_bytes as usize);
    let room = (caps.max_shared_bytes as usize).saturating_sub(reserved);
    let rows = columns.clamp(32, 128) as u32;
    // Chunks of some formats are spread over 128 inputs.
    let step = if source == WeightSource::Shared { (chunk_len(format) as u32).max(128) } else { 64 };
    let tile = |outputs| GroupTile { size: 256, outputs, rows, step, source, run: 0 };
    let fits = |tile: &GroupTile| tile.shared_bytes(format) <= room;
    [128, 64].map(tile).into_iter().find(fits).unwrap_or(tile(32))
}

#[cfg(test)]
mod tests {
    use super::super::devices;
    use super::*;

    #[test]
    fn heads_of_all_widths_have_a_tile_that_workgroups_hold() {
        let caps = devices::h200();
        for (head_dim, v_dim) in [(40, 40), (64, 64), (112, 112), (128, 128), (192, 128), (256, 256), (576, 512)] {
            let spec = AttentionSpec { v_dim, ..AttentionSpec::causal(0, 16, 1, head_dim) };
            let tile = matrix2_attention(&caps, &spec);
            assert!(tile.is_some_and(|t| t.shared_bytes(&spec) <= 40 << 10), "{head_dim} {v_dim}: {tile:?}");
        }
        assert_eq!(matrix2_attention(&devices::lavapipe(), &AttentionSpec::causal(0, 1, 1, 64)), None);
    }
}
