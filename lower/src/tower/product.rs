//! Products with weight matrices, by the kernels that the text model's go by.

use super::{Access, Lowering, Place, PlanVal, Touched};
use crate::dispatch::Module;
use crate::policy;
use crate::policy::matrix::PACKED_LEN;
use crate::policy::panels as tiles;
use pumex_media::graph::{Part, Weight, WeightUse};
use pumex_quant::{Format, FormatId};
use pumex_shaders::push;

/// Weights of a row that kernels read at a time.
const FLOATS_AT_A_TIME: usize = 32;
/// Numbers that they read of activations, and store.
const WIDE: usize = 4;
/// Threads that pack a row.
const PACK_THREADS: u32 = 256;

/// How a weight lies on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Its weight format.
    pub format: FormatId,
    /// Columns of a row: behind those of the tensor come zeros.
    pub cols: usize,
}

/// How a tensor of a weight format is to lie for what it is used for. What is read as floats is that; matrices of products keep their
/// format, but those of blocks that do not fit their rows become floats, and rows of floats are made as long as kernels take them.
pub fn stored(used: &WeightUse, format: FormatId) -> Stored {
    let float = format.format().block_len == 1;
    let blocks = !float && !used.transposed && used.cols.is_multiple_of(format.format().block_len);
    match () {
        () if used.floats => Stored { format: FormatId::F32, cols: used.cols },
        () if blocks => Stored { format, cols: used.cols },
        () => {
            let halves = matches!(format, FormatId::F16 | FormatId::Bf16);
            let cols = used.cols.next_multiple_of(FLOATS_AT_A_TIME);
            Stored { format: if halves { format } else { FormatId::F32 }, cols }
        }
    }
}

/// Rows that were packed for products by panels.
#[derive(Clone)]
pub(super) struct Packed {
    /// What was packed.
    pub x: Part,
    /// Columns with the zeros behind them.
    cols: usize,
    codes: (u64, Access),
    factors: (u64, Access),
}

/// A product of `n` rows of `k` inputs with a matrix of `m` rows.
#[derive(Clone, Copy)]
struct TowerProduct {
    weight: Weight,
    bias: Option<Weight>,
    out: Part,
    format: &'static Format,
    sizes: [usize; 3],
}

impl Lowering<'_> {
    pub(super) fn matmul(&mut self, x: Part, weight: Weight, bias: Option<Weight>, out: Part) {
        let Stored { format, cols: k } = self.t.weights[weight.0].stored;
        let format = format.format();
        let (n, m) = (self.rows(x.val), self.graph.weights[weight.0].rows);
        let product = TowerProduct { weight, bias, out, format, sizes: [n, m, k] };
        if policy::by_panels(self.t.caps, std::iter::once(format), n, self.t.panels) {
            return self.by_panels(x, product);
        }
        let stride = self.cols(x.val);
        let fits = x.cols == k && stride.is_multiple_of(WIDE) && x.at.is_multiple_of(WIDE);
        let (at, read) = if fits { (self.part_at(x), self.part(x)) } else { self.pad(x, k) };
        let push = push::Gemm {
            w: self.weight_at(weight),
            bias: self.opt(bias),
            x: at,
            y: self.part_at(out),
            tables: self.t.at.tables,
            k: k as u32,
            m: m as u32,
            n: n as u32,
            y_stride: self.cols(out.val) as u32,
            flags: u32::from(bias.is_some()),
            scale: 1.0,
            x_width: if fits { stride } else { k } as u32,
            ..push::Gemm::default()
        };
        let spec = vec![("EPILOGUE", 0), ("HEADS", 1), ("SOA", u32::from(self.t.soa))];
        let grid = [m.div_ceil(64), n.div_ceil(64), 1];
        let touched = Touched { reads: vec![read], writes: vec![self.part(out)] };
        self.emit(Module::with("gemm_tile", format.stem), spec, push, grid, touched);
    }

    /// Packs rows, unless these came last.
    fn pack(&mut self, x: Part, k: usize) -> Packed {
        if let Some(packed) = self.packed.clone().filter(|packed| packed.x == x && packed.cols == k) {
            self.extend(&packed.codes.1);
            self.extend(&packed.factors.1);
            return packed;
        }
        let n = self.rows(x.val);
        // Rows without gaps may be shorter than those of the matrix.
        let fits = x.cols == self.cols(x.val) && x.cols.is_multiple_of(WIDE);
        let (at, read) = if fits { (self.part_at(x), self.part(x)) } else { self.pad(x, k) };
        let rows = tiles::packed_rows(n);
        let all = rows.next_multiple_of(tiles::PANEL_ROWS) * k.next_multiple_of(PACKED_LEN);
        let bytes = 2 * all + tiles::READ_AHEAD;
        let (codes, factors) = (self.scratch(bytes as u64), self.scratch(4 * rows as u64));
        let (n, codes_at, factors_at) = (n as u32, codes.0, factors.0);
        let push = push::PackPanels { x: at, codes: codes_at, factors: factors_at, n, ..push::PackPanels::default() };
        let width = if fits { x.cols } else { k };
        let spec = vec![("SIZE", PACK_THREADS), ("K", k as u32), ("NORM", 0), ("WIDTH", width as u32)];
        let touched = Touched { reads: vec![read], writes: vec![codes.1.clone(), factors.1.clone()] };
        self.emit(Module::of("pack_panels"), spec, push, [rows, 1, 1], touched);
        let packed = Packed { x, cols: k, codes, factors };
        self.packed = Some(packed.clone());
        packed
    }

    fn by_panels(&mut self, x: Part, p: TowerProduct) {
        let TowerProduct { weight, bias, out, format, sizes: [n, m, k] } = p;
        let packed = self.pack(x, k);
        let product = push::Gemv {
            w0: self.weight_at(weight),
            b0: self.opt(bias),
            x: packed.codes.0,
            y: self.part_at(out),
            tables: self.t.at.tables,
            norm: packed.factors.0,
            k: k as u32,
            m0: m as u32,
            m01: m as u32,
            m: m as u32,
            y_stride: self.cols(out.val) as u32,
            flags: u32::from(bias.is_some()) | (n << 8) as u32,
            s0: 1.0,
            s1: 1.0,
            s2: 1.0,
            ..push::Gemv::default()
        };
        let tile = tiles::PanelTile { split: 1, ..tiles::panel_tile(self.t.caps, (m, k, n), false) };
        let whole = [m, out.at, self.cols(out.val)].iter().all(|size| size.is_multiple_of(WIDE));
        let mut spec = tile.spec(k, (false, false, self.t.soa));
        spec.push(("WHOLE_ROWS", u32::from(whole)));
        let grid = [n.div_ceil(tile.rows), m.div_ceil(tile.outputs), 1];
        let touched = Touched { reads: vec![packed.codes.1, packed.factors.1], writes: vec![self.part(out)] };
        let push = push::GemmPanels { product, split: 0 };
        self.emit(Module::with(tiles::PANELS, format.stem), spec, push, grid, touched);
    }

    /// Keeps bytes that an op before asked for until this one.
    fn extend(&mut self, access: &Access) {
        if let Place::Value(PlanVal(value)) = access.place {
            self.scratch[value - self.graph.buffers.len()].ops.1 = self.op;
        }
    }
}
