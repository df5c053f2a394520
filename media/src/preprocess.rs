//! Pictures to inputs of an encoder: resized, cut, normalised, with the texts that stand around them in a prompt.

mod count;
mod layout;
mod setting;
mod sizes;
mod table;
mod tiles;

use crate::resize::{normalize, normalize_resized, MOST_PIXELS};
use crate::{Clip, EncoderInput, Error, Medium, Picture, Positions, PromptPiece, Result, Source, TextModel};
use layout::{Drafts, InputDraft};
use setting::Setting;
use table::{Count, Sight};

/// What a user asks of preprocessing; by default nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PreprocessOptions {
    /// At least so many tokens for a picture, where its size is not fixed.
    pub image_min_tokens: Option<usize>,
    /// At most so many tokens for a picture, where its size is not fixed.
    pub image_max_tokens: Option<usize>,
}

/// What stands in a prompt for a picture: inputs of the encoder and the texts around them.
///
/// # Errors
/// A projector that takes no pictures, metadata that cannot be, and a picture that would become too large or nothing at all.
pub fn prepare_picture(
    clip: &Clip,
    source: &dyn Source,
    picture: &Picture,
    options: &PreprocessOptions,
    model: &TextModel,
) -> Result<Vec<PromptPiece>> {
    let setting = Setting::read(clip, source, options, model)?;
    let pieces = match setting.draft(picture)? {
        Drafts::One(draft) => vec![setting.medium(clip, model, vec![draft], picture, true)?],
        Drafts::Tiled { overview, tiles, columns } => {
            let pixels = |d: &InputDraft| d.side.map_or(d.picture.width() * d.picture.height(), |side| side * side);
            check_pixels(pixels(&overview) + tiles.iter().map(pixels).sum::<usize>())?;
            let mut made = tiles.into_iter().map(|tile| setting.medium(clip, model, vec![tile], picture, false));
            let tiles = made.by_ref().collect::<Result<Vec<PromptPiece>>>()?;
            setting.arrange(setting.medium(clip, model, vec![overview], picture, false)?, tiles, columns)
        }
    };
    Ok(setting.surround(model, pieces))
}

/// What stands in a prompt for two pictures of one size that follow each other in time and become one medium with two inputs.
///
/// # Errors
/// Those of [`prepare_picture`], a projector that takes no pairs, and pictures of two sizes.
pub fn prepare_pair(
    clip: &Clip,
    source: &dyn Source,
    pair: [&Picture; 2],
    options: &PreprocessOptions,
    model: &TextModel,
) -> Result<Vec<PromptPiece>> {
    let setting = Setting::read(clip, source, options, model)?;
    if !setting.projector.pairs {
        return Err(Error::Unsupported(format!(
            "expected a projector that takes two frames at once, found {}",
            clip.projector
        )));
    }
    let sizes = pair.map(|p| (p.width(), p.height()));
    if sizes[0] != sizes[1] {
        return Err(Error::Medium(format!(
            "picture: expected two frames of one size, found {:?} and {:?}",
            sizes[0], sizes[1]
        )));
    }
    let mut drafts = Vec::new();
    for picture in pair {
        match setting.draft(picture)? {
            Drafts::One(draft) => drafts.push(draft),
            Drafts::Tiled { .. } => {
                return Err(Error::Unsupported(format!("frames cut into tiles by {}", clip.projector)))
            }
        }
    }
    let medium = setting.medium(clip, model, drafts, pair[0], true)?;
    Ok(setting.surround(model, vec![medium]))
}

/// Whether two pictures of one size that follow each other become one medium.
pub fn takes_pairs(clip: &Clip) -> bool {
    table::PROJECTORS.iter().any(|p| p.name == clip.projector && p.pairs)
}

/// Fits a medium to its place in a prompt, `before` tokens behind the start, the token that begins every prompt not counted. Where a
/// text model reads its input in blocks, rows of padding in front bring the picture to the end of one; else nothing changes.
pub fn place(clip: &Clip, medium: &mut Medium, before: usize) {
    const BLOCK: usize = 4;
    if !table::PROJECTORS.iter().any(|p| p.name == clip.projector && matches!(p.count, Count::Block)) {
        return;
    }
    if let Some(input) = medium.inputs.first_mut() {
        let pads = BLOCK - 1 - before % BLOCK;
        medium.rows = medium.rows - input.lead_pad + pads;
        medium.grid = [medium.rows, 1];
        input.lead_pad = pads;
    }
}

fn check_pixels(pixels: usize) -> Result<()> {
    if pixels > MOST_PIXELS {
        return Err(Error::Medium(format!(
            "picture: expected all of its inputs to have at most {MOST_PIXELS} pixels, found {pixels}"
        )));
    }
    Ok(())
}

impl Setting<'_> {
    fn input(&self, clip: &Clip, draft: &InputDraft, picture: &Picture) -> Result<EncoderInput> {
        let (width, height) = match draft.side {
            Some(side) => (side, side),
            None => (draft.picture.width(), draft.picture.height()),
        };
        check_pixels(width * height)?;
        let values = match draft.side {
            Some(side) => normalize_resized(&draft.picture, side, clip.mean, clip.std),
            None => normalize(&draft.picture, clip.mean, clip.std),
        };
        Ok(EncoderInput {
            width,
            height,
            values,
            tiles: draft.tiles,
            original: [picture.width(), picture.height()],
            view_separator: draft.separator,
            lead_pad: 0,
        })
    }

    fn medium(
        &self,
        clip: &Clip,
        model: &TextModel,
        drafts: Vec<InputDraft>,
        picture: &Picture,
        whole: bool,
    ) -> Result<PromptPiece> {
        let inputs = drafts.iter().map(|d| self.input(clip, d, picture)).collect::<Result<Vec<_>>>()?;
        let first = inputs.first().ok_or_else(|| Error::Medium("picture: expected an input, found none".into()))?;
        let rows = self.count(first)?;
        let grid = if whole { self.grid(first, rows) } else { [rows, 1] };
        let positions = match self.projector.count {
            _ if !whole || !model.m_rope => Positions::Sequential,
            Count::Newlines => Positions::GridWithBreaks,
            _ => Positions::Grid,
        };
        let bidirectional = match self.projector.sight {
            Sight::Causal => false,
            Sight::All => true,
            Sight::AllBut(widths) => !widths.contains(&model.n_embd),
        };
        Ok(PromptPiece::Medium(Medium { picture: true, inputs, grid, rows, positions, bidirectional }))
    }

    /// Tiles and overview with the texts around each.
    fn arrange(&self, overview: PromptPiece, tiles: Vec<PromptPiece>, columns: usize) -> Vec<PromptPiece> {
        let marks = self.marks;
        let mut pieces = Vec::new();
        let texts = |pieces: &mut Vec<PromptPiece>, texts: &[&str]| {
            pieces.extend(texts.iter().map(|t| PromptPiece::Token((*t).into())))
        };
        let mut overview = Some(overview);
        let mut look = |pieces: &mut Vec<PromptPiece>| {
            texts(pieces, marks.before_overview);
            pieces.extend(overview.take());
            texts(pieces, marks.after_overview);
        };
        if marks.overview_first {
            look(&mut pieces);
        }
        if !tiles.is_empty() {
            texts(&mut pieces, marks.before_tiles);
            for (i, tile) in tiles.into_iter().enumerate() {
                let (row, column) = (i / columns.max(1), i % columns.max(1));
                if i > 0 && column == 0 {
                    texts(&mut pieces, marks.between_rows);
                }
                let named = |t: &&str| t.replace("%r", &(row + 1).to_string()).replace("%c", &(column + 1).to_string());
                pieces.extend(marks.before_tile.iter().map(named).map(PromptPiece::Text));
                pieces.push(tile);
                texts(&mut pieces, marks.after_tile);
            }
            texts(&mut pieces, marks.after_tiles);
        }
        if !marks.overview_first {
            look(&mut pieces);
        }
        pieces
    }

    /// Pieces with the texts in front of the whole picture and behind it.
    fn surround(&self, model: &TextModel, pieces: Vec<PromptPiece>) -> Vec<PromptPiece> {
        let marks = self.marks;
        let own = [marks.begin, marks.end];
        let [begin, end] = marks.other.filter(|[begin, _]| (model.has_token)(begin)).unwrap_or(own);
        let text = |text: &str| (!text.is_empty()).then(|| PromptPiece::Text(text.into()));
        text(begin).into_iter().chain(pieces).chain(text(end)).collect()
    }
}
