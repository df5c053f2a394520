//! Pictures of another size: the 8-bit separable resampler of the Pillow library, and fitting into a canvas.

use crate::{Error, Picture, Result};
use rayon::prelude::*;
use std::f64::consts::PI;

/// How pixels between pixels are weighted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filter {
    /// A triangle over the neighbours.
    Bilinear,
    /// Cubic pieces over two neighbours on each side, with a = -0.5.
    Bicubic,
    /// A windowed sinc over three neighbours on each side.
    Lanczos,
}

/// What becomes of a picture whose sides have another ratio than the wanted ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// It is stretched.
    Stretch,
    /// It keeps its ratio, its sides rounded up, and stands in the middle of a canvas, offsets rounded down.
    Ceil,
    /// It keeps its ratio and stands in the middle of a canvas, sides and offsets rounded to the nearest number.
    Nearest,
}

/// The longest side that a picture is brought to.
const LONGEST: usize = 65536;

/// The most pixels that a picture is brought to.
pub(crate) const MOST_PIXELS: usize = 1 << 26;

/// Bits behind the point of a weight.
const BITS: u32 = 22;

impl Filter {
    fn support(self) -> f64 {
        match self {
            Filter::Bilinear => 1.0,
            Filter::Bicubic => 2.0,
            Filter::Lanczos => 3.0,
        }
    }

    /// The weight at a distance in pixels.
    fn weight(self, distance: f64) -> f64 {
        let x = distance.abs();
        let sinc = |v: f64| if v == 0.0 { 1.0 } else { (v * PI).sin() / (v * PI) };
        match self {
            Filter::Bilinear if x < 1.0 => 1.0 - x,
            Filter::Bicubic if x < 1.0 => (1.5 * x - 2.5) * x * x + 1.0,
            Filter::Bicubic if x < 2.0 => (((x - 5.0) * x + 8.0) * x - 4.0) * -0.5,
            Filter::Lanczos if (-3.0..3.0).contains(&distance) => sinc(distance) * sinc(distance / 3.0),
            _ => 0.0,
        }
    }
}

/// The pixels that one pixel of the result is made from: the first of them, and a weight for each.
struct Taps {
    first: usize,
    weights: Vec<i32>,
}

fn taps(filter: Filter, from: usize, to: usize) -> Vec<Taps> {
    let scale = from as f64 / to as f64;
    let wide = scale.max(1.0);
    let support = filter.support() * wide;
    let make = |o: usize| {
        let centre = (o as f64 + 0.5) * scale;
        // `as` cuts towards zero and stops at zero.
        let first = (centre - support + 0.5) as usize;
        let end = ((centre + support + 0.5) as usize).min(from);
        let weights: Vec<f64> = (first..end).map(|i| filter.weight((i as f64 - centre + 0.5) * (1.0 / wide))).collect();
        let sum: f64 = weights.iter().sum();
        let fixed = |w: f64| {
            let w = if sum == 0.0 { w } else { w / sum } * f64::from(1 << BITS);
            (w + if w < 0.0 { -0.5 } else { 0.5 }) as i32
        };
        Taps { first, weights: weights.into_iter().map(fixed).collect() }
    };
    (0..to).into_par_iter().map(make).collect()
}

/// A sum of weighted bytes without the bits behind the point.
fn round(sum: i32) -> u8 {
    (sum >> BITS).clamp(0, 255) as u8
}

const HALF: i32 = 1 << (BITS - 1);

fn resize_rows(pixels: &[u8], width: usize, taps: &[Taps]) -> Vec<u8> {
    let mut out = vec![0; pixels.len() / width * taps.len()];
    out.par_chunks_mut(taps.len() * 3).zip(pixels.par_chunks(width * 3)).for_each(|(to, from)| {
        for (to, tap) in to.chunks_exact_mut(3).zip(taps) {
            let mut sums = [HALF; 3];
            for (pixel, weight) in from[tap.first * 3..].chunks_exact(3).zip(&tap.weights) {
                for (sum, value) in sums.iter_mut().zip(pixel) {
                    *sum = sum.wrapping_add(i32::from(*value).wrapping_mul(*weight));
                }
            }
            to.copy_from_slice(&sums.map(round));
        }
    });
    out
}

fn resize_columns(pixels: &[u8], width: usize, taps: &[Taps]) -> Vec<u8> {
    let len = width * 3;
    let mut out = vec![0; len * taps.len()];
    out.par_chunks_mut(len).zip(taps).for_each(|(to, tap)| {
        let mut sums = vec![HALF; len];
        for (row, weight) in pixels[tap.first * len..].chunks_exact(len).zip(&tap.weights) {
            for (sum, value) in sums.iter_mut().zip(row) {
                *sum = sum.wrapping_add(i32::from(*value).wrapping_mul(*weight));
            }
        }
        to.iter_mut().zip(sums).for_each(|(to, sum)| *to = round(sum));
    });
    out
}

/// That a picture of a size can be made.
pub(crate) fn check_size(width: usize, height: usize) -> Result<()> {
    let fits = |side: usize| (1..=LONGEST).contains(&side);
    if fits(width) && fits(height) && width * height <= MOST_PIXELS {
        return Ok(());
    }
    Err(Error::Medium(format!(
        "picture: expected to resize it to sides from 1 to {LONGEST} and at most {MOST_PIXELS} pixels, found {width} x {height}"
    )))
}

/// A picture stretched to `width` columns and `height` rows: first along rows, then along columns, each rounded to 8 bits. A side
/// that stays is not touched.
///
/// # Errors
/// A size of no pixels or of too many.
pub fn resize(picture: &Picture, width: usize, height: usize, filter: Filter) -> Result<Picture> {
    check_size(width, height)?;
    check_size(width, picture.height())?;
    let mut pixels = std::borrow::Cow::Borrowed(picture.pixels());
    if width != picture.width() {
        pixels = resize_rows(&pixels, picture.width(), &taps(filter, picture.width(), width)).into();
    }
    if height != picture.height() {
        pixels = resize_columns(&pixels, width, &taps(filter, picture.height(), height)).into();
    }
    Picture::new(width, height, pixels.into_owned())
}

/// A canvas of one colour.
pub(crate) fn canvas(width: usize, height: usize, color: [u8; 3]) -> Result<Picture> {
    check_size(width, height)?;
    Picture::new(width, height, color.repeat(width * height))
}

/// A copy of `picture` on `canvas` from the column `x` and the row `y` on; what is beyond the canvas is left away.
pub(crate) fn paste(canvas: Picture, picture: &Picture, x: usize, y: usize) -> Result<Picture> {
    let (width, height) = (canvas.width(), canvas.height());
    let columns = picture.width().min(width.saturating_sub(x)) * 3;
    let mut pixels = canvas.into_pixels();
    for (to, from) in pixels.chunks_exact_mut(width * 3).skip(y).zip(picture.pixels().chunks_exact(picture.width() * 3))
    {
        if columns > 0 {
            to[x * 3..][..columns].copy_from_slice(&from[..columns]);
        }
    }
    Picture::new(width, height, pixels)
}

/// The part of a picture from the column `x` and the row `y` on.
pub(crate) fn crop(picture: &Picture, x: usize, y: usize, width: usize, height: usize) -> Result<Picture> {
    let fits = |from: usize, len: usize, all: usize| from.checked_add(len).is_some_and(|end| end <= all);
    if !fits(x, width, picture.width()) || !fits(y, height, picture.height()) {
        return Err(Error::Medium(format!(
            "picture: expected a tile inside of {} x {}, found {width} x {height} at {x}, {y}",
            picture.width(),
            picture.height()
        )));
    }
    let rows = picture.pixels().chunks_exact(picture.width() * 3).skip(y).take(height);
    Picture::new(width, height, rows.flat_map(|row| &row[x * 3..][..width * 3]).copied().collect())
}

/// A picture brought to `width` columns and `height` rows, on a canvas of `color` where it keeps its ratio. One that has this size
/// already is copied.
///
/// # Errors
/// A size of no pixels or of too many.
pub fn fit(picture: &Picture, size: [usize; 2], filter: Filter, fit: Fit, color: [u8; 3]) -> Result<Picture> {
    let [width, height] = size;
    if fit == Fit::Stretch || [picture.width(), picture.height()] == size {
        return resize(picture, width, height, filter);
    }
    let scale = (width as f32 / picture.width() as f32).min(height as f32 / picture.height() as f32);
    let side = |from: usize, most: usize| {
        let side = from as f32 * scale;
        let side = if fit == Fit::Ceil { side.ceil() } else { side.round() };
        (side as usize).clamp(1, most.max(1))
    };
    let (columns, rows) = (side(picture.width(), width), side(picture.height(), height));
    let offset = |free: usize| if fit == Fit::Ceil { free / 2 } else { free.div_ceil(2) };
    let small = resize(picture, columns, rows, filter)?;
    paste(canvas(width, height, color)?, &small, offset(width - columns), offset(height - rows))
}

/// Pixels as encoders take them, `(value / 255 - mean) / std` in f32: `[height * width, 3]`.
pub fn normalize(picture: &Picture, mean: [f32; 3], std: [f32; 3]) -> Vec<f32> {
    let table = |c: usize| -> Vec<f32> { (0..=255u8).map(|v| (f32::from(v) / 255.0 - mean[c]) / std[c]).collect() };
    let tables = [table(0), table(1), table(2)];
    let mut out = vec![0.0; picture.pixels().len()];
    out.par_chunks_mut(3 << 12).zip(picture.pixels().par_chunks(3 << 12)).for_each(|(to, from)| {
        for (to, from) in to.chunks_exact_mut(3).zip(from.chunks_exact(3)) {
            for c in 0..3 {
                to[c] = tables[c][usize::from(from[c])];
            }
        }
    });
    out
}

/// A picture normalised and then brought to `side` columns and rows by the mean of the four pixels around each place, in f32:
/// `[side * side, 3]`.
pub(crate) fn normalize_resized(picture: &Picture, side: usize, mean: [f32; 3], std: [f32; 3]) -> Vec<f32> {
    let values = normalize(picture, mean, std);
    let (width, height) = (picture.width(), picture.height());
    if (width, height) == (side, side) {
        return values;
    }
    // Of each place the two pixels around it and how far it is from the first one.
    let place = |o: usize, scale: f32, len: usize| {
        let at = (o as f32 + 0.5) * scale - 0.5;
        let low = at.floor();
        let clamp = |i: f32| (i.max(0.0) as usize).min(len - 1);
        (clamp(low), clamp(low + 1.0), at - low)
    };
    let (scale_x, scale_y) = (width as f32 / side as f32, height as f32 / side as f32);
    let columns: Vec<_> = (0..side).map(|x| place(x, scale_x, width)).collect();
    let mut out = vec![0.0; side * side * 3];
    out.par_chunks_mut(side * 3).enumerate().for_each(|(y, to)| {
        let (y0, y1, down) = place(y, scale_y, height);
        for (to, (x0, x1, right)) in to.chunks_exact_mut(3).zip(&columns) {
            for (c, to) in to.iter_mut().enumerate() {
                let value = |x: usize, y: usize| values[(y * width + x) * 3 + c];
                let mix = |y: usize| value(*x0, y) + (value(*x1, y) - value(*x0, y)) * right;
                let (top, bottom) = (mix(y0), mix(y1));
                *to = top + (bottom - top) * down;
            }
        }
    });
    out
}
