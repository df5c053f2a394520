//! Which instructions the kernels may use: found out at run time, and chosen by tests.

/// A set of instructions that every kernel is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Isa {
    /// What the compiler may assume of any machine.
    Portable,
    /// x86-64 with AVX2, FMA and F16C.
    Avx2,
    /// x86-64 with AVX2, FMA, F16C and dot products of bytes (AVX-VNNI).
    AvxVnni,
    /// AVX-512 F, BW, VL, DQ and VNNI.
    Avx512,
    /// x86-64 with AVX-512 and dot products of BF16, to which columns of a prompt are rounded where the weights are BF16.
    Avx512Bf16,
    /// 64-bit ARM with dot products of bytes.
    Neon,
    /// 64-bit ARM with dot products and products of matrices of bytes (I8MM).
    NeonI8mm,
}

impl Isa {
    /// All of them, the plainest first.
    pub const ALL: [Isa; 7] =
        [Isa::Portable, Isa::Avx2, Isa::AvxVnni, Isa::Avx512, Isa::Avx512Bf16, Isa::Neon, Isa::NeonI8mm];

    /// Whether this machine has them.
    pub fn is_here(self) -> bool {
        match self {
            Isa::Portable => true,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => has_avx2(),
            #[cfg(target_arch = "x86_64")]
            Isa::AvxVnni => has_avx2() && is_x86_feature_detected!("avxvnni"),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => {
                has_avx2()
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vnni")
            }
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512Bf16 => Isa::Avx512.is_here() && is_x86_feature_detected!("avx512bf16"),
            #[cfg(target_arch = "aarch64")]
            Isa::NeonI8mm => Isa::Neon.is_here() && std::arch::is_aarch64_feature_detected!("i8mm"),
            #[cfg(target_arch = "aarch64")]
            Isa::Neon => {
                std::arch::is_aarch64_feature_detected!("neon") && std::arch::is_aarch64_feature_detected!("dotprod")
            }
            #[allow(unreachable_patterns)]
            _ => false,
        }
    }

    /// The best one of this machine.
    pub fn best() -> Isa {
        Isa::ALL.into_iter().rfind(|isa| isa.is_here()).unwrap_or(Isa::Portable)
    }

    /// The name that is shown to people.
    pub fn name(self) -> &'static str {
        match self {
            Isa::Portable => "portable",
            Isa::Avx2 => "AVX2",
            Isa::AvxVnni => "AVX-VNNI",
            Isa::Avx512 => "AVX-512 VNNI",
            Isa::Avx512Bf16 => "AVX-512 VNNI BF16",
            Isa::Neon => "NEON",
            Isa::NeonI8mm => "NEON I8MM",
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn has_avx2() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c")
}

/// Where memory goes that is asked for before it is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ahead {
    /// Into the first cache.
    First,
    /// Into the second one.
    Second,
}

/// Where this machine's cores should have it. AMD's family 25 (Zen 3 and 4) waits for what is on its way into its first cache, and reads
/// a third to twice as much if the second one is asked to have it.
pub(crate) fn ahead() -> Ahead {
    #[cfg(target_arch = "x86_64")]
    {
        static AHEAD: std::sync::OnceLock<Ahead> = std::sync::OnceLock::new();
        *AHEAD.get_or_init(|| {
            #[allow(unused_unsafe)] // newer compilers call it safe
            // SAFETY: every x86-64 machine has the instruction and these two leaves.
            let (vendor, version) = unsafe { (std::arch::x86_64::__cpuid(0), std::arch::x86_64::__cpuid(1)) };
            let is_amd = vendor.ebx == u32::from_le_bytes(*b"Auth");
            let family =
                (version.eax >> 8 & 15) + if version.eax >> 8 & 15 == 15 { version.eax >> 20 & 255 } else { 0 };
            if is_amd && family == 25 {
                Ahead::Second
            } else {
                Ahead::First
            }
        })
    }
    #[cfg(not(target_arch = "x86_64"))]
    Ahead::First
}
