//! What is chosen for other devices, run on this one: their tables of shapes, within its limits.

use crate::util::{
    assert_silent, device, exhaustive, fixture, in_turn, logits, nmse, options, pick, shared_folder, type_model, Golden,
};
use pumex::engine::{CacheType, Debug, Options, VulkanRunner};
use pumex::gguf::Gguf;
use pumex::model;
use pumex::policy::{self, devices, ActivationQuant, DeviceClass};
use pumex::vk::Caps;
use std::path::{Path, PathBuf};

/// What a device is known by, with all else of `own`.
fn borrow_identity(known: &Caps, own: &Caps) -> Caps {
    Caps {
        vendor_id: known.vendor_id,
        device_id: known.device_id,
        kind: known.kind,
        cores: known.cores,
        waves: known.waves,
        float8: known.float8,
        fast_dots: known.fast_dots,
        subgroup_min: known.subgroup_min.clamp(own.subgroup_min, own.subgroup_max),
        ..own.clone()
    }
}

/// Models of the repository, and, where all is tried, of every format: weights' type, file, and where its outputs are.
fn models() -> Vec<(String, PathBuf, PathBuf)> {
    let of = |name: &str| (name.to_string(), fixture(name).with_extension("gguf"), fixture(name));
    let mut all: Vec<_> = ["Q4_K_S", "qwen3moe"].map(of).into();
    if let Some(shared) = shared_folder().filter(|_| exhaustive()) {
        let typed = |name: &&str| (name.to_string(), type_model(&shared, name), shared.join("golden/types").join(name));
        all.extend(crate::goldens::TYPES.iter().map(typed));
    }
    all
}

/// Rows at a time, codes of activations, and the bound of the error: of one row, of the most that GEMV takes, and of many.
const WAYS: [(usize, ActivationQuant, f64); 5] = [
    (8, ActivationQuant::Q16, 1e-6),
    (64, ActivationQuant::Q8, 1e-3),
    (1, ActivationQuant::Q8, 1e-3),
    (7, ActivationQuant::Q8, 1e-3),
    (64, ActivationQuant::Q16, 1e-5),
];

fn check(name: &str, class: &str, (file, golden): (&Path, &Path), way: (usize, ActivationQuant, f64)) -> Option<f64> {
    let (rows, activations, bound) = way;
    let opened = device(true)?;
    let caps = policy::as_used(borrow_identity(&devices::find(class)?, opened.caps()));
    if DeviceClass::of(&caps) != DeviceClass::of(&devices::find(class)?) {
        println!("skipped: {class}: this device has not what it is known by: {:?}", DeviceClass::of(&caps));
        return None;
    }
    let usual = options(CacheType::F16);
    let debug = Debug { matrices: true, ..usual.debug };
    let options = Options { activations: Some(activations), debug, ..usual };
    let (gguf, golden) = (Gguf::open(file).unwrap(), Golden::load(golden));
    let plan = model::plan(&gguf).unwrap();
    let mut runner = VulkanRunner::new(&gguf, plan, opened.with_caps(caps), &options, &mut |_, _| ()).unwrap();
    let all = logits(&mut runner, &golden.tokens, rows);
    let error = nmse(&pick(&all, golden.vocab, &golden.logit_positions), &golden.logits);
    println!("{name} as {class} has it, {rows} rows, {activations:?}: NMSE {error:.2e}");
    assert!(error <= bound, "{name} as {class} has it, {rows} rows, {activations:?}: NMSE {error:e}");
    assert_silent(&runner);
    Some(error)
}

#[test]
fn shapes_of_other_devices_compute_what_they_should() {
    let classes = ["arc_a770", "arc_b580", "radeon_rx_6800_xt", "radeon_rx_580", "adreno_740", "geforce_gtx_1080"];
    for (i, class) in classes.into_iter().enumerate() {
        for (j, (name, file, golden)) in models().iter().enumerate() {
            for (k, way) in WAYS.into_iter().enumerate() {
                // 29 divides no number of classes and ways, so that each meets the other.
                let chosen = exhaustive() && in_turn((j * classes.len() + i) * WAYS.len() + k, 29);
                if chosen || (i == 0 && k == j) {
                    check(name, class, (file, golden), way);
                }
            }
        }
    }
}
