//! Snapshots of plans: a model change shows here as a change of text.

use crate::util::{demo_path, shared};
use pumex::gguf::Gguf;
use pumex::model;
use pumex::plan::Placement;

const LLAMA_FIRST_LAYER: &str = "\
llama: 6 x kv 2 x 64, vocab 4096
x0[n, 256] = embed token_embd.weight[4096, 256]:Q6_K
h1[n, 256] = rms_norm x0[n, 256] * blk.0.attn_norm.weight[1, 256]:F32 eps 1e-5
qkv2[n, 512] = matmul h1[n, 256] by blk.0.attn_q.weight[256, 256]:Q4_K, blk.0.attn_k.weight[128, 256]:Q4_K, blk.0.attn_v.weight[128, 256]:Q4_K
qkv2[n, 512], kv0 = rope norm 64 
attn3[n, 256] = attend qkv2[n, 512] kv0 heads 4/2 x 64 scale 0.125
x0[n, 256] += matmul attn3[n, 256] by blk.0.attn_output.weight[256, 256]:Q4_K
h4[n, 256] = rms_norm x0[n, 256] * blk.0.ffn_norm.weight[1, 256]:F32 eps 1e-5
ffn5[n, 768] = silu-gated h4[n, 256] by blk.0.ffn_gate.weight[768, 256]:Q4_K, blk.0.ffn_up.weight[768, 256]:Q4_K
x0[n, 256] += matmul ffn5[n, 768] by blk.0.ffn_down.weight[256, 768]:Q4_K
";

#[test]
fn llama_plan_is_as_reviewed() {
    let plan = model::plan(&Gguf::open(&demo_path()).unwrap()).unwrap();
    let text = plan.to_string();
    assert!(text.starts_with(LLAMA_FIRST_LAYER), "{text}");
    assert!(
        text.ends_with(
            "h_out31[w, 256] = rms_norm x0[n, 256] * output_norm.weight[1, 256]:F32 eps 1e-5\n\
         logits32[w, 4096] = matmul h_out31[w, 256] by token_embd.weight[4096, 256]:Q6_K\n\
         ids[w] = sample logits32[w, 4096]\n"
        ),
        "{text}"
    );
    assert_eq!(text.lines().count(), 1 + 1 + 6 * 8 + 3);
}

#[test]
fn qwen3_norms_heads_before_it_rotates_halves() {
    let Some(shared) = shared() else { return };
    let plan = model::plan(&Gguf::open(&shared.join("models/qwen3.gguf")).unwrap()).unwrap();
    let line = "kv0 = rope neox 64 blk.0.attn_q_norm.weight[1, 64]:F32 blk.0.attn_k_norm.weight[1, 64]:F32";
    assert!(plan.to_string().contains(line), "{plan}");
}

#[test]
fn values_alive_together_never_share_bytes_and_each_layer_has_few_barriers() {
    let plan = model::plan(&Gguf::open(&demo_path()).unwrap()).unwrap();
    let place = Placement::new(&plan, 64, 64);
    for (i, op) in plan.ops.iter().enumerate() {
        for r in op.reads() {
            for w in op.writes() {
                assert!(r == w || !place.overlap(r, w), "op {i} overwrites what it reads");
            }
        }
    }
    let barriers = place.barriers(&plan).iter().filter(|b| **b).count();
    assert!(barriers <= 8 * plan.layers.len() + 3, "{barriers}");
    let all: u64 = place.sizes.iter().sum();
    assert!(place.len_bytes < all / 2, "the arena is reused");
}
