//! A kernel that computes wrongly is found, left out, and what comes out is right all the same.

use crate::util::{device, exhaustive};
use pumex::engine::selftest::{test, without, Arithmetic, Ways, SUBGROUPS};
use pumex::engine::Debug;
use pumex::policy::replaceable_kernels;

/// What is spoilt reads weights as if they lay in the file's order, which they do not on a device that is sent them. A software
/// device compiles each pipeline for a second or two, so that the kernel that is spoilt is the one that nearly all products take.
#[test]
fn a_spoilt_kernel_is_found_and_left_out_and_the_output_stays_right() {
    let Some(device) = device(true) else { return };
    let right = test(&device, "Q4_K_M", Debug::default(), Ways::Usual).unwrap();
    assert!(right.wrong.is_empty() && right.before < Arithmetic::Bytes.bound(), "{right:?}");
    let spoilt = Debug { spoilt: Some("gemv_dot"), ..Debug::default() };
    let found = test(&device, "Q4_K_M", spoilt, Ways::Usual).unwrap();
    assert_eq!(found.wrong, ["gemv_dot"], "{found:?}");
    assert!((found.before.is_nan() || found.before > Arithmetic::Bytes.bound()) && found.after < 1e-3, "{found:?}");
    // From then on it is not chosen, and the rest is as it was.
    let again = test(&without(&device, "gemv_dot"), "Q4_K_M", spoilt, Ways::Usual).unwrap();
    assert!(again.wrong.is_empty() && again.before < 1e-3, "{again:?}");
    // One that nothing can stand in for makes the device unusable, by name.
    let others = replaceable_kernels().into_iter().filter(|kernel| kernel.starts_with("gemm_"));
    let left = others.fold(device.clone(), |device, kernel| without(&device, kernel));
    let error = test(&left, "Q4_K_M", Debug { spoilt: Some("gemm_tile"), ..Debug::default() }, Ways::Usual)
        .unwrap_err()
        .to_string();
    assert!(error.contains(&device.caps().name) && error.contains("as the CPU computes them"), "{error}");
}

/// A driver that gets what subgroups do wrong, whatever kernel asks for it.
#[test]
fn subgroups_that_compute_wrongly_are_found_and_shared_memory_stands_in() {
    let Some(device) = device(true).filter(|_| exhaustive()) else { return };
    let spoilt = Debug { spoilt: Some(SUBGROUPS), ..Debug::default() };
    let found = test(&device, "Q4_0", spoilt, Ways::Usual).unwrap();
    assert!(found.wrong == [SUBGROUPS] && found.after < 1e-3, "{found:?}");
    let again = test(&without(&device, SUBGROUPS), "Q4_0", spoilt, Ways::Usual).unwrap();
    assert!(again.wrong.is_empty() && again.before < 1e-3, "{again:?}");
}
