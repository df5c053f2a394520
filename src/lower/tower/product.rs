//! Products with weight matrices, by the kernels that the text model's go by.

use super::{Lowering, Touched};
use crate::lower::dispatch::Module;
use pumex_media::graph::{Part, Weight, WeightUse};
use pumex_quant::FormatId;
use pumex_shaders::push;

/// Weights of a row that kernels read at a time.
const FLOATS_AT_A_TIME: usize = 32;
/// Numbers that they read of activations.
const WIDE: usize = 4;

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

impl Lowering<'_> {
    pub(super) fn matmul(&mut self, x: Part, weight: Weight, bias: Option<Weight>, out: Part) {
        let Stored { format, cols: k } = self.t.weights[weight.0].stored;
        let (n, m, mut stride) = (self.rows(x.val), self.graph.weights[weight.0].rows, self.cols(x.val));
        let fits = x.cols == k && stride.is_multiple_of(WIDE) && x.at.is_multiple_of(WIDE);
        let (at, read) = if fits { (self.part_at(x), self.part(x)) } else { self.padded(x, k) };
        if !fits {
            stride = k;
        }
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
            x_width: stride as u32,
            ..push::Gemm::default()
        };
        let spec = vec![("EPILOGUE", 0), ("HEADS", 1), ("SOA", u32::from(self.t.soa))];
        let grid = [m.div_ceil(64), n.div_ceil(64), 1];
        let touched = Touched { reads: vec![read], writes: vec![self.part(out)] };
        self.emit(Module::with("gemm_tile", format.format().stem), spec, push, grid, touched);
    }
}
