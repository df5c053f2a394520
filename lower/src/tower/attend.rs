//! Attention of all queries with the keys that they see.

use super::{Access, Lowering, Touched, THREADS};
use crate::dispatch::Module;
use crate::policy;
use pumex_media::graph::{Bias, Op, Part};
use pumex_quant::FormatId;
use pumex_shaders::push;

/// Keys that `tower_attend_fragments` takes at a time.
const KEYS_AT_A_TIME: usize = 32;
/// Columns of a head that one of its matrices has.
const COLUMNS_AT_A_TIME: usize = 16;
/// Bytes that a thread reads at once.
const UNIT: usize = 16;

/// Keys and values in an order of their own, and how many keys there is room for.
struct PackedKeys {
    keys: (u64, Access),
    values: (u64, Access),
    room: usize,
}

impl Lowering<'_> {
    /// Where a bias is, as the kernel reads it.
    fn bias_words(&self, b: &Bias) -> [u32; 8] {
        let first = self.offset(self.graph.view(b.val).buffer) / 4;
        let query = b.query.map_or([1, 0], |d| [d.div, d.modulo]);
        let numbers = [self.cols(b.val), b.width, b.key.div, b.key.modulo, query[0], query[1], b.base];
        let mut words = [first as u32; 8];
        words[1..].copy_from_slice(&numbers.map(|n| n as u32));
        words
    }

    /// Whether numbers may become halves: some matrix of a product is none of floats, so that results are not exact anyway.
    fn rounds_to_halves(&self) -> bool {
        let all = self.graph.weights.iter().zip(self.t.weights);
        all.filter(|(used, _)| !used.floats).any(|(_, weight)| weight.stored.format != FormatId::F32)
    }

    pub(super) fn attend(&mut self, op: &Op) {
        let Op::Attend { q, k, v, heads, kv_heads, scale, spans, biases, soft_cap, sinks, out } = op else { return };
        let (n, m) = (self.rows(q.val), self.rows(k.val));
        let (d, dv) = (q.cols / heads, v.cols / kv_heads);
        let aligned = [q, k, v].iter().all(|x| x.at.is_multiple_of(4) && self.cols(x.val).is_multiple_of(4));
        let query = policy::TowerAttentionQuery {
            queries: n,
            heads: *heads,
            head_dim: d,
            v_dim: dv,
            halves: aligned && self.rounds_to_halves(),
            fragments: self.t.fragments,
            plain: biases.is_empty() && soft_cap.is_none(),
        };
        let tile = policy::tower_attention(self.t.caps, &query);
        let grid = [n.div_ceil(tile.queries as usize), *heads, 1];
        let spans = spans.map(|s| self.t.at.constants + self.constants.spans(s));
        if tile.packs_keys {
            let packed = self.pack_keys(*k, *v, (*kv_heads, d));
            let push = push::TowerAttendFragments {
                q: self.part_at(*q),
                keys: packed.keys.0,
                values: packed.values.0,
                y: self.at(*out),
                spans: spans.unwrap_or(0),
                sinks: self.opt(*sinks),
                q_stride: self.cols(q.val) as u32,
                n: n as u32,
                m: m as u32,
                key_room: packed.room as u32,
                heads: *heads as u32,
                kv_heads: *kv_heads as u32,
                spanned: u32::from(spans.is_some()),
                sunk: u32::from(sinks.is_some()),
                scale: *scale,
            };
            let reads = vec![self.part(*q), packed.keys.1, packed.values.1];
            let touched = Touched { reads, writes: vec![self.value(*out)] };
            return self.emit(Module::of(tile.kernel), tile.spec, push, grid, touched);
        }
        let words: Vec<u32> = biases.iter().flat_map(|b| self.bias_words(b)).collect();
        let biases_at = self.constants.push(&words);
        let push = push::TowerAttend {
            q: self.part_at(*q),
            k: self.part_at(*k),
            v: self.part_at(*v),
            y: self.at(*out),
            spans: spans.unwrap_or(0),
            sinks: self.opt(*sinks),
            arena: self.t.at.arena,
            biases: self.t.at.constants + biases_at,
            q_stride: self.cols(q.val) as u32,
            k_stride: self.cols(k.val) as u32,
            v_stride: self.cols(v.val) as u32,
            n: n as u32,
            m: m as u32,
            heads: *heads as u32,
            kv_heads: *kv_heads as u32,
            n_biases: biases.len() as u32,
            spanned: u32::from(spans.is_some()),
            sunk: u32::from(sinks.is_some()),
            scale: *scale,
            cap: soft_cap.unwrap_or(0.0),
        };
        let mut reads = vec![self.part(*q), self.part(*k), self.part(*v)];
        reads.extend(biases.iter().map(|b| self.value(b.val)));
        let touched = Touched { reads, writes: vec![self.value(*out)] };
        self.emit(Module::of(tile.kernel), tile.spec, push, grid, touched);
    }

    /// Keys and values as halves, in the order in which `tower_attend_fragments` reads them.
    fn pack_keys(&mut self, k: Part, v: Part, (kv_heads, d): (usize, usize)) -> PackedKeys {
        let m = self.rows(k.val);
        let room = m.next_multiple_of(KEYS_AT_A_TIME);
        let bytes = 2 * kv_heads * room * d.next_multiple_of(COLUMNS_AT_A_TIME);
        let (keys, values) = (self.scratch(bytes as u64), self.scratch(bytes as u64));
        let count = bytes / UNIT;
        let push = push::TowerPackKeys {
            k: self.part_at(k),
            v: self.part_at(v),
            keys: keys.0,
            values: values.0,
            k_stride: self.cols(k.val) as u32,
            v_stride: self.cols(v.val) as u32,
            m: m as u32,
            key_room: room as u32,
            count: count as u32,
        };
        let touched =
            Touched { reads: vec![self.part(k), self.part(v)], writes: vec![keys.1.clone(), values.1.clone()] };
        let spec = vec![("SIZE", THREADS as u32), ("D", d as u32)];
        self.emit(Module::of("tower_pack_keys"), spec, push, super::grid(count.div_ceil(THREADS)), touched);
        PackedKeys { keys, values, room }
    }
}
