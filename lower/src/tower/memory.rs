//! Where a graph's buffers lie, and which of them must begin as zeros.

use super::Scratch;
use pumex_media::graph::{Graph, Op, Part};
use pumex_plan::Placement;
use std::collections::{BTreeSet, HashMap};

/// Places the graph's buffers, and behind them what ops need beside these.
pub(super) fn places(graph: &Graph, scratch: &[Scratch]) -> Placement {
    let mut lives = vec![None; graph.buffers.len()];
    let mut touch = |buffer: usize, op: usize| {
        let (first, last) = lives[buffer].unwrap_or((op, op));
        lives[buffer] = Some((first.min(op), last.max(op)));
    };
    // Inputs are there before the first op, and the result stays behind the last.
    graph.inputs.iter().for_each(|x| touch(graph.view(*x).buffer, 0));
    for (i, op) in graph.ops.iter().enumerate() {
        op.reads().into_iter().chain([op.output()]).for_each(|x| touch(graph.view(x).buffer, i));
    }
    graph.out.iter().for_each(|x| touch(graph.view(*x).buffer, graph.ops.len()));
    let sizes = graph.buffers.iter().map(|len| 4 * *len as u64).chain(scratch.iter().map(|s| s.bytes));
    lives.extend(scratch.iter().map(|s| Some(s.ops)));
    Placement::of(&lives, sizes)
}

/// Rows and columns of a value.
type Area = [(usize, usize); 2];

fn len(area: &Area) -> usize {
    (area[0].1 - area[0].0) * (area[1].1 - area[1].0)
}

/// Rows and columns that an op writes of its result.
fn written(graph: &Graph, op: &Op) -> Area {
    let rows = graph.view(op.output()).rows;
    let columns = |part: &Part| [(0, rows), (part.at, part.at + part.cols)];
    match op {
        Op::MatMul { out, .. } | Op::Norm { out, .. } | Op::Map { out, .. } => columns(out),
        Op::Rotate { x, .. } => columns(x),
        Op::Copy { x, row, col, .. } => [(*row, row + graph.view(x.val).rows), (*col, col + x.cols)],
        _ => [(0, rows), (0, graph.view(op.output()).cols)],
    }
}

/// Ops before which the buffer that they write must be made zeros: they are the first to write it, and not all of it is written before
/// something reads it.
pub(super) fn zeroed(graph: &Graph) -> BTreeSet<usize> {
    let mut first: HashMap<usize, (usize, Vec<Area>)> = HashMap::new();
    let mut done: BTreeSet<usize> = graph.inputs.iter().map(|x| graph.view(*x).buffer).collect();
    let mut zeroed = BTreeSet::new();
    let covered = |buffer: usize, areas: &[Area]| {
        let meet = |a: &Area, b: &Area| (0..2).all(|i| a[i].0 < b[i].1 && b[i].0 < a[i].1);
        let apart = areas.iter().enumerate().all(|(i, a)| !areas[..i].iter().any(|b| meet(a, b)));
        apart && areas.iter().map(len).sum::<usize>() == graph.buffers[buffer]
    };
    for (i, op) in graph.ops.iter().enumerate() {
        let out = graph.view(op.output()).buffer;
        // What an op writes in part counts as read; here it does not.
        for buffer in op.reads().iter().map(|x| graph.view(*x).buffer).filter(|buffer| *buffer != out) {
            if let Some((op, areas)) = first.remove(&buffer) {
                done.insert(buffer);
                zeroed.extend((!covered(buffer, &areas)).then_some(op));
            }
        }
        let area = written(graph, op);
        if len(&area) == graph.buffers[out] && !first.contains_key(&out) {
            done.insert(out);
        }
        if !done.contains(&out) {
            first.entry(out).or_insert((i, Vec::new())).1.push(area);
        }
    }
    let rest = first.into_iter().filter(|(buffer, (_, areas))| !covered(*buffer, areas));
    zeroed.extend(rest.map(|(_, (op, _))| op));
    zeroed
}
