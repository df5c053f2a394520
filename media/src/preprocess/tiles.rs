//! Into which tiles a picture is cut.

/// The sizes of `candidates` that keeps most of a picture's pixels; of equal ones the one with the least around it, the first of those.
pub(super) fn best_pinpoint(size: [usize; 2], candidates: &[[usize; 2]]) -> Option<[usize; 2]> {
    let mut best: Option<(usize, i64, [usize; 2])> = None;
    for candidate in candidates {
        let scale = [0, 1].map(|i| candidate[i] as f32 / size[i] as f32);
        let scale = scale[0].min(scale[1]);
        let [w, h] = size.map(|n| (n as f32 * scale) as usize);
        let kept = (w * h).min(size[0] * size[1]);
        let waste = (candidate[0] * candidate[1]) as i64 - kept as i64;
        if best.is_none_or(|(most, least, _)| kept > most || (kept == most && waste < least)) {
            best = Some((kept, waste, *candidate));
        }
    }
    best.map(|(_, _, candidate)| candidate)
}

/// Grids of at least `min` and at most `max` tiles on each side and together, columns first.
pub(super) fn grids(min: usize, max: usize) -> Vec<[usize; 2]> {
    let of = |a: usize| (min.div_ceil(a).max(min)..=max / a).map(move |b| [a, b]);
    (min.max(1)..=max).flat_map(of).collect()
}

/// Grids of up to `most` columns and rows, but for the one of a single tile.
pub(super) fn squares(most: usize) -> Vec<[usize; 2]> {
    (1..=most).flat_map(|x| (1..=most).map(move |y| [x, y])).filter(|grid| *grid != [1, 1]).collect()
}

/// A length rounded to a multiple of `unit`, at least one.
fn whole(length: usize, unit: usize) -> usize {
    ((length as f32 / unit as f32).round() as usize * unit).max(unit)
}

/// Sides in multiples of `unit` with about `side` squared pixels, if the picture has more or may grow.
pub(super) fn about_square(size: [usize; 2], side: usize, unit: usize, grow: bool) -> [usize; 2] {
    let [mut width, mut height] = size;
    if width * height > side * side || grow {
        let ratio = width as f32 / height as f32;
        height = (side as f32 / ratio.sqrt()) as usize;
        width = (height as f32 * ratio) as usize;
    }
    [whole(width, unit), whole(height, unit)]
}

/// The most slices of a picture.
const MOST_SLICES: usize = 9;

/// The grid of about as many slices as a picture has squares of `side`, with the ratio nearest to its own.
pub(super) fn slice_grid(size: [usize; 2], side: usize) -> [usize; 2] {
    let [width, height] = size.map(|n| n as f32);
    let wanted = f64::from((f64::from(width / height)).ln() as f32);
    let squares = (width * height / (side * side) as f32).ceil();
    let count = (squares as usize).min(MOST_SLICES);
    let mut best = ([1, 1], f32::INFINITY);
    for n in [count.saturating_sub(1), count, count + 1] {
        if n <= 1 || n > MOST_SLICES {
            continue;
        }
        for x in (1..=n).filter(|x| n % x == 0) {
            let grid = [x, n / x];
            let error = (wanted - (grid[0] as f64 / grid[1] as f64).ln()).abs() as f32;
            if error < best.1 {
                best = (grid, error);
            }
        }
    }
    best.0
}

/// Sides of a picture that is cut into `grid` slices of about `side` squared pixels each.
pub(super) fn slice_size(size: [usize; 2], grid: [usize; 2], side: usize, unit: usize) -> [usize; 2] {
    let slice = [0, 1].map(|i| whole(size[i], grid[i]) / grid[i]);
    let slice = about_square(slice, side, unit, true);
    [slice[0] * grid[0], slice[1] * grid[1]]
}

/// The grid of at least `min` and at most `max` tiles with the ratio nearest to a picture's; of equal ones the larger one if the picture
/// has more than half of its pixels.
pub(super) fn ratio_grid(size: [usize; 2], min: usize, max: usize, tile: usize) -> [usize; 2] {
    let of = |w: usize| (1..=max / w).map(move |h| [w, h]).filter(|g| g[0] * g[1] >= min);
    let mut grids: Vec<[usize; 2]> = (1..=max).flat_map(of).collect();
    // Of grids with as many tiles those come first whose longer side is shorter, as it is where grids are listed by their sides.
    grids.sort_by_key(|g| (g[0] * g[1], g[0].max(g[1]).max(min), g[0]));
    let ratio = size[0] as f32 / size[1] as f32;
    let area = (size[0] * size[1]) as f32;
    let mut best = ([1, 1], f32::MAX);
    for grid in grids {
        let distance = (ratio - grid[0] as f32 / grid[1] as f32).abs();
        let target = (tile * tile * grid[0] * grid[1]) as f32;
        if distance < best.1 || (distance == best.1 && area > 0.5 * target) {
            best = (grid, distance);
        }
    }
    best.0
}

/// Whether a picture whose sides are rounded to multiples of `unit`, halves to the even one, has more than twice `max` pixels.
pub(super) fn is_large(size: [usize; 2], patch: usize, unit: usize, max: usize) -> bool {
    let [w, h] = size.map(|n| ((n as f64 / unit as f64).round_ties_even() as usize * unit).max(patch));
    w * h > 2 * max
}

/// Columns and rows that are left of a grid of `cells` once those are cut off that only padding of a picture of `size` fills.
pub(super) fn unpadded_cells(cells: [usize; 2], size: [usize; 2]) -> [usize; 2] {
    let [columns, rows] = cells;
    let [width, height] = size;
    let kept = |all: usize, other: usize, own: usize, from: usize| {
        let new = (own as f64 * other as f64 / from as f64 + 1e-7).floor() as usize;
        all - all.saturating_sub(new) / 2 * 2
    };
    if width as f32 / height as f32 > columns as f32 / rows as f32 {
        [columns, kept(rows, columns, height, width)]
    } else {
        [kept(columns, rows, width, height), rows]
    }
}

/// Windows of a picture in f32.
pub(super) mod windows {
    /// The side that a window is brought to.
    pub const SIDE: usize = 504;

    /// The side of a window in pixels, if there are windows.
    pub fn side(size: [usize; 2], image_size: usize) -> Option<usize> {
        let (longer, shorter) = (size[0].max(size[1]), size[0].min(size[1]));
        let ratio = longer as f32 / shorter as f32;
        if longer <= image_size {
            return (ratio > 1.5).then_some(shorter);
        }
        Some(if ratio > 4.0 { shorter.min(SIDE) } else { SIDE })
    }

    /// A side brought to a multiple of windows: up if more than a fifth of one is left.
    pub fn extent(length: usize, window: usize) -> usize {
        let ratio = length as f32 / window as f32;
        if ratio < 1.0 {
            return length;
        }
        let more = ratio - ratio.floor() > 0.2;
        window * (ratio.floor() as usize + usize::from(more))
    }

    /// Where windows begin.
    pub fn starts(length: usize, window: usize) -> Vec<usize> {
        let count = length.div_ceil(window).max(1);
        (0..count).map(|i| (window * i).min(length.saturating_sub(window))).collect()
    }
}
