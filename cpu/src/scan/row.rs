//! One row after the other: the state is gone over once, a few of its rows at a time.

use super::{Scan, ScanOutput};
use crate::simd::{entries, Simd, LANES};
use std::ops::Range;

/// Rows of the state at a time.
const AT_A_TIME: usize = 4;

entries! {
    /// Rows `v` of a head's state over some rows of a sequence; `fades` has room for twice `k_dim`.
    pub(super) fn go(
        s: &Scan<'_>, head: usize, v: Range<usize>, rows: Range<usize>, state: &mut [f32], fades: &mut [f32], out: &ScanOutput<'_>,
    ) = all_rows;
}

/// # Safety
/// As of [`Simd`]; results of these rows of the state are the caller's alone.
#[inline(always)]
unsafe fn all_rows<S: Simd>(
    s: &Scan<'_>,
    head: usize,
    v: Range<usize>,
    rows: Range<usize>,
    state: &mut [f32],
    fades: &mut [f32],
    out: &ScanOutput<'_>,
) {
    let (kd, group) = (s.k_dim, s.groups[head]);
    let (fades, faded) = fades.split_at_mut(kd);
    for row in rows {
        let (q, k) = (s.q.of(row, group, kd), s.k.of(row, group, kd));
        let (vs, rate) = (&s.v.of(row, head, s.v_dim)[v.clone()], s.rate(row, head));
        // SAFETY: the caller answers for the instructions, and for the results.
        let out = unsafe {
            s.fades::<S>(row, head, fades);
            out.of(row, head, &v)
        };
        faded.iter_mut().zip(k.iter().zip(&*fades)).for_each(|(faded, (k, fade))| *faded = k * fade);
        let by = ScanRow { q, k, fades, faded, rate: if s.delta { Some(rate) } else { None } };
        let whole = vs.len() / AT_A_TIME * AT_A_TIME;
        for at in (0..vs.len()).step_by(AT_A_TIME) {
            let state = &mut state[at * kd..];
            let add = |i: usize| if s.delta { vs[at + i] } else { rate * vs[at + i] };
            // SAFETY: the caller answers for the instructions; the state has these rows.
            unsafe {
                if at < whole {
                    let sums = some::<S, AT_A_TIME>(&by, state, std::array::from_fn(add));
                    (0..AT_A_TIME).for_each(|i| out[at + i] = s.scale * sums[i]);
                } else {
                    for i in 0..vs.len() - at {
                        out[at + i] = s.scale * some::<S, 1>(&by, &mut state[i * kd..], [add(i)])[0];
                    }
                }
            }
        }
    }
}

/// What a row brings to a head; all of `k_dim` floats.
struct ScanRow<'a> {
    q: &'a [f32],
    k: &'a [f32],
    fades: &'a [f32],
    /// `k` times `fades`.
    faded: &'a [f32],
    /// The rate of the delta rule, where the scan has one.
    rate: Option<f32>,
}

/// Some rows of the state, written with `add`, by the delta rule less what is there: what `q` reads of them.
///
/// # Safety
/// As of [`Simd`].
#[inline(always)]
unsafe fn some<S: Simd, const R: usize>(by: &ScanRow<'_>, state: &mut [f32], mut add: [f32; R]) -> [f32; R] {
    let kd = by.k.len();
    let whole = kd / LANES * LANES;
    assert!(state.len() >= R * kd && by.q.len() == kd && by.fades.len() == kd && by.faded.len() == kd);
    let state = state.as_mut_ptr();
    // SAFETY: the caller answers for the instructions; `R` rows of `kd` floats were counted above.
    unsafe {
        if let Some(rate) = by.rate {
            let mut sums = [S::splat(0.0); R];
            for at in (0..whole).step_by(LANES) {
                let k = S::load(by.faded.as_ptr().add(at));
                for r in 0..R {
                    sums[r] = S::fma(S::load(state.add(r * kd + at)), k, sums[r]);
                }
            }
            for r in 0..R {
                let mut sum = S::total(sums[r]);
                for i in whole..kd {
                    sum += *state.add(r * kd + i) * by.faded[i];
                }
                add[r] = rate * (add[r] - sum);
            }
        }
        let mut sums = [S::splat(0.0); R];
        for at in (0..whole).step_by(LANES) {
            let (q, k) = (S::load(by.q.as_ptr().add(at)), S::load(by.k.as_ptr().add(at)));
            let fade = S::load(by.fades.as_ptr().add(at));
            for r in 0..R {
                let p = state.add(r * kd + at);
                let x = S::fma(S::splat(add[r]), k, S::mul(S::load(p), fade));
                S::store(p, x);
                sums[r] = S::fma(x, q, sums[r]);
            }
        }
        let mut out = [0.0; R];
        for r in 0..R {
            out[r] = S::total(sums[r]);
            for i in whole..kd {
                let p = state.add(r * kd + i);
                *p = *p * by.fades[i] + add[r] * by.k[i];
                out[r] += *p * by.q[i];
            }
        }
        out
    }
}
