//! Resizing and fitting: values worked out by hand, and what holds for every size.
#![allow(clippy::unwrap_used)]

use pumex_media::{fit, normalize, resize, Filter, Fit, Picture};

const FILTERS: [Filter; 3] = [Filter::Bilinear, Filter::Bicubic, Filter::Lanczos];

fn grey(width: usize, values: &[u8]) -> Picture {
    let pixels = values.iter().flat_map(|v| [*v; 3]).collect();
    Picture::new(width, values.len() / width, pixels).unwrap()
}

fn reds(picture: &Picture) -> Vec<u8> {
    picture.pixels().iter().step_by(3).copied().collect()
}

#[test]
fn values_are_those_worked_out_by_hand() {
    // Centres at 0.25, 0.75, 1.25 and 1.75: a quarter of the other pixel at most.
    let two = grey(2, &[0, 255]);
    assert_eq!(reds(&resize(&two, 4, 1, Filter::Bilinear).unwrap()), [0, 64, 191, 255]);
    // Columns likewise.
    assert_eq!(reds(&resize(&grey(1, &[0, 255]), 1, 4, Filter::Bilinear).unwrap()), [0, 64, 191, 255]);
    // Shrunk by two the triangle is four wide, cut off by the border: weights 3, 3, 1 of 7.
    let four = grey(4, &[70, 140, 210, 0]);
    assert_eq!(reds(&resize(&four, 2, 1, Filter::Bilinear).unwrap()), [120, 110]);
}

#[test]
fn one_colour_stays_and_equal_sizes_are_copied() {
    for filter in FILTERS {
        for (width, height) in [(1, 1), (3, 50), (7, 2), (64, 64), (5, 7)] {
            let picture = grey(5, &[93; 35]);
            let resized = resize(&picture, width, height, filter).unwrap();
            assert_eq!([resized.width(), resized.height()], [width, height]);
            assert!(resized.pixels().iter().all(|v| *v == 93), "{filter:?} to {width} x {height}");
        }
        let values: Vec<u8> = (0..35).map(|i| (i * 53 % 251) as u8).collect();
        assert_eq!(resize(&grey(5, &values), 5, 7, filter).unwrap(), grey(5, &values));
    }
}

#[test]
fn a_step_overshoots_by_the_filters_with_negative_weights_and_is_clamped() {
    let step = grey(8, &[40, 40, 40, 40, 200, 200, 200, 200]);
    let range = |filter| {
        let values = reds(&resize(&step, 31, 1, filter).unwrap());
        (values.iter().min().copied(), values.iter().max().copied())
    };
    assert_eq!(range(Filter::Bilinear), (Some(40), Some(200)));
    for filter in [Filter::Bicubic, Filter::Lanczos] {
        let (least, most) = range(filter);
        assert!(least < Some(40) && most > Some(200), "{filter:?}: {least:?} to {most:?}");
    }
    let edge = reds(&resize(&grey(4, &[0, 0, 255, 255]), 16, 1, Filter::Lanczos).unwrap());
    assert!(edge.contains(&0) && edge.contains(&255));
}

#[test]
fn fitted_pictures_stand_in_the_middle_of_the_canvas() {
    // 3 x 1 into 6 x 5: rounded up or to the nearest, the picture is 6 x 2; three rows are free.
    let picture = grey(3, &[200; 3]);
    let rows = |style| {
        let fitted = fit(&picture, [6, 5], Filter::Bicubic, style, [9, 8, 7]).unwrap();
        fitted.pixels().chunks(18).map(|row| (row[0], row[1])).collect::<Vec<_>>()
    };
    let (own, pad) = ((200, 200), (9, 8));
    assert_eq!(rows(Fit::Ceil), [pad, own, own, pad, pad]);
    assert_eq!(rows(Fit::Nearest), [pad, pad, own, own, pad]);
    assert_eq!(rows(Fit::Stretch), [own; 5]);
    // 5 x 3 into 7 x 7: 4.2 rows are five of them rounded up, four to the nearest.
    let picture = grey(5, &[200; 15]);
    let own = |style| {
        let fitted = fit(&picture, [7, 7], Filter::Bilinear, style, [0; 3]).unwrap();
        fitted.pixels().chunks(21).map(|row| row[0]).collect::<Vec<_>>()
    };
    assert_eq!(own(Fit::Ceil), [0, 200, 200, 200, 200, 200, 0]);
    assert_eq!(own(Fit::Nearest), [0, 0, 200, 200, 200, 200, 0]);
    // Of a line of pixels at least one stays.
    assert!(fit(&grey(400, &[1; 400]), [8, 8], Filter::Lanczos, Fit::Nearest, [0; 3]).is_ok());
}

#[test]
fn sizes_of_nothing_or_too_much_are_errors() {
    let picture = grey(2, &[1, 2, 3, 4]);
    for (width, height) in [(0, 4), (4, 0), (65537, 1), (1, 65537), (65536, 65536), (usize::MAX, usize::MAX)] {
        assert!(resize(&picture, width, height, Filter::Bilinear).is_err());
        for style in [Fit::Ceil, Fit::Nearest, Fit::Stretch] {
            assert!(fit(&picture, [width, height], Filter::Bilinear, style, [0; 3]).is_err());
        }
    }
}

#[test]
fn values_are_normalised_in_single_precision() {
    let picture = Picture::new(1, 2, vec![0, 128, 255, 10, 20, 30]).unwrap();
    let (mean, std) = ([0.48, 0.45, 0.4], [0.27, 0.26, 0.275]);
    let found = normalize(&picture, mean, std);
    for (i, value) in picture.pixels().iter().enumerate() {
        let expected = (f32::from(*value) / 255.0 - mean[i % 3]) / std[i % 3];
        assert_eq!(found[i].to_bits(), expected.to_bits());
    }
}
