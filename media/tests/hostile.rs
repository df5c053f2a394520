//! Files of projectors that lack a tensor, or have another shape or number than their encoder takes: errors, never panics.
#![allow(clippy::unwrap_used)]

mod schemas;

use pumex_media::{encode, Clip, EncoderInput, Error, Modality, Source, StoredTensor};
use serde_json::Value;
use std::path::Path;

/// A file with one thing changed.
struct Changed<'a> {
    made: &'a schemas::SchemaProjector<'a>,
    lacks: &'a str,
    shape: Option<(&'a str, Vec<usize>)>,
    number: Option<(&'a str, f64)>,
    numbers: Option<(&'a str, Vec<f64>)>,
    zeros: &'a [u8],
}

impl Source for Changed<'_> {
    fn text(&self, key: &str) -> Option<String> {
        self.made.text(key)
    }

    fn number(&self, key: &str) -> Option<f64> {
        self.number.filter(|(k, _)| *k == key).map(|(_, n)| n).or_else(|| self.made.number(key))
    }

    fn numbers(&self, key: &str) -> Option<Vec<f64>> {
        match &self.numbers {
            Some((changed, numbers)) if *changed == key => Some(numbers.clone()),
            _ => self.made.numbers(key),
        }
    }

    fn tensor(&self, name: &str) -> Option<StoredTensor<'_>> {
        if name == self.lacks {
            return None;
        }
        let stored = self.made.tensor(name)?;
        match &self.shape {
            Some((changed, shape)) if *changed == name => {
                let len = shape.iter().product::<usize>() / stored.format.format().block_len;
                let data = &self.zeros[..len * stored.format.format().block_bytes];
                Some(StoredTensor { shape: shape.clone(), format: stored.format, data })
            }
            _ => Some(stored),
        }
    }
}

fn build(source: &dyn Source, of: &schemas::Size) -> Result<(), Error> {
    let (_, picture, [width, height], _) = *of;
    let modality = if picture { Modality::Vision } else { Modality::Audio };
    let clips = Clip::all(source)?;
    let Some(clip) = clips.iter().find(|c| c.modality == modality) else {
        return Err(Error::Unsupported("no such encoder".into()));
    };
    let tiles = if clip.projector == "granite4_vision" { [2, 2] } else { [0; 2] };
    let input = EncoderInput { width, height, tiles, original: [224; 2], ..EncoderInput::default() };
    encode::build(source, clip, &[input]).map(|_| ())
}

/// Runs for each encoder of the list.
fn each(run: impl Fn(&Value, &schemas::SchemaProjector<'_>, &schemas::Size)) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/golden/vision/schemas.json");
    let Ok(bytes) = std::fs::read(&path) else {
        let required = std::env::var("PUMEX_REQUIRE").unwrap_or_default();
        assert!(!required.split(',').any(|r| r == "shared"), "{} is not there", path.display());
        println!("skipped: {} is not there", path.display());
        return;
    };
    let listed: Value = serde_json::from_slice(&bytes).unwrap();
    let only = std::env::var("PUMEX_PROJECTOR").unwrap_or_default();
    for size in schemas::SIZES.iter().filter(|s| s.0.contains(&only)) {
        let of = &listed[size.0];
        let made = schemas::SchemaProjector::new(of);
        run(of, &made, size);
    }
}

fn copy_unchanged<'a>(made: &'a schemas::SchemaProjector<'a>, zeros: &'a [u8]) -> Changed<'a> {
    Changed { made, lacks: "", shape: None, number: None, numbers: None, zeros }
}

#[test]
fn a_tensor_that_is_missing_is_named() {
    each(|of, made, size| {
        let mut needed = 0;
        for name in of["tensors"].as_object().unwrap().keys() {
            match build(&Changed { lacks: name, ..copy_unchanged(made, &[]) }, size) {
                Err(Error::MissingTensor(missing)) if missing == *name => needed += 1,
                // What a file may lack: its absence can also show at a tensor whose shape then does not fit.
                Ok(()) | Err(Error::Shape(_) | Error::MissingTensor(_)) => {}
                Err(e) => panic!("{} without {name}: {e}", size.0),
            }
        }
        assert!(needed > 0, "{}: no tensor is needed", size.0);
    });
}

#[test]
fn a_tensor_of_another_shape_is_an_error() {
    let zeros = vec![0; 1 << 24];
    each(|of, made, size| {
        let mut refused = 0;
        for name in of["tensors"].as_object().unwrap().keys() {
            let shape = made.tensor(name).unwrap().shape;
            for changed in [[&[shape[0] + 1], &shape[1..]].concat(), [&shape[..], &[3]].concat(), vec![1]] {
                let result = build(&Changed { shape: Some((name, changed)), ..copy_unchanged(made, &zeros) }, size);
                refused += usize::from(result.is_err());
            }
        }
        assert!(refused > 1, "{}: {refused} shapes are refused", size.0);
    });
}

#[test]
fn numbers_that_lie_are_errors_or_fit() {
    each(|of, made, size| {
        for (key, value) in of["metadata"].as_object().unwrap() {
            if !value.is_number() || key.starts_with("general.") {
                continue;
            }
            for lie in [0.0, 1.0, 3.0, 7.0, 1e3, f64::from(1 << 20), f64::from(i32::MAX), -1.0, 0.5, f64::NAN, 1e300] {
                // Whether it fits is the encoder's affair; that it neither panics nor takes long is what counts.
                let _ = build(&Changed { number: Some((key, lie)), ..copy_unchanged(made, &[]) }, size);
            }
        }
    });
}

#[test]
fn lists_that_lie_are_errors_or_fit() {
    each(|of, made, size| {
        for (key, _) in of["metadata"].as_object().unwrap().iter().filter(|(_, v)| v.is_array()) {
            for lie in [vec![], vec![-1.0], vec![0.0; 1000], vec![f64::from(i32::MAX); 3], vec![0.5, f64::NAN, 1e300]] {
                let _ = build(&Changed { numbers: Some((key, lie)), ..copy_unchanged(made, &[]) }, size);
            }
        }
    });
}

#[test]
fn inputs_of_any_size_are_errors_or_fit() {
    each(|_, made, size| {
        for sides in [[0, 0], [1, 1], [0, 64], [7, 3], [45, 61], [1024, 16], [16, 1024], [3, 100_000]] {
            let (name, picture, _, out) = *size;
            let _ = build(&copy_unchanged(made, &[]), &(name, picture, sides, out));
        }
    });
}
