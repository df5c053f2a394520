//! Tiles of `gemm_panels`: products of prompts by cooperative matrices that threads fill themselves, with activations in panels of 64
//! rows.

use super::class::cores;
use super::matrix;
use super::shared::table_bytes;
use crate::vk::Caps;
use pumex_quant::Format;

/// Rows up to which `gemm_mat` is faster (2026-11-28 in `benches/RECORD.md`).
pub const FEWER_ROWS: usize = 128;
/// Row of the kernel table.
pub const PANELS: &str = "gemm_panels";
/// Activation rows of a panel, which a subgroup takes.
pub const PANEL_ROWS: usize = 64;
/// Most subgroups of a workgroup.
const MOST_SUBGROUPS: usize = 4;
/// Threads of a subgroup.
const LANES: usize = 32;
/// Outputs that a workgroup takes, of gate and up together.
const OUTPUTS: usize = 64;
/// Columns of its matrices of activations.
pub const PANEL_N: u32 = 16;
/// Bytes that the kernel asks for past the last panel: of the next two matrices of 16 inputs.
pub const READ_AHEAD: usize = 4 << 10;
/// Bytes of shared memory beside a format's table: two stages of weights, or sums.
const STAGES: usize = 17 << 10;

/// Workgroups of four subgroups, and of fewer, that a core runs at once: registers hold eight subgroups, shared memory three stages.
const AT_ONCE: [usize; 2] = [2, 3];
/// Inputs that the kernel's loop takes in a turn, and the fewest turns that a workgroup is worth.
const TURN: (usize, usize) = (256, 4);
/// Most workgroups that share the inputs of a tile.
const MOST_SPLIT: usize = 4;

/// How a product runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PanelTile {
    /// Threads of a workgroup.
    pub size: u32,
    /// Workgroups that share the inputs.
    pub split: u32,
    /// Its activation rows.
    pub rows: usize,
    /// Its outputs.
    pub outputs: usize,
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
                .or_else(|| caps.disabled(PANELS).map(|why| format!("turned off: {why}")))
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

/// Whether steps of many rows, which fill a device's cores more evenly, are worth their memory (2026-11-28 in `benches/RECORD.md`).
pub fn takes_long_steps(caps: &Caps) -> bool {
    caps.matrix_n.contains(&PANEL_N) && caps.disabled(PANELS).is_none() && caps.memory_budget_bytes >= ROOMY
}

/// Subgroups of a workgroup for `n` activation rows.
fn subgroups(n: usize) -> usize {
    n.div_ceil(PANEL_ROWS).next_power_of_two().min(MOST_SUBGROUPS)
}

/// Rows that are packed for `n` activation rows: those of whole workgroups.
pub fn packed_rows(n: usize) -> usize {
    n.next_multiple_of(subgroups(n) * PANEL_ROWS)
}

/// The tile for `m` outputs of `k` inputs and `n` activation rows. Inputs are shared as long as there are workgroups for all cores
/// to run at once.
pub fn panel_tile(caps: &Caps, (m, k, n): (usize, usize, usize), gated: bool) -> PanelTile {
    let subgroups = subgroups(n);
    let (rows, outputs) = (subgroups * PANEL_ROWS, if gated { OUTPUTS / 2 } else { OUTPUTS });
    let places = cores(caps) as usize * AT_ONCE[usize::from(subgroups < MOST_SUBGROUPS)];
    let (tiles, turns) = (m.div_ceil(outputs) * n.div_ceil(rows), k.div_ceil(TURN.0));
    let pays = |split: &usize| tiles * split <= places && turns >= split * TURN.1;
    let split = [MOST_SPLIT, MOST_SPLIT / 2].into_iter().find(pays).unwrap_or(1);
    PanelTile { size: (subgroups * LANES) as u32, split: split as u32, rows, outputs }
}

/// What workgroups that share inputs leave, in bytes, and how many of them share some, at most.
pub fn split_workspace(caps: &Caps) -> (usize, usize) {
    if caps.matrix_n.is_empty() {
        return (0, 0);
    }
    let places = cores(caps) as usize * AT_ONCE[1];
    (places * MOST_SUBGROUPS * PANEL_ROWS * OUTPUTS * size_of::<f32>(), places)
}

#[cfg(test)]
mod tests {
    use super::super::devices;
    use super::*;

    /// 132 cores run 264 workgroups of 64 outputs by 256 rows at once.
    #[test]
    fn inputs_are_shared_as_long_as_all_workgroups_run_at_once() {
        let caps = devices::h200();
        let split = |m, k, n, gated| panel_tile(&caps, (m, k, n), gated).split;
        assert_eq!([4096, 5120, 6144, 1024].map(|m| split(m, 4096, 512, false)), [2, 1, 1, 4]);
        assert_eq!([256, 512, 2048].map(|n| split(4096, 14_336, n, false)), [4, 2, 1]);
        assert_eq!([(14_336, 512), (1024, 512), (1024, 256)].map(|(m, n)| split(m, 4096, n, true)), [1, 4, 4]);
        // Fewer turns than are worth a workgroup.
        assert_eq!([1024, 2048, 4096].map(|k| split(1024, k, 512, false)), [1, 2, 4]);
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
        assert_eq!([128, 129].map(|n| refusal(&h200, q4_k, n, true).is_none()), [false, true]);
        assert!(refusal(&h200, q4_k, 512, false).is_some() && refusal(&lavapipe, q4_k, 512, true).is_some());
    }
}
