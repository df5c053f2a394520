//! `pumex devices`: the Vulkan devices, by the index, name and UUID that `--device` takes, and the CPU; which of them is taken
//! without that option.

use pumex_engine as engine;
use pumex_gguf::{Error, Result};
use pumex_lower::policy;
use pumex_vk as vk;
use serde_json::{json, Value};

use super::{output, CommandEnd};

/// Options of `devices`.
#[derive(clap::Args)]
pub struct Args {
    /// Print one JSON array with every capability, which `pumex explain --profile` reads
    #[arg(long)]
    json: bool,
    /// Measure each device's memory: bytes per second read, and read and written by a copy
    #[arg(long)]
    measure: bool,
    /// Test that each device computes what the CPU does, with weights of every type that it can quantize to; kernels that do not
    /// are turned off from then on
    #[arg(long, conflicts_with_all = ["measure", "json"])]
    self_test: bool,
}

/// Prints the devices.
pub fn main(args: &Args) -> Result<CommandEnd> {
    // Without a loader there is still the CPU.
    let mut list = vk::list().unwrap_or_else(|error| {
        output::say(format_args!("note: {error}\n"));
        Vec::new()
    });
    if args.self_test {
        return self_test(&list);
    }
    if args.json {
        count_cores(&mut list);
    }
    let preferred = vk::choose_device(&list);
    let mut devices = serde_json::to_value(&list).map_err(|e| Error::Request(format!("JSON: {e}")))?;
    for (index, device) in devices.as_array_mut().into_iter().flatten().enumerate() {
        device["default"] = (preferred == Some(index)).into();
        let caps = policy::as_used(list[index].clone());
        device["class"] = format!("{:?}", policy::DeviceClass::of(&caps)).into();
        let workarounds: Vec<&str> = policy::workarounds::of(&caps).map(|w| w.name).collect();
        device["workarounds"] = json!(workarounds);
    }
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
        return Ok(CommandEnd::Done);
    }
    let cell = |device: &Value, key: &str| match &device[key] {
        Value::String(text) => text.clone(),
        Value::Bool(true) => "yes".to_string(),
        Value::Null | Value::Bool(false) => String::new(),
        other => other.to_string(),
    };
    let mut keys = vec!["name", "kind", "default", "driver"];
    if args.measure {
        keys.extend(["read", "copy"]);
    }
    let mut rows = vec![std::iter::once("index").chain(keys.iter().copied()).map(String::from).collect::<Vec<_>>()];
    for (index, device) in devices.as_array().into_iter().flatten().enumerate() {
        rows.push(std::iter::once(index.to_string()).chain(keys.iter().map(|key| cell(device, key))).collect());
    }
    let mut cpu = json!({ "name": engine::cpu_name(), "kind": "Cpu", "default": preferred.is_none() });
    if args.measure {
        let rates = engine::cpu_rates();
        cpu["read"] = format!("{:.1} GB/s", rates.read / 1e9).into();
        cpu["copy"] = format!("{:.1} GB/s", rates.copy / 1e9).into();
    }
    rows.push(std::iter::once("cpu".to_string()).chain(keys.iter().map(|key| cell(&cpu, key))).collect());
    output::text(&output::table(&rows, &[true]))?;
    for device in &list {
        if let Some(feature) = device.missing() {
            output::say(format_args!("note: {} cannot be used: it lacks {feature}\n", device.name));
            continue;
        }
        if !device.storage16 {
            let lacks = "storageBuffer16BitAccess and shaderInt16";
            output::say(format_args!(
                "note: {} is used without halves, which is slower: it lacks {lacks}\n",
                device.name
            ));
        }
        let used = policy::as_used(device.clone());
        if used.emulated_subgroups {
            let named = policy::workarounds::of(device).find(|w| w.avoids == policy::workarounds::Avoids::Subgroups);
            let why = named.map_or(String::new(), |w| format!("its driver has the fault {}", w.name));
            let why = policy::lacks_subgroups(device).map_or(why, |feature| format!("it lacks {feature}"));
            output::say(format_args!("note: {} is used without subgroups, which is slower: {why}\n", device.name));
        }
    }
    Ok(CommandEnd::Done)
}

/// Has devices whose drivers do not tell how many multiprocessors they have show how many workgroups run at once.
fn count_cores(list: &mut [vk::Caps]) {
    for (index, caps) in
        list.iter_mut().enumerate().filter(|(_, caps)| caps.cores.is_none() && caps.missing().is_none())
    {
        let select = vk::Select::Index(index);
        let counted = vk::Device::open(&vk::Options { select, ..vk::Options::default() })
            .and_then(|opened| engine::occupancy::load_or_measure_cores(&opened));
        match counted {
            Ok(cores) => caps.measured_cores = Some(cores),
            Err(error) => output::say(format_args!("note: {}: {error}\n", caps.name)),
        }
    }
}

/// Tests every device; a line for each type of weights.
fn self_test(list: &[vk::Caps]) -> Result<CommandEnd> {
    for (index, caps) in list.iter().enumerate().filter(|(_, caps)| caps.missing().is_none()) {
        let select = vk::Select::Index(index);
        let opened = vk::Device::open(&vk::Options { select, ..vk::Options::default() })?;
        let device = opened.with_caps(policy::as_used(caps.clone()));
        output::text(&format!("{}\n", caps.name))?;
        engine::selftest::all(&device, &mut |recipe, found| {
            let wrong = found.wrong.iter().map(|kernel| format!(", wrong: {kernel}")).collect::<String>();
            output::text(&format!("  {recipe:<8} error {:.1e}{wrong}\n", found.before))
        })?;
    }
    Ok(CommandEnd::Done)
}
