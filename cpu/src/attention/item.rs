//! One item of attention: blocks of positions, a key/value head, and the queries that read it.

use super::cache::{Cache, Elements};
use super::prefetch::Next;
use super::{Bias, Queries, ScoreRules, VisibleRange, BLOCK};
use crate::float::{Brain, Element, Float, Half, Single};
use crate::simd::{entries, exp, Simd, LANES};
use crate::Isa;
use std::cell::RefCell;

/// What is the same for all items of an op.
pub(super) struct AttentionRules<'a> {
    /// Query heads per key/value head.
    pub group: usize,
    pub scores: &'a ScoreRules<'a>,
}

impl AttentionRules<'_> {
    /// What results are multiplied with before they are divided by the sum: all terms of the softmax are relative to the largest
    /// score, which the sink may exceed.
    pub fn with_sink(&self, head: usize, most: f32, sum: f32) -> (f32, f32) {
        match self.scores.sinks.map(|s| s[head]) {
            Some(sink) if sink > most => ((most - sink).exp(), sum * (most - sink).exp() + 1.0),
            Some(sink) => (1.0, sum + (sink - most).exp()),
            None => (1.0, sum),
        }
    }
}

/// An item.
pub(super) struct AttentionItem<'a> {
    pub cache: &'a Cache,
    /// Blocks of the cache.
    pub blocks: &'a [u32],
    /// Position of the first one.
    pub from: usize,
    pub kv_head: usize,
    /// What its rows see.
    pub seen: &'a [VisibleRange],
    pub q: Queries<'a>,
}

/// Memory to work in, of a thread.
#[derive(Default)]
pub(super) struct AttentionScratch {
    /// Queries times the scale, `[queries, k_dim]`.
    q: Vec<f32>,
    /// `[queries, v_pad]`
    out: Vec<f32>,
    /// Scores and then terms of the softmax, `[queries, 32]`.
    p: Vec<f32>,
    /// Largest score, sum of terms, and what the old results shrink by.
    state: Vec<[f32; 3]>,
    /// A block in floats: `[k_dim, 32]`, `[32, v_pad]`.
    k: Vec<f32>,
    v: Vec<f32>,
    /// A row of a quantized block.
    row: Vec<f32>,
}

thread_local! {
    static ROOM: RefCell<AttentionScratch> = RefCell::new(AttentionScratch::default());
}

impl AttentionScratch {
    /// The calling thread's.
    pub fn with(body: impl FnOnce(&mut AttentionScratch)) {
        ROOM.with_borrow_mut(body);
    }
}

fn fit(v: &mut Vec<f32>, len: usize) {
    if v.len() < len {
        v.resize(len, 0.0);
    }
}

/// What takes a result: row of the item, head of the group, sums `[v_pad]`, largest score, sum of terms. Results are sums of
/// values times terms, for the caller to divide by the sum; an unsplit item's `most` is that of the sink's rule.
pub(super) type Take<'a> = dyn FnMut(usize, usize, &[f32], f32, f32) + 'a;

/// Runs an item.
pub(super) fn run(isa: Isa, rules: &AttentionRules<'_>, job: &AttentionItem<'_>, take: &mut Take<'_>) {
    assert!(isa.is_here());
    ROOM.with_borrow_mut(|room| {
        let (cache, group) = (job.cache, rules.group);
        let (k_dim, v_pad, queries) = (cache.k_dim, cache.v_pad(), job.seen.len() * group);
        fit(&mut room.q, queries * k_dim);
        fit(&mut room.out, queries * v_pad);
        fit(&mut room.p, queries * BLOCK);
        fit(&mut room.k, k_dim * BLOCK);
        fit(&mut room.v, BLOCK * v_pad);
        room.state.clear();
        room.state.resize(queries, [f32::NEG_INFINITY, 0.0, 0.0]);
        room.out[..queries * v_pad].fill(0.0);
        for (i, q) in room.q.chunks_exact_mut(k_dim).take(queries).enumerate() {
            let (row, head) = (i / group, job.kv_head * group + i % group);
            let from = &job.q.rows[row * job.q.width + head * k_dim..][..k_dim];
            q.iter_mut().zip(from).for_each(|(q, x)| *q = x * rules.scores.scale);
        }
        for (b, block) in job.blocks.iter().enumerate() {
            step(isa, rules, job, (job.from + b * BLOCK, *block, job.blocks.get(b + 1).copied()), room);
        }
        for i in 0..queries {
            let [most, sum, _] = room.state[i];
            take(i / group, i % group, &room.out[i * v_pad..][..v_pad], most, sum);
        }
    });
}

/// Keys of a block as the kernels read them: as they are, or, unless they are for few queries, as floats in `room`.
fn keys_of(
    isa: Isa,
    cache: &Cache,
    (keys, next_keys): (&[u8], Next),
    (direct, used): (bool, usize),
    room: &mut AttentionScratch,
) -> (Float, *const u8, Next) {
    let k_dim = cache.k_dim;
    match cache.k {
        Elements::Floats(float) if direct || float == Float::F32 => (float, keys.as_ptr(), next_keys),
        Elements::Floats(float) => {
            // SAFETY: the instructions are there; `k_dim * BLOCK` elements each, a multiple of 16.
            unsafe { widen(isa, float, keys.as_ptr(), next_keys, k_dim * BLOCK, room.k.as_mut_ptr()) };
            (Float::F32, room.k.as_ptr().cast(), next_keys.nothing(room.k.as_ptr().cast()))
        }
        Elements::Blocks(format) => {
            let bytes = keys.len() / BLOCK;
            let len = bytes / format.block_bytes * format.block_len;
            fit(&mut room.row, len);
            for (j, row) in keys.chunks_exact(bytes).take(used).enumerate() {
                // SAFETY: the instructions are there.
                unsafe { ask(isa, next_keys, j * bytes, bytes) };
                format.decode_row(row, &mut room.row[..len]);
                for (d, x) in room.row[..k_dim].iter().enumerate() {
                    room.k[d * BLOCK + j] = *x;
                }
            }
            (Float::F32, room.k.as_ptr().cast(), next_keys.nothing(room.k.as_ptr().cast()))
        }
    }
}

/// Products of a block's keys of the first head with queries, `[queries, 32]`.
pub(super) fn products<'a>(
    isa: Isa,
    cache: &Cache,
    block: u32,
    (q, queries): (&[f32], usize),
    room: &'a mut AttentionScratch,
) -> &'a [f32] {
    assert!(isa.is_here() && q.len() >= queries * cache.k_dim, "queries");
    fit(&mut room.p, queries * BLOCK);
    fit(&mut room.k, cache.k_dim * BLOCK);
    let keys = cache.head(block, 0).0;
    let k = keys_of(isa, cache, (keys, Next::of(keys, None)), (queries <= 4, BLOCK), room);
    // SAFETY: the instructions are there; keys `[k_dim, 32]`, and queries and products of as many rows.
    unsafe { scores(isa, k.0, k.1, k.2, q.as_ptr(), (cache.k_dim, queries), room.p.as_mut_ptr()) };
    &room.p[..queries * BLOCK]
}

/// One block of positions from `at` on, and which follows.
fn step(
    isa: Isa,
    rules: &AttentionRules<'_>,
    job: &AttentionItem<'_>,
    (at, block, next): (usize, u32, Option<u32>),
    room: &mut AttentionScratch,
) {
    let (cache, group) = (job.cache, rules.group);
    let (k_dim, v_pad, queries) = (cache.k_dim, cache.v_pad(), job.seen.len() * group);
    let last = job.seen.iter().map(|s| s.last).max().unwrap_or(0);
    let used = (last + 1).saturating_sub(at).min(BLOCK);
    if used == 0 {
        return;
    }
    let (keys, values) = cache.head(block, job.kv_head);
    let next = next.map(|next| cache.head(next, job.kv_head));
    let (next_keys, next_values) = (Next::of(keys, next.map(|n| n.0)), Next::of(values, next.map(|n| n.1)));
    // Of floats that few queries read, none are written down in between.
    let direct = queries <= 4;
    let k = keys_of(isa, cache, (keys, next_keys), (direct, used), room);
    // SAFETY: the instructions are there; keys `[k_dim, 32]`, queries and scores of as many rows as `room` was fitted for.
    unsafe { scores(isa, k.0, k.1, k.2, room.q.as_ptr(), (k_dim, queries), room.p.as_mut_ptr()) };
    for (i, state) in room.state.iter_mut().enumerate() {
        let (seen, head) = (&job.seen[i / group], job.kv_head * group + i % group);
        let p = &mut room.p[i * BLOCK..][..BLOCK];
        let bias = rules.scores.bias(head);
        // SAFETY: the instructions are there.
        unsafe { soften(isa, p, rules.scores.soft_cap, bias, (at, seen), state) };
    }
    let v = match cache.v {
        Elements::Floats(float) if direct || float == Float::F32 => (float, values.as_ptr(), next_values),
        Elements::Floats(float) => {
            // SAFETY: the instructions are there; `BLOCK * v_pad` elements each, a multiple of 16.
            unsafe { widen(isa, float, values.as_ptr(), next_values, BLOCK * v_pad, room.v.as_mut_ptr()) };
            (Float::F32, room.v.as_ptr().cast(), next_values.nothing(room.v.as_ptr().cast()))
        }
        Elements::Blocks(format) => {
            let bytes = values.len() / BLOCK;
            let len = bytes / format.block_bytes * format.block_len;
            fit(&mut room.row, len);
            let rows = values.chunks_exact(bytes).zip(room.v.chunks_exact_mut(v_pad));
            for (j, (row, to)) in rows.take(used).enumerate() {
                // SAFETY: the instructions are there.
                unsafe { ask(isa, next_values, j * bytes, bytes) };
                format.decode_row(row, &mut room.row[..len]);
                to.copy_from_slice(&room.row[..v_pad]);
            }
            (Float::F32, room.v.as_ptr().cast(), next_values.nothing(room.v.as_ptr().cast()))
        }
    };
    // SAFETY: the instructions are there; `used` rows of values, terms and results of as many rows as `room` was fitted for.
    unsafe { mix(isa, v.0, v.1, v.2, room.p.as_ptr(), &room.state, (used, v_pad), room.out.as_mut_ptr()) };
}

entries! {
    /// `len` floats, a multiple of 16, as f32.
    fn widen(kind: Float, from: *const u8, next: Next, len: usize, to: *mut f32) = widen_any;
    /// Asks for a part of what follows.
    fn ask(next: Next, from: usize, bytes: usize) = ask_next;
    /// Scores of 32 positions for all queries.
    fn scores(kind: Float, k: *const u8, next: Next, q: *const f32, shape: (usize, usize), p: *mut f32) = scores_any;
    /// Scores of one query into terms of its softmax.
    fn soften(p: &mut [f32], cap: Option<f32>, bias: Bias<'_>, at: (usize, &VisibleRange), state: &mut [f32; 3]) = soften_row;
    /// Adds values times terms to all results, which shrink first.
    fn mix(
        kind: Float, v: *const u8, next: Next, p: *const f32, state: &[[f32; 3]], shape: (usize, usize), out: *mut f32,
    ) = mix_any;
}

macro_rules! by_float {
    ($kind:expr, $s:ident, $f:ident($($a:expr),*)) => {
        match $kind {
            Float::F32 => $f::<$s, Single>($($a),*),
            Float::F16 => $f::<$s, Half>($($a),*),
            Float::Bf16 => $f::<$s, Brain>($($a),*),
        }
    };
}

#[inline(always)]
unsafe fn ask_next<S: Simd>(next: Next, from: usize, bytes: usize) {
    // SAFETY: the caller answers for the instructions.
    unsafe { next.ask::<S>(from, bytes) }
}

#[inline(always)]
unsafe fn widen_any<S: Simd>(kind: Float, from: *const u8, next: Next, len: usize, to: *mut f32) {
    // SAFETY: the caller answers for the instructions and for what is read and written.
    unsafe { by_float!(kind, S, widen_of(from, next, len, to)) }
}

#[inline(always)]
unsafe fn widen_of<S: Simd, E: Element>(from: *const u8, next: Next, len: usize, to: *mut f32) {
    for i in (0..len).step_by(LANES) {
        // SAFETY: the caller answers for the instructions and for what is read and written.
        unsafe {
            next.ask::<S>(i * E::BYTES, LANES * E::BYTES);
            S::store(to.add(i), E::load::<S>(from.add(i * E::BYTES)));
        }
    }
}

#[inline(always)]
unsafe fn scores_any<S: Simd>(
    kind: Float,
    k: *const u8,
    next: Next,
    q: *const f32,
    shape: (usize, usize),
    p: *mut f32,
) {
    // SAFETY: the caller answers for the instructions and for what is read and written.
    unsafe { by_float!(kind, S, scores_of(k, next, q, shape, p)) }
}

#[inline(always)]
unsafe fn scores_of<S: Simd, E: Element>(
    k: *const u8,
    next: Next,
    q: *const f32,
    (k_dim, queries): (usize, usize),
    p: *mut f32,
) {
    let mut at = 0;
    while at < queries {
        // Once is enough.
        let next = if at == 0 { next } else { next.nothing(k) };
        // SAFETY: the caller answers for the instructions and for what is read and written.
        unsafe {
            let (q, p) = (q.add(at * k_dim), p.add(at * BLOCK));
            at += if queries - at >= 4 {
                some_scores::<S, E, 4>(k, next, q, k_dim, p);
                4
            } else {
                some_scores::<S, E, 1>(k, next, q, k_dim, p);
                1
            };
        }
    }
}

#[inline(always)]
unsafe fn some_scores<S: Simd, E: Element, const N: usize>(
    k: *const u8,
    next: Next,
    q: *const f32,
    k_dim: usize,
    p: *mut f32,
) {
    // SAFETY: the caller answers for the instructions and for what is read and written.
    unsafe {
        let mut sums = [[S::splat(0.0); 2]; N];
        for d in 0..k_dim {
            next.ask::<S>(d * BLOCK * E::BYTES, BLOCK * E::BYTES);
            let k = k.add(d * BLOCK * E::BYTES);
            let (low, high) = (E::load::<S>(k), E::load::<S>(k.add(LANES * E::BYTES)));
            for (n, sums) in sums.iter_mut().enumerate() {
                let q = S::splat(*q.add(n * k_dim + d));
                *sums = [S::fma(low, q, sums[0]), S::fma(high, q, sums[1])];
            }
        }
        for (n, sums) in sums.iter().enumerate() {
            S::store(p.add(n * BLOCK), sums[0]);
            S::store(p.add(n * BLOCK + LANES), sums[1]);
        }
    }
}

#[inline(always)]
unsafe fn soften_row<S: Simd>(
    p: &mut [f32],
    cap: Option<f32>,
    bias: Bias<'_>,
    (at, seen): (usize, &VisibleRange),
    state: &mut [f32; 3],
) {
    if let Some(cap) = cap {
        p.iter_mut().for_each(|p| *p = cap * (*p / cap).tanh());
    }
    bias.add(p, at, seen.pos);
    let from = seen.first.saturating_sub(at).min(BLOCK);
    let to = (seen.last + 1).saturating_sub(at).min(BLOCK).max(from);
    p[..from].fill(f32::NEG_INFINITY);
    p[to..].fill(f32::NEG_INFINITY);
    // SAFETY: the caller answers for the instructions; `p` has 32 floats.
    unsafe {
        let (a, b) = (S::load(p.as_ptr()), S::load(p.as_ptr().add(LANES)));
        let odd = S::total(S::add(S::sub(a, a), S::sub(b, b))).is_nan() && p[from..to].iter().any(|x| x.is_nan());
        let most = state[0].max(S::largest(S::max(a, b)));
        if most == f32::NEG_INFINITY && !odd {
            p.fill(0.0);
            state[2] = 1.0;
            return;
        }
        let shrink = if state[0] == f32::NEG_INFINITY { 0.0 } else { (state[0] - most).exp() };
        let base = S::splat(if odd { f32::NAN } else { most });
        let (a, b) = (exp::<S>(S::sub(a, base)), exp::<S>(S::sub(b, base)));
        S::store(p.as_mut_ptr(), a);
        S::store(p.as_mut_ptr().add(LANES), b);
        p[..from].fill(0.0);
        p[to..].fill(0.0);
        let (a, b) = (S::load(p.as_ptr()), S::load(p.as_ptr().add(LANES)));
        *state = [most, state[1] * shrink + S::total(S::add(a, b)), shrink];
    }
}

#[inline(always)]
unsafe fn mix_any<S: Simd>(
    kind: Float,
    v: *const u8,
    next: Next,
    p: *const f32,
    state: &[[f32; 3]],
    shape: (usize, usize),
    out: *mut f32,
) {
    // SAFETY: the caller answers for the instructions and for what is read and written.
    unsafe { by_float!(kind, S, mix_of(v, next, p, state, shape, out)) }
}

#[inline(always)]
unsafe fn mix_of<S: Simd, E: Element>(
    v: *const u8,
    next: Next,
    p: *const f32,
    state: &[[f32; 3]],
    (used, v_pad): (usize, usize),
    out: *mut f32,
) {
    let mut at = 0;
    while at < state.len() {
        let count = if state.len() - at >= 4 { 4 } else { 1 };
        let mut d = 0;
        while d < v_pad {
            let wide = if v_pad - d >= 4 * LANES && S::COLUMNS >= 4 { 4 } else { 1 };
            // SAFETY: the caller answers for the instructions and for what is read and written.
            unsafe {
                let next = if at == 0 { next.from(d * E::BYTES) } else { next.nothing(v) };
                let (v, p, out) = (v.add(d * E::BYTES), p.add(at * BLOCK), out.add(at * v_pad + d));
                let state = &state[at..at + count];
                match (count, wide) {
                    (4, 4) => some_mix::<S, E, 4, 4>(v, next, p, state, (used, v_pad), out),
                    (4, _) => some_mix::<S, E, 4, 1>(v, next, p, state, (used, v_pad), out),
                    (_, 4) => some_mix::<S, E, 1, 4>(v, next, p, state, (used, v_pad), out),
                    _ => some_mix::<S, E, 1, 1>(v, next, p, state, (used, v_pad), out),
                }
            }
            d += wide * LANES;
        }
        at += count;
    }
}

#[inline(always)]
unsafe fn some_mix<S: Simd, E: Element, const N: usize, const D: usize>(
    v: *const u8,
    next: Next,
    p: *const f32,
    state: &[[f32; 3]],
    (used, v_pad): (usize, usize),
    out: *mut f32,
) {
    // SAFETY: the caller answers for the instructions and for what is read and written.
    unsafe {
        let mut sums = [[S::splat(0.0); D]; N];
        for n in 0..N {
            let shrink = S::splat(state[n][2]);
            for d in 0..D {
                sums[n][d] = S::mul(S::load(out.add(n * v_pad + d * LANES)), shrink);
            }
        }
        for j in 0..used {
            next.ask::<S>(j * v_pad * E::BYTES, D * LANES * E::BYTES);
            let mut values = [S::splat(0.0); D];
            for (d, value) in values.iter_mut().enumerate() {
                *value = E::load::<S>(v.add((j * v_pad + d * LANES) * E::BYTES));
            }
            for n in 0..N {
                let p = S::splat(*p.add(n * BLOCK + j));
                for d in 0..D {
                    sums[n][d] = S::fma(values[d], p, sums[n][d]);
                }
            }
        }
        for n in 0..N {
            for d in 0..D {
                S::store(out.add(n * v_pad + d * LANES), sums[n][d]);
            }
        }
    }
}
