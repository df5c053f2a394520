//! Formats as devices with room for them hold them: weights of a codebook written out, so that a weight takes fewer instructions,
//! and more bits, than by its entry. Their rows differ from those of the files' formats in nothing but the structure of arrays.

use crate::codes::{self, BitSource, Codebook, Codes, SoaPart};
use crate::format::{Format, FormatId};
use crate::{iq1_m, iq1_s, iq3_s};

/// Every such format.
pub const EXPANDED: &[Format] = &[
    Format {
        id: FormatId::Iq1SExpanded,
        stem: "iq1_s_expanded",
        codes: Some(Codes {
            soa: &[SoaPart::Codes("QS", 64), SoaPart::Codes("SC", 4), SoaPart::Field("D")],
            // Values of a chunk's k-th 32 weights are at bits 2k of its 32 bytes; then scales, and the bits that say where shifts go.
            place: |i| match (i / 8, i % 8) {
                (b @ ..64, bit) => BitSource::Code(Codebook::Iq1S, b / 32 * 128 + bit / 2 * 32 + b % 32, bit % 2),
                (b, bit) => BitSource::Bit(8 * 34 + 16 * (2 * (b - 64) + bit / 4) + 12 + bit % 4),
            },
        }),
        ..iq1_s::FORMAT
    },
    Format {
        id: FormatId::Iq1MExpanded,
        stem: "iq1_m_expanded",
        codes: Some(Codes {
            soa: &[SoaPart::Codes("QS", 64), SoaPart::Field("SC"), SoaPart::Codes("QH", 4)],
            place: |i| match i {
                0..512 => BitSource::Code(Codebook::Iq1M, codes::of_pairs(i), i % 2),
                _ => BitSource::Bit(8 * 32 + 4 * (i - 512) + 3),
            },
        }),
        ..iq1_m::FORMAT
    },
    Format {
        id: FormatId::Iq3SExpanded,
        stem: "iq3_s_expanded",
        codes: Some(Codes {
            soa: &[SoaPart::Codes("QS", 128), SoaPart::Field("SC"), SoaPart::Field("D")],
            place: |i| {
                let (b, nibble) = (i / 8, i / 4 % 2);
                BitSource::Code(Codebook::Iq3S, b / 32 * 64 + 32 * nibble + b % 32, i % 4)
            },
        }),
        ..iq3_s::FORMAT
    },
];
