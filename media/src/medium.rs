//! What a medium becomes in a prompt: texts around it, and inputs of the encoder.

/// What preprocessing has to know of the text model.
#[derive(Clone, Copy)]
pub struct TextModel<'a> {
    /// Width of its embeddings (`n_embd`).
    pub n_embd: usize,
    /// Whether its rotations have several streams of positions (m-RoPE).
    pub m_rope: bool,
    /// Whether its vocabulary has a special token of that text.
    pub has_token: &'a dyn Fn(&str) -> bool,
}

/// A part of what stands in the prompt for a medium, in order.
#[derive(Clone, Debug, PartialEq)]
pub enum PromptPiece {
    /// A text, tokenized on its own, special tokens read out of it.
    Text(String),
    /// The first token of the vocabulary that is written so; if there is none, as [`PromptPiece::Text`].
    Token(String),
    /// Rows of the encoder.
    Medium(Medium),
}

/// Rows that an encoder makes and that stand together in the prompt.
#[derive(Clone, Debug, PartialEq)]
pub struct Medium {
    /// Whether it is a picture; else a sound.
    pub picture: bool,
    /// What the encoder takes: one, or two frames of a pair of pictures.
    pub inputs: Vec<EncoderInput>,
    /// Columns and rows of the picture in tokens; of a sound its tokens and 1.
    pub grid: [usize; 2],
    /// Rows that the encoder makes.
    pub rows: usize,
    /// Which positions they have.
    pub positions: Positions,
    /// Whether its rows see each other, also later ones: it must stand in one step.
    pub bidirectional: bool,
}

/// Positions of a medium's rows, from the position of its first one on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Positions {
    /// One after the other.
    Sequential,
    /// m-RoPE: time stays, y and x are the row's place in the grid; the counter moves by the longer side of the grid.
    Grid,
    /// m-RoPE of HunyuanVL: sequential in time; the rows between the first and the last have their column, their row and the picture's
    /// number in the prompt as the other streams, counted in rows of one more than the grid's columns; the counter moves by all rows.
    GridWithBreaks,
}

impl Positions {
    /// The positions of a medium's rows as the four streams (time, y, x, z) of each, with `first` as the position of the first row.
    /// `grid` and `rows` are the medium's; `index` counts the pictures in front of it in the prompt.
    pub fn streams(self, grid: [usize; 2], rows: usize, first: usize, index: usize) -> Vec<[usize; 4]> {
        let columns = grid[0].max(1);
        let position = |i: usize| match self {
            Positions::Grid => [first, first + i / columns, first + i % columns, 0],
            Positions::GridWithBreaks if i > 0 && i + 1 < rows => {
                [first + i, (i - 1) % (columns + 1), (i - 1) / (columns + 1), index]
            }
            _ => [first + i; 4],
        };
        (0..rows).map(position).collect()
    }

    /// How far a medium moves the counter of positions.
    pub fn advance(self, grid: [usize; 2], rows: usize) -> usize {
        match self {
            Positions::Grid => grid[0].max(grid[1]),
            _ => rows,
        }
    }
}

/// What an encoder takes at once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EncoderInput {
    /// Pixels of a row; for a sound, frames.
    pub width: usize,
    /// Rows of pixels; for a sound, bins of the spectrum.
    pub height: usize,
    /// Pixels, row by row, red, green and blue of each, normalised: `[height * width, 3]`. For a sound `[width, height]`: the bins
    /// of each frame.
    pub values: Vec<f32>,
    /// Tiles of the picture as columns and rows, where an input has several tiles below each other.
    pub tiles: [usize; 2],
    /// Width and height of the picture before preprocessing.
    pub original: [usize; 2],
    /// Whether the row that separates views follows.
    pub view_separator: bool,
    /// Rows of padding that stand in front.
    pub lead_pad: usize,
}
