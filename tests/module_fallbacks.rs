//! Modules as they are rewritten for devices that lack what they are written for.

use crate::util::exhaustive;
use pumex::vk::{without_halves, without_subgroups, Module};
use pumex_shaders::kernels::{self, Needs};
use std::io::Write;
use std::process::{Command, Stdio};

fn words(spirv: &[u8]) -> Vec<u32> {
    spirv.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

/// What the validator of SPIRV-Tools says of a module; none where it is not installed.
fn complaints(module: &[u32]) -> Option<String> {
    let options = ["--target-env", "vulkan1.2", "-"];
    let command = Command::new("spirv-val")
        .args(options)
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let mut validator = command.ok()?;
    let bytes: Vec<u8> = module.iter().flat_map(|w| w.to_le_bytes()).collect();
    validator.stdin.take()?.write_all(&bytes).ok()?;
    let output = validator.wait_with_output().ok()?;
    Some(String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

/// Kernels that are chosen where nothing but the floor is there.
fn of_the_floor(kernel: &kernels::Kernel) -> bool {
    !kernel.name.starts_with("megakernel")
        && matches!(kernel.needs, Needs::Nothing | Needs::IntegerDot | Needs::Half)
        && kernel.name != "pack"
}

#[test]
fn modules_of_the_floor_do_without_subgroups_and_stay_valid() {
    let (mut rewritten, mut validated, mut seen) = (0, 0, std::collections::HashSet::new());
    for name in pumex_shaders::names() {
        let kernel = kernels::find(name.split('.').next().unwrap()).unwrap();
        let before = words(pumex_shaders::module(name).unwrap());
        let module = Module::read(&before).unwrap();
        if !module.subgroups || !of_the_floor(kernel) {
            continue;
        }
        for threads in [8, 32, 256] {
            let after = without_subgroups(&before, threads).unwrap_or_else(|| panic!("{name} cannot be rewritten"));
            let found = Module::read(&after).unwrap();
            assert!(!found.subgroups, "{name}");
            let size = [(0, threads)];
            assert_eq!(found.local_size(&size), module.local_size(&size), "{name}");
            rewritten += 1;
            // The first module of a kernel stands for all.
            if threads == 8 || !(exhaustive() || seen.insert((kernel.name, threads))) {
                continue;
            }
            if let Some(text) = complaints(&after) {
                assert_eq!(text, "", "{name}, {threads} threads");
                validated += 1;
            }
        }
    }
    println!("{rewritten} modules rewritten, {validated} validated");
    assert!(rewritten > 150, "{rewritten}");
}

/// Matrices belong to subgroups.
#[test]
fn modules_that_only_subgroups_can_run_are_not_rewritten() {
    for name in ["gemm_mat.q4_k", "attn_flash", "gemm_staged.q4_k", "megakernel.q8_0"] {
        assert_eq!(without_subgroups(&words(pumex_shaders::module(name).unwrap()), 64), None, "{name}");
    }
    let module = words(pumex_shaders::module("rms_norm").unwrap());
    for cut in 0..module.len() {
        let _ = without_subgroups(&module[..cut], 64); // no panic
    }
}

/// Capabilities of numbers of 8 and 16 bits: Float16, Int16, Int8, and of buffers that hold them.
const SHORT: [u32; 9] = [9, 22, 39, 4433, 4434, 4435, 4436, 4448, 4449];

fn capabilities(module: &[u32]) -> Vec<u32> {
    let mut rest = &module[5..];
    let mut found = Vec::new();
    while rest[0] & 0xffff == 17 {
        found.push(rest[1]);
        rest = &rest[2..];
    }
    found
}

#[test]
fn modules_of_the_floor_need_no_numbers_of_16_bits() {
    let (mut rewritten, mut seen) = (0, std::collections::HashSet::new());
    for name in pumex_shaders::names() {
        let kernel = kernels::find(name.split('.').next().unwrap()).unwrap();
        if !of_the_floor(kernel) || kernel.needs == Needs::Half {
            continue;
        }
        let before = words(pumex_shaders::module(name).unwrap());
        let after = without_halves(&before).unwrap_or_else(|| panic!("{name} cannot be rewritten"));
        let short: Vec<u32> = capabilities(&after).into_iter().filter(|c| SHORT.contains(c)).collect();
        assert_eq!(short, [0; 0], "{name}");
        if after == before {
            continue;
        }
        rewritten += 1;
        let both = without_subgroups(&before, 32).and_then(|module| without_halves(&module));
        for module in [Some(after), both].into_iter().flatten() {
            if exhaustive() || seen.insert((kernel.name, Module::read(&module).unwrap().subgroups)) {
                assert_eq!(complaints(&module).unwrap_or_default(), "", "{name}");
            }
        }
    }
    println!("{rewritten} modules rewritten");
    assert!(rewritten > 150, "{rewritten}");
    let half = words(pumex_shaders::module("gemm_half.q4_k").unwrap());
    assert_eq!(without_halves(&half), None, "it computes with halves");
}
