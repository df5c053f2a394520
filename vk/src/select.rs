//! Which device to use: a pure choice over plain data, with its reason.

use super::caps::{Caps, DeviceKind};
use pumex_gguf::{Error, Result};

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

/// Drivers of which an earlier one is better where a device has several; one that is not listed comes before the last, which
/// goes through another API.
const DRIVERS: [&str; 8] = [
    "MESA_RADV",
    "AMD_OPEN_SOURCE",
    "AMD_PROPRIETARY",
    "INTEL_OPEN_SOURCE_MESA",
    "INTEL_PROPRIETARY_WINDOWS",
    "NVIDIA_PROPRIETARY",
    "MESA_NVK",
    "MESA_DOZEN",
];

/// Lower is better.
fn driver_rank(caps: &Caps) -> usize {
    let last = DRIVERS.len() - 1;
    DRIVERS.iter().position(|id| *id == caps.driver_id).map_or(last, |i| if i == last { last + 1 } else { i })
}

/// Whether two entries are of one device.
fn same(a: &Caps, b: &Caps) -> bool {
    let told = |uuid: &str| uuid.bytes().any(|b| b != b'0');
    (told(&a.uuid) && a.uuid == b.uuid) || (a.pci.is_some() && a.pci == b.pci)
}

/// Which entries of the loader's list are devices of their own: of several drivers for one, the best, where the first stood.
pub(super) fn distinct(devices: &[Caps]) -> Vec<usize> {
    let mut kept: Vec<usize> = Vec::new();
    for (i, caps) in devices.iter().enumerate() {
        match kept.iter_mut().find(|k| same(&devices[**k], caps)) {
            Some(known) if driver_rank(caps) < driver_rank(&devices[*known]) => *known = i,
            Some(_) => (),
            None => kept.push(i),
        }
    }
    kept
}

/// Index of the best device, with software devices or without: those that kernels can run on, then the best kind, then the first.
fn best(devices: &[Caps], software: bool) -> Option<usize> {
    let allowed = |i: &usize| software || devices[*i].kind != DeviceKind::Cpu;
    let preference = |&i: &usize| (devices[i].missing().is_some(), rank(devices[i].kind), i);
    (0..devices.len()).filter(allowed).min_by_key(preference)
}

/// Index of the device that is taken if none is asked for; without a GPU there is none: a software device compiles every
/// pipeline for seconds before its first token, and then is slower than a plain interpreter.
pub fn choose_device(devices: &[Caps]) -> Option<usize> {
    best(devices, false)
}

/// Why a device is the best.
fn reason(devices: &[Caps], best: usize) -> String {
    let alike = devices.iter().filter(|d| d.kind == devices[best].kind && d.missing().is_none()).count();
    let first = if alike > 1 { format!(", the first of {alike}") } else { String::new() };
    let lacking = devices[best].missing().map_or(String::new(), |feature| format!(", though it lacks {feature}"));
    format!("best kind: {:?}{first}{lacking}", devices[best].kind)
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
                Some(i) => Ok((i, reason(devices, i))),
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
    use super::super::caps::Heap;
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
            let devices: Vec<Caps> = kinds.iter().map(|k| Caps::synthetic("gpu", *k)).collect();
            assert_eq!(choose(&devices, &Select::Any).unwrap().0, expected, "{kinds:?}");
            let software = kinds == [Cpu];
            assert_eq!(choose_device(&devices), (!software).then_some(expected), "{kinds:?}");
            let auto = choose(&devices, &Select::Auto);
            assert_eq!(auto.ok().map(|(i, _)| i), (!software).then_some(expected), "{kinds:?}");
        }
    }

    /// A machine's devices as the loader lists them: name, kind, UUID, driver, bytes of the largest heap.
    type Listed = (&'static str, DeviceKind, u8, &'static str, u64);

    /// What the loader lists, the names that stay, the one taken, and why.
    type Machine<'a> = (&'a str, Vec<Listed>, &'a [&'a str], Option<usize>, &'a str);

    fn machine(listed: &[Listed]) -> Vec<Caps> {
        let device = |(name, kind, uuid, driver, bytes): &Listed| Caps {
            uuid: format!("{uuid:032x}"),
            driver_id: (*driver).into(),
            heaps: vec![Heap { len_bytes: *bytes, budget_bytes: *bytes, device_local: true }],
            memory_budget_bytes: *bytes,
            ..Caps::synthetic(name, *kind)
        };
        listed.iter().map(device).collect()
    }

    #[test]
    fn eight_machines_give_the_device_that_their_owner_would_take() {
        let gib = |n: u64| n << 30;
        let soft = ("llvmpipe", Cpu, 0, "MESA_LLVMPIPE", gib(64));
        // What the loader lists; names that stay; the one taken; why.
        let cases: [Machine<'_>; 8] = [
            (
                "integrated with a larger heap than the card",
                vec![
                    ("UHD", Integrated, 1, "INTEL_OPEN_SOURCE_MESA", gib(32)),
                    ("RTX", Discrete, 2, "NVIDIA_PROPRIETARY", gib(16)),
                ],
                &["UHD", "RTX"],
                Some(1),
                "best kind: Discrete",
            ),
            (
                "two drivers for one card",
                vec![
                    ("RX by AMDVLK", Discrete, 1, "AMD_OPEN_SOURCE", gib(16)),
                    ("RX by RADV", Discrete, 1, "MESA_RADV", gib(16)),
                ],
                &["RX by RADV"],
                Some(0),
                "best kind: Discrete",
            ),
            (
                "a driver through another API beside one unknown to the list",
                vec![
                    ("GPU by Dozen", Discrete, 3, "MESA_DOZEN", gib(8)),
                    ("GPU", Discrete, 3, "MOLTENVK", gib(8)),
                    soft,
                ],
                &["GPU", "llvmpipe"],
                Some(0),
                "best kind: Discrete",
            ),
            (
                "two equal cards",
                vec![
                    ("RTX", Discrete, 1, "NVIDIA_PROPRIETARY", gib(24)),
                    ("RTX", Discrete, 2, "NVIDIA_PROPRIETARY", gib(24)),
                ],
                &["RTX", "RTX"],
                Some(0),
                "best kind: Discrete, the first of 2",
            ),
            ("a CPU only", vec![soft], &["llvmpipe"], None, ""),
            (
                "software listed first, with all the memory",
                vec![soft, ("Apple", Integrated, 1, "MESA_HONEYKRISP", gib(16))],
                &["llvmpipe", "Apple"],
                Some(1),
                "best kind: Integrated",
            ),
            (
                "a virtual card beside an integrated one",
                vec![
                    ("Venus", Virtual, 1, "MESA_VENUS", gib(24)),
                    ("UHD", Integrated, 2, "INTEL_OPEN_SOURCE_MESA", gib(8)),
                ],
                &["Venus", "UHD"],
                Some(1),
                "best kind: Integrated",
            ),
            ("nothing", vec![], &[], None, ""),
        ];
        for (name, listed, stay, taken, why) in cases {
            let all = machine(&listed);
            let kept: Vec<Caps> = distinct(&all).into_iter().map(|i| all[i].clone()).collect();
            assert_eq!(kept.iter().map(|c| c.name.as_str()).collect::<Vec<_>>(), stay, "{name}");
            assert_eq!(choose_device(&kept), taken, "{name}");
            let chosen = choose(&kept, &Select::Auto);
            assert_eq!(chosen.as_ref().ok().map(|(i, _)| *i), taken, "{name}");
            assert_eq!(chosen.map(|(_, reason)| reason).unwrap_or_default(), why, "{name}");
            // Whoever names a device gets it, a software one too.
            for (i, caps) in kept.iter().enumerate().filter(|(_, c)| c.uuid.bytes().any(|b| b != b'0')) {
                assert_eq!(choose(&kept, &Select::Name(caps.uuid.clone())).unwrap().0, i, "{name}");
            }
            assert_eq!(choose(&kept, &Select::Any).is_ok(), !kept.is_empty(), "{name}");
        }
        // Cards of drivers that make up UUIDs of their own are known by where they are.
        let at = |mut caps: Vec<Caps>, places: [&str; 2]| {
            caps.iter_mut().zip(places).for_each(|(c, place)| c.pci = Some(place.into()));
            distinct(&caps)
        };
        let two = machine(&[("RX", Discrete, 1, "AMD_PROPRIETARY", 1), ("RX", Discrete, 2, "MESA_RADV", 1)]);
        assert_eq!(at(two.clone(), ["0000:03:00.0", "0000:03:00.0"]), [1]);
        assert_eq!(at(two, ["0000:03:00.0", "0000:04:00.0"]), [0, 1]);
    }

    #[test]
    fn a_device_that_lacks_a_feature_is_the_last_choice() {
        let lacking = Caps { timeline: false, ..Caps::synthetic("Acme One", Discrete) };
        let devices = [lacking.clone(), Caps::synthetic("Acme Three", Integrated)];
        assert_eq!(choose(&devices, &Select::Auto).unwrap().0, 1);
        assert_eq!(choose(&devices, &Select::Index(0)).unwrap().0, 0, "but one asked for is taken");
        assert_eq!(choose(&[lacking], &Select::Auto).unwrap().0, 0);
    }

    #[test]
    fn devices_are_found_by_index_name_and_uuid_and_errors_list_them() {
        let devices = [Caps::synthetic("Acme One", Discrete), Caps::synthetic("Acme Three", Integrated)];
        assert_eq!(choose(&devices, &Select::Index(1)).unwrap().0, 1);
        assert_eq!(choose(&devices, &Select::Name("three".into())).unwrap().0, 1);
        assert_eq!(choose(&devices, &Select::Name(format!("{:0>32x}", 8))).unwrap().0, 0);
        for missing in [Select::Index(2), Select::Name("four".into())] {
            let error = choose(&devices, &missing).unwrap_err().to_string();
            assert!(error.contains("0: Acme One") && error.contains("1: Acme Three"), "{error}");
        }
        assert!(choose(&[], &Select::Any).is_err());
        let error = choose(&[Caps::synthetic("soft", Cpu)], &Select::Auto).unwrap_err().to_string();
        assert!(error.contains("expected a GPU with Vulkan, found 0: soft"), "{error}");
    }
}
