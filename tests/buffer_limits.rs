//! Devices whose buffers may not be as large as what a model has: what can be split is split, what cannot is refused by its name.

use crate::seeded::Recipe;
use crate::util::{
    assert_silent, demo_path, device, exhaustive, in_turn, logits, nmse, options, reference, rows, sample,
};
use pumex::engine::{self, CacheType, Debug, Options, VulkanRunner};
use pumex::gguf::Gguf;
use pumex::lower::slabs;
use pumex::plan::{Plan, Weight};
use pumex::policy::ManyRows;
use pumex::quantize::recipe;
use pumex::step::{Runner, Want};
use pumex::vk::{Caps, Device};
use pumex::{model, synthetic, Error, Result};

/// Products on the CPU quantize activations to 8 bits.
const BOUND: f64 = 1e-5;

/// The device, as if none of its buffers could be larger; `staging` has weights copied.
fn limit_buffers(most: u64, staging: bool) -> Option<Device> {
    let device = device(staging)?;
    let caps = Caps { max_buffer_bytes: Some(most), ..device.caps().clone() };
    Some(device.with_caps(caps))
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
    let Some(device) = limit_buffers(most, false) else { return };
    let mut split = runner(&gguf, device, &options).unwrap();
    assert!(split.max_rows() < 512 && split.max_rows() > 8, "{} rows", split.max_rows());
    let ids = ids(40);
    let chunk = split.max_rows().min(20);
    let error = nmse(&logits(&mut split, &ids, chunk), &logits(&mut reference(&gguf), &ids, 40));
    assert!(error < 1e-8, "{error:e}");
    assert_silent(&split);
}

/// Tensors of a plan that lie in slabs on a device, and those that no buffer holds.
fn in_slabs(plan: &Plan, device: &Device) -> (usize, usize) {
    let (most, soa) = (device.caps().largest_buffer(), device.stages_weights());
    let lie = plan.weights.iter().filter(|w| slabs::slab_rows(w, most, soa).is_some()).count();
    let too_large = (0..plan.weights.len()).filter(|w| slabs::is_too_large(plan, Weight(*w), device.caps(), soa));
    (lie, too_large.count())
}

#[test]
fn tensors_that_no_buffer_holds_lie_in_slabs() {
    let gguf = Gguf::open(&demo_path()).unwrap();
    let (plan, (bytes, _)) = (model::plan(&gguf).unwrap(), largest(&gguf));
    let options = Options { max_rows: 512, ..options(CacheType::F32) };
    let (ids, mut cpu) = (ids(40), reference(&gguf));
    let truth = logits(&mut cpu, &ids, 40);
    for (i, &staging) in sample(&[true, false], 1).iter().enumerate() {
        let Some(device) = limit_buffers(bytes / 3, staging) else { return };
        let (lie, too_large) = in_slabs(&plan, &device);
        assert!(lie > 0 && lie < plan.weights.len() && too_large == 0, "{lie} in slabs, {too_large} too large");
        let mut split = runner(&gguf, device.clone(), &options).unwrap();
        if device.stages_weights() {
            assert_eq!(device.bytes_in_use(), split.memory_plan().at_start());
        }
        let chunks = [split.max_rows().min(40), 1, 3];
        for (_, &chunk) in sample(&chunks, 2).iter().enumerate().filter(|(j, _)| !exhaustive() || in_turn(i + j, 2)) {
            let error = nmse(&logits(&mut split, &ids, chunk), &truth);
            println!("{lie} tensors in slabs, chunks of {chunk}: {error:.1e}");
            assert!(error < 1e-8, "chunks of {chunk}: {error:e}");
        }
        assert_silent(&split);
    }
}

/// A single layer runs by every kernel for many rows that the device has.
#[test]
fn experts_that_no_buffer_holds_lie_in_slabs() {
    let tiny = synthetic::find("tiny-moe").unwrap();
    let shape = synthetic::Shape { n_layer: 1, n_embd: 512, n_vocab: 640, experts: Some((16, 4, 256)), ..*tiny };
    let recipes = sample(&["Q4_K_M", "Q8_0", "F16"], 1);
    let ways = [ManyRows::Half, ManyRows::Dot, ManyRows::Staged, ManyRows::Bytes];
    for (i, name) in recipes.iter().enumerate() {
        let gguf = shape.model(recipe::find(name).unwrap()).unwrap();
        let most = largest(&gguf).0 / 2;
        let ways = std::iter::once(None).chain(sample(&ways, 1).iter().map(|way| Some(*way))).enumerate();
        for (_, way) in ways.filter(|(j, _)| !exhaustive() || in_turn(i + j, 3)) {
            let (Some(whole), Some(few)) = (device(true), limit_buffers(most, true)) else { return };
            let (lie, too_large) = in_slabs(&model::plan(&gguf).unwrap(), &few);
            assert!(lie >= 3 && too_large == 0, "{lie} in slabs, {too_large} too large");
            let debug = Debug { many_rows: way, ..Debug::default() };
            let options = Options { debug, max_rows: 64, n_ctx: Some(128), ..options(CacheType::F32) };
            let ids: Vec<u32> = (0..68).map(|i| (i * 37 + 5) % 640).collect();
            let run = |device: Device, most: Option<usize>| {
                let mut runner = runner(&gguf, device, &options).unwrap();
                let most = most.unwrap_or(runner.max_rows());
                let (mut all, mut from) = (Vec::new(), 0);
                for count in [1, 3.min(most)].into_iter().chain(std::iter::repeat(most)) {
                    let to = ids.len().min(from + count);
                    all.extend(runner.run(&rows(0, from, &ids[from..to]), Want::Logits).unwrap().logits);
                    from = to;
                    if from == ids.len() {
                        break;
                    }
                }
                assert_silent(&runner);
                (all, most)
            };
            let (split, most) = run(few, None);
            let error = nmse(&split, &run(whole, Some(most)).0);
            println!("{name}, {way:?}, {lie} tensors in slabs, steps of {most} rows: {error:.1e}");
            assert!(error < 1e-9, "{name}, {way:?}, steps of {most} rows: {error:e}");
        }
    }
}

/// Embeddings of positions are read otherwise than matrices are.
#[test]
fn a_tensor_that_cannot_lie_in_slabs_stays_on_the_cpu_or_is_refused_by_its_name() {
    let mut recipe = Recipe::recipe_of("gpt2");
    recipe.keys.insert("context_length".into(), 4096.into());
    recipe.tensors.insert("position_embd.weight".into(), vec![256, 4096]);
    let gguf = recipe.gguf("gpt2");
    let (bytes, name) = largest(&gguf);
    assert_eq!(name, "position_embd.weight");
    let options = Options { n_ctx: Some(64), ..options(CacheType::F16) };
    let Some(device) = limit_buffers(bytes - 1, false) else { return };
    let refused = runner(&gguf, device.clone(), &options).err().unwrap();
    let told = refused.to_string();
    assert!(matches!(refused, Error::OutOfMemory(_)), "{told}");
    for part in [name.as_str(), &format!("at most {} bytes", bytes - 1), &format!("found {bytes}"), "=CPU"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let mut parted = engine::load_on(&gguf, Some(device), &options, &mut |_, _| ()).unwrap();
    assert!(parted.device().contains(" for "), "two devices: {}", parted.device());
    let ids: Vec<u32> = (0..20).map(|i| i * 5 + 3).collect();
    let error = nmse(&logits(&mut *parted, &ids, 20), &logits(&mut reference(&gguf), &ids, 20));
    assert!(error < BOUND, "{error:e}");
}
