//! Kernels of encoders' ops.

use super::class::cores;
use super::staged::{staged_attention, StagedAttention};
use pumex_plan::AttentionSpec;
use pumex_vk::Caps;

/// Workgroups that a core should have.
const GROUPS: usize = 3;
/// Bytes of shared memory that the larger tile takes.
const LARGE_BYTES: u32 = 24 << 10;
/// Attention by cooperative matrices that all come from shared memory.
const MATRICES: &str = "tower_attend_matrix";
/// Attention by cooperative matrices of which threads set the elements.
const FRAGMENTS: &str = "tower_attend_fragments";
/// Queries of one of its subgroups, and keys that it takes at a time.
const FRAGMENT_SIDES: [u32; 2] = [32, 32];
/// Columns of its widest heads.
const WIDEST: usize = 128;

/// An encoder's attention, and what its kernels may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TowerAttentionQuery {
    /// Queries.
    pub queries: usize,
    /// Query heads.
    pub heads: usize,
    /// Columns of a head of q and k.
    pub head_dim: usize,
    /// Columns of a head of v.
    pub v_dim: usize,
    /// Numbers may become halves, and rows start where four can be read at once.
    pub halves: bool,
    /// Threads hold cooperative matrices as `tower_attend_fragments` expects.
    pub fragments: bool,
    /// Nothing is added to scores, and they have no cap.
    pub plain: bool,
}

/// How attention of an encoder is spread over workgroups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TowerAttention {
    /// Row of the kernel table.
    pub kernel: &'static str,
    /// Queries of a workgroup.
    pub queries: u32,
    /// Keys that it takes at a time.
    pub keys: u32,
    /// Keys and values are packed first, by `tower_pack_keys`.
    pub packs_keys: bool,
    /// Constants of its pipeline, by name.
    pub spec: Vec<(&'static str, u32)>,
}

/// Bytes of shared memory of `tower_attend_fragments`: twice the keys and values of a turn.
fn fragment_bytes(head_dim: usize) -> usize {
    let (steps, keys) = (head_dim.div_ceil(16), FRAGMENT_SIDES[1] as usize);
    2 * 16 * keys * (2 * steps + 2 * steps)
}

/// The kernel of an encoder's attention and its tile: by cooperative matrices, where the device has some and halves will do, else by
/// tiles of as many queries as leave all cores enough workgroups.
pub fn tower_attention(caps: &Caps, query: &TowerAttentionQuery) -> TowerAttention {
    let TowerAttentionQuery { queries, heads, head_dim, v_dim, halves, fragments, plain } = *query;
    let sides = |queries, keys| vec![("BR", queries), ("BC", keys), ("D", head_dim as u32), ("DV", v_dim as u32)];
    let fits = head_dim == v_dim && head_dim.is_multiple_of(8) && head_dim <= WIDEST;
    let fits = fits && fragment_bytes(head_dim) <= caps.max_shared_bytes as usize;
    if halves && fragments && plain && fits && caps.disabled_reason(FRAGMENTS).is_none() {
        // Of narrow heads, shared memory holds two workgroups that do not wait for each other.
        let size: u32 = if head_dim <= 96 { 128 } else { 256 };
        let [each, keys] = FRAGMENT_SIDES;
        let spec = vec![("SIZE", size), ("D", head_dim as u32)];
        return TowerAttention { kernel: FRAGMENTS, queries: size / 32 * each, keys, packs_keys: true, spec };
    }
    // Every head by itself.
    let spec = AttentionSpec { v_dim, ..AttentionSpec::causal(0, heads, heads, head_dim) };
    let by_matrices = halves && caps.disabled_reason(MATRICES).is_none();
    if let Some(staged) = by_matrices.then(|| staged_attention(caps, &spec)).flatten() {
        let StagedAttention { queries, span: keys, size, waves, shape: (m, n, k), .. } = staged;
        let matrices = [("SIZE", size), ("WAVES", waves), ("MAT_M", m), ("MAT_N", n), ("MAT_K", k)];
        let spec = sides(queries, keys).into_iter().chain(matrices).collect();
        return TowerAttention { kernel: MATRICES, queries, keys, packs_keys: false, spec };
    }
    let groups = |height: usize| queries.div_ceil(height) * heads;
    let enough = GROUPS * cores(caps) as usize;
    let (queries, keys) = match () {
        () if caps.max_shared_bytes >= LARGE_BYTES && v_dim <= 256 && groups(32) >= enough => (32, 32),
        () if v_dim <= 256 && groups(16) >= enough => (16, 16),
        () => (8, 16),
    };
    TowerAttention { kernel: "tower_attend", queries, keys, packs_keys: false, spec: sides(queries, keys) }
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

    fn query(queries: usize, heads: usize, dim: usize) -> TowerAttentionQuery {
        let (head_dim, v_dim) = (dim, dim);
        TowerAttentionQuery { queries, heads, head_dim, v_dim, halves: false, fragments: false, plain: true }
    }

    #[test]
    fn tiles_fit_shared_memory_and_leave_cores_enough_workgroups() {
        for (name, caps) in devices::all() {
            for (queries, heads, dv) in [(4096, 16, 80), (64, 16, 64), (1, 1, 256), (1500, 20, 512)] {
                let tile = tower_attention(&caps, &query(queries, heads, dv));
                assert!(shared_bytes(tile.queries, tile.keys) <= caps.max_shared_bytes, "{name}: {tile:?}");
            }
        }
        let h200 = devices::h200();
        let queries = |n| tower_attention(&h200, &query(n, 16, 80)).queries;
        assert_eq!([4096, 512, 64].map(queries), [32, 16, 8]);
    }

    #[test]
    fn matrices_take_heads_of_eights_where_halves_will_do() {
        let (h200, lavapipe) = (devices::h200(), devices::lavapipe());
        let kernel = |caps: &Caps, d, halves| {
            tower_attention(caps, &TowerAttentionQuery { halves, ..query(1024, 16, d) }).kernel
        };
        assert_eq!([64, 72, 80, 128].map(|d| kernel(&h200, d, true)), [MATRICES; 4]);
        assert_eq!(
            [kernel(&h200, 80, false), kernel(&h200, 36, true), kernel(&lavapipe, 64, true)],
            ["tower_attend"; 3]
        );
    }

    #[test]
    fn threads_set_matrices_of_plain_attention_where_they_hold_them_so() {
        let h200 = devices::h200();
        let all = TowerAttentionQuery { halves: true, fragments: true, ..query(4096, 16, 72) };
        let tile = tower_attention(&h200, &all);
        assert_eq!((tile.kernel, tile.queries, tile.packs_keys), (FRAGMENTS, 128, true));
        let wide = tower_attention(&h200, &TowerAttentionQuery { head_dim: 128, v_dim: 128, ..all });
        assert_eq!((wide.kernel, wide.queries), (FRAGMENTS, 256));
        for other in [
            TowerAttentionQuery { halves: false, ..all },
            TowerAttentionQuery { fragments: false, ..all },
            TowerAttentionQuery { plain: false, ..all },
            TowerAttentionQuery { v_dim: 64, ..all },
            TowerAttentionQuery { head_dim: 160, v_dim: 160, ..all },
        ] {
            assert_ne!(tower_attention(&h200, &other).kernel, FRAGMENTS, "{other:?}");
        }
    }
}
