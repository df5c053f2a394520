//! Any bytes as blocks of any format: decoding gives weights, and finite scales give finite weights.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pumex_quant::FORMATS;

fuzz_target!(|bytes: &[u8]| {
    let Some((first, rest)) = bytes.split_first() else { return };
    let format = &FORMATS[usize::from(*first) % FORMATS.len()];
    let blocks = rest.len() / format.block_bytes;
    let packed = &rest[..blocks * format.block_bytes];
    let mut out = vec![0f32; blocks * format.block_len];
    format.decode_row(packed, &mut out);
    if format.first_non_finite(packed).is_none() {
        assert!(out.iter().all(|w| w.is_finite() || w.abs() > 1e30), "{}", format.name);
        if out.iter().all(|w| w.is_finite() && w.abs() < 1e30) {
            let mut again = vec![0u8; packed.len()];
            format.encode_row(&out, &vec![1.0; out.len()], &mut again);
        }
    }
});
