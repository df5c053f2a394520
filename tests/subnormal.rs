//! Scales that are subnormal halves, as those of blocks of K-quants often are: every kernel that decodes them keeps them, on
//! whatever device there is.

use crate::kernels::Lab;
use crate::products::{error, plain, ProductCase};
use pumex::engine::subnormal::keeps_subnormal_halves;
use pumex::policy::ActivationQuant;
use pumex::vk::DeviceKind;
use pumex_quant::{all, Format};

/// Far above what rounding leaves of any kernel, and far below what is missing without the scales.
const BOUND: f64 = 1e-4;
const KERNELS: [&str; 6] = ["gemv", "gemv_dot", "gemm_tile", "router", "gemm_few", "gemm_mat"];

/// Bytes of a block where halves are that must be finite: its scales, or values. (Of IQ1_M, see `set`.)
fn halves(format: &Format) -> Vec<usize> {
    let infinite = |at: &usize| {
        let mut block = vec![0; format.block_bytes];
        block[at + 1] = 0x7c;
        format.first_non_finite(&block).is_some()
    };
    (0..format.block_bytes.saturating_sub(1)).filter(infinite).collect()
}

/// The scale of a block of IQ1_M lies in four parts at the top of its 16-bit words.
fn in_parts(format: &Format) -> Option<usize> {
    let found = format.fields.iter().find(|f| f.name == "SC").filter(|_| format.stem.starts_with("iq1_m"));
    found.map(|f| f.at)
}

/// Random blocks of one row after the other whose scales are subnormal halves; none if the format has no such scales.
fn blocks(lab: &mut Lab, format: &Format, weights: usize) -> Option<Vec<u8>> {
    let (places, parts) = (halves(format), in_parts(format));
    if places.is_empty() && parts.is_none() {
        return None;
    }
    let mut bytes: Vec<u8> =
        (0..weights / format.block_len * format.block_bytes).map(|_| lab.rng.next_below(256) as u8).collect();
    for block in bytes.chunks_mut(format.block_bytes) {
        let mut small = || (lab.rng.next_below(0x3ff) as u16 + 1) | if lab.rng.next_below(2) == 1 { 0x8000 } else { 0 };
        if let Some(at) = parts {
            let half = small();
            for i in 0..4 {
                let top = &mut block[at + 2 * i + 1];
                *top = (*top & 15) | ((half >> (4 * i)) as u8) << 4;
            }
        } else {
            for at in &places {
                block[*at..at + 2].copy_from_slice(&small().to_le_bytes());
            }
        }
    }
    Some(bytes)
}

#[test]
fn every_kernel_keeps_scales_that_are_subnormal_halves() {
    let Some(mut lab) = Lab::open() else { return };
    let software = lab.device.caps().kind == DeviceKind::Cpu;
    let (mut lost, mut formats) = (Vec::new(), 0);
    for format in all() {
        let (m, k) = (5, 2 * format.block_len.max(32));
        let Some(bytes) = blocks(&mut lab, format, m * k) else { continue };
        formats += 1;
        let mut w = vec![0f32; m * k];
        format.decode_row(&bytes, &mut w);
        let (x, many, soa) = (lab.floats(3 * k), lab.floats(20 * k), format.is_expanded() || formats % 2 == 0);
        let (activations, constants) = (ActivationQuant::Q16, &[]);
        let product = ProductCase { format, bytes: &bytes, soa, x: &x, m, k, activations, constants };
        let (truth, scale) =
            (w.iter().map(|w| f64::from(*w)).collect::<Vec<_>>(), w.iter().map(|w| f64::from(w * w)).sum());
        let mut check = |kernel: &str, error: f64| {
            if error > BOUND {
                lost.push(format!("{kernel}.{}: {error:.1e}", format.stem));
            }
        };
        assert!(scale > 0.0, "{}", format.stem);
        check("embed", error(&lab.embed_rows(&product), &truth, scale));
        for (i, kernel) in KERNELS.into_iter().enumerate() {
            // Software devices have one way of making floats of halves, and take seconds for a pipeline.
            if software && i != formats % 4 {
                continue;
            }
            let x = if kernel == "gemm_mat" { &many } else { &x };
            let Some(found) = lab.product(kernel, &ProductCase { x, ..product }) else { continue };
            let (truth, scale) = plain(&w, x, k);
            check(kernel, error(&found, &truth, scale));
        }
    }
    assert!(formats >= 20, "{formats} formats have scales that are halves");
    let keeps = keeps_subnormal_halves(&lab.device, &lab.kernels).unwrap();
    let name = &lab.device.caps().name;
    assert!(keeps || !lost.is_empty(), "{name}: the check at the start finds fault where no kernel does");
    assert!(lost.is_empty(), "{name}: what these kernels make of subnormal halves is wrong:\n{}", lost.join("\n"));
    crate::util::assert_silent_on(&lab.device);
}
