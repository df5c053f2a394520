//! A picture to pictures as the encoder takes them, before they are normalised.

use super::sizes::{self, Bounds};
use super::table::{InputLayout, Pinpoints, Projector};
use super::tiles::{self, windows};
use super::Setting;
use crate::resize::{canvas, check_size, crop, fit, paste, resize, MOST_PIXELS};
use crate::{Error, Filter, Fit, Picture, Result};

/// One input of the encoder, in 8 bits.
pub(super) struct InputDraft {
    pub picture: Picture,
    /// The side that it is brought to after it is normalised.
    pub side: Option<usize>,
    /// Columns and rows of tiles below each other.
    pub tiles: [usize; 2],
    /// Whether the row that separates views follows.
    pub separator: bool,
}

impl From<Picture> for InputDraft {
    fn from(picture: Picture) -> InputDraft {
        InputDraft { picture, side: None, tiles: [0, 0], separator: false }
    }
}

/// What a picture becomes.
pub(super) enum Drafts {
    /// One input.
    One(InputDraft),
    /// An overview and tiles row by row, in so many columns; without tiles there is the overview alone.
    Tiled { overview: InputDraft, tiles: Vec<InputDraft>, columns: usize },
}

fn alone(overview: Picture) -> Drafts {
    Drafts::Tiled { overview: overview.into(), tiles: Vec::new(), columns: 0 }
}

/// A picture cut into equal tiles, row by row.
fn cut(picture: &Picture, grid: [usize; 2]) -> Result<Vec<Picture>> {
    let [w, h] = [picture.width() / grid[0], picture.height() / grid[1]];
    (0..grid[0] * grid[1]).map(|i| crop(picture, i % grid[0] * w, i / grid[0] * h, w, h)).collect()
}

fn tile_drafts(overview: Picture, refined: &Picture, grid: [usize; 2]) -> Result<Drafts> {
    let tiles = cut(refined, grid)?.into_iter().map(InputDraft::from).collect();
    Ok(Drafts::Tiled { overview: overview.into(), tiles, columns: grid[0] })
}

impl Setting<'_> {
    /// What a picture becomes for its projector.
    pub(super) fn draft(&self, picture: &Picture) -> Result<Drafts> {
        let size = [picture.width(), picture.height()];
        let Projector { filter, fit: style, pad, .. } = *self.projector;
        let (square, unit) = ([self.image_size; 2], self.unit);
        let fitted = |size: [usize; 2]| fit(picture, size, filter, style, pad);
        let one = |size: [usize; 2]| Ok(Drafts::One(fitted(size)?.into()));
        match self.projector.layout {
            InputLayout::Fixed if self.pinpoints.is_empty() => one(square),
            InputLayout::Fixed => self.pinpoint_tiles(picture, &self.pinpoints),
            InputLayout::Dynamic => one(sizes::near_own(size, unit, self.bounds, 0)),
            InputLayout::Longest => {
                one(sizes::near_own(size, unit, self.bounds, self.longest.unwrap_or(self.image_size)))
            }
            InputLayout::Canvas => {
                let (sides, content) = sizes::canvas(size, unit, self.bounds);
                let content = resize(picture, content[0], content[1], filter)?;
                Ok(Drafts::One(paste(canvas(sides[0], sides[1], [0; 3])?, &content, 0, 0)?.into()))
            }
            InputLayout::Steps => {
                one(sizes::in_steps(size, self.patch, unit, self.bounds.max / (self.patch * self.patch)))
            }
            InputLayout::Ratio => one(sizes::nearest_ratio(size, unit, self.bounds.max / (unit * unit))),
            InputLayout::Block => {
                let sides = sizes::within_block(size, self.patch, self.merge, self.bounds.min, self.block)?;
                let wide = size[0] >= sizes::WIDEST * size[1];
                let style = if wide { Fit::Stretch } else { style };
                Ok(Drafts::One(fit(picture, sides, filter, style, pad)?.into()))
            }
            InputLayout::Pinpoints(kind) => {
                let grids = match kind {
                    Pinpoints::Tiles => tiles::grids(self.tiles[0], self.tiles[1]),
                    Pinpoints::Square(most) => tiles::squares(most),
                };
                let made = grids.into_iter().map(|grid| grid.map(|n| n * self.image_size));
                let all: Vec<_> = self.pinpoints.iter().copied().chain(made).collect();
                self.pinpoint_tiles(picture, &all)
            }
            InputLayout::Slices => self.slices(picture),
            InputLayout::LargeTiles => {
                const TILE: usize = 512;
                let overview = sizes::near_own(size, unit, self.bounds, 0);
                let overview = resize(picture, overview[0], overview[1], filter)?;
                if !tiles::is_large(size, self.patch, unit, self.bounds.max) {
                    return Ok(Drafts::One(overview.into()));
                }
                let grid = tiles::ratio_grid(size, 2, 10, TILE);
                tile_drafts(overview, &fit(picture, grid.map(|n| n * TILE), filter, Fit::Ceil, [0; 3])?, grid)
            }
            InputLayout::Multiples => self.multiples(picture),
            InputLayout::Windows => self.windows(picture),
            InputLayout::Views(tile, _, joined) => {
                let mut overview = InputDraft::from(fit(picture, square, filter, Fit::Nearest, pad)?);
                overview.separator = true;
                if size.iter().all(|n| *n <= tile) {
                    return Ok(Drafts::Tiled { overview, tiles: Vec::new(), columns: 0 });
                }
                let grid = tiles::ratio_grid(size, self.tiles[0], self.tiles[1], tile);
                let refined = resize(picture, grid[0] * tile, grid[1] * tile, filter)?;
                let mut tiles = cut(&refined, grid)?;
                if joined {
                    tiles = tiles.chunks(grid[0]).map(stack).collect::<Result<_>>()?;
                }
                let columns = if joined { 1 } else { grid[0] };
                Ok(Drafts::Tiled { overview, tiles: tiles.into_iter().map(InputDraft::from).collect(), columns })
            }
            InputLayout::Stack => {
                let (refined, grid) = self.fit_best_grid(picture, &self.pinpoints)?;
                let mut all = vec![resize(picture, square[0], square[1], filter)?];
                all.extend(cut(&refined, grid)?);
                Ok(Drafts::One(InputDraft { tiles: grid, ..InputDraft::from(stack(&all)?) }))
            }
        }
    }

    /// A picture fitted into the best of `candidates`, and its grid of squares of `image_size`.
    fn fit_best_grid(&self, picture: &Picture, candidates: &[[usize; 2]]) -> Result<(Picture, [usize; 2])> {
        let size = [picture.width(), picture.height()];
        let best = tiles::best_pinpoint(size, candidates).ok_or_else(|| {
            Error::Key(
                "clip.vision.image_grid_pinpoints: expected sizes that a picture may be brought to, found none".into(),
            )
        })?;
        let refined = fit(picture, best, Filter::Bicubic, Fit::Ceil, [0; 3])?;
        Ok((refined, best.map(|n| n / self.image_size)))
    }

    fn pinpoint_tiles(&self, picture: &Picture, candidates: &[[usize; 2]]) -> Result<Drafts> {
        let side = self.image_size;
        let overview = resize(picture, side, side, Filter::Bicubic)?;
        if picture.width() <= side && picture.height() <= side {
            return Ok(alone(overview));
        }
        let (refined, grid) = self.fit_best_grid(picture, candidates)?;
        tile_drafts(overview, &refined, grid)
    }

    fn slices(&self, picture: &Picture) -> Result<Drafts> {
        let (size, side, unit) = ([picture.width(), picture.height()], self.image_size, self.unit);
        if !self.pinpoints.is_empty() {
            return self.pinpoint_tiles(picture, &self.pinpoints);
        }
        let stretched = |size: [usize; 2]| resize(picture, size[0], size[1], Filter::Bicubic);
        if self.merge == 2 && size[0] as f32 * size[1] as f32 / (side * side) as f32 <= 1.0 {
            return Ok(alone(stretched(tiles::about_square(size, side, unit, true))?));
        }
        if size[0] <= side && size[1] <= side {
            return Ok(alone(stretched([side; 2])?));
        }
        let overview = stretched(tiles::about_square(size, side, unit, false))?;
        let grid = tiles::slice_grid(size, side);
        let refined = fit(picture, tiles::slice_size(size, grid, side, unit), Filter::Bicubic, Fit::Ceil, [0; 3])?;
        tile_drafts(overview, &refined, grid)
    }

    fn multiples(&self, picture: &Picture) -> Result<Drafts> {
        let (size, side, filter) = ([picture.width(), picture.height()], self.image_size, self.projector.filter);
        let free = self.bounds == Bounds { min: 0, max: 0 };
        if let (Some(longest), true) = (self.longest, free) {
            let first = sizes::longer_side(size, longest);
            let grid = first.map(|n| n.div_ceil(side));
            check_size(grid[0] * side, grid[1] * side)?;
            let first = resize(picture, first[0], first[1], filter)?;
            let refined = resize(&first, grid[0] * side, grid[1] * side, filter)?;
            return tile_drafts(resize(&refined, side, side, filter)?, &refined, grid);
        }
        let sides = sizes::near_own(size, side, self.bounds, self.longest.unwrap_or(0));
        let refined = fit(picture, sides, Filter::Bicubic, Fit::Ceil, [0; 3])?;
        tile_drafts(resize(picture, side, side, Filter::Bicubic)?, &refined, sides.map(|n| n / side))
    }

    fn windows(&self, picture: &Picture) -> Result<Drafts> {
        const LONGEST: usize = 3024;
        let (width, height) = (picture.width(), picture.height());
        let mut whole = picture.clone();
        let ratio = width as f32 / height as f32;
        if width.min(height) < 32 && !(0.25..=4.0).contains(&ratio) {
            let side = width.max(height);
            whole = paste(canvas(side, side, [0; 3])?, picture, 0, 0)?;
        }
        let (longest, longer) = (self.longest.unwrap_or(LONGEST), whole.width().max(whole.height()));
        if longer > longest {
            let scale = longest as f32 / longer as f32;
            let [w, h] = [whole.width(), whole.height()].map(|n| ((n as f32 * scale) as usize).max(1));
            whole = resize(&whole, w, h, Filter::Bilinear)?;
        }
        let size = [whole.width(), whole.height()];
        let draft = |picture: Picture, side: usize| InputDraft { side: Some(side), ..InputDraft::from(picture) };
        let overview = draft(whole.clone(), self.image_size);
        let Some(window) = windows::side(size, self.image_size) else {
            return Ok(Drafts::Tiled { overview, tiles: Vec::new(), columns: 0 });
        };
        let extent = size.map(|n| windows::extent(n, window));
        let [xs, ys] = extent.map(|n| windows::starts(n, window));
        if xs.len() * ys.len() > MOST_PIXELS / (windows::SIDE * windows::SIDE) {
            return Err(Error::Medium(format!(
                "picture: expected few windows of {window}, found {} x {} of them",
                xs.len(),
                ys.len()
            )));
        }
        let refined = resize(&whole, extent[0], extent[1], Filter::Bilinear)?;
        let mut tiles = Vec::new();
        for y in &ys {
            for x in &xs {
                let [w, h] = [window.min(extent[0] - x), window.min(extent[1] - y)];
                let part = crop(&refined, *x, *y, w, h)?;
                tiles.push(draft(paste(canvas(window, window, [0; 3])?, &part, 0, 0)?, windows::SIDE));
            }
        }
        Ok(Drafts::Tiled { overview, tiles, columns: xs.len() })
    }
}

/// Pictures of one width below each other.
fn stack(pictures: &[Picture]) -> Result<Picture> {
    let width = pictures.first().map_or(0, Picture::width);
    let height = pictures.iter().map(Picture::height).sum();
    check_size(width, height)?;
    Picture::new(width, height, pictures.iter().flat_map(|p| p.pixels()).copied().collect())
}
