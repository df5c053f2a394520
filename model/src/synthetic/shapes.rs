//! Every shape there is.

use super::layers;
use super::shape::Key::{Each, F, U};
use super::Shape;

const LLAMA_8B: Shape = Shape {
    name: "llama-8b",
    arch: "llama",
    label: Some("8B"),
    n_embd: 4096,
    n_layer: 32,
    n_ff: 14336,
    n_head: 32,
    n_head_kv: 8,
    head_dim: 128,
    n_vocab: 128_256,
    rope_base: 5e5,
    experts: None,
    tied: false,
    keys: &[],
    layer: layers::transformer,
};
const QWEN3_8B: Shape =
    Shape { name: "qwen3-8b", arch: "qwen3", n_layer: 36, n_ff: 12288, n_vocab: 151_936, rope_base: 1e6, ..LLAMA_8B };
const TINY: Shape = Shape {
    name: "tiny",
    label: None,
    n_embd: 256,
    n_layer: 4,
    n_ff: 768,
    n_head: 4,
    n_head_kv: 2,
    head_dim: 64,
    ..LLAMA_8B
};

/// A model of one layer with every kernel of the usual transformer in it, for devices to show that they compute.
pub const PROBE: Shape = Shape { name: "probe", n_layer: 1, n_vocab: 512, ..TINY };

/// Likewise with experts.
pub const PROBE_EXPERTS: Shape =
    Shape { name: "probe-experts", arch: "qwen3moe", n_ff: 256, experts: Some((8, 2, 256)), ..PROBE };

/// Every shape there is, from the models' published configurations.
pub const SHAPES: &[Shape] = &[
    Shape { name: "llama-1b", label: Some("1B"), n_embd: 2048, n_layer: 16, n_ff: 8192, head_dim: 64, ..LLAMA_8B },
    LLAMA_8B,
    Shape { name: "llama-70b", label: Some("70B"), n_embd: 8192, n_layer: 80, n_ff: 28672, n_head: 64, ..LLAMA_8B },
    Shape { name: "qwen3-0.6b", label: Some("0.6B"), n_embd: 1024, n_layer: 28, n_ff: 3072, n_head: 16, ..QWEN3_8B },
    QWEN3_8B,
    Shape {
        name: "qwen3-30b-a3b",
        arch: "qwen3moe",
        label: Some("30B.A3B"),
        n_embd: 2048,
        n_layer: 48,
        n_ff: 6144,
        n_head_kv: 4,
        experts: Some((128, 8, 768)),
        ..QWEN3_8B
    },
    Shape {
        name: "mistral-small-24b",
        label: Some("24B"),
        n_embd: 5120,
        n_layer: 40,
        n_ff: 32768,
        n_vocab: 131_072,
        rope_base: 1e8,
        ..LLAMA_8B
    },
    Shape {
        name: "gemma3-12b",
        arch: "gemma3",
        label: Some("12B"),
        n_embd: 3840,
        n_layer: 48,
        n_ff: 15360,
        n_head: 16,
        head_dim: 256,
        n_vocab: 262_208,
        rope_base: 1e6,
        tied: true,
        keys: &[("attention.sliding_window", U(1024))],
        layer: layers::gemma3,
        ..LLAMA_8B
    },
    Shape {
        name: "phi-4",
        arch: "phi3",
        label: Some("15B"),
        n_embd: 5120,
        n_layer: 40,
        n_ff: 17920,
        n_head: 40,
        n_head_kv: 10,
        n_vocab: 100_352,
        rope_base: 250_000.0,
        layer: layers::phi3,
        ..LLAMA_8B
    },
    Shape {
        name: "gpt-oss-20b",
        arch: "gpt-oss",
        label: Some("20B"),
        n_embd: 2880,
        n_layer: 24,
        n_ff: 2880,
        n_head: 64,
        head_dim: 64,
        n_vocab: 201_088,
        rope_base: 150_000.0,
        experts: Some((32, 4, 2880)),
        keys: &[("attention.sliding_window", U(128))],
        layer: layers::gpt_oss,
        ..LLAMA_8B
    },
    Shape {
        name: "qwen3next-80b-a3b",
        arch: "qwen3next",
        label: Some("80B.A3B"),
        n_embd: 2048,
        n_layer: 48,
        n_ff: 5120,
        n_head: 16,
        n_head_kv: 2,
        head_dim: 256,
        n_vocab: 151_936,
        rope_base: 1e7,
        experts: Some((512, 10, 512)),
        keys: &[
            ("rope.dimension_count", U(64)),
            ("expert_shared_feed_forward_length", U(512)),
            ("ssm.conv_kernel", U(4)),
            ("ssm.inner_size", U(4096)),
            ("ssm.state_size", U(128)),
            ("ssm.time_step_rank", U(32)),
            ("ssm.group_count", U(16)),
        ],
        layer: layers::qwen3next,
        ..LLAMA_8B
    },
    Shape {
        name: "deepseek-v2-lite",
        arch: "deepseek2",
        label: Some("16B"),
        n_embd: 2048,
        n_layer: 27,
        n_ff: 10944,
        n_head: 16,
        n_head_kv: 1,
        n_vocab: 102_400,
        rope_base: 10_000.0,
        experts: Some((64, 6, 1408)),
        keys: &[
            ("leading_dense_block_count", U(1)),
            ("expert_shared_count", U(2)),
            ("rope.dimension_count", U(64)),
            ("attention.kv_lora_rank", U(512)),
            ("attention.key_length", U(576)),
            ("attention.value_length", U(512)),
            ("attention.key_length_mla", U(192)),
            ("attention.value_length_mla", U(128)),
        ],
        layer: layers::deepseek2_lite,
        ..LLAMA_8B
    },
    Shape {
        name: "granite-4-h-small",
        arch: "granitehybrid",
        label: Some("32B.A9B"),
        n_layer: 40,
        n_ff: 768,
        n_vocab: 100_352,
        rope_base: 10_000.0,
        experts: Some((72, 10, 768)),
        tied: true,
        keys: &[
            ("attention.head_count_kv", Each(0, 10, 5, 8)),
            ("expert_shared_feed_forward_length", U(1536)),
            ("embedding_scale", F(12.0)),
            ("residual_scale", F(0.22)),
            ("attention.scale", F(0.007_812_5)),
            ("logit_scale", F(16.0)),
            ("ssm.conv_kernel", U(4)),
            ("ssm.inner_size", U(8192)),
            ("ssm.state_size", U(128)),
            ("ssm.time_step_rank", U(128)),
            ("ssm.group_count", U(1)),
        ],
        layer: layers::granitehybrid,
        ..LLAMA_8B
    },
    Shape {
        name: "falcon-h1-7b",
        arch: "falcon-h1",
        label: Some("7B"),
        n_embd: 3072,
        n_layer: 44,
        n_ff: 12288,
        n_head: 12,
        n_head_kv: 2,
        n_vocab: 130_049,
        rope_base: 1e11,
        keys: &[
            ("ssm.conv_kernel", U(4)),
            ("ssm.inner_size", U(3072)),
            ("ssm.state_size", U(256)),
            ("ssm.time_step_rank", U(24)),
            ("ssm.group_count", U(1)),
        ],
        layer: layers::falcon_h1,
        ..LLAMA_8B
    },
    TINY,
    Shape { name: "tiny-moe", arch: "qwen3moe", rope_base: 1e6, experts: Some((16, 4, 256)), ..TINY },
];

/// The shape of that name.
pub fn find(name: &str) -> Option<&'static Shape> {
    SHAPES.iter().find(|s| s.name.eq_ignore_ascii_case(name))
}
