//! Positions that rows choose: scores that small heads give keys, and the chosen ones' keys and values side by side.

use super::cache::SLAB;
use super::item::{self, AttentionScratch};
use super::{Cache, CacheWrite, Elements, BLOCK};
use crate::buffer::DisjointParts;
use crate::{Cpu, Isa};

/// Small heads of a row.
#[derive(Clone, Copy, Debug)]
pub struct IndexerHeads<'a> {
    /// `[heads, k_dim]`
    pub q: &'a [f32],
    /// How many.
    pub heads: usize,
    /// What each one's scores count; without them, one.
    pub weights: Option<&'a [f32]>,
}

impl Cache {
    /// Whether another one has the same heads and elements.
    pub fn is_like(&self, other: &Cache) -> bool {
        self.layout() == other.layout()
    }

    /// Another one of the same heads and elements, empty.
    pub fn empty_like(&self) -> Cache {
        Cache { slabs: Vec::new(), ..*self }
    }

    /// Replaces the first positions by those of another cache of the same heads and elements, in order.
    ///
    /// # Panics
    /// If a position's block is not in the other cache.
    pub fn gather(&mut self, cpu: &Cpu, from: &Cache, places: &[CacheWrite]) {
        let blocks = places.len().div_ceil(BLOCK);
        let Some(last) = blocks.checked_sub(1) else { return };
        self.reach(last as u32);
        let block_bytes = self.block_bytes();
        let slabs: Vec<DisjointParts<u8>> = self.slabs.iter_mut().map(|s| DisjointParts::new(s.bytes_mut())).collect();
        cpu.pool.each(blocks, &|b| {
            // SAFETY: a block is written by the one thread that has it.
            let block = unsafe { slabs[b / SLAB].part(b % SLAB * block_bytes, block_bytes) };
            let places = &places[b * BLOCK..];
            from.gather_block(&places[..places.len().min(BLOCK)], block);
        });
    }

    /// Up to 32 positions, as a block.
    fn gather_block(&self, places: &[CacheWrite], block: &mut [u8]) {
        let (k_bytes, v_bytes) = (self.k_bytes(), self.v_bytes());
        let (keys, values) = block.split_at_mut(self.kv_heads * k_bytes);
        let row_bytes = v_bytes / BLOCK;
        for h in 0..self.kv_heads {
            let (to_keys, to_values) = (&mut keys[h * k_bytes..][..k_bytes], &mut values[h * v_bytes..][..v_bytes]);
            // What lies together: elements of a column, or keys.
            let (columns, bytes) = match self.k {
                Elements::Floats(float) => (self.k_dim, float.bytes()),
                Elements::Blocks(_) => (1, k_bytes / BLOCK),
            };
            let sources: Vec<_> = places.iter().map(|place| (self.head(place.block, h), place.offset)).collect();
            for (c, to) in to_keys.chunks_exact_mut(BLOCK * bytes).take(columns).enumerate() {
                for (to, ((keys, _), offset)) in to.chunks_exact_mut(bytes).zip(&sources) {
                    to.copy_from_slice(&keys[(c * BLOCK + offset) * bytes..][..bytes]);
                }
            }
            for (to, ((_, values), offset)) in to_values.chunks_exact_mut(row_bytes.max(1)).zip(&sources) {
                to.copy_from_slice(&values[offset * row_bytes..][..row_bytes]);
            }
        }
    }

    /// Scores of the first head's keys: `Σ_h weight[h] * max(q_h · key, 0)`. Places of one block follow each other.
    pub fn index(&self, isa: Isa, index: &IndexerHeads<'_>, places: impl Iterator<Item = CacheWrite>, out: &mut [f32]) {
        AttentionScratch::with(|room| {
            let mut block = None;
            let mut all = [0f32; BLOCK];
            for (place, out) in places.zip(out) {
                if block != Some(place.block) {
                    let products = item::products(isa, self, place.block, (index.q, index.heads), room);
                    all = [0.0; BLOCK];
                    for (h, products) in products.chunks_exact(BLOCK).enumerate() {
                        let weight = index.weights.map_or(1.0, |weights| weights[h]);
                        all.iter_mut().zip(products).for_each(|(sum, x)| *sum += weight * x.max(0.0));
                    }
                    block = Some(place.block);
                }
                *out = all[place.offset];
            }
        });
    }
}
