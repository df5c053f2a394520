//! Tests that loop over the format table: sizes, names, and exact decoding against sums worked out by hand.
#![allow(clippy::unwrap_used)]
use pumex_quant::{find, FORMATS};

#[test]
fn rows_are_unique_and_found_by_their_ggml_id() {
    for (i, f) in FORMATS.iter().enumerate() {
        assert_eq!(find(f.ggml_id).unwrap().name, f.name);
        for g in &FORMATS[i + 1..] {
            assert!(f.id != g.id && f.name != g.name && f.stem != g.stem);
        }
        assert_eq!(f.row_bytes(f.block_len * 3), Some(f.block_bytes * 3));
    }
    assert!(find(4).is_none() && find(9).is_none());
}

#[test]
fn a_zero_block_is_finite_and_a_nan_scale_is_found() {
    for f in FORMATS {
        let mut bytes = vec![0u8; f.block_bytes * 3];
        assert_eq!(f.first_non_finite(&bytes), None, "{}", f.name);
        bytes[f.block_bytes..2 * f.block_bytes].fill(0xff);
        // NVFP4's scales have no infinity, and what would be NaN counts as 0.
        let expected = (f.name != "NVFP4").then_some(1);
        assert_eq!(f.first_non_finite(&bytes), expected, "{}", f.name);
    }
}

#[test]
fn q6_k_places_every_quarter_where_the_layout_says() {
    let f = find(14).unwrap();
    let mut b = vec![0u8; 210];
    b[208..].copy_from_slice(&half::f16::from_f32(0.5).to_le_bytes());
    b[192..208].iter_mut().enumerate().for_each(|(i, s)| *s = (i as i8 - 8) as u8);
    b[64 + 32 + 3] = 0xa5; // half 1, low byte 35: quarters 1 (low nibble) and 3 (high nibble), weight 3
    b[128 + 32 + 3] = 0b11_00_10_01; // pairs: quarter 0 = 1, 1 = 2, 2 = 0, 3 = 3
    let mut out = vec![0.0; 256];
    (f.decode)(&b, &mut out);
    let expect = |i: usize, q: f32| 0.5 * (i as f32 / 16.0).floor().mul_add(1.0, -8.0) * (q - 32.0);
    for (i, q) in [(131, 16.0), (163, 37.0), (195, 0.0), (227, 58.0), (0, 0.0)] {
        assert_eq!(out[i], expect(i, q), "weight {i}");
    }
}

/// Blocks of real models and blocks of random bytes, with the weights ggml decodes them to: `golden/STEM.bin` holds the
/// blocks, then the weights.
#[test]
fn decoding_is_bit_exact() {
    for f in FORMATS {
        let path = format!("{}/tests/golden/{}.bin", env!("CARGO_MANIFEST_DIR"), f.stem);
        let bytes = std::fs::read(&path).unwrap();
        let blocks = bytes.len() / (f.block_bytes + 4 * f.block_len);
        assert!(blocks >= 8 && bytes.len() == blocks * (f.block_bytes + 4 * f.block_len), "{path}");
        let (packed, golden) = bytes.split_at(blocks * f.block_bytes);
        let mut out = vec![0f32; blocks * f.block_len];
        f.decode_row(packed, &mut out);
        for (i, (found, expected)) in out.iter().zip(golden.chunks_exact(4)).enumerate() {
            let expected = f32::from_le_bytes([expected[0], expected[1], expected[2], expected[3]]);
            assert_eq!(found.to_bits(), expected.to_bits(), "{} weight {i}: {found} is not {expected}", f.name);
        }
    }
}
