//! Tiles of products by cooperative matrices.

use super::class::{choices, cores};
use super::shared::{table_bytes, usual_copies};
use super::table::{FewRow, Product};
use super::tuned;
use super::{GemmFusion, FEW_ROWS};
use pumex_quant::{tables, Format, FormatId};
use pumex_vk::Caps;

/// Rows of a cooperative matrix of weights.
pub const MAT_M: usize = 16;
/// Threads of a subgroup.
const LANES: u32 = 32;
/// Inputs of a packed row of activations are a multiple of this.
pub const PACKED_LEN: usize = 512;
/// Most activation rows that a workgroup takes.
pub const MOST_COLUMNS: usize = 128;
/// Rows from which on it takes that many: of fewer it takes half, so that there are workgroups enough.
const MANY: usize = 256;
/// Workgroups of four subgroups with so many that a multiprocessor runs at once (an H200's, by how products of 4,096 to 35,840 outputs
/// came out: 2026-11-25 in `benches/archive/families.md`).
const MANY_ROWS_AT_ONCE: usize = 2;
/// Columns whose sums shared memory holds at a time.
const SUMS_AT_ONCE: usize = 64;
/// Most activation rows of `gemm_few`, of which only up to [`super::FEW_ROWS`] come packed from the op before.
pub const FEW: usize = 32;
/// Columns of its matrices.
pub const FEW_N: u32 = 8;
/// Shared memory left for the compiler.
const RESERVE: usize = 1 << 10;

/// How a product runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatTile {
    /// Row of the kernel table: `gemm_mat` or `gemm_few`.
    pub kernel: &'static str,
    /// Threads of a workgroup.
    pub size: u32,
    /// Subgroups that share the inputs of a row.
    pub split: u32,
    /// Columns of a matrix of activations.
    pub mat_n: u32,
    /// Such matrices a subgroup takes.
    pub tiles: u32,
    /// Workgroups for the outputs.
    pub groups: u32,
    /// Groups of four inputs whose activations a thread of `gemm_few` holds at a time.
    pub turn: u32,
    /// Times that the format's table, if there is one, stands in the shared memory of `gemm_few`.
    pub copies: u32,
}

impl MatTile {
    /// Constants of its pipeline, by name, for `k` inputs.
    pub fn spec(&self, k: usize, extras: GemmFusion) -> Vec<(&'static str, u32)> {
        let mut spec = vec![
            ("SIZE", self.size),
            ("GATED", u32::from(extras.gated)),
            ("ADD", u32::from(extras.add)),
            ("K", k as u32),
            ("SPLIT", self.split),
            ("TILES", self.tiles),
            ("SOA", u32::from(extras.soa)),
        ];
        if self.kernel == MANY_ROWS {
            spec.push(("MAT_N", self.mat_n));
        } else {
            spec.extend([("TURN", self.turn), ("COPIES", self.copies)]);
        }
        spec
    }

    /// Activation rows of a workgroup.
    pub fn columns(&self) -> usize {
        (self.mat_n * self.tiles) as usize
    }

    /// Outputs that a workgroup takes at a time.
    pub fn height(&self, extras: GemmFusion) -> usize {
        MAT_M * (self.size / LANES / self.split / if extras.gated { 2 } else { 1 }) as usize
    }
}

/// Row of the kernel table for many activation rows.
pub(super) const MANY_ROWS: &str = "gemm_mat";
/// Row of the kernel table for few activation rows.
pub const FEW_KERNEL: &str = "gemm_few";

/// Weights a thread of the kernels takes at a time: CHUNK of `shaders/glsl/quant`.
pub fn chunk_len(format: &Format) -> usize {
    match format.id {
        FormatId::Q1_0 | FormatId::Iq1SExpanded => 128,
        FormatId::Q8K => 32,
        FormatId::Q2_0 | FormatId::Nvfp4 => 64,
        _ if format.block_len == 256 => 64,
        _ => 32,
    }
}

/// How `gemm_few` wants activations for weights of a format: CHUNKS of `shaders/glsl/pack.comp`.
pub fn few_chunks(format: &Format) -> u32 {
    match format.id {
        FormatId::Q2K | FormatId::Q3K | FormatId::Q6K | FormatId::Tq2_0 => 1,
        _ => chunk_len(format) as u32,
    }
}

/// Whether products of `n` rows with such weights go through cooperative matrices: halves hold what is quantized, not all of a
/// float, and the kernels have 16 bits for the rows.
pub fn takes(caps: &Caps, format: &Format, n: usize) -> bool {
    refusal(caps, format, n).is_none()
}

/// Why they do not, if they do not.
pub(super) fn refusal(caps: &Caps, format: &Format, n: usize) -> Option<String> {
    let reason = match () {
        () if n < 2 => "one row",
        () if n >= 1 << 16 => "over 65,535 rows",
        () if format.id == FormatId::F32 => "halves do not hold floats",
        () if !caps.cooperative_matrix => "cooperativeMatrix is missing",
        () if caps.matrix_n.is_empty() => "no matrices of 16 x 16 halves for subgroups of 32",
        () => return caps.disabled_reason(MANY_ROWS).map(|why| format!("turned off: {why}")),
    };
    Some(reason.into())
}

/// Whether `gemm_few` and `attn_mat` may be used, if threads hold matrices as they expect ([`direct`]): scales are halves that may
/// be subnormal, and both read what the other packs.
pub fn may_be_direct(caps: &Caps) -> bool {
    caps.small_halves && caps.disabled_reason(FEW_KERNEL).is_none()
}

/// Where kernels that set elements themselves expect that of row `row` (of weights, or of activation rows) and input `k` of a matrix of
/// 16 inputs: 8 times the thread, and its index there.
pub(super) fn place(row: usize, k: usize) -> u32 {
    (8 * (row % 8 * 4 + k % 8 / 2) + k % 2 + 2 * (k / 8) + 4 * (row / 8)) as u32
}

/// Whether threads hold matrices as `gemm_few` and `attn_mat` expect, by what `fragment_layout` found of weights, activations and
/// sums. Of sums it is all one which of rows g and g + 8 a thread has first.
pub fn direct(weights: &[u32], activations: &[u32], sums: &[u32]) -> bool {
    let a = (0..MAT_M * MAT_M).map(|i| place(i / MAT_M, i % MAT_M));
    let b = (0..MAT_M * FEW_N as usize).map(|i| place(i % FEW_N as usize, i / FEW_N as usize));
    let mat_n = FEW_N as usize;
    let c = (0..MAT_M * mat_n).map(|i| (8 * (i / mat_n % 8 * 4 + i % mat_n / 2) + i % 2) as u32);
    let sums_fit = sums.iter().map(|place| place & !2).eq(c);
    weights.iter().copied().eq(a) && activations.iter().copied().eq(b) && sums_fit
}

/// Whether threads hold sums as `attn_flash` expects, where all else is as [`direct`] wants it: those of row g first.
pub fn ordered(sums: &[u32]) -> bool {
    let mat_n = FEW_N as usize;
    sums.iter().enumerate().all(|(i, place)| place & 2 == 2 * (i / mat_n / 8) as u32)
}

/// Pairs of a row and an expert of it that stand together in tiles of one expert each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MoeTiles {
    /// Pairs of a run.
    pub columns: usize,
    /// Runs there can be.
    pub most: usize,
}

/// Runs of `n` rows that use `used` of `experts` each: short where an expert has few rows.
pub fn moe_tiles(n: usize, used: usize, experts: usize) -> MoeTiles {
    let columns = if n * used < 16 * experts { 32 } else { 64 };
    MoeTiles { columns, most: (n * used).div_ceil(columns) + experts.min(n * used) }
}

/// Whether the rows of each expert are multiplied together: where experts have several on average, so that their weights are read
/// less often than by each row for itself.
pub fn groups_experts(caps: &Caps, format: &Format, (n, used, experts): (usize, usize, usize)) -> bool {
    takes(caps, format, n) && n > FEW_ROWS && n * used >= 2 * experts && experts <= MOST_EXPERTS
}

/// Experts that a workgroup of `deal` has room for, with some left.
pub(super) const MOST_EXPERTS: usize = 1024;

/// The tile of `gemm_mat` for `m` outputs of each expert, whose rows stand in runs.
pub fn moe_tile(caps: &Caps, format: &Format, m: usize, moe: MoeTiles, extras: GemmFusion) -> MatTile {
    let mat_n = caps.matrix_n.last().copied().unwrap_or(16);
    let subgroups = most_subgroups(caps, format, moe.columns).clamp(if extras.gated { 2 } else { 1 }, 4);
    let tiles = (moe.columns / mat_n as usize) as u32;
    let tile =
        MatTile { kernel: MANY_ROWS, size: subgroups * LANES, split: 1, mat_n, tiles, groups: 0, turn: 8, copies: 1 };
    MatTile { groups: m.div_ceil(tile.height(extras).max(1)) as u32, ..tile }
}

/// Most subgroups of a workgroup of `gemm_mat` that shared memory has room for, each of which takes `columns` activation rows.
pub fn most_subgroups(caps: &Caps, format: &Format, columns: usize) -> u32 {
    let stride = 2 * chunk_len(format) / 8 + 1;
    let room = MAT_M * stride.max(columns.min(SUMS_AT_ONCE) / 4) * 16;
    let free = (caps.max_shared_bytes as usize).saturating_sub(table_bytes(format) + RESERVE);
    let most = (free / room).min((caps.max_workgroup_invocations / LANES) as usize).max(1);
    1 << most.ilog2()
}

/// Columns of a matrix of activations, and how many such matrices a subgroup takes, for `n` activation rows.
pub fn columns(caps: &Caps, direct: bool, n: usize) -> (u32, u32) {
    if direct && n <= FEW {
        return (FEW_N, n.div_ceil(FEW_N as usize) as u32);
    }
    let mat_n = caps.matrix_n.iter().copied().find(|w| *w as usize >= n);
    let mat_n = mat_n.or(caps.matrix_n.last().copied()).unwrap_or(16);
    let most = if n < MANY || mat_n < 16 { MOST_COLUMNS / 2 } else { MOST_COLUMNS };
    let tiles = n.div_ceil(mat_n as usize).clamp(1, most / mat_n as usize) as u32;
    (mat_n, if tiles > 4 { tiles.next_multiple_of(4) } else { tiles }) // sums are put down four matrices at a time
}

/// Rows that a product of `n` activation rows reads: whole workgroups' columns.
pub fn packed_rows(caps: &Caps, direct: bool, n: usize) -> usize {
    let (mat_n, tiles) = columns(caps, direct, n);
    n.next_multiple_of((mat_n * tiles) as usize)
}

/// What was tuned, or the row of the device's table, for a product by `gemm_few`.
pub(super) fn few_row(caps: &Caps, format: &Format, (m, n): (usize, usize), extras: GemmFusion) -> FewRow {
    let GemmFusion { gated, activations, .. } = extras;
    let product = Product { format, outputs: m, inputs: PACKED_LEN, columns: n, gated, activations };
    let holds = |row: &&FewRow| row.when.holds(&product);
    let table = || *choices(caps).gemm_few.iter().find(holds).expect("a table's last row holds always");
    tuned::few(caps, FEW_KERNEL, &product).unwrap_or_else(table)
}

/// A product of `m` outputs with `n` activation rows; `direct` if [`direct`] says so of the device.
pub fn mat_tile(caps: &Caps, direct: bool, format: &Format, (m, n): (usize, usize), extras: GemmFusion) -> MatTile {
    let parts = if extras.gated { 2 } else { 1 };
    if direct && n <= FEW {
        let row = few_row(caps, format, (m, n), extras);
        let shape = (row.threads, row.split.min(row.threads / LANES / parts), row.per_core);
        let tile = mat_tile_of(caps, direct, (m, n), shape, extras);
        return MatTile { turn: most_turn(format, n), copies: usual_copies(format), ..tile };
    }
    let (mat_n, tiles) = columns(caps, direct, n);
    let most = most_subgroups(caps, format, (mat_n * tiles) as usize).clamp(parts, 8);
    let groups = m.div_ceil(MAT_M * (most / parts) as usize) * n.div_ceil((mat_n * tiles) as usize);
    // Where there are few workgroups their subgroups share inputs; else smaller ones end more evenly.
    let (subgroups, split) = match n {
        ..=FEW_ROWS if m > 8192 => (most, (most / parts / 2).max(1)),
        ..=FEW_ROWS => (most, most / parts),
        _ if 4 * groups < 3 * cores(caps) as usize => {
            // So many that there are one and a half workgroups for each multiprocessor, where that was measured.
            let wanted = (3 * cores(caps) as usize / 2).div_ceil(groups) as u32;
            let wanted = if n <= SUMS_AT_ONCE && m >= 4096 { wanted.next_power_of_two() } else { 2 };
            (most, wanted.min(most / parts))
        }
        _ => {
            let subgroups = most.min(4).max(parts);
            (subgroups, even_split(caps, (m, n), (subgroups / parts, mat_n * tiles)))
        }
    };
    let per_core = if n <= FEW_ROWS { 2 } else { u32::MAX };
    mat_tile_of(caps, direct, (m, n), (subgroups * LANES, split, per_core), extras)
}

/// Subgroups that share the inputs of a row, of `subgroups` for which there is other work too: two, where that leaves cores idle for
/// less of the time at the end, since workgroups that take half as many rows come out more evenly. Only of the widest tiles it is known
/// how many run at once.
fn even_split(caps: &Caps, (m, n): (usize, usize), (subgroups, columns): (u32, u32)) -> u32 {
    let at_once = MANY_ROWS_AT_ONCE * cores(caps) as usize;
    let turns = |split: u32| {
        let rows = MAT_M * (subgroups / split) as usize;
        (m.div_ceil(rows) * n.div_ceil(columns as usize)).div_ceil(at_once)
    };
    let pays = || 100 * turns(2) < 95 * 2 * turns(1);
    1 + u32::from(columns as usize == MOST_COLUMNS && subgroups > 1 && pays())
}

/// Whether `gemm_few` is the better kernel for so many activation rows with weights of a format: beyond those that come packed from the op
/// before it is not, where threads look several weights up at a time (2026-11-28 in `benches/archive/prompts.md`).
pub fn few_takes(format: &Format, n: usize) -> bool {
    n <= FEW_ROWS || n <= FEW && tables::of(format.id).is_none_or(|table| table.pack_levels().is_some())
}

/// The tile of a product with `size` threads, of which `split` subgroups share the inputs of a row, and at most `per_core` workgroups for
/// each multiprocessor.
pub fn mat_tile_of(
    caps: &Caps,
    direct: bool,
    (m, n): (usize, usize),
    (size, split, per_core): (u32, u32, u32),
    extras: GemmFusion,
) -> MatTile {
    let (mat_n, tiles) = columns(caps, direct, n);
    let kernel = if direct && n <= FEW { FEW_KERNEL } else { MANY_ROWS };
    let tile = MatTile { kernel, size, split, mat_n, tiles, groups: 0, turn: 8, copies: 1 };
    let groups = m.div_ceil(tile.height(extras).max(1)) as u32;
    MatTile { groups: groups.min(per_core.saturating_mul(cores(caps))), ..tile }
}

/// Groups of four inputs whose activations `gemm_few` holds at a time: as many as a chunk has, if registers allow.
fn most_turn(format: &Format, n: usize) -> u32 {
    let most = if n <= FEW_N as usize { 16 } else { 8 };
    (chunk_len(format) / 4).min(most) as u32
}

/// Threads that pack a row of activations.
pub fn pack_threads(caps: &Caps) -> u32 {
    caps.max_workgroup_invocations.min(1024)
}

#[cfg(test)]
mod tests {
    use super::super::{devices, tests::OUTPUTS};
    use super::*;

    #[test]
    fn every_row_of_few_activations_is_taken_by_some_shape() {
        let caps = devices::h200();
        let mut idle: Vec<&str> = choices(&caps).gemm_few.iter().map(|row| row.name).collect();
        for (format, m) in pumex_quant::all().flat_map(|f| OUTPUTS.map(|m| (f, m))) {
            for gated in [false, true] {
                let taken = few_row(&caps, format, (m, FEW), GemmFusion { gated, ..GemmFusion::default() }).name;
                idle.retain(|name| *name != taken);
            }
        }
        assert_eq!(idle, Vec::<&str>::new());
    }

    #[test]
    fn codebooks_are_looked_up_for_fewer_rows() {
        let takes = |id: FormatId| [16, 17, 32, 33].map(|n| few_takes(id.format(), n));
        assert_eq!([FormatId::Q4K, FormatId::Iq4Xs, FormatId::F16].map(takes), [[true, true, true, false]; 3]);
        assert_eq!(takes(FormatId::Iq2Xxs), [true, false, false, false]);
    }

    #[test]
    fn inputs_are_shared_where_outputs_come_out_unevenly() {
        let (caps, q4_k) = (devices::h200(), pumex_quant::find(12).unwrap());
        let split = |m: usize, n: usize, gated: bool| {
            mat_tile(&caps, true, q4_k, (m, n), GemmFusion { gated, ..GemmFusion::default() }).split
        };
        // 132 cores run 264 workgroups of 64 by 128 at once: 4,096 outputs of 512 rows are 256, 5,120 are 320, 15,360 gated are 1,920.
        assert_eq!([4096, 5120, 6144, 7680, 35_840].map(|m| split(m, 512, false)), [1, 2, 2, 1, 2]);
        assert_eq!([14_336, 15_360].map(|m| split(m, 512, true)), [1, 2]);
        assert_eq!([4096, 5120].map(|m| split(m, 2048, false)), [1, 1]);
    }

    #[test]
    fn threads_that_hold_anything_else_get_no_direct_kernel() {
        let weights: Vec<u32> = (0..256u32)
            .map(|i| {
                let (row, k) = (i / 16, i % 16);
                8 * (row % 8 * 4 + k % 8 / 2) + k % 2 + k / 8 * 2 + row / 8 * 4
            })
            .collect();
        let activations: Vec<u32> = (0..128u32)
            .map(|i| {
                let (k, col) = (i / 8, i % 8);
                8 * (col * 4 + k % 8 / 2) + k % 2 + k / 8 * 2
            })
            .collect();
        let sums: Vec<u32> = (0..128u32).map(|i| 8 * (i / 8 % 8 * 4 + i % 8 / 2) + i % 2 + i / 64 * 2).collect();
        assert!(direct(&weights, &activations, &sums) && ordered(&sums));
        let swapped: Vec<u32> = sums.iter().map(|place| place ^ 2).collect();
        assert!(direct(&weights, &activations, &swapped) && !ordered(&swapped));
        for at in [0, 17, 127] {
            let (mut other_weights, mut other, mut other_sums) = (weights.clone(), activations.clone(), sums.clone());
            other_weights.swap(at, at + 1);
            other.swap(at, (at + 8) % 128);
            other_sums.swap(at, (at + 1) % 128);
            assert!(!direct(&other_weights, &activations, &sums));
            assert!(!direct(&weights, &other, &sums));
            assert!(!direct(&weights, &activations, &other_sums));
        }
        assert!(!direct(&weights, &activations[1..], &sums));
    }
}
