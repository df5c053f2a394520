//! Tiles of `gemm_panels`: products of prompts by cooperative matrices that threads fill themselves, with activations in panels of 64
//! rows.

use super::class::cores;
use super::matrix::{self, MoeTiles};
use super::shared::table_bytes;
use pumex_quant::Format;
use pumex_vk::Caps;

/// Rows up to which other kernels are as fast (2026-11-28 in `benches/archive/prompts.md`).
const FEWER_ROWS: usize = 64;
/// Row of the kernel table.
pub const PANELS: &str = "gemm_panels";
/// Activation rows of a panel.
pub const PANEL_ROWS: usize = 64;
/// Threads of a workgroup: four subgroups.
const THREADS: u32 = 128;
/// Outputs that a workgroup takes, of gate and up together.
const OUTPUTS: usize = 64;
/// Columns of its matrices of activations.
pub const PANEL_N: u32 = 16;
/// Bytes that the kernel asks for past the last panel: of the next four matrices of 16 inputs.
pub const READ_AHEAD: usize = 8 << 10;
/// Bytes of shared memory beside a format's table: two stages of weights, or sums.
const STAGES: usize = 17 << 10;

/// Activation rows of a workgroup, matrices of weights and of activations that each of its subgroups takes, and such workgroups that a
/// core runs at once, as registers and shared memory have it.
const SHAPES: [(usize, (u32, u32), usize); 4] = [(32, (2, 1), 3), (64, (2, 2), 2), (128, (4, 2), 2), (256, (4, 4), 2)];
/// Inputs that the kernel's loop takes in a turn, and the fewest turns that a workgroup is worth.
const TURN: (usize, usize) = (256, 4);
/// What starting a workgroup costs, and what leaving sums for another one does, in turns.
const COSTS: [usize; 2] = [2, 2];
/// Most workgroups that share the inputs of a tile.
const MOST_SPLIT: usize = 8;

/// Rows of a run of pairs of one expert: fewer where experts have fewer than twice as many, else the most.
const MOE_COLUMNS: [usize; 2] = [32, 64];
const MOST_MOE_COLUMNS: usize = 128;

/// How a product runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PanelTile {
    /// Threads of a workgroup.
    pub size: u32,
    /// Matrices of weights that a subgroup takes.
    pub tall: u32,
    /// Matrices of activations that it takes.
    pub wide: u32,
    /// Workgroups that share the inputs.
    pub split: u32,
    /// Its activation rows.
    pub rows: usize,
    /// Its outputs.
    pub outputs: usize,
}

impl PanelTile {
    /// Constants of its pipeline, by name, for `k` inputs, of gate and up, that are added, of weights field by field.
    pub fn spec(&self, k: usize, (gated, add, soa): (bool, bool, bool)) -> Vec<(&'static str, u32)> {
        vec![
            ("SIZE", self.size),
            ("GATED", u32::from(gated)),
            ("ADD", u32::from(add)),
            ("K", k as u32),
            ("SPLIT", self.split),
            ("TALL", self.tall),
            ("WIDE", self.wide),
            ("SOA", u32::from(soa)),
        ]
    }
}

/// Whether threads hold matrices as `gemm_panels` expects, by what `fragment_layout` found of weights and of activations of
/// [`PANEL_N`] columns: both alike.
pub fn panels_fit(weights: &[u32], activations: &[u32]) -> bool {
    let a = (0..256).map(|i| matrix::place(i / 16, i % 16));
    let b = (0..256).map(|i| matrix::place(i % 16, i / 16));
    weights.iter().copied().eq(a) && activations.iter().copied().eq(b)
}

/// Why products of `n` rows with weights of a format do not go by panels, if they do not. `fit`: [`panels_fit`] said so of the device.
pub(super) fn refusal(caps: &Caps, format: &Format, n: usize, fit: bool) -> Option<String> {
    let reason = match () {
        () if n <= FEWER_ROWS => format!("{FEWER_ROWS} rows or fewer"),
        () if !fit => "threads hold matrices in another way".into(),
        () if STAGES + table_bytes(format) > caps.max_shared_bytes as usize => {
            "shared memory does not hold a tile".into()
        }
        () => {
            return matrix::refusal(caps, format, n)
                .or_else(|| caps.disabled_reason(PANELS).map(|why| format!("turned off: {why}")))
        }
    };
    Some(reason)
}

/// Whether products of `n` rows with weights of all these formats, which read the same packed activations, go by panels.
pub fn by_panels<'a>(caps: &Caps, mut formats: impl Iterator<Item = &'a Format>, n: usize, fit: bool) -> bool {
    formats.all(|format| refusal(caps, format, n, fit).is_none())
}

/// Free memory from which a device has room for long steps.
const ROOMY: u64 = 16 << 30;

/// Whether steps of many rows, which fill a device's cores more evenly, are worth their memory (2026-11-28 in
/// `benches/archive/prompts.md`).
pub fn takes_long_steps(caps: &Caps) -> bool {
    caps.matrix_n.contains(&PANEL_N) && caps.disabled_reason(PANELS).is_none() && caps.memory_budget_bytes >= ROOMY
}

/// The shape of workgroups for `n` activation rows.
fn shape(n: usize) -> (usize, (u32, u32), usize) {
    let [.., last] = SHAPES;
    SHAPES.into_iter().find(|(rows, ..)| n <= *rows).unwrap_or(last)
}

/// Rows that are packed for `n` activation rows: those of whole workgroups.
pub fn packed_rows(n: usize) -> usize {
    n.next_multiple_of(shape(n).0)
}

/// The tile for `m` outputs of `k` inputs and `n` activation rows. Inputs are shared as far as that has all of them done in fewer turns,
/// where workgroups beyond those that run at once wait for these.
pub fn panel_tile(caps: &Caps, (m, k, n): (usize, usize, usize), gated: bool) -> PanelTile {
    let (rows, (tall, wide), at_once) = shape(n);
    let outputs = if gated { OUTPUTS / 2 } else { OUTPUTS };
    let places = cores(caps) as usize * at_once;
    let (tiles, turns) = (m.div_ceil(outputs) * n.div_ceil(rows), k.div_ceil(TURN.0));
    let cost = |split: usize| {
        let of_one = turns.div_ceil(split) + COSTS[0] + if split > 1 { COSTS[1] } else { 0 };
        (tiles * split).div_ceil(places) * of_one
    };
    let fits = |split: &usize| {
        let (bytes, most) = split_workspace(caps);
        tiles <= most && tiles * split * rows * OUTPUTS * size_of::<f32>() <= bytes && turns >= split * TURN.1
    };
    let splits = (1..=MOST_SPLIT.ilog2()).map(|i| 1 << i).filter(fits);
    let split = std::iter::once(1).chain(splits).min_by_key(|split| cost(*split)).unwrap_or(1);
    PanelTile { size: THREADS, tall, wide, split: split as u32, rows, outputs }
}

/// What workgroups that share inputs leave, in bytes, and how many of them share some, at most: those of the largest that run at once,
/// and as many rows of the smallest.
pub fn split_workspace(caps: &Caps) -> (usize, usize) {
    if caps.matrix_n.is_empty() {
        return (0, 0);
    }
    let [(least, ..), .., (most, _, at_once)] = SHAPES;
    let places = cores(caps) as usize * at_once;
    (places * most * OUTPUTS * size_of::<f32>(), places * most / least)
}

/// Runs of `n` rows that use `used` of `experts` each, for workgroups whose rows are about as many as an expert has.
pub fn moe_panels(n: usize, used: usize, experts: usize) -> MoeTiles {
    let columns = MOE_COLUMNS.into_iter().find(|columns| n * used < columns * experts).unwrap_or(MOST_MOE_COLUMNS);
    MoeTiles { columns, most: (n * used).div_ceil(columns) + experts.min(n * used) }
}

/// The tile for such runs.
pub fn moe_panel_tile(moe: MoeTiles, gated: bool) -> PanelTile {
    let (rows, (tall, wide), _) = shape(moe.columns);
    let outputs = if gated { OUTPUTS / 2 } else { OUTPUTS };
    PanelTile { size: THREADS, tall, wide, split: 1, rows, outputs }
}

#[cfg(test)]
mod tests {
    use super::super::devices;
    use super::*;

    /// 132 cores run 264 workgroups of 64 outputs at once.
    #[test]
    fn inputs_are_shared_where_more_workgroups_are_done_sooner() {
        let caps = devices::h200();
        let split = |m, k, n, gated| panel_tile(&caps, (m, k, n), gated).split;
        assert_eq!([4096, 5120, 6144, 1024].map(|m| split(m, 4096, 512, false)), [2, 1, 1, 4]);
        assert_eq!([256, 512, 2048].map(|n| split(4096, 14_336, n, false)), [4, 2, 1]);
        assert_eq!([(14_336, 512), (1024, 512), (1024, 256)].map(|(m, n)| split(m, 4096, n, true)), [1, 4, 4]);
        assert_eq!([64, 128].map(|n| [4096, 5120].map(|m| split(m, 4096, n, false))), [[4, 2], [4, 2]]);
        assert_eq!([64, 128].map(|n| split(14_336, 4096, n, true)), [1, 1]);
        // Fewer turns than are worth a workgroup.
        assert_eq!([1024, 2048, 4096].map(|k| split(1024, k, 512, false)), [1, 2, 4]);
    }

    #[test]
    fn what_workgroups_leave_has_room() {
        for (_, caps) in devices::all() {
            let (bytes, counters) = split_workspace(&caps);
            for (m, k, gated) in
                [(1024, 4096, false), (4096, 14_336, false), (28_672, 4096, true), (128_256, 4096, false)]
            {
                for n in [17, 32, 64, 100, 128, 129, 256, 512, 2048] {
                    let tile = panel_tile(&caps, (m, k, n), gated);
                    let tiles = m.div_ceil(tile.outputs) * n.div_ceil(tile.rows);
                    let left = tiles * tile.split as usize * tile.rows * OUTPUTS * 4;
                    assert!(tile.split == 1 || left <= bytes && tiles <= counters, "{m} by {k}, {n} rows: {tile:?}");
                }
            }
        }
    }

    /// All four subgroups have outputs and rows of their own.
    #[test]
    fn subgroups_take_all_of_a_tile() {
        for (rows, (tall, wide), _) in SHAPES {
            assert_eq!((tall * wide * 16 * 16 * 4) as usize, rows * OUTPUTS);
            assert!(OUTPUTS.is_multiple_of(16 * tall as usize) && PANEL_ROWS.is_multiple_of(16 * wide as usize));
        }
        for columns in MOE_COLUMNS.into_iter().chain([MOST_MOE_COLUMNS]) {
            assert_eq!(shape(columns).0, columns);
        }
    }

    #[test]
    fn runs_are_as_long_as_experts_have_rows_for() {
        let columns = |n, used, experts| moe_panels(n, used, experts).columns;
        assert_eq!([128, 512, 1024, 2048].map(|n| columns(n, 8, 128)), [32, 64, 128, 128]);
        assert_eq!([columns(2048, 4, 32), columns(2048, 10, 512), columns(512, 10, 512)], [128, 64, 32]);
    }

    #[test]
    fn rows_are_packed_for_whole_workgroups() {
        let caps = devices::h200();
        for n in [17, 64, 65, 128, 129, 256, 257, 512, 2048] {
            let tile = panel_tile(&caps, (4096, 4096, n), false);
            assert!(
                packed_rows(n) >= n && packed_rows(n).is_multiple_of(tile.rows) && packed_rows(n) < n + tile.rows,
                "{n}"
            );
        }
    }

    #[test]
    fn only_the_layout_that_is_asked_for_fits() {
        let place = |row: usize, k: usize| (8 * (row % 8 * 4 + k % 8 / 2) + k % 2 + 2 * (k / 8) + 4 * (row / 8)) as u32;
        let weights: Vec<u32> = (0..256).map(|i| place(i / 16, i % 16)).collect();
        let rows: Vec<u32> = (0..256).map(|i| place(i % 16, i / 16)).collect();
        assert!(panels_fit(&weights, &rows) && !panels_fit(&rows, &rows) && !panels_fit(&weights, &weights));
        let (h200, lavapipe, q4_k) = (devices::h200(), devices::lavapipe(), pumex_quant::FormatId::Q4K.format());
        let rows = [FEWER_ROWS, FEWER_ROWS + 1];
        assert_eq!(rows.map(|n| refusal(&h200, q4_k, n, true).is_none()), [false, true]);
        assert!(refusal(&h200, q4_k, 512, false).is_some() && refusal(&lavapipe, q4_k, 512, true).is_some());
    }
}
