//! Integer dot products on devices that have instructions for signed bytes only: those of formats with unsigned codes too.

use crate::kernels::Lab;
use crate::products::{error, plain, ProductCase};
use pumex::policy::{self, ActivationQuant};
use pumex::vk::DeviceKind;
use pumex_quant::{all, Format};

/// What formats say of their codes: 1 if they are unsigned and some reach 128, 0 if none does.
fn unsigned_codes(format: &Format) -> Option<u32> {
    let path = format!("{}/shaders/glsl/quant/{}.glsl", env!("CARGO_MANIFEST_DIR"), format.stem);
    let source = std::fs::read_to_string(path).unwrap();
    source.lines().find_map(|l| l.strip_prefix("#define UNSIGNED_CODES")).map(|bits| bits.trim().parse().unwrap())
}

/// Codes of every value there is: random blocks have them. Were a code of 128 or more taken for a signed one, or one below for
/// one that is moved down, the error would be as large as the product. Software devices take one way of each format.
#[test]
fn products_of_signed_bytes_are_those_of_mixed_ones() {
    let Some(mut lab) = Lab::open() else { return };
    let software = lab.device.caps().kind == DeviceKind::Cpu;
    let formats: Vec<_> = all().filter(|f| unsigned_codes(f) == Some(1)).collect();
    assert_eq!(formats.len(), 8, "formats with codes of 128 and more");
    for (i, format) in formats.into_iter().enumerate() {
        let (m, k, n) = (9, 3 * format.block_len.max(64), 2);
        if policy::dot_span(lab.device.caps(), format, k, n, ActivationQuant::Q16).is_none() {
            continue;
        }
        let (bytes, w) = lab.weights(format, m, k);
        let x = lab.floats(n * k);
        let (truth, scale) = plain(&w, &x, k);
        let ways = [(ActivationQuant::Q16, 1e-8), (ActivationQuant::Q8, 5e-5)]
            .into_iter()
            .flat_map(|w| [(w, false), (w, true)]);
        for (j, ((activations, bound), soa)) in ways.enumerate() {
            if software && j != i % 4 {
                continue;
            }
            let soa = soa || format.is_expanded();
            let constants = &[("SIGNED_DOTS", 1)];
            let p = ProductCase { format, bytes: &bytes, soa, x: &x, m, k, activations, constants };
            let error = error(&lab.product("gemv_dot", &p).unwrap(), &truth, scale);
            assert!(error < bound, "{}, soa {soa}, {activations:?}: {error:e}", format.stem);
        }
    }
    crate::util::assert_silent_on(&lab.device);
}
