//! Capabilities of known devices, for choices without one: tests and dry runs.
//!
//! The first two are as their drivers tell; of the others only what choices depend on is meant to be true.

use crate::vk::{Caps, DeviceKind, FastDots};

/// NVIDIA H200, driver 580: the device that tiles were measured on.
pub fn h200() -> Caps {
    Caps {
        max_groups: [0x7fff_ffff, 0xffff, 0xffff],
        cores: Some(132),
        cooperative_matrix: true,
        cooperative_matrix2: true,
        small_halves: true,
        matrix_n: vec![8, 16],
        ..gpu("NVIDIA H200", 0x10de, DeviceKind::Discrete)
    }
}

/// The software device of Mesa, on a CPU with vectors of 256 bits.
pub fn lavapipe() -> Caps {
    Caps {
        unified: true,
        subgroup_size: 8,
        subgroup_min: 8,
        subgroup_max: 8,
        max_workgroup_subgroups: 32,
        fast_dots: FastDots::default(),
        max_shared_bytes: 32 << 10,
        max_push_bytes: 128,
        ..gpu("llvmpipe (LLVM 15.0.6, 256 bits)", 0x10005, DeviceKind::Cpu)
    }
}

/// An NVIDIA GPU whose driver tells neither cores nor matrices.
pub fn geforce_nvk() -> Caps {
    gpu("NVIDIA GeForce RTX 2060 (NVK)", 0x10de, DeviceKind::Discrete)
}

/// An AMD GPU of RDNA3: subgroups of 64, matrices of 16 columns.
pub fn radeon() -> Caps {
    Caps {
        subgroup_size: 64,
        max_shared_bytes: 64 << 10,
        cooperative_matrix: true,
        matrix_n: vec![16],
        ..gpu("AMD Radeon RX 7900 XTX (RADV NAVI31)", 0x1002, DeviceKind::Discrete)
    }
}

/// An AMD GPU of RDNA2: no matrices, and no dot products of unsigned with signed bytes.
pub fn radeon_rdna2() -> Caps {
    let fast_dots = FastDots { mixed: false, ..radeon().fast_dots };
    let name = "AMD Radeon RX 6800 (RADV NAVI21)".into();
    Caps { name, fast_dots, cooperative_matrix: false, matrix_n: Vec::new(), ..radeon() }
}

/// An Intel GPU: no cores told, no matrices of these sizes.
pub fn arc() -> Caps {
    gpu("Intel(R) Arc(tm) A770 Graphics (DG2)", 0x8086, DeviceKind::Discrete)
}

/// An Apple GPU through a translation layer.
pub fn apple() -> Caps {
    Caps { unified: true, max_shared_bytes: 32 << 10, ..gpu("Apple M2", 0x106b, DeviceKind::Integrated) }
}

/// A Qualcomm GPU without packed dot products.
pub fn adreno() -> Caps {
    Caps {
        unified: true,
        subgroup_size: 64,
        max_shared_bytes: 32 << 10,
        int_dot8: false,
        fast_dots: FastDots::default(),
        ..gpu("Adreno (TM) 740", 0x5143, DeviceKind::Integrated)
    }
}

/// A device of no known vendor, with the least that is asked of one and dot products.
pub fn unknown() -> Caps {
    Caps {
        max_shared_bytes: 32 << 10,
        max_workgroup_invocations: 128,
        subgroup_size: 16,
        ..gpu("Acme One", 0xacce, DeviceKind::Other)
    }
}

/// All of these, by short names.
pub fn all() -> Vec<(&'static str, Caps)> {
    vec![
        ("h200", h200()),
        ("lavapipe", lavapipe()),
        ("geforce_nvk", geforce_nvk()),
        ("radeon", radeon()),
        ("radeon_rdna2", radeon_rdna2()),
        ("arc", arc()),
        ("apple", apple()),
        ("adreno", adreno()),
        ("unknown", unknown()),
    ]
}

/// Of a vendor.
fn gpu(name: &str, vendor_id: u32, kind: DeviceKind) -> Caps {
    let (max_workgroup_subgroups, max_groups, max_push_bytes) = (64, [65_535; 3], 256);
    Caps { vendor_id, max_workgroup_subgroups, max_groups, max_push_bytes, ..Caps::made_up(name, kind) }
}
