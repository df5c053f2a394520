//! dots 3: latent attention with a norm of the rotated key and a gate for each head, of other sizes in layers with a window. Layers
//! without one have an indexer that chooses which positions a row sees, as in DeepSeek 3.2.

use crate::arch::deepseek32::INDEX_EPS;
use crate::config::Reader;
use crate::decoder::{Family, Indexer, Keys, LatentAttention, LayerSpec, MlaSizes, Table};
use pumex_gguf::{Gguf, Result};
use pumex_plan::{Gating, Mask, Plan, RopeStyle, MAX_HEAD_DIM};

/// File → plan.
pub fn plan(gguf: &Gguf) -> Result<Plan> {
    let r = Reader::new(gguf)?;
    let mut f = Family::llama(gguf)?;
    let latent = f.read_mla(&r)?;
    f.attention.scale = None;
    let rank = r.int("attention.kv_lora_rank_swa", None, 8, (MAX_HEAD_DIM - latent.rope.min(MAX_HEAD_DIM)) as u64)?;
    let k_dim = r.int("attention.key_length_mla_swa", None, latent.rope as u64 + 1, 1 << 14)?;
    let v_dim = r.int("attention.value_length_mla_swa", None, 1, 1 << 14)?;
    let base = r.float("rope.freq_base_swa", None, 1.0, 1e12)?;
    f.rotation.tables.push(Table { base, ..f.rotation.tables[0] });
    let window = r.int("attention.sliding_window", None, 1, u64::from(u32::MAX))?;
    let sliding = r.sliding(f.c.n_layer, 0, false)?;
    f.mix(|_| true, LatentAttention(latent));
    for (layer, sliding) in f.layers.iter_mut().zip(sliding) {
        if sliding {
            (layer.mask, layer.rope) = (Mask::Window(window), Some(1));
        }
    }
    let is_sliding = |layer: &LayerSpec| matches!(layer.mask, Mask::Window(_));
    f.mix(is_sliding, LatentAttention(MlaSizes { rank, k_dim, v_dim, ..latent }));
    let indexer = Indexer::read(&r, Keys::Each, (latent.rope, RopeStyle::Neox), INDEX_EPS)?;
    f.index_layers(&r, &vec![true; f.c.n_layer], indexer, |layer| layer.mask == Mask::Causal)?;
    f.dense_first(&r)?;
    f.route_by_keys(&r, Gating::Sigmoid)?;
    f.plan(gguf)
}
