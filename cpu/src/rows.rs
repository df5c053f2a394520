//! Loops over rows of floats: norms, gates, rotations, the largest.

use crate::buffer::DisjointParts;
use crate::simd::{entries, exp, Simd, LANES};
use crate::{Cpu, Isa};

/// `silu(a) * b` → `out`.
pub fn silu_times(isa: Isa, a: &[f32], b: &[f32], out: &mut [f32]) {
    let len = a.len().min(b.len()).min(out.len());
    let whole = len / LANES * LANES;
    assert!(isa.is_here());
    // SAFETY: the instructions are there, and `whole` floats in each.
    unsafe { gate(isa, a.as_ptr(), b.as_ptr(), out.as_mut_ptr(), whole) };
    for i in whole..len {
        out[i] = a[i] / (1.0 + (-a[i]).exp()) * b[i];
    }
}

entries! {
    /// `out = silu(a) * b` for `len` floats, a multiple of 16.
    fn gate(a: *const f32, b: *const f32, out: *mut f32, len: usize) = gate_lanes;
    /// One row: `x / sqrt(mean(x²) + eps) * weight`.
    fn norm(x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) = norm_row;
}

/// # Safety
/// As of [`Simd`]; `len` floats each, a multiple of 16.
#[inline(always)]
unsafe fn gate_lanes<S: Simd>(a: *const f32, b: *const f32, out: *mut f32, len: usize) {
    // SAFETY: the caller answers for the instructions and for what is read and written.
    unsafe {
        for i in (0..len).step_by(LANES) {
            let x = S::load(a.add(i));
            let one = S::splat(1.0);
            let sigmoid = S::div(x, S::add(one, exp::<S>(S::sub(S::splat(0.0), x))));
            S::store(out.add(i), S::mul(sigmoid, S::load(b.add(i))));
        }
    }
}

/// # Safety
/// As of [`Simd`].
#[inline(always)]
unsafe fn norm_row<S: Simd>(x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) {
    let len = x.len().min(weight.len()).min(out.len());
    let whole = len / LANES * LANES;
    // SAFETY: the caller answers for the instructions; `whole` floats are in each slice.
    unsafe {
        let mut sums = [S::splat(0.0); 4];
        for (i, at) in (0..whole).step_by(LANES).enumerate() {
            let v = S::load(x.as_ptr().add(at));
            sums[i % 4] = S::fma(v, v, sums[i % 4]);
        }
        let mut sum = S::total(S::add(S::add(sums[0], sums[1]), S::add(sums[2], sums[3])));
        sum += x[whole..len].iter().map(|v| v * v).sum::<f32>();
        let scale = 1.0 / (sum / len as f32 + eps).sqrt();
        for at in (0..whole).step_by(LANES) {
            let v = S::mul(S::load(x.as_ptr().add(at)), S::splat(scale));
            S::store(out.as_mut_ptr().add(at), S::mul(v, S::load(weight.as_ptr().add(at))));
        }
        for i in whole..len {
            out[i] = x[i] * scale * weight[i];
        }
    }
}

/// One row's norm, on the calling thread.
pub fn rms_norm(isa: Isa, x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) {
    assert!(isa.is_here());
    // SAFETY: the instructions are there.
    unsafe { norm(isa, x, weight, eps, out) }
}

/// Index of the largest; the first of equals. None if one is NaN.
pub fn argmax(x: &[f32]) -> Option<u32> {
    let mut most = [f32::NEG_INFINITY; LANES];
    let mut odd = [0f32; LANES];
    let (chunks, rest) = (x.chunks_exact(LANES), x.chunks_exact(LANES).remainder());
    for chunk in chunks.chain(std::iter::once(rest)) {
        for ((most, odd), x) in most.iter_mut().zip(&mut odd).zip(chunk) {
            *most = if *x > *most { *x } else { *most };
            // Not a number if x is none: infinite ones are numbers here.
            *odd += if x.is_nan() { 1.0 } else { 0.0 };
        }
    }
    if odd.iter().any(|o| *o > 0.0) {
        return None;
    }
    let most = most.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    x.iter().position(|x| *x == most).map(|i| i as u32)
}

impl Cpu {
    /// Calls `body(row, out)` for rows of `width` floats, on all threads; few rows are done by this one.
    pub fn rows(&self, out: &mut [f32], width: usize, body: &(dyn Fn(usize, &mut [f32]) + Sync)) {
        let rows = out.len() / width.max(1);
        let shared = DisjointParts::new(out);
        let chunk = if rows <= 2 { rows.max(1) } else { rows.div_ceil(4 * self.pool.threads()) };
        self.pool.each(rows.div_ceil(chunk), &|item| {
            for row in item * chunk..rows.min((item + 1) * chunk) {
                // SAFETY: every row is of one item.
                body(row, unsafe { shared.part(row * width, width) });
            }
        });
    }
}
