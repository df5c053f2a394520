//! The ops beside those of the usual transformer, on Vulkan against the reference: each in a plan of its own whose logits are what
//! the op makes, over steps of one row, of few and of many, of sequences that stand between each other, and of sequences that start
//! again where another one's state was.

mod one_op_models;
mod scans;
mod streams;

use crate::util::{in_turn, sample};
use one_op_models::{agrees, cols, fast_agrees, keeps, TestWeights, DIM, EXACT};
use pumex::engine::CacheType;
use pumex::lower::dump::{explain, DryRun};
use pumex::plan::{
    Act, Arg, AttentionSpec, ById, Choose, Conv, Dot, ExpertsBias, ExpertsMatMul, Gate, Gating, General, Groups,
    HeadMatMul, Join, KvSpec, LayerState, Map, Mask, MatPart, NormGate, NormKind, Normalize, Rope, RopeNorm, RopeStyle,
    Rotate, Shift, Temperature, TopK, Val, Weight,
};
use pumex::policy::devices;

const ACTS: [Act; 17] = [
    Act::Inverse,
    Act::Same,
    Act::Silu,
    Act::Gelu,
    Act::GeluErf,
    Act::GeluQuick,
    Act::Relu,
    Act::ReluSquared,
    Act::Sigmoid,
    Act::Tanh,
    Act::Softplus,
    Act::Exp,
    Act::Clamp(-0.5, 1.5),
    Act::SoftCap(3.0),
    Act::Situ(4.0),
    Act::SiluClamped(1.702, 2.0),
    Act::Xielu([0.3, -0.2, 0.5, -1e-6]),
];

fn part(weight: Weight) -> MatPart {
    MatPart { weight, bias: None, scale: 1.0 }
}

#[test]
fn functions_of_columns_are_the_references() {
    for act in ACTS {
        let made = TestWeights::new(8.0);
        let (gguf, plan) = made.plan(&[], &[], |b, x| {
            let out = b.parts("out", DIM);
            let map = Map {
                act,
                a: Arg::Cols(b.all(x)),
                scale: 0.7,
                join: Join::Add,
                b: Arg::Number(0.25),
                groups: 1,
                len: DIM,
                out: b.all(out),
            };
            b.general(General::Map(map));
            out
        });
        if !agrees(&format!("{act:?}"), &gguf, &plan, EXACT) {
            return;
        }
    }
}

/// Large numbers, of which exponentials have no room.
#[test]
fn functions_of_large_numbers_stay_finite() {
    for act in ACTS.into_iter().filter(|act| *act != Act::Exp) {
        let made = TestWeights::new(400.0);
        let (gguf, plan) = made.plan(&[], &[], |b, x| b.act(x, act, 1.0));
        if !agrees(&format!("{act:?}"), &gguf, &plan, EXACT) {
            return;
        }
    }
}

#[test]
fn operands_of_every_kind_meet() {
    let kinds = |w: [Weight; 3], x: Val| {
        let (columns, one) = (Arg::Cols(cols(x, 8, 24)), Arg::PerGroup(cols(x, 3, 5)));
        let (each, all, group) = (Arg::Weight(w[0]), Arg::Weight(w[1]), Arg::GroupWeight(w[2]));
        [columns, one, each, all, group, Arg::Number(-1.5)]
    };
    for (i, join) in (0..6).flat_map(|i| [(i, Join::Add), (i, Join::Mul)]) {
        let mut made = TestWeights::new(2.0);
        let (groups, len) = (5, 7);
        let w = [made.floats(groups, len, 1.0), made.floats(1, len, 1.0), made.floats(1, groups, 1.0)];
        let (gguf, plan) = made.plan(&[], &[], |b, x| {
            let (out, kinds) = (b.parts("out", 50), kinds(w, x));
            // Every column is written: what lies between groups would be whatever it was.
            b.copy_into(cols(x, 0, 50), cols(out, 0, 50), 1, 50);
            let (a, second) = (kinds[i], kinds[(i + 1 + usize::from(join == Join::Mul)) % 6]);
            b.map_into(cols(out, 2, 9), (groups, len), (Act::Tanh, a, 1.5), (join, second));
            b.map_into(cols(out, 2, 9), (groups, len), (Act::Same, Arg::Cols(cols(out, 2, 9)), 2.0), (join, a));
            out
        });
        if !agrees(&format!("operand {i}, {join:?}"), &gguf, &plan, EXACT) {
            return;
        }
    }
}

#[test]
fn dot_products_of_groups_are_the_references() {
    for (i, (groups, len)) in [(1, DIM), (4, 60), (5, 7), (3, 1)].into_iter().cycle().take(12).enumerate() {
        let mut made = TestWeights::new(2.0);
        let (own, all, each) = (made.floats(groups, len, 1.0), made.floats(1, len, 1.0), made.floats(1, groups, 1.0));
        let (gguf, plan) = made.plan(&[], &[], |b, x| {
            let out = b.copy(x);
            let x = Arg::Cols(cols(x, 1 % groups, len + 1 % groups));
            let other = [Arg::Weight(own), Arg::Weight(all), Arg::GroupWeight(each), Arg::Number(0.25)];
            let (a, b_arg) = if i < 8 { (x, other[i % 4]) } else { (other[i % 4], x) };
            let (act, scale) = if i == 3 { (Act::Tanh, 0.3) } else { (Act::Same, 1.5) };
            b.general(General::Dot(Dot { act, scale, a, b: b_arg, groups, len, out: cols(out, 2, 9) }));
            // The length of columns.
            let length = b.dot((groups, len), x, x, (Act::Sqrt, 1.0));
            b.copy_into(b.all(length), cols(out, 100, groups), 1, groups);
            out
        });
        if !agrees(&format!("{i}: {groups} of {len}"), &gguf, &plan, EXACT) {
            return;
        }
    }
}

#[test]
fn norms_of_groups_are_the_references() {
    let kinds = [NormKind::Rms, NormKind::Layer, NormKind::L2, NormKind::Unit];
    for (i, kind) in kinds.into_iter().cycle().take(12).enumerate() {
        let mut made = TestWeights::new(3.0);
        let (groups, len) = [(1, DIM), (4, 30), (3, 64)][i / 4];
        let own = made.floats(groups, len, 1.0);
        let shared = made.floats(1, len, 1.0);
        let (weight, bias) = [(Some(own), Some(shared)), (Some(shared), None), (None, Some(own))][i % 3];
        let (gguf, plan) = made.plan(&[], &[], |b, x| {
            let out = b.parts("out", DIM);
            b.copy_into(b.all(x), b.all(out), 1, DIM);
            // Every other one reads and writes four at a time.
            let from = if i % 2 == 0 { 4 } else { 1 } % groups.pow(2);
            let by = NormGate { cols: cols(x, 0, len), act: Act::Silu, first: i % 3 == 0 };
            let gate = (i % 5 != 1).then_some(by);
            let (x, place) = (cols(x, from, len + from), cols(out, 0, len));
            let eps = if kind == NormKind::L2 { 1e-6 } else { 0.1 };
            b.general(General::Normalize(Normalize { kind, x, groups, len, weight, bias, gate, eps, out: place }));
            out
        });
        if !agrees(&format!("{kind:?}, {groups} of {len}"), &gguf, &plan, EXACT) {
            return;
        }
    }
    // Of output rows.
    let mut made = TestWeights::new(3.0);
    let (w, bias) = (made.floats(1, DIM, 1.0), made.floats(1, DIM, 1.0));
    let (gguf, plan) = made.plan(&[], &[], |b, x| b.normalize_output(NormKind::Layer, x, Some(w), Some(bias), 1e-5));
    agrees("output rows", &gguf, &plan, EXACT);
}

#[test]
fn rotations_are_the_references() {
    let freqs: Vec<f32> = (0..12).map(|i| 0.5f32.powi(i)).collect();
    let hot = Some(Temperature { scale: 0.1, floor: 4, offset: 1.0 });
    for (i, (style, back, dims, len, temperature)) in [
        (RopeStyle::Norm, false, 24, 30, None),
        (RopeStyle::Neox, true, 24, 40, hot),
        (RopeStyle::Neox, false, 16, 20, hot),
        (RopeStyle::Norm, true, 8, 4, hot),
        (RopeStyle::Norm, false, 0, 11, hot),
    ]
    .into_iter()
    .enumerate()
    {
        let (gguf, plan) = TestWeights::new(2.0).plan(&[], std::slice::from_ref(&freqs), |b, x| {
            let rope = Rope { style, dims, table: 0, norm_eps: 0.0 };
            let magnitude = 1.25;
            b.general(General::Rotate(Rotate {
                x: cols(x, 3, 41),
                from: None,
                groups: 3,
                rope,
                back,
                every: 1,
                magnitude,
                temperature,
                len,
            }));
            x
        });
        if !agrees(&format!("rotation {i}"), &gguf, &plan, EXACT) {
            return;
        }
    }
}

const FORMATS: [&str; 7] = ["F32", "Q4_K", "IQ4_XS", "F16", "Q8_0", "BF16", "IQ2_XXS"];

#[test]
fn positions_are_added_from_weights_of_every_kind() {
    for name in sample(&FORMATS, 3) {
        let mut made = TestWeights::new(1.0);
        let table = made.add_matrix(name, 96, DIM);
        let (gguf, plan) = made.plan(&[], &[], |b, x| {
            b.general(General::Positions { weight: table, out: x });
            x
        });
        if !agrees(name, &gguf, &plan, EXACT) {
            return;
        }
    }
}

#[test]
fn heads_have_matrices_of_their_own() {
    let shapes = [(32, 40), (3, 7), (64, 5), (256, 9)];
    for (i, name) in sample(&FORMATS, 4).iter().enumerate() {
        for (k, m) in shapes {
            let block = pumex_quant::all().find(|f| f.name == *name).unwrap().block_len;
            if k % block != 0 {
                continue;
            }
            let mut made = TestWeights::new(1.0);
            let heads = if k == 256 { 1 } else { 3 };
            let weight = made.add_matrix(name, heads * m, k);
            let (gguf, plan) = made.plan(&[], &[], |b, x| {
                let (x, out) = (
                    cols(x, if k == 256 { 0 } else { i % 2 * 4 + usize::from(m == 5) }, k.min(64)),
                    b.parts("out", heads * m + 4),
                );
                b.copy_into(cols(x.val, 0, 1), cols(out, 0, 1), 1, heads * m + 4);
                b.general(General::HeadMatMul(HeadMatMul { x, weight, heads, out: cols(out, 2, m) }));
                out
            });
            let what = format!("{name}, {k} x {m}");
            // With BF16 some machines round the other factor, too.
            let bound = if *name == "BF16" { 3e-5 } else { EXACT };
            fast_agrees(&what, &gguf, &plan, if block == 1 { bound } else { 5e-4 });
            if !agrees(&what, &gguf, &plan, EXACT) {
                return;
            }
        }
    }
}

/// Products like those of Mamba's step sizes: of two inputs, after another product.
#[test]
fn products_of_few_inputs_are_done_number_by_number() {
    for name in ["F16", "F32"] {
        let mut made = TestWeights::new(1.0);
        let (narrow, wide, bias) =
            (made.add_matrix("F32", 2, DIM), made.add_matrix(name, 37, 2), made.floats(1, 37, 1.0));
        let (gguf, plan) = made.plan(&[], &[], |b, x| {
            let h = b.matmul("narrow", x, vec![part(narrow)]);
            b.matmul("wide", h, vec![MatPart { weight: wide, bias: Some(bias), scale: 0.5 }])
        });
        agrees(name, &gguf, &plan, EXACT);
    }
}

#[test]
fn experts_are_chosen_by_every_rule() {
    let rule = |gating, bias, groups, least_sum| (gating, bias, groups, least_sum);
    let some = |count, used| Some(Groups { count, used });
    for (i, (gating, biased, groups, least_sum)) in [
        rule(Gating::Softmax, false, None, Some(1e-5)),
        rule(Gating::Softmax, true, some(4, 2), None),
        rule(Gating::SoftmaxOfTaken, false, None, None),
        rule(Gating::SoftmaxOfTaken, true, some(8, 3), Some(1e-5)),
        rule(Gating::Sigmoid, true, some(4, 1), Some(1e-20)),
        rule(Gating::SqrtSoftplus, true, None, Some(1e-20)),
    ]
    .into_iter()
    .enumerate()
    {
        let mut made = TestWeights::new(6.0);
        let top_k = TopK { n_expert: if groups.is_some() { 48 } else { 37 }, k: 5 };
        let bias = biased.then(|| made.floats(1, top_k.n_expert, 0.5));
        let router = made.add_matrix("F32", top_k.n_expert, DIM);
        let (gguf, plan) = made.plan(&[], &[], |b, x| {
            let logits = b.matmul("logits", x, vec![part(router)]);
            let out = b.parts("route", 4 * top_k.k);
            let sharing = if i == 0 { 4 } else { 1 };
            let choose = Choose {
                logits,
                router: None,
                top_k,
                gating,
                bias,
                groups,
                table: None,
                least_sum,
                scale: 1.5,
                sharing,
                out,
            };
            b.general(General::Choose(choose));
            // Ids are bits of no number that counts: their places are compared as functions of the weights.
            let weights = b.parts("weights", 3 * top_k.k);
            b.copy_into(cols(out, top_k.k, 1), cols(weights, 0, 1), 1, 3 * top_k.k);
            weights
        });
        if !agrees(&format!("rule {i}"), &gguf, &plan, EXACT) {
            return;
        }
    }
}

#[test]
fn experts_may_follow_from_ids() {
    let mut made = TestWeights::new(6.0);
    let top_k = TopK { n_expert: 11, k: 3 };
    let table = Some(made.values(64, 3, |i| f32::from_bits((i as u32 * 7 + i as u32 / 3) % 11)));
    let router = made.add_matrix("F32", top_k.n_expert, DIM);
    let (gguf, plan) = made.plan(&[], &[], |b, x| {
        let logits = b.matmul("logits", x, vec![part(router)]);
        let out = b.parts("route", 4 * top_k.k);
        let (gating, least_sum) = (Gating::SqrtSoftplus, Some(1e-9));
        let (bias, groups) = (None, None);
        b.general(General::Choose(Choose {
            logits,
            router: None,
            top_k,
            gating,
            bias,
            groups,
            table,
            least_sum,
            scale: 1.5,
            sharing: 1,
            out,
        }));
        let weights = b.parts("weights", 3 * top_k.k);
        b.copy_into(cols(out, top_k.k, 1), cols(weights, 0, 1), 1, 3 * top_k.k);
        weights
    });
    agrees("ids", &gguf, &plan, EXACT);
}

#[test]
fn columns_and_embedded_rows_may_follow_from_a_short_list_of_ids() {
    let (gguf, mut plan) = TestWeights::new(2.0).plan(&[], &[], |b, x| {
        let told = b.parts("told", DIM);
        b.general(General::ById(ById { list: 0, len: DIM, out: told }));
        let other = b.embed_instead(Weight(0), 1);
        b.add(other, 1.0, told);
        b.add(x, 1.0, told);
        told
    });
    let entry = |id: i16, by: f32| std::iter::once(f32::from(id)).chain((0..DIM).map(move |i| by * i as f32));
    plan.numbers = vec![
        entry(-1, 0.01).chain(entry(7, -0.02)).chain(entry(44, 0.03)).collect(),
        vec![44.0, 3.0, 9.0, 44.0, 12.0, 12.0],
    ];
    fast_agrees("ids", &gguf, &plan, EXACT);
    agrees("ids", &gguf, &plan, EXACT);
}

/// Gate, up and down one by one, as models have them whose activation no kernel does with its products.
#[test]
fn experts_products_stand_side_by_side() {
    for name in sample(&["F32", "Q4_K", "F16", "Q8_0", "IQ4_XS"], 3) {
        let mut made = TestWeights::new(1.0);
        let (top_k, ffn) = (TopK { n_expert: 6, k: 3 }, 256);
        let router = made.add_matrix("F32", 6, DIM);
        let [up, down] = [(ffn, DIM), (40, ffn)].map(|(m, k)| made.add_matrix(name, 6 * m, k));
        let biases = [made.floats(6, ffn, 1.0), made.floats(6, 40, 1.0)];
        let (gguf, plan) = made.plan(&[], &[], |b, x| {
            let logits = b.matmul("logits", x, vec![part(router)]);
            let route = b.parts("route", 4 * top_k.k);
            let (gating, least_sum) = (Gating::Sigmoid, Some(1e-9));
            let (bias, groups, sharing) = (None, None, 1);
            let choose = Choose {
                logits,
                router: None,
                top_k,
                gating,
                bias,
                groups,
                table: None,
                least_sum,
                scale: 1.0,
                sharing,
                out: route,
            };
            b.general(General::Choose(choose));
            let hidden = b.parts("hidden", top_k.k * ffn);
            let product = ExpertsMatMul { x, route, top_k, weight: up, own_input: false, out: hidden };
            b.general(General::ExpertsMatMul(product));
            b.general(General::ExpertsBias(ExpertsBias { route, top_k, bias: biases[0], out: hidden }));
            let acted = b.act(hidden, Act::ReluSquared, 1.0);
            let out = b.parts("out", top_k.k * 40);
            let product = ExpertsMatMul { x: acted, route, top_k, weight: down, own_input: true, out };
            b.general(General::ExpertsMatMul(product));
            b.general(General::ExpertsBias(ExpertsBias { route, top_k, bias: biases[1], out }));
            out
        });
        let exact = *name == "F32" || *name == "F16";
        fast_agrees(name, &gguf, &plan, if exact { EXACT } else { 1e-3 });
        if !agrees(name, &gguf, &plan, if exact { EXACT } else { 1e-8 }) {
            return;
        }
    }
}

/// Gates of every kind, of all rows and of experts that have biases.
#[test]
fn gates_meet_what_they_gate_as_in_the_reference() {
    let gates = [
        Gate::SILU,
        Gate { act: Act::SiluClamped(1.702, 0.8), limit: Some(0.7), plus: 1.0 },
        Gate { act: Act::Gelu, limit: None, plus: 0.0 },
        Gate { act: Act::ReluSquared, limit: None, plus: 0.5 },
    ];
    for (i, name) in sample(&["Q4_K", "F32", "F16", "Q8_0", "IQ4_XS", "Q6_K"], 3).iter().enumerate() {
        // Two each: most of the time goes into pipelines.
        let two = gates.into_iter().cycle().skip(2 * i + 1).take(2).enumerate();
        for (j, by) in two.filter(|(j, _)| in_turn(i + j, 2)) {
            let mut made = TestWeights::new(1.0);
            let (top_k, ffn) = (TopK { n_expert: 6, k: 3 }, 256);
            let router = made.add_matrix("F32", 6, DIM);
            let of = |made: &mut TestWeights, parts: usize| {
                [(ffn, DIM), (ffn, DIM), (DIM, ffn)].map(|(m, k)| made.add_matrix(name, parts * m, k))
            };
            let (dense, experts) = (of(&mut made, 1), of(&mut made, 6));
            let biases = [ffn, ffn, DIM].map(|m| Some(made.floats(6, m, 1.0)));
            let biases = if (i + j) % 2 == 1 { biases } else { [None; 3] };
            let (gguf, plan) = made.plan(&[], &[], |b, x| {
                let hidden = b.matmul_gated(x, part(dense[0]), part(dense[1]), by);
                let out = b.matmul("out", hidden, vec![part(dense[2])]);
                let logits = b.matmul("logits", x, vec![part(router)]);
                let route = b.route(logits, top_k, 1.0, [None; 3]);
                let hidden =
                    b.matmul_gated_experts(x, (route, top_k), [experts[0], experts[1]], [biases[0], biases[1]], by);
                b.experts_add(hidden, (route, top_k), experts[2], biases[2], out);
                out
            });
            let exact = *name == "F32" || *name == "F16";
            fast_agrees(name, &gguf, &plan, if exact { EXACT } else { 1e-3 });
            if !agrees(&format!("{name} {by}"), &gguf, &plan, if exact { EXACT } else { 1e-8 }) {
                return;
            }
        }
    }
}

#[test]
fn convolutions_go_over_the_rows_of_their_sequence() {
    for (k, silu, biased, in_place) in [(4, true, true, false), (3, false, false, true), (2, true, false, false)] {
        let mut made = TestWeights::new(2.0);
        let channels = 70;
        let (weight, bias) = (made.floats(channels, k, 1.0), biased.then(|| made.floats(1, channels, 1.0)));
        let (gguf, plan) = made.plan(&keeps(5 + k * channels), &[], |b, x| {
            let out = if in_place { x } else { b.parts("out", channels + 3) };
            let (x, place) = (cols(x, 9, 0), cols(out, if in_place { 9 } else { 0 }, 0));
            if !in_place {
                b.copy_into(cols(x.val, 0, 0), cols(out, channels, 0), 1, 3);
            }
            b.general(General::Conv(Conv { x, channels, weight, bias, silu, layer: 0, at: 5, out: place, norm: None }));
            out
        });
        if !agrees(&format!("{k} taps"), &gguf, &plan, EXACT) {
            return;
        }
    }
}

#[test]
fn convolutions_norm_their_first_columns() {
    for (kind, groups, len, in_place) in [(NormKind::Unit, 2, 64, false), (NormKind::L2, 1, 128, true)] {
        let mut made = TestWeights::new(2.0);
        let (channels, k) = (200, 4);
        let weight = made.floats(channels, k, 1.0);
        let (gguf, plan) = made.plan(&keeps(k * channels), &[], |b, x| {
            let out = if in_place { x } else { b.parts("out", channels) };
            let (x, out) = (cols(x, 3, 0), cols(out, if in_place { 3 } else { 0 }, 0));
            b.general(General::Conv(Conv {
                x,
                channels,
                weight,
                bias: None,
                silu: true,
                layer: 0,
                at: 0,
                out,
                norm: None,
            }));
            let x = cols(out.val, out.at, len);
            let (weight, bias, gate, eps) = (None, None, None, 0.1);
            b.general(General::Normalize(Normalize { kind, x, groups, len, weight, bias, gate, eps, out: x }));
            out.val
        });
        let (caps, cache_types) = (devices::lavapipe(), (CacheType::F32, CacheType::F32));
        let one = DryRun {
            plan: &plan,
            caps: &caps,
            rows: 1,
            decode_batch: true,
            outputs: 1,
            cache_types,
            len: 9,
            source: false,
        };
        let modules: Vec<String> = explain(&one).unwrap().dispatches.into_iter().map(|d| d.module).collect();
        assert!(modules.iter().all(|module| !module.starts_with("normalize")), "{modules:?}");
        if !agrees(&format!("{kind:?}"), &gguf, &plan, EXACT) {
            return;
        }
    }
}

#[test]
fn shifted_rows_are_those_before() {
    let (gguf, plan) = TestWeights::new(2.0).plan(&keeps(7 + DIM), &[], |b, x| {
        let out = b.parts("out", DIM);
        b.general(General::Shift(Shift { x, layer: 0, at: 7, out }));
        out
    });
    agrees("shift", &gguf, &plan, EXACT);
}

/// Heads that are not rotated, of which one or none is normed, and widths that no matrix has.
#[test]
fn heads_may_stay_as_they_are() {
    for (i, (norms, dims, head_dim)) in
        [([false, false], 0, 32), ([true, false], 8, 24), ([false, true], 0, 20), ([true, true], 0, 64)]
            .into_iter()
            .enumerate()
    {
        let mut made = TestWeights::new(1.0);
        let qkv = made.add_matrix("F32", 4 * head_dim, DIM);
        let [q_norm, k_norm] = norms.map(|normed| normed.then(|| made.floats(1, head_dim, 1.0)));
        let mask = if i == 1 { Mask::Window(9) } else { Mask::Causal };
        let spec = AttentionSpec { mask, ..AttentionSpec::causal(0, 2, 1, head_dim) };
        let kv = KvSpec { kv_heads: 1, k_dim: head_dim, v_dim: head_dim, window: None };
        let freqs: Vec<Vec<f32>> = if dims > 0 { vec![(0..4).map(|i| 0.5f32.powi(i)).collect()] } else { vec![vec![]] };
        let (gguf, plan) = made.plan(&[LayerState::KeysValues(kv)], &freqs, |b, x| {
            let qkv = b.matmul("qkv", x, vec![part(qkv)]);
            let rope = Rope { style: RopeStyle::Neox, dims, table: 0, norm_eps: 1e-5 };
            b.rope_kv(qkv, spec, RopeNorm { rope, q_norm, k_norm });
            b.attend(qkv, spec, 0.3)
        });
        if !agrees(&format!("heads {i}"), &gguf, &plan, 1e-9) {
            return;
        }
    }
}
