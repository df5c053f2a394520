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
        for at in [0, 63, 64, 130, 199] {
            let mut bytes = vec![0u8; f.block_bytes * 200];
            bytes[at * f.block_bytes..].fill(0xff);
            assert_eq!(f.first_non_finite(&bytes), expected.map(|_| at), "{} {at}", f.name);
        }
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

/// 64 bits of a SplitMix64 sequence.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z ^ (z >> 29)
}

/// Sum of three uniform numbers: bell-shaped enough.
fn bell(state: &mut u64) -> f32 {
    (0..3).map(|_| (random(state) >> 40) as f32 / (1u64 << 24) as f32 - 0.5).sum()
}

fn encode_and_decode(f: &pumex_quant::Format, x: &[f32]) -> (Vec<u8>, Vec<f32>) {
    let mut bytes = vec![0; f.row_bytes(x.len()).unwrap()];
    f.encode_row(x, &vec![1.0; x.len()], &mut bytes);
    let mut back = vec![0.0; x.len()];
    f.decode_row(&bytes, &mut back);
    (bytes, back)
}

#[test]
fn what_a_format_can_say_it_says_again() {
    let mut state = 3;
    for f in FORMATS {
        let x: Vec<f32> = (0..1024).map(|_| bell(&mut state)).collect();
        let (bytes, once) = encode_and_decode(f, &x);
        let (again, twice) = encode_and_decode(f, &once);
        let exact = ["F32", "F16", "BF16", "Q1_0", "Q8_0", "Q8_K", "TQ1_0", "TQ2_0", "MXFP4"];
        if exact.contains(&f.name) {
            assert_eq!(bytes, again, "{}", f.name);
        }
        // A second coding starts from values the format has; it must find them, or others nearly as good.
        let signal: f32 = once.iter().map(|x| x * x).sum();
        let error: f32 = once.iter().zip(&twice).map(|(a, b)| (a - b).powi(2)).sum();
        let first: f32 = once.iter().zip(&x).map(|(a, b)| (a - b).powi(2)).sum();
        assert!(error <= 0.5 * first + 1e-6 * signal, "{}: {error} of {signal}, at first {first}", f.name);
    }
}

#[test]
fn blocks_of_every_kind_encode_to_finite_weights() {
    let mut state = 9;
    type Kind = fn(usize, &mut u64) -> f32;
    let kinds: [(&str, Kind); 8] = [
        ("zeros", |_, _| 0.0),
        ("one outlier", |i, s| if i == 77 { 500.0 } else { bell(s) * 1e-3 }),
        ("denormals", |_, s| bell(s) * 1e-41),
        ("beyond f16", |_, s| bell(s) * 1e7),
        ("largest", |i, _| if i % 2 == 0 { 0.5 * f32::MAX } else { 0.5 * f32::MIN }),
        ("constant", |_, _| -0.37),
        ("positive", |_, s| bell(s).abs()),
        ("sparse", |i, s| if i % 13 == 0 { bell(s) } else { 0.0 }),
    ];
    for f in FORMATS {
        for (kind, value) in &kinds {
            let x: Vec<f32> = (0..512).map(|i| value(i, &mut state)).collect();
            if *kind == "largest" && ["F16", "BF16", "F32"].contains(&f.name) {
                continue; // F16 has no such number, and says so by infinity
            }
            let (bytes, back) = encode_and_decode(f, &x);
            if *kind == "beyond f16" && f.name == "F16" {
                continue;
            }
            assert_eq!(f.first_non_finite(&bytes), None, "{} of {kind}", f.name);
            assert!(back.iter().all(|b| b.is_finite()), "{} of {kind}", f.name);
            if *kind == "zeros" {
                assert!(back.iter().all(|b| *b == 0.0), "{} of zeros", f.name);
            }
        }
    }
}

#[test]
fn weights_that_do_not_count_do_not_steer_the_scale() {
    let mut state = 1;
    let x: Vec<f32> = (0..256).map(|i| if i % 16 == 5 { 40.0 } else { bell(&mut state) }).collect();
    let weight: Vec<f32> = (0..256).map(|i| if i % 16 == 5 { 0.0 } else { 1.0 }).collect();
    for f in FORMATS.iter().filter(|f| f.block_len > 1 && !["Q8_0", "Q8_K", "Q1_0"].contains(&f.name)) {
        let loss = |weight: &[f32]| -> f32 {
            let (mut bytes, mut back) = (vec![0; f.row_bytes(256).unwrap()], vec![0.0; 256]);
            f.encode_row(&x, weight, &mut bytes);
            f.decode_row(&bytes, &mut back);
            (0..256).filter(|i| i % 16 != 5).map(|i| (x[i] - back[i]).powi(2)).sum()
        };
        assert!(
            loss(&weight) < 0.8 * loss(&vec![1.0; 256]),
            "{}: {} and {}",
            f.name,
            loss(&weight),
            loss(&vec![1.0; 256])
        );
    }
}
