//! Keys and values of a layer, in blocks of 32 positions.
//!
//! Floats of keys lie position by position within a dimension, so that 16 scores come of one read; values lie dimension by
//! dimension. Quantized elements are blocks of 32 along the head.

use super::BLOCK;
use crate::buffer::{Buffer, DisjointParts};
use crate::float::Float;
use crate::simd::LANES;
use crate::Cpu;
use pumex_quant::Format;

/// Blocks that memory is taken for at a time.
pub(super) const SLAB: usize = 32;

/// What elements are.
#[derive(Clone, Copy, Debug)]
pub enum Elements {
    /// Floats.
    Floats(Float),
    /// Blocks of a format.
    Blocks(&'static Format),
}

impl Elements {
    /// Bytes of a row of `n` elements; blocks are filled up.
    fn bytes(self, n: usize) -> usize {
        match self {
            Elements::Floats(float) => n * float.bytes(),
            Elements::Blocks(format) => n.div_ceil(format.block_len) * format.block_bytes,
        }
    }

    /// What they are called.
    pub fn name(self) -> String {
        match self {
            Elements::Floats(float) => format!("{float:?}"),
            Elements::Blocks(format) => format.name.to_string(),
        }
    }

    /// Makes a head's row what is read of it once it is kept as such elements.
    pub fn round(self, row: &mut [f32]) {
        match self {
            Elements::Floats(Float::F32) => {}
            Elements::Floats(Float::F16) => row.iter_mut().for_each(|x| *x = half::f16::from_f32(*x).to_f32()),
            Elements::Floats(Float::Bf16) => row.iter_mut().for_each(|x| *x = half::bf16::from_f32(*x).to_f32()),
            Elements::Blocks(format) => {
                let mut bytes = vec![0; self.bytes(row.len())];
                put_row(self, row, &mut bytes);
                let mut read = vec![0.0; row.len().next_multiple_of(format.block_len)];
                format.decode_row(&bytes, &mut read);
                row.copy_from_slice(&read[..row.len()]);
            }
        }
    }
}

/// Keys and values of a layer.
pub struct Cache {
    pub(super) kv_heads: usize,
    pub(super) k_dim: usize,
    pub(super) v_dim: usize,
    pub(super) k: Elements,
    pub(super) v: Elements,
    pub(super) slabs: Vec<Buffer>,
}

/// A position that a step writes.
#[derive(Clone, Copy, Debug)]
pub struct CacheWrite {
    /// Block of the cache.
    pub block: u32,
    /// Position in it.
    pub offset: usize,
}

impl Cache {
    /// An empty one: memory comes when blocks are written.
    pub fn new(kv_heads: usize, (k_dim, k): (usize, Elements), (v_dim, v): (usize, Elements)) -> Cache {
        Cache { kv_heads, k_dim, v_dim, k, v, slabs: Vec::new() }
    }

    /// Elements of a value's head with what fills its last vector.
    pub(super) fn v_pad(&self) -> usize {
        self.v_dim.next_multiple_of(LANES)
    }

    pub(super) fn k_bytes(&self) -> usize {
        BLOCK * self.k.bytes(self.k_dim)
    }

    pub(super) fn v_bytes(&self) -> usize {
        BLOCK * self.v.bytes(self.v_pad())
    }

    pub(super) fn block_bytes(&self) -> usize {
        self.kv_heads * (self.k_bytes() + self.v_bytes())
    }

    /// Keys and values of a head in a block.
    pub(super) fn head(&self, block: u32, head: usize) -> (&[u8], &[u8]) {
        let block = block as usize;
        let all = &self.slabs[block / SLAB].bytes()[block % SLAB * self.block_bytes()..][..self.block_bytes()];
        let (k, v) = all.split_at(self.kv_heads * self.k_bytes());
        (&k[head * self.k_bytes()..][..self.k_bytes()], &v[head * self.v_bytes()..][..self.v_bytes()])
    }

    /// Whether there is memory for all blocks up to this one; takes it.
    pub fn hold(&mut self, block: u32) -> bool {
        while self.slabs.len() <= block as usize / SLAB {
            let Some(slab) = SLAB.checked_mul(self.block_bytes()).and_then(Buffer::of) else { return false };
            self.slabs.push(slab);
        }
        true
    }

    /// Makes room for all blocks up to this one.
    pub(super) fn reach(&mut self, block: u32) {
        while self.slabs.len() <= block as usize / SLAB {
            self.slabs.push(Buffer::new(SLAB * self.block_bytes()));
        }
    }

    /// How the bytes of a block lie.
    pub fn layout(&self) -> String {
        format!("{} heads of {} {}, {} {}", self.kv_heads, self.k_dim, self.k.name(), self.v_dim, self.v.name())
    }

    /// All of a block: keys of all heads, then values.
    pub fn block(&mut self, block: u32) -> &mut [u8] {
        self.reach(block);
        let (slab, bytes) = (block as usize / SLAB, self.block_bytes());
        &mut self.slabs[slab].bytes_mut()[block as usize % SLAB * bytes..][..bytes]
    }

    /// Copies a block.
    pub fn copy(&mut self, from: u32, to: u32) {
        self.reach(from.max(to));
        let bytes = self.block_bytes();
        let at = |block: u32| (block as usize / SLAB, block as usize % SLAB * bytes);
        let ((from_slab, from_at), (to_slab, to_at)) = (at(from), at(to));
        if from_slab == to_slab {
            self.slabs[to_slab].bytes_mut().copy_within(from_at..from_at + bytes, to_at);
        } else if let Ok([from, to]) = self.slabs.get_disjoint_mut([from_slab, to_slab]) {
            to.bytes_mut()[to_at..][..bytes].copy_from_slice(&from.bytes()[from_at..][..bytes]);
        }
    }

    /// Writes keys `[kv_heads * k_dim]` and values `[kv_heads * v_dim]` of positions; `row(i)` gives both of place `i`.
    pub fn write<'a>(
        &mut self,
        cpu: &Cpu,
        places: &[CacheWrite],
        row: &(dyn Fn(usize) -> (&'a [f32], &'a [f32]) + Sync),
    ) {
        let Some(most) = places.iter().map(|p| p.block).max() else { return };
        self.reach(most);
        let (k_bytes, v_bytes, block_bytes) = (self.k_bytes(), self.v_bytes(), self.block_bytes());
        let (kv_heads, k_dim, v_dim, v_pad, k, v) =
            (self.kv_heads, self.k_dim, self.v_dim, self.v_pad(), self.k, self.v);
        // A head's keys and values of place `i`, into its bytes of the block.
        let put = |h: usize, i: usize, keys_to: &mut [u8], values_to: &mut [u8]| {
            let ((keys, values), offset) = (row(i), places[i].offset);
            put_keys(k, &keys[h * k_dim..][..k_dim], offset, keys_to);
            let row_bytes = v.bytes(v_pad);
            put_row(v, &values[h * v_dim..][..v_dim], &mut values_to[offset * row_bytes..][..row_bytes]);
        };
        if places.len() < 4 {
            for (i, place) in places.iter().enumerate() {
                let (slab, at) = (place.block as usize / SLAB, place.block as usize % SLAB * block_bytes);
                let block = &mut self.slabs[slab].bytes_mut()[at..][..block_bytes];
                let (keys, values) = block.split_at_mut(kv_heads * k_bytes);
                for h in 0..kv_heads {
                    put(h, i, &mut keys[h * k_bytes..][..k_bytes], &mut values[h * v_bytes..][..v_bytes]);
                }
            }
            return;
        }
        let slabs: Vec<DisjointParts<u8>> = self.slabs.iter_mut().map(|s| DisjointParts::new(s.bytes_mut())).collect();
        cpu.pool.each(kv_heads, &|h| {
            for (i, place) in places.iter().enumerate() {
                let (slab, at) = (&slabs[place.block as usize / SLAB], place.block as usize % SLAB * block_bytes);
                // SAFETY: a head's bytes are written by the one thread that has the head.
                let keys = unsafe { slab.part(at + h * k_bytes, k_bytes) };
                // SAFETY: likewise, and they are others than those of keys.
                let values = unsafe { slab.part(at + kv_heads * k_bytes + h * v_bytes, v_bytes) };
                put(h, i, keys, values);
            }
        });
    }
}

/// Keys of a position: a column of a block of floats, a row of quantized ones.
fn put_keys(k: Elements, keys: &[f32], offset: usize, to: &mut [u8]) {
    match k {
        Elements::Floats(Float::F32) => {
            for (to, x) in to.chunks_exact_mut(4 * BLOCK).zip(keys) {
                to[4 * offset..][..4].copy_from_slice(&x.to_le_bytes());
            }
        }
        Elements::Floats(Float::F16) => {
            for (to, x) in to.chunks_exact_mut(2 * BLOCK).zip(keys) {
                to[2 * offset..][..2].copy_from_slice(&half::f16::from_f32(*x).to_le_bytes());
            }
        }
        Elements::Floats(Float::Bf16) => {
            for (to, x) in to.chunks_exact_mut(2 * BLOCK).zip(keys) {
                to[2 * offset..][..2].copy_from_slice(&half::bf16::from_f32(*x).to_le_bytes());
            }
        }
        Elements::Blocks(_) => {
            let bytes = k.bytes(keys.len());
            put_row(k, keys, &mut to[offset * bytes..][..bytes]);
        }
    }
}

/// A row of elements.
fn put_row(kind: Elements, row: &[f32], to: &mut [u8]) {
    match kind {
        Elements::Floats(Float::F32) => {
            to.chunks_exact_mut(4).zip(row).for_each(|(to, x)| to.copy_from_slice(&x.to_le_bytes()));
        }
        Elements::Floats(Float::F16) => {
            let halves = to.chunks_exact_mut(2).zip(row);
            halves.for_each(|(to, x)| to.copy_from_slice(&half::f16::from_f32(*x).to_le_bytes()));
        }
        Elements::Floats(Float::Bf16) => {
            let halves = to.chunks_exact_mut(2).zip(row);
            halves.for_each(|(to, x)| to.copy_from_slice(&half::bf16::from_f32(*x).to_le_bytes()));
        }
        Elements::Blocks(format) => {
            let weight = [1.0; 256];
            let mut padded = [0.0; 256];
            for (to, x) in to.chunks_exact_mut(format.block_bytes).zip(row.chunks(format.block_len)) {
                let len = format.block_len.min(padded.len());
                padded[..len].fill(0.0);
                padded[..x.len()].copy_from_slice(x);
                (format.encode)(&padded[..len], &weight[..len], to);
            }
        }
    }
}
