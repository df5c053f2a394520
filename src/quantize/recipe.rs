//! Recipes: which tensor gets which type. The same choices as llama.cpp 0.5.0 makes, as a table.
//!
//! A recipe has a base type and rules for tensors that deserve more (or bear less) than it. Rules are tried in order and
//! the first that holds counts. What all recipes share (heads of 8-expert models, the output matrix) stands below the
//! table in [`Chooser`].

use pumex_quant::FormatId::{self, *};

/// What a tensor does in the model, as far as recipes care.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Output,
    Embedding,
    AttnV,
    AttnK,
    AttnQ,
    AttnOutput,
    FfnUp,
    FfnGate,
    FfnDown,
    Other,
}

/// When a rule holds. Layers count from 0 of `n`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    Always,
    /// At least four query heads share a key head.
    Shared,
    /// Likewise, or at least four experts.
    SharedOrExperts,
    /// One of the first so many `attn_v`.
    First(usize),
    /// Layer below `n / 8` or so.
    Before(usize),
    /// Likewise, and without (or with) an importance matrix.
    BeforeBlind(usize),
    BeforeSeeing(usize),
    /// Without an importance matrix.
    Blind,
    /// First or last eighth, and every third layer between.
    MoreBits,
    /// Likewise, if there are 8 experts.
    MoreBitsExperts,
    /// Neither in the first nor in the last eighth.
    Middle,
}

type Rule = (Role, When, FormatId);

/// A named mixture of types.
#[derive(Debug)]
pub struct Recipe {
    /// As on the command line.
    pub name: &'static str,
    /// `general.file_type`.
    pub file_type: u32,
    /// Type of tensors no rule is about.
    pub base: FormatId,
    /// One line for help.
    pub about: &'static str,
    rules: Rules,
    /// About 2 bits or less: other types for heads, a smaller output.
    low: bool,
    /// `attn_output` of 8-expert models becomes Q5_K.
    firm_output: bool,
}

type Rules = &'static [Rule];

const fn mixed(name: &'static str, file_type: u32, base: FormatId, about: &'static str, rules: Rules) -> Recipe {
    Recipe { name, file_type, base, about, rules, low: false, firm_output: false }
}

const fn plain(name: &'static str, file_type: u32, base: FormatId, about: &'static str) -> Recipe {
    mixed(name, file_type, base, about, &[])
}

const fn low(name: &'static str, file_type: u32, base: FormatId, about: &'static str, rules: Rules) -> Recipe {
    Recipe { low: true, ..mixed(name, file_type, base, about, rules) }
}

const fn firm(name: &'static str, file_type: u32, base: FormatId, about: &'static str, rules: Rules) -> Recipe {
    Recipe { firm_output: true, ..mixed(name, file_type, base, about, rules) }
}

use Role::{AttnK, AttnOutput, AttnQ, AttnV, Embedding, FfnDown, FfnGate, FfnUp};
use When::{
    Always, Before, BeforeBlind, BeforeSeeing, Blind, First, Middle, MoreBits, MoreBitsExperts, Shared, SharedOrExperts,
};

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
const FALCON: [(&str, &[Rule]); 4] = [
    ("Q3_K_M", &[(FfnDown, Before(16), Q5K), (FfnDown, MoreBits, Q4K)]),
    ("Q3_K_L", &[(FfnDown, Always, Q4K), (AttnOutput, Always, Q4K)]),
    ("Q4_K_S", &[]),
    ("Q4_K_M", &[(FfnDown, Before(16), Q6K), (FfnDown, MoreBits, Q5K)]),
];

/// All recipes, smallest first.
pub const RECIPES: &[Recipe] = &[
    plain("Q1_0", 40, Q1_0, "1.13 bits per weight, signs only; for models trained so"),
    low("IQ1_S", 24, Iq1S, "1.56 bits per weight; wants an importance matrix", &ONE_BIT),
    mixed("TQ1_0", 36, Tq1_0, "1.69 bits per weight, ternary; for models trained so", &[(Embedding, Always, Q4K)]),
    low("IQ1_M", 31, Iq1M, "1.75 bits per weight; wants an importance matrix", &ONE_BIT),
    low("IQ2_XXS", 19, Iq2Xxs, "2.06 bits per weight; wants an importance matrix", &TWO_BIT),
    mixed("TQ2_0", 37, Tq2_0, "2.06 bits per weight, ternary; for models trained so", &[(Embedding, Always, Q4K)]),
    mixed("Q2_0", 41, Q2_0, "2.25 bits per weight, four levels", &[(Embedding, Always, Q4K)]),
    low("IQ2_XS", 20, Iq2Xs, "2.31 bits per weight; wants an importance matrix", &TWO_BIT),
    low("IQ2_S", 28, Iq2Xs, "2.5 bits per weight; wants an importance matrix", &TWO_AND_A_HALF_BIT),
    low("IQ2_M", 29, Iq2S, "2.7 bits per weight; wants an importance matrix", &TWO_AND_A_HALF_BIT),
    mixed("Q2_K_S", 21, Q2K, "2.6 bits per weight", &[(AttnV, Shared, Q4K), (FfnDown, Before(8), Q4K)]),
    firm(
        "Q2_K",
        10,
        Q2K,
        "2.6 bits per weight, some tensors at 3 and 4",
        &[(AttnV, Shared, Q4K), (AttnV, Always, Q3K), (FfnDown, Always, Q3K), (AttnOutput, Always, Q3K)],
    ),
    firm(
        "IQ3_XXS",
        23,
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
        22,
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
    firm("IQ3_S", 26, Iq3S, "3.44 bits per weight", &[(AttnV, Shared, Q4K)]),
    firm("Q3_K_S", 11, Q3K, "3.44 bits per weight", &[]),
    firm(
        "IQ3_M",
        27,
        Iq3S,
        "3.66 bits per weight",
        &[(AttnV, Always, Q4K), (FfnDown, Before(8), Q4K), (FfnDown, MoreBitsExperts, Q4K), (AttnOutput, Always, Q4K)],
    ),
    firm(
        "Q3_K_M",
        12,
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
        13,
        Q3K,
        "4.2 bits per weight",
        &[(AttnV, Always, Q5K), (FfnDown, Always, Q5K), (AttnOutput, Always, Q5K)],
    ),
    plain("MXFP4_MOE", 38, Mxfp4, "4.25 bits per weight for experts, 8.5 for the rest"),
    firm("IQ4_XS", 30, Iq4Xs, "4.25 bits per weight", &FOUR_BIT_LEVELS),
    mixed("Q4_0", 2, Q4_0, "4.5 bits per weight", &[(FfnDown, BeforeSeeing(8), Q4_1)]),
    firm("IQ4_NL", 25, Iq4Nl, "4.5 bits per weight, uneven levels", &FOUR_BIT_LEVELS),
    plain("NVFP4", 39, Nvfp4, "4.5 bits per weight, E2M1 numbers"),
    firm("Q4_K_S", 14, Q4K, "4.6 bits per weight", &[(AttnV, First(4), Q5K), (FfnDown, Before(8), Q5K)]),
    firm(
        "Q4_K_M",
        15,
        Q4K,
        "4.8 bits per weight; the usual choice",
        &[(AttnV, MoreBits, Q6K), (FfnDown, MoreBits, Q6K)],
    ),
    plain("Q4_1", 3, Q4_1, "5 bits per weight"),
    mixed("Q5_0", 8, Q5_0, "5.5 bits per weight", &[(FfnDown, BeforeSeeing(8), Q5_1)]),
    plain("Q5_K_S", 16, Q5K, "5.5 bits per weight"),
    mixed("Q5_K_M", 17, Q5K, "5.7 bits per weight", &[(AttnV, MoreBits, Q6K), (FfnDown, MoreBits, Q6K)]),
    plain("Q5_1", 9, Q5_1, "6 bits per weight"),
    plain("Q6_K", 18, Q6K, "6.56 bits per weight"),
    plain("Q8_0", 7, Q8_0, "8.5 bits per weight; hardly any loss"),
    plain("F16", 1, F16, "16 bits per weight"),
    plain("BF16", 32, Bf16, "16 bits per weight, the range of F32"),
    plain("F32", 0, F32, "32 bits per weight"),
];

/// The recipe of that name (upper or lower case; Q3_K, Q4_K and Q5_K mean `_M`) or `general.file_type`.
pub fn find(name: &str) -> Option<&'static Recipe> {
    let name = match name.to_ascii_uppercase().as_str() {
        short @ ("Q3_K" | "Q4_K" | "Q5_K") => format!("{short}_M"),
        other => other.to_string(),
    };
    RECIPES.iter().find(|r| r.name == name || r.file_type.to_string() == name)
}

/// What choices depend on beside the tensor.
#[derive(Clone, Debug, Default)]
pub struct Model<'a> {
    /// `general.architecture`.
    pub arch: &'a str,
    /// Layers.
    pub n_layer: usize,
    /// Query heads.
    pub n_head: usize,
    /// Key heads.
    pub n_head_kv: usize,
    /// Experts; 0 for dense models.
    pub n_expert: usize,
    /// Tensors with the role of `attn_v`.
    pub n_attn_v: usize,
    /// Whether there is an output matrix of its own; else the embedding is it.
    pub has_output: bool,
    /// Whether an importance matrix is used.
    pub has_imatrix: bool,
}

/// A tensor, as far as its type depends on it.
#[derive(Clone, Copy, Debug)]
pub struct Tensor<'a> {
    /// GGUF name.
    pub name: &'a str,
    /// Dimensions, the contiguous one first.
    pub dims: &'a [u64],
}

fn role(name: &str) -> Role {
    const PARTS: [(&str, Role); 9] = [
        ("attn_qkv.weight", AttnV), // a fused tensor is treated as its most sensitive part
        ("attn_kv_b.weight", AttnV),
        ("attn_v.weight", AttnV),
        ("attn_k.weight", AttnK),
        ("attn_q.weight", AttnQ),
        ("attn_output.weight", AttnOutput),
        ("ffn_up", FfnUp),
        ("ffn_gate", FfnGate),
        ("ffn_down", FfnDown),
    ];
    match name {
        "output.weight" => Role::Output,
        "token_embd.weight" | "per_layer_token_embd.weight" => Embedding,
        _ => PARTS.iter().find(|(part, _)| name.contains(part)).map_or(Role::Other, |(_, role)| *role),
    }
}

/// Sort key of the order [`Chooser`] takes tensors in: those of no layer, then layer by layer, each by name.
pub fn place(name: &str) -> (Option<usize>, &str) {
    (name.strip_prefix("blk.").and_then(|rest| rest.split('.').next()?.parse().ok()), name)
}

/// Whether a tensor counts as `attn_v` in [`Model::n_attn_v`].
pub fn is_attn_v(name: &str) -> bool {
    role(name) == AttnV
}

/// Whether a tensor is quantized at all: matrices are, but not norms, routers, positions and other small ones.
pub fn quantizable(t: &Tensor<'_>) -> bool {
    const KEPT: [&str; 35] = [
        "_norm.weight",
        "ffn_gate_inp.weight",
        "ffn_gate_tid2eid.weight",
        "altup",
        "laurel",
        "per_layer_model_proj",
        "ssm_conv1d",
        "shortconv.conv.weight",
        "indexer.k_proj.weight",
        "indexer.q_proj.weight",
        "time_mix_first.weight",
        "time_mix_w0.weight",
        "time_mix_w1.weight",
        "time_mix_w2.weight",
        "time_mix_v0.weight",
        "time_mix_v1.weight",
        "time_mix_v2.weight",
        "time_mix_a0.weight",
        "time_mix_a1.weight",
        "time_mix_a2.weight",
        "time_mix_g1.weight",
        "time_mix_g2.weight",
        "time_mix_decay_w1.weight",
        "time_mix_decay_w2.weight",
        "time_mix_lerp_fused.weight",
        "attn_rel_b.weight",
        ".position_embd",
        ".patch_embd",
        ".patch_merger",
        ".rel_pos",
        "sam.pos_embd",
        "sam.neck.",
        "sam.net_",
        "a.rvq.codebook",
        "mm.a.code_embd",
    ];
    let matrix = t.dims.iter().skip(1).any(|d| *d > 1);
    let position = matches!(t.name, "position_embd.weight" | "token_types.weight");
    matrix && t.name.ends_with("weight") && !position && !KEPT.iter().any(|part| t.name.contains(part))
}

/// A type of smaller blocks, for rows that are no multiple of the wanted type's.
pub fn fallback(wanted: FormatId, row_len: u64, block_len: impl Fn(FormatId) -> u64) -> FormatId {
    let smaller = match wanted {
        Iq1S | Iq1M | Iq2Xxs | Iq2Xs | Iq2S | Iq3Xxs | Iq3S | Iq4Xs => Iq4Nl,
        Q2_0 | Q2K | Q3K | Tq1_0 | Tq2_0 | Q1_0 | Nvfp4 => Q4_0,
        Q4K => Q5_0,
        Q5K => Q5_1,
        Q6K | Q8K => Q8_0,
        other => other,
    };
    if row_len.is_multiple_of(block_len(smaller)) {
        smaller
    } else {
        F16
    }
}

/// Chooses types for a model's tensors, in [`place`]'s order.
#[derive(Debug)]
pub struct Chooser<'a> {
    recipe: &'static Recipe,
    model: Model<'a>,
    attn_v: usize,
    ffn_up: usize,
    ffn_gate: usize,
    ffn_down: usize,
}

impl<'a> Chooser<'a> {
    /// A chooser at the first tensor.
    pub fn new(recipe: &'static Recipe, model: Model<'a>) -> Self {
        Chooser { recipe, model, attn_v: 0, ffn_up: 0, ffn_gate: 0, ffn_down: 0 }
    }

    /// The type of the next tensor in [`place`]'s order.
    pub fn choose(&mut self, t: &Tensor<'_>) -> FormatId {
        let (recipe, role) = (self.recipe, role(t.name));
        if matches!(recipe.base, F32 | F16 | Bf16) {
            return recipe.base;
        }
        let tied = role == Embedding && !self.model.has_output;
        if role == Role::Output || tied {
            return self.output(t);
        }
        if recipe.base == Mxfp4 {
            return if t.dims.get(2).is_some_and(|experts| *experts > 1) { Mxfp4 } else { Q8_0 };
        }
        let layer = self.layer(role, t.name);
        let by_rule = self.rules(role).iter().find(|(r, when, _)| *r == role && self.holds(*when, layer, role));
        let mut chosen = by_rule.map_or(recipe.base, |(_, _, to)| *to);
        let eight = self.model.n_expert == 8;
        match role {
            AttnV if !recipe.low => {
                if self.is_70b() && matches!(chosen, Q3K | Q4K) {
                    chosen = Q5K; // eight heads share it, so it is small
                }
                if eight {
                    chosen = Q8_0;
                }
            }
            AttnK if eight => chosen = if recipe.low { Q4K } else { Q8_0 },
            AttnOutput if eight => chosen = if recipe.low || recipe.firm_output { Q5K } else { recipe.base },
            _ => {}
        }
        match role {
            AttnV => self.attn_v += 1,
            FfnUp => self.ffn_up += 1,
            FfnGate => self.ffn_gate += 1,
            FfnDown => self.ffn_down += 1,
            _ => {}
        }
        chosen
    }

    /// The output matrix, or the embedding where it is both.
    fn output(&self, t: &Tensor<'_>) -> FormatId {
        let row = t.dims.first().copied().unwrap_or(0);
        let base = self.recipe.base;
        let block = crate::quantize::format(base).block_len as u64;
        if base == Mxfp4 || base == Q8_0 || self.is_falcon() || !row.is_multiple_of(block) {
            Q8_0
        } else if self.recipe.low || self.recipe.name == "IQ3_XXS" {
            Q5K
        } else {
            Q6K
        }
    }

    /// The rules for tensors of a role.
    fn rules(&self, role: Role) -> &'static [Rule] {
        let recipe = self.recipe;
        let falcon = self.is_falcon() && !recipe.low;
        let own = FALCON.iter().find(|(name, _)| *name == recipe.name).map(|(_, rules)| *rules);
        match role {
            AttnOutput if falcon => own.unwrap_or_default(),
            FfnDown if falcon => own.unwrap_or(recipe.rules),
            _ => recipe.rules,
        }
    }

    /// The layer a rule looks at: how many of the role came before, or for experts what the name says.
    fn layer(&self, role: Role, name: &str) -> usize {
        let counted = match role {
            AttnV => self.attn_v,
            FfnUp => self.ffn_up,
            FfnGate => self.ffn_gate,
            FfnDown => self.ffn_down,
            _ => 0,
        };
        let (named, _) = place(name);
        let by_name = self.model.n_expert > 1 && !self.recipe.low && matches!(role, FfnUp | FfnGate | FfnDown);
        named.filter(|_| by_name).unwrap_or(counted)
    }

    fn holds(&self, when: When, layer: usize, role: Role) -> bool {
        let m = &self.model;
        let n = if role == AttnV { m.n_attn_v } else { m.n_layer };
        let shared = m.n_head_kv > 0 && m.n_head / m.n_head_kv >= 4;
        let more_bits = || layer < n / 8 || layer >= 7 * n / 8 || (layer - n / 8) % 3 == 2;
        match when {
            Always => true,
            Shared => shared,
            SharedOrExperts => shared || m.n_expert >= 4,
            First(count) => layer < count,
            Before(part) => layer < n / part,
            BeforeBlind(part) => layer < n / part && !m.has_imatrix,
            BeforeSeeing(part) => layer < n / part && m.has_imatrix,
            Blind => !m.has_imatrix,
            MoreBits => more_bits(),
            MoreBitsExperts => m.n_expert == 8 && more_bits(),
            Middle => layer >= n / 8 && layer < 7 * n / 8,
        }
    }

    fn is_falcon(&self) -> bool {
        self.model.arch == "falcon"
    }

    /// Models of about 70 billion weights, known by their layers; a llama that shares no key heads is the older 65B.
    fn is_70b(&self) -> bool {
        let m = &self.model;
        match m.arch {
            "llama" | "llama-embed" => m.n_layer == 80 && m.n_head != m.n_head_kv,
            "qwen2" | "olmo" | "deci" => m.n_layer == 80,
            "jais2" => m.n_layer == 68,
            _ => false,
        }
    }
}
