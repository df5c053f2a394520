//! Attention: of few rows or a decode batch, split over workgroups by position, or of many rows.

use super::dispatch::{Access, Module, Place, Touched};
use super::megakernel::StageSource;
use super::CacheType;
use super::{Lowering, Target};
use crate::policy;
use crate::policy::{AttentionKernel, AttentionQuery, Query};
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

impl Target<'_> {
    /// Attention of `rows` rows together, or of single ones by workgroups of at most so many heads.
    fn attention_query(&self, spec: &AttentionSpec, rows: usize, most_heads: usize) -> AttentionQuery {
        let (key, value) = self.cache_types;
        AttentionQuery {
            spec: *spec,
            rows,
            single_rows: false,
            most_heads,
            halves: key.becomes_halves() && value.becomes_halves(),
            key_bits: if key == CacheType::F32 { 32 } else { 16 },
            positions: self.n_ctx,
            layout: self.packing.map(|packing| packing.layout),
        }
    }

    /// Whether such a kernel takes the attention of all layers, whichever positions rows attend to.
    fn all_attend_by(&self, kernel: AttentionKernel) -> bool {
        self.plan.attention().all(|spec| {
            let query = self.attention_query(&AttentionSpec { chosen: None, ..*spec }, 1, 1);
            query.refusal(self.caps, kernel).is_none()
        })
    }

    /// Whether all attention of few rows goes through cooperative matrices.
    pub fn all_attend_by_matrices(&self) -> bool {
        self.all_attend_by(AttentionKernel::Mat)
    }

    /// Whether all attention of many rows can go by matrices that threads fill themselves.
    pub fn all_attend_many_by_matrices(&self) -> bool {
        self.all_attend_by(AttentionKernel::Flash)
    }
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
        let query = self.attention_query(spec, rows, false);
        let choice = policy::choose(self.t.caps, &query);
        let (mut constants, grid) = (choice.tile.spec(), choice.tile.grid(rows, spec.heads));
        constants.extend(self.kv_constants(spec));
        constants.extend(seen_constants(spec));
        let reads = [vec![self.value(qkv), self.cache(spec)], self.matrices(spec.sinks)].concat();
        let touched = Touched { reads, writes: vec![self.value(out)] };
        self.emit(Module::of(choice.name), constants, push, grid, touched).keep_query(query);
    }

    /// Where sinks are, or biases.
    fn sinks(&self, spec: &AttentionSpec) -> u64 {
        spec.biases.map_or(self.opt(spec.sinks), |table| self.table_at(table))
    }

    /// The layer's cache, of as many positions as there may be.
    fn cache(&self, spec: &AttentionSpec) -> Access {
        Access::all(Place::State(spec.layer), self.cache_bytes(spec, self.t.n_ctx))
    }

    fn attention_query(&self, spec: &AttentionSpec, rows: usize, single_rows: bool) -> AttentionQuery {
        AttentionQuery { single_rows, ..self.t.attention_query(spec, rows, self.shape.heads) }
    }

    /// Attention of so many rows, the first ones, each by itself.
    fn attend_few(
        &mut self,
        rows: usize,
        qkv: Val,
        rope: &Option<RopeNorm>,
        spec: &AttentionSpec,
        scale: f32,
        out: Val,
    ) {
        let query = self.attention_query(spec, rows, true);
        let choice = policy::choose(self.t.caps, &query);
        let parts = choice.tile.parts();
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
        let mut constants = choice.tile.spec();
        constants.extend([("ROPE", u32::from(rope.is_some())), ("NEOX", u32::from(neox))]);
        constants.push(("NORM", u32::from(q_norm.is_some())));
        constants.extend(choice.tile.split_spec());
        constants.extend(epilogue.map(|epilogue| ("PACK_EPILOGUE", epilogue.layout)));
        constants.extend(self.kv_constants(spec));
        constants.extend(seen_constants(spec));
        let grid = choice.tile.grid(rows, spec.heads);
        let mut reads = vec![self.value(qkv), self.cache(spec)];
        reads.extend(spec.chosen.map(|chosen| self.value(chosen.list)));
        reads.extend(self.matrices([q_norm, k_norm, spec.sinks].into_iter().flatten()));
        let mut writes = vec![if epilogue.is_some() { self.epilogue_slot(out) } else { self.value(out) }];
        writes.extend((parts > 1).then(|| self.split_reduction()));
        let new = self.cache_bytes(spec, rows);
        writes.extend(rope.map(|_| Access::all(Place::State(spec.layer), new)));
        let source = rope.map(|rope| StageSource::Attention { qkv, rope, spec: *spec, scale, out, parts });
        let task = self.emit(Module::of(choice.name), constants, push, grid, Touched { reads, writes });
        task.source = source;
        task.keep_query(query);
    }
}
