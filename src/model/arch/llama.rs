//! Llama 1 to 3.x and models of its shape: RMS norm, GQA with neighbour RoPE, SwiGLU; optional biases, optional
//! frequency factors (`rope_freqs.weight`), output tied to the embedding if `output.weight` is missing.

use crate::gguf::Gguf;
use crate::model::blocks::{
    attention, declare_attention, declare_experts, declare_gated, expert_ffn, gated_ffn, Experts, Gated,
};
use crate::model::config::Config;
use crate::model::weights::Weights;
use crate::plan::{Builder, KvSpec, LayerState, MatPart, Plan, RopeStyle};
use crate::Result;

enum Ffn {
    Dense(Gated),
    Experts(Experts),
}

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    decoder(gguf, RopeStyle::Norm, false, false)
}

/// The pre-norm transformer that llama and qwen3 share, with or without per-head q/k norms, dense or of experts.
pub(super) fn decoder(gguf: &Gguf, style: RopeStyle, qk_norm: bool, moe: bool) -> Result<Plan> {
    let c = Config::from_gguf(gguf)?;
    c.expect_experts(gguf, moe)?;
    let mut w = Weights::new(gguf);
    let n_vocab = w.vocab_rows();
    let token_embd = w.matrix("token_embd.weight", n_vocab, c.n_embd);
    let output = w.opt_matrix("output.weight", n_vocab, c.n_embd).unwrap_or(token_embd);
    let output = MatPart { weight: output, bias: None, scale: w.scale("output") };
    let output_norm = w.vector("output_norm.weight", c.n_embd);
    let freqs = w.opt_vector("rope_freqs.weight", c.rope_dims / 2);
    let layers: Vec<_> = (0..c.n_layer)
        .map(|i| {
            (
                w.vector(&format!("blk.{i}.attn_norm.weight"), c.n_embd),
                declare_attention(&mut w, &c, i, qk_norm),
                w.vector(&format!("blk.{i}.ffn_norm.weight"), c.n_embd),
                match moe {
                    false => Ffn::Dense(declare_gated(&mut w, &c, i)),
                    true => Ffn::Experts(declare_experts(&mut w, &c, i)),
                },
            )
        })
        .collect();
    let inv_freq = c.inv_freq(freqs.map(|f| w.values(f)).as_deref());

    let mut p = Builder::new(w.finish()?);
    let mut x = p.embed(token_embd); // [n, dim]
    for (i, (attn_norm, attn, ffn_norm, ffn)) in layers.iter().enumerate() {
        let h = p.rms_norm(x, *attn_norm, c.eps); // [n, dim]
        x = attention(&mut p, h, attn, &c, i, style, x); // [n, dim]
        let h = p.rms_norm(x, *ffn_norm, c.eps); // [n, dim]
        x = match ffn {
            Ffn::Dense(f) => gated_ffn(&mut p, h, f, x),
            Ffn::Experts(e) => expert_ffn(&mut p, h, e, &c, x),
        }; // [n, dim]
    }
    let h = p.rms_norm_output(x, output_norm, c.eps); // [w, dim]
    let logits = p.matmul("logits", h, vec![output]); // [w, vocab]
    let kv = KvSpec { kv_heads: c.n_head_kv, k_dim: c.head_dim, v_dim: c.head_dim, window: None };
    let layers = vec![LayerState::KeysValues(kv); c.n_layer];
    Ok(p.finish(gguf.meta().arch()?, logits, layers, vec![inv_freq], c.n_ctx_train))
}
