//! `pumex doctor`: what this machine has for running models, and what would run where.

use std::path::{Path, PathBuf};

use pumex_engine as engine;
use pumex_gguf::Result;
use pumex_vk as vk;
use serde_json::{json, Value};

use super::{fetch, output, CommandEnd};

/// Options of `doctor`.
#[derive(clap::Args)]
pub struct Args {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Bytes of the system's memory that are free, or can be made so; none where the system does not tell.
pub fn free_memory() -> Option<u64> {
    memory("MemAvailable:")
}

fn memory(key: &str) -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// What was found.
struct Diagnosis {
    /// Devices, as `pumex devices` has them.
    devices: Vec<vk::Caps>,
    /// Why there are none.
    failure: Option<String>,
    preferred: Option<usize>,
    caches: Vec<(&'static str, PathBuf)>,
}

/// Looks, and tells.
pub fn main(args: &Args) -> Result<CommandEnd> {
    let (devices, failure) = match vk::list() {
        Ok(devices) => (devices, None),
        Err(error) => (Vec::new(), Some(error.to_string())),
    };
    let preferred = vk::choose_device(&devices);
    let caches = fetch::caches();
    let found = Diagnosis { devices, failure, preferred, caches };
    if args.json {
        output::json(&found.as_json())?;
    } else {
        output::text(&found.as_text())?;
    }
    Ok(CommandEnd::Done)
}

/// Bytes of all files below a folder, links not followed.
fn bytes_below(folder: &Path) -> u64 {
    let (mut total, mut folders) = (0, vec![folder.to_path_buf()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.metadata() {
                Ok(meta) if meta.is_dir() => folders.push(entry.path()),
                Ok(meta) => total += if meta.is_file() { meta.len() } else { 0 },
                Err(_) => {}
            }
        }
    }
    total
}

/// Whether a folder, or the first one above it that is there, can be written to.
fn is_writable(folder: &Path) -> bool {
    let there = folder.ancestors().find(|folder| folder.exists());
    there.and_then(|there| std::fs::metadata(there).ok()).is_some_and(|meta| !meta.permissions().readonly())
}

/// How many billions of weights of Q4_K_M fit so many bytes, a tenth of which is left for the context.
fn billions(bytes: u64) -> u64 {
    // 4.9 bits a weight.
    (bytes as f64 * 0.9 / (4.9 / 8.0) / 1e9) as u64
}

impl Diagnosis {
    /// Where a model runs without --device, and bytes that it may take.
    fn place(&self) -> (String, Option<u64>) {
        match self.preferred.and_then(|index| self.devices.get(index)) {
            Some(device) => (device.name.clone(), Some(local_bytes(device))),
            None => (format!("the CPU, {}", engine::cpu_name()), free_memory()),
        }
    }

    fn as_json(&self) -> Value {
        let device = |(index, device): (usize, &vk::Caps)| {
            json!({
                "index": index, "name": device.name, "driver": device.driver, "memory_bytes": local_bytes(device),
                "default": self.preferred == Some(index), "missing": device.missing(),
            })
        };
        let cache = |(what, path): &(&str, PathBuf)| {
            let (shown, bytes) = (path.display().to_string(), bytes_below(path));
            json!({ "what": what, "path": shown, "bytes": bytes, "writable": is_writable(path) })
        };
        let (place, room) = self.place();
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "vulkan": self.failure,
            "devices": self.devices.iter().enumerate().map(device).collect::<Vec<Value>>(),
            "cpu": { "name": engine::cpu_name(), "threads": pumex_engine::cpu::usual_threads() },
            "memory": { "bytes": memory("MemTotal:"), "free_bytes": free_memory() },
            "caches": self.caches.iter().map(cache).collect::<Vec<Value>>(),
            "runs_on": place,
            "fits_billion_weights_of_q4_k_m": room.map(billions),
        })
    }

    fn as_text(&self) -> String {
        let mut rows: Vec<Vec<String>> = vec![vec!["pumex".into(), env!("CARGO_PKG_VERSION").into()]];
        let mut row = |key: &str, value: String| rows.push(vec![key.to_string(), value]);
        if let Some(failure) = &self.failure {
            row("Vulkan", format!("not there: {failure}"));
        }
        for device in &self.devices {
            let state = match device.missing() {
                Some(feature) => format!("cannot be used: it lacks {feature}"),
                None => format!("driver {}, {} of memory", device.driver, output::bytes(local_bytes(device))),
            };
            row("device", format!("{}: {state}", device.name));
        }
        row("CPU", format!("{}, {} threads", engine::cpu_name(), pumex_engine::cpu::usual_threads()));
        if let (Some(all), Some(free)) = (memory("MemTotal:"), free_memory()) {
            row("memory", format!("{} free of {}", output::bytes(free), output::bytes(all)));
        }
        for (what, path) in &self.caches {
            let state =
                if is_writable(path) { output::bytes(bytes_below(path)) } else { "cannot be written to".into() };
            row(what, format!("{}: {state}", path.display()));
        }
        let (place, room) = self.place();
        row("models run on", place);
        if let Some(room) = room.map(billions) {
            row("which fit", format!("those of about {room} billion weights of Q4_K_M, and smaller ones"));
        }
        output::table(&rows, &[])
    }
}

/// Bytes of memory that weights may take.
fn local_bytes(device: &vk::Caps) -> u64 {
    device.heaps.iter().filter(|heap| heap.device_local).map(|heap| heap.budget_bytes).max().unwrap_or(0)
}
