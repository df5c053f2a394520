//! Granite 4 Vision: a SigLIP tower over tiles, and a Q-former over windows of some blocks' rows.

use super::hunyuan::end_lines;
use super::pieces::raster;
use super::qwen::window_spans;
use super::vit::{embed_patches, Vit};
use super::Context;
use crate::graph::{Act, NormKind, Val};
use crate::{Attention, Builder, Error, Result};

/// Columns of a head of the Q-former.
const HEAD: usize = 64;
/// The epsilon of its norms.
const EPS: f32 = 1e-12;

/// Sides in rows: of a tile, of a window, and of what comes out of them.
struct Sides {
    tiles: usize,
    tile: usize,
    window: usize,
    query: usize,
}

impl Sides {
    fn new(of: &Context<'_>) -> Result<Sides> {
        let [tile, height] = of.patches()?;
        let (window, query) = (of.keys.size("projector.window_side")?, of.keys.size("projector.query_side")?);
        let fits = height.is_multiple_of(tile) && tile.is_multiple_of(window) && window.is_multiple_of(query);
        match fits {
            true => Ok(Sides { tiles: height / tile, tile, window, query }),
            false => Err(Error::Shape(format!(
                "expected square tiles of whole windows of {window} rows, {query} each, found {tile} x {height} rows"
            ))),
        }
    }

    /// Side of what comes out of a tile.
    fn output_side(&self) -> usize {
        self.tile / self.window * self.query
    }

    /// Places of all tiles of `side` rows to a side, window by window.
    fn windows(&self, side: usize, window: usize) -> Vec<[usize; 3]> {
        let across = side / window;
        let place = |i: usize| {
            let (cell, at) = (i / (window * window), i % (window * window));
            let (tile, cell) = (cell / (across * across), cell % (across * across));
            [tile, cell / across * window + at / window, cell % across * window + at % window]
        };
        (0..self.tiles * side * side).map(place).collect()
    }
}

/// Granite 4 Vision.
pub(super) fn build(b: &mut Builder<'_>, of: &Context<'_>) -> Result<Val> {
    let sides = Sides::new(of)?;
    let offsets = of.keys.list("projector.spatial_offsets")?;
    let layers = &of.clip.feature_layers;
    let known = layers.iter().all(|n| (0..of.clip.blocks as i64).contains(n));
    if layers.is_empty() || offsets.len() != layers.len() || !known {
        return Err(Error::Key(format!(
            "clip.vision.feature_layer: expected blocks below {} and an offset for each, found {layers:?} and {offsets:?}",
            of.clip.blocks
        )));
    }
    let x = embed_patches(b, of)?;
    let mut x = b.add_weight(x, "v.position_embd.weight", sides.tile * sides.tile, of.clip.width)?;
    let vit = Vit::new(of.clip);
    let spans = b.spans(window_spans(std::iter::repeat_n(sides.tile * sides.tile, sides.tiles)));
    let mut outs = Vec::new();
    for index in 0..of.clip.blocks {
        x = vit.block(b, x, index, Some(spans))?;
        outs.push(x);
    }
    let mut streams = Vec::new();
    for (block, (layer, offset)) in layers.iter().zip(offsets).enumerate() {
        streams.push(former(b, of, outs[*layer as usize], (block, offset), &sides)?);
    }
    let x = b.join(&streams)?;
    let [across, down] = of.inputs[0].tiles;
    if across == 0 || down == 0 {
        return Ok(x);
    }
    if 1 + across * down != sides.tiles {
        return Err(Error::Medium(format!("expected 1 + {across} x {down} tiles, found {}", sides.tiles)));
    }
    assemble(b, of, x, sides.output_side(), streams.len())
}

/// A Q-former of one layer over the windows of a block's rows, whose queries are a smaller picture of the rows.
fn former(b: &mut Builder<'_>, of: &Context<'_>, x: Val, (block, offset): (usize, i64), sides: &Sides) -> Result<Val> {
    let name = |part: &str| format!("v.proj_blk.{block}.{part}");
    let (tile, out, cols) = (sides.tile, sides.output_side(), b.cols(x));
    let x = b.norm(NormKind::Layer, x, &name("norm"), of.clip.eps)?;
    let row = |[t, y, x]: &[usize; 3], side: usize| (t * side * side + y * side + x) as i32;
    let order: Vec<i32> = sides.windows(tile, sides.window).iter().map(|p| row(p, tile)).collect();
    let seen = b.reorder(x, &order)?;
    let seen = b.add_weight(seen, &name("img_pos"), sides.window * sides.window, cols)?;
    let places = sides.windows(out, sides.query);
    let step = tile / out;
    let small = if offset < 0 {
        let share = 1.0 / (step * step) as f32;
        let cell = |p: &[usize; 3]| {
            let [t, y, x] = *p;
            (0..step * step).map(move |i| (row(&[t, y * step + i / step, x * step + i % step], tile), share))
        };
        let picks = b.picks(step * step, places.iter().flat_map(cell).collect());
        b.pick(x, picks)?
    } else {
        let (dy, dx) = ((offset >> 1 & 1) as usize, (offset & 1) as usize);
        if step != 2 {
            return Err(Error::Key(format!(
                "clip.vision.projector.query_side: expected half a window, found 1/{step}"
            )));
        }
        let order: Vec<i32> = places.iter().map(|[t, y, x]| row(&[*t, y * 2 + dy, x * 2 + dx], tile)).collect();
        b.reorder(x, &order)?
    };
    let queries = b.add_weight(small, &name("query"), sides.query * sides.query, cols)?;
    let q = b.norm(NormKind::Layer, queries, &name("post_norm"), EPS)?;
    if !cols.is_multiple_of(HEAD) {
        return Err(Error::Shape(format!("expected whole heads of {HEAD} columns, found {cols}")));
    }
    let (each, all) = (sides.query * sides.query, sides.window * sides.window);
    let own = window_spans(std::iter::repeat_n(each, places.len() / each));
    let of_window = (0..places.len() / each).flat_map(|w| {
        let span = [w * all, (w + 1) * all].map(|n| n as u32);
        std::iter::repeat_n(span, each)
    });
    let x = attend(b, (q, q), &name("self_attn"), own)?;
    let x = attend(b, (x, seen), &name("cross_attn"), of_window.collect())?;
    let fed = super::vit::mlp(b, x, &name("ffn_up"), Act::GeluErf, &name("ffn_down"))?;
    let x = b.add(fed, x)?;
    let x = b.norm(NormKind::Layer, x, &name("ffn_norm"), EPS)?;
    let mut back = vec![0; places.len()];
    places.iter().enumerate().for_each(|(i, p)| back[row(p, out) as usize] = i as i32);
    let x = b.reorder(x, &back)?;
    b.linear(x, &name("linear"))
}

/// An attention with its residual and the norm behind it.
fn attend(b: &mut Builder<'_>, (x, seen): (Val, Val), name: &str, spans: Vec<[u32; 2]>) -> Result<Val> {
    let heads = b.cols(x) / HEAD;
    let q = b.linear(x, &format!("{name}_q"))?;
    let k = b.linear(seen, &format!("{name}_k"))?;
    let v = b.linear(seen, &format!("{name}_v"))?;
    let spans = Some(b.spans(spans));
    let rules = Attention { heads, kv_heads: heads, scale: 1.0 / (HEAD as f32).sqrt(), spans, ..Attention::default() };
    let attended = b.attend((b.all(q), b.all(k), b.all(v)), &rules)?;
    let attended = b.linear(attended, &format!("{name}_out"))?;
    let x = b.add(attended, x)?;
    b.norm(NormKind::Layer, x, &format!("{name}_norm"), EPS)
}

/// Rows and columns of a grid that the picture covers: first and how many of each. The rest is the border that fitting it into the
/// grid made.
fn covered_cells([w, h]: [usize; 2], [width, height]: [usize; 2]) -> [[usize; 2]; 2] {
    let fit = |side: usize, from: usize, to: usize| (side as f64 * to as f64 / from as f64 + 1e-7).floor() as usize;
    if width as f32 / height as f32 > w as f32 / h as f32 {
        let off = h.saturating_sub(fit(height, width, w)) / 2;
        [[0, w], [off, h - 2 * off]]
    } else {
        let off = w.saturating_sub(fit(width, height, h)) / 2;
        [[off, w - 2 * off], [0, h]]
    }
}

/// Rows of the overview, then those of the tiles as one picture without its border, a row at the end of each line.
fn assemble(b: &mut Builder<'_>, of: &Context<'_>, x: Val, side: usize, streams: usize) -> Result<Val> {
    let ([across, down], original) = (of.inputs[0].tiles, of.inputs[0].original);
    if original.contains(&0) {
        return Err(Error::Medium("expected the size of the picture before it was cut, found none".into()));
    }
    let [[left, w], [top, h]] = covered_cells([across * side, down * side], original);
    let overview = b.reorder(x, &raster(side * side))?;
    let row =
        |y: usize, x: usize| ((1 + y / side * across + x / side) * side * side + y % side * side + x % side) as i32;
    let order: Vec<i32> = (top..top + h).flat_map(|y| (left..left + w).map(move |x| row(y, x))).collect();
    let tiles = b.reorder(x, &order)?;
    let line = b.load("v.image_newline", 1, b.cols(x) / streams)?;
    let line = b.join(&vec![line; streams])?;
    let tiles = end_lines(b, tiles, w, line)?;
    b.stack(&[overview, tiles])
}
