//! What sort of device it is, as far as choices differ: the one place that knows vendors.

use super::table::ClassChoices;
use super::{amd, intel, mobile, nvidia, portable, software};
use pumex_vk::{Caps, DeviceKind};

/// Devices that choices are made for alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum DeviceClass {
    /// A CPU that runs shaders.
    Software,
    /// NVIDIA before Turing: threads of a subgroup do not make progress on their own.
    NvidiaPascal,
    NvidiaTuring,
    /// And newer.
    NvidiaAmpere,
    /// NVIDIA by a driver that does not tell how many multiprocessors there are.
    NvidiaUntold,
    /// AMD with subgroups of 64 only, for graphics.
    AmdGcn,
    /// AMD with subgroups of 64 only, for computing.
    AmdCdna,
    AmdRdna1,
    AmdRdna2,
    /// And 3.5.
    AmdRdna3,
    AmdRdna4,
    /// Intel without an instruction for dot products of bytes.
    IntelOld,
    /// Intel Xe, subgroups from 8 on.
    IntelXe1,
    /// Intel Xe2 and newer, subgroups from 16 on.
    IntelXe2,
    Apple,
    Qualcomm,
    Arm,
    /// Any other.
    Unknown,
}

use DeviceClass::*;

/// Warps of a multiprocessor of Turing's: no other generation's holds so few.
const TURING_WARPS: u32 = 32;
/// Wavefronts that a SIMD unit of RDNA 1 holds: no later generation's holds so many.
const RDNA1_WAVES: u32 = 20;
/// Device ids of AMD's cards for computing, of those whose subgroups have 64 threads.
const CDNA_IDS: std::ops::RangeInclusive<u32> = 0x7380..=0x75ff;

/// Xe cores by Intel's device ids: its drivers do not tell.
const XE_CORES: [(u32, u32); 9] = [
    (0x56a6, 6),  // A310
    (0x56a5, 8),  // A380
    (0x56a2, 24), // A580
    (0x56a1, 28), // A750
    (0x56a0, 32), // A770
    (0xe212, 16), // B50
    (0xe20c, 18), // B570
    (0xe20b, 20), // B580
    (0xe211, 20), // B60
];

impl DeviceClass {
    /// All of them.
    pub const ALL: [DeviceClass; 18] = [
        Software,
        NvidiaPascal,
        NvidiaTuring,
        NvidiaAmpere,
        NvidiaUntold,
        AmdGcn,
        AmdCdna,
        AmdRdna1,
        AmdRdna2,
        AmdRdna3,
        AmdRdna4,
        IntelOld,
        IntelXe1,
        IntelXe2,
        Apple,
        Qualcomm,
        Arm,
        Unknown,
    ];

    /// The class of a device.
    pub fn of(caps: &Caps) -> DeviceClass {
        match caps.vendor_id {
            _ if caps.kind == DeviceKind::Cpu => Software,
            0x10de => nvidia_class(caps),
            0x1002 => amd_class(caps),
            0x8086 => intel_class(caps),
            0x106b => Apple,
            0x5143 => Qualcomm,
            0x13b5 => Arm,
            _ => Unknown,
        }
    }

    /// What is chosen for the class.
    pub fn choices(self) -> &'static ClassChoices {
        match self {
            Software => &software::CHOICES,
            NvidiaTuring | NvidiaAmpere => &nvidia::CHOICES,
            NvidiaPascal => &nvidia::PASCAL,
            AmdGcn | AmdCdna => &amd::GCN,
            AmdRdna1 => &amd::RDNA1,
            AmdRdna2 => &amd::RDNA,
            AmdRdna3 => &amd::RDNA3,
            AmdRdna4 => &amd::RDNA4,
            IntelOld | IntelXe1 => &intel::XE1,
            IntelXe2 => &intel::XE2,
            Apple | Qualcomm | Arm => &mobile::CHOICES,
            NvidiaUntold | Unknown => &portable::CHOICES,
        }
    }
}

fn nvidia_class(caps: &Caps) -> DeviceClass {
    match (caps.cores, caps.waves) {
        (None, _) => NvidiaUntold,
        (_, Some(TURING_WARPS)) => NvidiaTuring,
        _ if !caps.cooperative_matrix => NvidiaPascal,
        _ => NvidiaAmpere,
    }
}

fn amd_class(caps: &Caps) -> DeviceClass {
    match () {
        () if caps.subgroup_min == 64 && CDNA_IDS.contains(&caps.device_id) => AmdCdna,
        () if caps.subgroup_min == 64 => AmdGcn,
        () if caps.waves == Some(RDNA1_WAVES) => AmdRdna1,
        () if caps.float8 => AmdRdna4,
        () if caps.fast_dots.mixed => AmdRdna3,
        () => AmdRdna2,
    }
}

fn intel_class(caps: &Caps) -> DeviceClass {
    match () {
        () if caps.subgroup_min == 16 => IntelXe2,
        () if caps.fast_dots.signed => IntelXe1,
        () => IntelOld,
    }
}

/// What is chosen for a device.
pub(super) fn choices(caps: &Caps) -> &'static ClassChoices {
    DeviceClass::of(caps).choices()
}

/// Multiprocessors, or compute units, where the driver tells or they are known of this device.
fn find_cores(caps: &Caps) -> Option<u32> {
    let listed = || {
        let listed = XE_CORES.iter().find(|(id, _)| *id == caps.device_id)?;
        matches!(DeviceClass::of(caps), IntelXe1 | IntelXe2).then_some(listed.1)
    };
    caps.cores.or_else(listed)
}

/// Whether it is worth trying how many workgroups run at once. What software devices do was measured with the guess.
pub fn asks_for_cores(caps: &Caps) -> bool {
    find_cores(caps).is_none() && DeviceClass::of(caps) != Software
}

/// Multiprocessors, or compute units; of a device of which nobody tells, what was measured, else a guess: what is integrated has few.
pub fn cores(caps: &Caps) -> u32 {
    let guess = match caps.kind {
        DeviceKind::Integrated => 16,
        DeviceKind::Discrete => 64,
        DeviceKind::Virtual | DeviceKind::Cpu | DeviceKind::Other => 128,
    };
    let measured = caps.measured_cores.filter(|_| asks_for_cores(caps));
    find_cores(caps).or(measured).unwrap_or(guess)
}

/// Whether products take dot products of packed bytes: where the device has an instruction for those of signed ones. Software
/// devices have none for anything, and nothing to lose by it.
pub fn integer_dots(caps: &Caps) -> bool {
    caps.int_dot8 && (caps.fast_dots.signed || DeviceClass::of(caps) == Software)
}

/// Whether dot products of unsigned with signed bytes are made of signed ones, for lack of an instruction.
pub fn signed_dots(caps: &Caps) -> bool {
    caps.lacks_mixed_dots()
}

#[cfg(test)]
mod tests {
    use super::super::devices;
    use super::*;

    fn device(name: &str) -> Caps {
        devices::find(name).unwrap()
    }

    #[test]
    fn classes_cores_and_subgroups_of_known_devices() {
        let expected = [
            ("h200", NvidiaAmpere, 132, 32),
            ("lavapipe", Software, 128, 8),
            ("geforce_gtx_1080", NvidiaPascal, 20, 32),
            ("geforce_rtx_2080", NvidiaTuring, 46, 32),
            ("geforce_rtx_3090", NvidiaAmpere, 82, 32),
            ("geforce_rtx_5090", NvidiaAmpere, 170, 32),
            ("geforce_rtx_2060_nvk", NvidiaUntold, 64, 32),
            ("radeon_rx_580", AmdGcn, 36, 64),
            ("radeon_rx_5700_xt", AmdRdna1, 40, 32),
            ("radeon_rx_6800_xt", AmdRdna2, 72, 32),
            ("radeon_rx_7900_xtx", AmdRdna3, 96, 64),
            ("radeon_rx_9070_xt", AmdRdna4, 64, 64),
            ("radeon_8060s", AmdRdna3, 40, 64),
            ("instinct_mi100", AmdCdna, 120, 64),
            ("arc_a770", IntelXe1, 32, 16),
            ("arc_b580", IntelXe2, 20, 16),
            ("iris_xe", IntelXe1, 16, 16),
            ("uhd_630", IntelOld, 16, 16),
            ("apple_m2", Apple, 16, 32),
            ("adreno_740", Qualcomm, 16, 64),
            ("mali_g715", Arm, 7, 16),
            ("radeon_pro_5700_xt", AmdGcn, 64, 64),
            ("unknown", Unknown, 128, 16),
            ("floor", Unknown, 128, 32),
        ];
        let of = |(name, caps): &(&'static str, Caps)| (*name, DeviceClass::of(caps), cores(caps), caps.subgroup_size);
        assert_eq!(devices::all().iter().map(of).collect::<Vec<_>>(), expected);
        let software_of_a_vendor = Caps { kind: DeviceKind::Cpu, ..devices::h200() };
        assert_eq!(DeviceClass::of(&software_of_a_vendor), Software);
    }

    #[test]
    fn bytes_are_multiplied_where_an_instruction_does_it() {
        let emulated = Caps { fast_dots: Default::default(), ..device("arc_a770") };
        let of = |caps: &Caps| (integer_dots(caps), signed_dots(caps));
        assert_eq!(of(&devices::h200()), (true, false));
        assert_eq!(of(&devices::lavapipe()), (true, false));
        assert_eq!(of(&device("radeon_rx_7900_xtx")), (true, false));
        assert_eq!(of(&device("radeon_rx_6800_xt")), (true, true));
        assert_eq!(of(&device("radeon_rx_5700_xt")), (false, false));
        assert_eq!(of(&device("adreno_740")), (false, false));
        assert_eq!(of(&emulated), (false, false));
    }

    #[test]
    fn only_devices_whose_workgroups_are_known_to_run_at_once_get_a_megakernel() {
        for (name, caps) in devices::all() {
            let expected = matches!(DeviceClass::of(&caps), NvidiaTuring | NvidiaAmpere);
            assert_eq!(super::super::megakernel_tile(&caps, None).is_some(), expected, "{name}");
        }
    }

    /// A count of workgroups says how many keep a device busy; that they run at once every time, it does not.
    #[test]
    fn measured_cores_count_where_nobody_tells_and_turn_no_megakernel_on() {
        for (name, caps) in devices::all() {
            let measured = Caps { measured_cores: Some(23), ..caps.clone() };
            let untold = [
                "geforce_rtx_2060_nvk",
                "iris_xe",
                "uhd_630",
                "apple_m2",
                "adreno_740",
                "radeon_pro_5700_xt",
                "unknown",
                "floor",
            ]
            .contains(&name);
            assert_eq!(asks_for_cores(&caps), untold, "{name}");
            assert_eq!(cores(&measured), if untold { 23 } else { cores(&caps) }, "{name}");
            assert_eq!(DeviceClass::of(&measured), DeviceClass::of(&caps), "{name}");
            for wanted in [None, Some(false), Some(true)] {
                let tile = |caps: &Caps| super::super::megakernel_tile(caps, wanted);
                assert_eq!(tile(&measured), tile(&caps), "{name}, wanted {wanted:?}");
            }
        }
    }
}
