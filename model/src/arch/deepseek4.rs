//! DeepSeek 4: several residual streams that mix, attention over the last rows and over blocks of all, experts by the root of softplus
//! with limits. In layers of short blocks an indexer chooses which of them a row sees.

mod compressed;

use crate::config::{Reader, Scaling};
use crate::decoder::{Connections, Family, Table};
use compressed::{Blocks, Compressed};
use pumex_gguf::{Gguf, Result};
use pumex_plan::{Gating, Plan};
use std::rc::Rc;

/// Rows of short blocks, which overlap, and of long ones.
const BLOCKS: [usize; 2] = [4, 128];
/// Positions unless told.
const USUAL_CONTEXT: usize = 8192;

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::llama(gguf)?;
    let n = f.c.n_layer;
    let every = r.by_layer("attention.compress_ratios", n, None, 1 << 16)?;
    if let Some(bad) = every.iter().find(|n| **n > 0 && !BLOCKS.contains(n)) {
        return Err(r.bad("attention.compress_ratios", "0, 4 or 128", bad));
    }
    let mut index = [0; 3];
    if every.contains(&BLOCKS[0]) {
        index = [
            r.int("attention.indexer.head_count", None, 1, 1024)?,
            r.int("attention.indexer.key_length", None, f.c.rope_dims.max(1) as u64, 1 << 12)?,
            r.int("attention.indexer.top_k", None, 1, 1 << 20)?,
        ];
        // Longer contexts take much memory for entries, so that they are not the default.
        f.c.n_ctx_train = f.c.n_ctx_train.min((index[2] * BLOCKS[0]).max(USUAL_CONTEXT));
    }
    let groups = r.int("attention.output_group_count", None, 1, 1024)?;
    if let Some(bad) = f.c.n_head.iter().find(|heads| !heads.is_multiple_of(groups) || **heads == 0) {
        return Err(r.bad("attention.output_group_count", &format!("a divisor of head_count {bad}"), groups));
    }
    let blocks = Blocks {
        q_rank: r.int("attention.q_lora_rank", None, 1, 1 << 20)?,
        rope: r.int("rope.dimension_count", None, 0, f.c.k_dim as u64)?,
        groups,
        rank: r.int("attention.output_lora_rank", None, 1, 1 << 20)?,
        window: r.int("attention.sliding_window", None, 1, 1024)?,
        n_ctx: f.c.n_ctx_train,
        index,
    };
    // YaRN changes frequencies alone, and those of layers with blocks.
    let scaling = Scaling { magnitude: 1.0, ..f.c.scaling };
    let base = r.float("attention.compress_rope_freq_base", None, 1.0, 1e12)?;
    f.rotation.tables[0] = Table { dims: blocks.rope, scaling: Scaling::NONE, factors: false, ..f.rotation.tables[0] };
    f.rotation.tables.push(Table { base, scaling, ..f.rotation.tables[0] });
    for (layer, every) in f.layers.iter_mut().zip(every) {
        layer.mix = vec![Rc::new(Compressed { blocks, every })];
        layer.rope = Some(usize::from(every > 0));
    }
    f.ignored.extend((0..n).map(|i| format!("blk.{i}.exp_probs_b_vl")));
    f.embedding.vectors.allowed = false; // experts by ids have none for pictures
    let by_id = r.int("hash_layer_count", None, 0, 1024)?;
    f.layers.iter_mut().take(by_id).for_each(|layer| layer.ffn.by_id = true);
    f.route_by_keys(&r, Gating::SqrtSoftplus)?;
    f.limit_experts(&r)?;
    f.stack = Rc::new(Connections {
        count: r.int("hyper_connection.count", None, 1, 16)?,
        eps: r.float("hyper_connection.epsilon", None, 0.0, 1.0)?,
        magnitude: 2.0,
        post_eps: 0.0,
        rounds: r.int("hyper_connection.sinkhorn_iterations", None, 1, 1024)?,
        mean: false,
    });
    f.plan(gguf)
}
