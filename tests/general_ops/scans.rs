//! Scans: row by row, and by windows of rows on the device and on the fast interpreter.

use super::one_op_models::{agrees, cols, compare, keeps, runs, StepRows, TestWeights, DIM, EXACT};
use crate::util::{exact, options, sample};
use pumex::cpu::{Fast, FastSettings, RunnerSizes};
use pumex::engine::{CacheType, Debug, Options};
use pumex::plan::{Act, Arg, Builder, Cols, General, Join, MatPart, Scan, ScanKind, Val};
use pumex_cpu::attention::Elements;
use pumex_cpu::Float;

/// A scan over columns of the embedding: decays between 0 and 1, or logarithms of them, and rates above 0.
fn scan(b: &mut Builder, x: Val, s: &Scan) -> Val {
    let (log, of) = (s.kind == ScanKind::Delta, if s.decay_per_column { s.heads * s.k_dim } else { s.heads });
    let decay = cols(b.parts("decay", of), 0, if s.decay_per_column { s.k_dim } else { 1 });
    let (act, scale) = if log { (Act::Softplus, -0.3) } else { (Act::Sigmoid, 1.0) };
    b.map_into(decay, (1, of), (act, Arg::Cols(cols(x, 11, 0)), scale), (Join::Add, Arg::Number(0.0)));
    let rate = cols(b.parts("rate", s.heads), 0, 1);
    b.map_into(rate, (1, s.heads), (Act::Softplus, Arg::Cols(cols(x, 2, 0)), 1.0), (Join::Add, Arg::Number(0.0)));
    let out = b.parts("out", s.heads * s.v_dim);
    let [q, k] = [1, 40].map(|at| cols(x, at, s.k_dim));
    let small = b.act(x, Act::Tanh, 0.5);
    let v = cols(x, 30, s.v_dim);
    let scan = Scan {
        q,
        k: Cols { val: small, ..k },
        v,
        decay: s.decay.map(|_| decay),
        rate: s.rate.map(|_| rate),
        a: s.a.map(|_| cols(small, 5, 3)),
        b: s.b.map(|_| cols(small, 60, 2)),
        out: cols(out, 0, s.v_dim),
        ..*s
    };
    b.general(General::Scan(scan));
    out
}

#[test]
fn recurrences_are_the_references() {
    let there = Some(cols(Val(0), 0, 0));
    let plain = Scan {
        kind: ScanKind::Gla,
        heads: 4,
        v_dim: 12,
        k_dim: 20,
        groups: 4,
        tiled: false,
        q: cols(Val(0), 0, 0),
        k: cols(Val(0), 0, 0),
        v: cols(Val(0), 0, 0),
        decay: there,
        decay_per_column: true,
        rate: None,
        a: None,
        b: None,
        factor: None,
        soft: None,
        skip: None,
        scale: 0.5,
        layer: 0,
        at: 3,
        out: cols(Val(0), 0, 0),
    };
    let none = Scan { decay: None, decay_per_column: false, ..plain };
    let kinds = [
        ("mamba", Scan { kind: ScanKind::Mamba, rate: there, heads: 33, v_dim: 1, k_dim: 16, groups: 1, ..none }, 16),
        ("mamba 2", Scan { kind: ScanKind::Mamba, rate: there, groups: 2, ..none }, 1),
        (
            "delta",
            Scan { kind: ScanKind::Delta, rate: there, decay_per_column: false, tiled: true, groups: 2, ..plain },
            0,
        ),
        ("delta by columns", Scan { kind: ScanKind::Delta, rate: there, v_dim: 7, ..plain }, 0),
        ("soft mamba 2", Scan { kind: ScanKind::Mamba, rate: there, groups: 2, ..none }, 1),
        ("soft delta", Scan { kind: ScanKind::Delta, rate: there, decay_per_column: false, ..plain }, 1),
        ("wkv6", Scan { kind: ScanKind::Wkv6, ..plain }, 20),
        ("gla", Scan { k_dim: 64, heads: 2, groups: 1, ..plain }, 0),
        ("wkv7", Scan { kind: ScanKind::Wkv7, a: there, b: there, ..plain }, 0),
    ];
    for (name, s, factors) in kinds {
        let mut made = TestWeights::new(1.0);
        // The reference's factors of Mamba are below 0.
        let factor = (factors > 0).then(|| made.negative(s.heads, factors));
        let s = Scan { factor, ..soften_steps(&mut made, name, &s) };
        let (gguf, plan) = made.plan(&keeps(s.at + s.heads * s.v_dim * s.k_dim), &[], |b, x| scan(b, x, &s));
        if !agrees(name, &gguf, &plan, EXACT) {
            return;
        }
    }
}

/// With steps as products leave them, and something passed by, where the name says so.
fn soften_steps(made: &mut TestWeights, name: &str, s: &Scan) -> Scan {
    let mut floats = |there: bool| there.then(|| made.floats(1, s.heads, 1.0));
    let soft = name.starts_with("soft");
    Scan { soft: floats(soft), skip: floats(soft && s.kind == ScanKind::Mamba), ..*s }
}

/// Steps of many rows: with ends on and beside those of windows of 16 and 8, that go on where another one ended, of sequences
/// between each other, one of them again from its start, then as the other one's fork.
const MANY: [StepRows; 9] = [
    &[(0, 17)],
    &[(0, 15), (1, 16)],
    &[(1, 1), (0, 16)],
    &[(0, 53)],
    &[(0, 1), (1, 2), (0, 2), (1, 15), (0, 1), (1, 20)],
    &[(1, 5), (0, 31)],
    &[(0, 1)],
    &[(1, 3), (0, 16), (1, 17)],
    &[(0, 32)],
];

/// What a scan of many rows is made of: how it fades is a function of a column times a number.
type Case = (&'static str, Scan, (Act, f32));

fn cases() -> Vec<Case> {
    let there = Some(cols(Val(0), 0, 0));
    let at = cols(Val(0), 0, 0);
    let delta = Scan {
        kind: ScanKind::Delta,
        heads: 4,
        v_dim: 128,
        k_dim: 128,
        groups: 2,
        tiled: true,
        q: at,
        k: at,
        v: at,
        decay: there,
        decay_per_column: false,
        rate: there,
        a: None,
        b: None,
        factor: None,
        soft: None,
        skip: None,
        scale: 0.5,
        layer: 0,
        at: 4,
        out: at,
    };
    let columns = Scan { decay_per_column: true, tiled: false, heads: 2, v_dim: 24, k_dim: 40, ..delta };
    let mamba = Scan { kind: ScanKind::Mamba, decay: None, tiled: false, groups: 1, ..delta };
    // Columns that stay beside some of which nothing is left: e to the power of -1000 and less.
    let hard = (Act::Relu, -1000.0);
    let soft = (Act::Softplus, -0.1);
    vec![
        ("delta", delta, soft),
        ("delta by columns that forgets", columns, hard),
        ("mamba 2 of long rows", Scan { heads: 2, v_dim: 20, k_dim: 256, ..mamba }, soft),
        ("delta that forgets", Scan { heads: 2, v_dim: 40, k_dim: 32, ..delta }, hard),
        ("soft mamba 2", Scan { v_dim: 70, k_dim: 48, ..mamba }, soft),
        ("soft delta", Scan { v_dim: 40, k_dim: 64, ..delta }, soft),
        ("delta by columns", Scan { v_dim: 32, k_dim: 64, ..columns }, soft),
        ("mamba 2", Scan { v_dim: 64, k_dim: 16, ..mamba }, soft),
        ("mamba 2 that forgets", Scan { heads: 3, v_dim: 70, k_dim: 128, ..mamba }, hard),
        ("gla", Scan { kind: ScanKind::Gla, rate: None, ..columns }, (Act::Sigmoid, 1.0)),
        (
            "gla by heads",
            Scan { kind: ScanKind::Gla, rate: None, groups: 4, tiled: false, v_dim: 64, k_dim: 64, ..delta },
            (Act::Sigmoid, 1.0),
        ),
    ]
}

/// A scan over columns of products with the embedding.
fn wide(b: &mut Builder, h: Val, s: &Scan, (act, by): (Act, f32)) -> Val {
    let per = if s.decay_per_column { s.k_dim } else { 1 };
    let all = s.heads * s.k_dim.max(s.v_dim);
    let decay = cols(b.parts("decay", s.heads * per), 0, per);
    let from = Arg::Cols(cols(h, 8, 0));
    b.map_into(decay, (1, s.heads * per), (act, from, by), (Join::Add, Arg::Number(0.0)));
    let rate = cols(b.parts("rate", s.heads), 0, 1);
    b.map_into(rate, (1, s.heads), (Act::Sigmoid, Arg::Cols(cols(h, 2, 0)), 1.0), (Join::Add, Arg::Number(0.0)));
    let unit = b.act(h, Act::Tanh, 1.0 / (s.k_dim as f32).sqrt());
    let out = b.parts("out", s.heads * s.v_dim);
    b.general(General::Scan(Scan {
        q: cols(h, 0, s.k_dim),
        k: cols(unit, all, s.k_dim),
        v: cols(h, all + 4, s.v_dim),
        decay: s.decay.map(|_| decay),
        rate: s.rate.map(|_| rate),
        out: cols(out, 0, s.v_dim),
        ..*s
    }));
    out
}

#[test]
fn many_rows_are_as_one_by_one() {
    let half = || Elements::Floats(Float::F16);
    let sizes = RunnerSizes { n_ctx: 256, n_seqs: 2, max_rows: 64, cache_positions: None, k: half(), v: half() };
    let debug = Debug { chunks: Some(true), ..exact() };
    let by_windows = Options { debug, ..options(CacheType::F32) };
    let (all, mut device) = (cases(), true);
    let few = sample(&all, 3).len();
    for (i, (name, s, fade)) in all.iter().enumerate() {
        let mut made = TestWeights::new(1.0);
        let weight = made.add_matrix("F32", 2 * s.heads * s.k_dim.max(s.v_dim) + 4, DIM);
        // Rows whose factors are small forget little, and those whose are large nearly all.
        let s = &soften_steps(&mut made, name, s);
        let factor = (s.kind == ScanKind::Mamba || s.soft.is_some()).then(|| match fade.0 {
            Act::Relu => made.values(1, s.heads, |head| if head % 2 == 0 { -1000.0 } else { -1e-3 }),
            _ => made.negative(1, s.heads),
        });
        let s = Scan { factor, ..*s };
        let (gguf, plan) = made.plan(&keeps(s.at + s.heads * s.v_dim * s.k_dim), &[], |b, x| {
            let h = b.matmul("wide", x, vec![MatPart { weight, bias: None, scale: 1.0 }]);
            wide(b, h, &s, *fade)
        });
        let mut fast = Fast::new(&gguf, plan.clone(), sizes, &FastSettings::default()).unwrap();
        compare(&format!("{name} on the CPU"), &gguf, &plan, EXACT, &mut fast, &MANY);
        device = device && i < few && runs(name, &gguf, &plan, EXACT, by_windows.clone(), &MANY);
    }
}
