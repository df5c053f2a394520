//! The table of all formats, and how rows are found.

use crate::expanded::EXPANDED;
use crate::format::{Format, FormatId};
use crate::{
    bf16, f16, f32, iq1_m, iq1_s, iq2_s, iq2_xs, iq2_xxs, iq3_s, iq3_xxs, iq4_nl, iq4_xs, mxfp4, nvfp4, q1_0, q2_0,
    q2_k, q3_k, q4_0, q4_1, q4_k, q5_0, q5_1, q5_k, q6_k, q8_0, q8_k, tq1_0, tq2_0,
};

/// Every format of files, one row each, in the order of [`FormatId`].
pub const FORMATS: &[Format] = &[
    f32::FORMAT,
    f16::FORMAT,
    bf16::FORMAT,
    q1_0::FORMAT,
    q2_0::FORMAT,
    q4_0::FORMAT,
    q4_1::FORMAT,
    q5_0::FORMAT,
    q5_1::FORMAT,
    q8_0::FORMAT,
    q2_k::FORMAT,
    q3_k::FORMAT,
    q4_k::FORMAT,
    q5_k::FORMAT,
    q6_k::FORMAT,
    q8_k::FORMAT,
    iq1_s::FORMAT,
    iq1_m::FORMAT,
    iq2_xxs::FORMAT,
    iq2_xs::FORMAT,
    iq2_s::FORMAT,
    iq3_xxs::FORMAT,
    iq3_s::FORMAT,
    iq4_nl::FORMAT,
    iq4_xs::FORMAT,
    tq1_0::FORMAT,
    tq2_0::FORMAT,
    mxfp4::FORMAT,
    nvfp4::FORMAT,
];

/// All formats: those of files, and what devices hold in place of some of them.
pub fn all() -> impl Iterator<Item = &'static Format> {
    FORMATS.iter().chain(EXPANDED)
}

/// The format with ggml's numeric type id, if Pumex runs it.
pub fn find(ggml_id: u32) -> Option<&'static Format> {
    FORMATS.iter().find(|f| f.ggml_id == ggml_id)
}

impl FormatId {
    /// Its row.
    pub fn format(self) -> &'static Format {
        let at = self as usize;
        FORMATS.get(at).unwrap_or_else(|| &EXPANDED[at - FORMATS.len()])
    }
}

impl Format {
    /// What devices may hold in its place, in a structure of arrays only: more bits, of which weights take fewer instructions.
    pub fn expanded_format(&self) -> Option<&'static Format> {
        EXPANDED.iter().find(|wide| wide.ggml_id == self.ggml_id)
    }

    /// Whether it is of devices only: whether it has no kernels for blocks.
    pub fn is_expanded(&self) -> bool {
        self.id as usize >= FORMATS.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_in_the_order_of_their_ids() {
        for (at, format) in all().enumerate() {
            assert_eq!(format.id as usize, at, "{}", format.stem);
            assert_eq!(format.id.format().stem, format.stem);
        }
        let files: std::collections::HashSet<u32> = FORMATS.iter().map(|f| f.ggml_id).collect();
        assert_eq!(files.len(), FORMATS.len());
        assert!(EXPANDED.iter().all(|wide| files.contains(&wide.ggml_id) && wide.is_expanded()));
        assert!(!FORMATS.iter().any(Format::is_expanded));
    }
}
