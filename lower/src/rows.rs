//! Ops that take rows one by one: the embedding, norms, RoPE, the choice of ids, sums of squares.

use super::dispatch::{Access, Module, Place, Touched};
use super::Lowering;
use crate::policy;
use pumex_plan::{AttentionSpec, Input, RopeNorm, RopeStyle, Rows, Val, Weight};
use pumex_shaders::push;
use pumex_vk::Caps;

/// Most candidates of a row of logits that is sampled from.
pub const MAX_K: usize = 128;

/// Workgroups that share a row of logits when ids are sampled.
pub(super) fn sample_parts(caps: &Caps, n_vocab: usize) -> usize {
    let (threads, loads) = policy::sample_tile(caps);
    n_vocab.div_ceil((threads * loads) as usize)
}

impl Lowering<'_> {
    pub(super) fn embed(&mut self, weight: Weight, instead: Option<usize>, out: Val) {
        let (info, dim, rows) = (&self.plan.weights[weight.0], self.width(out), self.shape.rows);
        let at = self.t.at;
        let (embd, y, params, sampled, tables) =
            (self.weight(weight), self.val(out), at.params, at.sampled, at.codebooks);
        // Without pairs anything that is there: llvmpipe reads before it finds that there are none.
        let pairs = instead.map_or(at.params, |list| self.numbers_at(list));
        let n_pairs = instead.map_or(0, |list| self.plan.numbers[list].len() / 2) as u32;
        let push = push::Embed { embd, y, params, sampled, tables, pairs, dim: dim as u32, n_pairs };
        let row_bytes = info.len_bytes() / info.rows.max(1) as u64;
        let reads =
            vec![Access::all(Place::Weight(weight), row_bytes * rows as u64), Access::all(Place::Ids, 4 * rows as u64)];
        let (constants, writes) = (vec![("SIZE", 64), ("SOA", self.soa())], vec![self.value(out)]);
        self.emit(Module::with("embed", info.format.stem), constants, push, [rows, 1, 1], Touched { reads, writes });
    }

    pub(super) fn rms_norm(&mut self, x: Val, weight: Weight, eps: f32, out: Val) {
        let threads = policy::row_threads(self.t.caps);
        let outputs = u32::from(self.plan.values[out.0].rows == Rows::Output);
        let (y, params, dim) = (self.val(out), self.t.at.params, self.width(x) as u32);
        let push = push::RmsNorm { x: self.val(x), weight: self.weight(weight), y, params, dim, eps };
        let reads = [vec![self.value(x)], self.matrices([weight])].concat();
        let (constants, grid, writes) =
            (vec![("SIZE", threads), ("OUTPUT_ROWS", outputs)], [self.rows_of(out), 1, 1], vec![self.value(out)]);
        self.emit(Module::of("rms_norm"), constants, push, grid, Touched { reads, writes });
    }

    pub(super) fn rope_kv(&mut self, qkv: Val, spec: &AttentionSpec, r: &RopeNorm) {
        let state = self.t.at.states[spec.layer];
        let push = push::RopeKv {
            qkv: self.val(qkv),
            q_norm: self.opt(r.q_norm),
            k_norm: self.opt(r.k_norm),
            inv_freq: self.rope_at(r),
            k_cache: state.k,
            v_cache: state.v,
            params: self.t.at.params,
            heads: spec.heads as u32,
            kv_heads: spec.kv_heads as u32,
            rope_dims: r.rope.dims as u32,
            eps: r.rope.norm_eps,
            table_at: state.table_at,
        };
        let neox = u32::from(r.rope.style == RopeStyle::Neox);
        let norm = match (r.q_norm, r.k_norm) {
            (None, None) => 0,
            (Some(_), Some(_)) => 1,
            (Some(_), None) => 2,
            (None, Some(_)) => 3,
        };
        let mut constants = vec![("SIZE", self.t.caps.subgroup_of("rope_kv")), ("NEOX", neox), ("NORM", norm)];
        constants.extend(self.kv_constants(spec));
        constants.extend(self.streams());
        let grid = [self.shape.rows, spec.heads + 2 * spec.kv_heads, 1];
        let norms = self.matrices([r.q_norm, r.k_norm].into_iter().flatten());
        let reads = [vec![self.value(qkv)], norms].concat();
        let new = self.cache_bytes(spec, self.shape.rows);
        let writes = vec![self.value(qkv), Access::all(Place::State(spec.layer), new)];
        self.emit(Module::of("rope_kv"), constants, push, grid, Touched { reads, writes });
    }

    /// Where the frequencies of a layer's RoPE are.
    pub(super) fn rope_at(&self, r: &RopeNorm) -> u64 {
        self.table_at(r.rope.table)
    }

    /// Where a table of frequencies is; of one that is not there, as where nothing is rotated, anywhere.
    pub(super) fn table_at(&self, table: usize) -> u64 {
        let first = if self.has_streams() { self.plan.stream_ropes_at() } else { 0 };
        self.t.at.ropes + 4 * (first + self.plan.rope_at(table.min(self.plan.ropes.len()))) as u64
    }

    /// Whether rows of the step may rotate by several positions.
    fn has_streams(&self) -> bool {
        self.shape.vectors && self.plan.sections.is_some()
    }

    /// By which of them pairs rotate.
    pub(super) fn streams(&self) -> impl Iterator<Item = (&'static str, u32)> {
        let words = self.plan.sections.filter(|_| self.has_streams()).map(|s| s.words());
        words.into_iter().flat_map(|[streams, sections]| [("STREAMS", streams), ("SECTIONS", sections)])
    }

    /// Where one of the plan's tables of numbers is.
    pub(super) fn numbers_at(&self, table: usize) -> u64 {
        self.t.at.ropes + 4 * self.plan.numbers_at(table) as u64
    }

    pub(super) fn kv_constants(&self, spec: &AttentionSpec) -> [(&'static str, u32); 4] {
        let (k, v) = self.t.cache_types;
        [("K_TYPE", k as u32), ("V_TYPE", v as u32), ("HEAD_DIM", spec.head_dim as u32), ("V_DIM", spec.v_dim as u32)]
    }

    /// Bytes of so many positions of a layer's cache.
    pub(super) fn cache_bytes(&self, spec: &AttentionSpec, positions: usize) -> u64 {
        let (k, v) = self.t.cache_types;
        let elements = |width: usize| (positions * spec.kv_heads * width) as u64;
        k.bytes(elements(spec.head_dim)) + v.bytes(elements(spec.v_dim))
    }

    pub(super) fn argmax(&mut self, logits: Val) {
        let (caps, at, w) = (self.t.caps, self.t.at, self.shape.outputs);
        let (found, vocab) = (at.partials, self.plan.n_vocab as u32);
        let push = push::Argmax {
            logits: self.val(logits),
            params: at.params,
            sampled: at.sampled,
            ids: at.ids,
            found,
            arrivals: at.arrivals,
            vocab,
        };
        let constants = vec![("SIZE", policy::row_threads(caps))];
        let touched = self.choice_of_ids(logits);
        self.emit(Module::of("argmax"), constants, push, [w, policy::argmax_parts(caps, w), 1], touched);
    }

    pub(super) fn sample(&mut self, logits: Val) {
        let (caps, at, vocab) = (self.t.caps, self.t.at, self.plan.n_vocab);
        let push = push::Sample {
            logits: self.val(logits),
            params: at.params,
            sampled: at.sampled,
            ids: at.ids,
            found: at.partials,
            arrivals: at.arrivals,
            vocab: vocab as u32,
            requests_at: self.t.requests_at as u32,
        };
        let (threads, loads) = policy::sample_tile(caps);
        let constants = vec![("SIZE", threads), ("LOADS", loads), ("K", MAX_K as u32)];
        let (grid, touched) = ([self.shape.outputs, sample_parts(caps, vocab), 1], self.choice_of_ids(logits));
        self.emit(Module::of("sample"), constants, push, grid, touched);
    }

    fn choice_of_ids(&self, logits: Val) -> Touched {
        let ids = Access::all(Place::Ids, 4 * self.shape.outputs as u64);
        let left = Access::all(Place::SplitReduction, 0);
        Touched { reads: vec![self.value(logits), ids.clone()], writes: vec![ids, left] }
    }

    /// Adds the squares of a product's input to its sums, from float `sums_at` on.
    pub(super) fn square_sums(&mut self, input: &Input, sums_at: usize) {
        let routed = input.routed;
        let push = push::SquareSums {
            x: self.val(input.x),
            sums: self.t.at.importance + 4 * sums_at as u64,
            params: self.t.at.params,
            route: routed.map_or(0, |r| self.val(r.route)),
            k: input.cols as u32,
            used: routed.map_or(1, |r| r.top_k.k) as u32,
        };
        let mode = routed.map_or(0, |r| 1 + u32::from(r.per_expert_input));
        let grid = [(input.cols / 4).div_ceil(64), input.matrices(), 1];
        let reads = std::iter::once(self.value(input.x)).chain(routed.map(|r| self.value(r.route))).collect();
        let sums = Access::all(Place::Importance, 4 * input.floats() as u64);
        let writes = vec![Access { range: sums_at..sums_at + 1, ..sums }];
        self.emit(Module::of("square_sums"), vec![("EXPERTS", mode)], push, grid, Touched { reads, writes });
    }
}
