//! MiMo-Audio: a causal tower, codes of its rows, and a small tower over groups of these.

use super::pieces::raster;
use super::sound::{angles, conv_of_three, frames, pad_rows};
use super::vit::{mlp, Turn, Vit};
use super::Context;
use crate::graph::{Act, Arg, Join, NormKind, RotationPairs, Val, Window};
use crate::{Attention, Builder, Error, Result};

/// The block whose rows, as its attention leaves them, are added again behind the last one.
const AGAIN: usize = 2;
/// The bases of the frequencies of the tower's rotation, and of that over groups.
const THETAS: [f32; 2] = [10_000.0, 640_000.0];

/// MiMo-Audio.
pub(super) fn mimo(b: &mut Builder<'_>, of: &Context<'_>) -> Result<Val> {
    let x = tower(b, of)?;
    let x = codes(b, of, x)?;
    local(b, of, x)
}

fn rotation_rows(of: &Context<'_>, positions: impl Iterator<Item = usize>, theta: f32) -> Vit {
    let dims = of.clip.head_dim;
    let turn = Turn { columns: (0, dims), pairs: RotationPairs::Halves, angles: angles(positions, dims, theta) };
    Vit { act: Act::GeluErf, turns: vec![turn], ..Vit::new(of.clip) }
}

/// Rows of four frames.
fn tower(b: &mut Builder<'_>, of: &Context<'_>) -> Result<Val> {
    let x = frames(b, of)?;
    let x = conv_of_three(b, x, "a.conv1d.1", 1)?;
    let x = b.act(Act::GeluErf, x)?;
    let x = conv_of_three(b, x, "a.conv1d.2", 2)?;
    let mut x = b.act(Act::GeluErf, x)?;
    let rows = b.rows(x);
    let (pattern, window) = (of.keys.list("wa_pattern_mode")?, of.keys.size("window_size")?);
    if pattern.len() != of.clip.blocks || of.clip.blocks <= AGAIN {
        return Err(Error::Key(format!(
            "clip.audio.wa_pattern_mode: expected a number for each of at least {} blocks, found {} for {}",
            AGAIN + 1,
            pattern.len(),
            of.clip.blocks
        )));
    }
    let mut seen = |reach: usize| {
        let span = |row: usize| [row.saturating_sub(reach) as u32, row as u32 + 1];
        b.spans((0..rows).map(span).collect())
    };
    let (all, near) = (seen(rows), seen(window));
    let vit = rotation_rows(of, 0..rows, THETAS[0]);
    let mut again = x;
    for (index, mode) in pattern.iter().enumerate() {
        let spans = Some(if *mode == -1 { all } else { near });
        let name = |part: &str| format!("a.blk.{index}.{part}");
        let normed = b.norm(NormKind::Layer, x, &name("ln1"), of.clip.eps)?;
        let attended = vit.attention(b, normed, index, &Attention { spans, ..vit.rules() })?;
        x = b.add(x, attended)?;
        if index == AGAIN {
            again = x;
        }
        let normed = b.norm(NormKind::Layer, x, &name("ln2"), of.clip.eps)?;
        let fed = vit.feed(b, normed, &format!("a.blk.{index}"))?;
        x = b.add(x, fed)?;
    }
    let x = b.add(x, again)?;
    let x = b.norm(NormKind::Layer, x, "a.post_ln", of.clip.eps)?;
    let halves = Window { size: [rows, 1], kernel: [2, 1], stride: [2, 1], before: [0; 2], out: [rows / 2, 1] };
    let x = b.conv(x, "a.downsample.conv", halves)?;
    let x = b.act(Act::GeluErf, x)?;
    b.norm(NormKind::Layer, x, "a.downsample.norm", of.clip.eps)
}

/// Tables of `cols` columns that lie behind each other, and how many rows each has.
fn tables(b: &mut Builder<'_>, name: &str, cols: usize, count: usize) -> Result<(Val, usize)> {
    let len: usize = b.shape(name)?.iter().product();
    let rows = len / cols.max(1) / count;
    Ok((b.load(name, rows * count, cols)?, rows))
}

/// Sums of what the codes of each row stand for: each code is the nearest to what those before it left.
fn codes(b: &mut Builder<'_>, of: &Context<'_>, x: Val) -> Result<Val> {
    let (count, sizes) = (of.keys.size("rvq.num_quantizers")?, of.keys.list("rvq.codebook_size")?);
    let cols = b.cols(x);
    let (books, held) = tables(b, "a.rvq.codebook.weight", cols, count)?;
    let (embeddings, known) = tables(b, "mm.a.code_embd.weight", cols, count)?;
    let fits = |n: &i64| (1..=held.min(known) as i64).contains(n);
    if sizes.len() != count || !sizes.iter().all(fits) {
        return Err(Error::Key(format!(
            "clip.audio.rvq.codebook_size: expected {count} sizes from 1 to {}, found {sizes:?}",
            held.min(known)
        )));
    }
    let (mut rest, mut sum) = (x, None);
    for (index, size) in sizes.iter().enumerate() {
        let of_table =
            |each: usize| raster(*size as usize).iter().map(|row| row + (index * each) as i32).collect::<Vec<i32>>();
        let book = b.reorder(books, &of_table(held))?;
        let stands_for = b.reorder(embeddings, &of_table(known))?;
        let embedding = b.nearest(rest, book, stands_for)?;
        sum = Some(match sum {
            None => embedding,
            Some(sum) => b.add(sum, embedding)?,
        });
        if index + 1 < count {
            let nearest = b.nearest(rest, book, book)?;
            let before = b.all(rest);
            rest = b.map(Act::Same, nearest, -1.0, Some((Join::Add, Arg::Part(before))))?;
        }
    }
    Ok(sum.unwrap_or(x))
}

/// A row for the text model of each group of rows, which see each other.
fn local(b: &mut Builder<'_>, of: &Context<'_>, x: Val) -> Result<Val> {
    let (count, each) = (of.keys.size("local_block_count")?, of.keys.size("local_group_size")?);
    let rows = b.rows(x).next_multiple_of(each);
    let mut x = pad_rows(b, x, rows)?;
    let spans = (0..rows).map(|row| [(row / each * each) as u32, (row / each * each + each) as u32]).collect();
    let spans = b.spans(spans);
    let vit = Vit {
        blocks: "mm.a.local_blk".into(),
        norm: NormKind::Rms,
        act: Act::Silu,
        ..rotation_rows(of, (0..rows).map(|row| row % each), THETAS[1])
    };
    for index in 0..count {
        x = vit.block(b, x, index, Some(spans))?;
    }
    let x = b.norm(NormKind::Rms, x, "mm.a.local_norm", of.clip.eps)?;
    let cols = b.cols(x);
    let x = b.reshape(x, rows / each, cols * each)?;
    mlp(b, x, "mm.a.mlp.1", Act::GeluErf, "mm.a.mlp.2")
}
