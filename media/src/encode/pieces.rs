//! Orders of rows, positions and angles that encoders share.

use crate::graph::Val;
use crate::{Builder, Error, Result};

/// Rows of a grid of `[columns, rows]` patches in cells of `m` by `m`, cells row by row, patches of a cell row by row.
///
/// # Errors
/// A grid that has no whole cells.
pub fn cells([w, h]: [usize; 2], m: usize) -> Result<Vec<i32>> {
    if m == 0 || !w.is_multiple_of(m) || !h.is_multiple_of(m) {
        return Err(Error::Shape(format!("expected a grid of cells of {m} x {m} patches, found {w} x {h}")));
    }
    let mut order = Vec::with_capacity(w * h);
    for cell in 0..(w / m) * (h / m) {
        let (x, y) = (cell % (w / m) * m, cell / (w / m) * m);
        order.extend((0..m * m).map(|i| ((y + i / m) * w + x + i % m) as i32));
    }
    Ok(order)
}

/// Column and row of each patch of a list.
pub fn places(order: &[i32], w: usize) -> Vec<[usize; 2]> {
    order.iter().map(|i| [*i as usize % w, *i as usize / w]).collect()
}

/// Numbers from 0 on.
pub fn raster(len: usize) -> Vec<i32> {
    (0..len as i32).collect()
}

/// Rows that stand in cells, `m * m` after each other, side by side: features are ordered by patch, then channel.
///
/// # Errors
/// Rows that are no whole cells.
pub fn join_cells(b: &mut Builder<'_>, x: Val, m: usize) -> Result<Val> {
    let (rows, cols) = (b.rows(x), b.cols(x));
    b.reshape(x, rows / (m * m), cols * m * m)
}

/// Joins rows that stand in cells, `m * m` after each other, side by side, with features ordered by channel, then patch.
///
/// # Errors
/// Rows that are no whole cells.
pub fn join_channels(b: &mut Builder<'_>, x: Val, m: usize) -> Result<Val> {
    let (rows, cols) = (b.rows(x), b.cols(x));
    let cells = rows / (m * m);
    b.permute(x, &[(cells, cols * m * m), (cols, 1), (m * m, cols)], cells, cols * m * m)
}

/// Patches in raster order joined in cells of `m` by `m`; see [`join_cells`].
///
/// # Errors
/// A grid that has no whole cells.
pub fn unshuffle(b: &mut Builder<'_>, x: Val, grid: [usize; 2], m: usize) -> Result<Val> {
    let order = cells(grid, m)?;
    let x = b.reorder(x, &order)?;
    join_cells(b, x, m)
}

/// The mean of each `m` by `m` cell of a grid.
///
/// # Errors
/// A grid that has no whole cells.
pub fn mean_cells(b: &mut Builder<'_>, x: Val, grid: [usize; 2], m: usize) -> Result<Val> {
    let share = 1.0 / (m * m) as f32;
    let entries = cells(grid, m)?.into_iter().map(|row| (row, share)).collect();
    let picks = b.picks(m * m, entries);
    b.pick(x, picks)
}

/// Angles of the vision rotation: of `dims / 2` pairs the first half turns by the row, the second by the column, each with frequencies
/// `theta^(-2 j / (dims / 2))` from `j = 0` on.
pub fn vision_angles(places: &[[usize; 2]], dims: usize, theta: f32) -> Vec<f32> {
    let quarter = dims / 4;
    let mut angles = Vec::with_capacity(places.len() * quarter * 2);
    for [x, y] in places {
        for place in [*y, *x] {
            angles.extend((0..quarter).map(|j| place as f32 * frequency(theta, 2 * j, dims / 2)));
        }
    }
    angles
}

/// `theta^(-n / d)`
pub fn frequency(theta: f32, n: usize, d: usize) -> f32 {
    (-(f64::from(theta).ln()) * n as f64 / d as f64).exp() as f32
}

/// How a table of positions is sampled between its points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sampling {
    /// Linearly, pixels by their middles, over a wider window where it shrinks.
    Antialias,
    /// Linearly, pixels by their middles.
    Linear,
    /// Linearly, corners on corners.
    Corners,
    /// By cubics (a = -0.75), pixels by their middles.
    Cubic,
    /// Linearly, pixels by their middles, as if the result were a tenth of a pixel longer; also where the size stays.
    Stretched,
}

/// Points and factors of one side of `from` points that is sampled at `to` points.
pub fn taps(from: usize, to: usize, how: Sampling) -> Vec<Vec<(usize, f32)>> {
    let clamp = |i: i64| i.clamp(0, from as i64 - 1) as usize;
    let ratio = from as f32 / to as f32;
    let tap = |o: usize| -> Vec<(usize, f32)> {
        match how {
            Sampling::Antialias => {
                let support = ratio.max(1.0);
                let middle = (o as f32 + 0.5) * ratio;
                let first = (((middle - support + 0.5) as i64).max(0)) as usize;
                let end = ((middle + support + 0.5) as usize).min(from);
                let weight = |i: usize| (1.0 - ((i as f32 + 0.5 - middle) / support).abs()).max(0.0);
                let sum: f32 = (first..end).map(weight).sum();
                (first..end).map(|i| (i, weight(i) / sum)).collect()
            }
            Sampling::Linear | Sampling::Corners | Sampling::Stretched => {
                let at = match how {
                    Sampling::Corners if to > 1 => o as f32 * (from - 1) as f32 / (to - 1) as f32,
                    Sampling::Corners => 0.0,
                    Sampling::Stretched => (((o as f32 + 0.5) * from as f32) / (to as f32 + 0.1) - 0.5).max(0.0),
                    _ => ((o as f32 + 0.5) * ratio - 0.5).max(0.0),
                };
                let low = at.floor();
                let part = at - low;
                vec![(clamp(low as i64), 1.0 - part), (clamp(low as i64 + 1), part)]
            }
            Sampling::Cubic => {
                let at = (o as f32 + 0.5) * ratio - 0.5;
                let low = at.floor();
                let t = at - low;
                let a = -0.75f32;
                let near = |x: f32| ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
                let far = |x: f32| ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a;
                let factors = [far(t + 1.0), near(t), near(1.0 - t), far(2.0 - t)];
                (0..4).map(|i| (clamp(low as i64 + i as i64 - 1), factors[i])).collect()
            }
        }
    };
    (0..to).map(tap).collect()
}

/// A table of positions for a grid: `table` has a row for each point of `side[0]` columns by `side[1]` rows. As it is if the grid is as
/// large.
///
/// # Errors
/// A table that is not as large.
pub fn sample(b: &mut Builder<'_>, table: Val, side: [usize; 2], grid: [usize; 2], how: Sampling) -> Result<Val> {
    if side[0].checked_mul(side[1]) != Some(b.rows(table)) {
        return Err(Error::Shape(format!("expected {} x {} positions, found {}", side[0], side[1], b.rows(table))));
    }
    if side == grid && how != Sampling::Stretched {
        return Ok(table);
    }
    let (across, down) = (taps(side[0], grid[0], how), taps(side[1], grid[1], how));
    let widest = |taps: &[Vec<(usize, f32)>]| taps.iter().map(Vec::len).max().unwrap_or(0);
    // One side after the other, as far fewer rows are read than by all pairs of taps.
    let (nx, ny) = (widest(&across), widest(&down));
    let mut entries = Vec::with_capacity(side[1] * grid[0] * nx);
    for y in 0..side[1] {
        for taps in &across {
            let row = taps.iter().map(|(x, f)| ((y * side[0] + x) as i32, *f));
            entries.extend(row.chain(std::iter::repeat((-1, 0.0))).take(nx));
        }
    }
    let picks = b.picks(nx, entries);
    let wide = b.pick(table, picks)?;
    let mut entries = Vec::with_capacity(grid[0] * grid[1] * ny);
    for taps in &down {
        for x in 0..grid[0] {
            let row = taps.iter().map(|(y, f)| ((y * grid[0] + x) as i32, *f));
            entries.extend(row.chain(std::iter::repeat((-1, 0.0))).take(ny));
        }
    }
    let picks = b.picks(ny, entries);
    b.pick(wide, picks)
}

/// The square table `name` of positions of `cols` columns, sampled for a grid.
///
/// # Errors
/// No such tensor; a number of rows that is no square.
pub fn sample_square_table(
    b: &mut Builder<'_>,
    name: &str,
    cols: usize,
    grid: [usize; 2],
    how: Sampling,
) -> Result<Val> {
    let len: usize = b.shape(name)?.iter().product();
    let rows = len / cols.max(1);
    let side = rows.isqrt();
    if side * side != rows {
        return Err(Error::Shape(format!("{name}: expected a square of positions, found {rows}")));
    }
    let table = b.load(name, rows, cols)?;
    sample(b, table, [side; 2], grid, how)
}
