//! What sort of device it is, as far as choices differ: the one place that knows vendors.

use super::table::Choices;
use super::{nvidia, portable, software};
use crate::vk::{Caps, DeviceKind};

/// Devices that choices are made for alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeviceClass {
    /// A CPU that runs shaders.
    Software,
    /// An NVIDIA GPU; `cores_told` if its driver tells how many multiprocessors there are.
    Nvidia {
        /// Whether [`Caps::cores`] is known.
        cores_told: bool,
    },
    /// An AMD GPU.
    Amd,
    /// An Intel GPU.
    Intel,
    /// An Apple GPU.
    Apple,
    /// A Qualcomm GPU.
    Qualcomm,
    /// Any other.
    Unknown,
}

impl DeviceClass {
    /// The class of a device.
    pub fn of(caps: &Caps) -> DeviceClass {
        match caps.vendor_id {
            _ if caps.kind == DeviceKind::Cpu => DeviceClass::Software,
            0x10de => DeviceClass::Nvidia { cores_told: caps.cores.is_some() },
            0x1002 => DeviceClass::Amd,
            0x8086 => DeviceClass::Intel,
            0x106b => DeviceClass::Apple,
            0x5143 => DeviceClass::Qualcomm,
            _ => DeviceClass::Unknown,
        }
    }

    /// What is chosen for the class.
    pub fn choices(self) -> &'static Choices {
        match self {
            DeviceClass::Software => &software::CHOICES,
            DeviceClass::Nvidia { cores_told: true } => &nvidia::CHOICES,
            DeviceClass::Nvidia { cores_told: false }
            | DeviceClass::Amd
            | DeviceClass::Intel
            | DeviceClass::Apple
            | DeviceClass::Qualcomm
            | DeviceClass::Unknown => &portable::CHOICES,
        }
    }
}

/// What is chosen for a device.
pub(super) fn choices(caps: &Caps) -> &'static Choices {
    DeviceClass::of(caps).choices()
}

/// Multiprocessors, or a guess at those of a device whose driver does not say.
pub fn cores(caps: &Caps) -> u32 {
    caps.cores.unwrap_or(128)
}

/// Whether products take dot products of packed bytes: where the device has an instruction for those of signed ones. Software
/// devices have none for anything, and nothing to lose by it.
pub fn integer_dots(caps: &Caps) -> bool {
    caps.int_dot8 && (caps.fast_dots.signed || DeviceClass::of(caps) == DeviceClass::Software)
}

/// Whether dot products of unsigned with signed bytes are made of signed ones, for lack of an instruction.
pub fn signed_dots(caps: &Caps) -> bool {
    caps.lacks_mixed_dots()
}

#[cfg(test)]
mod tests {
    use super::super::devices;
    use super::*;

    #[test]
    fn classes_go_by_kind_vendor_and_what_the_driver_tells() {
        let expected = [
            ("h200", DeviceClass::Nvidia { cores_told: true }),
            ("lavapipe", DeviceClass::Software),
            ("geforce_nvk", DeviceClass::Nvidia { cores_told: false }),
            ("radeon", DeviceClass::Amd),
            ("radeon_rdna2", DeviceClass::Amd),
            ("arc", DeviceClass::Intel),
            ("apple", DeviceClass::Apple),
            ("adreno", DeviceClass::Qualcomm),
            ("unknown", DeviceClass::Unknown),
        ];
        let found: Vec<_> = devices::all().iter().map(|(name, caps)| (*name, DeviceClass::of(caps))).collect();
        assert_eq!(found, expected);
        let software_of_a_vendor = Caps { kind: DeviceKind::Cpu, ..devices::h200() };
        assert_eq!(DeviceClass::of(&software_of_a_vendor), DeviceClass::Software);
    }

    #[test]
    fn bytes_are_multiplied_where_an_instruction_does_it() {
        let emulated = Caps { fast_dots: Default::default(), ..devices::arc() };
        let of = |caps: &Caps| (integer_dots(caps), signed_dots(caps));
        assert_eq!(of(&devices::h200()), (true, false));
        assert_eq!(of(&devices::lavapipe()), (true, false));
        assert_eq!(of(&devices::radeon_rdna2()), (true, true));
        assert_eq!(of(&devices::adreno()), (false, false));
        assert_eq!(of(&emulated), (false, false));
    }
}
