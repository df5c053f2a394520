//! `pumex devices`: the Vulkan devices, by the index, name and UUID that `--device` takes.

use pumex::{engine, vk, Error, Result};
use serde_json::{json, Value};

use super::{output, End};

/// Options of `devices`.
#[derive(clap::Args)]
pub struct Args {
    /// Print one JSON array with every capability
    #[arg(long)]
    json: bool,
    /// Measure each device's memory: bytes per second read, and read and written by a copy
    #[arg(long)]
    measure: bool,
}

/// Prints the devices.
pub fn main(args: &Args) -> Result<End> {
    let list = vk::list()?;
    let mut devices = serde_json::to_value(&list).map_err(|e| Error::Request(format!("JSON: {e}")))?;
    if args.measure {
        for (index, device) in devices.as_array_mut().into_iter().flatten().enumerate() {
            let select = vk::Select::Index(index);
            let opened = vk::Device::open(&vk::Options { select, ..vk::Options::default() })?;
            let bandwidth = engine::bandwidth::measure(&opened)?;
            device["read"] = format!("{:.1} GB/s", bandwidth.read / 1e9).into();
            device["copy"] = format!("{:.1} GB/s", bandwidth.copy / 1e9).into();
            device["bandwidth"] = json!(bandwidth);
        }
    }
    if args.json {
        output::json(&devices)?;
        return Ok(End::Done);
    }
    let cell = |device: &Value, key: &str| match &device[key] {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    };
    let mut keys = vec!["name", "kind", "driver"];
    if args.measure {
        keys.extend(["read", "copy"]);
    }
    let mut rows = vec![std::iter::once("index").chain(keys.iter().copied()).map(String::from).collect::<Vec<_>>()];
    for (index, device) in devices.as_array().into_iter().flatten().enumerate() {
        rows.push(std::iter::once(index.to_string()).chain(keys.iter().map(|key| cell(device, key))).collect());
    }
    if rows.len() == 1 {
        output::say(format_args!("note: no Vulkan device found; --device cpu still works\n"));
    }
    output::text(&output::table(&rows, &[true]))?;
    Ok(End::Done)
}
