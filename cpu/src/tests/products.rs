//! Products of every format, shape and instruction set.

use crate::layout::WeightLayout;
use crate::{
    formats, pack, Acts, Cpu, DataShape, ExpertChoices, Gating, Isa, Matrix, ProductInput, RoutedExpert, ScaledMatrix,
    ThreadPool,
};
use pumex_quant::{Format, FORMATS};

/// Numbers that look random and are not.
pub fn noise(seed: u64, len: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1 << 24) as f32 - 0.5
    };
    (0..len).map(|_| next() + next() + next()).collect()
}

fn encode_rows(format: &Format, x: &[f32]) -> Vec<u8> {
    let mut bytes = vec![0; x.len() / format.block_len * format.block_bytes];
    format.encode_row(x, &vec![1.0; x.len()], &mut bytes);
    bytes
}

pub fn nmse(found: &[f32], truth: &[f32]) -> f64 {
    assert_eq!(found.len(), truth.len());
    let square = |x: f64| x * x;
    let error: f64 = found.iter().zip(truth).map(|(a, b)| square(f64::from(*a) - f64::from(*b))).sum();
    error / truth.iter().map(|b| square(f64::from(*b))).sum::<f64>()
}

fn times(w: &[f32], x: &[f32], cols: usize) -> Vec<f32> {
    let dot = |w: &[f32], x: &[f32]| w.iter().zip(x).map(|(w, x)| f64::from(*w) * f64::from(*x)).sum::<f64>() as f32;
    x.chunks_exact(cols).flat_map(|x| w.chunks_exact(cols).map(move |w| dot(w, x))).collect()
}

fn cpu(isa: Isa) -> Cpu {
    Cpu { pool: ThreadPool::new(2, |_| ()), isa }
}

fn here() -> impl Iterator<Item = Isa> {
    Isa::ALL.into_iter().filter(|isa| isa.is_here())
}

/// Bytes of a matrix with a few blocks that encoders made, in random order.
fn matrix(format: &Format, rows: usize, cols: usize) -> (Vec<u8>, Vec<f32>) {
    let blocks = 16;
    let made = encode_rows(format, &noise(3, blocks * format.block_len));
    let pick = noise(5, rows * cols / format.block_len);
    let bytes: Vec<u8> = pick
        .iter()
        .flat_map(|p| {
            let i = (p.abs() * 1e5) as usize % blocks;
            made[i * format.block_bytes..][..format.block_bytes].iter().copied()
        })
        .collect();
    let mut floats = vec![0.0; rows * cols];
    format.decode_row(&bytes, &mut floats);
    (bytes, floats)
}

fn cols_of(format: &Format) -> [usize; 2] {
    let unit = format.block_len.max(32);
    [unit, unit * if unit == 256 { 2 } else { 5 }]
}

#[test]
fn packing_keeps_every_weight() {
    for format in FORMATS {
        let Some(layout): Option<WeightLayout> = formats::layout(format.id) else { continue };
        for isa in here() {
            for cols in cols_of(format) {
                let (bytes, floats) = matrix(format, 5, cols);
                let rows: Vec<&[u8]> = bytes.chunks_exact(bytes.len() / 5).collect();
                let mut tile = vec![0; layout.tile_bytes(cols)];
                // SAFETY: the machine has these instructions.
                unsafe { pack::pack(isa, format.id, &rows, cols, &mut tile) };
                for (i, w) in floats.iter().enumerate() {
                    let found = pack::weight(&layout, &tile, i / cols, i % cols);
                    let close = (found - w).abs() <= 1e-6 * w.abs().max(1e-6);
                    assert!(close, "{} {isa:?}, weight {i}: {found}, not {w}", format.name);
                }
            }
        }
    }
}

#[test]
fn products_of_every_format_agree_with_floats() {
    for format in FORMATS {
        for isa in here() {
            let cpu = cpu(isa);
            for cols in cols_of(format) {
                for (rows, columns) in
                    [(1, 1), (16, 1), (37, 1), (300, 1), (37, 2), (16, 3), (33, 9), (50, 64), (16, 29)]
                {
                    let (bytes, floats) = matrix(format, rows, cols);
                    let x = noise(7, columns * cols);
                    let truth = times(&floats, &x, cols);
                    let mut acts = Acts::default();
                    acts.set(&cpu.pool, isa, &x, cols);
                    let input = ProductInput { floats: &x, acts: &acts };
                    for repack in [true, false] {
                        let shape = DataShape { parts: 1, rows, cols };
                        let m = Matrix::new((&cpu.pool, isa), format, shape, &bytes, repack);
                        let mut out = vec![f32::NAN; rows * columns];
                        let part = ScaledMatrix { matrix: &m, scale: 1.0, bias: None };
                        cpu.multiply(&[part], &input, columns, false, (0, rows), &mut out);
                        let error = nmse(&out, &truth);
                        // One sum alone may happen to be small.
                        let rounded = isa == Isa::Avx512Bf16 && format.name == "BF16" && columns >= 4;
                        let bound = if rounded {
                            1e-5
                        } else if !m.takes_codes() {
                            1e-10
                        } else {
                            if rows * columns < 16 {
                                5e-3
                            } else {
                                2e-4
                            }
                        };
                        let what = format!("{} {isa:?}, {rows} x {cols} x {columns}, repack {repack}", format.name);
                        assert!(error < bound, "{what}: {error:e}");
                    }
                }
            }
        }
    }
}

#[test]
fn rows_of_floats_may_have_any_length() {
    for format in FORMATS.iter().filter(|f| f.block_len == 1) {
        for isa in here() {
            let cpu = cpu(isa);
            for (rows, cols, columns) in
                [(5, 1, 4), (33, 37, 5), (70, 67, 31), (16, 16, 1), (20, 67, 3), (55, 32, 1), (34, 80, 2)]
            {
                let (bytes, floats) = matrix(format, rows, cols);
                let x = noise(7, columns * cols);
                let m = Matrix::new((&cpu.pool, isa), format, DataShape { parts: 1, rows, cols }, &bytes, true);
                let mut out = vec![f32::NAN; rows * columns];
                let part = ScaledMatrix { matrix: &m, scale: 1.0, bias: None };
                let input = ProductInput { floats: &x, acts: &Acts::default() };
                cpu.multiply(&[part], &input, columns, false, (0, rows), &mut out);
                let error = nmse(&out, &times(&floats, &x, cols));
                let bound = if isa == Isa::Avx512Bf16 && format.name == "BF16" && columns >= 4 { 2e-5 } else { 1e-10 };
                assert!(error < bound, "{} {isa:?}, {rows} x {cols} x {columns}: {error:e}", format.name);
            }
        }
    }
}

/// Also where sums are made many at a time, as of short rows or of four rows with four columns.
#[test]
fn a_row_of_floats_gives_the_same_whatever_stands_beside_it() {
    let format = FORMATS.iter().find(|f| f.name == "F32").unwrap();
    for isa in here() {
        let cpu = cpu(isa);
        for (rows, cols) in [(38, 32), (21, 300), (64, 67)] {
            let (bytes, _) = matrix(format, rows, cols);
            let m = Matrix::new((&cpu.pool, isa), format, DataShape { parts: 1, rows, cols }, &bytes, true);
            let x = noise(8, 5 * cols);
            let products = |x: &[f32]| {
                let n = x.len() / cols;
                let mut out = vec![f32::NAN; n * rows];
                let part = ScaledMatrix { matrix: &m, scale: 1.0, bias: None };
                cpu.multiply(
                    &[part],
                    &ProductInput { floats: x, acts: &Acts::default() },
                    n,
                    false,
                    (0, rows),
                    &mut out,
                );
                out
            };
            let alone: Vec<f32> = x.chunks_exact(cols).flat_map(products).collect();
            assert_eq!(products(&x), alone, "{isa:?}, {rows} x {cols}");
        }
    }
}

#[test]
fn gates_and_experts_agree_with_floats() {
    for name in ["Q4_K", "Q6_K", "Q8_0", "F16"] {
        let format = FORMATS.iter().find(|f| f.name == name).unwrap();
        for isa in here() {
            let cpu = cpu(isa);
            let (experts, rows, cols, used) = (6, 40, 256, 3);
            let (bytes, floats) = matrix(format, experts * rows, cols);
            let shape = DataShape { parts: experts, rows, cols };
            let m = Matrix::new((&cpu.pool, isa), format, shape, &bytes, true);
            for n in [1, 5] {
                let x = noise(11, n * cols);
                let mut acts = Acts::default();
                acts.set(&cpu.pool, isa, &x, cols);
                let mut choices = ExpertChoices::default();
                choices.used = used;
                for i in 0..n * used {
                    let expert = ((i % used * 2 + i / used) % experts) as u32;
                    choices.of_rows.push(RoutedExpert { expert, weight: 0.3, gate_scale: 1.5, up_scale: 0.5 });
                }
                choices.sort(experts);
                let mut out = vec![f32::NAN; n * used * rows];
                let bias = noise(5, experts * rows);
                let part = |bias| ScaledMatrix { matrix: &m, scale: 1.0, bias };
                let (x_in, both) = (ProductInput { floats: &x, acts: &acts }, [part(Some(&bias[..])), part(None)]);
                cpu.matmul_gated_experts(&both, Gating::By(&|g, u| g.max(0.0) * u), &x_in, &choices, &mut out);
                let first = out.clone();
                cpu.matmul_gated_experts(&[part(None), part(None)], Gating::Silu, &x_in, &choices, &mut out);
                let all = times(&floats, &x, cols);
                let product =
                    |i: usize, r: usize| all[i / used * experts * rows + choices.of_rows[i].expert as usize * rows + r];
                let silu = |x: f32| x / (1.0 + (-x).exp());
                let truth: Vec<f32> = (0..out.len())
                    .map(|at| silu(product(at / rows, at % rows) * 1.5) * product(at / rows, at % rows) * 0.5)
                    .collect();
                assert!(nmse(&out, &truth) < 1e-3, "{name} {isa:?} {n}: {:e}", nmse(&out, &truth));
                let biased = |i: usize, r: usize| bias[choices.of_rows[i].expert as usize * rows + r];
                let truth: Vec<f32> = (0..out.len())
                    .map(|at| (at / rows, at % rows))
                    .map(|(i, r)| (product(i, r) * 1.5 + biased(i, r)).max(0.0) * product(i, r) * 0.5)
                    .collect();
                assert!(nmse(&first, &truth) < 1e-3, "{name} {isa:?} {n}, by ReLU: {:e}", nmse(&first, &truth));
                // Down: a row of its own for each choice.
                let y = noise(13, n * used * cols);
                acts.set(&cpu.pool, isa, &y, cols);
                let mut sum = vec![1.0; n * rows];
                cpu.experts_add(&part(Some(&bias[..])), &ProductInput { floats: &y, acts: &acts }, &choices, &mut sum);
                let all = times(&floats, &y, cols);
                let mut truth = vec![1.0; n * rows];
                for i in 0..n * used {
                    for r in 0..rows {
                        let expert = choices.of_rows[i].expert as usize;
                        truth[i / used * rows + r] +=
                            0.3 * (all[(i * experts + expert) * rows + r] + bias[expert * rows + r]);
                    }
                }
                assert!(nmse(&sum, &truth) < 1e-3, "{name} {isa:?} {n}: down {:e}", nmse(&sum, &truth));
            }
        }
    }
}
