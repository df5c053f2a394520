//! Products with a tile: straight from its packed form for one column, and through unpacked bytes for many.

use crate::activations::{BIAS, BIAS_16, RECORD, SCALE, SUM, SUM_16};
use crate::isa::Ahead;
use crate::layout::{Codes, Scales, WeightLayout, CELL};
use crate::simd::{entries, Simd, LANES};

/// How chunks of a cell come out of its vectors; a type per number of bits.
trait Unpack {
    const VECTORS: usize;
    /// Chunk `c` of the cell at `p`: codes with the table, or what is added, applied.
    unsafe fn chunk<S: Simd>(p: *const u8, table: S::B, c: usize) -> S::B;
}

/// Bits from `by` on, of those that `mask` leaves; a match, because shifts take constants.
///
/// # Safety
/// As of [`Simd`].
#[inline(always)]
pub(crate) unsafe fn field<S: Simd>(v: S::B, by: usize, mask: u8) -> S::B {
    // SAFETY: the caller answers for the instructions.
    unsafe {
        let v = match by {
            0 => v,
            1 => S::right::<1>(v),
            2 => S::right::<2>(v),
            3 => S::right::<3>(v),
            4 => S::right::<4>(v),
            5 => S::right::<5>(v),
            6 => S::right::<6>(v),
            _ => S::right::<7>(v),
        };
        S::and(v, S::splat_byte(mask))
    }
}

macro_rules! unpack {
    ($($(#[$about:meta])* $name:ident, $vectors:expr, |$s:ident, $p:ident, $table:ident, $c:ident| $body:expr;)*) => { $(
        $(#[$about])*
        struct $name;
        impl Unpack for $name {
            const VECTORS: usize = $vectors;
            #[inline(always)]
            unsafe fn chunk<$s: Simd>($p: *const u8, $table: $s::B, $c: usize) -> $s::B {
                // SAFETY: the caller answers for the instructions and for the cell's vectors at `p`.
                unsafe { $body }
            }
        }
    )* };
}

unpack! {
    Two, 2, |S, p, table, c| S::look_up(table, field::<S>(S::bytes(p.add(c % 2 * 64)), c / 2 * 2, 3));
    Three, 3, |S, p, table, c| {
        let low = field::<S>(S::bytes(p.add(c % 2 * 64)), c / 2 * 2, 3);
        let high = field::<S>(S::bytes(p.add(128)), c, 1);
        S::look_up(table, S::or(low, S::left::<2>(high)))
    };
    Four, 4, |S, p, table, c| S::look_up(table, field::<S>(S::bytes(p.add(c % 4 * 64)), c / 4 * 4, 15));
    /// Four bits that stand for themselves.
    FourPlain, 4, |S, p, _table, c| field::<S>(S::bytes(p.add(c % 4 * 64)), c / 4 * 4, 15);
    Five, 5, |S, p, table, c| {
        let low = field::<S>(S::bytes(p.add(c % 4 * 64)), c / 4 * 4, 15);
        let high = field::<S>(S::bytes(p.add(256)), c, 1);
        S::add_bytes(S::or(low, S::left::<4>(high)), table)
    };
    Six, 6, |S, p, table, c| {
        let low = field::<S>(S::bytes(p.add(c % 4 * 64)), c / 4 * 4, 15);
        let high = field::<S>(S::bytes(p.add(256 + c % 2 * 64)), c / 2 * 2, 3);
        S::add_bytes(S::or(low, S::left::<4>(high)), table)
    };
    Eight, 8, |S, p, _table, c| S::bytes(p.add(c * 64));
}

/// How scales are read; a type per kind.
trait ScaleGroups {
    const KIND: Scales;
    /// Scale of group `g` of the cell at `p`, times `d`.
    unsafe fn scale<S: Simd>(p: *const u8, d: S::F, g: usize) -> S::F;
    /// Minimum, likewise.
    unsafe fn min<S: Simd>(p: *const u8, d: S::F, g: usize) -> S::F;
}

macro_rules! groups {
    ($($name:ident, |$s:ident, $p:ident, $d:ident, $g:ident| $scale:expr, $min:expr;)*) => { $(
        struct $name;
        impl ScaleGroups for $name {
            const KIND: Scales = Scales::$name;
            #[inline(always)]
            unsafe fn scale<$s: Simd>($p: *const u8, $d: $s::F, $g: usize) -> $s::F {
                // SAFETY: the caller answers for the instructions and for the cell's scales at `p`.
                unsafe { $scale }
            }
            #[inline(always)]
            #[allow(unused_variables, unused_unsafe)]
            unsafe fn min<$s: Simd>($p: *const u8, $d: $s::F, $g: usize) -> $s::F {
                // SAFETY: likewise.
                unsafe { $min }
            }
        }
    )* };
}

groups! {
    Half, |S, p, d, _g| S::mul(S::halves(p.cast()), d), d;
    HalfMin, |S, p, d, _g| S::mul(S::halves(p.cast()), d), S::mul(S::halves(p.add(32).cast()), d);
    Half16, |S, p, d, g| S::mul(S::halves(p.add(32 * g).cast()), d), d;
    Float, |S, p, d, _g| S::mul(S::load(p.cast()), d), d;
    Byte, |S, p, d, _g| S::mul(S::signed(p), d), d;
    ByteMin, |S, p, d, _g| S::mul(S::unsigned(p), d), S::mul(S::unsigned(p.add(16)), d);
    Byte16, |S, p, d, g| S::mul(S::signed(p.add(16 * g)), d), d;
    Byte16Min, |S, p, d, g| S::mul(S::unsigned(p.add(16 * g)), d), S::mul(S::unsigned(p.add(32 + 16 * g)), d);
}

/// What all cells of a tile need.
#[derive(Clone, Copy)]
pub(crate) struct TileForm<'a> {
    pub layout: &'a WeightLayout,
    /// Columns.
    pub cols: usize,
    /// Where memory is asked to be ahead of its use.
    pub ahead: Ahead,
}

/// Asks for lines of what comes some KB after `p`: as much as arrives while memory takes to answer.
///
/// # Safety
/// As of [`Simd`].
#[inline(always)]
unsafe fn ask<S: Simd, U: Unpack>(ahead: Ahead, p: *const u8, lines: usize) {
    // SAFETY: the caller answers for the instructions; what is asked for need not be there.
    unsafe {
        match ahead {
            Ahead::First => {
                for i in 0..lines {
                    S::prefetch(p.wrapping_add(3072 + 64 * i));
                }
            }
            // Bytes, which need no unpacking, come as fast unasked.
            Ahead::Second if U::VECTORS == 8 => {}
            Ahead::Second => {
                for i in 0..lines {
                    S::prefetch_second(p.wrapping_add(6912 + 64 * i));
                }
            }
        }
    }
}

/// One tile times one column.
///
/// # Safety
/// As of [`Simd`]; `tile` has the bytes of the form, `acts` a record for each cell.
#[inline(always)]
unsafe fn column<S: Simd, U: Unpack, G: ScaleGroups>(form: TileForm<'_>, tile: *const u8, acts: *const u8) -> S::F {
    // SAFETY: the caller answers for the instructions and for what is read.
    unsafe {
        let cells = form.cols / CELL;
        let table = S::table(form.layout.table.as_ptr());
        let factor = S::splat(form.layout.factor);
        let (mut group, mut a, mut left) = (tile, acts, cells);
        let (mut d, mut dmin) = (factor, factor);
        // Two sums of each, so that additions need not wait for each other.
        let mut sums = [S::splat(0.0); 2];
        let mut mins = S::splat(0.0);
        let (groups, together) = (CELL / G::KIND.group(), G::KIND.cells_per_group());
        let scales_at = together * 64 * U::VECTORS;
        let bytes = scales_at + (together * G::KIND.cell_bytes() + G::KIND.super_bytes()).next_multiple_of(64);
        while left > 0 {
            let above = group.add(scales_at);
            ask::<S, U>(form.ahead, above, (bytes - scales_at) / 64);
            if G::KIND.is_super() {
                d = S::mul(S::halves(above.cast()), factor);
                if G::KIND.has_min() {
                    dmin = S::mul(S::halves(above.add(32).cast()), factor);
                }
            }
            for cell in 0..together.min(left) {
                let codes = group.add(64 * U::VECTORS * cell);
                let s = above.add(G::KIND.super_bytes() + cell * G::KIND.cell_bytes());
                ask::<S, U>(form.ahead, codes, U::VECTORS);
                let scale = a.add(SCALE).cast::<f32>().read();
                for g in 0..groups {
                    let bias = if groups == 1 { BIAS } else { BIAS_16 + 4 * g };
                    // Two sums, so that products need not wait for each other.
                    let mut dots = [S::no_sum(); 2];
                    if !G::KIND.has_min() {
                        dots[0] = S::biased_sum(a.add(bias).cast::<i32>().read());
                    }
                    for c in g * 8 / groups..(g + 1) * 8 / groups {
                        let w = U::chunk::<S>(codes, table, c);
                        let x = a.add(4 * c).cast::<i8>();
                        let dot = dots[c % 2];
                        dots[c % 2] = if G::KIND.has_min() { S::dot(dot, w, x) } else { S::dot_biased(dot, w, x) };
                    }
                    let dot = S::add_sums(dots[0], dots[1]);
                    let step = S::mul(G::scale::<S>(s, d, g), S::splat(scale));
                    sums[g] = S::fma(S::floats(dot), step, sums[g]);
                    if G::KIND.has_min() {
                        let at = if groups == 1 { SUM } else { SUM_16 + 4 * g };
                        mins = S::fma(G::min::<S>(s, dmin, g), S::splat(a.add(at).cast::<f32>().read()), mins);
                    }
                }
                a = a.add(RECORD);
            }
            left -= together.min(left);
            group = group.add(bytes);
        }
        S::sub(S::add(sums[0], sums[1]), mins)
    }
}

/// Unpacks a tile: of each chunk its 64 bytes, of each group the 16 scales and, after all of them, the minima.
///
/// # Safety
/// As of [`Simd`]; `codes` has room for 16 bytes for each column, `scales` for [`scale_floats`].
#[inline(always)]
unsafe fn unpack_tile<S: Simd, U: Unpack, G: ScaleGroups>(
    form: TileForm<'_>,
    tile: *const u8,
    codes: *mut u8,
    scales: *mut f32,
) {
    // SAFETY: the caller answers for the instructions and for what is read and written.
    unsafe {
        let cells = form.cols / CELL;
        let table = S::table(form.layout.table.as_ptr());
        let factor = S::splat(form.layout.factor);
        let groups = CELL / G::KIND.group();
        let mins = scales.add(cells * groups * LANES);
        for cell in 0..cells {
            let (at, s, above) = form.layout.places(cell);
            let (s, above) = (tile.add(s), tile.add(above));
            let (mut d, mut dmin) = (factor, factor);
            if G::KIND.is_super() {
                d = S::mul(S::halves(above.cast()), factor);
                if G::KIND.has_min() {
                    dmin = S::mul(S::halves(above.add(32).cast()), factor);
                }
            }
            for c in 0..8 {
                let w = U::chunk::<S>(tile.add(at), table, c);
                S::put_bytes(codes.add((8 * cell + c) * 64), w);
            }
            for g in 0..groups {
                S::store(scales.add((cell * groups + g) * LANES), G::scale::<S>(s, d, g));
                if G::KIND.has_min() {
                    S::store(mins.add((cell * groups + g) * LANES), G::min::<S>(s, dmin, g));
                }
            }
        }
    }
}

/// Floats of a tile's scales and minima, unpacked.
pub(crate) fn scale_floats(layout: &WeightLayout, cols: usize) -> usize {
    cols / layout.scales.group() * LANES * (1 + usize::from(layout.scales.has_min()))
}

/// Calls `$f::<S, U, G>` with the types of a layout. Only pairs that formats have are compiled.
macro_rules! by_form {
    ($layout:expr, $s:ident, $f:ident($($a:expr),*)) => {{
        use Codes as C;
        use Scales as G;
        match ($layout.codes, $layout.scales) {
            (C::Four, G::ByteMin) => $f::<$s, FourPlain, ByteMin>($($a),*),
            (C::Six, G::Byte16) => $f::<$s, Six, Byte16>($($a),*),
            (C::Four, G::Half) => $f::<$s, Four, Half>($($a),*),
            (C::Eight, G::Half) => $f::<$s, Eight, Half>($($a),*),
            (C::Four, G::Byte) => $f::<$s, Four, Byte>($($a),*),
            (C::Five, G::ByteMin) => $f::<$s, Five, ByteMin>($($a),*),
            (C::Three, G::Byte16) => $f::<$s, Three, Byte16>($($a),*),
            (C::Three, G::Byte) => $f::<$s, Three, Byte>($($a),*),
            (C::Two, G::Byte16Min) => $f::<$s, Two, Byte16Min>($($a),*),
            (C::Two, G::Byte) => $f::<$s, Two, Byte>($($a),*),
            (C::Two, G::Half) => $f::<$s, Two, Half>($($a),*),
            (C::Four, G::HalfMin) => $f::<$s, FourPlain, HalfMin>($($a),*),
            (C::Four, G::Half16) => $f::<$s, Four, Half16>($($a),*),
            (C::Four, G::Float) => $f::<$s, Four, Float>($($a),*),
            (C::Five, G::Half) => $f::<$s, Five, Half>($($a),*),
            (C::Five, G::HalfMin) => $f::<$s, Five, HalfMin>($($a),*),
            (C::Eight, G::Float) => $f::<$s, Eight, Float>($($a),*),
            (codes, scales) => unreachable!("no format has {codes:?} with {scales:?}"),
        }
    }};
}

/// # Safety
/// As of [`column`], for `tiles` tiles one after the other; `out` has 16 floats for each.
#[inline(always)]
unsafe fn columns<S: Simd>(form: TileForm<'_>, tile: *const u8, tiles: usize, acts: *const u8, out: *mut f32) {
    // SAFETY: the caller answers for the instructions and for what is read and written.
    unsafe {
        let bytes = form.layout.tile_bytes(form.cols);
        for i in 0..tiles {
            let sums = by_form!(form.layout, S, column(form, tile.add(i * bytes), acts));
            S::store(out.add(LANES * i), sums);
        }
    }
}

/// # Safety
/// As of [`unpack_tile`].
#[inline(always)]
unsafe fn unpack_any<S: Simd>(form: TileForm<'_>, tile: *const u8, codes: *mut u8, scales: *mut f32) {
    // SAFETY: the caller answers for the instructions and for what is read and written.
    unsafe { by_form!(form.layout, S, unpack_tile(form, tile, codes, scales)) }
}

/// `R` unpacked tiles times `N` columns: sums stay in registers.
///
/// # Safety
/// As of [`Simd`]; tiles as [`unpack_tile`] leaves them, a record per cell at each of `acts`; `out` has, for each column, room for
/// the 16 sums of each tile.
#[inline(always)]
unsafe fn block<S: Simd, const R: usize, const N: usize, const GROUPS: usize, const MIN: bool>(
    cells: usize,
    codes: [*const u8; R],
    scales: [*const f32; R],
    acts: [*const u8; N],
    out: [*mut f32; N],
) {
    // SAFETY: the caller answers for the instructions and for what is read and written.
    unsafe {
        let mins = cells * GROUPS * LANES;
        let mut sums = [[S::splat(0.0); N]; R];
        for cell in 0..cells {
            for g in 0..GROUPS {
                let mut dots = [[S::no_sum(); N]; R];
                if !MIN {
                    let bias = if GROUPS == 1 { BIAS } else { BIAS_16 + 4 * g };
                    for n in 0..N {
                        let start = S::biased_sum(acts[n].add(cell * RECORD + bias).cast::<i32>().read());
                        for dots in &mut dots {
                            dots[n] = start;
                        }
                    }
                }
                let chunks = g * 8 / GROUPS..(g + 1) * 8 / GROUPS;
                if S::TWO && N.is_multiple_of(2) {
                    for c in chunks.step_by(2) {
                        for r in 0..R {
                            let w = codes[r].add((8 * cell + c) * 64);
                            let w = [S::bytes(w), S::bytes(w.add(64))];
                            for n in (0..N).step_by(2) {
                                let x = [0, 1].map(|i| acts[n + i].wrapping_add(cell * RECORD + 4 * c).cast::<i8>());
                                let sums = [dots[r][n], dots[r][n + 1]];
                                let sums =
                                    if MIN { S::dot_two::<false>(sums, w, x) } else { S::dot_two::<true>(sums, w, x) };
                                [dots[r][n], dots[r][n + 1]] = sums;
                            }
                        }
                    }
                    for r in 0..R {
                        for n in (0..N).step_by(2) {
                            [dots[r][n], dots[r][n + 1]] = S::columns([dots[r][n], dots[r][n + 1]]);
                        }
                    }
                } else {
                    for c in chunks {
                        let mut w = [S::splat_byte(0); R];
                        for (w, codes) in w.iter_mut().zip(codes) {
                            *w = S::bytes(codes.add((8 * cell + c) * 64));
                        }
                        for n in 0..N {
                            let x = acts[n].add(cell * RECORD + 4 * c).cast::<i8>();
                            for r in 0..R {
                                dots[r][n] =
                                    if MIN { S::dot(dots[r][n], w[r], x) } else { S::dot_biased(dots[r][n], w[r], x) };
                            }
                        }
                    }
                }
                for r in 0..R {
                    let at = (cell * GROUPS + g) * LANES;
                    let scale = S::load(scales[r].add(at));
                    for n in 0..N {
                        let x = acts[n].add(cell * RECORD);
                        let step = S::mul(scale, S::splat(x.add(SCALE).cast::<f32>().read()));
                        sums[r][n] = S::fma(S::floats(dots[r][n]), step, sums[r][n]);
                    }
                    if MIN {
                        let min = S::load(scales[r].add(mins + at));
                        let sum = if GROUPS == 1 { SUM } else { SUM_16 + 4 * g };
                        for n in 0..N {
                            let x = S::splat(acts[n].add(cell * RECORD + sum).cast::<f32>().read());
                            sums[r][n] = S::fnma(min, x, sums[r][n]);
                        }
                    }
                }
            }
        }
        for n in 0..N {
            for r in 0..R {
                S::store(out[n].add(LANES * r), sums[r][n]);
            }
        }
    }
}

/// # Safety
/// As of [`block`].
#[inline(always)]
unsafe fn block_of<S: Simd, const R: usize, const N: usize>(
    form: TileForm<'_>,
    codes: [*const u8; R],
    scales: [*const f32; R],
    acts: &[*const u8],
    out: *mut f32,
) {
    // SAFETY: the caller answers for the instructions and for what is read and written.
    unsafe {
        let cells = form.cols / CELL;
        let (mut a, mut o) = ([std::ptr::null(); N], [out; N]);
        for n in 0..N {
            a[n] = acts[n];
            o[n] = out.add(n * R * LANES);
        }
        match (form.layout.scales.group(), form.layout.scales.has_min()) {
            (32, false) => block::<S, R, N, 1, false>(cells, codes, scales, a, o),
            (32, true) => block::<S, R, N, 1, true>(cells, codes, scales, a, o),
            (_, false) => block::<S, R, N, 2, false>(cells, codes, scales, a, o),
            (_, true) => block::<S, R, N, 2, true>(cells, codes, scales, a, o),
        }
    }
}

/// # Safety
/// As of [`block`], for any number of columns: `out` is `[columns, R, 16]`.
#[inline(always)]
unsafe fn blocks_of<S: Simd, const R: usize>(
    form: TileForm<'_>,
    codes: [*const u8; R],
    scales: [*const f32; R],
    acts: &[*const u8],
    out: *mut f32,
) {
    let mut at = 0;
    while at < acts.len() {
        let (rest, left) = (&acts[at..], acts.len() - at);
        // SAFETY: the caller answers for the instructions and for what is read and written.
        unsafe {
            let out = out.add(at * R * LANES);
            if S::COLUMNS >= 6 && left >= 6 {
                block_of::<S, R, 6>(form, codes, scales, rest, out);
                at += 6;
            } else if S::COLUMNS >= 3 && left >= 3 {
                block_of::<S, R, 3>(form, codes, scales, rest, out);
                at += 3;
            } else if left >= 2 {
                block_of::<S, R, 2>(form, codes, scales, rest, out);
                at += 2;
            } else {
                block_of::<S, R, 1>(form, codes, scales, rest, out);
                at += 1;
            }
        }
    }
}

/// # Safety
/// As of [`blocks_of`]: tiles lie one after the other, `codes` and `scales` of each as far apart as the form has them.
#[inline(always)]
unsafe fn blocks<S: Simd>(
    form: TileForm<'_>,
    tiles: usize,
    codes: *const u8,
    scales: *const f32,
    acts: &[*const u8],
    out: *mut f32,
) {
    // SAFETY: the caller answers for the instructions and for what is read and written.
    unsafe {
        let apart = scale_floats(form.layout, form.cols);
        if tiles == 2 {
            let (codes, scales) = ([codes, codes.add(16 * form.cols)], [scales, scales.add(apart)]);
            blocks_of::<S, 2>(form, codes, scales, acts, out);
        } else {
            blocks_of::<S, 1>(form, [codes], [scales], acts, out);
        }
    }
}

entries! {
    /// `tiles` tiles, one after the other, times one column of activations: `out` is `[tiles, 16]`.
    pub(crate) fn times_column(form: TileForm<'_>, tile: *const u8, tiles: usize, acts: *const u8, out: *mut f32) = columns;
    /// Unpacks a tile for [`times_block`].
    pub(crate) fn unpack(form: TileForm<'_>, tile: *const u8, codes: *mut u8, scales: *mut f32) = unpack_any;
    /// One or two unpacked tiles times columns of activations: `out` is `[columns, tiles, 16]`.
    pub(crate) fn times_block(
        form: TileForm<'_>, tiles: usize, codes: *const u8, scales: *const f32, acts: &[*const u8], out: *mut f32,
    ) = blocks;
}
