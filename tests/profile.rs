//! The profile: its bytes are the tensors', its times add up, and what it writes needs nothing else.

use crate::util::{assert_silent, demo_path, device, exact, exhaustive, options, rows, usual, vulkan};
use pumex::engine::{bandwidth, CacheType, Debug, VulkanRunner};
use pumex::gguf::Gguf;
use pumex::policy::ActivationQuant;
use pumex::profile::{measure, Profile, ProfileOptions, Roof, DISPATCH_US, FLAG_OVER};
use pumex::quantize::recipe;
use pumex::step::{Runner, Want};
use pumex::synthetic;
use std::process::{Command, Output};
use std::sync::atomic::AtomicBool;

fn profile(runner: &mut VulkanRunner, rows: usize, depth: usize) -> Profile {
    profile_of(runner, rows, depth, false)
}

fn profile_of(runner: &mut VulkanRunner, rows: usize, depth: usize, parallel: bool) -> Profile {
    let roof = Roof::gpu(bandwidth::load_or_measure(runner.vk()).unwrap());
    let options = ProfileOptions { rows, depth, repetitions: 2, draw: depth > 0, parallel };
    measure(runner, options, roof, &AtomicBool::new(false), &mut |_, _| ()).unwrap().unwrap()
}

#[test]
fn bytes_of_the_demo_models_ops_are_its_tensors() {
    let gguf = Gguf::open(&demo_path()).unwrap();
    let Some(mut runner) = vulkan(&gguf, usual(CacheType::F16)) else { return };
    let p = profile(&mut runner, 1, 70);
    let size = |name: &String| gguf.tensor(name).unwrap().len_bytes;
    for op in p.ops.iter().filter(|op| op.work.op != "embed") {
        assert_eq!(op.work.parts.weights, op.work.tensors.iter().map(size).sum::<u64>(), "{:?}", op.work);
    }
    // The embedding is the output matrix too, of which the embedding itself reads a row of 256 weights.
    let all: u64 = gguf.tensors().iter().map(|t| t.len_bytes).sum();
    assert_eq!(p.parts.weights, all + 210);
    // 71 positions of K and V in 6 layers, 2 heads of 64, half floats.
    assert_eq!(p.parts.cache, 71 * 2 * 6 * 2 * 64 * 2);
    assert_eq!(p.cost.bytes, p.ops.iter().map(|op| op.cost.bytes).sum::<u64>());
    let down = p.ops.iter().find(|op| op.work.op == "ffn_down" && op.work.layer == Some(3)).unwrap();
    assert_eq!(down.work.tensors, ["blk.3.ffn_down.weight"]);
    assert_eq!(down.work.parts.activations, 4 * (768 + 2 * 256));
    assert_silent(&runner);
}

#[test]
fn what_others_do_is_shown_with_them() {
    let gguf = Gguf::open(&demo_path()).unwrap();
    let way = pumex::engine::Options { debug: Debug { matrices: false, ..exact() }, ..options(CacheType::F16) };
    let Some(mut runner) = vulkan(&gguf, way) else { return };
    let one = profile(&mut runner, 1, 0);
    let names = |p: &Profile| p.ops.iter().map(|op| op.work.op.clone()).collect::<Vec<_>>();
    let layer = ["norm+attn_q+k+v", "rope+attend", "attn_output", "norm+ffn_gate+up", "ffn_down"];
    assert_eq!(names(&one)[1..6], layer);
    assert_eq!(one.ops.len(), 1 + 6 * 5 + 2);
    // A chunk's norms and RoPE are dispatches of their own.
    let chunk = profile(&mut runner, 20, 0);
    assert_eq!(names(&chunk)[1..5], ["norm", "attn_q+k+v", "rope", "attend"]);
    assert_eq!(one.parts.weights - 210, chunk.parts.weights - 20 * 210, "only more rows of the embedding");
}

#[test]
fn rows_of_sequences_of_their_own_read_a_cache_each() {
    let gguf = Gguf::open(&demo_path()).unwrap();
    let Some(mut runner) = vulkan(&gguf, usual(CacheType::F16)) else { return };
    let p = profile_of(&mut runner, 2, 5, true);
    assert_eq!(p.parts.cache, 2 * 6 * 2 * 6 * 2 * 64 * 2);
    assert!(p.ops.iter().any(|op| op.work.op == "rope+attend"), "no other row wants what a row writes");
    assert_silent(&runner);
}

#[test]
fn times_of_ops_layers_and_kinds_add_up_to_the_steps() {
    let gguf = Gguf::open(&demo_path()).unwrap();
    let Some(mut runner) = vulkan(&gguf, usual(CacheType::F16)) else { return };
    let p = profile(&mut runner, 1, 0);
    let close = |a: f64, b: f64| (a / b - 1.0).abs() < 0.03;
    let sum = |costs: &mut dyn Iterator<Item = f64>| costs.sum::<f64>();
    assert!(close(sum(&mut p.layers.iter().map(|l| l.cost.us)), p.ops_us));
    assert!(close(sum(&mut p.kinds.iter().map(|k| k.cost.us)), p.ops_us));
    assert_eq!(p.kinds.iter().map(|k| k.count).sum::<usize>(), p.ops.len());
    let names: Vec<&str> = p.layers.iter().map(|l| l.layer.as_str()).collect();
    assert_eq!(names, ["embedding", "0", "1", "2", "3", "4", "5", "head"]);
    // With what the stamps cost the ops are the stamped step; of a short op at most half is taken off.
    let stamps = p.ops.len() as f64 * p.stamp_us;
    assert!(p.ops_us <= p.stamped_us && p.ops_us + stamps >= 0.97 * p.stamped_us, "{p:?}");
    for op in &p.ops {
        let c = &op.cost;
        assert!(c.us > 0.0 && c.dispatches > 0, "{op:?}");
        let floor = c.bytes as f64 / p.roof.bandwidth.read * 1e6 + c.dispatches as f64 * DISPATCH_US;
        assert!(close(c.floor_us, floor) && c.over_floor == (c.us > FLAG_OVER * floor), "{op:?}");
        assert!(close(c.share * p.roof.bandwidth.read, c.gb_per_s * 1e9), "{op:?}");
    }
}

/// What decoding does in one dispatch is timed beside the ops, which have their own.
#[test]
fn chained_steps_are_timed_beside_those_whose_ops_are() {
    // What another test runs too, so that the largest pipeline is compiled once.
    let gguf = Gguf::open(&crate::util::fixture("Q4_K_S").with_extension("gguf")).unwrap();
    let activations = Some(if exhaustive() { ActivationQuant::Q16 } else { ActivationQuant::Q8 });
    let debug = Debug { megakernel: Some(true), ..exact() };
    let way = pumex::engine::Options { debug, activations, ..options(CacheType::F32) };
    let Some(mut runner) = vulkan(&gguf, way) else { return };
    let megakernel = profile(&mut runner, 1, 0);
    assert!(megakernel.megakernel_us.is_some_and(|us| us > 0.0) && megakernel.ops.len() >= 8, "{megakernel:?}");
    assert!(profile(&mut runner, 2, 0).megakernel_us.is_none(), "several rows have other kernels");
}

/// Steps without stamps keep their recordings and commands, before and after a profile.
#[test]
fn a_profile_leaves_steps_without_stamps_as_they_were() {
    let gguf = Gguf::open(&demo_path()).unwrap();
    let Some(mut runner) = vulkan(&gguf, usual(CacheType::F16)) else { return };
    let mut step = || {
        let before = runner.counters();
        runner.forget(0, 0);
        runner.run(&rows(0, 0, &[7]), Want::Ids).unwrap();
        let now = runner.counters();
        (now.dispatches - before.dispatches, now.barriers - before.barriers, now.recordings - before.recordings)
    };
    step();
    step();
    let before = step();
    assert_eq!(before.2, 0);
    profile(&mut runner, 1, 0);
    let counters = runner.counters();
    runner.forget(0, 0);
    runner.run(&rows(0, 0, &[7]), Want::Ids).unwrap();
    let now = runner.counters();
    let after =
        (now.dispatches - counters.dispatches, now.barriers - counters.barriers, now.recordings - counters.recordings);
    assert_eq!(after, before);
    assert_eq!(runner.last_step().gpu_us, 0.0, "nobody asked for the time");
    runner.time_steps(true);
    runner.run(&rows(0, 1, &[7]), Want::Ids).unwrap();
    assert!(runner.last_step().gpu_us > 0.0);
}

#[test]
fn experts_count_as_many_as_rows_can_reach() {
    let gguf = synthetic::find("tiny-moe").unwrap().model(recipe::find("Q8_0").unwrap()).unwrap();
    let Some(mut runner) = vulkan(&gguf, usual(CacheType::F16)) else { return };
    let of = |p: &Profile, name: &str| p.ops.iter().find(|op| op.work.op.contains(name)).unwrap().work.parts.weights;
    let all = gguf.tensor("blk.0.ffn_down_exps.weight").unwrap().len_bytes;
    let (one, three, nine) = (profile(&mut runner, 1, 0), profile(&mut runner, 3, 0), profile(&mut runner, 9, 0));
    assert_eq!(of(&one, "ffn_down_exps"), all / 4, "4 of 16");
    assert_eq!(of(&three, "ffn_down_exps"), all / 4 * 3);
    assert_eq!(of(&nine, "ffn_down_exps"), all);
    assert!(one.ops.iter().any(|op| op.work.op == "norm+rope+attend"), "qwen's heads are normed");
    // A router's product, and the norm before it, are shown with the choice that they are one dispatch with.
    let named = |p: &Profile, name: &str| p.ops.iter().filter(|op| op.work.op == name).cloned().collect::<Vec<_>>();
    let merged = named(&one, "norm+ffn_gate_inp+route");
    assert_eq!(merged.iter().map(|op| op.work.layer).collect::<Vec<_>>(), [0, 1, 2, 3].map(Some));
    let (work, size) = (&merged[1].work, |name: &String| gguf.tensor(name).unwrap().len_bytes);
    assert_eq!((work.types.as_str(), merged[1].cost.dispatches), ("F32", 1));
    assert_eq!(work.tensors, ["blk.1.ffn_gate_inp.weight", "blk.1.ffn_norm.weight"]);
    assert_eq!(work.parts.weights, work.tensors.iter().map(size).sum::<u64>());
    assert_eq!((named(&nine, "ffn_gate_inp").len(), named(&nine, "route").len()), (4, 4), "rows enough for a GEMM");
    assert!(named(&nine, "route").iter().all(|op| op.work.layer.is_some()));
}

#[test]
fn bandwidth_is_measured_once_for_a_device_and_driver() {
    let Some(device) = device(false) else { return };
    if pumex::vk::cache_file(device.caps(), "bandwidth", "json").is_none() {
        return;
    }
    bandwidth::load_or_measure(&device).unwrap();
    let before = device.counters();
    assert!(bandwidth::load_or_measure(&device).unwrap().read > 0.0);
    assert_eq!(device.counters(), before, "nothing was allocated or submitted");
}

fn pumex(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_pumex")).args(args).env_remove("RUST_LOG").output().unwrap()
}

#[test]
fn the_command_prints_json_and_writes_a_page_that_needs_nothing_else() {
    if !crate::util::has_device() {
        return;
    }
    let folder = std::env::temp_dir().join(format!("pumex-profile-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let page = folder.join("page.html");
    let args = ["profile", "--device", "vulkan", "-r", "3", "-d", "5", "-b", "2"];
    let done = pumex(&[&args[..], &["--json", "--html", page.to_str().unwrap()]].concat());
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let json: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!((&json["rows"], &json["depth"]), (&2.into(), &5.into()));
    assert!(json["token_us"].as_f64().unwrap() > 0.0 && json["bandwidth"]["read"].as_f64().unwrap() > 0.0);
    assert_eq!(json["model"]["description"], "llama 5.8M Q4_K - Medium");
    for key in
        ["op", "types", "layer", "tensors", "parts", "bytes", "us", "gb_per_s", "share", "floor_us", "over_floor"]
    {
        assert!(!json["ops"][1][key].is_null(), "{key}");
    }
    let text = std::fs::read_to_string(&page).unwrap();
    let outside = ["http:", "https:", "<script", "<link", "<img", "url(", "@import", "src=", "href="];
    assert!(outside.iter().all(|w| !text.contains(w)), "the page names something outside itself");
    assert_eq!((text.matches("<svg").count(), text.matches("</svg>").count()), (2, 2));
    assert!(text.starts_with("<!doctype html>") && text.contains("ffn_down") && !text.contains("NaN"), "{text}");
    let table = pumex(&[&args[..], &["--layers"]].concat());
    let table = String::from_utf8(table.stdout).unwrap();
    assert!(table.contains("\nop ") && table.contains("\nlayer ") && table.contains("\nhead "), "{table}");
    std::fs::remove_dir_all(&folder).unwrap();
}

/// On the CPU, bytes are those that its products read, and operations are told apart by what multiplies.
#[test]
fn the_cpu_is_profiled_like_a_gpu() {
    let args = ["profile", "--synthetic", "tiny-moe", "--type", "Q4_K_M", "--device", "cpu", "-r", "3", "-d", "5"];
    let done = pumex(&[&args[..], &["-b", "2", "-t", "2", "--json"]].concat());
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let json: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
    let float = |v: &serde_json::Value| v.as_f64().unwrap();
    for rate in [&json["bandwidth"]["read"], &json["bandwidth"]["copy"], &json["compute"]["floats"]] {
        assert!(float(rate) > 1e7, "{json}");
    }
    let ops = json["ops"].as_array().unwrap();
    let find = |name: &str| ops.iter().find(|op| op["op"] == name).unwrap();
    // 2 rows times q [256, 256], k and v [128, 256] each: two operations a weight, about 4.5 bits.
    let qkv = find("attn_q+k+v");
    assert_eq!(
        (&qkv["flops"], &qkv["quantized"], &qkv["layer"]),
        (&(2 * 2 * 512 * 256).into(), &true.into(), &0.into())
    );
    let weights = float(&qkv["parts"]["weights"]);
    assert!((0.5..0.8).contains(&(weights / (512.0 * 256.0))), "{weights} bytes");
    // 5 + 1 and 5 + 2 positions, 4 heads of 64 and 64.
    assert_eq!(find("attend")["flops"], 2 * 13 * 4 * 128);
    // A router is of floats; 2 rows reach 8 of 16 experts, and each multiplies with 4.
    let (router, down) = (find("ffn_gate_inp"), find("ffn_down_exps"));
    assert_eq!((&router["quantized"], &router["flops"]), (&false.into(), &(2 * 2 * 16 * 256).into()));
    assert_eq!(down["flops"], 2 * 2 * 4 * 256 * 256);
    for op in ops {
        let (us, floor) = (float(&op["us"]), float(&op["floor_us"]));
        let rate = float(&json["compute"][if op["quantized"] == true { "bytes" } else { "floats" }]);
        let bytes = float(&op["bytes"]) / float(&json["bandwidth"]["read"]);
        let wanted = 1e6 * bytes.max(float(&op["flops"]) / rate) + float(&json["start_us"]);
        assert!(us > 0.0 && (floor / wanted - 1.0).abs() < 0.01, "{op}");
        assert!(
            (float(&op["gflop_per_s"]) * us * 1e3 / float(&op["flops"]).max(1.0) - 1.0).abs() < 0.01
                || op["flops"] == 0
        );
    }
    let share = float(&json["ops_us"]) / float(&json["token_us"]);
    assert!(share > 0.2 && share < 5.0, "ops are {share} of the step");
    let table = String::from_utf8(pumex(&args).stdout).unwrap();
    assert!(table.contains("GFLOP/s, of bytes") && table.contains("Gop/s") && table.contains("CPU with"), "{table}");
}

#[test]
fn the_reference_has_no_profile_and_a_model_has_one_source() {
    for (args, says) in [
        (
            &["profile", "--device", "reference"][..],
            "expected the CPU's fast interpreter (--device cpu), found its reference",
        ),
        (&["profile", "-b", "0"], "--rows"),
        (&["profile", "-b", "2049"], "expected at most 2048 (--ubatch-size), found 2049"),
        (&["profile", "--synthetic", "llama-9b"], "expected one of llama-1b, llama-8b, llama-70b,"),
        (&["bench", "--synthetic", "tiny", "--type", "Q4_Z"], "expected one of Q1_0,"),
        (&["bench", "--synthetic", "tiny", "-m", "x.gguf"], "cannot be used with"),
        (&["bench", "--type", "Q8_0"], "--synthetic"),
    ] {
        let failed = pumex(args);
        let stderr = String::from_utf8_lossy(&failed.stderr);
        assert_eq!(failed.status.code(), Some(2), "{args:?}: {stderr}");
        assert!(failed.stdout.is_empty() && stderr.contains(says), "{args:?}: {stderr}");
    }
}

#[test]
fn bench_names_a_synthetic_model_as_it_would_the_file() {
    let args = [
        "bench",
        "--synthetic",
        "tiny-moe",
        "--type",
        "q4_k",
        "--device",
        "cpu",
        "-p",
        "2",
        "-n",
        "1",
        "-r",
        "1",
        "-o",
    ];
    let done = pumex(&[&args[..], &["json"]].concat());
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let rows: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(rows[0]["model_type"], "qwen3moe 79.1M Q4_K - Medium");
    assert_eq!(rows[0]["model_filename"], "tiny-moe-Q4_K_M (synthetic)");
    assert_eq!(
        rows[0]["model_n_params"],
        2 * 128_256 * 256 + 4 * (3 * 256 * 256 + 16 * 256 + 3 * 16 * 256 * 256 + 640) + 256
    );
}
