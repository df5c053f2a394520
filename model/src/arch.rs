//! The architectures, one line each.

pub mod afmoe;
pub mod apertus;
pub mod arcee;
pub mod arctic;
pub mod arwkv7;
pub mod baichuan;
pub mod bailingmoe;
pub mod bailingmoe2;
pub mod bailingmoe3;
pub mod bert;
pub mod bloom;
pub mod chameleon;
pub mod cogvlm;
pub mod cohere2;
pub mod cohere2moe;
pub mod command_r;
pub mod dbrx;
pub mod deepseek;
pub mod deepseek2;
pub mod deepseek2_ocr;
pub mod deepseek32;
pub mod deepseek4;
pub mod dots1;
pub mod dots3note;
pub mod dream;
pub mod ernie4_5;
pub mod eurobert;
pub mod exaone4;
pub mod exaone_moe;
pub mod falcon;
pub mod falcon_h1;
pub mod gemma;
pub mod gemma2;
pub mod gemma3;
pub mod gemma3n;
pub mod gemma4;
pub mod gemma_embedding;
pub mod gemma_embedding2;
pub mod glm4;
pub mod glm4moe;
pub mod glm5_next;
pub mod glm_dsa;
pub mod gpt_oss;
pub mod gptj;
pub mod gptneox;
pub mod granite;
pub mod granite_swa;
pub mod granite_switch;
pub mod granitehybrid;
pub mod grok;
pub mod grovemoe;
pub mod hrm_text;
pub mod hunyuan_dense;
pub mod hy_v3;
pub mod hy_v4;
pub mod jais;
pub mod jais2;
pub mod jamba;
pub mod jina_bert_v2;
pub mod jina_bert_v3;
pub mod k2_horizon;
pub mod kimi_k3;
pub mod kimi_linear;
pub mod laguna;
pub mod lfm2;
pub mod llada;
pub mod llada_moe;
pub mod llama4;
pub mod llama_embed;
pub mod maincoder;
pub mod mamba;
pub mod mamba2;
pub mod maple;
pub mod mellum;
pub mod mimo2;
pub mod minicpm;
pub mod minicpm3;
pub mod minimax_01;
pub mod minimax_m2;
pub mod minimax_m3;
pub mod mistral3;
pub mod modern_bert;
pub mod mpt;
pub mod muse_glimmer;
pub mod nanbeige;
pub mod nemotron;
pub mod nemotron_h;
pub mod neo_bert;
pub mod nomic_bert_moe;
pub mod olmo;
pub mod olmo2;
pub mod olmoe;
pub mod paddleocr;
pub mod phi2;
pub mod plain;
pub mod plamo;
pub mod plamo2;
pub mod plamo3;
pub mod plm;
pub mod qwen;
pub mod qwen2moe;
pub mod qwen2vl;
pub mod qwen35;
pub mod qwen3next;
pub mod qwen3vl;
pub mod qwen4exp;
pub mod refact;
pub mod rnd1;
pub mod rwkv6;
pub mod rwkv6qwen2;
pub mod rwkv7;
pub mod seed_oss;
pub mod smallthinker;
pub mod smollm3;
pub mod spark2_5;
pub mod stablelm;
pub mod starcoder;
pub mod starcoder2;
pub mod step35;
pub mod t5;
pub mod talkie;

use pumex_gguf::{Gguf, Result};
use pumex_plan::Plan;

/// A family of models.
pub struct Arch {
    /// Value of `general.architecture`.
    pub name: &'static str,
    /// File → plan.
    pub plan: fn(&Gguf) -> Result<Plan>,
}

/// Every architecture Pumex runs.
pub const ARCHS: &[Arch] = &[
    Arch { name: "afmoe", plan: afmoe::plan },
    Arch { name: "apertus", plan: apertus::plan },
    Arch { name: "arcee", plan: arcee::plan },
    Arch { name: "arctic", plan: arctic::plan },
    Arch { name: "arwkv7", plan: arwkv7::plan },
    Arch { name: "baichuan", plan: baichuan::plan },
    Arch { name: "bailingmoe", plan: bailingmoe::plan },
    Arch { name: "bailingmoe2", plan: bailingmoe2::plan },
    Arch { name: "bailingmoe3", plan: bailingmoe3::plan },
    Arch { name: "bert", plan: bert::plan },
    Arch { name: "bitnet", plan: plain::neox },
    Arch { name: "bloom", plan: bloom::plan },
    Arch { name: "chameleon", plan: chameleon::plan },
    Arch { name: "chatglm", plan: plain::llama },
    Arch { name: "codeshell", plan: starcoder2::plan },
    Arch { name: "cogvlm", plan: cogvlm::plan },
    Arch { name: "cohere2", plan: cohere2::plan },
    Arch { name: "cohere2moe", plan: cohere2moe::plan },
    Arch { name: "command-r", plan: command_r::plan },
    Arch { name: "dbrx", plan: dbrx::plan },
    Arch { name: "deci", plan: plain::llama },
    Arch { name: "deepseek", plan: deepseek::plan },
    Arch { name: "deepseek2", plan: deepseek2::plan },
    Arch { name: "deepseek2-ocr", plan: deepseek2_ocr::plan },
    Arch { name: "deepseek32", plan: deepseek32::plan },
    Arch { name: "deepseek4", plan: deepseek4::plan },
    Arch { name: "dots1", plan: dots1::plan },
    Arch { name: "dots3note", plan: dots3note::plan },
    Arch { name: "dream", plan: dream::plan },
    Arch { name: "ernie4_5", plan: ernie4_5::plan },
    Arch { name: "ernie4_5-moe", plan: ernie4_5::plan },
    Arch { name: "eurobert", plan: eurobert::plan },
    Arch { name: "exaone", plan: plain::neox },
    Arch { name: "exaone-moe", plan: exaone_moe::plan },
    Arch { name: "exaone4", plan: exaone4::plan },
    Arch { name: "falcon", plan: falcon::plan },
    Arch { name: "falcon-h1", plan: falcon_h1::plan },
    Arch { name: "gemma", plan: gemma::plan },
    Arch { name: "gemma-embedding", plan: gemma_embedding::plan },
    Arch { name: "gemma-embedding2", plan: gemma_embedding2::plan },
    Arch { name: "gemma2", plan: gemma2::plan },
    Arch { name: "gemma3", plan: gemma3::plan },
    Arch { name: "gemma3n", plan: gemma3n::plan },
    Arch { name: "gemma4", plan: gemma4::plan },
    Arch { name: "glm-dsa", plan: glm_dsa::plan },
    Arch { name: "glm4", plan: glm4::plan },
    Arch { name: "glm4moe", plan: glm4moe::plan },
    Arch { name: "glm5-next", plan: glm5_next::plan },
    Arch { name: "gpt-oss", plan: gpt_oss::plan },
    Arch { name: "gpt2", plan: starcoder::plan },
    Arch { name: "gptj", plan: gptj::plan },
    Arch { name: "gptneox", plan: gptneox::plan },
    Arch { name: "granite", plan: granite::plan },
    Arch { name: "granite_swa", plan: granite_swa::plan },
    Arch { name: "granitehybrid", plan: granitehybrid::plan },
    Arch { name: "granitemoe", plan: granite::with_experts },
    Arch { name: "graniteswitch", plan: granite_switch::plan },
    Arch { name: "grok", plan: grok::plan },
    Arch { name: "grovemoe", plan: grovemoe::plan },
    Arch { name: "hrm_text", plan: hrm_text::plan },
    Arch { name: "hunyuan-dense", plan: hunyuan_dense::plan },
    Arch { name: "hunyuan-moe", plan: hunyuan_dense::plan },
    Arch { name: "hunyuan_vl", plan: hunyuan_dense::plan },
    Arch { name: "hy_v3", plan: hy_v3::plan },
    Arch { name: "hy_v4", plan: hy_v4::plan },
    Arch { name: "internlm2", plan: plain::llama },
    Arch { name: "jais", plan: jais::plan },
    Arch { name: "jais2", plan: jais2::plan },
    Arch { name: "jamba", plan: jamba::plan },
    Arch { name: "jina-bert-v2", plan: jina_bert_v2::plan },
    Arch { name: "jina-bert-v3", plan: jina_bert_v3::plan },
    Arch { name: "k2-horizon", plan: k2_horizon::plan },
    Arch { name: "kimi-k3", plan: kimi_k3::plan },
    Arch { name: "kimi-linear", plan: kimi_linear::plan },
    Arch { name: "laguna", plan: laguna::plan },
    Arch { name: "lfm2", plan: lfm2::plan },
    Arch { name: "lfm2moe", plan: lfm2::plan },
    Arch { name: "llada", plan: llada::plan },
    Arch { name: "llada-moe", plan: llada_moe::plan },
    Arch { name: "llama", plan: plain::llama },
    Arch { name: "llama-embed", plan: llama_embed::plan },
    Arch { name: "llama4", plan: llama4::plan },
    Arch { name: "maincoder", plan: maincoder::plan },
    Arch { name: "mamba", plan: mamba::plan },
    Arch { name: "mamba2", plan: mamba2::plan },
    Arch { name: "maple", plan: maple::plan },
    Arch { name: "mellum", plan: mellum::plan },
    Arch { name: "mimo2", plan: mimo2::plan },
    Arch { name: "minicpm", plan: minicpm::plan },
    Arch { name: "minicpm3", plan: minicpm3::plan },
    Arch { name: "minimax-01", plan: minimax_01::plan },
    Arch { name: "minimax-m2", plan: minimax_m2::plan },
    Arch { name: "minimax-m3", plan: minimax_m3::plan },
    Arch { name: "mistral3", plan: mistral3::plan },
    Arch { name: "mistral4", plan: deepseek2::plan },
    Arch { name: "modern-bert", plan: modern_bert::plan },
    Arch { name: "mpt", plan: mpt::plan },
    Arch { name: "muse-glimmer", plan: muse_glimmer::plan },
    Arch { name: "nanbeige", plan: nanbeige::plan },
    Arch { name: "nemotron", plan: nemotron::plan },
    Arch { name: "nemotron_h", plan: nemotron_h::plan },
    Arch { name: "nemotron_h_moe", plan: nemotron_h::plan },
    Arch { name: "neo-bert", plan: neo_bert::plan },
    Arch { name: "nomic-bert", plan: bert::rotate },
    Arch { name: "nomic-bert-moe", plan: nomic_bert_moe::plan },
    Arch { name: "olmo", plan: olmo::plan },
    Arch { name: "olmo2", plan: olmo2::plan },
    Arch { name: "olmoe", plan: olmoe::plan },
    Arch { name: "openelm", plan: plain::neox },
    Arch { name: "orion", plan: plain::layer_norm },
    Arch { name: "paddleocr", plan: paddleocr::plan },
    Arch { name: "pangu-embedded", plan: plain::neox },
    Arch { name: "phi2", plan: phi2::plan },
    Arch { name: "phi3", plan: plain::neox },
    Arch { name: "phimoe", plan: plain::neox },
    Arch { name: "plamo", plan: plamo::plan },
    Arch { name: "plamo2", plan: plamo2::plan },
    Arch { name: "plamo3", plan: plamo3::plan },
    Arch { name: "plm", plan: plm::plan },
    Arch { name: "qwen", plan: qwen::plan },
    Arch { name: "qwen2", plan: plain::neox },
    Arch { name: "qwen2moe", plan: qwen2moe::plan },
    Arch { name: "qwen2vl", plan: qwen2vl::plan },
    Arch { name: "qwen3", plan: plain::neox },
    Arch { name: "qwen35", plan: qwen35::plan },
    Arch { name: "qwen35moe", plan: qwen35::plan },
    Arch { name: "qwen3moe", plan: plain::neox },
    Arch { name: "qwen3next", plan: qwen3next::plan },
    Arch { name: "qwen3tts", plan: qwen3vl::plan },
    Arch { name: "qwen3vl", plan: qwen3vl::plan },
    Arch { name: "qwen3vlmoe", plan: qwen3vl::plan },
    Arch { name: "qwen4exp", plan: qwen4exp::plan },
    Arch { name: "refact", plan: refact::plan },
    Arch { name: "rnd1", plan: rnd1::plan },
    Arch { name: "rwkv6", plan: rwkv6::plan },
    Arch { name: "rwkv6qwen2", plan: rwkv6qwen2::plan },
    Arch { name: "rwkv7", plan: rwkv7::plan },
    Arch { name: "seed_oss", plan: seed_oss::plan },
    Arch { name: "smallthinker", plan: smallthinker::plan },
    Arch { name: "smollm3", plan: smollm3::plan },
    Arch { name: "spark2_5", plan: spark2_5::plan },
    Arch { name: "stablelm", plan: stablelm::plan },
    Arch { name: "starcoder", plan: starcoder::plan },
    Arch { name: "starcoder2", plan: starcoder2::plan },
    Arch { name: "step35", plan: step35::plan },
    Arch { name: "t5", plan: t5::plan },
    Arch { name: "t5encoder", plan: t5::encoder },
    Arch { name: "talkie", plan: talkie::plan },
    Arch { name: "xverse", plan: plain::llama },
];

/// The architecture of that name.
pub fn find(name: &str) -> Option<&'static Arch> {
    ARCHS.iter().find(|a| a.name == name)
}
