//! Every projector of pictures by sizes, rows and texts alone, and metadata that cannot be. Needs no files but those of the tests.
#![allow(clippy::unwrap_used)]

use pumex_media::{
    place, prepare_pair, prepare_picture, takes_pairs, Clip, Error, Medium, Picture, Positions, PreprocessOptions,
    PromptPiece, Source, StoredTensor, TextModel,
};
use std::collections::HashMap;

/// Metadata made up in a test.
#[derive(Clone, Default)]
struct TestMetadata {
    texts: HashMap<String, String>,
    numbers: HashMap<String, Vec<f64>>,
    tensors: Vec<String>,
}

impl TestMetadata {
    /// A file of a projector with sizes of a picture's patches.
    fn new(projector: &str, keys: &[(&str, &[f64])]) -> TestMetadata {
        let mut made = TestMetadata::default();
        made.texts.insert("clip.projector_type".into(), projector.into());
        made.set("clip.has_vision_encoder", &[1.0]);
        for name in ["embedding_length", "attention.head_count", "feed_forward_length", "block_count"] {
            made.set(name, &[4.0]);
        }
        made.set("attention.layer_norm_epsilon", &[1e-6]);
        made.set("image_mean", &[0.5; 3]);
        made.set("image_std", &[0.25; 3]);
        keys.iter().for_each(|(name, values)| made.set(name, values));
        made
    }

    fn set(&mut self, name: &str, values: &[f64]) {
        let name = if name.starts_with("clip.") { name.into() } else { format!("clip.vision.{name}") };
        self.numbers.insert(name, values.to_vec());
    }
}

impl Source for TestMetadata {
    fn text(&self, key: &str) -> Option<String> {
        self.texts.get(key).cloned()
    }

    fn number(&self, key: &str) -> Option<f64> {
        self.numbers.get(key)?.first().copied()
    }

    fn numbers(&self, key: &str) -> Option<Vec<f64>> {
        self.numbers.get(key).cloned()
    }

    fn tensor(&self, name: &str) -> Option<StoredTensor<'_>> {
        let format = pumex_quant::all().next()?.id;
        self.tensors.iter().any(|t| t == name).then_some(StoredTensor { shape: vec![4], format, data: &[] })
    }
}

fn picture(width: usize, height: usize) -> Picture {
    Picture::new(width, height, vec![100; width * height * 3]).unwrap()
}

fn model(m_rope: bool) -> TextModel<'static> {
    TextModel { n_embd: 64, m_rope, has_token: &|_| false }
}

fn prepare(
    made: &TestMetadata,
    width: usize,
    height: usize,
    options: &PreprocessOptions,
    m_rope: bool,
) -> Result<Vec<PromptPiece>, Error> {
    let clip = Clip::all(made)?.remove(0);
    prepare_picture(&clip, made, &picture(width, height), options, &model(m_rope))
}

/// Pieces in the words of the table.
fn describe(clip: &Clip, pieces: Vec<PromptPiece>) -> String {
    let mut parts: Vec<(String, usize)> = Vec::new();
    for piece in pieces {
        let part = match piece {
            PromptPiece::Text(text) | PromptPiece::Token(text) => text.replace('\n', "\\n"),
            PromptPiece::Medium(mut medium) => {
                place(clip, &mut medium, 2);
                describe_medium(&medium)
            }
        };
        match parts.last_mut() {
            Some((last, count)) if *last == part && part.starts_with('{') => *count += 1,
            _ => parts.push((part, 1)),
        }
    }
    parts.into_iter().map(|(part, count)| if count > 1 { format!("{count}*{part}") } else { part }).collect()
}

fn describe_medium(medium: &Medium) -> String {
    let input = &medium.inputs[0];
    assert_eq!(input.values.len(), input.width * input.height * 3);
    let grid = if medium.grid[1] > 1 { format!("@{},{}", medium.grid[0], medium.grid[1]) } else { String::new() };
    let sight = if medium.bidirectional { "!" } else { "" };
    let separator = if input.view_separator { "|" } else { "" };
    format!("{{{}x{}:{}{grid}{sight}{separator}}}", input.width, input.height, medium.rows)
}

fn numbers(text: &str, between: char) -> Vec<f64> {
    text.split(between).map(|n| n.parse().unwrap()).collect()
}

#[test]
fn pictures_become_what_the_table_says() {
    let (mut made, mut m_rope, mut bad, mut seen) = (TestMetadata::default(), false, Vec::new(), 0);
    for line in include_str!("data/projectors.txt").lines().filter(|l| !l.starts_with('#')) {
        if let Some(case) = line.strip_prefix("  ") {
            let mut rest = case;
            let mut word = || {
                let (first, after) = rest.split_once(' ').unwrap();
                rest = after;
                first
            };
            let size = numbers(word(), 'x');
            let mut options = PreprocessOptions::default();
            while rest.starts_with("min=") || rest.starts_with("max=") {
                let (first, after) = rest.split_once(' ').unwrap();
                rest = after;
                let tokens = first[4..].parse().ok();
                if first.starts_with("min") {
                    options.image_min_tokens = tokens
                } else {
                    options.image_max_tokens = tokens
                }
            }
            let clip = Clip::all(&made).unwrap().remove(0);
            let found = match prepare(&made, size[0] as usize, size[1] as usize, &options, m_rope) {
                Ok(pieces) => describe(&clip, pieces),
                Err(e) => e.to_string(),
            };
            seen += 1;
            if found != rest {
                bad.push(format!("{} {case}\n    found {found}", clip.projector));
            }
            continue;
        }
        let mut words = line.split(' ');
        made = TestMetadata::new(words.next().unwrap(), &[]);
        m_rope = false;
        for word in words {
            match word.split_once('=') {
                Some((name, values)) => made.set(name, &numbers(values, ',')),
                None if word == "m-rope" => m_rope = true,
                None => made.tensors.push(word.trim_start_matches('+').into()),
            }
        }
    }
    assert!(seen > 150, "expected a table of many lines, found {seen}");
    assert!(bad.is_empty(), "{} of {seen} differ:\n{}", bad.len(), bad.join("\n"));
}

#[test]
fn metadata_that_cannot_be_is_an_error() {
    let cases: &[(&str, &str, &[f64])] = &[
        ("mlp", "image_size", &[0.0]),
        ("mlp", "image_size", &[9000.0]),
        ("mlp", "patch_size", &[0.0]),
        ("mlp", "patch_size", &[1e9]),
        ("mlp", "image_size", &[1.0]),
        ("mlp", "image_mean", &[0.5; 2]),
        ("mlp", "image_std", &[0.5, 0.0, 0.5]),
        ("mlp", "image_std", &[f64::NAN; 3]),
        ("mlp", "image_grid_pinpoints", &[56.0]),
        ("mlp", "image_grid_pinpoints", &[56.0, -56.0]),
        ("mlp", "image_grid_pinpoints", &[57.0, 56.0]),
        ("mlp", "image_grid_pinpoints", &[0.0, 56.0]),
        ("mlp", "image_grid_pinpoints", &[57344.0, 57344.0]),
        ("qwen2vl_merger", "spatial_merge_size", &[0.0]),
        ("qwen2vl_merger", "spatial_merge_size", &[1e6]),
        ("paddleocr", "image_min_pixels", &[1e6]),
        ("phi4", "patch_size", &[14.0]),
        ("glm5v", "patch_size", &[14.0]),
        ("internvl", "preproc_min_tiles", &[0.0]),
        ("internvl", "preproc_max_tiles", &[1e6]),
        ("internvl", "preproc_min_tiles", &[13.0]),
        ("resampler", "clip.minicpmv_version", &[7.0]),
        ("resampler", "clip.minicpmv_query_num", &[-1.0]),
        ("minicpmv4_6", "projector.scale_factor", &[3.0]),
        ("idefics3", "preproc_image_size", &[1e6]),
        ("dots_ocr", "image_min_pixels", &[3136.0]),
        ("deepseek4v", "projector.scale_factor", &[3.0]),
        ("granite4_vision", "projector.query_side", &[2.0]),
        ("granite4_vision", "projector.window_side", &[64.0]),
        ("whatever", "patch_size", &[14.0]),
        ("qwen2a", "patch_size", &[14.0]),
    ];
    for (projector, key, values) in cases {
        let mut made = TestMetadata::new(projector, &[("image_size", &[56.0]), ("patch_size", &[14.0])]);
        made.set(key, values);
        let text = match prepare(&made, 100, 200, &PreprocessOptions::default(), false) {
            Err(e) => e.to_string(),
            Ok(_) => panic!("{projector} with {key} {values:?}: expected an error"),
        };
        assert!(!text.contains('\n') && text.contains(':'), "{projector} with {key} {values:?}: {text}");
    }
}

#[test]
fn sizes_that_a_file_asks_for_are_bounded() {
    // A canvas of more pixels than anything takes, asked for by the file or by a user.
    let huge = TestMetadata::new(
        "paddleocr",
        &[
            ("image_size", &[56.0]),
            ("patch_size", &[14.0]),
            ("image_min_pixels", &[2e9]),
            ("image_max_pixels", &[2.1e9]),
        ],
    );
    assert!(matches!(prepare(&huge, 90, 90, &PreprocessOptions::default(), true), Err(Error::Medium(_))));
    let qwen = TestMetadata::new("qwen2vl_merger", &[("image_size", &[56.0]), ("patch_size", &[14.0])]);
    for tokens in [0, (1 << 20) + 1, usize::MAX] {
        let options = PreprocessOptions { image_min_tokens: Some(tokens), ..PreprocessOptions::default() };
        assert!(matches!(prepare(&qwen, 90, 90, &options, true), Err(Error::Medium(_))), "{tokens} tokens");
    }
    let crossed = PreprocessOptions { image_min_tokens: Some(50), image_max_tokens: Some(40) };
    assert!(prepare(&qwen, 90, 90, &crossed, true).unwrap_err().to_string().contains("at most 40 tokens"));
    // Windows padded to a square of a long strip.
    let step = TestMetadata::new("step3vl", &[("image_size", &[728.0]), ("patch_size", &[14.0])]);
    assert!(matches!(prepare(&step, 60_000, 2, &PreprocessOptions::default(), false), Err(Error::Medium(_))));
}

#[test]
fn every_projector_takes_lines_and_dots() {
    for line in include_str!("data/projectors.txt").lines().filter(|l| !l.starts_with([' ', '#'])) {
        let mut words = line.split(' ');
        let mut made = TestMetadata::new(words.next().unwrap(), &[]);
        for (name, values) in words.filter_map(|w| w.split_once('=')) {
            made.set(name, &numbers(values, ','));
        }
        for (width, height) in [(1, 1), (1, 1500), (1500, 1), (2, 700)] {
            if let Err(e) = prepare(&made, width, height, &PreprocessOptions::default(), true) {
                assert!(matches!(e, Error::Medium(_)), "{line}: {e}");
                assert!(e.to_string().contains("found"), "{line} of {width} x {height}: {e}");
            }
        }
    }
}

#[test]
fn a_users_tokens_move_the_bound_that_nobody_asked_for() {
    let made = TestMetadata::new("qwen2vl_merger", &[("image_size", &[56.0]), ("patch_size", &[14.0])]);
    let rows = |min, max| {
        let options = PreprocessOptions { image_min_tokens: min, image_max_tokens: max };
        let pieces = prepare(&made, 300, 300, &options, true).unwrap();
        pieces.iter().find_map(|p| if let PromptPiece::Medium(m) = p { Some(m.rows) } else { None }).unwrap()
    };
    assert_eq!(rows(None, None), 121);
    assert_eq!(rows(None, Some(4)), 4);
    assert_eq!(rows(Some(5000), None), 5041);
    // What the file asks for gives way too.
    let keys: &[(&str, &[f64])] =
        &[("image_size", &[56.0]), ("patch_size", &[14.0]), ("image_min_pixels", &[1e5]), ("image_max_pixels", &[2e5])];
    let few = PreprocessOptions { image_max_tokens: Some(9), ..PreprocessOptions::default() };
    let pieces = prepare(&TestMetadata::new("paddleocr", keys), 300, 300, &few, true).unwrap();
    assert!(matches!(&pieces[1], PromptPiece::Medium(m) if m.rows == 9));
}

#[test]
fn pairs_become_one_medium_with_two_inputs() {
    let keys: &[(&str, &[f64])] = &[("image_size", &[56.0]), ("patch_size", &[14.0])];
    let (made, options) = (TestMetadata::new("qwen3vl_merger", keys), PreprocessOptions::default());
    let clip = Clip::all(&made).unwrap().remove(0);
    let frames = [picture(100, 60), Picture::new(100, 60, vec![7; 18000]).unwrap()];
    let pieces = prepare_pair(&clip, &made, [&frames[0], &frames[1]], &options, &model(true)).unwrap();
    let single = prepare_picture(&clip, &made, &frames[1], &options, &model(true)).unwrap();
    match (&pieces[..], &single[..]) {
        ([begin, PromptPiece::Medium(two), end], [first, PromptPiece::Medium(one), last]) => {
            assert_eq!([begin, end], [first, last]);
            assert_eq!((two.inputs.len(), two.rows, two.grid), (2, one.rows, one.grid));
            assert_eq!(two.inputs[1], one.inputs[0]);
            assert_ne!(two.inputs[0], two.inputs[1]);
        }
        other => panic!("expected a medium between two texts, found {other:?}"),
    }
    let other = picture(60, 100);
    assert!(matches!(prepare_pair(&clip, &made, [&frames[0], &other], &options, &model(true)), Err(Error::Medium(_))));
    let (made, frame) = (TestMetadata::new("gemma3", keys), &frames[0]);
    let clip = Clip::all(&made).unwrap().remove(0);
    assert!(!takes_pairs(&clip));
    assert!(matches!(prepare_pair(&clip, &made, [frame, frame], &options, &model(false)), Err(Error::Unsupported(_))));
}

#[test]
fn marks_follow_the_vocabulary_and_the_width_of_the_text_model() {
    let keys: &[(&str, &[f64])] = &[("image_size", &[56.0]), ("patch_size", &[14.0])];
    let prepare = |projector: &str, n_embd, token: &'static str| {
        let made = TestMetadata::new(projector, keys);
        let clip = Clip::all(&made).unwrap().remove(0);
        let model = TextModel { n_embd, m_rope: false, has_token: &|t| t == token };
        prepare_picture(&clip, &made, &picture(100, 60), &PreprocessOptions::default(), &model).unwrap()
    };
    for (token, begin) in [("", "<|media_begin|>"), ("<|begin_of_image|>", "<|begin_of_image|>")] {
        assert_eq!(prepare("kimik25", 64, token)[0], PromptPiece::Text(begin.into()));
    }
    for (n_embd, sees) in [(64, true), (1536, false), (2560, false), (2561, true)] {
        assert!(
            matches!(&prepare("gemma4v", n_embd, "")[1], PromptPiece::Medium(m) if m.bidirectional == sees),
            "{n_embd}"
        );
    }
}

#[test]
fn positions_are_streams_of_time_rows_and_columns() {
    let grid = Positions::Grid;
    assert_eq!(grid.streams([3, 2], 6, 10, 0)[4], [10, 11, 11, 0]);
    assert_eq!((grid.advance([3, 2], 6), grid.advance([2, 5], 10)), (3, 5));
    let line = Positions::Sequential;
    assert_eq!((line.streams([4, 1], 4, 7, 0)[3], line.advance([4, 1], 4)), ([10; 4], 4));
    // Two rows of two with a line's end each, between a row that begins and one that ends.
    let breaks = Positions::GridWithBreaks.streams([2, 2], 8, 5, 3);
    assert_eq!(breaks[0], [5; 4]);
    assert_eq!(breaks[1..4], [[6, 0, 0, 3], [7, 1, 0, 3], [8, 2, 0, 3]]);
    assert_eq!(breaks[4..], [[9, 0, 1, 3], [10, 1, 1, 3], [11, 2, 1, 3], [12; 4]]);
    assert_eq!(Positions::GridWithBreaks.advance([2, 2], 8), 8);
}

#[test]
fn padding_in_front_brings_a_block_to_its_place() {
    let keys: &[(&str, &[f64])] = &[
        ("image_size", &[56.0]),
        ("patch_size", &[14.0]),
        ("projector.scale_factor", &[3.0]),
        ("image_min_pixels", &[7056.0]),
    ];
    let made = TestMetadata::new("deepseek4v", keys);
    let clip = Clip::all(&made).unwrap().remove(0);
    let mut pieces = prepare(&made, 200, 300, &PreprocessOptions::default(), false).unwrap();
    let PromptPiece::Medium(medium) = &mut pieces[0] else { panic!("expected a medium without texts") };
    let rows = medium.rows;
    for before in [0, 1, 2, 3, 4, 11, 2] {
        place(&clip, medium, before);
        let pads = medium.inputs[0].lead_pad;
        assert_eq!((before + pads) % 4, 3);
        assert_eq!((medium.rows, medium.grid), (rows + pads, [rows + pads, 1]));
    }
}
