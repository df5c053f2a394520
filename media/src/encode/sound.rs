//! Pieces that encoders of sounds share.

use super::pieces::frequency;
use super::Context;
use crate::graph::{Act, Arg, Bias, Digit, Join, NormKind, Op, Part, Val, Window};
use crate::{Builder, Error, Result};

/// The most rows that a file's sizes may ask for: the longest sounds have far fewer.
const MOST: usize = 1 << 24;

/// The input: a row for each frame, a column for each bin.
///
/// # Errors
/// A sound without frames or bins.
pub fn frames(b: &mut Builder<'_>, of: &Context<'_>) -> Result<Val> {
    b.input(of.inputs[0].width, of.inputs[0].height)
}

/// Frames as a picture of one channel that is as wide as there are frames and as high as there are bins.
///
/// # Errors
/// None but of a value's size.
pub fn time_across(b: &mut Builder<'_>, x: Val) -> Result<Val> {
    let (frames, bins) = (b.rows(x), b.cols(x));
    b.permute(x, &[(bins, 1), (frames, bins)], frames * bins, 1)
}

/// Windows of 3 by 3 on every second column and row.
pub fn halving(size: [usize; 2]) -> Window {
    Window { size, kernel: [3; 2], stride: [2; 2], before: [1; 2], out: size.map(|n| n.div_ceil(2)) }
}

/// A convolution over frames with windows of 3 around every frame, or every second one.
///
/// # Errors
/// No such tensor; another shape.
pub fn conv_of_three(b: &mut Builder<'_>, x: Val, name: &str, stride: usize) -> Result<Val> {
    let frames = b.rows(x);
    let out = [frames.div_ceil(stride), 1];
    let window = Window { size: [frames, 1], kernel: [3, 1], stride: [stride, 1], before: [1, 0], out };
    b.conv(x, name, window)
}

/// A convolution of each channel over frames with a window of that odd length, `before` of it in front of each frame.
///
/// # Errors
/// An even length; no such tensor; another shape.
pub fn conv_of_channels(b: &mut Builder<'_>, x: Val, name: &str, len: usize, before: usize) -> Result<Val> {
    if len.is_multiple_of(2) {
        return Err(Error::Key(format!("clip.audio.conv_kernel_size: expected an odd number, found {len}")));
    }
    let size = [b.rows(x), 1];
    b.depthwise(x, name, Window { size, kernel: [len, 1], stride: [1; 2], before: [before, 0], out: size })
}

/// The table `name` of positions as far as there are rows.
///
/// # Errors
/// No such tensor; fewer positions.
pub fn add_first_positions(b: &mut Builder<'_>, x: Val, name: &str, rows: usize) -> Result<Val> {
    let cols = b.cols(x);
    let len: usize = b.shape(name)?.iter().product();
    let positions = b.load(name, len / cols.max(1), cols)?;
    let positions = match rows == b.rows(positions) {
        true => positions,
        false => first_rows(b, positions, rows)?,
    };
    b.add(x, positions)
}

/// The first rows of a value.
///
/// # Errors
/// There are fewer.
pub fn first_rows(b: &mut Builder<'_>, x: Val, rows: usize) -> Result<Val> {
    b.reorder(x, &super::pieces::raster(rows))
}

/// Rows of zeros behind, up to that many rows.
///
/// # Errors
/// More rows than a value may have.
pub fn pad_rows(b: &mut Builder<'_>, x: Val, rows: usize) -> Result<Val> {
    let held = b.rows(x);
    match rows {
        _ if held == rows => Ok(x),
        _ if rows > MOST => Err(Error::Shape(format!("expected at most {MOST} rows, found {rows}"))),
        _ => b.reorder(x, &(0..rows).map(|i| if i < held { i as i32 } else { -1 }).collect::<Vec<i32>>()),
    }
}

/// `len` rows side by side; what is left at the end is dropped.
///
/// # Errors
/// Fewer rows.
pub fn stack_rows(b: &mut Builder<'_>, x: Val, len: usize) -> Result<Val> {
    let (stacks, cols) = (b.rows(x) / len.max(1), b.cols(x));
    let x = match stacks * len == b.rows(x) {
        true => x,
        false => first_rows(b, x, stacks * len)?,
    };
    b.reshape(x, stacks, cols * len)
}

/// The first half of the columns times a function of the second.
///
/// # Errors
/// None but of a value's size.
pub fn gate_by_second(b: &mut Builder<'_>, act: Act, x: Val) -> Result<Val> {
    let half = b.cols(x) / 2;
    let (first, second) = (b.part(x, 0, half)?, b.part(x, half, half)?);
    b.map_part(act, second, 1.0, Some((Join::Mul, Arg::Part(first))))
}

/// Numbers that are known now as a value, whose columns are those of `like`.
///
/// # Errors
/// Numbers that are no whole rows.
pub fn constant(b: &mut Builder<'_>, like: Val, values: Vec<f32>) -> Result<Val> {
    let cols = b.cols(like);
    let zeros = b.reorder(like, &vec![-1; values.len() / cols])?;
    let table = b.table(cols, values);
    b.map(Act::Same, zeros, 1.0, Some((Join::Add, Arg::Table(table))))
}

/// Sine and cosine of each distance, times `scale`, at frequencies `10000^(-2 i / width)`, after each other.
pub fn sines(distances: impl Iterator<Item = i64>, width: usize, scale: f32) -> Vec<f32> {
    let frequency = |i: usize| (-(10_000f64.ln()) * (2 * i) as f64 / width as f64).exp();
    let frequencies: Vec<f64> = (0..width / 2).map(frequency).collect();
    let mut all = Vec::new();
    for distance in distances {
        all.extend(frequencies.iter().flat_map(|f| [(distance as f64 * f).sin(), (distance as f64 * f).cos()]));
    }
    all.into_iter().map(|x: f64| x as f32 * scale).collect()
}

/// Angles of a rotation of `dims` columns by each row's position.
pub fn angles(positions: impl Iterator<Item = usize>, dims: usize, theta: f32) -> Vec<f32> {
    let frequencies: Vec<f32> = (0..dims / 2).map(|j| frequency(theta, 2 * j, dims)).collect();
    positions.flat_map(|p| frequencies.iter().map(|f| p as f32 * f).collect::<Vec<f32>>()).collect()
}

/// Per head, each row of `a` with each of `rows`.
///
/// # Errors
/// Heads that do not divide the columns; other columns.
pub fn head_products(b: &mut Builder<'_>, a: Val, rows: Val, heads: usize) -> Result<Val> {
    let (cols, other) = (b.cols(a), b.cols(rows));
    if heads == 0 || !cols.is_multiple_of(heads) || (other != cols && other * heads != cols) {
        return Err(Error::Shape(format!("expected rows of {cols} columns in {heads} heads, found {other}")));
    }
    let out = b.value(b.rows(a), heads * b.rows(rows))?;
    let (a, rows) = (b.all(a), b.all(rows));
    b.push(Op::HeadProducts { a, b: rows, heads, out });
    Ok(out)
}

/// Scores of how far a key is from its query: column `reach + key - query` of each head, both counted from each multiple of
/// `period` on.
pub fn bias_of_distance(b: &Builder<'_>, val: Val, heads: usize, reach: usize, period: usize) -> Bias {
    let digit = Digit { div: 1, modulo: period };
    Bias { val, width: b.cols(val) / heads.max(1), key: digit, query: Some(digit), base: reach }
}

/// A feed-forward part of a conformer's block, `prefix.ffn_*` with `suffix` behind each name: half of it is added.
///
/// # Errors
/// Tensors that are missing or have other shapes.
pub fn add_half_feed(b: &mut Builder<'_>, x: Val, kind: NormKind, eps: f32, prefix: &str, suffix: &str) -> Result<Val> {
    let name = |part: &str| format!("{prefix}.{part}{suffix}");
    let fed = b.norm(kind, x, &name("ffn_norm"), eps)?;
    let fed = super::vit::mlp(b, fed, &name("ffn_up"), Act::Silu, &name("ffn_down"))?;
    let fed = super::vit::norm_if(b, kind, fed, &name("ffn_post_norm"), eps)?;
    let x = b.all(x);
    b.map(Act::Same, fed, 0.5, Some((Join::Add, Arg::Part(x))))
}

/// q, k and v of `prefix.attn_*`.
///
/// # Errors
/// Tensors that are missing or have other shapes.
pub fn qkv(b: &mut Builder<'_>, x: Val, prefix: &str) -> Result<[Val; 3]> {
    let [q, k, v] = ["attn_q", "attn_k", "attn_v"].map(|part| b.linear(x, &format!("{prefix}.{part}")));
    Ok([q?, k?, v?])
}

/// All columns of q, k and v.
pub fn parts(b: &Builder<'_>, [q, k, v]: [Val; 3]) -> (Part, Part, Part) {
    (b.all(q), b.all(k), b.all(v))
}
