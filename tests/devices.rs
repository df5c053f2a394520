//! What is asked of devices: subgroups, limits, and what becomes of one that does not answer.

use crate::util;
use pumex::policy::{self, ActivationQuant, GemmFusion};
use pumex::vk::{Caps, Class, Device, DeviceKind, Module, Recording};
use pumex_shaders::kernels;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

fn words(spirv: &[u8]) -> Vec<u32> {
    spirv.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

/// GLSL's names, as compilers leave no trace of them: a module uses subgroups if its source does.
#[test]
fn modules_that_use_subgroups_are_known_by_themselves_and_their_size_follows_the_constant() {
    let (mut with, mut without) = (0, 0);
    for name in pumex_shaders::names() {
        let module =
            Module::read(&words(pumex_shaders::module(name).unwrap())).unwrap_or_else(|| panic!("{name} is no module"));
        let kernel = kernels::find(name.split('.').next().unwrap()).unwrap();
        match kernel.spec_id("SIZE") {
            Some(id) => assert_eq!(module.local_size(&[(id, 320)]), [320, 1, 1], "{name}"),
            None => assert_eq!(module.local_size(&[(0, 320)]), module.local_size(&[]), "{name}"),
        }
        let size = module.local_size(&[]);
        assert!(size.iter().all(|n| *n > 0) && size[1..] == [1, 1], "{name}: {size:?}");
        *(if module.subgroups { &mut with } else { &mut without }) += 1;
    }
    let known = |name: &str| pumex_shaders::module(name).and_then(|s| Module::read(&words(s)));
    for name in
        ["gemv.q4_k", "gemv_dot.q4_k", "megakernel.q8_0", "rms_norm", "attn_split", "gemm_few.q4_k", "fragment_layout"]
    {
        assert!(known(name).unwrap().subgroups, "{name}");
    }
    for name in ["embed.q4_k", "gemm_tile.q4_k", "repack", "stream"] {
        assert!(!known(name).unwrap().subgroups, "{name}");
    }
    assert!(with > 50 && without > 50, "{with} modules with subgroups, {without} without");
}

/// A module that is not made of whole subgroups is refused, not run with threads missing.
#[test]
fn workgroups_are_whole_subgroups() {
    let Some(device) = util::device(false) else { return };
    let (caps, kernels) = (device.caps(), pumex::kernel::Kernels::new(&device));
    assert!(caps.full_subgroups && caps.missing().is_none());
    assert!((caps.subgroup_min..=caps.subgroup_max).contains(&caps.subgroup_size));
    let size = policy::row_threads(caps);
    assert!(kernels.get("rms_norm", None, &[("SIZE", size)]).is_ok());
    let error = kernels.get("rms_norm", None, &[("SIZE", size + caps.subgroup_size / 2)]).err().unwrap().to_string();
    assert!(error.contains("rms_norm") && error.contains("whole subgroups"), "{error}");
    crate::util::assert_silent_on(&device);
}

/// Threads of a CPU run a workgroup each; multiprocessors whose number the driver tells, one to four of the largest.
#[test]
fn workgroups_that_run_at_once_are_counted() {
    let Some(device) = util::device(false) else { return };
    let count = |offered| pumex::engine::occupancy::measure(&device, offered).unwrap();
    assert_eq!(count(1), 1);
    assert!((1..=2).contains(&count(2)));
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
    let expected = match (device.caps().cores, device.caps().kind) {
        (Some(cores), _) => cores..=4 * cores,
        (None, DeviceKind::Cpu) => 1..=threads,
        (None, _) => 2..=2048,
    };
    let found = count(4096);
    assert!(expected.contains(&found), "{}: {found} of {expected:?}", device.caps().name);
    crate::util::assert_silent_on(&device);
}

#[test]
fn a_dispatch_over_the_device_s_limits_is_an_error_that_names_the_kernel() {
    let Some(device) = util::device(false) else { return };
    let kernels = pumex::kernel::Kernels::new(&device);
    let pipeline = kernels.get("stream", None, &[]).unwrap();
    let most = device.caps().max_groups;
    for axis in (0..3).filter(|axis| most[*axis] < u32::MAX) {
        let (mut grid, mut recorder) = ([1; 3], device.recorder().unwrap());
        grid[axis] = most[axis] + 1;
        recorder.dispatch(&pipeline, &[0; 24], grid);
        let error = recorder.finish().err().unwrap().to_string();
        assert!(error.contains("kernel stream") && error.contains(&format!("{grid:?}")), "{error}");
    }
    let mut recorder = device.recorder().unwrap();
    recorder.dispatch(&pipeline, &[0; 256], [1, 1, 1]);
    assert!(recorder.finish().err().unwrap().to_string().contains("push constants"));
    crate::util::assert_silent_on(&device);
}

/// Every tile is of whole subgroups, whatever their size: pipelines ask for that.
#[test]
fn tiles_are_whole_subgroups_of_any_size() {
    let Some(device) = util::device(false) else { return };
    let kinds = [DeviceKind::Discrete, DeviceKind::Integrated, DeviceKind::Cpu];
    for (kind, subgroup_size) in kinds.into_iter().flat_map(|k| [8, 16, 32, 64].map(|size| (k, size))) {
        let own = device.caps().clone();
        let caps = Caps { kind, subgroup_size, subgroup_shuffle: true, cores: Some(40), ..own };
        let mut sizes = vec![policy::row_threads(&caps), policy::sample_tile(&caps).0];
        for experts in [1, 8, 60, 128, 512] {
            sizes.extend([policy::route_threads(&caps, experts), policy::router_tile(&caps, experts, 2048).0]);
        }
        for (format, (m, k)) in pumex_quant::all().flat_map(|f| [(64, 512), (4096, 16384)].map(|shape| (f, shape))) {
            sizes.push(policy::expert_tile(&caps, format, (m, k), ActivationQuant::Q8).size);
            for n in [1, 3, 8] {
                sizes.push(policy::float_tile(&caps, format, (m, k), n, true).size);
                sizes.push(policy::gemv_tile(&caps, format, m, k, n, GemmFusion::default()).size);
            }
        }
        sizes.extend(policy::megakernel_tile(&caps, Some(true)).map(|tile| tile.size));
        let odd = sizes.iter().find(|size| !size.is_multiple_of(subgroup_size));
        assert_eq!(odd, None, "{kind:?}, subgroups of {subgroup_size}");
    }
}

/// Devices of some vendors take 65,535 workgroups in a row; vocabularies have more ids.
#[test]
fn large_vocabularies_stay_within_the_grid() {
    let Some(device) = util::device(false) else { return };
    let caps = Caps { max_groups: [65_535; 3], ..device.caps().clone() };
    for (format, m) in pumex_quant::all().flat_map(|f| [(f, 151_936), (f, 262_144), (f, 1 << 20)]) {
        let tiles = [
            policy::float_tile(&caps, format, (m, 4096), 1, false),
            policy::float_tile(&caps, format, (m, 16384), 8, true),
            policy::dot_tile(&caps, (m, 4096), 1, caps.subgroup_size, 1, 256),
            policy::gemv_tile(&caps, format, m, 4096, 1, GemmFusion::default()),
        ];
        for tile in tiles {
            assert!(tile.groups <= 65_535, "{}, {m} outputs: {tile:?}", format.stem);
            assert!(tile.kernel != "gemv" || tile.groups * tile.rows >= m as u32, "{tile:?} leaves some out");
        }
    }
}

/// A recording that keeps the device busy for longer than it takes to let go of everything.
fn long(device: &Device) -> Recording {
    let len = 64 << 20;
    let [x, y] = ["x", "y"].map(|name| device.buffer(name, len, Class::Scratch).unwrap());
    let pipeline = pumex::kernel::Kernels::new(device).get("stream", None, &[("COPY", 1)]).unwrap();
    let mut push = [x.address().to_le_bytes(), y.address().to_le_bytes()].concat();
    push.extend(((len / 16) as u32).to_le_bytes());
    push.resize(24, 0);
    let mut recorder = device.recorder().unwrap();
    [&x, &y].iter().for_each(|b| recorder.keep(b));
    for _ in 0..16 {
        recorder.dispatch(&pipeline, &push, [1 << 12, 1, 1]);
        recorder.barrier();
    }
    recorder.finish().unwrap()
}

/// A recording that is let go while it runs is waited for.
#[test]
fn what_the_device_uses_is_freed_when_it_is_done() {
    let Some(device) = util::device(false) else { return };
    let recording = long(&device);
    let value = device.submit(&recording).unwrap();
    drop(recording);
    assert!(device.is_reached(value).unwrap());
    crate::util::assert_silent_on(&device);
}

#[test]
fn a_device_that_was_waited_for_in_vain_is_left_alone_with_all_it_may_use() {
    let Some(device) = util::device(false) else { return };
    let recording = long(&device);
    let other = device.recorder().unwrap().finish().unwrap();
    let value = device.submit(&recording).unwrap();
    let error = device.wait_for(value, Duration::ZERO).err().unwrap().to_string();
    assert!(error.contains(&device.caps().name) && error.contains("unfinished"), "{error}");
    let report = [device.caps().driver.as_str(), "of 16 dispatches from stream to stream over buffers of 128 MiB"];
    assert!(report.iter().all(|part| error.contains(part)), "{error}");
    drop(recording); // at once, and nothing of it is freed
    let refusals = [
        device.wait(value).err(),
        device.submit(&other).err(),
        device.recorder().err(),
        device.buffer("more", 16, Class::Scratch).err(),
    ];
    for refusal in refusals {
        let refusal = refusal.unwrap().to_string();
        assert!(refusal.contains("nothing more is asked of this device"), "{refusal}");
    }
    drop(other);
    crate::util::assert_silent_on(&device);
    while !device.is_reached(value).unwrap() {
        std::thread::sleep(Duration::from_millis(5)); // so that the process does not end amid it
    }
}

/// Sources of `vk/src`: the name of each, which no two share, and its text.
fn sources() -> Vec<(String, String)> {
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("vk/src")];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.file_stem().unwrap().to_string_lossy().into_owned();
                found.push((name, std::fs::read_to_string(&path).unwrap()));
            }
        }
    }
    found
}

/// Counters can be believed where the calls they count stand in one place, or in none.
#[test]
fn calls_that_are_counted_stand_where_they_are_counted() {
    let counted = ["device_wait_idle", "queue_wait_idle", "wait_for_fences", "update_descriptor_sets"];
    let mut calls = Vec::new();
    for (name, text) in sources() {
        let found = text.lines().filter(|l| counted.iter().any(|call| l.contains(call)));
        calls.extend(found.map(|line| format!("{name}: {}", line.trim())));
    }
    assert!(matches!(&calls[..], [one] if one.starts_with("device:") && one.contains("device_wait_idle")), "{calls:?}");
}

/// What is used of another part: the last module that a path names before its items.
fn uses(line: &str, names: &[String]) -> Option<String> {
    let path = line.trim_start_matches("pub ").trim_start_matches("pub(super) ").strip_prefix("use ")?;
    let path = path.split('{').next()?.trim_end_matches(';');
    let inside = path.starts_with("super::") || path.starts_with("crate::vk::");
    let mut parts: Vec<&str> = path.split("::").filter(|part| !part.is_empty()).collect();
    if !inside {
        parts.truncate(1); // a child, if anything
    }
    parts.iter().rev().find(|part| names.iter().any(|name| name == *part)).map(|part| part.to_string())
}

#[test]
fn parts_of_vk_know_each_other_in_one_direction() {
    let sources = sources();
    let names: Vec<String> = sources.iter().map(|(name, _)| name.clone()).collect();
    let mut edges = BTreeMap::new();
    for (name, text) in &sources {
        let code = text.split("#[cfg(test)]\nmod tests").next().unwrap();
        let known: Vec<String> = code.lines().filter_map(|line| uses(line, &names)).collect();
        edges.insert(name.clone(), known);
    }
    assert!(edges["commands"].contains(&"device".into()) && edges["batch"].contains(&"load".into()), "{edges:?}");
    // Parts that know only what is gone go, one after the other: what is left goes round.
    while let Some(free) = edges.iter().find(|(_, known)| known.iter().all(|k| !edges.contains_key(k))) {
        let free = free.0.clone();
        edges.remove(&free);
    }
    assert!(edges.is_empty(), "these know each other: {edges:?}");
}
