//! Attention in chains: as a stage, of a whole sequence or in parts, and as a stage that joins the parts of a dispatch.

use super::{send_values, sent_bytes, stage_of, words_of, Chain, Open};
use super::{ATTEND, HEADS, IN, IN_TAG, JOIN, NEOX, OUT, OUT_TAG, PARTS, RECEIVE};
use crate::engine::record::product::Product;
use crate::engine::record::{Push, Writer};
use crate::plan::{Cache, Op, Plan, RopeStyle, Val};
use crate::policy::{self, ChainTile};
use crate::Result;

/// The heads of a model whose attention chains can do.
#[derive(Clone, Copy)]
pub(super) struct Attention {
    pub(super) head_dim: usize,
    /// Query heads of a K/V head that a subgroup takes at once.
    pub(super) pair: usize,
    /// Those that a workgroup takes of a sequence in parts: all of a K/V head, if it can.
    pub(super) at_once: usize,
    /// Most parts of a sequence; 1 where a workgroup takes a head at a time.
    parts: u32,
}

impl Attention {
    pub(super) fn of(plan: &Plan, tile: ChainTile, lanes: u32) -> Option<Attention> {
        let caches =
            || plan.ops.iter().filter_map(|op| if let Op::Attend { cache, .. } = op { Some(cache) } else { None });
        let head_dim = caches().next()?.head_dim;
        if !caches().all(|c| c.head_dim == head_dim) || !policy::chain_attends(tile, lanes, head_dim) {
            return None;
        }
        let at_once = |c: &Cache| policy::chain_heads(tile, lanes, head_dim, c.heads / c.kv_heads);
        let teams = caches().map(|c| at_once(c).map(|h| c.heads / h)).collect::<Option<Vec<_>>>();
        let parts = teams.and_then(|t| t.into_iter().max()).map_or(1, |teams| policy::chain_parts(tile, teams));
        let at_once = caches().filter_map(at_once).max().unwrap_or(1);
        let pair = if caches().all(|c| (c.heads / c.kv_heads).is_multiple_of(2)) { 2 } else { 1 };
        Some(Attention { head_dim, pair, at_once: at_once.max(pair), parts })
    }

    /// Bytes of shared memory that it takes.
    pub(super) fn bytes(&self, tile: ChainTile, lanes: u32) -> usize {
        policy::chain_attention_bytes(tile, lanes, self.head_dim, self.pair)
    }
}

/// Bytes that the parts of a layer's attention take, at most: two units of 16 for four values.
pub(super) fn parts_bytes(plan: &Plan) -> usize {
    let widths = plan.ops.iter().map(|op| if let Op::Attend { out, .. } = op { plan.values[out.0].width } else { 0 });
    widths.max().unwrap_or(0) * 8 * policy::MOST_PARTS
}

impl Chain {
    /// Parts of a sequence of `len` positions in which attention is a stage; 0 where it is a dispatch.
    pub fn parts(&self, len: usize) -> u32 {
        let Some(a) = self.attention else { return 0 };
        match policy::chain_positions(a.head_dim, a.parts > 1) {
            (whole, _) if len <= whole => 1,
            (_, most) if len <= most => a.parts,
            _ => 0,
        }
    }
}

impl Writer<'_, '_> {
    /// Adds attention to the chain, if it is one of a single row whose q, k and v the last stages make.
    pub(in crate::engine::record) fn attend_stage(
        &mut self,
        qkv: Val,
        cache: &Cache,
        scale: f32,
        out: Val,
    ) -> Result<bool> {
        let (Some(chain), Some((rope, q_norm, k_norm))) = (self.b.chain, self.ropes.get(&qkv).copied()) else {
            return Ok(false);
        };
        let Some(attention) = chain.attention else { return Ok(false) };
        let parts = self.shape.parts;
        let fits = self.shape.rows == 1 && self.shape.chained && parts > 0;
        let together = self.open.as_ref().is_some_and(|open| open.made_together(qkv, cache.qkv_width()));
        if !fits || !together || !self.can_send(cache.qkv_width()) {
            return Ok(false);
        }
        let at_once = if parts == 1 { 1 } else { (cache.heads / cache.kv_heads).min(attention.at_once) };
        let (k, v) = &self.b.caches[cache.layer];
        let push = Push::default().addr(k.address()).addr(v.address()).addr(self.b.inv_freq.address());
        let push = push.addr(self.opt(q_norm)).addr(self.opt(k_norm)).addr(0).addr(0).addr(self.val(out)).addr(0);
        let push = push.word(cache.heads).word(cache.kv_heads).word(rope.dims).word(cache.heads * cache.head_dim);
        let push = push.float(rope.norm_eps).float(scale).word(0).word(0).word(0);
        let neox = if rope.style == RopeStyle::Neox { NEOX } else { 0 };
        let Some(open) = self.open.as_mut() else { return Ok(false) };
        self.due = false;
        self.tags += 1;
        let values = chain.sent.address() + open.sent as u64;
        let makers = open.stages[open.before..].iter_mut().zip(&open.made[open.before..]);
        for (maker, (_, at)) in makers {
            send_values(maker, values + 8 * *at as u64, self.tags);
        }
        let mut stage = stage_of(&push.word((ATTEND | RECEIVE | neox) as usize));
        stage[IN..IN + 2].copy_from_slice(&words_of(values));
        (stage[IN_TAG], stage[HEADS], stage[PARTS]) = (self.tags, at_once as u32, parts);
        open.sent += sent_bytes(cache.qkv_width());
        if parts > 1 {
            self.tags += 1;
            stage[OUT..OUT + 2].copy_from_slice(&words_of(chain.parts_at));
            stage[OUT_TAG] = self.tags;
            open.add(stage, "", qkv);
            self.join_stage(cache, parts, out);
        } else {
            open.add(stage, "", out);
        }
        Ok(true)
    }

    /// Adds the joining of parts with the last tag.
    fn join_stage(&mut self, cache: &Cache, parts: u32, out: Val) {
        let Some(chain) = self.b.chain else { return };
        let y = self.val(out);
        let push = (0..7).fold(Push::default(), |push, _| push.addr(0)).addr(y).addr(0);
        let push = push.word(0).word(0).word(0).word(cache.heads * cache.head_dim).float(0.0).float(0.0);
        let mut stage = stage_of(&push.word(0).word(0).word(0).word((JOIN | RECEIVE) as usize));
        stage[IN..IN + 2].copy_from_slice(&words_of(chain.parts_at));
        (stage[IN_TAG], stage[PARTS]) = (self.tags, parts);
        if let Some(open) = self.open.as_mut() {
            open.add(stage, "", out);
        }
    }

    /// Whether the parts of attention that a dispatch of `parts` makes are better joined by the chain that comes after it,
    /// whose first product takes them. Chains that attend to whole sequences join none.
    pub(in crate::engine::record) fn joins_later(&self, cache: &Cache, parts: u32, out: Val) -> bool {
        let Some(Op::MatMul { x, parts: matrices, add, out: y }) = self.b.plan.ops.get(self.at + 1) else {
            return false;
        };
        let stem = |i: usize| self.b.plan.weights[matrices[i].weight.0].format.stem;
        let one = matrices.len() <= 3 && (1..matrices.len()).all(|i| stem(i) == stem(0));
        let product = Product { x: *x, parts: matrices.clone(), gated: false, add: *add, out: *y, y_at: 0 };
        let fits = *x == out && !self.norms.contains_key(x) && cache.head_dim.is_multiple_of(policy::PACKET);
        let fits = fits && self.shape.parts != 1 && (2..=policy::MOST_PARTS).contains(&(parts as usize));
        fits && one && self.shape.rows == 1 && self.chains(&product) && self.tags + super::MOST_TAGS < super::TAGS
    }

    /// Where such a dispatch leaves its parts, and their tag.
    pub(in crate::engine::record) fn left_parts(&mut self) -> Option<(u64, u32)> {
        self.tags += 1;
        self.b.chain.map(|chain| (chain.parts_at, self.tags))
    }

    /// Starts a chain with the joining of parts that were left.
    pub(in crate::engine::record) fn join_left(&mut self, cache: &Cache, parts: u32, out: Val) {
        self.due = false;
        self.open = Some(Open::new(true));
        self.join_stage(cache, parts, out);
    }
}
