//! The tower of Segment Anything as DeepSeek-OCR has it: windows with relative positions, some blocks whole, and convolutions that
//! narrow the grid four times.

use super::pieces::{sample, Sampling};
use super::qwen::window_spans;
use super::vit::{activation, mlp};
use super::Context;
use crate::graph::{Bias, Digit, NormKind, Op, Part, Val, Window};
use crate::{Attention, Builder, Error, Result};

/// Pixels of a patch, to a side.
const PATCH: usize = 16;
/// The epsilon of its norms.
const EPS: f32 = 1e-6;
/// The most rows of a window that a file may say, to a side.
const WINDOW: usize = 1 << 8;
/// Blocks that see the whole tile.
const WHOLE: [usize; 4] = [2, 5, 8, 11];

/// Square tiles below each other.
#[derive(Clone, Copy)]
pub(super) struct Tiles {
    /// How many.
    pub count: usize,
    /// Rows of each, to a side.
    pub side: usize,
}

impl Tiles {
    fn rows(self) -> usize {
        self.count * self.side * self.side
    }

    /// Rows window by window, those beyond a tile's edge as -1.
    fn windows(self, window: usize) -> Vec<i32> {
        let Tiles { count, side } = self;
        let across = side.div_ceil(window);
        let place = |i: usize| {
            let (cell, at) = (i / (window * window), i % (window * window));
            let (tile, cell) = (cell / (across * across), cell % (across * across));
            match (cell % across * window + at % window, cell / across * window + at / window) {
                (x, y) if x < side && y < side => ((tile * side + y) * side + x) as i32,
                _ => -1,
            }
        };
        (0..count * (across * window).pow(2)).map(place).collect()
    }

    /// Rows of each tile see each other.
    fn spans(self) -> Vec<[u32; 2]> {
        window_spans(std::iter::repeat_n(self.side * self.side, self.count))
    }
}

/// The tower's rows, tile by tile, and the tiles that they make.
///
/// # Errors
/// Tensors that are missing or have other shapes; a picture that is no column of square tiles.
pub(super) fn build(b: &mut Builder<'_>, of: &Context<'_>) -> Result<(Val, Tiles)> {
    let [input] = of.inputs else {
        return Err(Error::Medium(format!("expected one picture, found {} frames", of.inputs.len())));
    };
    let size = [input.width, input.height];
    let grid = size.map(|n| n / PATCH);
    if size.contains(&0) || !size[1].is_multiple_of(size[0]) || !size[0].is_multiple_of(PATCH) {
        return Err(Error::Medium(format!("expected square tiles below each other, found {} x {}", size[0], size[1])));
    }
    let tiles = Tiles { count: grid[1] / grid[0], side: grid[0] };
    let width = of.keys.size("sam.embedding_length")?;
    let heads = of.keys.size("sam.head_count")?;
    let window = of.keys.size("window_size")?;
    if window > WINDOW {
        return Err(Error::Key(format!("clip.vision.window_size: expected at most {WINDOW}, found {window}")));
    }
    let pixels = b.input(size[0] * size[1], 3)?;
    let patches = Window { size, kernel: [PATCH; 2], stride: [PATCH; 2], before: [0; 2], out: grid };
    let x = b.conv(pixels, "v.sam.patch_embd", patches)?;
    let mut x = positions(b, x, width, tiles.side)?;
    let order = tiles.windows(window);
    let mut back = vec![0; tiles.rows()];
    for (i, row) in order.iter().enumerate() {
        if let Ok(row) = usize::try_from(*row) {
            back[row] = i as i32;
        }
    }
    let local = Tiles { count: order.len() / (window * window), side: window };
    for index in 0..of.keys.size("sam.block_count")? {
        let name = |part: &str| format!("v.sam.blk.{index}.{part}");
        let normed = b.norm(NormKind::Layer, x, &name("pre_ln"), EPS)?;
        let attended = if WHOLE.contains(&index) {
            attend(b, normed, &name("attn"), heads, tiles)?
        } else {
            let parted = b.reorder(normed, &order)?;
            let attended = attend(b, parted, &name("attn"), heads, local)?;
            b.reorder(attended, &back)?
        };
        x = b.add(attended, x)?;
        let normed = b.norm(NormKind::Layer, x, &name("post_ln"), EPS)?;
        let fed = mlp(b, normed, &name("mlp.lin1"), activation(of.clip), &name("mlp.lin2"))?;
        x = b.add(fed, x)?;
    }
    let x = b.linear(x, "v.sam.neck.0")?;
    let x = b.norm(NormKind::Layer, x, "v.sam.neck.1", EPS)?;
    let (x, tiles) = conv(b, x, "v.sam.neck.2", tiles, 1)?;
    let x = b.norm(NormKind::Layer, x, "v.sam.neck.3", EPS)?;
    let (x, tiles) = conv(b, x, "v.sam.net_2", tiles, 2)?;
    conv(b, x, "v.sam.net_3", tiles, 2)
}

fn positions(b: &mut Builder<'_>, x: Val, width: usize, side: usize) -> Result<Val> {
    let name = "v.sam.pos_embd.weight";
    let len: usize = b.shape(name)?.iter().product();
    let from = (len / width).isqrt();
    let table = b.load(name, from * from, width)?;
    let table = sample(b, table, [from; 2], [side; 2], Sampling::Cubic)?;
    b.add(x, table)
}

/// An attention within tiles, with positions relative to the query in both directions.
fn attend(b: &mut Builder<'_>, x: Val, name: &str, heads: usize, tiles: Tiles) -> Result<Val> {
    let cols = b.cols(x);
    let qkv = b.linear(x, &format!("{name}.qkv"))?;
    let (q, k, v) = (b.part(qkv, 0, cols)?, b.part(qkv, cols, cols)?, b.part(qkv, 2 * cols, cols)?);
    if !cols.is_multiple_of(heads) {
        return Err(Error::Key(format!("clip.vision.sam.head_count: expected one that divides {cols}, found {heads}")));
    }
    let mut biases = Vec::new();
    for (part, div) in [("pos_w", 1), ("pos_h", tiles.side)] {
        let val = relative(b, q, &format!("{name}.{part}.weight"), heads, tiles.side)?;
        let digit = Digit { div, modulo: tiles.side };
        biases.push(Bias { val, width: 2 * tiles.side - 1, key: digit, query: Some(digit), base: tiles.side - 1 });
    }
    let spans = Some(b.spans(tiles.spans()));
    let scale = 1.0 / ((cols / heads) as f32).sqrt();
    let rules = Attention { heads, kv_heads: heads, scale, spans, biases, ..Attention::default() };
    let x = b.attend((q, k, v), &rules)?;
    b.linear(x, &format!("{name}.out"))
}

/// Products of each query with the table of relative positions, from the farthest key before it to the farthest behind.
fn relative(b: &mut Builder<'_>, q: Part, name: &str, heads: usize, side: usize) -> Result<Val> {
    let dim = q.cols / heads;
    let len = b.shape(name)?.iter().product::<usize>() / dim;
    let table = b.load(name, len, dim)?;
    let wanted = 2 * side - 1;
    let table = sample(b, table, [len, 1], [wanted, 1], Sampling::Linear)?;
    // The file counts from the query to the key.
    let turned: Vec<i32> = (0..wanted as i32).rev().collect();
    let table = b.reorder(table, &turned)?;
    let out = b.value(b.rows(q.val), heads * wanted)?;
    let table = b.all(table);
    b.push(Op::HeadProducts { a: q, b: table, heads, out });
    Ok(out)
}

/// A convolution of 3 x 3 within each tile, with zeros around it.
fn conv(b: &mut Builder<'_>, x: Val, name: &str, tiles: Tiles, stride: usize) -> Result<(Val, Tiles)> {
    let Tiles { count, side } = tiles;
    let to = side.div_ceil(stride);
    let out = Tiles { count, side: to };
    if count == 1 {
        let window = Window { size: [side; 2], kernel: [3; 2], stride: [stride; 2], before: [1; 2], out: [to; 2] };
        return Ok((b.conv(x, name, window)?, out));
    }
    let cols = b.cols(x);
    let seen = |i: usize, k: usize| {
        let (tile, y, x) = (i / (to * to), i / to % to * stride + k / 3, i % to * stride + k % 3);
        match (y.checked_sub(1), x.checked_sub(1)) {
            (Some(y), Some(x)) if y < side && x < side => ((tile * side + y) * side + x) as i32,
            _ => -1,
        }
    };
    let order: Vec<i32> = (0..out.rows()).flat_map(|i| (0..9).map(move |k| seen(i, k))).collect();
    let unfolded = b.reorder(x, &order)?;
    let unfolded = b.permute(unfolded, &[(out.rows(), 9 * cols), (cols, 1), (9, cols)], out.rows(), 9 * cols)?;
    Ok((b.linear(unfolded, name)?, out))
}
