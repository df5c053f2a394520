//! How fast one product of each form reads its matrix: `speed [ROWS [COLS [COLUMNS [THREADS [IN_PLACE]]]]]`, 1 for packing on the
//! way.

use pumex_cpu::{threads, Acts, Cpu, DataShape, Isa, Matrix, ProductInput, ScaledMatrix, ThreadPool};
use std::time::Instant;

fn main() {
    let args: Vec<usize> = std::env::args().skip(1).filter_map(|a| a.parse().ok()).collect();
    let arg = |i: usize, or: usize| args.get(i).copied().unwrap_or(or);
    let (rows, cols, columns) = (arg(0, 65536), arg(1, 2048), arg(2, 1));
    let cpu = Cpu { pool: ThreadPool::new(arg(3, threads::usual()), |_| ()), isa: Isa::best() };
    // What a plain read of memory gives.
    let words = vec![1u64; 1 << 27];
    for _ in 0..2 {
        let begun = Instant::now();
        let chunk = 1 << 16;
        let sum = std::sync::atomic::AtomicU64::new(0);
        cpu.pool.each(words.len() / chunk, &|i| {
            let part = words[i * chunk..][..chunk].iter().fold(0u64, |s, w| s ^ w);
            sum.fetch_add(part, std::sync::atomic::Ordering::Relaxed);
        });
        let seconds = begun.elapsed().as_secs_f64();
        println!("read: {:.1} GB/s ({})", 8.0 * words.len() as f64 / seconds / 1e9, sum.into_inner());
    }
    drop(words);
    for name in ["Q4_K", "Q6_K", "Q4_0", "Q8_0", "IQ4_XS", "IQ2_XS", "IQ3_S", "F16", "BF16"] {
        let Some(format) = pumex_quant::FORMATS.iter().find(|f| f.name == name) else { continue };
        let x: Vec<f32> = (0..columns * cols).map(|i| (i * 37 % 101) as f32 - 50.0).collect();
        let row = cols / format.block_len * format.block_bytes;
        let mut bytes = vec![0; 4 * row];
        format.encode_row(&x[..cols].repeat(4), &vec![1.0; 4 * cols], &mut bytes);
        let begun = Instant::now();
        let shape = DataShape { parts: 1, rows, cols };
        let m = Matrix::new((&cpu.pool, cpu.isa), format, shape, &bytes, arg(4, 0) == 0);
        let packed = begun.elapsed().as_secs_f64();
        let mut acts = Acts::default();
        acts.set(&cpu.pool, cpu.isa, &x, cols);
        let mut out = vec![0.0; rows * columns];
        let part = [ScaledMatrix { matrix: &m, scale: 1.0, bias: None }];
        let mut best = f64::MAX;
        for _ in 0..12 {
            let begun = Instant::now();
            cpu.multiply(&part, &ProductInput { floats: &x, acts: &acts }, columns, false, (0, rows), &mut out);
            best = best.min(begun.elapsed().as_secs_f64());
        }
        let gb = m.len_bytes() as f64 / best / 1e9;
        let macs = (rows * cols * columns) as f64 / best / 1e9;
        println!("{name}: {gb:.1} GB/s, {macs:.0} GMAC/s, {:.2} ms; packed in {:.0} ms", best * 1e3, packed * 1e3);
    }
}
