//! Threads of a subgroup: what is usual on a device, and kernels that are better off with others.

use super::class::DeviceClass::{self, *};
use super::table::Evidence;
use pumex_vk::{Caps, KernelSubgroup};

/// How many threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// So many.
    Exactly(u32),
    /// The fewest that the device offers.
    Least,
}

/// Kernels of a class of devices that have other subgroups than are usual there.
#[derive(Clone, Copy, Debug)]
pub struct SubgroupRow {
    /// Rows of the kernel table.
    pub kernels: &'static [&'static str],
    /// Only with weights of blocks.
    pub quantized: bool,
    /// Their threads.
    pub threads: Threads,
    /// What it rests on.
    pub evidence: Evidence,
}

/// Kernels whose tiles follow the size of their own subgroups; no others may be named.
pub const FREE: [&str; 9] =
    ["argmax", "softmax", "gemv", "gemv_dot", "gemm_bytes", "gemm_staged", "attn_split", "rope_kv", "scan"];

const OTHERS: Evidence = Evidence::Estimate("what others pin on such devices");
/// A thread has twice the registers then.
const NO_SPILLS: Evidence = Evidence::Record(super::intel::RECORD);
const STAGED: Evidence = Evidence::Estimate("a tile's 64 outputs are shared by two subgroups");

const RDNA1: &[SubgroupRow] = &[
    SubgroupRow { kernels: &["argmax", "softmax"], quantized: false, threads: Threads::Exactly(64), evidence: OTHERS },
    SubgroupRow { kernels: &["gemv", "gemv_dot"], quantized: true, threads: Threads::Exactly(64), evidence: OTHERS },
];
const RDNA2: &[SubgroupRow] =
    &[SubgroupRow { kernels: &["softmax"], quantized: false, threads: Threads::Exactly(64), evidence: OTHERS }];
/// All others have 64 of the driver: GEMV has more threads under way so (2026-11-25 in `benches/archive/other-devices.md`).
const RDNA3: &[SubgroupRow] = &[
    SubgroupRow { kernels: &["attn_split"], quantized: false, threads: Threads::Exactly(32), evidence: OTHERS },
    SubgroupRow {
        kernels: &["gemm_bytes", "gemm_staged"],
        quantized: false,
        threads: Threads::Exactly(32),
        evidence: STAGED,
    },
];
const INTEL: &[SubgroupRow] = &[
    SubgroupRow { kernels: &["gemv_dot"], quantized: true, threads: Threads::Least, evidence: OTHERS },
    SubgroupRow { kernels: &["gemv", "attn_split"], quantized: false, threads: Threads::Least, evidence: NO_SPILLS },
];

/// Threads that all kernels are to have, of those that the device offers, none where its own choice is best; and exceptions.
pub fn of_class(class: DeviceClass) -> (Option<u32>, &'static [SubgroupRow]) {
    match class {
        AmdRdna1 => (Some(32), RDNA1),
        AmdRdna2 => (Some(32), RDNA2),
        AmdRdna3 | AmdRdna4 => (None, RDNA3),
        IntelOld | IntelXe1 | IntelXe2 => (Some(16), INTEL),
        _ => (None, &[]),
    }
}

fn offers(caps: &Caps, threads: u32) -> bool {
    let asks = caps.subgroup_size_control && !caps.emulated_subgroups;
    asks && (caps.subgroup_min..=caps.subgroup_max).contains(&threads)
}

/// Threads of a subgroup in the pipelines of a device, where no row says otherwise.
pub(super) fn usual(caps: &Caps) -> u32 {
    let (usual, _) = of_class(DeviceClass::of(caps));
    usual.filter(|threads| offers(caps, *threads)).unwrap_or(caps.subgroup_size)
}

/// Modules with other subgroups than `usual`.
pub(super) fn exceptions(caps: &Caps, usual: u32) -> Vec<KernelSubgroup> {
    let (_, rows) = of_class(DeviceClass::of(caps));
    let mut all = Vec::new();
    for row in rows {
        let threads = match row.threads {
            Threads::Exactly(threads) => threads,
            Threads::Least => caps.subgroup_min.max(8),
        };
        if threads == usual || !offers(caps, threads) {
            continue;
        }
        for kernel in row.kernels {
            let of_all = !row.quantized || *kernel == "gemv_dot"; // which has no other weights
            let formats = pumex_quant::all().filter(|format| !of_all && format.block_len > 1);
            let modules = formats.map(|format| format!("{kernel}.{}", format.stem));
            let whole = of_all.then(|| kernel.to_string());
            all.extend(modules.chain(whole).map(|module| KernelSubgroup { module, threads }));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::super::devices;
    use super::*;

    #[test]
    fn only_kernels_that_follow_their_own_size_are_named() {
        for row in DeviceClass::ALL.into_iter().flat_map(|class| of_class(class).1) {
            assert!(row.kernels.iter().all(|kernel| FREE.contains(kernel)), "{row:?}");
        }
        assert!(FREE.iter().all(|kernel| pumex_shaders::kernels::find(kernel).is_some()));
    }

    #[test]
    fn modules_have_the_size_of_their_row_else_the_usual_one() {
        let sizes = |name: &str, modules: [&str; 5]| {
            let caps = devices::find(name).unwrap();
            (caps.subgroup_size, modules.map(|module| caps.subgroup_of(module)))
        };
        let modules = ["gemv.q4_k", "gemv.f16", "gemv_dot.q4_k", "attn_split", "softmax"];
        let expected = [
            ("radeon_rx_5700_xt", (32, [64, 32, 64, 32, 64])),
            ("radeon_rx_6800_xt", (32, [32, 32, 32, 32, 64])),
            ("radeon_rx_7900_xtx", (64, [64, 64, 64, 32, 64])),
            ("radeon_rx_9070_xt", (64, [64, 64, 64, 32, 64])),
            ("radeon_rx_580", (64, [64; 5])),
            ("arc_a770", (16, [8, 8, 8, 8, 16])),
            ("arc_b580", (16, [16; 5])),
            ("h200", (32, [32; 5])),
            ("radeon_pro_5700_xt", (64, [64; 5])),
        ];
        for (name, all) in expected {
            assert_eq!(sizes(name, modules), all, "{name}");
        }
        // A driver that cannot be asked keeps its own.
        let fixed =
            Caps { subgroup_size: 64, subgroup_size_control: false, ..devices::find("radeon_rx_5700_xt").unwrap() };
        assert_eq!((usual(&fixed), exceptions(&fixed, 64)), (64, vec![]));
    }
}
