//! Activations in 8 bits, as the integer kernels read them.
//!
//! A row is a record of 64 bytes for each cell of 32 columns: 32 codes, their scale, and sums of the codes, for formats with
//! minima and for instructions that only multiply unsigned with signed bytes.

use crate::layout::CELL;
use crate::simd::{entries, Simd};
use crate::Isa;

/// Bytes of a cell.
pub(crate) const RECORD: usize = 64;
/// f32: what codes are multiplied with.
pub(crate) const SCALE: usize = 32;
/// i32: -128 times the sum of all codes.
pub(crate) const BIAS: usize = 36;
/// i32, two: -128 times the sum of 16 codes.
pub(crate) const BIAS_16: usize = 40;
/// f32: the sum of all codes, times the scale.
pub(crate) const SUM: usize = 48;
/// f32, two: the sum of 16 codes, times the scale.
pub(crate) const SUM_16: usize = 52;

/// A record, aligned as a cache line.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Record([u8; RECORD]);

/// Rows of activations in 8 bits.
#[derive(Default)]
pub struct Acts {
    records: Vec<Record>,
    cells: usize,
}

impl Acts {
    /// Makes room for `rows` rows of `cols` columns, a multiple of 32. What was there is lost.
    pub fn resize(&mut self, rows: usize, cols: usize) {
        self.cells = cols / CELL;
        let len = rows * self.cells;
        if self.records.len() < len {
            self.records.resize(len, Record([0; RECORD]));
        }
    }

    /// Columns.
    pub fn cols(&self) -> usize {
        self.cells * CELL
    }

    /// The records of a row.
    pub(crate) fn row(&self, row: usize) -> *const u8 {
        self.records[row * self.cells..][..self.cells].as_ptr().cast()
    }

    /// The records of rows from `row` on, to write.
    fn room(&mut self, row: usize, rows: usize) -> *mut u8 {
        self.records[row * self.cells..][..rows * self.cells].as_mut_ptr().cast()
    }

    /// Sets all rows from `x`, `[rows, cols]`, in chunks that `pool` deals out.
    ///
    /// # Panics
    /// If `x` is not of whole rows.
    pub fn set(&mut self, pool: &crate::ThreadPool, isa: Isa, x: &[f32], cols: usize) {
        assert!(cols.is_multiple_of(CELL) && x.len().is_multiple_of(cols.max(1)), "rows of whole cells");
        let cells = x.len() / CELL;
        self.resize(x.len() / cols.max(1), cols);
        if cells == 0 {
            return;
        }
        struct SharedOutput(*mut u8);
        // SAFETY: each chunk writes records of its own.
        unsafe impl Sync for SharedOutput {}
        let out = SharedOutput(self.room(0, x.len() / cols));
        // Few cells take less time than it takes to wake the others.
        let chunk = 256;
        pool.each(cells.div_ceil(chunk), &|i| {
            let out = &out;
            let (from, count) = (i * chunk, chunk.min(cells - i * chunk));
            // SAFETY: the instructions are there, `count` cells of 32 floats are read and as many records written.
            unsafe { quantize(isa, x[from * CELL..].as_ptr(), count, out.0.add(from * RECORD)) };
        });
    }
}

entries! {
    /// Codes of `cells` cells of floats at `x` into records at `out`.
    fn quantize(x: *const f32, cells: usize, out: *mut u8) = quantize_cells;
}

/// # Safety
/// As of [`Simd`]; `x` has 32 floats and `out` a record for each cell.
#[inline(always)]
unsafe fn quantize_cells<S: Simd>(x: *const f32, cells: usize, out: *mut u8) {
    // SAFETY: the caller answers for the instructions and for what is read and written.
    unsafe {
        for i in 0..cells {
            let (x, out) = (x.add(i * CELL), out.add(i * RECORD));
            let (a, b) = (S::load(x), S::load(x.add(16)));
            let largest = S::largest(S::max(S::abs(a), S::abs(b)));
            // NaN if one is NaN or infinite, else 0: a scale that is NaN makes every product NaN, as in floats.
            let zero = S::splat(0.0);
            let odd = S::total(S::fma(a, zero, S::mul(b, zero)));
            let scale = largest / 127.0 + odd;
            let inverse = S::splat(if largest > 1e-30 && odd == 0.0 { 127.0 / largest } else { 0.0 });
            let (qa, qb) = (S::round(S::mul(a, inverse)), S::round(S::mul(b, inverse)));
            let codes = out.cast::<i8>();
            if odd == 0.0 {
                S::put_codes(codes, qa);
                S::put_codes(codes.add(16), qb);
            } else {
                codes.write_bytes(0, CELL);
            }
            let (sa, sb) = if odd == 0.0 { (S::total(qa), S::total(qb)) } else { (0.0, 0.0) };
            out.add(SCALE).cast::<f32>().write(scale);
            out.add(BIAS).cast::<i32>().write(-128 * (sa + sb) as i32);
            out.add(BIAS_16).cast::<[i32; 2]>().write([-128 * sa as i32, -128 * sb as i32]);
            out.add(SUM).cast::<f32>().write(scale * (sa + sb));
            out.add(SUM_16).cast::<[f32; 2]>().write([scale * sa, scale * sb]);
        }
    }
}
