//! Products of few activation rows without matrices: by packed integer dot products (`gemv_dot`), else by floats (`gemv`).

use super::class::{choices, cores, integer_dots};
use super::floor::MOST_THREADS;
use super::shared::{table_bytes, table_copies, table_room, usual_copies};
use super::table::{GemvRow, Product};
use super::tuned;
use super::{ActivationQuant, GemmFusion};
use pumex_quant::{Format, FormatId};
use pumex_vk::Caps;
use std::ops::Range;

/// Which GEMV runs a product, and in what shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GemvTile {
    /// Row of the kernel table.
    pub kernel: &'static str,
    /// Threads of a workgroup.
    pub size: u32,
    /// Outputs taken at a time: by a workgroup (`gemv`) or a subgroup (`gemv_dot`).
    pub rows: u32,
    /// Workgroups.
    pub groups: u32,
    /// Inputs coded at a time by `gemv_dot`.
    pub span: u32,
    /// Chunks that its threads have under way.
    pub depth: u32,
    /// Codes of its activations.
    pub activations: ActivationQuant,
    /// Times that its format's table, if there is one, stands in shared memory.
    pub copies: u32,
    /// Gate and up are taken one after the other, if it has both.
    pub apart: bool,
    /// Activations that a thread holds at most until they are coded.
    pub held: u32,
}

impl GemvTile {
    /// Constants of its pipeline, by name, for `k` inputs and `n` activation rows.
    pub fn spec(&self, k: usize, n: usize, extras: GemmFusion) -> Vec<(&'static str, u32)> {
        let mut spec = vec![
            ("SIZE", self.size),
            ("ROWS", self.rows),
            ("COLS", n as u32),
            ("GATED", u32::from(extras.gated)),
            ("ADD", u32::from(extras.add)),
            ("SOA", u32::from(extras.soa)),
            ("NORM", u32::from(extras.norm)),
        ];
        if self.kernel == DOT {
            spec.extend([
                ("K", k as u32),
                ("SPAN", self.span),
                ("DEPTH", self.depth),
                ("BITS", self.activations.bits()),
                ("COPIES", self.copies),
            ]);
            spec.extend((self.apart && extras.gated).then_some(("APART", 1)));
            let slices = self.span.div_ceil(self.size.saturating_mul(self.held));
            spec.extend((slices > 1).then_some(("SLICES", slices)));
        }
        spec
    }

    /// One more, where the kernel asks whether it takes whole numbers of the `rows` of each matrix at a time.
    pub fn whole_rows(&self, mut rows: impl Iterator<Item = usize>) -> Option<(&'static str, u32)> {
        let whole = rows.all(|m| m.is_multiple_of(self.rows as usize));
        (self.kernel == DOT).then_some(("WHOLE_ROWS", u32::from(whole)))
    }
}

const FLOAT: &str = "gemv";
const DOT: &str = "gemv_dot";

/// Activation rows of each dispatch of a GEMV of `n` rows of `k` inputs, as even as can be: one less than the class takes, if
/// workgroups hold all inputs of so many.
pub fn gemv_columns(
    caps: &Caps,
    format: &Format,
    k: usize,
    n: usize,
    extras: GemmFusion,
) -> impl Iterator<Item = Range<usize>> {
    let (any, choices) = (product(format, (0, k), n, extras), choices(caps));
    let fewer = choices.fewer_columns.value.iter().find(|(when, _)| when.holds(&any)).map(|(_, columns)| *columns);
    let most = fewer.unwrap_or(choices.gemv_columns.value).min(n.max(1));
    let whole = |columns: &usize| dot_span(caps, format, k, *columns, extras.activations) == Some(k);
    let few = [most, most - 1].into_iter().filter(|_| most < n).find(|columns| *columns > 0 && whole(columns));
    let parts = n.div_ceil(few.unwrap_or(most));
    (0..parts).map(move |i| n * i / parts..n * (i + 1) / parts)
}

/// Shared memory the integer kernel leaves for the compiler and for sums over a workgroup.
const DOT_SHARED_RESERVE: usize = 3 << 10;

/// How often a format's table fits beside what the integer kernel keeps of `n` rows of `span` inputs.
fn dot_copies(caps: &Caps, format: &Format, span: usize, n: usize, codes: ActivationQuant) -> u32 {
    let used = n * span * (codes.bits() + codes.bits() / 8 + 3) as usize / 8 + DOT_SHARED_RESERVE;
    table_copies(format, table_room(caps, used))
}

/// Why the integer kernel does not multiply weights of a format, whatever the shape.
pub(super) fn no_dots(caps: &Caps, format: &Format) -> Option<String> {
    let reason = match () {
        () if format.block_len == 1 => "weights are floats",
        () if !caps.int_dot8 => "shaderIntegerDotProduct is missing",
        () if !integer_dots(caps) => "no instruction for dot products of signed bytes",
        () if !caps.subgroup_shuffle => "no shuffles over subgroups",
        () if caps.subgroup_of(DOT) < 8 => "subgroups of less than 8 threads",
        () => return caps.disabled_reason(DOT).map(|why| format!("turned off: {why}")),
    };
    Some(reason.into())
}

/// Inputs that the integer kernel codes at a time: all `k` if `n` rows of them fit its shared memory, with an eighth of padding
/// and 3 bits each for scales and sums, else a multiple of 256; none if it cannot run at all.
pub fn dot_span(caps: &Caps, format: &Format, k: usize, n: usize, codes: ActivationQuant) -> Option<usize> {
    if no_dots(caps, format).is_some() {
        return None;
    }
    let room = (caps.max_shared_bytes as usize).checked_sub(table_bytes(format) + DOT_SHARED_RESERVE)?;
    let fit = room * 8 / (codes.bits() + codes.bits() / 8 + 3) as usize / n;
    if k <= fit {
        return Some(k);
    }
    Some(fit / 256 * 256).filter(|span| *span > 0)
}

/// The first row of a table that holds; every table ends with one that holds always.
fn first<'a>(rows: &'a [GemvRow], product: &Product<'_>) -> &'a GemvRow {
    rows.iter().find(|row| row.when.holds(product)).expect("a table's last row holds always")
}

/// What was tuned, or the row of the device's table, that [`gemv_tile`] takes for `m` outputs over `k` inputs with `n` activation
/// rows, where [`dot_span`] gives a span.
pub fn gemv_row(caps: &Caps, format: &Format, m: usize, k: usize, n: usize, extras: GemmFusion) -> GemvRow {
    let product = product(format, (m, k), n, extras);
    tuned::gemv(caps, DOT, &product).unwrap_or_else(|| *first(choices(caps).gemv, &product))
}

/// Whether a subgroup takes gate and up of such a product one after the other.
fn gates_apart(caps: &Caps, product: &Product<'_>) -> bool {
    choices(caps).gates_apart.value.iter().any(|when| when.holds(product))
}

pub(super) fn product(format: &Format, (m, k): (usize, usize), n: usize, extras: GemmFusion) -> Product<'_> {
    let GemmFusion { gated, activations, .. } = extras;
    Product { format, outputs: m, inputs: k, columns: n, gated, activations }
}

/// A GEMV of `m` outputs over `k` inputs for `n` activation rows.
pub fn gemv_tile(caps: &Caps, format: &Format, m: usize, k: usize, n: usize, extras: GemmFusion) -> GemvTile {
    let codes = extras.activations;
    let Some(span) = dot_span(caps, format, k, n, codes) else {
        return float_tile(caps, format, (m, k), n, extras.gated);
    };
    let (row, product) = (gemv_row(caps, format, m, k, n, extras), product(format, (m, k), n, extras));
    let deep = span == k && choices(caps).two_chunks.value.iter().any(|when| when.holds(&product));
    // Narrow workgroups would take as long to fill a table's copies as they gain by them.
    let copies = if row.threads >= 512 { dot_copies(caps, format, span, n, codes) } else { usual_copies(format) };
    let tile = dot_tile(caps, (m, k), row.rows, row.threads, 1, span);
    let groups = if span < k { tile.groups } else { tile.groups.min(row.groups.on(cores(caps))) };
    let apart = gates_apart(caps, &product);
    GemvTile { groups, activations: codes, depth: if deep { 2 } else { 1 }, copies, apart, ..tile }
}

/// A GEMV of `m` outputs over `k` inputs with the matrices of one expert, or of all experts of a row side by side.
pub fn expert_tile(caps: &Caps, format: &Format, (m, k): (usize, usize), codes: ActivationQuant) -> GemvTile {
    match dot_span(caps, format, k, 1, codes) {
        Some(span) if span == k => {
            let extras = GemmFusion { activations: codes, ..GemmFusion::default() };
            let product = product(format, (m, k), 1, extras);
            let (tuned, apart) = (tuned::gemv(caps, tuned::EXPERTS, &product), gates_apart(caps, &product));
            let (rows, threads) = tuned.map_or((1, choices(caps).expert_threads.value), |row| (row.rows, row.threads));
            let tile = dot_tile(caps, (m, k), rows, threads, 1, span);
            GemvTile { activations: codes, copies: usual_copies(format), apart, ..tile }
        }
        _ => float_tile(caps, format, (m, k), 1, false),
    }
}

/// `rows` outputs at a time, or as many more as it takes for `m` of them to be a grid that the device allows, of workgroups that
/// take `times` as many.
fn within_grid(caps: &Caps, m: usize, rows: u32, times: u32) -> u32 {
    let most = u64::from(caps.max_groups[0].max(1));
    let fits = |rows: &u32| (m as u64).div_ceil(u64::from(rows * times)) <= most;
    std::iter::successors(Some(rows), |rows| rows.checked_mul(2)).find(fits).unwrap_or(rows)
}

/// The integer kernel with subgroups taking `rows` of `m` outputs `turns` times, `span` of `k` inputs at a time.
pub fn dot_tile(caps: &Caps, (m, k): (usize, usize), rows: u32, size: u32, turns: u32, span: usize) -> GemvTile {
    let most = if caps.emulated_subgroups { MOST_THREADS } else { caps.max_workgroup_invocations };
    let size = size.min(most).max(caps.subgroup_of(DOT));
    let turns = if span < k { 1 } else { turns };
    let subgroups = size / caps.lanes(DOT, size);
    let rows = within_grid(caps, m, rows, subgroups * turns);
    let outputs = subgroups * rows * turns;
    let (groups, activations, held) = ((m as u32).div_ceil(outputs), ActivationQuant::Q16, choices(caps).held.value);
    GemvTile {
        kernel: DOT,
        size,
        rows,
        groups,
        span: span as u32,
        depth: 1,
        activations,
        copies: 1,
        apart: false,
        held,
    }
}

/// What was tuned, gated or not, or the row of the device's table, that [`float_tile`] takes.
pub(super) fn float_row(caps: &Caps, format: &Format, shape: (usize, usize), n: usize, gated: bool) -> GemvRow {
    let product = |gated| product(format, shape, n, GemmFusion { gated, ..GemmFusion::default() });
    tuned::gemv(caps, FLOAT, &product(false)).unwrap_or_else(|| *first(choices(caps).gemv_float, &product(gated)))
}

/// The float kernel; a workgroup is a subgroup at least.
pub fn float_tile(caps: &Caps, format: &Format, (m, k): (usize, usize), n: usize, gated: bool) -> GemvTile {
    let row = float_row(caps, format, (m, k), n, gated);
    let size = row.threads.max(caps.subgroup_of(&format!("{FLOAT}.{}", format.stem)).min(64));
    let rows = within_grid(caps, m, row.rows, 1);
    let groups = (m as u32).div_ceil(rows).min(row.groups.on(cores(caps)));
    let (activations, held) = (ActivationQuant::Q16, u32::MAX);
    let span = k as u32;
    GemvTile { kernel: FLOAT, size, rows, groups, span, depth: 1, activations, copies: 1, apart: false, held }
}

/// Outputs and rows of a workgroup of `gemm_float`.
pub const SMALL_TILE: usize = 16;

/// Whether a product of floats is for `gemm_float`: one whose tiles of `gemm_tile`, 64 on a side, leave most multiprocessors idle.
pub fn small_floats(caps: &Caps, format: &Format, (m, k): (usize, usize), n: usize) -> bool {
    let idle = m.div_ceil(64) * n.div_ceil(64) < cores(caps) as usize;
    let fits = format.id == FormatId::F32 && k.is_multiple_of(64) && caps.disabled_reason("gemm_float").is_none();
    fits && idle && choices(caps).small_float_tiles.value
}

#[cfg(test)]
mod tests {
    use super::super::tests::{CODES, INPUTS, OUTPUTS};
    use super::super::{amd, devices, intel, nvidia, portable, software, GEMV_MAX_COLS};
    use super::*;
    use std::collections::HashSet;

    const SHORT: GemmFusion =
        GemmFusion { gated: false, add: false, norm: false, soa: true, activations: ActivationQuant::Q8 };

    /// Names of the rows that shapes of models take: of the integer kernel, and of the float one.
    fn taken(caps: &Caps) -> (HashSet<&'static str>, HashSet<&'static str>) {
        let (mut dot, mut float) = (HashSet::new(), HashSet::new());
        for (format, m, k) in
            pumex_quant::all().flat_map(|f| OUTPUTS.into_iter().flat_map(move |m| INPUTS.map(|k| (f, m, k))))
        {
            for (n, gated, activations) in (1..=GEMV_MAX_COLS)
                .flat_map(|n| [false, true].into_iter().flat_map(move |gated| CODES.map(|codes| (n, gated, codes))))
            {
                let extras = GemmFusion { gated, activations, ..GemmFusion::default() };
                match dot_span(caps, format, k, n, activations) {
                    Some(_) => dot.insert(gemv_row(caps, format, m, k, n, extras).name),
                    None => float.insert(first(choices(caps).gemv_float, &product(format, (m, k), n, extras)).name),
                };
            }
        }
        (dot, float)
    }

    #[test]
    fn every_row_is_taken_by_some_shape_and_every_shape_finds_one() {
        for (caps, of) in [
            (devices::h200(), &nvidia::CHOICES),
            (devices::find("geforce_rtx_2060_nvk").unwrap(), &portable::CHOICES),
            (devices::find("radeon_rx_7900_xtx").unwrap(), &amd::RDNA),
            (devices::find("arc_a770").unwrap(), &intel::XE1),
            (devices::lavapipe(), &software::CHOICES),
        ] {
            let (dot, float) = taken(&caps);
            let idle = |rows: &[GemvRow], taken: &HashSet<_>| {
                rows.iter().map(|r| r.name).filter(|name| !taken.contains(name)).collect::<Vec<_>>()
            };
            assert_eq!((idle(of.gemv, &dot), idle(of.gemv_float, &float)), (vec![], vec![]), "{}", caps.name);
        }
    }

    #[test]
    fn grids_stay_within_what_the_device_allows() {
        let caps = Caps { max_groups: [1000; 3], ..devices::lavapipe() };
        for (format, m) in pumex_quant::all().flat_map(|f| OUTPUTS.map(|m| (f, m))) {
            for n in 1..=GEMV_MAX_COLS {
                let (dot, float) = (
                    gemv_tile(&caps, format, m, 4096, n, GemmFusion::default()),
                    float_tile(&caps, format, (m, 4096), n, false),
                );
                assert!(dot.groups <= 1000 && float.groups <= 1000, "{} {m} {n}: {dot:?} {float:?}", format.stem);
                assert!(float.groups * float.rows >= m as u32, "{m}: {float:?}");
            }
        }
    }

    #[test]
    fn dispatches_take_as_many_rows_and_slices_as_the_class_has_it() {
        let rows = |device, id: FormatId, gated| {
            let extras = GemmFusion { gated, activations: ActivationQuant::Q8, ..GemmFusion::default() };
            let caps = devices::find(device).unwrap();
            gemv_columns(&caps, id.format(), 4096, 8, extras).map(|rows| rows.len()).collect::<Vec<_>>()
        };
        assert_eq!(rows("h200", FormatId::Q6K, false), [8]);
        assert_eq!(rows("arc_a770", FormatId::Q4K, true), [4; 2]);
        assert_eq!(rows("arc_a770", FormatId::Q5K, false), [2; 4]);
        assert_eq!(rows("arc_a770", FormatId::F16, false), [4; 2]);
        assert_eq!(rows("arc_a770", FormatId::F16, true), [2; 4]);
        assert_eq!(rows("arc_b580", FormatId::Q5K, false), [4; 2]);
        assert_eq!(rows("arc_b580", FormatId::Q6K, false), [2; 4]);
        assert_eq!(rows("radeon_rx_5700_xt", FormatId::Q1_0, false), [1; 8]);
        assert_eq!(rows("radeon_rx_6800_xt", FormatId::Q1_0, false), [8]);
        let slices = |device, k| {
            let tile = gemv_tile(&devices::find(device).unwrap(), FormatId::Q4K.format(), 4096, k, 1, SHORT);
            tile.spec(k, 1, SHORT).into_iter().find(|(name, _)| *name == "SLICES").map(|(_, slices)| slices)
        };
        // Of 256 threads, of 512 for long inputs on Intel.
        assert_eq!([4096, 14_336].map(|k| slices("h200", k)), [None; 2]);
        assert_eq!([4096, 14_336].map(|k| slices("arc_a770", k)), [None, Some(2)]);
        assert_eq!([4096, 14_336].map(|k| slices("radeon_rx_6800_xt", k)), [None, Some(3)]);
    }

    #[test]
    fn the_first_row_that_holds_counts() {
        let caps = devices::h200();
        let format = |id| pumex_quant::all().find(|f| f.id == id).unwrap();
        let name = |id, m, k, n, gated, activations| {
            gemv_row(&caps, format(id), m, k, n, GemmFusion { gated, activations, ..GemmFusion::default() }).name
        };
        let (q8, q16) = (ActivationQuant::Q8, ActivationQuant::Q16);
        let cases = [
            (name(FormatId::Q4K, 2048, 8192, 1, false, q8), "up to 2,048 outputs, beside others"),
            (name(FormatId::Q4K, 2048, 8448, 1, false, q8), "up to 4,224 outputs"),
            (name(FormatId::Q4K, 2048, 4096, 2, false, q8), "below 8,192 outputs, several rows"),
            (name(FormatId::Q4K, 14336, 4096, 1, true, q8), "gated"),
            (name(FormatId::Q4K, 14336, 4096, 1, false, q8), "wide"),
            (name(FormatId::Q5K, 14336, 4096, 1, false, q16), "wide, many registers"),
            (name(FormatId::Iq3S, 14336, 4096, 1, false, q8), "wide, codebook"),
            (name(FormatId::Iq3S, 14336, 4096, 1, false, q16), "wide"),
            (name(FormatId::Q4K, 128256, 4096, 1, false, q8), "head, Q4_K"),
            (name(FormatId::Q4K, 128256, 4096, 1, false, q16), "head, Q4_K, 16 bits"),
            (name(FormatId::Q6K, 128256, 4096, 1, false, q8), "head, many registers"),
            (name(FormatId::Q6K, 128256, 4096, 4, false, q8), "head, several rows"),
            (name(FormatId::Iq3SExpanded, 128256, 4096, 1, false, q8), "IQ3_S expanded, head"),
            (name(FormatId::Iq1MExpanded, 128256, 4096, 1, true, q8), "IQ1_M expanded, head"),
        ];
        cases.iter().for_each(|(found, expected)| assert_eq!(found, expected));
    }
}
