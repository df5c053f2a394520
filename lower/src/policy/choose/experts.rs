//! Kernels of products with experts' matrices.

use super::product::{refuse_matrices, PackedMatrices};
use super::{MatrixLayout, Query};
use crate::policy::gemv::{self, dot_span, float_row, no_dots};
use crate::policy::matrix::{self, moe_tile, moe_tiles, MatTile, MoeTiles, MANY_ROWS};
use crate::policy::panels::{self, moe_panel_tile, moe_panels, PanelTile, PANELS};
use crate::policy::table::Evidence;
use crate::policy::{
    expert_tile, groups_rows, row_tile, tuned, GemmFusion, GemvTile, ManyRows, PackedRowsRequest, RowTile,
};
use pumex_quant::FormatId;
use pumex_vk::{Caps, TunedProduct};
use ExpertsKernel::*;

/// A kernel of products with experts' matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpertsKernel {
    /// Expert by expert: packed panels of rows, by cooperative matrices that threads fill themselves.
    Panels,
    /// Expert by expert: packed rows, by cooperative matrices.
    Mat,
    /// Expert by expert: rows packed one by one.
    Rows(ManyRows),
    /// Row by row, by integer dot products.
    Dot,
    /// Row by row, by floats.
    Float,
}

impl ExpertsKernel {
    /// Row of the kernel table.
    pub const fn name(self) -> &'static str {
        match self {
            Panels => PANELS,
            Mat => MANY_ROWS,
            Rows(by) => by.kernel(),
            Dot => "gemv_dot",
            Float => "gemv",
        }
    }
}

/// A product with the matrices of each row's experts: with gate and up in one, or with one matrix.
#[derive(Clone, Debug, PartialEq)]
pub struct ExpertsQuery {
    /// Formats of gate and up, or of the one matrix.
    pub formats: Vec<FormatId>,
    /// Outputs of an expert, inputs that go into an output, and activation rows.
    pub size: (usize, usize, usize),
    /// Experts of a row, of so many.
    pub experts: (usize, usize),
    /// What it does beside.
    pub fusion: GemmFusion,
    /// Products of a row's experts stay side by side.
    pub side_by_side: bool,
    /// Ops are merged.
    pub merges: bool,
    /// There is room for rows of experts that are packed for cooperative matrices.
    pub has_room: bool,
    /// Rows of the matrices are short.
    pub short: bool,
    /// Some of them lie in slabs.
    pub any_in_slabs: bool,
    /// Bytes of the largest of them as halves.
    pub decoded_bytes: u64,
    /// How threads hold matrices, if these are used at all.
    pub layout: Option<MatrixLayout>,
    /// What decides on kernels of packed rows, if there is room for experts' rows.
    pub packed_rows: Option<PackedRowsRequest>,
}

/// What is said where experts have few rows each.
const FEW_EACH: &str = "experts have few rows each, or are too many";

impl ExpertsQuery {
    fn packed(&self) -> PackedMatrices<'_> {
        PackedMatrices {
            formats: &self.formats,
            short: self.short,
            any_in_slabs: self.any_in_slabs,
            decoded_bytes: self.decoded_bytes,
            asked: self.packed_rows,
        }
    }

    /// What asks for each row by itself, whatever kernel there is for rows of an expert.
    fn refuse_together(&self) -> Option<String> {
        match () {
            () if self.fusion.norm => Some("it norms its input".into()),
            () if !self.merges => Some("ops are not merged".into()),
            () => None,
        }
    }

    fn refuse_matrices(&self, caps: &Caps) -> Option<String> {
        let (n, (used, experts)) = (self.size.2, self.experts);
        let differ = || self.formats.iter().any(|id| *id != self.formats[0]);
        let differ = || differ().then(|| "gate and up differ in format".into());
        let room = || (!self.has_room).then(|| "no room for rows of experts".into());
        let grouped = || matrix::groups_experts(caps, self.formats[0].format(), (n, used, experts));
        let few = || (!grouped()).then(|| FEW_EACH.into());
        let short = || self.short.then(|| "rows of matrices are short".into());
        let matrices = refuse_matrices(caps, &self.formats, n, self.layout).or_else(|| self.refuse_together());
        matrices.or_else(differ).or_else(room).or_else(few).or_else(short)
    }

    fn refuse_rows(&self, caps: &Caps, by: ManyRows) -> Option<String> {
        let (n, (used, experts)) = (self.size.2, self.experts);
        let few = || (!groups_rows(n, used, experts)).then(|| FEW_EACH.into());
        let packed = self.packed().refusal(caps, by, n, self.fusion);
        packed.or_else(|| self.refuse_together()).or_else(few)
    }

    fn refuse_dot(&self, caps: &Caps) -> Option<String> {
        let (format, k) = (self.formats[0].format(), self.size.1);
        let whole = dot_span(caps, format, k, 1, self.fusion.activations) == Some(k);
        no_dots(caps, format).or_else(|| (!whole).then(|| "shared memory does not hold all activations".into()))
    }

    /// Runs of rows of one expert, as a kernel takes them.
    pub fn runs(&self, kernel: ExpertsKernel) -> MoeTiles {
        let (n, (used, experts)) = (self.size.2, self.experts);
        if kernel == Panels {
            moe_panels(n, used, experts)
        } else {
            moe_tiles(n, used, experts)
        }
    }
}

impl Query for ExpertsQuery {
    type Kernel = ExpertsKernel;
    type Tile = ExpertsTile;

    fn kernels(&self, caps: &Caps) -> Vec<ExpertsKernel> {
        let (packed, together) = (self.packed(), self.refuse_together().is_none());
        let mut all = vec![Panels, Mat];
        let first = together && !self.side_by_side && packed.workgroups_first(caps, self.size.2);
        let at = if first { 0 } else { all.len() };
        all.splice(at..at, packed.kernels(caps, self.fusion).into_iter().map(Rows));
        all.extend([Dot, Float]);
        all
    }

    fn name(kernel: ExpertsKernel) -> &'static str {
        kernel.name()
    }

    fn refusal(&self, caps: &Caps, kernel: ExpertsKernel) -> Option<String> {
        let fit = self.layout.is_some_and(|layout| layout.panels);
        let panels = || panels::refusal(caps, self.formats[0].format(), self.size.2, fit);
        match kernel {
            Panels => self.refuse_matrices(caps).or_else(panels),
            Mat => self.refuse_matrices(caps),
            Rows(by) => self.refuse_rows(caps, by),
            Dot => self.refuse_dot(caps),
            Float => None,
        }
    }

    fn tile(&self, caps: &Caps, kernel: ExpertsKernel) -> ExpertsTile {
        let (format, (m, k, _), gated) = (self.formats[0].format(), self.size, self.fusion.gated);
        let runs = self.runs(kernel);
        match kernel {
            Panels => ExpertsTile::Panels(moe_panel_tile(runs, gated)),
            Mat => ExpertsTile::Matrix(moe_tile(caps, format, m, runs, self.fusion)),
            Rows(by) => ExpertsTile::Rows(row_tile(caps, by, format, runs.columns)),
            Dot | Float => ExpertsTile::Gemv(expert_tile(caps, format, (m, k), self.fusion.activations)),
        }
    }

    fn row(&self, caps: &Caps, kernel: ExpertsKernel) -> Option<(&'static str, Evidence)> {
        let (format, (m, k, _)) = (self.formats[0].format(), self.size);
        let float = || float_row(caps, format, (m, k), 1, false);
        (kernel == Float).then(float).map(|row| (row.name, row.evidence))
    }

    fn tunable(&self, kernel: ExpertsKernel) -> Option<TunedProduct> {
        let (format, (m, k, _)) = (self.formats[0].format(), self.size);
        let fusion = GemmFusion { activations: self.fusion.activations, ..GemmFusion::default() };
        (kernel == Dot && !self.side_by_side)
            .then(|| tuned::key(tuned::EXPERTS, &gemv::product(format, (m, k), 1, fusion)))
    }
}

/// The shape of a kernel of products with experts' matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpertsTile {
    /// The shape of `gemm_panels`.
    Panels(PanelTile),
    /// The shape of `gemm_mat`.
    Matrix(MatTile),
    /// The shape of kernels of packed rows.
    Rows(RowTile),
    /// The shape of `gemv_dot` or `gemv`.
    Gemv(GemvTile),
}
