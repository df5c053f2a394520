//! Which device to use: a pure choice over plain data, with its reason.

use super::caps::{Caps, DeviceKind};
use crate::{Error, Result};

/// How a device is named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Select {
    /// The best GPU; a software device if nothing else is there.
    #[default]
    Auto,
    /// Likewise, asked for by the user.
    AnyGpu,
    /// By place in the list.
    Index(usize),
    /// By part of its name, or by UUID.
    Name(String),
}

/// Lower is better. Memory sizes are never compared: integrated devices report the machine's.
fn rank(kind: DeviceKind) -> u32 {
    match kind {
        DeviceKind::Discrete => 0,
        DeviceKind::Integrated => 1,
        DeviceKind::Virtual => 2,
        DeviceKind::Other => 3,
        DeviceKind::Cpu => 4,
    }
}

/// Index of the chosen device, and why.
///
/// # Errors
/// No device, or none that matches; the text lists what there is.
pub fn choose(devices: &[Caps], select: &Select) -> Result<(usize, String)> {
    let there: Vec<String> = devices.iter().enumerate().map(|(i, d)| format!("{i}: {}", d.name)).collect();
    let none = |asked: String| {
        Err(Error::Device(format!(
            "expected {asked}, found {}",
            if there.is_empty() { "no Vulkan device".into() } else { there.join(", ") }
        )))
    };
    match select {
        Select::Auto | Select::AnyGpu => match (0..devices.len()).min_by_key(|&i| (rank(devices[i].kind), i)) {
            Some(i) => Ok((i, format!("best kind: {:?}", devices[i].kind))),
            None => none("a Vulkan device".into()),
        },
        Select::Index(i) if *i < devices.len() => Ok((*i, "chosen by index".into())),
        Select::Index(i) => none(format!("a device of index {i}")),
        Select::Name(name) => {
            let wanted = name.to_lowercase();
            let plain = wanted.replace('-', "");
            let hit = devices.iter().position(|d| d.name.to_lowercase().contains(&wanted) || d.uuid == plain);
            match hit {
                Some(i) => Ok((i, "chosen by name".into())),
                None => none(format!("a device named {name:?}")),
            }
        }
    }
}
