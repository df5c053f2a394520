//! Devices whose buffers may not be as large as what a model has: what can be split is split, what cannot is refused by its name.

use crate::util::{assert_silent, demo_path, device, logits, nmse, options, reference};
use pumex::engine::{self, CacheType, Options, VulkanRunner};
use pumex::gguf::Gguf;
use pumex::model;
use pumex::step::Runner;
use pumex::vk::{Caps, Device};
use pumex::{Error, Result};

/// Products on the CPU quantize activations to 8 bits.
const BOUND: f64 = 2e-3;

/// The device, as if none of its buffers could be larger.
fn limited(most: u64) -> Option<Device> {
    let device = device(false)?;
    let caps = Caps { max_buffer_bytes: Some(most), ..device.caps().clone() };
    Some(device.chosen_by(caps))
}

fn runner(gguf: &Gguf, device: Device, options: &Options) -> Result<VulkanRunner> {
    VulkanRunner::new(gguf, model::plan(gguf)?, device, options, &mut |_, _| ())
}

fn ids(count: u32) -> Vec<u32> {
    (0..count).map(|i| (i * 97 + 5) % 4096).collect()
}

/// Bytes of the largest tensor, and its name.
fn largest(gguf: &Gguf) -> (u64, String) {
    let plan = model::plan(gguf).unwrap();
    plan.weights.iter().map(|w| (w.len_bytes(), w.name.clone())).max().unwrap()
}

/// A file is imported in parts, and steps have fewer rows; the numbers are what they were.
#[test]
fn what_is_larger_than_a_buffer_is_split_where_it_can_be() {
    let gguf = Gguf::open(&demo_path()).unwrap();
    let (most, _) = largest(&gguf);
    let most = most.next_multiple_of(1 << 16);
    let whole = gguf.maps().map(|(_, map)| map.len() as u64).sum::<u64>();
    assert!(whole > 2 * most, "a file of {whole} bytes is to be of several parts of {most}");
    let options = Options { max_rows: 512, ..options(CacheType::F32) };
    let Some(device) = limited(most) else { return };
    let mut split = runner(&gguf, device, &options).unwrap();
    assert!(split.max_rows() < 512 && split.max_rows() > 8, "{} rows", split.max_rows());
    let ids = ids(40);
    let chunk = split.max_rows().min(20);
    let error = nmse(&logits(&mut split, &ids, chunk), &logits(&mut reference(&gguf), &ids, 40));
    assert!(error < 1e-8, "{error:e}");
    assert_silent(&split);
}

#[test]
fn a_tensor_that_no_buffer_holds_stays_on_the_cpu_or_is_refused_by_its_name() {
    let gguf = Gguf::open(&demo_path()).unwrap();
    let (bytes, name) = largest(&gguf);
    let options = options(CacheType::F16);
    let Some(device) = limited(bytes - 1) else { return };
    let refused = runner(&gguf, device.clone(), &options).err().unwrap();
    let told = refused.to_string();
    assert!(matches!(refused, Error::OutOfMemory(_)), "{told}");
    for part in [name.as_str(), &format!("at most {} bytes", bytes - 1), "=CPU"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    // Devices with memory of their own lay formats out in ways that may take more.
    let found = told.split("found ").nth(1).and_then(|rest| rest.split(';').next()?.trim().parse::<u64>().ok());
    assert!(found.is_some_and(|found| (bytes..2 * bytes).contains(&found)), "{told}");
    let mut parted = engine::load_on(&gguf, Some(device), &options, &mut |_, _| ()).unwrap();
    assert!(parted.device().contains(" for "), "two devices: {}", parted.device());
    let ids = ids(20);
    let error = nmse(&logits(&mut *parted, &ids, 20), &logits(&mut reference(&gguf), &ids, 20));
    assert!(error < BOUND, "{error:e}");
}
