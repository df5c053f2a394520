//! Shapes that are found by measuring.

use crate::util::{demo_path, device, logits, nmse, options};
use pumex::engine::tune::{self, Search};
use pumex::engine::{CacheType, Options, VulkanRunner};
use pumex::gguf::Gguf;
use pumex::lower::dump::{explain, DryRun};
use pumex::model;
use pumex::vk::{Caps, Disabled, Tuned, TunedProduct, TunedShape};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

#[test]
fn a_search_names_the_products_of_a_step_and_their_shapes_change_no_logits() {
    let Some(device) = device(true) else { return };
    let gguf = Gguf::open(&demo_path()).unwrap();
    let search = Search { rows: vec![1], most: Duration::ZERO, blind: false, ways: false };
    let (stop, options) = (AtomicBool::new(false), options(CacheType::F16));
    let found = tune::tune(&gguf, device.clone(), &options, &search, &stop, &mut |_, _| ()).unwrap().unwrap();
    let report = &found.steps[0];
    assert!(report.cut && !report.kept && report.step_us.iter().all(|us| *us > 0.0), "{report:?}");
    let products: Vec<_> = report.choices.iter().map(|choice| choice.product.clone()).collect();
    let has = |m: usize, k: usize, gated: bool| {
        products.iter().any(|p| (p.outputs, p.inputs, p.gated) == (m, k, gated) && p.columns == 1)
    };
    assert!(has(768, 256, true) && has(256, 768, false) && has(4096, 256, false), "{products:?}");
    assert!(report.choices.iter().all(|c| c.shape.is_none() && c.us[0] > 0.0), "nothing was tried");
    let shape = TunedShape { threads: 128, rows: 4, per_core: Some(1) };
    // A dry run has activations of as many bits as the device does best.
    let both = products.into_iter().flat_map(|p| [8, 16].map(|bits| TunedProduct { bits, ..p.clone() }));
    let tuned: Vec<_> = both.map(|product| Tuned { product, shape }).collect();
    let (caps, plan) = (Caps { tuned, ..device.caps().clone() }, model::plan(&gguf).unwrap());
    // The megakernel has a tile of its own.
    let mut alone = caps.clone();
    alone.disabled.push(Disabled { kernel: "megakernel".into(), why: "for single dispatches".into() });
    let step = DryRun {
        plan: &plan,
        caps: &alone,
        rows: 1,
        decode_batch: false,
        outputs: 1,
        cache_types: (CacheType::F16, CacheType::F16),
        source: false,
        len: 1,
    };
    let dispatches = explain(&step).unwrap().dispatches;
    let taken = dispatches.iter().filter(|d| d.variants.iter().any(|v| v.row.as_ref().is_some_and(|r| r.0 == "tuned")));
    assert!(taken.count() > plan.layers.len(), "every layer has products of such shapes");
    let ids = [1, 5, 70, 900, 33];
    let of = |caps: Caps| {
        let (plan, device) = (model::plan(&gguf).unwrap(), device.with_caps(caps));
        let options = Options { n_ctx: Some(64), ..options.clone() };
        let mut runner = VulkanRunner::new(&gguf, plan, device, &options, &mut |_, _| ()).unwrap();
        logits(&mut runner, &ids, 1)
    };
    let (usual, other) = (of(device.caps().clone()), of(caps.clone()));
    assert!(nmse(&other, &usual) < 1e-6, "{}", nmse(&other, &usual));
    // None of the searches went on after it was told to stop.
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    let search = Search { most: Duration::from_secs(60), ..search };
    assert!(tune::tune(&gguf, device, &options, &search, &stop, &mut |_, _| ()).unwrap().is_none());
}

/// What `serve --auto` tells until it listens.
fn serve_and_read(command: &mut Command) -> String {
    let mut server = command.args(["--auto", "--port", "0"]).stderr(Stdio::piped()).spawn().unwrap();
    let mut told = String::new();
    for line in BufReader::new(server.stderr.take().unwrap()).lines().map(Result::unwrap) {
        told += &line;
        if line.contains("listening on") {
            break;
        }
    }
    server.kill().unwrap();
    server.wait().unwrap();
    told
}

#[test]
fn what_was_found_is_kept_for_the_model_and_forgotten_when_asked() {
    if !crate::util::has_device() {
        return;
    }
    let folder = std::env::temp_dir().join(format!("pumex-tune-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let run = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pumex"));
        let found = command.args(args).env("XDG_CACHE_HOME", &folder).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        (found.status.code(), text(&found.stdout), text(&found.stderr))
    };
    let demo = demo_path();
    let of_demo = ["-m", demo.to_str().unwrap(), "--device", "vulkan"];
    let tune = |more: &[&str]| run(&[&["tune"], &of_demo[..], more].concat());
    let (code, out, err) = tune(&["--seconds", "1", "--rows", "1", "--json"]);
    assert_eq!(code, Some(0), "{err}");
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert!(report["steps"][0]["choices"].as_array().is_some_and(|all| !all.is_empty()), "{out}");
    // The model is known now, so that nothing is measured again.
    let generate = |more: &[&str]| run(&[&["run", "-p", "And", "-n", "2", "--temp", "0"], &of_demo[..], more].concat());
    let (code, text, err) = generate(&["--auto"]);
    assert!(code == Some(0) && !err.contains("tuning"), "{err}");
    if cfg!(feature = "serve") {
        let told = serve_and_read(
            Command::new(env!("CARGO_BIN_EXE_pumex")).arg("serve").args(of_demo).env("XDG_CACHE_HOME", &folder),
        );
        assert!(told.contains("listening on") && !told.contains("tuning"), "{told}");
    }
    let (code, out, _) = tune(&["--forget"]);
    assert_eq!((code, out.as_str()), (Some(0), ""));
    assert_eq!(generate(&[]).1, text);
    // No file that is damaged counts for anything.
    let kept = std::fs::read_dir(folder.join("pumex")).unwrap().map(|e| e.unwrap().path());
    let kept: Vec<_> = kept.filter(|p| p.file_name().unwrap().to_string_lossy().starts_with("tuned-")).collect();
    assert_eq!(kept.len(), 1, "{kept:?}");
    std::fs::write(&kept[0], "no such thing").unwrap();
    assert_eq!(generate(&[]).1, text);
    assert_eq!(run(&["tune", "--device", "cpu"]).0, Some(2));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn other_kernels_are_tried_for_a_model_and_agree() {
    let Some(device) = device(true) else { return };
    let gguf = Gguf::open(&demo_path()).unwrap();
    let search = Search { rows: Vec::new(), most: Duration::from_secs(300), blind: true, ways: true };
    let options = Options { max_rows: 48, ..options(CacheType::F16) };
    let found = tune::tune(&gguf, device, &options, &search, &AtomicBool::new(false), &mut |_, _| ()).unwrap().unwrap();
    let report = found.ways.unwrap();
    assert!(found.steps.is_empty() && !report.cut && report.rows == 48, "{report:?}");
    let products = |name: &str| report.tried.iter().any(|tried| tried.way.products.as_deref() == Some(name));
    assert!(products("gemm_half") && products("no matrices"), "{report:?}");
    assert!(report.tried.iter().all(|tried| !tried.wrong && tried.us.iter().all(|us| *us > 0.0)), "{report:?}");
}
