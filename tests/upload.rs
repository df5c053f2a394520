//! Bytes on their way to the device: through several slots, laid out and as they are.

use crate::util::{assert_silent, demo_path, exact, logits, options, usual, vulkan};
use pumex::engine::{self, CacheType, Debug, DeviceChoice};
use pumex::gguf::Gguf;
use pumex::kernel::Kernels;
use pumex::policy;
use pumex::step::Runner;
use pumex::vk::{self, Buffer, Class, Device, DeviceKind, Load, Repack, UploadOptions, UploadSource};
use pumex::{Error, Result};
use pumex_quant::Format;
use std::sync::Mutex;

type Ready<'a> = &'a (dyn Fn(usize, usize, usize) -> Result<()> + Sync);
type CheckUpload<'a> = &'a (dyn Fn(usize, usize, &[u8]) -> Result<()> + Sync);

/// What is read is told, and what is checked may be refused.
struct WatchedSource<'a>(Ready<'a>, CheckUpload<'a>);

impl UploadSource for WatchedSource<'_> {
    fn ready(&self, epoch: usize, from: usize, len: usize) -> Result<()> {
        self.0(epoch, from, len)
    }

    fn check(&self, epoch: usize, from: usize, bytes: &[u8]) -> Result<()> {
        self.1(epoch, from, bytes)
    }
}

fn bytes(len: usize, seed: u32) -> Vec<u8> {
    let mut x = seed.wrapping_mul(2_654_435_761) | 1;
    let mut next = || {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        x as u8
    };
    (0..len).map(|_| next()).collect()
}

fn read_buffer(device: &Device, buffer: &Buffer, len: usize) -> Vec<u8> {
    let host = device.buffer("host", len as u64, Class::Readback).unwrap();
    let mut rec = device.recorder().unwrap();
    rec.copy(buffer, 0, &host, 0, len as u64);
    rec.host_barrier();
    let recording = rec.finish().unwrap();
    device.wait(device.submit(&recording).unwrap()).unwrap();
    let mut out = vec![0; len];
    host.read(0, &mut out);
    out
}

/// Rows part by part, as the kernel is to lay them out; gaps at the ends of rows are zero.
fn soa(format: &Format, cols: usize, rows: &[u8]) -> Vec<u8> {
    rows.chunks(cols / format.block_len * format.block_bytes).flat_map(|row| format.soa(row)).collect()
}

fn repack(device: &Device, format: &Format, cols: usize) -> (Repack, Buffer) {
    let words = pumex_quant::tables::pack_all();
    let tables = device.buffer("tables", 4 * words.len() as u64, Class::Weights).unwrap();
    vk::send(device, &tables, bytemuck::cast_slice(&words)).unwrap();
    (pumex::engine::repack(&Kernels::new(device), &tables, format, cols).unwrap(), tables)
}

/// Blocks of Q8_0 that a workgroup cannot hold a row of.
const MAT_N: usize = 600;

#[test]
fn what_is_sent_through_slots_arrives_bit_for_bit() {
    let wide = pumex_quant::FORMATS.iter().find(|f| f.name == "Q8_0").unwrap();
    let formats: Vec<&Format> = pumex_quant::all().filter(|f| !f.fields.is_empty()).collect();
    let Some(device) = crate::util::device(true) else { return };
    for (threads, batch_bytes, slots) in [(1, 6000, 1), (3, 4111, 2), (4, 1 << 20, 3), (3, 4 << 20, 2), (2, 70_000, 0)]
    {
        let way = UploadOptions { threads, batch_bytes, slots };
        let plain = [1, 15, 4096, 4111, 70_001, 2_100_003].map(|len| bytes(len, len as u32));
        let mut rows: Vec<(&Format, usize, Vec<u8>)> = (formats.iter().zip([1, 3].iter().cycle()))
            .zip([1, 37, 700].iter().cycle())
            .map(|((f, blocks), rows)| (*f, blocks * f.block_len, bytes(rows * blocks * f.block_bytes, *rows as u32)))
            .collect();
        if batch_bytes > MAT_N * 34 {
            rows.push((wide, MAT_N * 32, bytes(5 * MAT_N * 34, 7)));
        }
        let mut sent = Vec::new();
        let (mut loads, mut tables) = (Vec::new(), Vec::new());
        for data in &plain {
            let to = device.buffer("plain", data.len() as u64, Class::Weights).unwrap();
            assert!(!to.is_mapped());
            sent.push((to.clone(), data.clone()));
            loads.push(Load { to, bytes: data, unit: 1, repack: None, epoch: loads.len() });
        }
        for (format, cols, data) in &rows {
            let truth = soa(format, *cols, data);
            let to = device.buffer("soa", truth.len() as u64, Class::Weights).unwrap();
            sent.push((to.clone(), truth));
            let (repack, places) = repack(&device, format, *cols);
            tables.push(places);
            loads.push(Load { to, bytes: data, unit: format.block_bytes, repack: Some(repack), epoch: loads.len() });
        }
        let total: usize = loads.iter().map(|l| l.bytes.len()).sum();
        let seen = Mutex::new(vec![[0; 2]; loads.len()]);
        let ready = |epoch: usize, _: usize, len: usize| {
            seen.lock().unwrap()[epoch][0] += len;
            Ok(())
        };
        let data: Vec<&[u8]> = loads.iter().map(|l| l.bytes).collect();
        let check = |epoch: usize, from: usize, part: &[u8]| {
            assert_eq!(part, &data[epoch][from..from + part.len()]);
            seen.lock().unwrap()[epoch][1] += part.len();
            Ok(())
        };
        let mut told = Vec::new();
        let lens: Vec<[usize; 2]> = loads.iter().map(|l| [l.bytes.len(); 2]).collect();
        vk::upload(&device, &way, loads.into_iter().map(Ok), &WatchedSource(&ready, &check), &mut |done| {
            told.push(done)
        })
        .unwrap();
        assert_eq!(*seen.lock().unwrap(), lens, "every byte is made ready and checked once");
        assert!(told.is_sorted() && told.last() == Some(&(total as u64)), "progress rises to the end");
        for (i, (buffer, truth)) in sent.iter().enumerate() {
            assert!(read_buffer(&device, buffer, truth.len()) == *truth, "{way:?}: load {i}");
        }
    }
    crate::util::assert_silent_on(&device);
}

#[test]
fn the_first_fault_in_order_is_told() {
    let Some(device) = crate::util::device(true) else { return };
    let data = bytes(100_000, 3);
    let buffers: Vec<Buffer> = (0..8).map(|_| device.buffer("b", 100_000, Class::Weights).unwrap()).collect();
    let way = UploadOptions { threads: 4, batch_bytes: 4096, slots: 3 };
    let send = |fault: &dyn Fn(usize) -> bool, fails_to_prepare: usize| {
        let loads = buffers.iter().enumerate().map(|(epoch, to)| {
            if epoch == fails_to_prepare {
                return Err(Error::Request("not prepared".into()));
            }
            Ok(Load { to: to.clone(), bytes: &data, unit: 32, repack: None, epoch })
        });
        let faults: Vec<bool> = (0..8).map(fault).collect();
        let check = |epoch: usize, from: usize, _: &[u8]| {
            assert_eq!(from % 32, 0);
            if faults[epoch] {
                Err(Error::Request(format!("load {epoch} byte {from}")))
            } else {
                Ok(())
            }
        };
        vk::upload(&device, &way, loads, &WatchedSource(&|_, _, _| Ok(()), &check), &mut |_| ())
            .map(|_| ())
            .map_err(|e| e.to_string())
    };
    assert_eq!(send(&|_| false, 9), Ok(()));
    assert_eq!(send(&|epoch| epoch >= 3, 9), Err("load 3 byte 0".into()));
    assert_eq!(send(&|_| false, 2), Err("not prepared".into()));
    let wide = Repack { row_bytes: 5000, ..repack(&device, &pumex_quant::FORMATS[0], 32).0 };
    let load = Load { to: buffers[0].clone(), bytes: &data, unit: 1, repack: Some(wide), epoch: 0 };
    let error = vk::upload(&device, &way, std::iter::once(Ok(load)), &(), &mut |_| ()).map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("expected at most 4096 bytes, found 5000"), "{error}");
    crate::util::assert_silent_on(&device);
}

/// Systems that cannot tell would end the process instead, so only where they can.
#[cfg(target_os = "linux")]
#[test]
fn a_file_that_shrinks_after_it_was_opened_is_an_error() {
    let path = std::env::temp_dir().join(format!("pumex-shrunk-{}.gguf", std::process::id()));
    let vulkan = if crate::util::has_device() { DeviceChoice::Vulkan } else { DeviceChoice::Cpu };
    for (device, force_staging) in [(DeviceChoice::Cpu, false), (vulkan.clone(), true), (vulkan, false)] {
        std::fs::copy(demo_path(), &path).unwrap();
        let gguf = Gguf::open(&path).unwrap();
        let half = std::fs::metadata(&path).unwrap().len() / 2;
        std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(half).unwrap();
        let options = engine::Options { device, debug: Debug { force_staging, ..exact() }, ..options(CacheType::F16) };
        let error = engine::load(&gguf, &options, &mut |_, _| ()).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("truncated_data: tensor ") && error.contains("cut off"), "{error}");
    }
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn usual_steps_need_no_pipeline_that_is_not_built_ahead() {
    let gguf = Gguf::open(&demo_path()).unwrap();
    let Some(mut runner) = vulkan(&gguf, usual(CacheType::F16)) else { return };
    runner.build_ahead().unwrap();
    let built = runner.pipelines();
    let sampled = pumex::sample::SamplerOptions::default();
    for rows in [20, 1] {
        runner.forget(0, 0);
        let mut rows = crate::util::rows(0, 0, &(5..5 + rows).collect::<Vec<u32>>());
        let last = rows.len() - 1;
        rows[..last].iter_mut().for_each(|row| row.output = pumex::step::RowOutput::None);
        runner.run(&rows, pumex::step::Want::Ids).unwrap();
        let draw = pumex::sample::SampleRequest {
            options: std::sync::Arc::new(sampled.clone()),
            recent: vec![],
            unit: 0.5,
            allowed: pumex::sample::Allowed::All,
        };
        runner.run(&rows, pumex::step::Want::Drawn(&[draw])).unwrap();
    }
    assert_eq!(runner.pipelines(), built);
    logits(&mut runner, &[1, 2], 2);
    assert!(runner.pipelines() > built, "two rows take others");
    assert_silent(&runner);
}

#[test]
fn a_panic_ends_an_upload_instead_of_stopping_it() {
    let Some(device) = crate::util::device(true) else { return };
    let data = bytes(100_000, 3);
    let to = device.buffer("b", 100_000, Class::Weights).unwrap();
    let way = UploadOptions { threads: 3, batch_bytes: 4096, slots: 2 };
    let sent = |check: CheckUpload<'_>, progress: &mut dyn FnMut(u64)| {
        let load = Load { to: to.clone(), bytes: &data, unit: 1, repack: None, epoch: 0 };
        let source = WatchedSource(&|_, _, _| Ok(()), check);
        let upload = || vk::upload(&device, &way, std::iter::once(Ok(load)), &source, progress).map(|_| ());
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(upload)).is_ok()
    };
    assert!(sent(&|_, _, _| Ok(()), &mut |_| ()));
    assert!(!sent(&|_, from, _| if from > 50_000 { panic!("meant to") } else { Ok(()) }, &mut |_| ()));
    assert!(!sent(&|_, _, _| Ok(()), &mut |done| assert!(done < 50_000, "meant to")));
}

#[test]
fn slots_are_bounded_whatever_the_cores() {
    let Some(device) = crate::util::device(true) else { return };
    let mut caps = device.caps().clone();
    for (kind, most) in [(DeviceKind::Discrete, 64 << 20), (DeviceKind::Cpu, 16 << 20)] {
        caps.kind = kind;
        let (way, _) = policy::upload_way(&caps, 128);
        assert!((1..=16).contains(&way.threads) && way.slots * way.batch_bytes <= most, "{way:?}");
    }
}
