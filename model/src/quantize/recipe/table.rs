//! The table of recipes, and the rules that several share.

use super::Role::{AttnK, AttnOutput, AttnQ, AttnV, Embedding, FfnDown, FfnGate, FfnUp};
use super::When::{
    Always, Before, BeforeBlind, BeforeSeeing, Blind, First, Middle, MoreBits, MoreBitsExperts, Shared, SharedOrExperts,
};
use super::{Recipe, Rule, Rules};
use pumex_quant::FormatId::{self, *};

/// `general.file_type`, and what llama.cpp calls it.
type FileType = (u32, &'static str);

const fn mixed(name: &'static str, file_type: FileType, base: FormatId, about: &'static str, rules: Rules) -> Recipe {
    Recipe { name, file_type: file_type.0, label: file_type.1, base, about, rules, low: false, firm_output: false }
}

const fn plain(name: &'static str, file_type: FileType, base: FormatId, about: &'static str) -> Recipe {
    mixed(name, file_type, base, about, &[])
}

const fn low(name: &'static str, file_type: FileType, base: FormatId, about: &'static str, rules: Rules) -> Recipe {
    Recipe { low: true, ..mixed(name, file_type, base, about, rules) }
}

const fn firm(name: &'static str, file_type: FileType, base: FormatId, about: &'static str, rules: Rules) -> Recipe {
    Recipe { firm_output: true, ..mixed(name, file_type, base, about, rules) }
}

const TWO_BIT: [Rule; 4] =
    [(Embedding, Always, Q2K), (AttnV, SharedOrExperts, Q4K), (AttnV, Always, Q2K), (FfnDown, Before(8), Q2K)];
const TWO_AND_A_HALF_BIT: [Rule; 5] = [
    (Embedding, Always, Iq3S),
    (AttnV, SharedOrExperts, Q4K),
    (AttnV, Always, Iq3S),
    (FfnDown, Before(8), Iq3S),
    (AttnOutput, Always, Iq3S),
];
const ONE_BIT: [Rule; 5] = [
    (Embedding, Always, Q2K),
    (AttnV, SharedOrExperts, Q4K),
    (AttnV, Always, Q2K),
    (FfnDown, Before(8), Q2K),
    (AttnOutput, Always, Iq2Xxs),
];
const FOUR_BIT_LEVELS: [Rule; 2] = [(AttnV, Shared, Q5K), (FfnDown, BeforeBlind(8), Q5K)];

/// What Falcon does otherwise with `ffn_down` and `attn_output`, in all but the low recipes.
pub(super) const FALCON: [(&str, &[Rule]); 4] = [
    ("Q3_K_M", &[(FfnDown, Before(16), Q5K), (FfnDown, MoreBits, Q4K)]),
    ("Q3_K_L", &[(FfnDown, Always, Q4K), (AttnOutput, Always, Q4K)]),
    ("Q4_K_S", &[]),
    ("Q4_K_M", &[(FfnDown, Before(16), Q6K), (FfnDown, MoreBits, Q5K)]),
];

/// All recipes, smallest first.
pub const RECIPES: &[Recipe] = &[
    plain("Q1_0", (40, "Q1_0"), Q1_0, "1.13 bits per weight, signs only; for models trained so"),
    low("IQ1_S", (24, "IQ1_S - 1.5625 bpw"), Iq1S, "1.56 bits per weight; wants an importance matrix", &ONE_BIT),
    mixed(
        "TQ1_0",
        (36, "TQ1_0 - 1.69 bpw ternary"),
        Tq1_0,
        "1.69 bits per weight, ternary; for models trained so",
        &[(Embedding, Always, Q4K)],
    ),
    low("IQ1_M", (31, "IQ1_M - 1.75 bpw"), Iq1M, "1.75 bits per weight; wants an importance matrix", &ONE_BIT),
    low("IQ2_XXS", (19, "IQ2_XXS - 2.0625 bpw"), Iq2Xxs, "2.06 bits per weight; wants an importance matrix", &TWO_BIT),
    mixed(
        "TQ2_0",
        (37, "TQ2_0 - 2.06 bpw ternary"),
        Tq2_0,
        "2.06 bits per weight, ternary; for models trained so",
        &[(Embedding, Always, Q4K)],
    ),
    mixed("Q2_0", (41, "Q2_0"), Q2_0, "2.25 bits per weight, four levels", &[(Embedding, Always, Q4K)]),
    low("IQ2_XS", (20, "IQ2_XS - 2.3125 bpw"), Iq2Xs, "2.31 bits per weight; wants an importance matrix", &TWO_BIT),
    low(
        "IQ2_S",
        (28, "IQ2_S - 2.5 bpw"),
        Iq2Xs,
        "2.5 bits per weight; wants an importance matrix",
        &TWO_AND_A_HALF_BIT,
    ),
    low("IQ2_M", (29, "IQ2_M - 2.7 bpw"), Iq2S, "2.7 bits per weight; wants an importance matrix", &TWO_AND_A_HALF_BIT),
    mixed(
        "Q2_K_S",
        (21, "Q2_K - Small"),
        Q2K,
        "2.6 bits per weight",
        &[(AttnV, Shared, Q4K), (FfnDown, Before(8), Q4K)],
    ),
    firm(
        "Q2_K",
        (10, "Q2_K - Medium"),
        Q2K,
        "2.6 bits per weight, some tensors at 3 and 4",
        &[(AttnV, Shared, Q4K), (AttnV, Always, Q3K), (FfnDown, Always, Q3K), (AttnOutput, Always, Q3K)],
    ),
    firm(
        "IQ3_XXS",
        (23, "IQ3_XXS - 3.0625 bpw"),
        Iq3Xxs,
        "3.06 bits per weight",
        &[
            (Embedding, Always, Iq3S),
            (AttnV, Shared, Q4K),
            (AttnV, Blind, Iq3S),
            (AttnV, Always, Iq3Xxs),
            (AttnK, Always, Iq2S),
            (AttnQ, Always, Iq2S),
            (FfnDown, BeforeBlind(8), Q4K),
            (FfnDown, Blind, Q3K),
            (AttnOutput, Always, Iq3S),
        ],
    ),
    firm(
        "IQ3_XS",
        (22, "IQ3_XS - 3.3 bpw"),
        Iq3S,
        "3.3 bits per weight",
        &[
            (AttnV, Shared, Q4K),
            (AttnK, Always, Iq3Xxs),
            (AttnQ, Always, Iq3Xxs),
            (FfnGate, Middle, Iq3Xxs),
            (FfnUp, Middle, Iq3Xxs),
        ],
    ),
    firm("IQ3_S", (26, "IQ3_S - 3.4375 bpw"), Iq3S, "3.44 bits per weight", &[(AttnV, Shared, Q4K)]),
    firm("Q3_K_S", (11, "Q3_K - Small"), Q3K, "3.44 bits per weight", &[]),
    firm(
        "IQ3_M",
        (27, "IQ3_S mix - 3.66 bpw"),
        Iq3S,
        "3.66 bits per weight",
        &[(AttnV, Always, Q4K), (FfnDown, Before(8), Q4K), (FfnDown, MoreBitsExperts, Q4K), (AttnOutput, Always, Q4K)],
    ),
    firm(
        "Q3_K_M",
        (12, "Q3_K - Medium"),
        Q3K,
        "3.9 bits per weight",
        &[
            (AttnV, First(2), Q5K),
            (AttnV, Always, Q4K),
            (FfnDown, Before(16), Q5K),
            (FfnDown, Always, Q4K),
            (AttnOutput, Always, Q4K),
        ],
    ),
    mixed(
        "Q3_K_L",
        (13, "Q3_K - Large"),
        Q3K,
        "4.2 bits per weight",
        &[(AttnV, Always, Q5K), (FfnDown, Always, Q5K), (AttnOutput, Always, Q5K)],
    ),
    plain("MXFP4_MOE", (38, "MXFP4 MoE"), Mxfp4, "4.25 bits per weight for experts, 8.5 for the rest"),
    firm("IQ4_XS", (30, "IQ4_XS - 4.25 bpw"), Iq4Xs, "4.25 bits per weight", &FOUR_BIT_LEVELS),
    mixed("Q4_0", (2, "Q4_0"), Q4_0, "4.5 bits per weight", &[(FfnDown, BeforeSeeing(8), Q4_1)]),
    firm("IQ4_NL", (25, "IQ4_NL - 4.5 bpw"), Iq4Nl, "4.5 bits per weight, uneven levels", &FOUR_BIT_LEVELS),
    plain("NVFP4", (39, "NVFP4"), Nvfp4, "4.5 bits per weight, E2M1 numbers"),
    firm(
        "Q4_K_S",
        (14, "Q4_K - Small"),
        Q4K,
        "4.6 bits per weight",
        &[(AttnV, First(4), Q5K), (FfnDown, Before(8), Q5K)],
    ),
    firm(
        "Q4_K_M",
        (15, "Q4_K - Medium"),
        Q4K,
        "4.8 bits per weight; the usual choice",
        &[(AttnV, MoreBits, Q6K), (FfnDown, MoreBits, Q6K)],
    ),
    plain("Q4_1", (3, "Q4_1"), Q4_1, "5 bits per weight"),
    mixed("Q5_0", (8, "Q5_0"), Q5_0, "5.5 bits per weight", &[(FfnDown, BeforeSeeing(8), Q5_1)]),
    plain("Q5_K_S", (16, "Q5_K - Small"), Q5K, "5.5 bits per weight"),
    mixed(
        "Q5_K_M",
        (17, "Q5_K - Medium"),
        Q5K,
        "5.7 bits per weight",
        &[(AttnV, MoreBits, Q6K), (FfnDown, MoreBits, Q6K)],
    ),
    plain("Q5_1", (9, "Q5_1"), Q5_1, "6 bits per weight"),
    plain("Q6_K", (18, "Q6_K"), Q6K, "6.56 bits per weight"),
    plain("Q8_0", (7, "Q8_0"), Q8_0, "8.5 bits per weight; hardly any loss"),
    plain("F16", (1, "F16"), F16, "16 bits per weight"),
    plain("BF16", (32, "BF16"), Bf16, "16 bits per weight, the range of F32"),
    plain("F32", (0, "all F32"), F32, "32 bits per weight"),
];
