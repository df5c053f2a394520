//! MiniCPM-V: a SigLIP tower with positions by share of the picture, then a resampler of learned queries, or merges of cells.

use super::pieces::{cells, join_cells, raster, unshuffle};
use super::qwen::window_spans;
use super::vit::{embed_patches, mlp, norm_if, Vit};
use super::Context;
use crate::graph::{Act, Arg, Join, NormKind, Val};
use crate::{Attention, Builder, Error, Result};

/// Points of the table of positions, to a side.
const SIDE: usize = 70;
/// Columns of a head of the resampler.
const HEAD: usize = 128;
/// The base of the frequencies of the resampler's positions.
const THETA: f32 = 10_000.0;

/// Patches in the given order, with their positions.
fn embed(b: &mut Builder<'_>, of: &Context<'_>, order: &[i32]) -> Result<Val> {
    let [w, h] = of.patches()?;
    let x = embed_patches(b, of)?;
    let x = b.reorder(x, order)?;
    let table = b.load("v.position_embd.weight", SIDE * SIDE, of.clip.width)?;
    let point = |i: &i32| {
        let i = *i as usize;
        ((i / w) * SIDE / h * SIDE + (i % w) * SIDE / w) as i32
    };
    let points: Vec<i32> = order.iter().map(point).collect();
    let positions = b.reorder(table, &points)?;
    let x = b.add(x, positions)?;
    norm_if(b, NormKind::Layer, x, "v.pre_ln", of.clip.eps)
}

fn tower(of: &Context<'_>) -> Vit {
    Vit { swapped: true, ..Vit::new(of.clip) }
}

/// Sines and cosines of the column, then of the row of each patch.
fn waves([w, h]: [usize; 2], cols: usize) -> Vec<f32> {
    let quarter = cols / 4;
    let mut all = Vec::with_capacity(w * h * cols);
    for i in 0..w * h {
        for place in [i % w, i / w] {
            let angle = |j: usize| place as f32 / THETA.powf(j as f32 / quarter as f32);
            all.extend((0..quarter).map(|j| angle(j).sin()));
            all.extend((0..quarter).map(|j| angle(j).cos()));
        }
    }
    all
}

/// Versions 2 to 6: queries that attend to the patches.
pub(super) fn resampler(b: &mut Builder<'_>, of: &Context<'_>) -> Result<Val> {
    let grid = of.patches()?;
    let x = embed(b, of, &raster(grid[0] * grid[1]))?;
    let x = tower(of).run(b, x, of.clip.blocks)?;
    let x = norm_if(b, NormKind::Layer, x, "v.post_ln", of.clip.eps)?;
    let values = b.linear(x, "resampler.kv")?;
    let values = b.norm(NormKind::Layer, values, "resampler.ln_kv", of.clip.eps)?;
    let cols = b.cols(values);
    if cols == 0 || !cols.is_multiple_of(HEAD) {
        return Err(Error::Shape(format!("resampler.kv.weight: expected whole heads of {HEAD} rows, found {cols}")));
    }
    let waves = b.table(cols, waves(grid, cols));
    let keys = b.map(Act::Same, values, 1.0, Some((Join::Add, Arg::Table(waves))))?;
    let len: usize = b.shape("resampler.query")?.iter().product();
    let queries = b.load("resampler.query", len / cols, cols)?;
    let queries = b.norm(NormKind::Layer, queries, "resampler.ln_q", of.clip.eps)?;
    let q = b.linear(queries, "resampler.attn.q")?;
    let k = b.linear(keys, "resampler.attn.k")?;
    let v = b.linear(values, "resampler.attn.v")?;
    let heads = cols / HEAD;
    let rules = Attention { heads, kv_heads: heads, scale: 1.0 / (HEAD as f32).sqrt(), ..Attention::default() };
    let x = b.attend((b.all(q), b.all(k), b.all(v)), &rules)?;
    let x = b.linear(x, "resampler.attn.out")?;
    let x = b.norm(NormKind::Layer, x, "resampler.ln_post", of.clip.eps)?;
    b.linear(x, "resampler.proj")
}

/// Version 4.6: cells of 2 x 2 patches are merged at the end, and with a factor of 4 also behind one of the blocks.
pub(super) fn build_merged(b: &mut Builder<'_>, of: &Context<'_>) -> Result<Val> {
    let [w, h] = of.patches()?;
    let factor = of.keys.size_or("projector.scale_factor", 4)?;
    let vit = tower(of);
    let (mut x, grid) = match factor {
        2 => {
            let x = embed(b, of, &raster(w * h))?;
            (vit.run(b, x, of.clip.blocks)?, [w, h])
        }
        4 => {
            let layer = match of.keys.list("wa_layer_indexes")?[..] {
                [n, ..] if n >= 0 && (n as usize) < of.clip.blocks => n as usize,
                _ => {
                    return Err(Error::Key("clip.vision.wa_layer_indexes: expected a block, found none".into()));
                }
            };
            let mut x = embed(b, of, &cells([w, h], 2)?)?;
            for index in 0..of.clip.blocks {
                x = vit.block(b, x, index, None)?;
                if index == layer {
                    x = merge_within(b, of, x)?;
                }
            }
            (x, [w / 2, h / 2])
        }
        n => {
            return Err(Error::Key(format!("clip.vision.projector.scale_factor: expected 2 or 4, found {n}")));
        }
    };
    x = norm_if(b, NormKind::Layer, x, "v.post_ln", of.clip.eps)?;
    x = unshuffle(b, x, grid, 2)?;
    x = b.norm(NormKind::Layer, x, "mm.input_norm", of.clip.eps)?;
    mlp(b, x, "mm.up", Act::GeluErf, "mm.down")
}

/// An attention within cells of four rows, then one row of each.
fn merge_within(b: &mut Builder<'_>, of: &Context<'_>, x: Val) -> Result<Val> {
    let rows = b.rows(x);
    let normed = b.norm(NormKind::Layer, x, "v.vit_merger.ln1", of.clip.eps)?;
    let q = b.linear(normed, "v.vit_merger.attn_q")?;
    let k = b.linear(normed, "v.vit_merger.attn_k")?;
    let v = b.linear(normed, "v.vit_merger.attn_v")?;
    let spans = b.spans(window_spans(std::iter::repeat_n(4, rows / 4)));
    let rules = Attention { spans: Some(spans), ..Vit::new(of.clip).rules() };
    let attended = b.attend((b.all(q), b.all(k), b.all(v)), &rules)?;
    let attended = b.linear(attended, "v.vit_merger.attn_out")?;
    let x = b.add(x, attended)?;
    let picks = b.picks(4, raster(rows).into_iter().map(|row| (row, 0.25)).collect());
    let mean = b.pick(x, picks)?;
    let joined = join_cells(b, x, 2)?;
    let joined = b.norm(NormKind::Layer, joined, "v.vit_merger.ds_ln", of.clip.eps)?;
    let joined = mlp(b, joined, "v.vit_merger.ds_ffn_up", Act::Gelu, "v.vit_merger.ds_ffn_down")?;
    b.add(joined, mean)
}
