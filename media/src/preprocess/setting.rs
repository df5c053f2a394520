//! What a file's metadata and a user's wishes say of preprocessing, checked.

use super::sizes::Bounds;
use super::table::{
    Count, InputLayout, Merge, PictureMarks, Pinpoints, PixelBudget, Projector, PROJECTORS, SLICES_TOGETHER,
};
use super::PreprocessOptions;
use crate::{Clip, Error, Modality, ProjectorKeys, Result, Source, TextModel};

/// The longest `image_size`, tile or cell in pixels.
const LONGEST: usize = 8192;

/// The most tokens that a user may ask for.
const MOST_TOKENS: usize = 1 << 20;

/// A projector's row of the table and what the metadata adds to it.
pub(super) struct Setting<'a> {
    pub projector: &'a Projector,
    pub marks: PictureMarks,
    pub image_size: usize,
    /// Pixels of a patch's side.
    pub patch: usize,
    /// Patches of a cell's side.
    pub merge: usize,
    /// Pixels of a cell's side.
    pub unit: usize,
    pub bounds: Bounds,
    /// The most rows of a block.
    pub block: usize,
    /// `preproc_image_size`
    pub longest: Option<usize>,
    /// Least and most tiles.
    pub tiles: [usize; 2],
    /// Sizes of the metadata that a picture may be brought to.
    pub pinpoints: Vec<[usize; 2]>,
    /// Rows of a resampler.
    pub queries: usize,
    /// Whether the file has rows that begin and end a picture.
    pub ends: bool,
    /// Whether the file has the row that stands between rows.
    pub breaks: bool,
    /// Rows and patches of a window's side.
    pub query_side: usize,
    pub window_side: usize,
    /// Whether the text model has positions in a grid.
    pub m_rope: bool,
}

fn key(name: &str, expected: &str, found: impl std::fmt::Debug) -> Error {
    Error::Key(format!("clip.vision.{name}: expected {expected}, found {found:?}"))
}

impl<'a> Setting<'a> {
    pub(super) fn read(
        clip: &Clip,
        source: &dyn Source,
        options: &PreprocessOptions,
        model: &TextModel,
    ) -> Result<Setting<'a>> {
        if clip.modality != Modality::Vision {
            return Err(Error::Unsupported(format!(
                "expected a projector of pictures, found {} of sounds",
                clip.projector
            )));
        }
        let projector = PROJECTORS
            .iter()
            .find(|p| p.name == clip.projector)
            .ok_or_else(|| Error::Unsupported(format!("pictures of the projector {}", clip.projector)))?;
        let keys = ProjectorKeys::new(source, Modality::Vision);
        let merge = merge(projector, &keys)?;
        // The pictures of these have sizes of their own, whatever the file says.
        let (image_size, patch) = match projector.layout {
            InputLayout::Views(..) => (1024, 16),
            _ => (clip.image_size, clip.patch),
        };
        if !(1..=LONGEST).contains(&image_size) {
            return Err(key("image_size", "1 to 8192", image_size));
        }
        if patch == 0 || merge == 0 || patch.checked_mul(merge).is_none_or(|n| n > LONGEST) {
            return Err(key("patch_size", "cells of 1 to 8192 pixels", [patch, merge]));
        }
        let unit = patch * merge;
        let mut setting = Setting {
            projector,
            marks: projector.marks,
            image_size,
            patch,
            merge,
            unit,
            bounds: Bounds { min: 0, max: 0 },
            block: 0,
            longest: keys.whole("preproc_image_size")?.filter(|n| *n > 0),
            tiles: tiles(projector, &keys)?,
            pinpoints: Vec::new(),
            queries: 0,
            ends: source.tensor("adapter.boi").is_some(),
            breaks: source.tensor("v.token_embd.img_break").is_some(),
            query_side: 1,
            window_side: 1,
            m_rope: model.m_rope,
        };
        if setting.longest.is_some_and(|n| n > LONGEST) {
            return Err(key("preproc_image_size", "at most 8192", setting.longest));
        }
        match projector.layout {
            InputLayout::Fixed | InputLayout::Pinpoints(_) | InputLayout::Slices | InputLayout::Stack => {
                setting.pinpoints = pinpoints(&keys, image_size)?;
            }
            InputLayout::Block => setting.set_block(clip, options)?,
            _ => {}
        }
        if !matches!(projector.layout, InputLayout::Block) {
            setting.bounds = bounds(projector, clip, unit * unit, options)?;
        }
        match projector.count {
            Count::Queries => setting.set_queries(source)?,
            Count::Unpadded => {
                setting.query_side = keys.size("projector.query_side")?;
                setting.window_side = keys.size("projector.window_side")?;
                let windows = image_size / patch / setting.window_side;
                if windows == 0 || setting.query_side > LONGEST {
                    return Err(key("projector.window_side", "windows inside of a tile", setting.window_side));
                }
            }
            _ => {}
        }
        Ok(setting)
    }

    /// Bounds of a projector whose rows stand in a block: its least pixels are the file's, its most rows a user's or 384.
    fn set_block(&mut self, clip: &Clip, options: &PreprocessOptions) -> Result<()> {
        let [min, max] = user_limits(options)?;
        let area = self.unit * self.unit;
        let least = clip.min_pixels.ok_or_else(|| key("image_min_pixels", "a number of pixels", "no such key"))?;
        self.block = max.map_or(384, |n| n.max(16));
        let most = self.block * area;
        self.bounds = Bounds { min: min.map_or(least, |n| n * area).min(most), max: most };
        Ok(())
    }

    /// What `clip.minicpmv_version` says.
    fn set_queries(&mut self, source: &dyn Source) -> Result<()> {
        let version = source.number("clip.minicpmv_version").filter(|n| *n != 0.0).unwrap_or(2.0);
        let known = [2.0, 3.0, 4.0, 5.0, 6.0, 100_045.0];
        if !known.contains(&version) {
            return Err(Error::Key(format!("clip.minicpmv_version: expected one of {known:?}, found {version}")));
        }
        if version == 2.0 {
            self.marks = SLICES_TOGETHER;
        }
        let queries = source.number("clip.minicpmv_query_num").filter(|n| *n != 0.0);
        let queries = queries.unwrap_or(if version == 2.0 { 96.0 } else { 64.0 });
        if queries.fract() != 0.0 || !(1.0..=65536.0).contains(&queries) {
            return Err(Error::Key(format!("clip.minicpmv_query_num: expected 1 to 65536, found {queries}")));
        }
        self.queries = queries as usize;
        Ok(())
    }
}

fn merge(projector: &Projector, keys: &ProjectorKeys) -> Result<usize> {
    let merge = match projector.merge {
        Merge::Always(n) => n,
        Merge::Scale(n) => keys.size_or("projector.scale_factor", n)?,
        Merge::ScaleKey => keys.size("projector.scale_factor")?,
        Merge::Spatial(n) => keys.size_or("spatial_merge_size", n)?,
        Merge::SpatialKey => keys.size("spatial_merge_size")?,
    };
    if projector.name == "minicpmv4_6" && ![2, 4].contains(&merge) {
        return Err(key("projector.scale_factor", "2 or 4", merge));
    }
    Ok(merge)
}

fn tiles(projector: &Projector, keys: &ProjectorKeys) -> Result<[usize; 2]> {
    let [min, max] = match projector.layout {
        InputLayout::Pinpoints(Pinpoints::Tiles) => [1, 12],
        InputLayout::Views(_, most, _) => [2, most],
        _ => return Ok([1, 1]),
    };
    let [min, max] = [keys.size_or("preproc_min_tiles", min)?, keys.size_or("preproc_max_tiles", max)?];
    if min > max || max > 256 {
        return Err(key("preproc_max_tiles", "least and most tiles from 1 to 256", [min, max]));
    }
    Ok([min, max])
}

fn pinpoints(keys: &ProjectorKeys, image_size: usize) -> Result<Vec<[usize; 2]>> {
    let list = keys.list("image_grid_pinpoints")?;
    let side = |n: &i64| usize::try_from(*n).ok().filter(|n| *n > 0 && *n <= 65536 && n.is_multiple_of(image_size));
    let pair = |pair: &[i64]| match pair.iter().map(side).collect::<Option<Vec<_>>>().as_deref() {
        Some([w, h]) => Ok([*w, *h]),
        _ => Err(key("image_grid_pinpoints", "pairs of multiples of image_size", pair)),
    };
    list.chunks(2).map(pair).collect()
}

/// What a user asks for.
fn user_limits(options: &PreprocessOptions) -> Result<[Option<usize>; 2]> {
    let asked = [options.image_min_tokens, options.image_max_tokens];
    match asked.iter().flatten().find(|n| !(1..=MOST_TOKENS).contains(*n)) {
        Some(n) => Err(Error::Medium(format!("picture: expected 1 to {MOST_TOKENS} tokens, found {n} asked for"))),
        None => Ok(asked),
    }
}

/// Bounds in pixels: what a user asks for, then the file's keys, then the projector's tokens of `area` pixels each.
fn bounds(projector: &Projector, clip: &Clip, area: usize, options: &PreprocessOptions) -> Result<Bounds> {
    let missing = |name: &str| key(name, "a number of pixels", "no such key");
    let [least, most] = match projector.budget {
        PixelBudget::Free => [0, 0],
        PixelBudget::Tokens(min, max) => [min * area, max * area],
        PixelBudget::Keys => [
            clip.min_pixels.ok_or_else(|| missing("image_min_pixels"))?,
            clip.max_pixels.ok_or_else(|| missing("image_max_pixels"))?,
        ],
        PixelBudget::KeysOr(min, max) => [clip.min_pixels.unwrap_or(min * area), clip.max_pixels.unwrap_or(max * area)],
    };
    if most > 0 && least > most {
        return Err(key("image_max_pixels", "at least image_min_pixels", [least, most]));
    }
    let [min, max] = user_limits(options)?.map(|n| n.map(|n| n * area));
    if let (Some(min), Some(max)) = (min, max) {
        if min > max {
            return Err(Error::Medium(format!(
                "picture: expected at most {} tokens, found {} asked for at least",
                max / area,
                min / area
            )));
        }
    }
    // A user's bound moves the other one that nobody asked for.
    Ok(match (min, max) {
        (Some(min), None) if most > 0 => Bounds { min, max: most.max(min) },
        (None, Some(max)) => Bounds { min: least.min(max), max },
        _ => Bounds { min: min.unwrap_or(least), max: max.unwrap_or(most) },
    })
}
