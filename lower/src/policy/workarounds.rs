//! Faults of drivers that choices go around: named, each with the case that fails, where it is told, and when it may go.

use super::class::DeviceClass;
use pumex_vk::{Caps, Disabled};

/// What is not used of a device that it tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Avoids {
    /// These kernels; the next rows serve.
    Kernels(&'static [&'static str]),
    /// Operations over subgroups; shared memory does what they do.
    Subgroups,
}

/// A fault of a driver.
pub struct Workaround {
    /// Its name, for logs.
    pub name: &'static str,
    /// What fails.
    pub case: &'static str,
    /// Where it is told.
    pub link: &'static str,
    /// When it may go.
    pub until: &'static str,
    /// What is not used meanwhile.
    pub avoids: Avoids,
    applies: fn(&Caps) -> bool,
}

/// All of them.
pub const WORKAROUNDS: &[Workaround] = &[
    Workaround {
        name: "turing_matrix_attention",
        case: "attention by KHR cooperative matrices, K and V of halves, on Turing: the driver's compiler makes wrong code",
        link: "https://github.com/ggml-org/llama.cpp/pull/19290",
        until: "`pumex devices --self-test` finds attn_mat and attn_flash right on a Turing card of a later driver",
        avoids: Avoids::Kernels(&["attn_mat", "attn_flash", "attn_prompt"]),
        applies: |caps| DeviceClass::of(caps) == DeviceClass::NvidiaTuring && caps.driver_id == "NVIDIA_PROPRIETARY",
    },
    Workaround {
        name: "moltenvk_amd_subgroups",
        case: "shuffles and sums over subgroups on AMD through Metal, which makes two of 32 threads of one of 64",
        link: "https://github.com/KhronosGroup/MoltenVK/issues/2756",
        until: "MoltenVK reports 32 for AMD, as Metal has them, and the self-test passes there with subgroups",
        avoids: Avoids::Subgroups,
        applies: |caps| caps.driver_id == "MOLTENVK" && caps.vendor_id == 0x1002,
    },
];

/// Those that a device needs.
pub fn of(caps: &Caps) -> impl Iterator<Item = &'static Workaround> + '_ {
    WORKAROUNDS.iter().filter(|workaround| (workaround.applies)(caps))
}

/// The device without what its driver gets wrong.
pub(super) fn apply(mut caps: Caps) -> Caps {
    let needed: Vec<&Workaround> = of(&caps).collect();
    for workaround in needed {
        match workaround.avoids {
            Avoids::Kernels(kernels) => {
                let disabled = |kernel: &&str| Disabled { kernel: (*kernel).into(), why: workaround.name.into() };
                caps.disabled.extend(
                    kernels.iter().filter(|k| caps.disabled_reason(k).is_none()).map(disabled).collect::<Vec<_>>(),
                );
            }
            Avoids::Subgroups => caps.subgroup_arithmetic = false,
        }
    }
    caps
}

#[cfg(test)]
mod tests {
    use super::super::{as_used, devices};
    use super::*;

    #[test]
    fn every_workaround_is_told_whole_and_names_kernels_that_exist() {
        for (i, w) in WORKAROUNDS.iter().enumerate() {
            assert!(w.link.starts_with("https://") && !w.case.is_empty() && !w.until.is_empty(), "{}", w.name);
            assert!(WORKAROUNDS[..i].iter().all(|other| other.name != w.name), "{}", w.name);
            if let Avoids::Kernels(kernels) = w.avoids {
                assert!(kernels.iter().all(|k| pumex_shaders::kernels::find(k).is_some()), "{}", w.name);
            }
        }
    }

    #[test]
    fn turing_attends_without_matrices_and_amd_through_metal_goes_without_subgroups() {
        let names = |caps: &Caps| of(caps).map(|w| w.name).collect::<Vec<_>>();
        for (name, caps) in devices::all() {
            let expected: &[&str] = match name {
                "geforce_rtx_2080" => &["turing_matrix_attention"],
                "radeon_pro_5700_xt" => &["moltenvk_amd_subgroups"],
                _ => &[],
            };
            assert_eq!(names(&caps), expected, "{name}");
        }
        let turing = devices::find("geforce_rtx_2080").unwrap();
        assert!(turing.disabled_reason("attn_flash").is_some() && turing.disabled_reason("gemm_mat").is_none());
        let again = apply(turing.clone());
        assert_eq!(again, turing, "what is known is not added again");
        for subgroup_size in [32, 64] {
            let caps = devices::find("radeon_rx_6800_xt").unwrap();
            let metal = as_used(Caps { driver_id: "MOLTENVK".into(), subgroup_size, subgroup_max: 64, ..caps.clone() });
            assert!(metal.emulated_subgroups && metal.missing().is_none(), "subgroups of {subgroup_size}");
            assert!(!as_used(caps).emulated_subgroups);
        }
    }
}
