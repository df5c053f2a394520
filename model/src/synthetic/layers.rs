//! The tensors of a layer, by family.

use super::tensors::Tensors;
use super::Shape;

/// Llama, Mistral and Qwen 3, with experts if the shape has them.
pub fn transformer(s: &Shape, _: u32, t: &mut Tensors) {
    t.weight("attn_norm", &[s.n_embd]);
    attention(t, s, 1);
    if s.arch.starts_with("qwen3") {
        head_norms(t, s);
    }
    t.weight("ffn_norm", &[s.n_embd]);
    match s.experts {
        None => t.dense(s.n_embd, s.n_ff, ""),
        Some(experts) => t.experts(s.n_embd, experts),
    }
}

/// Gemma 3.
pub fn gemma3(s: &Shape, _: u32, t: &mut Tensors) {
    t.weight("attn_norm", &[s.n_embd]);
    attention(t, s, 1);
    head_norms(t, s);
    t.weight("post_attention_norm", &[s.n_embd]);
    t.weight("ffn_norm", &[s.n_embd]);
    t.dense(s.n_embd, s.n_ff, "");
    t.weight("post_ffw_norm", &[s.n_embd]);
}

/// Phi 3 and 4.
pub fn phi3(s: &Shape, _: u32, t: &mut Tensors) {
    let (dim, heads, kv) = (s.n_embd, s.n_head * s.head_dim, s.n_head_kv * s.head_dim);
    t.weight("attn_norm", &[dim]);
    t.weight("attn_qkv", &[dim, heads + 2 * kv]);
    t.weight("attn_output", &[heads, dim]);
    t.weight("ffn_norm", &[dim]);
    t.weight("ffn_up", &[dim, 2 * s.n_ff]);
    t.weight("ffn_down", &[s.n_ff, dim]);
}

/// gpt-oss.
pub fn gpt_oss(s: &Shape, _: u32, t: &mut Tensors) {
    let (dim, heads, kv) = (s.n_embd, s.n_head * s.head_dim, s.n_head_kv * s.head_dim);
    t.weight("attn_norm", &[dim]);
    t.with_bias("attn_q", dim, heads);
    t.with_bias("attn_k", dim, kv);
    t.with_bias("attn_v", dim, kv);
    t.with_bias("attn_output", heads, dim);
    t.weight("attn_sinks", &[s.n_head]);
    t.weight("post_attention_norm", &[dim]);
    let Some((count, used, ff)) = s.experts else { return };
    t.experts(dim, (count, used, ff));
    t.add("ffn_gate_inp.bias", &[count]);
    t.add("ffn_gate_exps.bias", &[ff, count]);
    t.add("ffn_up_exps.bias", &[ff, count]);
    t.add("ffn_down_exps.bias", &[dim, count]);
}

/// Qwen3-Next: attention with gates in each fourth layer, gated delta nets in the others.
pub fn qwen3next(s: &Shape, i: u32, t: &mut Tensors) {
    let dim = s.n_embd;
    t.weight("attn_norm", &[dim]);
    if (i + 1).is_multiple_of(4) {
        attention(t, s, 2);
        head_norms(t, s);
    } else {
        let [inner, state, heads, groups, conv] =
            ["inner_size", "state_size", "time_step_rank", "group_count", "conv_kernel"]
                .map(|key| s.key(&format!("ssm.{key}")));
        let channels = inner + 2 * groups * state;
        t.weight("attn_qkv", &[dim, channels]);
        t.weight("attn_gate", &[dim, inner]);
        t.weight("ssm_ba", &[dim, 2 * heads]);
        t.weight("ssm_conv1d", &[conv, channels]);
        t.add("ssm_dt.bias", &[heads]);
        t.add("ssm_a", &[heads]);
        t.weight("ssm_norm", &[inner / heads]);
        t.weight("ssm_out", &[inner, dim]);
    }
    t.weight("post_attention_norm", &[dim]);
    if let Some(experts) = s.experts {
        t.experts(dim, experts);
    }
    t.dense(dim, s.key("expert_shared_feed_forward_length"), "_shexp");
    t.weight("ffn_gate_inp_shexp", &[dim]);
}

/// DeepSeek 2 Lite: latent attention without compressed queries, a dense first layer.
pub fn deepseek2_lite(s: &Shape, i: u32, t: &mut Tensors) {
    let [rank, rope, k_dim, v_dim, shared] = [
        "attention.kv_lora_rank",
        "rope.dimension_count",
        "attention.key_length_mla",
        "attention.value_length_mla",
        "expert_shared_count",
    ]
    .map(|key| s.key(key));
    let (dim, heads) = (s.n_embd, s.n_head);
    t.weight("attn_norm", &[dim]);
    t.weight("attn_q", &[dim, heads * k_dim]);
    t.weight("attn_kv_a_mqa", &[dim, rank + rope]);
    t.weight("attn_kv_a_norm", &[rank]);
    t.weight("attn_k_b", &[k_dim - rope, rank, heads]);
    t.weight("attn_v_b", &[rank, v_dim, heads]);
    t.weight("attn_output", &[heads * v_dim, dim]);
    t.weight("ffn_norm", &[dim]);
    match s.experts {
        Some((count, used, ff)) if i > 0 => {
            t.experts(dim, (count, used, ff));
            t.dense(dim, shared * ff, "_shexp");
        }
        _ => t.dense(dim, s.n_ff, ""),
    }
}

/// Granite 4: attention in each tenth layer, Mamba 2 in the others.
pub fn granitehybrid(s: &Shape, i: u32, t: &mut Tensors) {
    let dim = s.n_embd;
    t.weight("attn_norm", &[dim]);
    match i % 10 {
        5 => attention(t, s, 1),
        _ => mamba2(t, s),
    }
    t.weight("ffn_norm", &[dim]);
    if let Some(experts) = s.experts {
        t.experts(dim, experts);
    }
    t.dense(dim, s.key("expert_shared_feed_forward_length"), "_shexp");
}

/// Falcon H1: attention and Mamba 2 beside each other in every layer.
pub fn falcon_h1(s: &Shape, _: u32, t: &mut Tensors) {
    t.weight("attn_norm", &[s.n_embd]);
    attention(t, s, 1);
    mamba2(t, s);
    t.add("ffn_norm", &[s.n_embd]);
    t.dense(s.n_embd, s.n_ff, "");
}

fn attention(t: &mut Tensors, s: &Shape, gates: u32) {
    let (dim, heads, kv) = (s.n_embd, s.n_head * s.head_dim, s.n_head_kv * s.head_dim);
    t.weight("attn_q", &[dim, gates * heads]);
    t.weight("attn_k", &[dim, kv]);
    t.weight("attn_v", &[dim, kv]);
    t.weight("attn_output", &[heads, dim]);
}

fn head_norms(t: &mut Tensors, s: &Shape) {
    t.weight("attn_q_norm", &[s.head_dim]);
    t.weight("attn_k_norm", &[s.head_dim]);
}

fn mamba2(t: &mut Tensors, s: &Shape) {
    let [inner, state, heads, groups, conv] =
        ["inner_size", "state_size", "time_step_rank", "group_count", "conv_kernel"]
            .map(|key| s.key(&format!("ssm.{key}")));
    let channels = inner + 2 * groups * state;
    t.weight("ssm_in", &[s.n_embd, inner + channels + heads]);
    t.weight("ssm_conv1d", &[conv, channels]);
    t.add("ssm_conv1d.bias", &[channels]);
    t.add("ssm_dt.bias", &[heads]);
    t.add("ssm_a", &[1, heads]);
    t.add("ssm_d", &[1, heads]);
    t.weight("ssm_norm", &[inner / groups, groups]);
    t.weight("ssm_out", &[inner, s.n_embd]);
}
