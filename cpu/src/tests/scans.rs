//! Scans against their definition, in f64.

use crate::scan::{Columns, Fade, Scan};
use crate::{Cpu, Isa, ThreadPool};

/// Numbers that look random, from -1 to 1.
fn noise(seed: u64, len: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..len).map(|_| next()).collect()
}

/// `rows` rows from a state, one by one: the results `[rows, heads, v_dim]`.
fn plain(s: &Scan<'_>, rows: usize, state: &mut [f64]) -> Vec<f64> {
    let (vd, kd) = (s.v_dim, s.k_dim);
    let at =
        |c: &Columns<'_>, row: usize, g: usize, i: usize| f64::from(c.rows[row * c.width + c.at + g * c.stride + i]);
    let mut out = Vec::new();
    for row in 0..rows {
        for head in 0..s.heads {
            let g = s.groups[head];
            let rate = s.rate.map_or(1.0, |c| at(&c, row, head, 0));
            let fade = |i: usize| {
                let i = if s.by_column { i } else { 0 };
                match s.fade {
                    Fade::None => 1.0,
                    Fade::By(c) => at(&c, row, head, i),
                    Fade::Exp(c) => at(&c, row, head, i).exp(),
                    Fade::Rate(f) => (rate * f64::from(f[if s.by_column { head * kd + i } else { head }])).exp(),
                }
            };
            for v in 0..vd {
                let state = &mut state[(head * vd + v) * kd..][..kd];
                state.iter_mut().enumerate().for_each(|(i, x)| *x *= fade(i));
                let found: f64 = (0..kd).map(|i| state[i] * at(&s.k, row, g, i)).sum();
                let add = rate * (at(&s.v, row, head, v) - if s.delta { found } else { 0.0 });
                state.iter_mut().enumerate().for_each(|(i, x)| *x += add * at(&s.k, row, g, i));
                out.push(f64::from(s.scale) * (0..kd).map(|i| state[i] * at(&s.q, row, g, i)).sum::<f64>());
            }
        }
    }
    out
}

/// By rows and by windows, with an end on and beside a window's, of heads that are no whole vectors, of which all or some threads
/// have parts, with and without each part of a scan.
#[test]
fn scans_are_their_definition() {
    for isa in Isa::ALL.into_iter().filter(|isa| isa.is_here()) {
        for (threads, heads, vd, kd) in [(3, 3, 20, 24), (1, 2, 128, 128), (2, 5, 1, 16), (2, 2, 90, 33)] {
            for (delta, fades, by_column, deep) in [
                (true, 2, false, 0.3),
                (true, 2, true, 0.3),
                (true, 2, true, 300.0),
                (true, 2, false, 300.0),
                (true, 0, false, 0.0),
                (false, 3, false, 2.0),
                (false, 3, true, 40.0),
                (false, 1, true, 1.0),
            ] {
                let cpu = Cpu { pool: ThreadPool::new(threads, |_| {}), isa };
                let most = 3 * 16 + 5;
                let wide = heads * kd + 7;
                let unit = 1.0 / (kd as f32).sqrt();
                let scaled =
                    |seed: u64, by: f32| -> Vec<f32> { noise(seed, most * wide).iter().map(|x| x * by).collect() };
                let (q, k) = (scaled(1, 1.0), scaled(2, unit));
                let v = noise(3, most * heads * vd);
                let rates: Vec<f32> = noise(4, most * heads).iter().map(|x| 0.5 + 0.5 * x).collect();
                // Some do not fade, most do by as much as told: factors from 0 to 1, or what becomes those.
                let less: Vec<f32> = noise(5, most * wide).iter().map(|x| -deep * (x.max(0.0))).collect();
                let factors: Vec<f32> = noise(6, heads * kd).iter().map(|x| -deep * (0.5 + 0.5 * x)).collect();
                let plain_fades: Vec<f32> = noise(7, most * wide).iter().map(|x| 0.5 + 0.5 * x).collect();
                let of = |rows, stride| Columns { rows, width: wide, at: 5, stride };
                let groups: Vec<usize> = (0..heads).map(|h| h % 2).collect();
                let per = if by_column { kd } else { 1 };
                let s = Scan {
                    delta,
                    heads,
                    v_dim: vd,
                    k_dim: kd,
                    groups: &groups,
                    q: of(&q, kd),
                    k: of(&k, kd),
                    v: Columns { rows: &v, width: heads * vd, at: 0, stride: vd },
                    rate: (fades != 1).then_some(Columns { rows: &rates, width: heads, at: 0, stride: 1 }),
                    fade: match fades {
                        0 => Fade::None,
                        1 => Fade::By(of(&plain_fades, per)),
                        2 => Fade::Exp(of(&less, per)),
                        _ => Fade::Rate(&factors[..heads * per]),
                    },
                    by_column,
                    scale: 0.7,
                };
                for rows in [1, 15, 16, 17, most] {
                    let start = noise(8, heads * vd * kd);
                    let mut truth: Vec<f64> = start.iter().map(|x| f64::from(*x)).collect();
                    let wanted = plain(&s, rows, &mut truth);
                    let mut state = start;
                    let mut found = vec![9.0; most * (heads * vd + 3)];
                    cpu.scan(&s, 0..rows, &mut state, (2, vd, heads * vd + 3), &mut found);
                    let found: Vec<f32> = found
                        .chunks(heads * vd + 3)
                        .take(rows)
                        .flat_map(|row| row[2..2 + heads * vd].to_vec())
                        .collect();
                    for (what, found, wanted) in [("results", &found, &wanted), ("state", &state, &truth)] {
                        let most = wanted.iter().fold(0f64, |a, b| a.max(b.abs()));
                        let error =
                            found.iter().zip(wanted.iter()).fold(0f64, |e, (a, b)| e.max((f64::from(*a) - b).abs()));
                        let case = (isa.name(), heads, vd, kd, delta, fades, by_column, rows);
                        assert!(error <= 1e-5 * most, "{case:?}: {what}: {error:e} of {most:e}");
                    }
                }
            }
        }
    }
}
