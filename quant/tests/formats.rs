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
    assert!(find(4).is_none());
}

#[test]
fn a_zero_block_is_finite_and_a_nan_scale_is_found() {
    for f in FORMATS {
        let mut bytes = vec![0u8; f.block_bytes * 3];
        assert_eq!(f.first_non_finite(&bytes), None, "{}", f.name);
        let scale_at = match f.name {
            "Q6_K" => 208,
            "F32" | "BF16" => f.block_bytes - 2,
            _ => 0,
        };
        let nan: u16 = if matches!(f.name, "F32" | "BF16") { 0x7fc0 } else { 0x7e00 };
        bytes[f.block_bytes + scale_at..][..2].copy_from_slice(&nan.to_le_bytes());
        assert_eq!(f.first_non_finite(&bytes), Some(1), "{}", f.name);
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
