//! The vectors that kernels are written with, once for all instruction sets: 16 lanes, one for each row of a tile.
//!
//! A type that implements [`Simd`] is an instruction set. Kernels are generic over it and always inlined into an entry point
//! that is compiled for that set ([`entries`]), which is the only place that decides.
//!
//! Every method is `unsafe` for the same reason: the machine must have the instructions, and pointers must be valid for
//! what the method says it reads or writes. Whoever enters a kernel has checked the former with [`crate::Isa::is_here`].

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;
mod portable;

#[cfg(target_arch = "x86_64")]
pub use avx2::{Avx2, AvxVnni};
#[cfg(target_arch = "x86_64")]
pub use avx512::Avx512;
#[cfg(target_arch = "aarch64")]
pub use neon::{Neon, NeonI8mm};
pub use portable::Portable;

/// Rows of a tile, and lanes of a vector.
pub const LANES: usize = 16;

/// An instruction set.
#[allow(clippy::missing_safety_doc)] // said once, for the whole trait, at the top of the file
pub trait Simd: Copy + 'static {
    /// 64 bytes: four neighbouring weights of each of 16 rows.
    type B: Copy;
    /// 16 integers of 32 bits.
    type I: Copy;
    /// 16 floats.
    type F: Copy;
    /// Columns that a product's sums stay in registers for.
    const COLUMNS: usize;
    /// Whether columns are multiplied two at a time, by [`Simd::dot_two`].
    const TWO: bool = false;

    /// Asks for the cache line at `p`, which need not be there.
    unsafe fn prefetch(p: *const u8);
    /// Asks for the cache line at `p`, which need not be there, into the second-level cache.
    unsafe fn prefetch_second(p: *const u8);
    /// 64 bytes.
    unsafe fn bytes(p: *const u8) -> Self::B;
    /// Writes 64 bytes.
    unsafe fn put_bytes(p: *mut u8, b: Self::B);
    /// A vector of 64 bytes that all are `b`.
    unsafe fn splat_byte(b: u8) -> Self::B;
    /// A table of 16 bytes for [`Simd::look_up`].
    unsafe fn table(p: *const u8) -> Self::B;
    /// Bits of both.
    unsafe fn and(a: Self::B, b: Self::B) -> Self::B;
    /// Bits of either.
    unsafe fn or(a: Self::B, b: Self::B) -> Self::B;
    /// Sums of bytes, modulo 256.
    unsafe fn add_bytes(a: Self::B, b: Self::B) -> Self::B;
    /// Right by so many bits within pairs of bytes: what comes in from the neighbour is the caller's to mask.
    unsafe fn right<const N: u32>(a: Self::B) -> Self::B;
    /// Left, likewise.
    unsafe fn left<const N: u32>(a: Self::B) -> Self::B;
    /// Entries of the table by indices below 16.
    unsafe fn look_up(table: Self::B, index: Self::B) -> Self::B;

    /// Transposes words of 16 rows of 16 bytes, `apart` bytes apart: their first words side by side, their second ones, and so on.
    #[inline(always)]
    unsafe fn words(p: *const u8, apart: usize) -> [Self::B; 4] {
        let mut words = [[0u32; LANES]; 4];
        // SAFETY: the caller answers for the rows.
        unsafe {
            for row in 0..LANES {
                for (j, words) in words.iter_mut().enumerate() {
                    words[row] = p.add(row * apart + 4 * j).cast::<u32>().read_unaligned();
                }
            }
            let vector = |j: usize| Self::bytes(words[j].as_ptr().cast());
            [vector(0), vector(1), vector(2), vector(3)]
        }
    }

    /// Zeros.
    unsafe fn no_sum() -> Self::I;
    /// What [`Simd::dot_biased`] starts from, if `correction` is -128 times the sum of the codes it will be given.
    unsafe fn biased_sum(correction: i32) -> Self::I;
    /// Adds, per lane, the products of four weights `u` below 128 with four codes at `a`.
    unsafe fn dot(sum: Self::I, u: Self::B, a: *const i8) -> Self::I;
    /// Adds, per lane, the products of four weights `u - 128` with four codes at `a`.
    unsafe fn dot_biased(sum: Self::I, u: Self::B, a: *const i8) -> Self::I;
    /// Adds the products of eight weights of each row, below 128 or, if biased, of these less 128, with eight codes of two columns. Four
    /// are in each of `u`; which lane has what sum is known to [`Simd::columns`] alone.
    unsafe fn dot_two<const BIASED: bool>(sums: [Self::I; 2], _u: [Self::B; 2], _a: [*const i8; 2]) -> [Self::I; 2] {
        sums
    }
    /// The sums of each column.
    unsafe fn columns(sums: [Self::I; 2]) -> [Self::I; 2] {
        sums
    }
    /// Sums of integers.
    unsafe fn add_sums(a: Self::I, b: Self::I) -> Self::I;
    /// Converts the integers of all lanes to floats.
    unsafe fn floats(a: Self::I) -> Self::F;

    /// 16 floats.
    unsafe fn load(p: *const f32) -> Self::F;
    /// Writes 16 floats.
    unsafe fn store(p: *mut f32, a: Self::F);
    /// A vector of 16 floats that all are `x`.
    unsafe fn splat(x: f32) -> Self::F;
    /// 16 halves.
    unsafe fn halves(p: *const u16) -> Self::F;
    /// 16 numbers of 16 bits, the upper halves of floats.
    unsafe fn brains(p: *const u16) -> Self::F;
    /// 16 signed bytes.
    unsafe fn signed(p: *const u8) -> Self::F;
    /// 16 unsigned bytes.
    unsafe fn unsigned(p: *const u8) -> Self::F;
    /// Rounds to the nearest integers, which must fit a signed byte, and writes them.
    unsafe fn put_codes(p: *mut i8, a: Self::F);
    /// `a + b`
    unsafe fn add(a: Self::F, b: Self::F) -> Self::F;
    /// `a - b`
    unsafe fn sub(a: Self::F, b: Self::F) -> Self::F;
    /// `a * b`
    unsafe fn mul(a: Self::F, b: Self::F) -> Self::F;
    /// `a / b`
    unsafe fn div(a: Self::F, b: Self::F) -> Self::F;
    /// `a * b + c`
    unsafe fn fma(a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    /// `c - a * b`
    unsafe fn fnma(a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    /// The larger ones; `b` where one is NaN.
    unsafe fn max(a: Self::F, b: Self::F) -> Self::F;
    /// The smaller ones; `b` where one is NaN.
    unsafe fn min(a: Self::F, b: Self::F) -> Self::F;
    /// Without signs.
    unsafe fn abs(a: Self::F) -> Self::F;
    /// Nearest integers.
    unsafe fn round(a: Self::F) -> Self::F;
    /// `a` times two to the power `n`, integers between -126 and 127.
    unsafe fn scale_by_power(a: Self::F, n: Self::F) -> Self::F;
    /// Sum of all lanes.
    unsafe fn total(a: Self::F) -> f32;
    /// Whether 16 of these sums cost much less together.
    const TOTALS: bool = false;
    /// The sums of each one's lanes, to the bit what [`Simd::total`] gives.
    #[inline(always)]
    unsafe fn totals(all: [Self::F; LANES]) -> Self::F {
        // SAFETY: the caller answers for the instructions; the array has 16 floats.
        unsafe {
            let mut sums = [0f32; LANES];
            for (sum, a) in sums.iter_mut().zip(all) {
                *sum = Self::total(a);
            }
            Self::load(sums.as_ptr())
        }
    }
    /// Largest of all lanes.
    unsafe fn largest(a: Self::F) -> f32;
}

/// Defines methods of an instruction set, whose bodies may use its intrinsics.
macro_rules! methods {
    ($($(#[$about:meta])* fn $name:ident $(<const $n:ident: $nt:ty>)? ($($a:ident: $t:ty),*) $(-> $r:ty)? = $body:expr;)*) => { $(
        #[inline(always)]
        $(#[$about])*
        unsafe fn $name $(<const $n: $nt>)? ($($a: $t),*) $(-> $r)? {
            // SAFETY: the caller of every method of `Simd` answers for the instructions and the pointers.
            #[allow(unused_unsafe)]
            unsafe { $body }
        }
    )* };
}
pub(crate) use methods;

/// `e` to the power of `x`, within 2 units in the last place; 0 below -87.
///
/// # Safety
/// As of [`Simd`].
#[inline(always)]
pub unsafe fn exp<S: Simd>(x: S::F) -> S::F {
    // SAFETY: the caller answers for the instructions; no memory is touched.
    unsafe {
        let x = S::min(S::splat(88.0), S::max(S::splat(-87.0), x));
        let n = S::round(S::mul(x, S::splat(std::f32::consts::LOG2_E)));
        // x - n ln 2 in two pieces, so that the first product is exact.
        let r = S::fnma(n, S::splat(0.693_359_4), x);
        let r = S::fnma(n, S::splat(-2.121_944_4e-4), r);
        let mut p = S::splat(1.0 / 5040.0);
        for c in [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
            p = S::fma(p, r, S::splat(c));
        }
        S::scale_by_power(p, n)
    }
}

/// Functions for each instruction set, with a safe one that takes the set as its first argument.
///
/// `entries! { fn name(args) -> R = generic; }` calls `generic::<S>(args)`, an always inlined `unsafe fn`.
macro_rules! entries {
    ($($(#[$about:meta])* $v:vis fn $name:ident($($a:ident: $t:ty),* $(,)?) $(-> $r:ty)? = $body:ident;)*) => { $(
        $(#[$about])*
        ///
        /// # Safety
        /// The instruction set is one that [`crate::Isa::is_here`] found; the rest is as of the generic function.
        #[allow(clippy::too_many_arguments)]
        $v unsafe fn $name(isa: $crate::Isa, $($a: $t),*) $(-> $r)? {
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,f16c")]
            #[allow(clippy::too_many_arguments)]
            unsafe fn avx2($($a: $t),*) $(-> $r)? {
                // SAFETY: the instructions are enabled here; the rest is the caller's.
                unsafe { $body::<$crate::simd::Avx2>($($a),*) }
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,f16c,avxvnni")]
            #[allow(clippy::too_many_arguments)]
            unsafe fn avx_vnni($($a: $t),*) $(-> $r)? {
                // SAFETY: the instructions are enabled here; the rest is the caller's.
                unsafe { $body::<$crate::simd::AvxVnni>($($a),*) }
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
            #[allow(clippy::too_many_arguments)]
            unsafe fn avx512($($a: $t),*) $(-> $r)? {
                // SAFETY: the instructions are enabled here; the rest is the caller's.
                unsafe { $body::<$crate::simd::Avx512>($($a),*) }
            }
            #[allow(clippy::too_many_arguments)]
            #[cfg(target_arch = "aarch64")]
            #[target_feature(enable = "neon,dotprod")]
            #[allow(clippy::too_many_arguments)]
            unsafe fn neon($($a: $t),*) $(-> $r)? {
                // SAFETY: the instructions are enabled here; the rest is the caller's.
                unsafe { $body::<$crate::simd::Neon>($($a),*) }
            }
            #[cfg(target_arch = "aarch64")]
            #[target_feature(enable = "neon,dotprod,i8mm")]
            #[allow(clippy::too_many_arguments)]
            unsafe fn neon_i8mm($($a: $t),*) $(-> $r)? {
                // SAFETY: the instructions are enabled here; the rest is the caller's.
                unsafe { $body::<$crate::simd::NeonI8mm>($($a),*) }
            }
            // SAFETY: the caller has seen that the machine has the instructions; the rest is the caller's, too.
            unsafe {
                match isa {
                    #[cfg(target_arch = "x86_64")]
                    $crate::Isa::Avx2 => avx2($($a),*),
                    #[cfg(target_arch = "x86_64")]
                    $crate::Isa::AvxVnni => avx_vnni($($a),*),
                    #[cfg(target_arch = "x86_64")]
                    $crate::Isa::Avx512 | $crate::Isa::Avx512Bf16 => avx512($($a),*),
                    #[cfg(target_arch = "aarch64")]
                    $crate::Isa::Neon => neon($($a),*),
                    #[cfg(target_arch = "aarch64")]
                    $crate::Isa::NeonI8mm => neon_i8mm($($a),*),
                    _ => $body::<$crate::simd::Portable>($($a),*),
                }
            }
        }
    )* };
}
pub(crate) use entries;
