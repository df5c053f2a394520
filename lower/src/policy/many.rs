//! Products of many rows by tiles, where matrices do not do them: rows come packed by `pack_rows`, as bytes (`gemm_dot`) or as
//! halves (`gemm_half`); and where matrices may be used whose layout is not known (`gemm_bytes`, `gemm_staged`).

use super::class::{choices, integer_dots};
use super::matrix::{chunk_len, MOST_EXPERTS};
use super::matrix2::{group_tile, GroupTile};
use super::shared::table_bytes;
use super::table::{ManyRows, WeightSource};
use super::{ActivationQuant, FEW_ROWS, GEMV_MAX_COLS};
use pumex_quant::{Format, FormatId};
use pumex_vk::Caps;

/// What is packed for products, beside what devices say of themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PackedRowsRequest {
    /// One kernel for all that it takes, whatever the class would have.
    pub forced: Option<ManyRows>,
    /// Codes of activations in integer products.
    pub activations: ActivationQuant,
}

/// Outputs that a workgroup takes.
pub const TILE: usize = 64;
/// Rows of each of `wide`.
const ROWS: u32 = 32;

/// A tile of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowTile {
    /// How it multiplies.
    pub by: ManyRows,
    /// Fours of rows that a thread takes.
    pub wide: u32,
    /// The tile of matrices that come from shared memory.
    pub staged: Option<StagedTile>,
    /// The tile of matrices that a workgroup holds.
    pub group: Option<GroupTile>,
}

/// What `gemm_staged` and `gemm_bytes` have beside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StagedTile {
    /// Rows, columns and inputs of a product of matrices.
    pub shape: (u32, u32, u32),
    /// Subgroups of a workgroup.
    pub waves: u32,
    /// Chunks that shared memory holds: 2 where the next one is decoded beside the products with the last.
    pub buffers: u32,
}

impl RowTile {
    /// Rows that a workgroup takes.
    pub fn rows(self) -> usize {
        self.group.map_or(ROWS * self.wide, |group| group.rows) as usize
    }

    /// Outputs that it takes.
    pub fn outputs(self) -> usize {
        self.group.map_or(TILE, |group| group.outputs as usize)
    }

    /// Constants of its pipeline for `m` outputs of `k` inputs, beside those of what becomes of the sums.
    pub fn spec(self, soa: bool, size: (usize, usize)) -> Vec<(&'static str, u32)> {
        if let Some(group) = self.group {
            return [group.spec(size), vec![("SOA", u32::from(soa))]].concat();
        }
        let mut spec = vec![("WIDE", self.wide), ("SOA", u32::from(soa))];
        if let Some(StagedTile { shape: (m, n, k), waves, buffers }) = self.staged {
            spec.extend([("MAT_M", m), ("MAT_N", n), ("MAT_K", k), ("WAVES", waves)]);
            spec.extend((self.by == ManyRows::Staged).then_some(("BUFFERS", buffers)));
        }
        spec
    }

    /// Bytes of shared memory, as `shaders/glsl/lib/gemm_words.glsl` and `shaders/glsl/gemm_staged.comp` have them.
    pub fn shared_bytes(self, format: &Format) -> usize {
        let chunk = chunk_len(format);
        if self.by == ManyRows::Bytes {
            let each = chunk + 16 + 8 * (chunk / piece_len(format));
            return (TILE + self.rows()) * each + table_bytes(format);
        }
        if let Some(group) = self.group {
            return group.shared_bytes(format);
        }
        if let Some(staged) = self.staged {
            return 16 * staged.buffers as usize * (TILE + self.rows()) * (chunk / 8 + 1) + table_bytes(format);
        }
        let strides = TILE / 4 + 1 + self.rows() / 4 + 1;
        let words = chunk * self.by.bits() as usize / 32;
        // A scale and an offset for each sixteen inputs of outputs and of rows, at most.
        let scales = if self.by == ManyRows::Dot { 2 * chunk / 16 } else { 0 };
        16 * strides * (words + scales) + table_bytes(format)
    }
}

/// Inputs that share a scale in kernels: CHUNK / PIECES of `shaders/glsl/quant`.
fn piece_len(format: &Format) -> usize {
    use FormatId::*;
    match format.id {
        Q2K | Q3K | Q6K | Q2_0 | Nvfp4 | Iq2Xs | Iq2S | Iq1M | Iq1MExpanded | Tq1_0 | Tq2_0 => 16,
        _ => 32,
    }
}

/// Why a kernel does not multiply rows with weights of a format, if it does not.
pub(super) fn refusal(caps: &Caps, by: ManyRows, format: &Format, asked: PackedRowsRequest) -> Option<String> {
    let forced = asked.forced == Some(by);
    let told = match by {
        ManyRows::Group(_) => match () {
            () if format.id == FormatId::F32 => Some("halves do not hold floats"),
            () if !caps.group_matrix() => Some("no cooperative matrices that workgroups hold"),
            () => None,
        },
        ManyRows::Dot => match () {
            () if format.block_len == 1 => Some("weights are floats"),
            () if !caps.int_dot8 => Some("shaderIntegerDotProduct is missing"),
            () if !integer_dots(caps) => Some("no instruction for dot products of signed bytes"),
            () if !forced && asked.activations != ActivationQuant::Q8 => Some("activations are to have 16 bits"),
            () if !caps.subgroup_shuffle || caps.subgroup_size < 8 => Some("no shuffles among 8 threads"),
            () => None,
        },
        ManyRows::Bytes => match () {
            () if format.block_len == 1 => Some("weights are floats"),
            () if staged_tile(caps, by).is_none() => Some("no cooperative matrices of signed bytes"),
            () if staged_tile(caps, by).is_some_and(|t| piece_len(format) < t.shape.2 as usize) => {
                Some("a matrix has more inputs than a scale")
            }
            () if !forced && asked.activations != ActivationQuant::Q8 => Some("activations are to have 16 bits"),
            () if !forced && !choices(caps).many_rows.value.bytes.holds(format) => Some("halves are faster"),
            () if !caps.subgroup_shuffle || caps.subgroup_size < 8 => Some("no shuffles among 8 threads"),
            () => None,
        },
        ManyRows::Staged => match () {
            () if format.id == FormatId::F32 => Some("halves do not hold floats"),
            () if staged_tile(caps, by).is_none() => Some("no cooperative matrices of halves with sums in floats"),
            () => None,
        },
        ManyRows::Half => match () {
            () if format.id == FormatId::F32 => Some("halves do not hold floats"),
            () if !caps.fp16 => Some("shaderFloat16 is missing"),
            () => None,
        },
    };
    let table = choices(caps).many_rows.value.by;
    let unlisted = || (!forced && !table.contains(&by)).then_some("not for this class of devices");
    let told = told.or_else(unlisted).map(String::from);
    let least = smallest(caps, by, format);
    let wide = || least.shared_bytes(format) > caps.max_shared_bytes as usize;
    told.or_else(|| caps.disabled_reason(by.kernel()).map(|why| format!("turned off: {why}")))
        .or_else(|| wide().then(|| "shared memory does not hold a tile".into()))
}

/// The tile that takes least shared memory.
fn smallest(caps: &Caps, by: ManyRows, format: &Format) -> RowTile {
    let group = |source| GroupTile { outputs: 32, ..group_tile(caps, source, format, ROWS as usize) };
    let tile = RowTile { by, wide: 1, staged: None, group: None };
    match by {
        ManyRows::Group(source) => RowTile { group: Some(group(source)), ..tile },
        ManyRows::Staged | ManyRows::Bytes => RowTile { staged: staged_tile(caps, by), ..tile },
        ManyRows::Dot | ManyRows::Half => tile,
    }
}

/// Matrices from shared memory, with one buffer: of subgroups that share a workgroup's outputs evenly.
fn staged_tile(caps: &Caps, by: ManyRows) -> Option<StagedTile> {
    let shape = match by {
        ManyRows::Bytes => caps.byte_matrix()?,
        ManyRows::Staged => caps.staged_matrix()?,
        ManyRows::Group(_) | ManyRows::Dot | ManyRows::Half => return None,
    };
    let waves = TILE as u32 / caps.subgroup_of(by.kernel());
    let shared = (1..=TILE as u32 / shape.0).contains(&waves) && waves.is_power_of_two();
    shared.then_some(StagedTile { shape, waves, buffers: 1 })
}

/// The kernels that are thought of on a device, best first, with those that its table lacks behind.
pub(super) fn candidates(caps: &Caps, asked: PackedRowsRequest) -> Vec<ManyRows> {
    let table = choices(caps).many_rows.value.by;
    let mut all: Vec<ManyRows> = asked.forced.into_iter().collect();
    for by in table.iter().copied().chain(ManyRows::ALL) {
        if !all.contains(&by) {
            all.push(by);
        }
    }
    all
}

/// How products of `n` rows with weights of all these formats go, if packed rows are for them: one packing serves all.
pub fn many_rows(caps: &Caps, formats: &[&Format], n: usize, asked: PackedRowsRequest) -> Option<ManyRows> {
    let takes = |by: &ManyRows| formats.iter().all(|format| refusal(caps, *by, format, asked).is_none());
    let rows = (GEMV_MAX_COLS + 1..1 << 16).contains(&n);
    candidates(caps, asked).into_iter().find(|by| rows && takes(by))
}

/// Whether steps of up to `n` rows may turn matrices into halves for their products.
pub fn decodes(caps: &Caps, n: usize, asked: PackedRowsRequest) -> bool {
    let halves = Some(ManyRows::Group(WeightSource::Halves));
    [FormatId::Q8_0, FormatId::Q4K].iter().any(|id| many_rows(caps, &[id.format()], n, asked) == halves)
}

/// Whether any product may go so.
pub fn packs_rows(caps: &Caps, asked: PackedRowsRequest) -> bool {
    let formats = [FormatId::Q8_0, FormatId::F16].map(FormatId::format);
    formats.iter().any(|format| many_rows(caps, &[*format], GEMV_MAX_COLS + 1, asked).is_some())
}

/// Whether the rows of each expert are multiplied together: where experts have several on average.
pub fn groups_rows(n: usize, used: usize, experts: usize) -> bool {
    n > FEW_ROWS && n * used >= 2 * experts && experts <= MOST_EXPERTS
}

/// The tile of a product whose columns are to be in whole runs of `columns`.
pub fn row_tile(caps: &Caps, by: ManyRows, format: &Format, columns: usize) -> RowTile {
    if let ManyRows::Group(source) = by {
        return RowTile { group: Some(group_tile(caps, source, format, columns)), ..smallest(caps, by, format) };
    }
    let most = choices(caps).many_rows.value.wide.min(columns as u32 / ROWS).max(1);
    let buffers = if by == ManyRows::Staged { choices(caps).many_rows.value.buffers } else { 1 };
    let tile = |(wide, buffers)| {
        let staged = staged_tile(caps, by).map(|staged| StagedTile { buffers, ..staged });
        RowTile { by, wide, staged, group: None }
    };
    let shapes = [(most, buffers), (most, 1), (1, buffers)].map(tile);
    let fits = |tile: &RowTile| tile.shared_bytes(format) <= caps.max_shared_bytes as usize;
    shapes.into_iter().find(fits).unwrap_or(tile((1, 1)))
}

#[cfg(test)]
mod tests {
    use super::super::devices;
    use super::*;

    fn chosen(caps: &Caps, stem: &str, activations: ActivationQuant) -> Option<&'static str> {
        let format = pumex_quant::all().find(|f| f.stem == stem).unwrap();
        many_rows(caps, &[format], 64, PackedRowsRequest { forced: None, activations }).map(ManyRows::kernel)
    }

    #[test]
    fn known_devices_take_matrices_else_bytes_else_halves_where_their_class_has_such_a_table() {
        let (bytes, staged) = (Some("gemm_bytes"), Some("gemm_staged"));
        let (dot, half) = (Some("gemm_dot"), Some("gemm_half"));
        let expected = [
            ("h200", [None; 3]),
            ("lavapipe", [None; 3]),
            ("geforce_gtx_1080", [None; 3]),
            ("geforce_rtx_2080", [None; 3]),
            ("geforce_rtx_3090", [None; 3]),
            ("geforce_rtx_5090", [None; 3]),
            ("geforce_rtx_2060_nvk", [None; 3]),
            ("radeon_rx_580", [None; 3]),
            ("radeon_rx_5700_xt", [half; 3]),
            ("radeon_rx_6800_xt", [dot, half, half]),
            ("radeon_rx_7900_xtx", [bytes, staged, staged]),
            ("radeon_rx_9070_xt", [staged; 3]),
            ("radeon_8060s", [bytes, staged, staged]),
            ("instinct_mi100", [dot, None, None]),
            ("arc_a770", [dot, half, half]),
            ("arc_b580", [staged; 3]),
            ("iris_xe", [dot, half, half]),
            ("uhd_630", [half; 3]),
            ("apple_m2", [half; 3]),
            ("adreno_740", [half; 3]),
            ("mali_g715", [dot, half, half]),
            ("radeon_pro_5700_xt", [None; 3]),
            ("unknown", [None; 3]),
            ("floor", [None; 3]),
        ];
        let of = |caps: &Caps| {
            let q8 = ActivationQuant::Q8;
            [chosen(caps, "q4_k", q8), chosen(caps, "f16", q8), chosen(caps, "iq2_xs", ActivationQuant::Q16)]
        };
        let found: Vec<_> = devices::all().iter().map(|(name, caps)| (*name, of(caps))).collect();
        assert_eq!(found, expected);
        for (name, caps) in devices::all() {
            assert_eq!(chosen(&caps, "f32", ActivationQuant::Q8), None, "{name}");
        }
    }

    #[test]
    fn tiles_fit_shared_memory_and_runs_of_experts() {
        for (name, caps) in devices::all() {
            for (format, by) in pumex_quant::all().flat_map(|f| ManyRows::ALL.map(|by| (f, by))) {
                let asked = PackedRowsRequest { forced: Some(by), ..PackedRowsRequest::default() };
                if refusal(&caps, by, format, asked).is_none() {
                    for columns in [32, 64, 256] {
                        let tile = row_tile(&caps, by, format, columns);
                        assert!(tile.rows() <= columns && columns.is_multiple_of(tile.rows()), "{name} {tile:?}");
                        let bytes = tile.shared_bytes(format);
                        assert!(bytes <= caps.max_shared_bytes as usize, "{name} {} {tile:?}: {bytes}", format.stem);
                    }
                } else if by == ManyRows::Half && format.id != FormatId::F32 {
                    let reason = refusal(&caps, by, format, asked).unwrap();
                    assert!(!caps.fp16 || reason.contains("shared memory"), "{name} {}: {reason}", format.stem);
                }
            }
        }
    }
}
