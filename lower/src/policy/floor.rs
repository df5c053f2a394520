//! Devices that lack what kernels are written for, or whose drivers get it wrong: modules are rewritten for them as pipelines are
//! made. Without subgroups the workgroup is the subgroup ([`pumex_vk::without_subgroups`]), without numbers of 16 bits words are
//! loaded in their place ([`pumex_vk::without_halves`]).

use pumex_vk::Caps;

/// Threads of a subgroup that kernels are written for; less or more leave some of them without room.
const SIZES: std::ops::RangeInclusive<u32> = 8..=128;
/// Threads of a workgroup that stands for a subgroup, where the device's own number is none of those.
const USUAL: u32 = 32;
/// Most threads that share products of bytes: more would have few weights each.
pub(super) const MOST_THREADS: u32 = 64;

/// What keeps a device's subgroups from being used, in the specification's words.
pub fn lacks_subgroups(caps: &Caps) -> Option<&'static str> {
    let needs = [
        (caps.subgroup_arithmetic, "subgroup arithmetic in compute shaders"),
        (caps.full_subgroups, "computeFullSubgroups"),
        (SIZES.contains(&caps.subgroup_size), "subgroups of 8 to 128 threads"),
    ];
    needs.iter().find(|(there, _)| !there).map(|(_, feature)| *feature)
}

/// The device with workgroups in place of subgroups, and so without what only subgroups can do.
pub fn without_subgroups(caps: Caps) -> Caps {
    if caps.emulated_subgroups {
        return caps;
    }
    let fits = caps.subgroup_size.is_power_of_two() && (*SIZES.start()..=MOST_THREADS).contains(&caps.subgroup_size);
    Caps {
        emulated_subgroups: true,
        subgroup_size: if fits { caps.subgroup_size } else { USUAL },
        subgroup_sizes: Vec::new(),
        subgroup_shuffle: true,
        // A word for each thread.
        max_shared_bytes: caps.max_shared_bytes.saturating_sub(4 * caps.max_workgroup_invocations.min(1024)),
        ..without_matrices(caps)
    }
}

/// The device without numbers of 16 bits, neither in memory nor to compute with.
pub fn without_halves(caps: Caps) -> Caps {
    Caps { storage16: false, fp16: false, small_halves: false, ..without_matrices(caps) }
}

fn without_matrices(caps: Caps) -> Caps {
    let (matrix_shapes, matrix_n) = Default::default();
    Caps { cooperative_matrix: false, cooperative_matrix2: false, matrix_shapes, matrix2: None, matrix_n, ..caps }
}

#[cfg(test)]
mod tests {
    use super::super::{as_used, devices, megakernel_tile};
    use super::*;

    #[test]
    fn a_device_with_the_least_of_everything_may_go_without_subgroups() {
        for (name, caps) in devices::all() {
            assert_eq!(without_subgroups(without_halves(caps)).missing(), None, "{name}");
        }
    }

    #[test]
    fn devices_without_numbers_of_16_bits_compute_with_floats() {
        let used = as_used(Caps { storage16: false, ..devices::h200() });
        assert!(used.missing().is_none() && !used.fp16 && !used.emulated_subgroups);
        assert!(used.matrix_n.is_empty() && used.staged_matrix().is_none());
        assert_eq!(as_used(used.clone()), used, "once is enough");
    }

    #[test]
    fn devices_that_lack_what_subgroups_need_go_without() {
        let whole = devices::h200();
        assert!(!whole.emulated_subgroups && lacks_subgroups(&whole).is_none());
        type Lack = fn(&mut Caps);
        let lacks: [(Lack, u32); 4] = [
            (|c| c.subgroup_arithmetic = false, 32),
            (|c| c.full_subgroups = false, 32),
            (|c| c.subgroup_size = 4, 32),
            (|c| (c.subgroup_arithmetic, c.subgroup_size) = (false, 64), 64),
        ];
        for (lack, size) in lacks {
            let mut caps = whole.clone();
            lack(&mut caps);
            let used = as_used(caps);
            assert!(used.emulated_subgroups && used.missing().is_none(), "{:?}", lacks_subgroups(&used));
            assert_eq!((used.subgroup_size, used.lanes("gemv", 256)), (size, 256));
            assert!(used.matrix_n.is_empty() && used.staged_matrix().is_none());
            assert_eq!(megakernel_tile(&used, Some(true)), None);
            assert_eq!(as_used(used.clone()), used, "once is enough");
        }
    }
}
