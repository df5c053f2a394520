//! Several residual streams, and attention over blocks of rows.

use super::one_op_models::{agrees, cols, TestWeights, DIM, EXACT};
use pumex::plan::{
    AttendBlocks, ChooseBlocks, Entries, General, LayerState, Mix, Pool, RecurrentSpec, Rope, RopeStyle, Rotate,
    Softmax, StreamGates,
};

#[test]
fn groups_of_columns_are_mixed_by_numbers_of_their_row() {
    for (from, to, len, add) in [(4, 1, 40, false), (1, 4, 33, true), (3, 3, 50, false)] {
        let (gguf, plan) = TestWeights::new(2.0).plan(&[], &[], |b, x| {
            let out = b.copy(x);
            let (by, stride) = (cols(x, 3, to + 1), if from == 1 { 0 } else { len + 2 });
            let (x, out) = (cols(x, 9, stride), cols(out, 5, len + 1));
            b.general(General::Mix(Mix { x, by, from, to, len, add, out }));
            out.val
        });
        if !agrees(&format!("{from} to {to}"), &gguf, &plan, EXACT) {
            return;
        }
    }
}

#[test]
fn softmax_goes_over_each_group() {
    let (gguf, plan) = TestWeights::new(30.0).plan(&[], &[], |b, x| {
        b.general(General::Softmax(Softmax { x: cols(x, 2, 12), groups: 7, len: 9 }));
        x
    });
    agrees("softmax", &gguf, &plan, EXACT);
}

#[test]
fn streams_have_gates_and_a_matrix_that_is_balanced() {
    for (count, parts, rounds) in [(4, 1, 1), (4, 2, 0), (4, 3, 1), (3, 3, 20)] {
        let mut made = TestWeights::new(6.0);
        let len = [count, 2 * count, (2 + count) * count][parts - 1];
        let (scale, base) = (made.floats(1, parts, 2.0), made.floats(1, len, 2.0));
        let (gguf, plan) = made.plan(&[], &[], |b, x| {
            let (x, eps, magnitude, post_eps) = (cols(x, 5, 0), 1e-3, 1.5, 1e-2);
            b.general(General::StreamGates(StreamGates {
                x,
                count,
                scale,
                base,
                len,
                eps,
                magnitude,
                post_eps,
                rounds,
            }));
            x.val
        });
        if !agrees(&format!("{parts} parts of {count}, {rounds} rounds"), &gguf, &plan, EXACT) {
            return;
        }
    }
}

#[test]
fn rows_see_those_before_and_entries_of_blocks() {
    for (every, overlaps, window) in [(0, false, 5), (4, true, 3), (8, false, 40), (3, true, 1), (2, false, 4)] {
        let mut made = TestWeights::new(2.0);
        let (heads, dim) = (2, 32);
        let wide = dim * if overlaps { 2 } else { 1 };
        let rows = every * if overlaps { 2 } else { 1 };
        let sinks = made.floats(1, heads, 2.0);
        let place = (every > 0).then(|| made.floats(every, wide, 2.0));
        let slots = if every > 0 { 256usize.div_ceil(every) } else { 0 };
        let parts =
            vec![("window", vec![window, dim]), ("rows", vec![rows, 2 * wide]), ("entries", vec![slots, 2 * dim])];
        let layers = [LayerState::Recurrent(RecurrentSpec { parts })];
        let freqs = vec![0.5, 0.25, 0.125, 0.01];
        let (gguf, plan) = made.plan(&layers, &[freqs], |b, x| {
            let at = window * dim;
            let entries = place.map(|place| {
                let entry = b.parts("entry", dim);
                let (rows_of, out) = (cols(x, 64, 0), cols(entry, 0, dim));
                b.general(General::Pool(Pool {
                    x: rows_of,
                    place: Some(place),
                    every,
                    overlaps,
                    len: dim,
                    layer: 0,
                    at,
                    out,
                }));
                let rope = Rope { style: RopeStyle::Norm, dims: 8, table: 0, norm_eps: 0.0 };
                let every_row = Rotate {
                    x: cols(entry, 20, dim),
                    from: None,
                    groups: 1,
                    rope,
                    back: false,
                    every: every as u32,
                    magnitude: 1.0,
                    temperature: None,
                    len: 0,
                };
                b.general(General::Rotate(every_row));
                Entries { x: out, every, slots, at: at + rows * 2 * wide, stride: 2 * dim }
            });
            // Where entries are more than those that are chosen.
            let chosen = entries.map(|e| {
                let (chosen, most) = (b.parts("chosen", slots), if every == 2 { 5 } else { 256 });
                let (q, weights, heads, out) = (cols(x, 10, 40), cols(x, 150, 1), 3, cols(chosen, 0, slots));
                let entries = Entries { x: cols(x, 170, 0), at: e.at + dim, ..e };
                b.general(General::ChooseBlocks(ChooseBlocks {
                    q,
                    weights,
                    heads,
                    dim: 24,
                    entries,
                    layer: 0,
                    most,
                    out,
                }));
                (out, most)
            });
            let attended = b.parts("out", DIM / 2);
            let (q, k, out) = (cols(x, 0, dim), cols(x, 200, 0), cols(attended, 7, dim + 1));
            b.copy_into(cols(x, 0, 0), cols(attended, 0, 0), 1, DIM / 2);
            let (layer, scale) = (0, 0.7);
            b.general(General::AttendBlocks(AttendBlocks {
                q,
                k,
                heads,
                dim,
                window,
                layer,
                at: 0,
                entries,
                chosen,
                sinks,
                scale,
                out,
            }));
            attended
        });
        if !agrees(&format!("blocks of {every}, window {window}"), &gguf, &plan, EXACT) {
            return;
        }
    }
}
