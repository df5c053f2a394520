//! The size that one picture is brought to: width and height in pixels. Single and double precision are part of the rules.

use crate::{Error, Result};

/// Least and most pixels; 0 where there is no bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    pub min: usize,
    pub max: usize,
}

/// Sides rounded to multiples of `unit`, within the bounds, the ratio kept as well as that allows. With `longest` the picture is first
/// scaled so that its longer side has that length, and sides are rounded up.
pub(super) fn near_own(size: [usize; 2], unit: usize, bounds: Bounds, longest: usize) -> [usize; 2] {
    let [width, height] = size.map(|n| n as f32);
    let area = height * width;
    let multiple = |n: f32, round: fn(f32) -> f32| round(n / unit as f32) as usize * unit;
    let [mut w, mut h] = if longest > 0 {
        let scale = (longest as f32 / width).min(longest as f32 / height);
        [width, height].map(|n| multiple(n * scale, f32::ceil))
    } else {
        [width, height].map(|n| multiple(n, f32::round).max(unit))
    };
    if bounds.max > 0 && w * h > bounds.max {
        let beta = (area / bounds.max as f32).sqrt();
        [w, h] = [width, height].map(|n| multiple(n / beta, f32::floor).max(unit));
    } else if bounds.min > 0 && w * h < bounds.min {
        let beta = (bounds.min as f32 / area).sqrt();
        [w, h] = [width, height].map(|n| multiple(n * beta, f32::ceil));
    }
    [w, h]
}

/// A canvas around a picture, its sides rounded up to multiples of `unit`, and the size of the picture on it. A picture grows only if
/// it has fewer pixels than the least.
pub(super) fn canvas(size: [usize; 2], unit: usize, bounds: Bounds) -> ([usize; 2], [usize; 2]) {
    let [width, height] = size;
    let align = |n: usize| n.next_multiple_of(unit);
    let mut sides = size.map(align);
    if sides[0] * sides[1] < bounds.min {
        let scale = (bounds.min as f64 / (height * width) as f64).sqrt();
        sides = size.map(|n| align(((n as f64 * scale).ceil() as usize).max(1)));
    }
    if sides[0] * sides[1] > bounds.max {
        let (mut low, mut high) = (1, height);
        sides = [unit, unit];
        while low <= high {
            let rows = (low + high) / 2;
            let wide = [align((width * rows / height).max(1)), align(rows)];
            if wide[0] * wide[1] <= bounds.max {
                sides = wide;
                low = rows + 1;
            } else {
                high = rows - 1;
            }
        }
    }
    let mut scale = (sides[1] as f64 / height as f64).min(sides[0] as f64 / width as f64);
    if height * width >= bounds.min {
        scale = scale.min(1.0);
    }
    let content = [0, 1].map(|i| ((size[i] as f64 * scale).floor() as usize).clamp(1, sides[i]));
    (sides, content)
}

/// Sides rounded up to multiples of `unit`, of the picture made smaller in steps of a fiftieth of its own size until it has at most
/// `most` patches.
pub(super) fn in_steps(size: [usize; 2], patch: usize, unit: usize, most: usize) -> [usize; 2] {
    let mut scale = 1.0f32;
    let mut sides = [unit, unit];
    while scale > 0.0 {
        sides = size.map(|n| ((n as f32 * scale / unit as f32).ceil() as usize * unit).max(unit));
        if (sides[0] / patch) * (sides[1] / patch) <= most {
            break;
        }
        scale -= 0.02;
    }
    sides
}

/// Among the cells around the picture's own ones, rounded down and up, those with the ratio nearest to its own.
pub(super) fn nearest_ratio(size: [usize; 2], unit: usize, most: usize) -> [usize; 2] {
    let [width, height] = size.map(|n| n as f64);
    let (mut rows, mut columns) = (height / unit as f64, width / unit as f64);
    let ratio = columns / rows;
    if rows * columns > most as f64 {
        rows = (most as f64 / ratio).sqrt();
        columns = rows * ratio;
    }
    let mut best: Option<(f64, [usize; 2])> = None;
    for h in [rows.floor(), rows.ceil()] {
        for w in [columns.floor(), columns.ceil()] {
            let cells = [w as usize, h as usize];
            let count = cells[0] * cells[1];
            if count == 0 || count > most {
                continue;
            }
            let distance = (h / w - height / width).abs();
            let better = |(least, found): (f64, [usize; 2])| {
                distance < least || (distance == least && count > found[0] * found[1])
            };
            if best.is_none_or(better) {
                best = Some((distance, cells));
            }
        }
    }
    let [w, h] = best.map_or([columns, rows].map(|n| (n.round() as usize).max(1)), |(_, cells)| cells);
    [w * unit, h * unit]
}

/// Rows of a block of `cells` columns and rows: an even number of lines, a line's end behind each, and one row in front and one behind;
/// two more where pairs of lines would else have an odd number of rows.
pub(super) fn block_rows(cells: [usize; 2]) -> usize {
    let [columns, rows] = cells;
    let pairs = rows.div_ceil(2);
    let line = columns + 1;
    1 + 2 * pairs * line + pairs * line % 2 * 2 + 1
}

/// Pictures wider than so many times their height are squeezed.
pub(super) const WIDEST: usize = 8;

/// The largest size in patches whose block has at most `most` rows, three of them kept for what stands in front.
pub(super) fn within_block(
    size: [usize; 2],
    patch: usize,
    merge: usize,
    min: usize,
    most: usize,
) -> Result<[usize; 2]> {
    let [mut width, mut height] = size;
    width = width.min(height * WIDEST);
    if width * height < min {
        let up = (min as f64 / (width as f64 * height as f64)).sqrt();
        [width, height] = [width, height].map(|n| ((n as f64 * up) as usize).max(1));
    }
    let unit = patch * merge;
    let most = most.saturating_sub(3);
    let mut best = [width, height].map(|n| n.next_multiple_of(patch));
    let mut budget = most;
    while block_rows(best.map(|n| (n / patch).div_ceil(merge))) > most {
        if budget < 8 {
            return Err(Error::Medium(format!("picture: expected room for 8 rows of it, found {budget}")));
        }
        best = solve_block([width, height], patch, unit, budget);
        budget -= 1;
    }
    if best.contains(&0) {
        return Err(Error::Medium(format!("picture: expected sides of a patch at least, found {width} x {height}")));
    }
    Ok(best)
}

/// The largest size whose block has about `budget` rows.
fn solve_block(size: [usize; 2], patch: usize, unit: usize, budget: usize) -> [usize; 2] {
    let [width, height] = size;
    let even = |n: usize| n - n % 2;
    let room = (budget - 2) as f64;
    let ratio = height as f64 / width as f64;
    let columns = (room / ratio + 0.25).sqrt() - 0.5;
    let rows = columns * ratio;
    if columns < 1.0 {
        [unit, even((budget - 2) / 2) * unit]
    } else if rows < 2.0 {
        [((budget - 2) / 2 - 1).max(2) * unit, 2 * unit]
    } else {
        let side = |cells: usize, from: usize| (cells * unit) as f64 / from as f64;
        let beta = side(columns as usize, width).min(side(even(rows as usize), height));
        [width, height].map(|n| (n as f64 * beta / patch as f64).floor() as usize * patch)
    }
}

/// Sides whose longer one is `longest` and whose shorter one is even.
pub(super) fn longer_side(size: [usize; 2], longest: usize) -> [usize; 2] {
    let [width, height] = size;
    let ratio = width as f64 / height as f64;
    let even = |n: f64| (n as usize).next_multiple_of(2).max(2);
    if width >= height {
        [longest, even(longest as f64 / ratio)]
    } else {
        [even(longest as f64 * ratio), longest]
    }
}
