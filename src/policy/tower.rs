//! Kernels of encoders' ops.

use super::class::cores;
use crate::vk::Caps;

/// Workgroups that a core should have.
const GROUPS: usize = 3;
/// Bytes of shared memory that the larger tile takes.
const LARGE_BYTES: u32 = 24 << 10;

/// Queries and keys of a tile of attention by `(queries, heads)` with values of `dv` columns: as many as leave all cores enough
/// workgroups.
pub fn tower_attention(caps: &Caps, (queries, heads): (usize, usize), dv: usize) -> (u32, u32) {
    let groups = |height: usize| queries.div_ceil(height) * heads;
    let enough = GROUPS * cores(caps) as usize;
    match () {
        () if caps.max_shared_bytes >= LARGE_BYTES && dv <= 256 && groups(32) >= enough => (32, 32),
        () if dv <= 256 && groups(16) >= enough => (16, 16),
        () => (8, 16),
    }
}

#[cfg(test)]
mod tests {
    use super::super::devices;
    use super::*;

    /// What a tile takes of shared memory, as `shaders/glsl/tower_attend.comp` has it.
    fn shared_bytes((queries, keys): (u32, u32)) -> u32 {
        let stride = 16.max(512 / queries) + 1;
        16 * (queries * 17 + keys * stride) + 4 * queries * keys + 20 * queries
    }

    #[test]
    fn tiles_fit_shared_memory_and_leave_cores_enough_workgroups() {
        for (name, caps) in devices::all() {
            for (queries, heads, dv) in [(4096, 16, 80), (64, 16, 64), (1, 1, 256), (1500, 20, 512)] {
                let tile = tower_attention(&caps, (queries, heads), dv);
                assert!(shared_bytes(tile) <= caps.max_shared_bytes, "{name}: {tile:?}");
            }
        }
        let h200 = devices::h200();
        assert_eq!([4096, 512, 64].map(|n| tower_attention(&h200, (n, 16), 64).0), [32, 16, 8]);
    }
}
