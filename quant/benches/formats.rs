//! Decoding and encoding of every weight format, in bytes of f32 per second: `cargo bench -p pumex-quant`.

use criterion::{criterion_group, criterion_main, Criterion, Throughput};
use pumex_quant::FORMATS;
use std::hint::black_box;

/// Weights per call: small enough for a cache, large enough that a call's own cost does not show.
const WEIGHTS: usize = 1 << 14;

fn weights() -> Vec<f32> {
    let mut state = 1u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1u64 << 24) as f32 - 0.5
    };
    (0..WEIGHTS).map(|_| next() + next() + next()).collect()
}

fn formats(c: &mut Criterion) {
    let (x, weight) = (weights(), vec![1.0; WEIGHTS]);
    for (name, encodes) in [("decode", false), ("encode", true)] {
        let mut group = c.benchmark_group(name);
        group.throughput(Throughput::Bytes(4 * WEIGHTS as u64)).sample_size(10);
        for f in FORMATS {
            let mut bytes = vec![0; f.row_bytes(WEIGHTS).unwrap_or(0)];
            f.encode_row(&x, &weight, &mut bytes);
            let mut back = vec![0.0; WEIGHTS];
            group.bench_function(f.name, |b| {
                if encodes {
                    b.iter(|| f.encode_row(black_box(&x), &weight, &mut bytes));
                } else {
                    b.iter(|| f.decode_row(black_box(&bytes), &mut back));
                }
            });
        }
        group.finish();
    }
}

criterion_group!(benches, formats);
criterion_main!(benches);
