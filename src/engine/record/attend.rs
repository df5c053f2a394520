//! Attention as dispatches: of few rows, split over workgroups, or of many.

use super::{Push, Writer};
use crate::engine::CacheType;
use crate::plan::{Cache, RopeStyle, Val};
use crate::policy::{self, AttnTile};
use crate::Result;

impl Writer<'_, '_> {
    pub(super) fn attend(&mut self, qkv: Val, cache: &Cache, scale: f32, out: Val) -> Result<()> {
        let rows = self.shape.rows;
        if self.attend_stage(qkv, cache, scale, out)? {
            return Ok(());
        }
        if rows <= policy::FEW_ROWS || self.shape.apart {
            return self.attend_split(qkv, cache, scale, out, self.attn_tile(cache, rows));
        }
        let (k, v) = &self.b.caches[cache.layer];
        let push = Push::default().addr(self.val(qkv)).addr(self.val(out)).addr(k.address()).addr(v.address());
        let push = push.addr(self.b.params.address()).word(cache.heads).word(cache.kv_heads).float(scale);
        if self.b.attends_many_by_matrices() {
            let tile = policy::attn_flash_tile(cache);
            let mut spec = vec![("SIZE", tile.size), ("GH", tile.heads)];
            spec.extend(self.kv_spec(cache));
            let grid = [rows.div_ceil(tile.rows as usize), cache.heads / tile.heads as usize, 1];
            return self.dispatch("attn_flash", None, &spec, push, grid);
        }
        let (br, bc) = policy::prefill_tile(cache.head_dim);
        let mut spec = vec![("BR", br), ("BC", bc)];
        spec.extend(self.kv_spec(cache));
        self.dispatch("attn_prefill", None, &spec, push, [rows.div_ceil(br as usize), cache.heads, 1])
    }

    fn attn_tile(&self, c: &Cache, rows: usize) -> AttnTile {
        let wide = self.b.cache_types.0 == CacheType::F32;
        let caps = self.b.device.caps();
        let tile = if self.b.attends_by_matrices() {
            policy::attn_mat_tile(caps, c, rows, self.shape.heads)
        } else {
            policy::attn_tile(caps, c, rows, wide, self.shape.heads)
        };
        AttnTile { parts: tile.parts.min((self.b.n_ctx as u32).div_ceil(tile.least)), ..tile }
    }

    fn attend_split(&mut self, qkv: Val, cache: &Cache, scale: f32, out: Val, tile: AttnTile) -> Result<()> {
        let (k, v) = &self.b.caches[cache.layer];
        let fused = self.ropes.get(&qkv).copied();
        let (q_norm, k_norm) = fused.map_or((None, None), |(_, q, k)| (q, k));
        let rope = fused.map(|(rope, _, _)| rope);
        let meeting = self.b.meeting;
        let joined = self.joins_later(cache, tile.parts, out);
        let left = if joined { self.left_parts() } else { None };
        let passed = self.passed_on(out);
        let y = passed.map_or(self.val(out), |(_, y, _)| y);
        let push = Push::default().addr(self.val(qkv)).addr(y).addr(k.address()).addr(v.address());
        let push = push.addr(self.b.params.address()).addr(left.map_or(meeting.found.address(), |(parts, _)| parts));
        let push = push.addr(meeting.arrivals.address());
        let push = push.addr(self.opt(q_norm)).addr(self.opt(k_norm)).addr(self.b.inv_freq.address());
        let push = push.word(cache.heads).word(cache.kv_heads).word(rope.map_or(0, |r| r.dims)).float(scale);
        let push = push.float(rope.map_or(0.0, |r| r.norm_eps)).word(left.map_or(0, |(_, tag)| tag as usize));
        let neox = rope.is_some_and(|r| r.style == RopeStyle::Neox);
        let mut spec = vec![("SIZE", tile.size), ("GH", tile.heads), ("ROPE", u32::from(rope.is_some()))];
        spec.extend([("NEOX", u32::from(neox)), ("NORM", u32::from(q_norm.is_some()))]);
        spec.extend([("SPAN", tile.span), ("LEAST", tile.least)]);
        spec.extend(passed.map(|(layout, _, _)| ("PASSED", layout)));
        spec.extend(left.map(|_| ("LEAVES", 1)));
        spec.extend(self.kv_spec(cache));
        let grid = [self.shape.rows, cache.heads / tile.heads as usize, tile.parts as usize];
        self.dispatch(tile.kernel, None, &spec, push, grid)?;
        if left.is_some() {
            self.join_left(cache, tile.parts, out);
        }
        Ok(())
    }
}
