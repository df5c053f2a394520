//! DeepSeek-OCR: a tower of Segment Anything, then one of CLIP, or in the second version one of Qwen2 with learned queries.

use super::pieces::{frequency, raster, taps, Sampling};
use super::qwen::window_spans;
use super::sam;
use super::vit::{norm_if, Turn, Vit};
use super::Context;
use crate::graph::{Act, Arg, GraphTable, Join, NormKind, RotationPairs, Val};
use crate::{Attention, Builder, Error, Result};

/// The epsilon of the norms of the tower of CLIP.
const EPS: f32 = 1e-5;
/// The base of the rotation's frequencies in the tower of Qwen2.
const THETA: f32 = 1_000_000.0;

/// DeepSeek-OCR.
pub(super) fn one(b: &mut Builder<'_>, of: &Context<'_>) -> Result<Val> {
    let (seen, tiles) = sam::build(b, of)?;
    let each = tiles.side * tiles.side;
    let class = b.load("v.class_embd", 1, of.clip.width)?;
    let all = b.stack(&[seen, class])?;
    let with_class = |tile: usize| {
        let class = (tiles.count * each) as i32;
        std::iter::once(class).chain((0..each).map(move |i| (tile * each + i) as i32))
    };
    let order: Vec<i32> = (0..tiles.count).flat_map(with_class).collect();
    let x = b.reorder(all, &order)?;
    let table = positions(b, of.clip.width, tiles.side)?;
    let x = b.map(Act::Same, x, 1.0, Some((Join::Add, Arg::Table(table))))?;
    let mut x = norm_if(b, NormKind::Layer, x, "v.pre_ln", EPS)?;
    let vit = Vit { eps: EPS, act: Act::GeluQuick, ..Vit::new(of.clip) };
    let spans = b.spans(window_spans(std::iter::repeat_n(each + 1, tiles.count)));
    for index in 0..of.clip.blocks {
        x = vit.block(b, x, index, Some(spans))?;
    }
    let x = norm_if(b, NormKind::Layer, x, "v.post_ln", EPS)?;
    let patches = |tile: usize| (0..each).map(move |i| (tile * (each + 1) + 1 + i) as i32);
    let order: Vec<i32> = (0..tiles.count).flat_map(patches).collect();
    let x = b.reorder(x, &order)?;
    let x = b.join(&[x, seen])?;
    let x = b.linear(x, "mm.model.fc")?;
    let line = b.load("v.image_newline", 1, b.cols(x))?;
    let all = b.stack(&[x, line])?;
    let (side, count) = (tiles.side, tiles.count);
    let lines = (0..side).flat_map(|y| {
        let rows = (0..count * side).map(move |i| ((i / side * side + y) * side + i % side) as i32);
        rows.chain(std::iter::once((count * each) as i32))
    });
    let order: Vec<i32> = lines.collect();
    let x = b.reorder(all, &order)?;
    separate(b, of, x)
}

/// The row that separates views, if it follows.
fn separate(b: &mut Builder<'_>, of: &Context<'_>, x: Val) -> Result<Val> {
    match of.inputs[0].view_separator {
        false => Ok(x),
        true => {
            let row = b.load("v.view_seperator", 1, b.cols(x))?;
            b.stack(&[x, row])
        }
    }
}

/// Positions of a tile's rows, the class row in front: rows of the file's table in order, although its last one is that of the class.
///
/// For a grid of another size llama.cpp, whose results are those that count, samples the table as one picture of one channel, with a
/// line for each point and a pixel for each column, lets the numbers of the small picture count on through all rows, and takes the
/// last row from as many bytes behind the table's start as there are points.
fn positions(b: &mut Builder<'_>, width: usize, side: usize) -> Result<GraphTable> {
    let name = "v.position_embd.weight";
    let numbers = b.floats(name)?;
    let points = (numbers.len() / width).saturating_sub(1);
    let from = points.isqrt();
    if points == 0 || from * from != points || numbers.len() != (points + 1) * width {
        return Err(Error::Shape(format!("{name}: expected a square of positions and one, found {points} + 1")));
    }
    if from == side {
        return Ok(b.table(width, numbers));
    }
    let (across, down) = (taps(width, side, Sampling::Cubic), taps(points, side, Sampling::Cubic));
    let mut sampled = Vec::with_capacity(side * side);
    for rows in &down {
        for cols in &across {
            let line = |y: usize| cols.iter().map(|(x, f)| f * numbers[y * width + x]).sum::<f32>();
            sampled.push(rows.iter().map(|(y, f)| f * line(*y)).sum::<f32>());
        }
    }
    let mut table: Vec<f32> = sampled.iter().copied().cycle().take(side * side * width).collect();
    table.extend_from_slice(&numbers[points / 4..][..width]);
    Ok(b.table(width, table))
}

/// DeepSeek-OCR 2: learned queries behind the rows see all rows and the queries before them.
pub(super) fn two(b: &mut Builder<'_>, of: &Context<'_>) -> Result<Val> {
    let (seen, tiles) = sam::build(b, of)?;
    let rows = b.rows(seen);
    let name = match rows {
        144 if tiles.count == 1 => "v.resample_query_768.weight",
        256 if tiles.count == 1 => "v.resample_query_1024.weight",
        _ => {
            return Err(Error::Medium(format!(
                "expected a picture of 768 or 1,024 pixels to a side, found {} x {}",
                of.inputs[0].width, of.inputs[0].height
            )))
        }
    };
    let queries = b.load(name, rows, of.clip.width)?;
    let x = b.stack(&[seen, queries])?;
    let mut vit = Vit { norm: NormKind::Rms, act: Act::Silu, ..Vit::new(of.clip) };
    let dims = vit.head_dim;
    let turn = |row: usize| (0..dims / 2).map(move |j| row as f32 * frequency(THETA, 2 * j, dims));
    let angles = (0..2 * rows).flat_map(turn).collect();
    vit.turns = vec![Turn { columns: (0, dims), pairs: RotationPairs::Halves, angles }];
    let spans = b.spans((0..2 * rows).map(|i| [0, rows.max(i + 1) as u32]).collect());
    let rules = Attention { spans: Some(spans), ..vit.rules() };
    let mut x = norm_if(b, NormKind::Rms, x, "v.pre_ln", of.clip.eps)?;
    for index in 0..of.clip.blocks {
        x = vit.block_by(b, x, index, &rules)?;
    }
    let x = norm_if(b, NormKind::Rms, x, "v.post_ln", of.clip.eps)?;
    let order: Vec<i32> = raster(2 * rows).split_off(rows);
    let x = b.reorder(x, &order)?;
    let x = b.linear(x, "mm.model.fc")?;
    separate(b, of, x)
}
