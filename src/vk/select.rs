//! Which device to use: a pure choice over plain data, with its reason.

use super::caps::{Caps, DeviceKind};
use crate::{Error, Result};

/// How a device is named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Select {
    /// The best GPU, never a software device.
    #[default]
    Auto,
    /// The best device, a software one if nothing else is there.
    Any,
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

/// Index of the best device, with software devices or without: those that kernels can run on, then the best kind, then the first.
fn best(devices: &[Caps], software: bool) -> Option<usize> {
    let allowed = |i: &usize| software || devices[*i].kind != DeviceKind::Cpu;
    let preference = |&i: &usize| (devices[i].missing().is_some(), rank(devices[i].kind), i);
    (0..devices.len()).filter(allowed).min_by_key(preference)
}

/// Index of the device that is taken if none is asked for; without a GPU there is none: a software device compiles every
/// pipeline for seconds before its first token, and then is slower than a plain interpreter.
pub fn preferred(devices: &[Caps]) -> Option<usize> {
    best(devices, false)
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
        Select::Auto | Select::Any => {
            let (software, asked) =
                if *select == Select::Any { (true, "a Vulkan device") } else { (false, "a GPU with Vulkan") };
            match best(devices, software) {
                Some(i) => Ok((i, format!("best kind: {:?}", devices[i].kind))),
                None => none(asked.into()),
            }
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use DeviceKind::{Cpu, Discrete, Integrated, Virtual};

    #[test]
    fn the_best_kind_wins_whatever_the_order() {
        let cases: [(&[DeviceKind], usize); 8] = [
            (&[Discrete], 0),
            (&[Integrated, Discrete], 1),
            (&[Discrete, Integrated], 0),
            (&[Cpu, Integrated], 1),
            (&[Cpu, Virtual], 1),
            (&[Virtual, Integrated, Cpu], 1),
            (&[Discrete, Discrete], 0),
            (&[Cpu], 0),
        ];
        for (kinds, expected) in cases {
            let devices: Vec<Caps> = kinds.iter().map(|k| Caps::made_up("gpu", *k)).collect();
            assert_eq!(choose(&devices, &Select::Any).unwrap().0, expected, "{kinds:?}");
            let software = kinds == [Cpu];
            assert_eq!(preferred(&devices), (!software).then_some(expected), "{kinds:?}");
            let auto = choose(&devices, &Select::Auto);
            assert_eq!(auto.ok().map(|(i, _)| i), (!software).then_some(expected), "{kinds:?}");
        }
    }

    #[test]
    fn a_device_that_lacks_a_feature_is_the_last_choice() {
        let lacking = Caps { full_subgroups: false, ..Caps::made_up("Acme One", Discrete) };
        let devices = [lacking.clone(), Caps::made_up("Acme Three", Integrated)];
        assert_eq!(choose(&devices, &Select::Auto).unwrap().0, 1);
        assert_eq!(choose(&devices, &Select::Index(0)).unwrap().0, 0, "but one asked for is taken");
        assert_eq!(choose(&[lacking], &Select::Auto).unwrap().0, 0);
    }

    #[test]
    fn devices_are_found_by_index_name_and_uuid_and_errors_list_them() {
        let devices = [Caps::made_up("Acme One", Discrete), Caps::made_up("Acme Three", Integrated)];
        assert_eq!(choose(&devices, &Select::Index(1)).unwrap().0, 1);
        assert_eq!(choose(&devices, &Select::Name("three".into())).unwrap().0, 1);
        assert_eq!(choose(&devices, &Select::Name(format!("{:0>32x}", 8))).unwrap().0, 0);
        for missing in [Select::Index(2), Select::Name("four".into())] {
            let error = choose(&devices, &missing).unwrap_err().to_string();
            assert!(error.contains("0: Acme One") && error.contains("1: Acme Three"), "{error}");
        }
        assert!(choose(&[], &Select::Any).is_err());
        let error = choose(&[Caps::made_up("soft", Cpu)], &Select::Auto).unwrap_err().to_string();
        assert!(error.contains("expected a GPU with Vulkan, found 0: soft"), "{error}");
    }
}
