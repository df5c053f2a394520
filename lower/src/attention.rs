//! Attention: of few rows or a decode batch, split over workgroups by position, or of many rows.

use super::dispatch::{Access, Module, Place, Touched};
use super::megakernel::StageSource;
use super::CacheType;
use super::Lowering;
use crate::policy;
use crate::policy::AttnTile;
use pumex_plan::{AttentionSpec, Mask, RopeNorm, RopeStyle, Val};
use pumex_shaders::{constants, push};

/// Which positions a row sees, and the rules of its scores, of which the usual ones are what kernels are made for.
fn seen_constants(spec: &AttentionSpec) -> impl Iterator<Item = (&'static str, u32)> {
    let mask = match spec.mask {
        _ if spec.chosen.is_some() => constants::MASK_CHOSEN,
        Mask::Causal if spec.groups => constants::MASK_GROUP,
        Mask::Window(_) if spec.groups => constants::MASK_GROUP_WINDOW,
        Mask::Causal => constants::MASK_CAUSAL,
        Mask::Window(_) => constants::MASK_WINDOW,
        Mask::Chunk(_) => constants::MASK_CHUNK,
        Mask::Full => constants::MASK_FULL,
        Mask::Near(_) => constants::MASK_NEAR,
        Mask::Source => constants::MASK_SOURCE,
        Mask::Answer => constants::MASK_ANSWER,
    };
    let rules = [
        (spec.soft_cap.is_some(), constants::RULE_SOFT_CAP),
        (spec.sinks.is_some(), constants::RULE_SINKS),
        (spec.alibi.is_some(), constants::RULE_ALIBI),
        (spec.biases.is_some(), constants::RULE_BIASES),
    ];
    let rules = rules.iter().filter(|(there, _)| *there).map(|(_, bit)| bit).sum();
    [("MASK", mask), ("RULES", rules)].into_iter().filter(|(_, value)| *value != 0)
}

impl Lowering<'_> {
    pub(super) fn attend(&mut self, qkv: Val, rope: &Option<RopeNorm>, spec: &AttentionSpec, scale: f32, out: Val) {
        let rows = self.shape.rows;
        if rows <= policy::FEW_ROWS || self.shape.decode_batch || spec.chosen.is_some() {
            self.attend_few(rows, qkv, rope, spec, scale, out);
            return;
        }
        if self.shape.singles > 0 {
            // In a tile of many rows, one subgroup would walk their sequences one after the other.
            self.attend_few(self.shape.singles, qkv, rope, spec, scale, out);
        }
        let state = self.t.at.states[spec.layer];
        let (qkv_at, y, params) = (self.val(qkv), self.val(out), self.t.at.params);
        let (heads, kv_heads) = (spec.heads as u32, spec.kv_heads as u32);
        let push = push::AttendMany {
            qkv: qkv_at,
            y,
            k_cache: state.k,
            v_cache: state.v,
            params,
            sinks: self.sinks(spec),
            heads,
            kv_heads,
            scale,
            table_at: state.table_at,
            window: spec.mask.positions() as u32,
            soft_cap: spec.soft_cap.unwrap_or(0.0),
            alibi: spec.alibi.unwrap_or(0.0),
        };
        let group = self.t.matrix2_attention(spec);
        let group_of = |tile: policy::GroupAttention| {
            let grid = [rows.div_ceil((tile.queries / tile.heads) as usize), spec.heads / tile.heads as usize, 1];
            ("attn_matrix2", tile.spec(), grid)
        };
        let (kernel, mut constants, grid) = if let Some(tile) = self.t.prompt_attention(spec) {
            let grid = [spec.heads / tile.heads as usize, rows.div_ceil(tile.rows as usize), 1];
            ("attn_prompt", vec![("SIZE", tile.size), ("GH", tile.heads)], grid)
        } else if self.t.attends_many_by_matrices(spec) {
            let tile = policy::attn_flash_tile(spec);
            let grid = [rows.div_ceil(tile.rows as usize), spec.heads / tile.heads as usize, 1];
            ("attn_flash", vec![("SIZE", tile.size), ("GH", tile.heads)], grid)
        } else if let Some(tile) = group.filter(|_| policy::matrix2_first(spec)) {
            group_of(tile)
        } else if let Some(tile) = self.t.staged_attention(spec) {
            let grid = [rows.div_ceil((tile.queries / tile.heads) as usize), spec.heads / tile.heads as usize, 1];
            ("attn_staged", tile.spec(), grid)
        } else if let Some(tile) = group {
            group_of(tile)
        } else {
            let (br, bc) = policy::prefill_tile(self.t.caps, spec, rows);
            ("attn_prefill", vec![("BR", br), ("BC", bc)], [rows.div_ceil(br as usize), spec.heads, 1])
        };
        constants.extend(self.kv_constants(spec));
        constants.extend(seen_constants(spec));
        let reads = [vec![self.value(qkv), self.cache(spec)], self.matrices(spec.sinks)].concat();
        self.emit(Module::of(kernel), constants, push, grid, Touched { reads, writes: vec![self.value(out)] });
    }

    /// Where sinks are, or biases.
    fn sinks(&self, spec: &AttentionSpec) -> u64 {
        spec.biases.map_or(self.opt(spec.sinks), |table| self.table_at(table))
    }

    /// The layer's cache, of as many positions as there may be.
    fn cache(&self, spec: &AttentionSpec) -> Access {
        Access::all(Place::State(spec.layer), self.cache_bytes(spec, self.t.n_ctx))
    }

    fn attn_tile(&self, spec: &AttentionSpec, rows: usize) -> AttnTile {
        let bits = if self.t.cache_types.0 == CacheType::F32 { 32 } else { 16 };
        let tile = if spec.chosen.is_none() && self.t.attends_by_matrices(spec) {
            policy::attn_mat_tile(self.t.caps, spec, rows, self.shape.heads)
        } else {
            policy::attn_tile(self.t.caps, spec, rows, bits, self.shape.heads)
        };
        let seen = spec.chosen.map_or(self.t.n_ctx, |chosen| chosen.width().min(self.t.n_ctx));
        AttnTile { parts: tile.parts.min((seen as u32).div_ceil(tile.least)), ..tile }
    }

    /// Of so many rows, the first ones, each by itself.
    fn attend_few(
        &mut self,
        rows: usize,
        qkv: Val,
        rope: &Option<RopeNorm>,
        spec: &AttentionSpec,
        scale: f32,
        out: Val,
    ) {
        let tile = self.attn_tile(spec, rows);
        let state = self.t.at.states[spec.layer];
        let epilogue = self.pack_epilogue(out);
        let (q_norm, k_norm) = rope.map_or((None, None), |r| (r.q_norm, r.k_norm));
        let push = push::AttendFew {
            qkv: self.val(qkv),
            y: epilogue.map_or(self.val(out), |epilogue| epilogue.codes),
            k_cache: state.k,
            v_cache: state.v,
            params: self.t.at.params,
            partials: self.t.at.partials,
            arrivals: self.t.at.arrivals,
            q_norm: spec.chosen.map_or(self.opt(q_norm), |chosen| self.val(chosen.list)),
            k_norm: self.opt(k_norm),
            inv_freq: rope.map_or(self.t.at.ropes, |r| self.rope_at(&r)),
            sinks: self.sinks(spec),
            heads: spec.heads as u32,
            kv_heads: spec.kv_heads as u32,
            rope_dims: rope.map_or(0, |r| r.rope.dims as u32),
            scale,
            eps: rope.map_or(0.0, |r| r.rope.norm_eps),
            epoch: 0,
            table_at: state.table_at,
            window: spec.chosen.map_or(spec.mask.positions() as u32, |chosen| self.width(chosen.list) as u32),
            soft_cap: spec.soft_cap.unwrap_or(0.0),
            alibi: spec.alibi.unwrap_or(0.0),
        };
        let neox = rope.is_some_and(|r| r.rope.style == RopeStyle::Neox);
        let mut constants = vec![("SIZE", tile.size), ("GH", tile.heads), ("ROPE", u32::from(rope.is_some()))];
        constants.extend([("NEOX", u32::from(neox)), ("NORM", u32::from(q_norm.is_some()))]);
        constants.extend([("SPAN", tile.span), ("LEAST", tile.least)]);
        constants.extend(epilogue.map(|epilogue| ("PACK_EPILOGUE", epilogue.layout)));
        constants.extend(self.kv_constants(spec));
        constants.extend(seen_constants(spec));
        let grid = [rows, spec.heads / tile.heads as usize, tile.parts as usize];
        let mut reads = vec![self.value(qkv), self.cache(spec)];
        reads.extend(spec.chosen.map(|chosen| self.value(chosen.list)));
        reads.extend(self.matrices([q_norm, k_norm, spec.sinks].into_iter().flatten()));
        let mut writes = vec![if epilogue.is_some() { self.epilogue_slot(out) } else { self.value(out) }];
        writes.extend((tile.parts > 1).then(|| self.split_reduction()));
        let new = self.cache_bytes(spec, rows);
        writes.extend(rope.map(|_| Access::all(Place::State(spec.layer), new)));
        let source = rope.map(|rope| StageSource::Attention { qkv, rope, spec: *spec, scale, out, parts: tile.parts });
        let task = self.emit(Module::of(tile.kernel), constants, push, grid, Touched { reads, writes });
        task.source = source;
    }
}
