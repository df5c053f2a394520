//! Every op by itself.

use super::{agree, case, Case, TestTensors};
use pumex_media::graph::{Act, Arg, Bias, Digit, Join, NormKind, Op, RotationPairs, Val, Window};
use pumex_media::{Attention, Builder};

/// Bound of ops that are sums in another order.
const BOUND: f64 = 2e-5;

const ACTS: [Act; 11] = [
    Act::Same,
    Act::Silu,
    Act::Gelu,
    Act::GeluErf,
    Act::GeluQuick,
    Act::Relu,
    Act::ReluSquared,
    Act::Sigmoid,
    Act::HardSwish,
    Act::HardSigmoid,
    Act::Clamp(-0.3, 0.4),
];

/// Numbers of both signs that leave what is around zero.
fn wide(b: &mut Builder<'_>, rows: usize, cols: usize) -> Val {
    let x = b.input(rows, cols).unwrap();
    b.scale(x, 5.0).unwrap()
}

#[test]
fn maps_take_every_function_and_repeat_operands() {
    let mut cases: Vec<Case> = ACTS
        .into_iter()
        .map(|act| {
            case(format!("{act:?}"), TestTensors::default(), |b| {
                let x = wide(b, 7, 33);
                b.map(act, x, 1.5, Some((Join::Add, Arg::Number(0.25)))).unwrap()
            })
        })
        .collect();
    for join in [Join::Add, Join::Mul] {
        let weight = TestTensors::default().floats("w", &[5, 3]);
        cases.push(case(format!("{join:?} weight"), weight, |b| {
            let (x, weight) = (wide(b, 6, 10), b.table_weight("w", 3, 5).unwrap());
            b.map(Act::Silu, x, 2.0, Some((join, Arg::Weight(weight)))).unwrap()
        }));
        cases.push(case(format!("{join:?} table"), TestTensors::default(), |b| {
            let (x, table) = (wide(b, 6, 4), b.table(1, vec![3.0, -2.0, 1.0]));
            b.map(Act::Same, x, 1.0, Some((join, Arg::Table(table)))).unwrap()
        }));
        cases.push(case(format!("{join:?} columns of a repeated value"), TestTensors::default(), |b| {
            let (x, y) = (wide(b, 6, 8), wide(b, 2, 9));
            let (a, other) = (b.part(x, 1, 6).unwrap(), b.part(y, 4, 3).unwrap());
            b.map_part(Act::Gelu, a, -1.0, Some((join, Arg::Part(other)))).unwrap()
        }));
    }
    cases.push(case("times a number, into columns of an operand", TestTensors::default(), |b| {
        let x = wide(b, 5, 12);
        let (a, out) = (b.part(x, 0, 4).unwrap(), b.part(x, 7, 4).unwrap());
        let join = Some((Join::Mul, Arg::Number(3.0)));
        b.push(Op::Map { act: Act::Relu, a, scale: 1.0, join, out });
        x
    }));
    agree(cases, BOUND);
}

#[test]
fn norms_take_groups_and_factors_of_either_length() {
    let mut cases = Vec::new();
    for kind in [NormKind::Rms, NormKind::Layer] {
        for (groups, len) in [(1, 257), (4, 19), (3, 1)] {
            for factors in [None, Some(len), Some(groups * len)] {
                let source =
                    TestTensors::default().floats("w", &[factors.unwrap_or(1)]).floats("b", &[factors.unwrap_or(1)]);
                cases.push(case(format!("{kind:?} of {groups} x {len}, {factors:?}"), source, |b| {
                    let x = wide(b, 5, groups * len + 3);
                    let weight = factors.map(|len| b.vector("w", len).unwrap());
                    let bias = factors.filter(|_| len > 1).map(|len| b.vector("b", len).unwrap());
                    let part = b.part(x, 2, groups * len).unwrap();
                    b.norm_with(kind, part, groups, (weight, bias), 1e-5).unwrap()
                }));
            }
        }
    }
    cases.push(case("in place", TestTensors::default().floats("w.weight", &[6]), |b| {
        let x = wide(b, 4, 20);
        let (part, weight) = (b.part(x, 3, 12).unwrap(), Some(b.vector("w.weight", 6).unwrap()));
        b.push(Op::Norm { kind: NormKind::Rms, x: part, groups: 2, weight, bias: None, eps: 1e-6, out: part });
        x
    }));
    let source = TestTensors::default().floats("w", &[37]).floats("b", &[37]);
    cases.push(case("of columns over all rows", source, |b| {
        let x = wide(b, 51, 37);
        let (weight, bias) = (b.vector("w", 37).unwrap(), b.vector("b", 37).unwrap());
        let out = b.value(51, 37).unwrap();
        b.push(Op::GlobalResponse { x, weight, bias, eps: 1e-6, out });
        out
    }));
    agree(cases, BOUND);
}

#[test]
fn windows_see_zeros_beyond_the_edges() {
    let windows = [
        Window { size: [9, 7], kernel: [3, 2], stride: [2, 3], before: [1, 1], out: [5, 3] },
        Window { size: [12, 8], kernel: [4, 4], stride: [4, 4], before: [0, 0], out: [3, 2] },
        Window { size: [13, 1], kernel: [3, 1], stride: [2, 1], before: [1, 0], out: [7, 1] },
    ];
    let mut cases = Vec::new();
    for window in windows {
        let area = window.kernel[0] * window.kernel[1];
        cases.push(case(format!("unfold {window:?}"), TestTensors::default(), |b| {
            let x = wide(b, window.size[0] * window.size[1], 3);
            b.unfold(x, window).unwrap()
        }));
        for biased in [false, true] {
            let mut source = TestTensors::default().floats("d.weight", &[area, 1, 5]);
            if biased {
                source = source.floats("d.bias", &[5]);
            }
            cases.push(case(format!("depthwise {window:?}"), source, |b| {
                let x = wide(b, window.size[0] * window.size[1], 5);
                b.depthwise(x, "d", window).unwrap()
            }));
        }
        let source = TestTensors::default()
            .floats("c.weight", &[window.kernel[0], window.kernel[1], 3, 70])
            .floats("c.bias", &[70]);
        cases.push(case(format!("conv {window:?}"), source, |b| {
            let x = wide(b, window.size[0] * window.size[1], 3);
            b.conv(x, "c", window).unwrap()
        }));
    }
    agree(cases, BOUND);
}

#[test]
fn rows_and_numbers_come_to_other_places() {
    let mut cases = vec![
        case("weighted sums", TestTensors::default(), |b| {
            let x = wide(b, 9, 11);
            let entries = (0..21).map(|i| ((i * 5 % 11) - 2, i as f32 / 7.0)).map(|(row, by)| (row.min(8), by));
            let picks = b.picks(3, entries.collect());
            b.pick(x, picks).unwrap()
        }),
        case("a permutation", TestTensors::default(), |b| {
            let x = wide(b, 6, 20);
            b.permute(x, &[(2, 60), (5, 4), (3, 20), (1, 9), (4, 1)], 10, 12).unwrap()
        }),
        case("rows and columns together", TestTensors::default(), |b| {
            let (x, y) = (wide(b, 3, 7), wide(b, 5, 7));
            let both = b.stack(&[x, y]).unwrap();
            let again = b.reshape(both, 4, 14).unwrap();
            b.join(&[again, again]).unwrap()
        }),
        case("a weight as a value", TestTensors::default().floats("w", &[6, 4]), |b| {
            let (x, w) = (wide(b, 4, 6), b.load("w", 4, 6).unwrap());
            b.add(x, w).unwrap()
        }),
        case("zeros where nothing is written", TestTensors::default(), |b| {
            let (x, noise) = (wide(b, 2, 3), b.input(64, 64).unwrap());
            // What lies in the arena before is not zeros.
            b.map(Act::Same, noise, 1.0, Some((Join::Add, Arg::Number(9.0)))).unwrap();
            let (all, x) = (b.value(64, 64).unwrap(), b.all(x));
            b.push(Op::Copy { x, out: all, row: 5, col: 60 });
            b.push(Op::Copy { x, out: all, row: 9, col: 1 });
            all
        }),
    ];
    for pairs in [RotationPairs::Adjacent, RotationPairs::Halves] {
        cases.push(case(format!("{pairs:?} turned"), TestTensors::default(), |b| {
            let x = wide(b, 5, 31);
            let part = b.part(x, 1, 30).unwrap();
            b.rotate(part, 3, (2, 6), pairs, &super::numbers(15, 9)).unwrap();
            x
        }));
    }
    agree(cases, BOUND);
}

/// Sizes and rules of one attention.
struct AttentionCase {
    rows: [usize; 2],
    heads: usize,
    kv_heads: usize,
    dims: [usize; 2],
    spanned: bool,
    biases: usize,
    cap: Option<f32>,
    sinks: bool,
}

fn attention(name: &str, r: AttentionCase) -> Case {
    let AttentionCase { rows: [n, m], heads, kv_heads, dims: [d, dv], .. } = r;
    case(name, TestTensors::default().floats("sinks", &[heads]), |b| {
        let (q, k, v) = (wide(b, n, heads * d + 5), wide(b, m, kv_heads * d + 2), wide(b, m, kv_heads * dv + 3));
        let q = b.part(q, 3, heads * d).unwrap();
        let (k, v) = (b.part(k, 1, kv_heads * d).unwrap(), b.part(v, 2, kv_heads * dv).unwrap());
        let span = |i: usize| [(i * m / (2 * n)) as u32, (i * m / (2 * n) + 1 + i % (m / 2)) as u32];
        let spans = r.spanned.then(|| b.spans((0..n).map(span).collect()));
        let mut biases = Vec::new();
        let digits = [(Digit { div: 1, modulo: 8 }, 8), (Digit { div: 8, modulo: 4 }, 4)];
        for (key, modulo) in &digits[..r.biases] {
            let width = 2 * modulo + 1;
            let val = wide(b, n, heads * width);
            biases.push(Bias { val, width, key: *key, query: (*modulo == 8).then_some(*key), base: *modulo });
        }
        let sinks = r.sinks.then(|| b.vector("sinks", heads).unwrap());
        let scale = 0.3 / (d as f32).sqrt();
        let rules = Attention { heads, kv_heads, scale, spans, biases, soft_cap: r.cap, sinks };
        b.attend((q, k, v), &rules).unwrap()
    })
}

#[test]
fn attention_heeds_all_of_its_rules() {
    let plain = AttentionCase {
        rows: [33, 70],
        heads: 4,
        kv_heads: 4,
        dims: [24, 24],
        spanned: false,
        biases: 0,
        cap: None,
        sinks: false,
    };
    let cases = vec![
        attention("all see all", AttentionCase { ..plain }),
        attention("spans", AttentionCase { spanned: true, ..plain }),
        attention("shared keys", AttentionCase { kv_heads: 2, ..plain }),
        attention("biases of keys and of distances", AttentionCase { biases: 2, ..plain }),
        attention(
            "capped, with biases and sinks",
            AttentionCase { biases: 2, cap: Some(2.0), sinks: true, spanned: true, ..plain },
        ),
        attention("odd and different heads", AttentionCase { dims: [19, 30], heads: 2, kv_heads: 1, ..plain }),
        attention("wide heads", AttentionCase { rows: [5, 40], dims: [256, 256], heads: 1, kv_heads: 1, ..plain }),
        attention("one row", AttentionCase { rows: [1, 3], heads: 1, kv_heads: 1, ..plain }),
    ];
    agree(cases, BOUND);
}

#[test]
fn products_of_heads_choices_codes_and_shares_are_those_of_the_interpreter() {
    let mut cases = Vec::new();
    for shared in [false, true] {
        cases.push(case(format!("products of heads, shared {shared}"), TestTensors::default(), |b| {
            let (x, y) = (wide(b, 7, 25), wide(b, 5, 25));
            let (a, other) = (b.part(x, 1, 24).unwrap(), b.part(y, 0, if shared { 8 } else { 24 }).unwrap());
            let out = b.value(7, 15).unwrap();
            b.push(Op::HeadProducts { a, b: other, heads: 3, out });
            out
        }));
        cases.push(case(format!("choice, biased {shared}"), TestTensors::default().floats("b", &[70]), |b| {
            let x = wide(b, 9, 70);
            let x = b.act(Act::Sigmoid, x).unwrap();
            let bias = shared.then(|| b.vector("b", 70).unwrap());
            let out = b.value(9, 70).unwrap();
            b.push(Op::Choose { x, bias, k: 6, out });
            out
        }));
    }
    cases.push(case(
        "nearest codes",
        TestTensors::default().floats("codes", &[6, 300]).floats("values", &[4, 300]),
        |b| {
            let x = b.input(40, 6).unwrap();
            let (codes, values) = (b.load("codes", 300, 6).unwrap(), b.load("values", 300, 4).unwrap());
            b.nearest(x, codes, values).unwrap()
        },
    ));
    cases.push(case("shares", TestTensors::default(), |b| {
        let x = wide(b, 6, 301);
        b.softmax(x).unwrap()
    }));
    agree(cases, BOUND);
}
