//! What families read off their keys.

use super::{Family, LayerSpec, MixerSpec, MlaSizes};
use crate::config::Reader;
use crate::tensors::Tensors;
use pumex_gguf::{Gguf, Result};
use pumex_plan::{Gating, Groups, Mask};
use std::rc::Rc;

/// What several families read off their keys.
impl Family {
    /// Takes the experts from the first `leading_dense_block_count` layers.
    ///
    /// # Errors
    /// `bad_hparam`.
    pub fn dense_first(&mut self, r: &Reader<'_>) -> Result<()> {
        let dense = r.int("leading_dense_block_count", Some(0), 0, 1024)?;
        self.layers.iter_mut().take(dense).for_each(|layer| layer.ffn.experts = false);
        Ok(())
    }

    /// Reads how rows reach experts; without keys by `gating`, with weights as they come.
    ///
    /// # Errors
    /// `bad_hparam`.
    pub fn route_by_keys(&mut self, r: &Reader<'_>, gating: Gating) -> Result<()> {
        self.moe.gating = match r.int("expert_gating_func", Some(0), 0, 4)? {
            1 => Gating::Softmax,
            2 => Gating::Sigmoid,
            3 => Gating::SoftmaxOfTaken,
            4 => Gating::SqrtSoftplus,
            _ => gating,
        };
        self.moe.normalized = r.flag("expert_weights_norm", false)?;
        self.group(r)
    }

    /// Makes the experts that a row uses together as wide as a block, where the keys do not say how wide one is.
    ///
    /// # Errors
    /// `bad_hparam`.
    pub fn experts_share_width(&mut self, r: &Reader<'_>) -> Result<()> {
        let own = r.by_layer("expert_feed_forward_length", self.c.n_layer, Some(&vec![0; self.c.n_layer]), 1 << 24)?;
        for (i, _) in own.iter().enumerate().filter(|(_, width)| **width == 0) {
            self.c.n_ff_exp[i] = self.c.n_ff[i] / self.c.n_expert_used[i].max(1);
        }
        Ok(())
    }

    /// Reads groups of experts, if there are several.
    ///
    /// # Errors
    /// `bad_hparam`.
    pub fn group(&mut self, r: &Reader<'_>) -> Result<()> {
        let count = r.int("expert_group_count", Some(0), 0, 1024)?;
        if count > 1 {
            let used = r.int("expert_group_used_count", None, 1, count as u64)?;
            if !self.c.n_expert.is_multiple_of(count) {
                let what = format!("a divisor of expert_count {}", self.c.n_expert);
                return Err(r.bad("expert_group_count", &what, count));
            }
            self.moe.groups = Some(Groups { count, used });
        }
        Ok(())
    }

    /// Gives layers experts where the file has a router for them, or products of experts that only a router can reach.
    pub fn experts_where_routed(&mut self, gguf: &Gguf) {
        let tensors = Tensors::of(gguf.meta().arch().unwrap_or_default());
        for (i, layer) in self.layers.iter_mut().enumerate() {
            let there = |part: &str| gguf.tensor(&format!("blk.{i}.ffn_{part}.weight")).is_some();
            let reached = there("down_exps") && !tensors.accepts(&format!("blk.{i}.ffn_down_exps.weight"));
            layer.ffn.experts = there("gate_inp") || reached;
        }
    }
}

/// What rows see of those that come later.
impl Family {
    /// Lets rows see all of their text, whatever the keys say.
    pub fn see_all(&mut self) {
        self.c.causal = false;
        self.layers.iter_mut().for_each(|layer| layer.mask = Mask::Full);
    }

    /// Checks that no window looks back only where rows see all others.
    ///
    /// # Errors
    /// `bad_hparam`.
    pub fn check_masks(&self, r: &Reader<'_>) -> Result<()> {
        let back = |mask: Mask| matches!(mask, Mask::Window(_) | Mask::Chunk(_));
        match !self.c.causal && self.layers.iter().any(|layer| back(layer.mask)) {
            true => Err(r.bad("attention.causal", "true beside layers with a window", "false")),
            false => Ok(()),
        }
    }
}

/// What layers share.
impl Family {
    /// Checks that layers that read another one's keys and values have heads like its.
    pub(super) fn check_shared_keys(&self, gguf: &Gguf) -> Result<()> {
        let shape = |l: &LayerSpec| [l.kv_heads, l.k_dim, l.v_dim];
        for (i, layer) in self.layers.iter().enumerate() {
            let Some((of, owner)) = layer.kv_of.and_then(|of| Some((of, self.layers.get(of)?))) else { continue };
            if shape(layer) != shape(owner) {
                let expected = format!("heads and widths {:?} in layer {i}, which reads layer {of}'s", shape(owner));
                let r = Reader::new(gguf)?;
                return Err(r.bad("attention.head_count_kv", &expected, format!("{:?}", shape(layer))));
            }
        }
        Ok(())
    }
}

/// What hybrids and latent attention read off their keys.
impl Family {
    /// Lets the layers that `are` mix rows so.
    pub fn mix(&mut self, are: impl Fn(&LayerSpec) -> bool, mix: impl MixerSpec + 'static) {
        let mix: Rc<dyn MixerSpec> = Rc::new(mix);
        self.layers.iter_mut().filter(|layer| are(layer)).for_each(|layer| layer.mix = vec![mix.clone()]);
    }

    /// Lets every layer mix rows so, and do nothing else.
    pub fn only_mix(&mut self, mix: impl MixerSpec + 'static) {
        self.mix(|_| true, mix);
        for layer in &mut self.layers {
            (layer.ffn.width, layer.ffn.experts, layer.rope) = (0, false, None);
        }
    }

    /// Reads the sizes of latent attention, by which the first table of frequencies and the scale of scores go.
    ///
    /// # Errors
    /// `bad_hparam`.
    pub fn read_mla(&mut self, r: &Reader<'_>) -> Result<MlaSizes> {
        let rank = r.int("attention.kv_lora_rank", None, 8, pumex_plan::MAX_HEAD_DIM as u64)?;
        let rope = r.int("rope.dimension_count", None, 0, 1024)?;
        // 0 means "not given".
        let of = |key: &str, usual: usize| -> Result<usize> {
            Ok(Some(r.int(key, Some(0), 0, 1 << 14)?).filter(|dim| *dim > 0).unwrap_or(usual))
        };
        let k_dim = of("attention.key_length_mla", self.c.k_dim)?;
        let v_dim = of("attention.value_length_mla", self.c.v_dim)?;
        if k_dim <= rope {
            return Err(r.bad("attention.key_length_mla", &format!("more than the {rope} rotated columns"), k_dim));
        }
        let q_rank = r.int("attention.q_lora_rank", Some(0), 0, 1 << 20)?;
        if rank + rope > pumex_plan::MAX_HEAD_DIM {
            return Err(r.bad("attention.kv_lora_rank", "at most 576 with the rotated columns", rank + rope));
        }
        let expanded = r.gguf.tensors().iter().any(|t| t.name.ends_with(".attn_kv_b.weight"));
        let expanded = expanded && !r.gguf.tensors().iter().any(|t| t.name.ends_with(".attn_k_b.weight"));
        self.rotation.tables[0].dims = rope;
        // Scores grow with the context that YaRN reaches.
        let log = r.float("rope.scaling.yarn_log_multiplier", Some(0.0), -1e3, 1e3)?;
        let s = self.c.scaling;
        if s.yarn.is_some() {
            let by = 1.0 + 0.1 * log * (1.0 / s.freq_scale).ln();
            self.attention.scale = Some(by * by / (k_dim as f32).sqrt());
        }
        Ok(MlaSizes { rank, q_rank, rope, k_dim, v_dim, expanded })
    }
}
