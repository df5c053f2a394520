//! Attention of all queries with the keys that they see.

use super::{Lowering, Touched};
use crate::dispatch::Module;
use crate::policy;
use pumex_media::graph::{Bias, Op};
use pumex_quant::FormatId;
use pumex_shaders::push;

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
        let words: Vec<u32> = biases.iter().flat_map(|b| self.bias_words(b)).collect();
        let biases_at = self.constants.push(&words);
        let (n, m) = (self.rows(q.val), self.rows(k.val));
        let (d, dv) = (q.cols / heads, v.cols / kv_heads);
        let push = push::TowerAttend {
            q: self.part_at(*q),
            k: self.part_at(*k),
            v: self.part_at(*v),
            y: self.at(*out),
            spans: spans.map_or(0, |s| self.t.at.constants + self.constants.spans(s)),
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
        let aligned = [q, k, v].iter().all(|x| x.at.is_multiple_of(4) && self.cols(x.val).is_multiple_of(4));
        let by_matrices = aligned && self.rounds_to_halves();
        let tile = policy::tower_attention(self.t.caps, (n, *heads), (d, dv), by_matrices);
        let grid = [n.div_ceil(tile.queries as usize), *heads, 1];
        self.emit(Module::of(tile.kernel), tile.spec((d, dv)), push, grid, touched);
    }
}
