//! Attention against a plain one: element types, masks, rules, and spans of many positions.

use super::products::noise;
use crate::attention::{
    AttentionWorkspace, Cache, CacheWrite, Elements, Queries, RowRun, ScoreRules, VisibleRange, BLOCK,
};
use crate::{Cpu, Float, Isa, ThreadPool};
use pumex_quant::FormatId;

struct Case {
    heads: usize,
    kv_heads: usize,
    k_dim: usize,
    v_dim: usize,
    soft_cap: Option<f32>,
    sinks: bool,
    alibi: bool,
    /// Distance up to which numbers are added to scores; 0 for none.
    reach: usize,
    /// Positions seen at most; 0 for all.
    window: usize,
}

const PLAIN: Case = Case {
    heads: 4,
    kv_heads: 2,
    k_dim: 64,
    v_dim: 64,
    soft_cap: None,
    sinks: false,
    alibi: false,
    reach: 0,
    window: 0,
};

/// Keys, values and queries of `held` positions, the last `rows` of which are rows of a step.
struct Data {
    k: Vec<f32>,
    v: Vec<f32>,
    q: Vec<f32>,
    sinks: Vec<f32>,
    slopes: Vec<f32>,
    biases: Vec<f32>,
}

impl Data {
    fn new(c: &Case, held: usize, rows: usize) -> Data {
        Data {
            k: noise(1, held * c.kv_heads * c.k_dim),
            v: noise(2, held * c.kv_heads * c.v_dim),
            q: noise(3, rows * c.heads * c.k_dim),
            sinks: if c.sinks { noise(4, c.heads) } else { vec![] },
            slopes: if c.alibi { (0..c.heads).map(|h| 0.02 * (h + 1) as f32).collect() } else { vec![] },
            biases: if c.reach > 0 { noise(5, c.heads * (2 * c.reach + 1)) } else { vec![] },
        }
    }

    fn truth(&self, c: &Case, seen: &[VisibleRange], scale: f32) -> Vec<f32> {
        let mut out = Vec::new();
        for (i, s) in seen.iter().enumerate() {
            for h in 0..c.heads {
                let kv = h / (c.heads / c.kv_heads);
                let q = &self.q[(i * c.heads + h) * c.k_dim..][..c.k_dim];
                let score = |j: usize| {
                    let k = &self.k[(j * c.kv_heads + kv) * c.k_dim..][..c.k_dim];
                    let x = scale * q.iter().zip(k).map(|(q, k)| q * k).sum::<f32>();
                    let x = c.soft_cap.map_or(x, |cap| cap * (x / cap).tanh());
                    let behind = (j as isize - seen[i].pos as isize).clamp(-(c.reach as isize), c.reach as isize);
                    let at = (h * (2 * c.reach + 1) + c.reach) as isize + behind;
                    let x = x + self.biases.get(at as usize).copied().unwrap_or(0.0);
                    x - self.slopes.get(h).map_or(0.0, |s| s * (seen[i].pos.abs_diff(j)) as f32)
                };
                let p: Vec<f32> = (s.first..=s.last).map(score).collect();
                let most = p.iter().chain(self.sinks.get(h)).copied().fold(f32::NEG_INFINITY, f32::max);
                let sum = p.iter().map(|p| (p - most).exp()).sum::<f32>()
                    + self.sinks.get(h).map_or(0.0, |s| (s - most).exp());
                out.extend((0..c.v_dim).map(|d| {
                    let v = |j: usize| self.v[(j * c.kv_heads + kv) * c.v_dim + d];
                    p.iter().enumerate().map(|(n, p)| (p - most).exp() / sum * v(s.first + n)).sum::<f32>()
                }));
            }
        }
        out
    }
}

fn error(c: &Case, isa: Isa, kind: Elements, (held, rows): (usize, usize)) -> f64 {
    let cpu = Cpu { pool: ThreadPool::new(3, |_| ()), isa };
    let data = Data::new(c, held, rows);
    let mut cache = Cache::new(c.kv_heads, (c.k_dim, kind), (c.v_dim, kind));
    // Blocks in another order than positions.
    let count = held.div_ceil(BLOCK) as u32;
    let blocks: Vec<u32> = (0..count).map(|b| (b * 7 + 3) % 41).collect();
    let blocks = if count > 40 { (0..count).rev().collect() } else { blocks };
    let places: Vec<CacheWrite> =
        (0..held).map(|p| CacheWrite { block: blocks[p / BLOCK], offset: p % BLOCK }).collect();
    let (kw, vw) = (c.kv_heads * c.k_dim, c.kv_heads * c.v_dim);
    cache.write(&cpu, &places, &|i| (&data.k[i * kw..][..kw], &data.v[i * vw..][..vw]));
    let see = |i: usize| {
        let pos = held - rows + i;
        VisibleRange { pos, first: if c.window > 0 { (pos + 1).saturating_sub(c.window) } else { 0 }, last: pos }
    };
    let seen: Vec<VisibleRange> = (0..rows).map(see).collect();
    let scale = 0.3;
    let sinks = c.sinks.then_some(&data.sinks[..]);
    let scores =
        ScoreRules { heads: c.heads, scale, soft_cap: c.soft_cap, sinks, slopes: &data.slopes, biases: &data.biases };
    let mut out = vec![f32::NAN; rows * c.heads * c.v_dim];
    let q = Queries { rows: &data.q, width: c.heads * c.k_dim };
    let run = RowRun { row: 0, rows, blocks: &blocks, first_block: 0 };
    cpu.attend(&cache, &scores, q, &[run], &seen, &mut AttentionWorkspace::default(), &mut out);
    super::products::nmse(&out, &data.truth(c, &seen, scale))
}

#[test]
fn every_element_type_agrees_with_plain_attention() {
    let blocks = |id: FormatId| Elements::Blocks(id.format());
    let kinds = [
        (Elements::Floats(Float::F32), 1e-9),
        (Elements::Floats(Float::F16), 1e-5),
        (Elements::Floats(Float::Bf16), 1e-4),
        (blocks(FormatId::Q8_0), 1e-3),
        (blocks(FormatId::Q5_1), 1e-2),
        (blocks(FormatId::Q4_0), 0.1),
    ];
    for isa in Isa::ALL.into_iter().filter(|isa| isa.is_here()) {
        for (kind, bound) in kinds {
            for shape in [(1, 1), (70, 1), (70, 3), (100, 70)] {
                let e = error(&PLAIN, isa, kind, shape);
                assert!(e < bound, "{isa:?} {kind:?} {shape:?}: {e:e}");
            }
        }
    }
}

#[test]
fn every_rule_agrees_with_plain_attention() {
    let cases = [
        Case { window: 40, ..PLAIN },
        Case { soft_cap: Some(2.0), ..PLAIN },
        Case { sinks: true, ..PLAIN },
        Case { alibi: true, ..PLAIN },
        Case { reach: 20, ..PLAIN },
        Case { heads: 6, kv_heads: 6, k_dim: 48, v_dim: 40, ..PLAIN },
        Case {
            heads: 16,
            kv_heads: 1,
            k_dim: 96,
            v_dim: 128,
            sinks: true,
            soft_cap: Some(5.0),
            alibi: true,
            reach: 0,
            window: 600,
        },
    ];
    for isa in Isa::ALL.into_iter().filter(|isa| isa.is_here()) {
        for (i, case) in cases.iter().enumerate() {
            // The last one is cut into spans.
            for shape in [(40, 40), (97, 2), (1300, 1)] {
                let e = error(case, isa, Elements::Floats(Float::F32), shape);
                assert!(e < 1e-9, "{isa:?}, case {i}, {shape:?}: {e:e}");
            }
        }
    }
}

#[test]
fn memory_for_blocks_that_is_not_there_is_told() {
    let halves = Elements::Floats(crate::Float::F16);
    let mut cache = Cache::new(2, (64, halves), (64, halves));
    assert!(cache.hold(3) && cache.hold(0));
    let mut vast = Cache::new(1 << 40, (1 << 16, halves), (1 << 16, halves));
    assert!(!vast.hold(0));
}
