//! `pumex devices`: the Vulkan devices, by the index, name and UUID that `--device` takes.

use pumex::{vk, Error, Result};
use serde_json::Value;

use super::{output, End};

/// Options of `devices`.
#[derive(clap::Args)]
pub struct Args {
    /// Print one JSON array with every capability
    #[arg(long)]
    json: bool,
}

/// Prints the devices.
pub fn main(args: &Args) -> Result<End> {
    let list = vk::list()?;
    let devices = serde_json::to_value(&list).map_err(|e| Error::Request(format!("JSON: {e}")))?;
    if args.json {
        output::json(&devices)?;
        return Ok(End::Done);
    }
    let cell = |device: &Value, key: &str| match &device[key] {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    };
    let mut rows = vec![["index", "name", "kind", "driver"].map(String::from).to_vec()];
    for (index, device) in devices.as_array().into_iter().flatten().enumerate() {
        rows.push(vec![index.to_string(), cell(device, "name"), cell(device, "kind"), cell(device, "driver")]);
    }
    if rows.len() == 1 {
        eprintln!("note: no Vulkan device found; --device cpu still works");
    }
    output::text(&output::table(&rows, &[true]))?;
    Ok(End::Done)
}
