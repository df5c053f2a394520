//! One row for each projector of pictures: how a picture is resized and cut, how many rows come out, and which texts stand around.

use crate::{Filter, Fit};

/// Where a projector's merge factor comes from: how many patches of a side become one row.
#[derive(Clone, Copy)]
pub(super) enum Merge {
    /// Always this.
    Always(usize),
    /// `projector.scale_factor`, or this.
    Scale(usize),
    /// `projector.scale_factor`, which must be there.
    ScaleKey,
    /// `spatial_merge_size`, or this.
    Spatial(usize),
    /// `spatial_merge_size`, which must be there.
    SpatialKey,
}

/// Where the least and the most pixels of a picture come from. A user's numbers of tokens stand above all of these.
#[derive(Clone, Copy)]
pub(super) enum PixelBudget {
    /// None.
    Free,
    /// Least and most tokens.
    Tokens(usize, usize),
    /// `image_min_pixels` and `image_max_pixels`, which must be there.
    Keys,
    /// `image_min_pixels` and `image_max_pixels`, or numbers of tokens where they are not there.
    KeysOr(usize, usize),
}

/// How a picture becomes inputs.
#[derive(Clone, Copy)]
pub(super) enum InputLayout {
    /// One square of `image_size`; with pinpoints in the metadata an overview and tiles.
    Fixed,
    /// One picture with sides near its own, within the budget.
    Dynamic,
    /// One picture whose longer side has a length.
    Longest,
    /// One canvas around the picture, within the budget.
    Canvas,
    /// One picture whose sides are rounded up, made smaller in steps until it is within the budget.
    Steps,
    /// One picture with the ratio nearest to its own, within the budget.
    Ratio,
    /// One picture whose block of rows is within the budget.
    Block,
    /// An overview, and tiles of the pinpoint that fits best.
    Pinpoints(Pinpoints),
    /// An overview, and equal tiles of a grid that fits the ratio.
    Slices,
    /// One picture, or tiles and an overview if it is large.
    LargeTiles,
    /// An overview, and tiles of the picture brought to multiples of `image_size`.
    Multiples,
    /// An overview, and windows in f32.
    Windows,
    /// An overview, and tiles of that side, at most so many by themselves; each row of them below each other in one input if `true`.
    Views(usize, usize, bool),
    /// An overview and tiles below each other in one input.
    Stack,
}

/// Sizes that a picture may be brought to beside those of the metadata.
#[derive(Clone, Copy)]
pub(super) enum Pinpoints {
    /// Grids of at least `preproc_min_tiles` and at most `preproc_max_tiles`.
    Tiles,
    /// Grids of up to this number of columns and rows.
    Square(usize),
}

/// How many rows an input becomes.
#[derive(Clone, Copy)]
pub(super) enum Count {
    /// One for each patch, and so many more.
    Patches(usize),
    /// A quarter of the patches, and two more if the file has their rows.
    Quarter,
    /// Always so many.
    Always(usize),
    /// `clip.minicpmv_query_num`.
    Queries,
    /// Patches by the merge factor's square, rounded down.
    Merged,
    /// Patches by the merge factor's square, rounded up.
    MergedUp,
    /// Cells of two by two patches.
    Pairs,
    /// Cells of the merge factor.
    Cells,
    /// Cells of the merge factor, with those that are cut off by the border.
    CellsUp,
    /// Cells, and one row between rows of them if the file has it.
    Breaks,
    /// Cells, one more for each row of them, and two more.
    Newlines,
    /// Patches of one side.
    Side,
    /// DeepSeek-OCR: a sixteenth of the patches with a row at the end of each line, and one behind the overview.
    Lines,
    /// DeepSeek-OCR 2: a sixteenth of the patches, and one behind the overview.
    Queried,
    /// DeepSeek 4: a block of pairs of lines.
    Block,
    /// Granite 4: the overview's queries, and those of the tiles without what is padding.
    Unpadded,
}

/// Whether a picture's rows see each other.
#[derive(Clone, Copy)]
pub(super) enum Sight {
    /// Only those before.
    Causal,
    /// All.
    All,
    /// All, but in text models of these widths.
    AllBut([usize; 2]),
}

/// Texts around a picture and its parts. Each string is tokenized on its own.
#[derive(Clone, Copy)]
pub(super) struct PictureMarks {
    /// In front of everything.
    pub begin: &'static str,
    /// Behind everything.
    pub end: &'static str,
    /// The two that are taken instead if the vocabulary has the first one.
    pub other: Option<[&'static str; 2]>,
    /// Whether the overview stands in front of the tiles.
    pub overview_first: bool,
    /// Before the overview.
    pub before_overview: &'static [&'static str],
    /// Behind it.
    pub after_overview: &'static [&'static str],
    /// Before all tiles.
    pub before_tiles: &'static [&'static str],
    /// Behind all tiles.
    pub after_tiles: &'static [&'static str],
    /// Before a tile; `%r` and `%c` are its row and its column, counted from 1.
    pub before_tile: &'static [&'static str],
    /// Behind a tile.
    pub after_tile: &'static [&'static str],
    /// Between rows of tiles.
    pub between_rows: &'static [&'static str],
}

/// What preprocessing knows of a projector.
#[derive(Clone, Copy)]
pub(super) struct Projector {
    /// `clip.projector_type`
    pub name: &'static str,
    pub merge: Merge,
    pub budget: PixelBudget,
    pub layout: InputLayout,
    pub filter: Filter,
    pub fit: Fit,
    /// The canvas around a fitted picture.
    pub pad: [u8; 3],
    pub count: Count,
    /// Whether rows have places in a grid where the text model has such positions.
    pub places: bool,
    /// Whether two pictures of one size become one medium.
    pub pairs: bool,
    pub sight: Sight,
    pub marks: PictureMarks,
}

const UNMARKED: PictureMarks = PictureMarks {
    begin: "",
    end: "",
    other: None,
    overview_first: false,
    before_overview: &[],
    after_overview: &[],
    before_tiles: &[],
    after_tiles: &[],
    before_tile: &[],
    after_tile: &[],
    between_rows: &[],
};

const fn mark_pair(begin: &'static str, end: &'static str) -> PictureMarks {
    PictureMarks { begin, end, ..UNMARKED }
}

const SLICE: PictureMarks = PictureMarks {
    overview_first: true,
    before_overview: &["<image>"],
    after_overview: &["</image>"],
    before_tile: &["<slice>"],
    after_tile: &["</slice>"],
    between_rows: &["\n"],
    ..UNMARKED
};

/// Marks of MiniCPM-V 2.5, `clip.minicpmv_version` 2.
pub(super) const SLICES_TOGETHER: PictureMarks = PictureMarks {
    before_tiles: &["<slice>"],
    after_tiles: &["</slice>"],
    before_tile: &["<image>"],
    after_tile: &["</image>"],
    ..SLICE
};

const IDEFICS: PictureMarks = PictureMarks {
    before_overview: &["\n\n", "<fake_token_around_image>", "<global-img>"],
    after_overview: &["<fake_token_around_image>"],
    before_tile: &["<fake_token_around_image><row_%r_col_%c>"],
    between_rows: &["\n"],
    ..UNMARKED
};

const LFM: PictureMarks = PictureMarks {
    before_overview: &["<|img_thumbnail|>"],
    before_tile: &["<|img_row_%r_col_%c|>"],
    ..mark_pair("<|image_start|>", "<|image_end|>")
};

const STEP: PictureMarks = PictureMarks {
    before_overview: &["<im_start>"],
    after_overview: &["<im_end>"],
    before_tile: &["<patch_start>"],
    after_tile: &["<patch_end>"],
    between_rows: &["<patch_newline>"],
    ..UNMARKED
};

const KIMI: PictureMarks = PictureMarks {
    other: Some(["<|begin_of_image|>", "<|end_of_image|>"]),
    ..mark_pair("<|media_begin|>", "<|media_end|>")
};

const QWEN_MARKS: PictureMarks = mark_pair("<|vision_start|>", "<|vision_end|>");
const GEMMA_MARKS: PictureMarks = mark_pair("<start_of_image>", "<end_of_image>");
const GLM_MARKS: PictureMarks = mark_pair("<|begin_of_image|>", "<|end_of_image|>");

const LLAVA: Projector = Projector {
    name: "mlp",
    merge: Merge::Always(1),
    budget: PixelBudget::Free,
    layout: InputLayout::Fixed,
    filter: Filter::Bicubic,
    fit: Fit::Ceil,
    pad: [122, 116, 104],
    count: Count::Patches(0),
    places: false,
    pairs: false,
    sight: Sight::Causal,
    marks: UNMARKED,
};

const FIXED: Projector = Projector { pad: [0; 3], ..LLAVA };
const DYNAMIC: Projector = Projector { layout: InputLayout::Dynamic, ..FIXED };

const QWEN: Projector = Projector {
    merge: Merge::Spatial(2),
    budget: PixelBudget::Tokens(8, 4096),
    count: Count::Pairs,
    places: true,
    marks: QWEN_MARKS,
    ..DYNAMIC
};

const GEMMA4: Projector = Projector {
    merge: Merge::Scale(3),
    budget: PixelBudget::Tokens(70, 1120),
    count: Count::Merged,
    marks: mark_pair("<|image>", "<image|>"),
    ..DYNAMIC
};

const PIXTRAL: Projector = Projector {
    merge: Merge::Spatial(1),
    budget: PixelBudget::Tokens(8, 1024),
    count: Count::Breaks,
    marks: mark_pair("", "[IMG_END]"),
    ..DYNAMIC
};

const DOTS: Projector = Projector {
    merge: Merge::ScaleKey,
    budget: PixelBudget::Keys,
    count: Count::MergedUp,
    marks: mark_pair("<|img|>", "<|endofimg|>"),
    ..DYNAMIC
};

const MERGED: Projector = Projector { merge: Merge::Scale(1), count: Count::Merged, ..FIXED };

/// The projectors of pictures.
pub(super) const PROJECTORS: &[Projector] = &[
    LLAVA,
    Projector { name: "ldp", count: Count::Quarter, ..LLAVA },
    Projector { name: "ldpv2", count: Count::Quarter, ..LLAVA },
    Projector { name: "cogvlm", count: Count::Patches(2), ..LLAVA },
    Projector { name: "adapter", count: Count::Quarter, ..FIXED },
    Projector { name: "janus_pro", pad: [127; 3], ..FIXED },
    Projector {
        name: "gemma3",
        merge: Merge::Scale(4),
        filter: Filter::Bilinear,
        sight: Sight::All,
        marks: GEMMA_MARKS,
        ..MERGED
    },
    Projector { name: "gemma3nv", filter: Filter::Bilinear, count: Count::Side, marks: GEMMA_MARKS, ..MERGED },
    Projector { name: "gemma4v", sight: Sight::AllBut([1536, 2560]), ..GEMMA4 },
    // Its convolution takes whole cells: preprocessing and counting are those of gemma4v.
    Projector { name: "gemma4uv", sight: Sight::All, ..GEMMA4 },
    Projector { name: "qwen2vl_merger", pairs: true, ..QWEN },
    Projector { name: "qwen2.5vl_merger", pairs: true, ..QWEN },
    Projector { name: "qwen3vl_merger", pairs: true, ..QWEN },
    Projector { name: "ling3vl", pairs: true, ..QWEN },
    Projector { name: "mimovl", budget: PixelBudget::Keys, ..QWEN },
    Projector { name: "exaone4_5", budget: PixelBudget::Keys, marks: mark_pair("<vision>", "</vision>"), ..QWEN },
    Projector { name: "glm4v", marks: GLM_MARKS, ..QWEN },
    Projector { name: "glm5v", layout: InputLayout::Canvas, budget: PixelBudget::Keys, marks: GLM_MARKS, ..QWEN },
    Projector {
        name: "paddleocr",
        merge: Merge::Always(2),
        budget: PixelBudget::Keys,
        count: Count::MergedUp,
        marks: mark_pair("<|IMAGE_START|>", "<|IMAGE_END|>"),
        ..QWEN
    },
    Projector {
        name: "youtuvl",
        layout: InputLayout::Steps,
        budget: PixelBudget::Tokens(1, 62500),
        filter: Filter::Bilinear,
        fit: Fit::Stretch,
        ..QWEN
    },
    Projector {
        name: "hunyuanvl",
        budget: PixelBudget::KeysOr(256, 16384),
        filter: Filter::Lanczos,
        fit: Fit::Stretch,
        count: Count::Newlines,
        marks: mark_pair("<｜hy_place▁holder▁no▁100｜>", "<｜hy_place▁holder▁no▁101｜>"),
        ..QWEN
    },
    Projector { name: "pixtral", ..PIXTRAL },
    Projector {
        name: "lightonocr",
        layout: InputLayout::Longest,
        budget: PixelBudget::Free,
        marks: mark_pair("<|im_start|>", "<|im_end|>"),
        ..PIXTRAL
    },
    Projector {
        name: "kimivl",
        merge: Merge::Scale(1),
        budget: PixelBudget::Tokens(8, 1024),
        count: Count::CellsUp,
        marks: mark_pair("<|media_start|>", "<|media_end|>"),
        ..DYNAMIC
    },
    Projector {
        name: "kimik25",
        merge: Merge::Scale(1),
        budget: PixelBudget::KeysOr(2, 4096),
        count: Count::CellsUp,
        marks: KIMI,
        ..DYNAMIC
    },
    Projector { name: "dots_ocr", ..DOTS },
    Projector { name: "dots3note_v", merge: Merge::SpatialKey, ..DOTS },
    Projector { name: "phi4", budget: PixelBudget::Keys, filter: Filter::Bilinear, ..DYNAMIC },
    Projector {
        name: "minimax_m3",
        budget: PixelBudget::Tokens(8, 576),
        fit: Fit::Stretch,
        places: false,
        marks: mark_pair("]<]start of image[>[", "]<]end of image[>["),
        ..QWEN
    },
    Projector {
        name: "muse-glimmer",
        layout: InputLayout::Ratio,
        budget: PixelBudget::Tokens(1, 4096),
        filter: Filter::Lanczos,
        fit: Fit::Stretch,
        marks: mark_pair("<|image_start|>", "<|image_end|>"),
        ..QWEN
    },
    Projector { name: "nemotron_v2_vl", ..MERGED },
    Projector {
        name: "yasa2",
        fit: Fit::Stretch,
        count: Count::Always(64),
        marks: mark_pair("<image>", "</image>"),
        ..FIXED
    },
    Projector { name: "idefics3", layout: InputLayout::Multiples, filter: Filter::Lanczos, marks: IDEFICS, ..MERGED },
    Projector {
        name: "internvl",
        layout: InputLayout::Pinpoints(Pinpoints::Tiles),
        marks: mark_pair("<img>", "</img>"),
        ..MERGED
    },
    Projector {
        name: "llama4",
        layout: InputLayout::Pinpoints(Pinpoints::Square(3)),
        marks: mark_pair("<|image_start|>", "<|image_end|>"),
        ..MERGED
    },
    Projector { name: "resampler", layout: InputLayout::Slices, count: Count::Queries, marks: SLICE, ..FIXED },
    Projector { name: "minicpmv4_6", layout: InputLayout::Slices, merge: Merge::Scale(4), marks: SLICE, ..MERGED },
    Projector {
        name: "lfm2",
        layout: InputLayout::LargeTiles,
        budget: PixelBudget::Tokens(64, 256),
        filter: Filter::Bilinear,
        count: Count::CellsUp,
        marks: LFM,
        ..MERGED
    },
    Projector {
        name: "step3vl",
        layout: InputLayout::Windows,
        merge: Merge::Scale(4),
        count: Count::Cells,
        marks: STEP,
        ..FIXED
    },
    Projector {
        name: "deepseekocr",
        layout: InputLayout::Views(640, 9, true),
        pad: [127; 3],
        count: Count::Lines,
        marks: mark_pair("", "\n"),
        ..FIXED
    },
    Projector {
        name: "deepseekocr2",
        layout: InputLayout::Views(768, 6, false),
        pad: [127; 3],
        count: Count::Queried,
        marks: mark_pair("", "\n"),
        ..FIXED
    },
    Projector {
        name: "deepseek4v",
        merge: Merge::ScaleKey,
        layout: InputLayout::Block,
        fit: Fit::Nearest,
        pad: [127; 3],
        count: Count::Block,
        sight: Sight::All,
        ..FIXED
    },
    Projector {
        name: "granite4_vision",
        layout: InputLayout::Stack,
        count: Count::Unpadded,
        marks: mark_pair("", "\n"),
        ..FIXED
    },
];
