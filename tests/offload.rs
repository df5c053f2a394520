//! A model in two parts: the first layers on the CPU, the others on a device, must be what either alone is.

use crate::seeded::{families, recipes, Recipe};
use crate::util::{demo_path, device, exhaustive, fixture, logits, nmse, options, reference, rows, sample};
use pumex::cpu::Reference;
use pumex::engine::{self, CacheType, Offload, Options, Override};
use pumex::gguf::Gguf;
use pumex::model;
use pumex::plan::{Op, Plan};
use pumex::sample::{Allowed, SampleRequest, SamplerOptions};
use pumex::step::{Output, Row, RowOutput, Runner, Token, Want};
use pumex::vk::DeviceKind;
use regex::Regex;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

/// Products on the CPU quantize activations to 8 bits, which comes to 6e-5.
const BOUND: f64 = 3e-4;

fn split_runner<'a>(gguf: &'a Gguf, plan: &Plan, on_gpu: usize) -> Option<Offload<'a>> {
    let way = Options { n_seqs: 3, activations: None, ..options(CacheType::F16) };
    Some(Offload::new(gguf, plan, device(false)?, on_gpu, &way, &mut |_, _| ()).unwrap())
}

fn ids(count: u32) -> Vec<u32> {
    (0..count).map(|i| (i * 97 + 5) % 4096).collect()
}

#[test]
fn a_plan_is_parted_at_every_layer_into_plans_of_their_own_weights() {
    let gguf = Gguf::open(&demo_path()).unwrap();
    let plan = model::plan(&gguf).unwrap();
    for layer in 1..plan.layers.len() {
        let (first, second) = plan.split(layer, 64).unwrap();
        assert_eq!((first.n_vocab, first.n_ids()), (256, 4096), "its logits are what goes over");
        assert_eq!((second.n_vocab, second.n_ids()), (4096, 64), "its ids are rows of the table");
        let kept = |plan: &Plan| plan.kv_layers().map(|(i, _)| i).collect::<Vec<_>>();
        assert_eq!(kept(&first), (0..layer).collect::<Vec<_>>());
        assert_eq!(kept(&second), (layer..plan.layers.len()).collect::<Vec<_>>());
        let names = |plan: &Plan| plan.weights.iter().map(|w| w.name.clone()).collect::<Vec<_>>();
        assert!(names(&first).iter().all(|name| !name.starts_with(&format!("blk.{layer}."))));
        assert!(names(&second).iter().all(|name| !name.starts_with(&format!("blk.{}.", layer - 1))));
        assert!(second.weights.iter().filter(|w| w.is_from_host()).count() == 1);
        assert_eq!(first.ops.len() + second.ops.len(), plan.ops.len() + 2);
    }
    assert!(plan.split(plan.layers.len(), 64).is_none(), "there is no such layer");
    // The second part would read a state that the first one writes.
    let mut shared = plan.clone();
    for op in &mut shared.ops {
        if let Op::Attend { spec, .. } | Op::RopeKv { spec, .. } = op {
            spec.layer = 0;
        }
    }
    assert!(shared.split(2, 64).is_none());
}

#[test]
fn every_split_between_cpu_and_device_agrees_with_either_alone() {
    let gguf = Gguf::open(&demo_path()).unwrap();
    let plan = model::plan(&gguf).unwrap();
    let (ids, all) = (ids(40), plan.layers.len());
    let truth = logits(&mut reference(&gguf), &ids, 40);
    let splits: Vec<usize> = if exhaustive() { (1..all).collect() } else { vec![2] };
    for on_gpu in splits {
        let Some(mut runner) = split_runner(&gguf, &plan, on_gpu) else { return };
        for &chunk in sample(&[1, 40, 9], 2) {
            let error = nmse(&logits(&mut runner, &ids, chunk), &truth);
            assert!(error < BOUND, "{on_gpu} of {all} layers, chunks of {chunk}: NMSE {error:e}");
        }
    }
    sequences_of_a_model_in_two_parts_sample_fork_and_go_back();
}

/// By the pipelines of the test that calls it.
fn sequences_of_a_model_in_two_parts_sample_fork_and_go_back() {
    let gguf = Gguf::open(&demo_path()).unwrap();
    let plan = model::plan(&gguf).unwrap();
    let Some(mut runner) = split_runner(&gguf, &plan, 2) else { return };
    let row = |seq, pos, token, output| Row { seq, pos, token, output, medium: None };
    let refused = runner.start(&[row(0, 0, Token::Sampled, RowOutput::Id)]).unwrap_err().to_string();
    assert!(refused.contains("sequence 0: expected an id that a step sampled"), "{refused}");
    assert!(runner.start(&[row(0, 5, Token::Id(1), RowOutput::Id)]).is_err(), "a gap");
    // Ids that are sampled go on by themselves, and penalties see them.
    let chain = SamplerOptions { temperature: 0.0, repeat_penalty: 1.5, ..SamplerOptions::default() };
    let request = || {
        RowOutput::Sample(SampleRequest {
            options: Arc::new(chain.clone()),
            recent: vec![5],
            unit: 0.0,
            allowed: Allowed::All,
        })
    };
    let prompt = runner.run(&rows(0, 0, &[5, 102, 199]), Want::Ids).unwrap();
    let mut sampled = vec![*prompt.ids.last().unwrap()];
    for pos in 3..6 {
        let ticket = runner.start(&[row(0, pos, Token::Sampled, request())]).unwrap();
        sampled.extend(runner.finish(ticket).unwrap().ids);
    }
    runner.forget(0, 3);
    for (i, pos) in (3..6).enumerate() {
        let mut known = row(0, pos, Token::Id(sampled[i]), request());
        if let RowOutput::Sample(request) = &mut known.output {
            request.recent.push(sampled[i]);
        }
        let ticket = runner.start(&[known]).unwrap();
        assert_eq!(runner.finish(ticket).unwrap().ids, sampled[i + 1..=i + 1]);
    }
    // A fork holds what it was taken of.
    runner.fork(0, 1, 6).unwrap();
    let both = runner.run(&[rows(0, 6, &[9]), rows(1, 6, &[9])].concat(), Want::Logits).unwrap().logits;
    assert!(nmse(&both[..4096], &both[4096..]) < 1e-9);
}

/// The parts of a model one after the other, each on the reference.
fn run_through(gguf: &Gguf, parts: &[(bool, Plan)], ids: &[u32], chunk: usize) -> Vec<f32> {
    let runner = |(_, plan): &(bool, Plan)| Reference::new(gguf, plan.clone(), 1024, 1, 256);
    let (mut runners, mut all) = (parts.iter().map(runner).collect::<Vec<_>>(), Vec::new());
    for (n, some) in ids.chunks(chunk).enumerate() {
        let mut rows = rows(0, n * chunk, some);
        let mut output = Output::default();
        for runner in &mut runners {
            runner.fill_rows(&output.logits);
            output = runner.run(&rows, Want::Logits).unwrap();
            (0..).zip(&mut rows).for_each(|(i, row)| row.token = Token::Id(i));
        }
        all.extend(output.logits);
    }
    all
}

/// Layers that hand on more than the residual (a first value, the embedding, shared keys) go with their neighbours where no cut can be.
#[test]
fn parts_of_every_family_are_the_whole_wherever_the_layers_are_parted() {
    let (mut splits, mut whole) = (0, Vec::new());
    for (name, recipe) in families() {
        let gguf = recipe.gguf(name);
        let plan = model::plan(&gguf).unwrap();
        let ids = &recipe.ids[..recipe.ids.len().min(12)];
        let chunk = if plan.looks_ahead() { ids.len() } else { 7 };
        let truth = logits(&mut reference(&gguf), ids, chunk);
        for layer in 1..plan.layers.len() {
            let Some(cut) = plan.first_op(layer) else { continue }; // without weights
            let parts = plan.segments(|i, _| i < cut, 256);
            if parts.len() < 2 {
                whole.push((name, layer));
                continue;
            }
            let error = nmse(&run_through(&gguf, &parts, ids, chunk), &truth);
            assert!(error < 1e-12, "{name}, parted at layer {layer} of {}: NMSE {error:e}", plan.layers.len());
            splits += 1;
        }
    }
    println!("{splits} splits; these stay whole: {whole:?}");
    assert!(splits > 100);
}

/// Families whose layers hand on several values, between the CPU and a device.
#[test]
fn families_that_hand_on_several_values_run_on_both_or_say_why_not() {
    let names = ["rwkv7", "talkie", "gemma3n", "gemma4", "arwkv7"];
    let found: Vec<_> = recipes().into_iter().filter(|(name, _)| names.contains(name)).collect();
    for (name, recipe) in found.iter().take(if exhaustive() { names.len() } else { 1 }) {
        let gguf = recipe.gguf(name);
        let plan = model::plan(&gguf).unwrap();
        let ids = &recipe.ids[..recipe.ids.len().min(12)];
        let truth = logits(&mut reference(&gguf), ids, 12);
        for on_gpu in 1..plan.layers.len() {
            let Some(device) = device(false) else { return };
            let way = Options { activations: None, ..options(CacheType::F32) };
            let mut runner = match Offload::new(&gguf, &plan, device, on_gpu, &way, &mut |_, _| ()) {
                Ok(runner) => runner,
                Err(refused) => {
                    assert!(refused.to_string().contains("expected a model that can be parted there"), "{refused}");
                    println!("{name}, {on_gpu} layers: {refused}");
                    continue;
                }
            };
            for chunk in [1, 12] {
                let error = nmse(&logits(&mut runner, ids, chunk), &truth);
                println!("{name}, {on_gpu} layers, chunks of {chunk}: NMSE {error:.2e}");
                assert!(error < BOUND, "{name}, {on_gpu} layers, chunks of {chunk}: NMSE {error:e}");
            }
        }
    }
}

/// An encoder's last ops write what the decoder's layers read.
#[test]
fn a_part_of_an_encoder_and_decoder_on_a_device_is_told_to_run_on_the_cpu() {
    if !crate::util::has_device() {
        return;
    }
    let of = |end: &str| std::env::temp_dir().join(format!("pumex-parted-{}.{end}", std::process::id()));
    let (file, out) = (of("gguf"), of("bin"));
    std::fs::write(&file, Recipe::recipe_of("t5").bytes()).unwrap();
    let told = |on_gpu: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pumex"));
        command.args(["logits", "--device", "vulkan", "-ngl", on_gpu, "--tokens", "5,9,1"]);
        let output = command.arg("-m").arg(&file).arg("--out").arg(&out).env_remove("RUST_LOG").output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{text}");
        text.lines().filter(|line| line.contains("-ngl")).map(str::to_string).collect::<Vec<_>>()
    };
    let parted = told("1");
    assert_eq!(parted.len(), 1, "{parted:?}");
    let why = "-ngl 1: an encoder and its decoder share keys and values, which stay on one device";
    assert!(parted[0].contains(why) && parted[0].contains("run on the CPU"), "{parted:?}");
    assert_eq!(told("0"), Vec::<String>::new(), "nothing else was asked for");
    [file, out].iter().for_each(|path| std::fs::remove_file(path).unwrap());
}

/// The parts that overrides make of a plan, with whether they run on the CPU: names of their weights.
fn parts(plan: &Plan, cpu: &str) -> Vec<(bool, Vec<String>)> {
    let on_cpu = |_: usize, op: &Op| op.weights().iter().any(|w| plan.weights[w.0].name.contains(cpu));
    let names = |plan: &Plan| plan.weights.iter().map(|w| w.name.clone()).collect();
    plan.segments(on_cpu, 64).iter().map(|(on, part)| (*on, names(part))).collect()
}

#[test]
fn a_plan_becomes_a_chain_of_parts_that_change_devices() {
    let gguf = Gguf::open(&fixture("qwen3moe").with_extension("gguf")).unwrap();
    let plan = model::plan(&gguf).unwrap();
    let chain = parts(&plan, "_exps");
    let layers = plan.layers.len();
    assert_eq!(chain.len(), 2 * layers + 1);
    for (i, (on_cpu, names)) in chain.iter().enumerate() {
        assert_eq!(*on_cpu, i % 2 == 1);
        let has = |stem: &str| names.iter().any(|name| name.contains(stem));
        assert!(
            has("_exps") == *on_cpu && has("ffn_norm") == *on_cpu,
            "the norm's input is all that goes over: {names:?}"
        );
        assert_eq!(has("attn_q."), i % 2 == 0 && i < 2 * layers);
    }
    // Attention and its cache stay together: there is a cut before and after, and none between.
    let chain = parts(&plan, "blk.1.attn_k.");
    assert_eq!(chain.iter().map(|(on_cpu, _)| *on_cpu).collect::<Vec<_>>(), [false, true, false]);
    assert!(chain[1].1.iter().any(|name| name == "blk.1.attn_output.weight"), "{:?}", chain[1].1);
    assert!(!chain[1].1.iter().any(|name| name.contains("ffn_")), "{:?}", chain[1].1);
    // What no op goes away from stays whole.
    assert_eq!(parts(&plan, "nothing").iter().map(|(on_cpu, _)| *on_cpu).collect::<Vec<_>>(), [false]);
}

#[test]
fn tensors_that_stay_on_the_cpu_change_no_result() {
    let way = |overrides: Vec<Override>| Options { overrides, activations: None, n_seqs: 3, ..options(CacheType::F16) };
    let of = |pattern: &str| Override { pattern: Regex::new(pattern).unwrap(), on_cpu: true, flag: Some("-ot") };
    let moe = fixture("qwen3moe").with_extension("gguf");
    let cases: [(&Path, Vec<Override>, &str); 6] = [
        (&moe, Override::experts(None).into_iter().collect(), "parts of"),
        (&moe, Override::experts(Some(1)).into_iter().collect(), "parts of 1"),
        (&demo_path(), vec![of(r"blk\.[135]\.attn_")], "parts of 3"),
        (&demo_path(), vec![of("ffn_down")], "parts of 6"),
        (&demo_path(), vec![of("output")], ""),
        (&demo_path(), vec![of("token_embd"), of(r"blk\.3\.ffn")], "parts of 1"),
    ];
    for (model, overrides, says) in sample(&cases, 3).iter().cloned() {
        let gguf = Gguf::open(model).unwrap();
        let Some(device) = device(false) else { return };
        let what = format!("{overrides:?}");
        let mut runner = pumex::engine::load_on(&gguf, Some(device), &way(overrides), &mut |_, _| ()).unwrap();
        assert!(runner.device().contains(says), "{what}: {}", runner.device());
        let ids: Vec<u32> = (0..24).map(|i| (i * 97 + 5) % runner.n_vocab() as u32).collect();
        let truth = logits(&mut reference(&gguf), &ids, 24);
        for chunk in [1, 24] {
            let error = nmse(&logits(&mut *runner, &ids, chunk), &truth);
            assert!(error < BOUND, "{what}, chunks of {chunk}: NMSE {error:e}");
        }
    }
    let gguf = Gguf::open(&demo_path()).unwrap();
    let unmatched = engine::load(&gguf, &way(vec![of("atn_")]), &mut |_, _| ()).err().unwrap();
    assert_eq!(unmatched.exit_code(), 2);
    assert!(unmatched.to_string().contains("atn_: expected a pattern that matches a tensor's name"), "{unmatched}");
}

#[test]
fn as_many_layers_as_there_is_room_for_run_on_the_device() {
    let Some(device) = device(false) else { return };
    let caps = device.caps();
    if !exhaustive() || caps.kind != DeviceKind::Cpu {
        println!("skipped: a sample, or {} has memory of its own to fill", caps.name);
        return;
    }
    let gguf = Gguf::open(&demo_path()).unwrap();
    // A context of which the caches of all six layers take half as much again as there is.
    let per_position = 6 * 2 * 128 * 2;
    let n_ctx = (caps.memory_budget_bytes * 3 / 2 / per_position).min(1 << 24) as u32;
    let way = Options { n_ctx: Some(n_ctx), n_seqs: 1, activations: None, ..options(CacheType::F16) };
    let mut runner = pumex::engine::load_on(&gguf, Some(device), &way, &mut |_, _| ()).unwrap();
    let name = runner.device();
    assert!(name.starts_with("CPU with") && [" for 3", " for 4"].iter().any(|end| name.ends_with(end)), "{name}");
    let ids = ids(3);
    assert!(nmse(&logits(&mut *runner, &ids, 3), &logits(&mut reference(&gguf), &ids, 3)) < BOUND);
}
