//! Products, attention and experts as stages of one dispatch, against dispatches of their own.

use crate::reference::greedy;
use crate::util::{
    assert_silent, demo_path, exact, exhaustive, logits, nmse, options, reference, rows, sample, vulkan, Arithmetic,
};
use pumex::engine::{CacheType, Debug};
use pumex::gguf::Gguf;
use pumex::policy::ActivationQuant;
use pumex::step::{Runner, Want};

/// Products as stages of one dispatch. Codes of 16 bits and sums are the same but for the order of a chunk's pieces; of 8 bits,
/// the scales of megakernels, each for half as many, are finer.
#[test]
fn stages_of_products_are_what_dispatches_are() {
    let files = ["Q4_K_S", "qwen3moe"].map(|name| crate::util::fixture(name).with_extension("gguf"));
    for path in sample(&[&files[..], &[demo_path()]].concat(), 1) {
        let gguf = Gguf::open(path).unwrap();
        let ids: Vec<u32> = (0..30).map(|i| (i * 7 + 5) % 120).collect();
        let run = |megakernel, activations| {
            let (megakernel, activations) = (Some(megakernel), Some(activations));
            let mut runner = vulkan(
                &gguf,
                pumex::engine::Options {
                    debug: Debug { megakernel, ..exact() },
                    activations,
                    ..options(CacheType::F32)
                },
            )?;
            let all = logits(&mut runner, &ids, 1);
            let before = runner.counters().dispatches;
            let more = if activations == Some(ActivationQuant::Q16) { 64 } else { 1 };
            let ids = greedy(&mut runner, &ids, more);
            assert_silent(&runner);
            Some((all, ids, runner.counters().dispatches - before))
        };
        // Of 8 bits a pipeline takes half as long to build; a sample has those, and the bound of their scales.
        let (exact, bound) = if exhaustive() { (ActivationQuant::Q16, 5e-9) } else { (ActivationQuant::Q8, 5e-4) };
        let (Some(megakernel), Some(unfused)) = (run(true, exact), run(false, exact)) else { return };
        let error = nmse(&megakernel.0, &unfused.0);
        println!("{}: NMSE {error:.2e}, {} and {} dispatches", path.display(), megakernel.2, unfused.2);
        assert!(error < bound, "{}: NMSE {error:e}", path.display());
        if exhaustive() {
            assert_eq!(megakernel.1, unfused.1, "{}", path.display());
        }
        let scales = path.ends_with("qwen3moe.gguf"); // of experts, which megakernels do not take
        assert_eq!(
            megakernel.2 < unfused.2,
            !scales,
            "{}: {} of {} dispatches",
            path.display(),
            megakernel.2,
            unfused.2
        );
        if !scales && !exhaustive() {
            continue; // a pipeline of half a minute
        }
        let errors = [true, false].map(|megakernel| nmse(&run(megakernel, ActivationQuant::Q8).unwrap().0, &unfused.0));
        println!("{}: 8 bits, NMSE {:.2e} megakernel, {:.2e} unfused", path.display(), errors[0], errors[1]);
        assert!(errors.iter().all(|e| (1e-8..5e-4).contains(e)), "{}: 8 bits, NMSE {errors:?}", path.display());
    }
    stages_take_biases_and_factors();
}

/// Stages with activations of 8 bits, of the format whose pipeline is the smallest.
#[test]
fn stages_with_short_activations_lose_no_more_than_dispatches() {
    let shape = pumex::synthetic::Shape { n_vocab: 640, ..*pumex::synthetic::find("tiny").unwrap() };
    let gguf = shape.model(pumex::quantize::recipe::find("Q8_0").unwrap()).unwrap();
    let ids: Vec<u32> = (0..20).map(|i| (i * 37 + 5) % 640).collect();
    let run = |arithmetic: Arithmetic, megakernel| {
        let way = arithmetic.options(CacheType::F16);
        let debug = Debug { megakernel: Some(megakernel), ..way.debug };
        let mut runner = vulkan(&gguf, pumex::engine::Options { debug, ..way })?;
        let all = logits(&mut runner, &ids, 1);
        assert_silent(&runner);
        Some(all)
    };
    let Some(truth) = run(Arithmetic::Exact, false) else { return };
    let errors = [true, false].map(|megakernel| nmse(&run(Arithmetic::Short, megakernel).unwrap(), &truth));
    println!("8 bits: NMSE {:.2e} megakernel, {:.2e} unfused", errors[0], errors[1]);
    assert!(errors.iter().all(|e| (1e-8..5e-4).contains(e)), "8 bits, NMSE {errors:?}");
    assert!(errors[0] < 2.0 * errors[1], "8 bits, NMSE {errors:?}");
}

/// Attention is a stage of the megakernel then, of caches of halves.
#[test]
fn stages_of_attention_are_what_dispatches_are() {
    // Of Q3_K_M, v has a format that is in no megakernel with the others': attention is a dispatch between megakernels.
    let of_tiny = ["Q8_0", "IQ4_XS", "IQ4_NL", "Q3_K_S", "IQ3_S", "Q3_K_M"].map(|recipe| ("tiny", recipe));
    let all: Vec<_> = of_tiny.into_iter().chain([("tiny-moe", "Q8_0")]).collect();
    for &(name, recipe) in sample(&all, 1) {
        let shape = pumex::synthetic::find(name).unwrap();
        let gguf = shape.model(pumex::quantize::recipe::find(recipe).unwrap()).unwrap();
        let ids: Vec<u32> = (0..4096).map(|i| (i * 37 + 5) % 120).collect();
        let run = |megakernel, attn_heads| {
            let way = options(CacheType::F16);
            let way = pumex::engine::Options {
                debug: Debug { megakernel: Some(megakernel), attn_heads, ..exact() },
                n_ctx: Some(4096),
                ..way
            };
            let mut runner = vulkan(&gguf, way)?;
            let (mut all, mut dispatches) = (Vec::new(), 0);
            // Attention whole, of some turns, in parts, and of some turns of a part; software devices are slow.
            let cpu = runner.vk().caps().kind == pumex::vk::DeviceKind::Cpu;
            let starts: &[usize] = match (cpu, name, recipe) {
                (true, "tiny", "Q8_0") if !exhaustive() => &[300],
                (true, "tiny", "Q8_0" | "Q3_K_M") => &[0, 40, 300],
                (true, ..) => &[0, 40],
                _ => &[0, 40, 150, 300, 4000],
            };
            for &start in starts {
                logits(&mut runner, &ids[..start], 64);
                let before = runner.counters().dispatches;
                for (i, id) in ids[start..][..10].iter().enumerate() {
                    all.extend(runner.run(&rows(0, start + i, &[*id]), Want::Logits).unwrap().logits);
                }
                dispatches += runner.counters().dispatches - before;
            }
            assert_silent(&runner);
            Some((all, dispatches))
        };
        let (Some(megakernel), Some(unfused)) = (run(true, None), run(false, None)) else { return };
        if exhaustive() && (name, recipe) == ("tiny", "Q8_0") {
            let joined = run(true, Some(2)).unwrap();
            let error = nmse(&joined.0, &unfused.0);
            println!("parts of a dispatch joined in the megakernel: NMSE {error:.2e}, {} dispatches", joined.1);
            assert!(error < 1e-7, "parts of a dispatch joined in the megakernel: NMSE {error:e}");
            assert!((megakernel.1 + 1..unfused.1).contains(&joined.1), "{} dispatches", joined.1);
        }
        let error = nmse(&megakernel.0, &unfused.0);
        println!("{name} {recipe}: NMSE {error:.2e}, {} and {} dispatches", megakernel.1, unfused.1);
        assert!(error < 1e-7, "{name} {recipe}: NMSE {error:e}");
        let most = if recipe == "Q3_K_M" { unfused.1 - 1 } else { unfused.1 / 4 };
        assert!(
            megakernel.1 <= most,
            "embedding, megakernel, head, argmax: {} of {} dispatches",
            megakernel.1,
            unfused.1
        );
    }
}

/// All of a layer is in the megakernel, the router's choice too; of formats with blocks of 256, and two of them.
#[test]
fn stages_of_experts_are_what_dispatches_are() {
    for recipe in sample(&["Q8_0", "Q4_K_M", "IQ4_XS", "MXFP4_MOE"], 1) {
        let shape = pumex::synthetic::find("tiny-moe").unwrap();
        let gguf = shape.model(pumex::quantize::recipe::find(recipe).unwrap()).unwrap();
        // Of other ids a router may be undecided between two experts by less than what rounding changes.
        let ids: Vec<u32> = (0..20).map(|i| (i * 5 + 2) % 120).collect();
        let run = |megakernel| {
            let mut runner = vulkan(
                &gguf,
                pumex::engine::Options {
                    debug: Debug { megakernel: Some(megakernel), ..exact() },
                    ..options(CacheType::F16)
                },
            )?;
            runner.build_ahead().unwrap();
            let (before, built) = (runner.counters().dispatches, runner.pipelines());
            let all = logits(&mut runner, &ids, 1);
            assert_silent(&runner);
            assert_eq!(runner.pipelines(), built, "pipelines that were not built ahead");
            Some((all, runner.counters().dispatches - before))
        };
        let (Some(megakernel), Some(unfused)) = (run(true), run(false)) else { return };
        let error = nmse(&megakernel.0, &unfused.0);
        println!("{recipe}: NMSE {error:.2e}, {} and {} dispatches", megakernel.1, unfused.1);
        assert!(error < 1e-7, "{recipe}: NMSE {error:e}");
        assert!(megakernel.1 <= 5 * 20, "embedding, megakernel, head, argmax: {} dispatches of 20 steps", megakernel.1);
    }
}

/// A model with biases and factors, which no golden model has: those of the fixture and made-up ones.
fn with_biases() -> Gguf {
    use pumex::gguf::write::{header, Entry, ALIGNMENT};
    let from = Gguf::open(&crate::util::fixture("Q4_K_S").with_extension("gguf")).unwrap();
    let mut parts: Vec<(Entry, Vec<u8>)> = Vec::new();
    let f32s = |name: String, values: Vec<f32>| {
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        (Entry { name, dims: vec![values.len() as u64], type_id: 0, len_bytes: bytes.len() as u64 }, bytes)
    };
    for t in from.tensors() {
        let entry = Entry { name: t.name.clone(), dims: t.dims.clone(), type_id: t.type_id, len_bytes: t.len_bytes };
        parts.push((entry, from.data(t).to_vec()));
        let Some(name) = t.name.strip_suffix(".weight").filter(|_| t.name.starts_with("blk.") && t.dims.len() == 2)
        else {
            continue;
        };
        let values = (0..t.dims[1]).map(|i| 0.05 * ((i * 5 + t.dims[1]) % 7) as f32 - 0.15).collect();
        let down = name.ends_with("ffn_down");
        parts.push(if down { f32s(format!("{name}.scale"), vec![1.25]) } else { f32s(format!("{name}.bias"), values) });
    }
    let entries: Vec<Entry> = parts.iter().map(|(entry, _)| entry.clone()).collect();
    let mut bytes = header(from.meta().iter(), &entries, ALIGNMENT);
    for (_, data) in parts {
        bytes.extend(data);
        bytes.resize(bytes.len().next_multiple_of(ALIGNMENT as usize), 0);
    }
    Gguf::from_static("biases.gguf", bytes.leak()).unwrap()
}

/// By the same pipeline as those of products without, which is why they are not tested by themselves.
fn stages_take_biases_and_factors() {
    let gguf = with_biases();
    let ids: Vec<u32> = (0..20).map(|i| (i * 7 + 5) % 120).collect();
    let truth = logits(&mut reference(&gguf), &ids, 64);
    let plain = Gguf::open(&crate::util::fixture("Q4_K_S").with_extension("gguf")).unwrap();
    assert!(nmse(&logits(&mut reference(&plain), &ids, 64), &truth) > 1e-3, "they matter");
    for megakernel in [true, false] {
        let megakernel = Some(megakernel);
        let (codes, bound) = if exhaustive() { (ActivationQuant::Q16, 1e-7) } else { (ActivationQuant::Q8, 5e-4) };
        let debug = Debug { megakernel, ..exact() };
        let way = pumex::engine::Options { debug, activations: Some(codes), ..options(CacheType::F32) };
        let Some(mut runner) = vulkan(&gguf, way) else { return };
        let error = nmse(&logits(&mut runner, &ids, 1), &truth);
        assert!(error < bound, "megakernel {megakernel:?}: NMSE {error:e}");
        assert_silent(&runner);
    }
}

/// Runs several workgroups, which send each other what they make: on software devices, too, where their threads run at once. One
/// that is held up may give up; the steps are done again then, and ids are the same.
#[test]
fn several_workgroups_give_what_one_dispatch_for_each_op_gives() {
    let Some(device) = crate::util::device(false) else { return };
    let groups = 2;
    if !exhaustive() || !pumex::exec::run_at_once(&device, groups, 1 << 14).unwrap() {
        println!("skipped: a sample, or {groups} workgroups do not run at once on {}", device.caps().name);
        return;
    }
    let gguf = Gguf::open(&crate::util::fixture("Q4_K_S").with_extension("gguf")).unwrap();
    let ids: Vec<u32> = (0..20).map(|i| (i * 7 + 5) % 120).collect();
    let run = |megakernel| {
        let debug = Debug { megakernel: Some(megakernel), megakernel_groups: Some(groups), ..exact() };
        let mut runner = vulkan(&gguf, pumex::engine::Options { debug, ..options(CacheType::F16) })?;
        let all = (logits(&mut runner, &ids, 1), greedy(&mut runner, &ids, 64));
        assert_silent(&runner);
        Some(all)
    };
    let (Some(several), Some(unfused)) = (run(true), run(false)) else { return };
    let error = nmse(&several.0, &unfused.0);
    println!("{groups} workgroups: NMSE {error:.2e}");
    assert!(error < 1e-7, "{groups} workgroups: NMSE {error:e}");
    assert_eq!(several.1, unfused.1);
}

/// Workgroups that wait for others which do not run give up instead of hanging.
#[test]
fn workgroups_that_do_not_run_at_once_and_messages_that_are_torn_are_found_out() {
    let Some(device) = crate::util::device(false) else { return };
    assert!(pumex::exec::run_at_once(&device, 1, 1 << 10).unwrap());
    // More than any GPU has room for, or a software device has threads.
    let many = if device.caps().kind == pumex::vk::DeviceKind::Cpu { 64 } else { 1 << 14 };
    assert!(!pumex::exec::run_at_once(&device, many, 1 << 10).unwrap(), "{many} workgroups");
    // By the same pipeline: the trial reads every word of what is sent, so that a store of which a part comes late is no message.
    assert!(pumex::exec::trial(&device, 1, 1 << 10, 0).unwrap());
    for salt in [1, 1 << 31, u32::MAX] {
        assert!(!pumex::exec::trial(&device, 1, 1 << 10, salt).unwrap(), "{salt:#x}");
    }
}
