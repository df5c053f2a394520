//! The kernel table: one row per shader, with the specialization constants it has by name.
//!
//! A row whose `formats` is true is compiled once per weight format. Rows of one op stand best first; all of these are
//! the portable floor: they need nothing beyond what a device must have to be opened at all.

/// One shader.
#[derive(Debug)]
pub struct Kernel {
    /// Name, and stem of `glsl/NAME.comp`.
    pub name: &'static str,
    /// Compiled once per weight format, as `NAME.STEM`.
    pub formats: bool,
    /// Bytes of push constants.
    pub push_bytes: u32,
    /// Specialization constants: name and id.
    pub spec: &'static [(&'static str, u32)],
}

const KV: [(&str, u32); 3] = [("K_F16", 10), ("V_F16", 11), ("HEAD_DIM", 12)];

/// Every shader.
pub const KERNELS: &[Kernel] = &[
    Kernel { name: "embed", formats: true, push_bytes: 48, spec: &[("SIZE", 0)] },
    Kernel { name: "rms_norm", formats: false, push_bytes: 40, spec: &[("SIZE", 0), ("WANTED", 1)] },
    Kernel {
        name: "gemv",
        formats: true,
        push_bytes: 104,
        spec: &[("SIZE", 0), ("ROWS", 1), ("COLS", 2), ("GATED", 3), ("ADD", 4)],
    },
    Kernel { name: "gemm_tile", formats: true, push_bytes: 64, spec: &[("EPILOGUE", 1)] },
    Kernel {
        name: "rope_kv",
        formats: false,
        push_bytes: 72,
        spec: &[("SIZE", 0), ("NEOX", 1), ("NORM", 2), KV[0], KV[1], KV[2]],
    },
    Kernel { name: "attn_decode", formats: false, push_bytes: 56, spec: &[("SIZE", 0), KV[0], KV[1], KV[2]] },
    Kernel { name: "attn_prefill", formats: false, push_bytes: 56, spec: &[("BR", 1), ("BC", 2), KV[0], KV[1], KV[2]] },
    Kernel { name: "stream", formats: false, push_bytes: 24, spec: &[("COPY", 1)] },
    Kernel { name: "argmax", formats: false, push_bytes: 40, spec: &[("SIZE", 0)] },
];

impl Kernel {
    /// Id of a specialization constant.
    pub fn spec_id(&self, name: &str) -> Option<u32> {
        self.spec.iter().find(|(n, _)| *n == name).map(|(_, id)| *id)
    }
}

/// The row of that name.
pub fn find(name: &str) -> Option<&'static Kernel> {
    KERNELS.iter().find(|k| k.name == name)
}
