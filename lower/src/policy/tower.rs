//! Kernels of encoders' ops.

use super::class::cores;
use super::staged::{staged_attention, StagedAttention};
use pumex_plan::AttentionSpec;
use pumex_vk::Caps;

/// Workgroups that a core should have.
const GROUPS: usize = 3;
/// Bytes of shared memory that the larger tile takes.
const LARGE_BYTES: u32 = 24 << 10;
/// Row of the kernel table of attention by cooperative matrices.
const MATRICES: &str = "tower_attend_matrix";

/// How attention of an encoder is spread over workgroups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TowerAttention {
    /// Row of the kernel table.
    pub kernel: &'static str,
    /// Queries of a workgroup.
    pub queries: u32,
    /// Keys that it takes at a time.
    pub keys: u32,
    /// Of matrices.
    staged: Option<StagedAttention>,
}

impl TowerAttention {
    /// Constants of its pipeline for heads of such columns of q and k, and of v.
    pub fn spec(&self, (d, dv): (usize, usize)) -> Vec<(&'static str, u32)> {
        let mut spec = vec![("BR", self.queries), ("BC", self.keys), ("D", d as u32), ("DV", dv as u32)];
        if let Some(StagedAttention { size, waves, shape: (m, n, k), .. }) = self.staged {
            spec.extend([("SIZE", size), ("WAVES", waves), ("MAT_M", m), ("MAT_N", n), ("MAT_K", k)]);
        }
        spec
    }
}

/// Attention by `(queries, heads)` of heads of `(d, dv)` columns: by cooperative matrices, where the device has some and the caller
/// can do with halves, else by tiles of as many queries as leave all cores enough workgroups.
pub fn tower_attention(
    caps: &Caps,
    (queries, heads): (usize, usize),
    (d, dv): (usize, usize),
    by_matrices: bool,
) -> TowerAttention {
    // Every head by itself.
    let spec = AttentionSpec { v_dim: dv, ..AttentionSpec::causal(0, heads, heads, d) };
    let by_matrices = by_matrices && caps.disabled_reason(MATRICES).is_none();
    if let Some(staged) = by_matrices.then(|| staged_attention(caps, &spec)).flatten() {
        let StagedAttention { queries, span: keys, .. } = staged;
        return TowerAttention { kernel: MATRICES, queries, keys, staged: Some(staged) };
    }
    let groups = |height: usize| queries.div_ceil(height) * heads;
    let enough = GROUPS * cores(caps) as usize;
    let (queries, keys) = match () {
        () if caps.max_shared_bytes >= LARGE_BYTES && dv <= 256 && groups(32) >= enough => (32, 32),
        () if dv <= 256 && groups(16) >= enough => (16, 16),
        () => (8, 16),
    };
    TowerAttention { kernel: "tower_attend", queries, keys, staged: None }
}

#[cfg(test)]
mod tests {
    use super::super::devices;
    use super::*;

    /// What a tile takes of shared memory, as `shaders/glsl/tower_attend.comp` has it.
    fn shared_bytes(queries: u32, keys: u32) -> u32 {
        let stride = 16.max(512 / queries) + 1;
        16 * (queries * 17 + keys * stride) + 4 * queries * keys + 20 * queries
    }

    #[test]
    fn tiles_fit_shared_memory_and_leave_cores_enough_workgroups() {
        for (name, caps) in devices::all() {
            for (queries, heads, dv) in [(4096, 16, 80), (64, 16, 64), (1, 1, 256), (1500, 20, 512)] {
                let tile = tower_attention(&caps, (queries, heads), (dv, dv), false);
                assert!(shared_bytes(tile.queries, tile.keys) <= caps.max_shared_bytes, "{name}: {tile:?}");
            }
        }
        let h200 = devices::h200();
        let queries = |n| tower_attention(&h200, (n, 16), (80, 80), false).queries;
        assert_eq!([4096, 512, 64].map(queries), [32, 16, 8]);
    }

    #[test]
    fn matrices_take_heads_of_eights_where_halves_will_do() {
        let (h200, lavapipe) = (devices::h200(), devices::lavapipe());
        let kernel = |caps: &Caps, d, halves| tower_attention(caps, (1024, 16), (d, d), halves).kernel;
        assert_eq!([64, 72, 80, 128].map(|d| kernel(&h200, d, true)), [MATRICES; 4]);
        assert_eq!(
            [kernel(&h200, 80, false), kernel(&h200, 36, true), kernel(&lavapipe, 64, true)],
            ["tower_attend"; 3]
        );
    }
}
