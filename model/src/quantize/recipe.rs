//! Recipes: which tensor gets which type. The same choices as llama.cpp 0.5.0 makes, as a table.
//!
//! A recipe has a base type and rules for tensors that deserve more (or bear less) than it. Rules are tried in order and
//! the first that holds counts. What all recipes share (heads of 8-expert models, the output matrix) stands below the
//! table in [`Chooser`].

mod table;

pub use table::RECIPES;

use pumex_quant::FormatId::{self, *};
use table::FALCON;
use Role::{AttnK, AttnOutput, AttnQ, AttnV, Embedding, FfnDown, FfnGate, FfnUp};
use When::{
    Always, Before, BeforeBlind, BeforeSeeing, Blind, First, Middle, MoreBits, MoreBitsExperts, Shared, SharedOrExperts,
};

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
    /// What llama.cpp calls files of that type.
    pub label: &'static str,
    /// Type of tensors no rule is about.
    pub base: FormatId,
    /// One line for help.
    pub about: &'static str,
    /// What tensors get that deserve more or bear less than the base.
    rules: Rules,
    /// About 2 bits or less: other types for heads, a smaller output.
    low: bool,
    /// `attn_output` of 8-expert models becomes Q5_K.
    firm_output: bool,
}

type Rules = &'static [Rule];

/// The recipe of files with that `general.file_type`.
pub fn of_file_type(file_type: u32) -> Option<&'static Recipe> {
    RECIPES.iter().find(|r| r.file_type == file_type)
}

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
        let block = base.format().block_len as u64;
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
