//! Kernels of products with whole matrices.

use super::{MatrixLayout, Query, NO_LAYOUT, OTHER_LAYOUT};
use crate::policy::gemv::{self, dot_span, float_row, gemv_row, no_dots, small_floats};
use crate::policy::matrix::{self, few_row, few_takes, MatTile, FEW, FEW_KERNEL, MANY_ROWS, PACKED_LEN};
use crate::policy::panels::{self, panel_tile, PanelTile, PANELS};
use crate::policy::table::Evidence;
use crate::policy::{float_tile, gemv_tile, many, many_rows, row_tile, tuned};
use crate::policy::{GemmFusion, GemvTile, ManyRows, PackedRowsRequest, RowTile, WeightSource};
use crate::policy::{GEMV_MAX_COLS, MOST_DECODED_BYTES, MOST_GROUP_ROWS};
use pumex_quant::{Format, FormatId};
use pumex_vk::{Caps, TunedProduct};
use ProductKernel::*;

/// A kernel of products.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProductKernel {
    /// Rows of matrices that are too short for all others, or end amid what these read at a time.
    Short,
    /// Packed rows, few of them, by cooperative matrices that threads fill themselves.
    Few,
    /// Packed panels of rows, by cooperative matrices that threads fill themselves.
    Panels,
    /// Packed rows, by cooperative matrices.
    Mat,
    /// Rows packed one by one.
    Rows(ManyRows),
    /// Few rows, by integer dot products.
    Dot,
    /// Few rows, by floats.
    Float,
    /// Many rows of floats, by small tiles.
    SmallTile,
    /// Many rows, by tiles.
    Tile,
}

impl ProductKernel {
    /// Row of the kernel table.
    pub const fn name(self) -> &'static str {
        match self {
            Short => "head_matmul",
            Few => FEW_KERNEL,
            Panels => PANELS,
            Mat => MANY_ROWS,
            Rows(by) => by.kernel(),
            Dot => "gemv_dot",
            Float => "gemv",
            SmallTile => "gemm_float",
            Tile => "gemm_tile",
        }
    }

    /// Whether it reads rows that are packed for cooperative matrices.
    pub fn packs_for_matrices(self) -> bool {
        matches!(self, Few | Panels | Mat)
    }

    /// Whether it, or what packs rows for it, norms them.
    pub fn norms_input(self) -> bool {
        !matches!(self, Short | SmallTile | Tile)
    }

    /// Whether a dispatch of it takes several matrices of one format.
    pub fn takes_several(self) -> bool {
        self.packs_for_matrices() || matches!(self, Dot | Float)
    }
}

/// A product with matrices that read the same activations, as far as one dispatch does it.
#[derive(Clone, Debug, PartialEq)]
pub struct ProductQuery {
    /// Formats of all these matrices.
    pub formats: Vec<FormatId>,
    /// They are gate and up.
    pub gate_and_up: bool,
    /// Some of their rows are short.
    pub short: bool,
    /// Some of them lie in slabs.
    pub any_in_slabs: bool,
    /// Bytes of the largest of them as halves.
    pub decoded_bytes: u64,
    /// Format of those of the dispatch.
    pub format: FormatId,
    /// Those of the dispatch lie in slabs.
    pub in_slabs: bool,
    /// Outputs of the dispatch, inputs, and activation rows.
    pub size: (usize, usize, usize),
    /// What it does beside.
    pub fusion: GemmFusion,
    /// What is there gates the product.
    pub gates: bool,
    /// How threads hold matrices, if these are used at all.
    pub layout: Option<MatrixLayout>,
    /// What decides on kernels of packed rows, if rows are packed.
    pub packed_rows: Option<PackedRowsRequest>,
}

/// Why cooperative matrices do not multiply weights of all these formats.
pub(super) fn refuse_matrices(
    caps: &Caps,
    formats: &[FormatId],
    n: usize,
    layout: Option<MatrixLayout>,
) -> Option<String> {
    let refusal = formats.iter().find_map(|id| matrix::refusal(caps, id.format(), n));
    refusal.or_else(|| layout.is_none().then(|| NO_LAYOUT.into()))
}

/// Matrices that kernels of packed rows are to take.
pub(super) struct PackedMatrices<'a> {
    pub formats: &'a [FormatId],
    pub short: bool,
    pub any_in_slabs: bool,
    pub decoded_bytes: u64,
    pub asked: Option<PackedRowsRequest>,
}

impl PackedMatrices<'_> {
    fn request_or_usual(&self, fusion: GemmFusion) -> PackedRowsRequest {
        self.asked.unwrap_or(PackedRowsRequest { forced: None, activations: fusion.activations })
    }

    /// Kernels that are thought of, best first.
    pub fn kernels(&self, caps: &Caps, fusion: GemmFusion) -> Vec<ManyRows> {
        many::candidates(caps, self.request_or_usual(fusion))
    }

    /// The best one, whatever else could do it, and whether it takes such matrices as they lie.
    fn best(&self, caps: &Caps, n: usize) -> Option<ManyRows> {
        let formats: Vec<&Format> = self.formats.iter().map(|id| id.format()).collect();
        many_rows(caps, &formats, n, self.asked?)
    }

    /// Whether that is one of matrices that workgroups hold, which come before those of subgroups.
    pub fn workgroups_first(&self, caps: &Caps, n: usize) -> bool {
        let best = self.best(caps, n).filter(|by| self.refuse_as_they_lie(*by).is_none());
        matches!(best, Some(ManyRows::Group(_)))
    }

    /// Halves need room for as many, and what workgroups load as one matrix is in one buffer.
    fn refuse_as_they_lie(&self, by: ManyRows) -> Option<&'static str> {
        match by {
            _ if self.short => Some("rows of matrices are short"),
            ManyRows::Group(_) if self.any_in_slabs => Some("matrices lie in slabs"),
            ManyRows::Group(WeightSource::Halves) if self.decoded_bytes > MOST_DECODED_BYTES => {
                Some("there is no room for so many halves")
            }
            _ => None,
        }
    }

    /// Why a kernel does not take them.
    pub fn refusal(&self, caps: &Caps, by: ManyRows, n: usize, fusion: GemmFusion) -> Option<String> {
        let asked = self.request_or_usual(fusion);
        let of_format = self.formats.iter().find_map(|id| many::refusal(caps, by, id.format(), asked));
        let unpacked = || self.asked.is_none().then(|| "rows are not packed".into());
        let lie = || self.refuse_as_they_lie(by).map(String::from);
        // A kernel that is asked for has no other one of packed rows stand in for it.
        let other = || {
            let stuck = self.best(caps, n).is_some_and(|best| best != by && self.refuse_as_they_lie(best).is_some());
            stuck.then(|| "a better one does not take such matrices".into())
        };
        of_format.or_else(unpacked).or_else(lie).or_else(other)
    }
}

impl ProductQuery {
    fn packed(&self) -> PackedMatrices<'_> {
        PackedMatrices {
            formats: &self.formats,
            short: self.short,
            any_in_slabs: self.any_in_slabs,
            decoded_bytes: self.decoded_bytes,
            asked: self.packed_rows,
        }
    }

    fn refuse_matrices(&self, caps: &Caps) -> Option<String> {
        let refusal = refuse_matrices(caps, &self.formats, self.size.2, self.layout);
        refusal.or_else(|| self.short.then(|| "rows of matrices are short".into()))
    }

    /// Gate and up of two formats are no one product.
    fn refuse_both(&self) -> Option<String> {
        let differ = self.gate_and_up && self.formats.iter().any(|id| *id != self.formats[0]);
        differ.then(|| "gate and up differ in format".into())
    }

    fn refuse_few(&self) -> Option<String> {
        let n = self.size.2;
        match self.layout {
            _ if n > FEW => Some(format!("over {FEW} rows")),
            _ if !self.formats.iter().all(|id| few_takes(id.format(), n)) => {
                Some("tables are looked up too often".into())
            }
            Some(layout) if !layout.direct => Some(OTHER_LAYOUT.into()),
            _ => None,
        }
    }

    fn refuse_panels(&self, caps: &Caps) -> Option<String> {
        let fit = self.layout.is_some_and(|layout| layout.panels);
        self.formats.iter().find_map(|id| panels::refusal(caps, id.format(), self.size.2, fit))
    }

    /// Where matrices would do it but for what gate and up are, other kernels of packed rows do not either.
    fn refuse_rows(&self, caps: &Caps, by: ManyRows) -> Option<String> {
        let (n, packed) = (self.size.2, self.packed());
        let both = || self.refuse_matrices(caps).is_none().then(|| self.refuse_both()).flatten();
        let group = matches!(by, ManyRows::Group(_));
        packed.refusal(caps, by, n, self.fusion).or_else(|| if group { None } else { both() })
    }

    fn refuse_dot(&self, caps: &Caps) -> Option<String> {
        let (format, (_, k, n)) = (self.format.format(), self.size);
        let room = || dot_span(caps, format, k, n, self.fusion.activations).is_none();
        let room = || room().then(|| "shared memory holds too few activations".into());
        no_dots(caps, format).or_else(room)
    }

    fn refuse_small_tile(&self, caps: &Caps) -> Option<String> {
        let (m, k, n) = self.size;
        let small = small_floats(caps, self.format.format(), (m, k), n) && !self.gates && !self.in_slabs;
        let why = "not F32, or no small product, or in rows of odd length, or what is there gates it";
        (!small).then(|| why.into())
    }
}

impl Query for ProductQuery {
    type Kernel = ProductKernel;
    type Tile = ProductTile;

    fn kernels(&self, caps: &Caps) -> Vec<ProductKernel> {
        if self.short && !self.gate_and_up {
            return vec![Short];
        }
        let n = self.size.2;
        let mut all = vec![Few, Panels, Mat];
        if n > GEMV_MAX_COLS {
            let packed = self.packed();
            let rows = packed.kernels(caps, self.fusion).into_iter().map(Rows);
            let at = if packed.workgroups_first(caps, n) { 0 } else { all.len() };
            all.splice(at..at, rows);
        } else {
            all.extend([Dot, Float]);
        }
        if n > GEMV_MAX_COLS || self.refuse_both().is_some() {
            all.extend([SmallTile, Tile]);
        }
        all
    }

    fn name(kernel: ProductKernel) -> &'static str {
        kernel.name()
    }

    fn refusal(&self, caps: &Caps, kernel: ProductKernel) -> Option<String> {
        match kernel {
            Few => self.refuse_matrices(caps).or_else(|| self.refuse_few()).or_else(|| self.refuse_both()),
            Panels => self.refuse_matrices(caps).or_else(|| self.refuse_panels(caps)).or_else(|| self.refuse_both()),
            Mat => self.refuse_matrices(caps).or_else(|| self.refuse_both()),
            Rows(by) => self.refuse_rows(caps, by),
            Dot => self.refuse_dot(caps).or_else(|| self.refuse_both()),
            Float => self.refuse_both(),
            SmallTile => self.refuse_small_tile(caps),
            Short | Tile => None,
        }
    }

    fn tile(&self, caps: &Caps, kernel: ProductKernel) -> ProductTile {
        let (format, (m, k, n), fusion) = (self.format.format(), self.size, self.fusion);
        match kernel {
            Few | Mat => ProductTile::Matrix(matrix::mat_tile(caps, kernel == Few, format, (m, n), fusion)),
            Panels => ProductTile::Panels(panel_tile(caps, (m, k, n), fusion.gated)),
            Rows(by) => ProductTile::Rows(row_tile(caps, by, format, MOST_GROUP_ROWS)),
            Dot => ProductTile::Gemv(gemv_tile(caps, format, m, k, n, fusion)),
            Float => ProductTile::Gemv(float_tile(caps, format, (m, k), n, fusion.gated)),
            Short | SmallTile | Tile => ProductTile::Fixed,
        }
    }

    fn row(&self, caps: &Caps, kernel: ProductKernel) -> Option<(&'static str, Evidence)> {
        let (format, (m, k, n), fusion) = (self.format.format(), self.size, self.fusion);
        let few = || few_row(caps, format, (m, n), fusion);
        let dot = || gemv_row(caps, format, m, k, n, fusion);
        let float = || float_row(caps, format, (m, k), n, fusion.gated);
        match kernel {
            Few => Some(few()).map(|row| (row.name, row.evidence)),
            Dot => Some(dot()).map(|row| (row.name, row.evidence)),
            Float => Some(float()).map(|row| (row.name, row.evidence)),
            _ => None,
        }
    }

    fn tunable(&self, kernel: ProductKernel) -> Option<TunedProduct> {
        let (format, (m, k, n)) = (self.format.format(), self.size);
        let key = |k, fusion| Some(tuned::key(kernel.name(), &gemv::product(format, (m, k), n, fusion)));
        match kernel {
            Few => key(PACKED_LEN, self.fusion),
            Dot => key(k, self.fusion),
            Float => key(k, GemmFusion::default()),
            _ => None,
        }
    }
}

/// The shape of a kernel of products.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProductTile {
    /// The shape of `gemm_few` or `gemm_mat`.
    Matrix(MatTile),
    /// The shape of `gemm_panels`.
    Panels(PanelTile),
    /// The shape of kernels of packed rows.
    Rows(RowTile),
    /// The shape of `gemv_dot` or `gemv`.
    Gemv(GemvTile),
    /// The only one that the kernel has.
    Fixed,
}
