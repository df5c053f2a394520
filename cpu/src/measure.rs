//! What the threads and instructions of this machine reach at the most: the yardstick of a kernel's bytes and operations per
//! second.

use crate::buffer::{Buffer, DisjointParts};
use crate::simd::{entries, Simd, LANES};
use crate::Cpu;
use std::hint::black_box;
use std::time::Instant;

/// Bytes streamed: several times the largest caches of servers.
const BYTES: usize = 256 << 20;
/// Bytes that a thread takes at a time.
const CHUNK: usize = 1 << 20;
/// Runs of each; the best counts, for it is the one least disturbed.
const RUNS: usize = 5;
/// Turns of a loop of instructions, some milliseconds, and how often each thread does them.
const TURNS: usize = 100_000;
const TIMES: usize = 4;
/// Loops without work.
const LOOPS: usize = 1000;

/// Measured rates of all threads of a pool together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// Bytes per second of a loop that only reads.
    pub read: f64,
    /// Bytes per second of a loop that copies, bytes read and bytes written together.
    pub copy: f64,
    /// Operations per second, two for each multiply-add of floats in registers.
    pub fma: f64,
    /// Operations per second of dot products of bytes, as products with activations of 8 bits add them up.
    pub dot: f64,
    /// Seconds that a loop takes in which nothing is done.
    pub start: f64,
}

/// Sums that a loop of instructions has at once: enough that none waits for another.
#[inline(always)]
const fn sums<S: Simd>() -> usize {
    if S::COLUMNS >= 6 {
        12
    } else {
        6
    }
}

/// Sum of `len` floats, a multiple of 64.
///
/// # Safety
/// As of [`Simd`]; `len` floats at `x`.
#[inline(always)]
unsafe fn read_lanes<S: Simd>(x: *const f32, len: usize) -> f32 {
    // SAFETY: the caller answers for the instructions and for what is read.
    unsafe {
        let mut sums = [S::splat(0.0); 4];
        for at in (0..len).step_by(4 * LANES) {
            S::prefetch(x.wrapping_add(at + 1024).cast());
            S::prefetch(x.wrapping_add(at + 1024 + LANES).cast());
            S::prefetch(x.wrapping_add(at + 1024 + 2 * LANES).cast());
            S::prefetch(x.wrapping_add(at + 1024 + 3 * LANES).cast());
            for (i, sum) in sums.iter_mut().enumerate() {
                *sum = S::add(*sum, S::load(x.add(at + i * LANES)));
            }
        }
        S::total(S::add(S::add(sums[0], sums[1]), S::add(sums[2], sums[3])))
    }
}

/// # Safety
/// As of [`Simd`].
#[inline(always)]
unsafe fn fma_of<S: Simd, const N: usize>(turns: usize, x: f32) -> f32 {
    // SAFETY: the caller answers for the instructions; no memory is touched.
    unsafe {
        let (a, b) = (S::splat(x), S::splat(1.0 - x));
        let mut sums = [b; N];
        sums.iter_mut().for_each(|sum| *sum = black_box(*sum)); // or the compiler sees that all are the same
        for _ in 0..turns {
            for sum in &mut sums {
                *sum = S::fma(*sum, a, b);
            }
        }
        let mut all = sums[0];
        for sum in &sums[1..] {
            all = S::add(all, *sum);
        }
        S::total(all)
    }
}

/// # Safety
/// As of [`Simd`].
#[inline(always)]
unsafe fn fma_lanes<S: Simd>(turns: usize, x: f32) -> f32 {
    // SAFETY: the caller answers for the instructions.
    unsafe {
        if sums::<S>() == 12 {
            fma_of::<S, 12>(turns, x)
        } else {
            fma_of::<S, 6>(turns, x)
        }
    }
}

/// # Safety
/// As of [`Simd`]; four codes at `a`.
#[inline(always)]
unsafe fn dot_of<S: Simd, const N: usize>(turns: usize, a: *const i8) -> f32 {
    // SAFETY: the caller answers for the instructions and the codes.
    unsafe {
        let u = S::splat_byte(1);
        let mut sums = [S::no_sum(); N];
        sums.iter_mut().for_each(|sum| *sum = black_box(*sum)); // or the compiler sees that all are the same
        for _ in 0..turns {
            // The codes are read again, as products do.
            let a = black_box(a);
            for sum in &mut sums {
                *sum = S::dot(*sum, u, a);
            }
        }
        let mut all = S::floats(sums[0]);
        for sum in &sums[1..] {
            all = S::add(all, S::floats(*sum));
        }
        S::total(all)
    }
}

/// # Safety
/// As of [`dot_of`].
#[inline(always)]
unsafe fn dot_lanes<S: Simd>(turns: usize, a: *const i8) -> f32 {
    // SAFETY: the caller answers for the instructions and the codes.
    unsafe {
        if sums::<S>() == 12 {
            dot_of::<S, 12>(turns, a)
        } else {
            dot_of::<S, 6>(turns, a)
        }
    }
}

/// # Safety
/// As of [`Simd`].
#[inline(always)]
unsafe fn sums_of<S: Simd>() -> usize {
    sums::<S>()
}

entries! {
    /// Sum of `len` floats, a multiple of 64.
    fn read(x: *const f32, len: usize) -> f32 = read_lanes;
    /// So many turns of independent multiply-adds.
    fn fma(turns: usize, x: f32) -> f32 = fma_lanes;
    /// So many turns of independent dots of bytes.
    fn dot(turns: usize, a: *const i8) -> f32 = dot_lanes;
    /// Instructions of a turn of both.
    fn instructions() -> usize = sums_of;
}

/// Least seconds of a few runs.
fn best(mut run: impl FnMut()) -> f64 {
    let mut least = f64::INFINITY;
    for _ in 0..RUNS {
        let begun = Instant::now();
        run();
        least = least.min(begun.elapsed().as_secs_f64());
    }
    least.max(1e-9)
}

impl Cpu {
    /// Measures with the threads that the pool takes now: a second or so, and 256 MiB of memory.
    pub fn rates(&self) -> Rates {
        let isa = self.isa;
        assert!(isa.is_here());
        let mut buffer = Buffer::new(BYTES);
        let (from, to) = buffer.bytes_mut().split_at_mut(BYTES / 2);
        // Pages that nobody wrote are all the same one.
        from.fill(1);
        let (from, to) = (&*from, DisjointParts::new(to));
        let copy = best(|| {
            self.pool.each(BYTES / 2 / CHUNK, &|i| {
                // SAFETY: every chunk is of one item.
                unsafe { to.part(i * CHUNK, CHUNK) }.copy_from_slice(&from[i * CHUNK..][..CHUNK]);
            });
        });
        let all = buffer.bytes();
        let read = best(|| {
            self.pool.each(BYTES / CHUNK, &|i| {
                // SAFETY: the instructions are there, and a chunk of whole floats, aligned to cache lines.
                black_box(unsafe { read(isa, all[i * CHUNK..][..CHUNK].as_ptr().cast(), CHUNK / 4) });
            });
        });
        let items = self.pool.threads() * TIMES;
        let (x, codes) = (black_box(0.5), black_box([1i8; 4]));
        let fma = best(|| {
            self.pool.each(items, &|_| {
                // SAFETY: the instructions are there.
                black_box(unsafe { fma(isa, TURNS, x) });
            });
        });
        let dot = best(|| {
            self.pool.each(items, &|_| {
                // SAFETY: the instructions are there, and four codes.
                black_box(unsafe { dot(isa, TURNS, codes.as_ptr()) });
            });
        });
        // SAFETY: nothing is executed but what the compiler made of a constant.
        let count = (items * TURNS * unsafe { instructions(isa) } * LANES) as f64;
        let start = best(|| (0..LOOPS).for_each(|_| self.pool.each(items, &|i| _ = black_box(i)))) / LOOPS as f64;
        Rates {
            start,
            read: BYTES as f64 / read,
            copy: BYTES as f64 / copy,
            fma: 2.0 * count / fma,
            dot: 8.0 * count / dot,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Isa, ThreadPool};

    #[test]
    fn rates_are_of_real_work() {
        for isa in Isa::ALL.into_iter().filter(|isa| isa.is_here()) {
            let x: Vec<f32> = (0..256).map(|i| i as f32).collect();
            // SAFETY: the instructions are there, and 256 floats; four codes.
            let (sum, dots, count) =
                unsafe { (read(isa, x.as_ptr(), 256), dot(isa, 3, [1, 2, 3, 4].as_ptr()), instructions(isa)) };
            assert_eq!(sum, 255.0 * 128.0, "{isa:?}");
            assert_eq!(dots, (3 * count * LANES * 10) as f32, "{isa:?}");
            // SAFETY: as above.
            assert_eq!(unsafe { fma(isa, 5, 0.5) }, (count * LANES) as f32 * (1.0 - 0.5f32.powi(6)), "{isa:?}");
        }
        let rates = Cpu { pool: ThreadPool::new(2, |_| ()), isa: Isa::best() }.rates();
        assert!([rates.read, rates.copy, rates.fma, rates.dot].iter().all(|r| r.is_finite() && *r > 1e6), "{rates:?}");
    }
}
