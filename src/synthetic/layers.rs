//! The tensors of a layer, by family.

use super::Shape;

/// Names and dimensions, columns first.
#[derive(Debug, Default)]
pub struct Tensors {
    /// What was added.
    pub(super) found: Vec<(String, Vec<u32>)>,
    prefix: String,
}

impl Tensors {
    /// What follows is layer `i`'s.
    pub(super) fn layer(&mut self, i: u32) {
        self.prefix = format!("blk.{i}.");
    }

    /// What follows is the model's.
    pub(super) fn whole(&mut self) {
        self.prefix.clear();
    }

    /// A tensor, by its whole name within the layer.
    pub(super) fn add(&mut self, name: &str, dims: &[u32]) {
        self.found.push((format!("{}{name}", self.prefix), dims.to_vec()));
    }

    /// `NAME.weight`
    fn weight(&mut self, name: &str, dims: &[u32]) {
        self.add(&format!("{name}.weight"), dims);
    }

    /// `NAME.weight [rows, cols]` and its bias.
    fn with_bias(&mut self, name: &str, cols: u32, rows: u32) {
        self.weight(name, &[cols, rows]);
        self.add(&format!("{name}.bias"), &[rows]);
    }

    fn dense(&mut self, dim: u32, ff: u32, suffix: &str) {
        self.weight(&format!("ffn_gate{suffix}"), &[dim, ff]);
        self.weight(&format!("ffn_up{suffix}"), &[dim, ff]);
        self.weight(&format!("ffn_down{suffix}"), &[ff, dim]);
    }

    fn experts(&mut self, dim: u32, (count, _, ff): (u32, u32, u32)) {
        self.weight("ffn_gate_inp", &[dim, count]);
        self.weight("ffn_gate_exps", &[dim, ff, count]);
        self.weight("ffn_up_exps", &[dim, ff, count]);
        self.weight("ffn_down_exps", &[ff, dim, count]);
    }

    fn attention(&mut self, s: &Shape, gates: u32) {
        let (dim, heads, kv) = (s.n_embd, s.n_head * s.head_dim, s.n_head_kv * s.head_dim);
        self.weight("attn_q", &[dim, gates * heads]);
        self.weight("attn_k", &[dim, kv]);
        self.weight("attn_v", &[dim, kv]);
        self.weight("attn_output", &[heads, dim]);
    }

    fn head_norms(&mut self, s: &Shape) {
        self.weight("attn_q_norm", &[s.head_dim]);
        self.weight("attn_k_norm", &[s.head_dim]);
    }

    fn mamba2(&mut self, s: &Shape) {
        let [inner, state, heads, groups, conv] =
            ["inner_size", "state_size", "time_step_rank", "group_count", "conv_kernel"]
                .map(|key| s.key(&format!("ssm.{key}")));
        let channels = inner + 2 * groups * state;
        self.weight("ssm_in", &[s.n_embd, inner + channels + heads]);
        self.weight("ssm_conv1d", &[conv, channels]);
        self.add("ssm_conv1d.bias", &[channels]);
        self.add("ssm_dt.bias", &[heads]);
        self.add("ssm_a", &[1, heads]);
        self.add("ssm_d", &[1, heads]);
        self.weight("ssm_norm", &[inner / groups, groups]);
        self.weight("ssm_out", &[inner, s.n_embd]);
    }
}

/// Llama, Mistral and Qwen 3, with experts if the shape has them.
pub fn transformer(s: &Shape, _: u32, t: &mut Tensors) {
    t.weight("attn_norm", &[s.n_embd]);
    t.attention(s, 1);
    if s.arch.starts_with("qwen3") {
        t.head_norms(s);
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
    t.attention(s, 1);
    t.head_norms(s);
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
        t.attention(s, 2);
        t.head_norms(s);
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
        5 => t.attention(s, 1),
        _ => t.mamba2(s),
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
    t.attention(s, 1);
    t.mamba2(s);
    t.weight("ffn_norm", &[s.n_embd]);
    t.dense(s.n_embd, s.n_ff, "");
}
