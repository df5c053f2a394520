//! Tiles of attention of many rows by cooperative matrices that all come from shared memory (`attn_staged`): for heads that the
//! kernels do not take whose threads fill matrices themselves.

use pumex_plan::AttentionSpec;
use pumex_vk::Caps;

/// How attention of many rows is spread over workgroups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StagedAttention {
    /// Threads of a workgroup.
    pub size: u32,
    /// Its subgroups.
    pub waves: u32,
    /// Query heads it takes, of one K/V head.
    pub heads: u32,
    /// Queries: rows of each of these heads.
    pub queries: u32,
    /// Positions it takes at a time.
    pub span: u32,
    /// Rows, columns and inputs of a product of matrices.
    pub shape: (u32, u32, u32),
}

impl StagedAttention {
    /// Constants of its pipeline, by name.
    pub fn spec(&self) -> Vec<(&'static str, u32)> {
        let (m, n, k) = self.shape;
        let tile = [("SIZE", self.size), ("GH", self.heads), ("WAVES", self.waves)];
        let sides = [("BR", self.queries), ("BC", self.span), ("MAT_M", m), ("MAT_N", n), ("MAT_K", k)];
        tile.into_iter().chain(sides).collect()
    }

    /// Bytes of shared memory, as `shaders/glsl/attn_staged.comp` has them; none if its subgroups cannot share such a tile.
    fn shared_bytes(&self, c: &AttentionSpec) -> Option<usize> {
        let (m, n, k) = self.shape;
        let whole = self.queries.is_multiple_of(m) && self.span.is_multiple_of(n) && self.span.is_multiple_of(k);
        if !whole || self.span < m || self.size < self.queries {
            return None;
        }
        let (broad, blocks) = (self.span / n, self.queries / m * (self.span / n));
        let slices = (self.waves / blocks).max(1);
        let each = blocks * slices / self.waves;
        let run = self.span / (self.size / self.queries);
        if each * self.waves != blocks * slices || each > broad || !broad.is_multiple_of(each) || run < 2 {
            return None;
        }
        let units = |dim: usize, of: u32| dim.next_multiple_of(of as usize) / 8;
        let stride = units(c.head_dim, k * slices).max(units(c.v_dim, n * self.waves)) | 1;
        let scores = (slices * self.queries * (self.span + 4)).max(self.waves * m * n);
        let weights = 4 * self.queries * ((self.span / 8) | 1);
        Some(16 * self.span as usize * stride + 4 * (scores + weights + self.queries * (n + 6)) as usize)
    }
}

/// The tile of such heads; none where the device cannot take them.
pub fn staged_attention(caps: &Caps, c: &AttentionSpec) -> Option<StagedAttention> {
    let shape = (16, *caps.matrix_n.last()?, 16);
    let heads = [8, 4, 2, 1].into_iter().find(|h| (c.heads / c.kv_heads).is_multiple_of(*h)).unwrap_or(1) as u32;
    // Subgroups hold queries and outputs in registers: of wide heads more of them share these.
    let waves: &[u32] = if c.head_dim.max(c.v_dim) > 128 { &[8, 4] } else { &[4] };
    let tiles = waves.iter().flat_map(|waves| [32, 16].map(|span| (*waves, span)));
    let tile = |(waves, span)| {
        let size = waves * caps.subgroup_size;
        StagedAttention { size, waves, heads, queries: 32, span, shape }
    };
    let fits = |t: &StagedAttention| {
        let room = caps.max_shared_bytes as usize;
        t.size <= caps.max_workgroup_invocations && t.shared_bytes(c).is_some_and(|bytes| bytes <= room)
    };
    let units = c.head_dim.is_multiple_of(8) && c.v_dim.is_multiple_of(8);
    tiles.map(tile).filter(|_| units).find(fits)
}

#[cfg(test)]
mod tests {
    use super::super::devices;
    use super::*;

    #[test]
    fn heads_of_all_widths_have_a_tile_that_fits_shared_memory() {
        let dims = [(40, 40), (64, 64), (80, 80), (96, 96), (112, 112), (128, 128), (160, 160), (192, 128), (256, 256)];
        for caps in [devices::h200()] {
            for (head_dim, v_dim) in dims.into_iter().chain([(576, 512)]) {
                let spec = AttentionSpec { v_dim, ..AttentionSpec::causal(0, 16, 1, head_dim) };
                let tile = staged_attention(&caps, &spec);
                let fits =
                    tile.and_then(|t| t.shared_bytes(&spec)).is_some_and(|b| b <= caps.max_shared_bytes as usize);
                assert!(fits, "{} {head_dim} {v_dim}: {tile:?}", caps.name);
            }
        }
        assert_eq!(staged_attention(&devices::lavapipe(), &AttentionSpec::causal(0, 1, 1, 64)), None);
    }
}
