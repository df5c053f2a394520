//! Devices whose subgroups are not used: what they lack, or their drivers get wrong, goes through shared memory. Pipelines are
//! rewritten for it ([`crate::vk::without_subgroups`]); the workgroup is the subgroup then.

use crate::vk::Caps;

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
        subgroup_shuffle: true,
        cooperative_matrix: false,
        cooperative_matrix2: false,
        matrix_shapes: Vec::new(),
        matrix2: None,
        matrix_n: Vec::new(),
        // A word for each thread.
        max_shared_bytes: caps.max_shared_bytes.saturating_sub(4 * caps.max_workgroup_invocations.min(1024)),
        ..caps
    }
}

#[cfg(test)]
mod tests {
    use super::super::{as_used, devices, megakernel_tile};
    use super::*;

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
            assert_eq!((used.subgroup_size, used.lanes(256)), (size, 256));
            assert!(used.matrix_n.is_empty() && used.staged_matrix().is_none());
            assert_eq!(megakernel_tile(&used, Some(true)), None);
            assert_eq!(as_used(used.clone()), used, "once is enough");
        }
    }
}
