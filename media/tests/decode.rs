//! Files of pictures: what they show, what is too large, what is damaged.
#![allow(clippy::unwrap_used)]

use image::{DynamicImage, ImageBuffer, ImageFormat};
use pumex_media::{hash_bytes, Error, Picture, PictureLimits};
use std::io::Cursor;

const FORMATS: [ImageFormat; 5] =
    [ImageFormat::Png, ImageFormat::Jpeg, ImageFormat::WebP, ImageFormat::Gif, ImageFormat::Bmp];

fn encode(picture: impl Into<DynamicImage>, format: ImageFormat) -> Vec<u8> {
    let mut out = Cursor::new(Vec::new());
    picture.into().write_to(&mut out, format).unwrap();
    out.into_inner()
}

/// Two halves of one colour each: 24 by 16 pixels.
fn halves() -> DynamicImage {
    let color = |x: u32, _: u32| image::Rgb(if x < 12 { [250u8, 40, 10] } else { [20, 60, 240] });
    ImageBuffer::from_fn(24, 16, color).into()
}

fn decode(bytes: &[u8]) -> Result<Picture, Error> {
    Picture::decode(bytes, &PictureLimits::default())
}

fn message(result: Result<Picture, Error>) -> String {
    match result {
        Err(Error::Medium(text)) => text,
        other => panic!("expected an error of the medium, found {:?}", other.map(|p| [p.width(), p.height()])),
    }
}

#[test]
fn every_format_shows_its_pixels() {
    for format in FORMATS {
        let picture = decode(&encode(halves(), format)).unwrap();
        assert_eq!([picture.width(), picture.height()], [24, 16], "{format:?}");
        let expected = halves().into_rgb8().into_raw();
        // JPEG mixes colours of neighbours; a GIF has a table of few.
        let least = if matches!(format, ImageFormat::Jpeg | ImageFormat::Gif) { 12 } else { 0 };
        let worst = picture.pixels().iter().zip(&expected).map(|(a, b)| a.abs_diff(*b)).max();
        assert!(worst <= Some(least), "{format:?}: {worst:?} off");
    }
}

#[test]
fn transparency_is_dropped_and_grey_expanded() {
    let rgba: DynamicImage = ImageBuffer::from_pixel(3, 2, image::Rgba([10u8, 20, 30, 0])).into();
    let grey: DynamicImage = ImageBuffer::from_pixel(3, 2, image::Luma([77u8])).into();
    let grey_alpha: DynamicImage = ImageBuffer::from_pixel(3, 2, image::LumaA([78u8, 3])).into();
    for (picture, pixel) in [(rgba, [10, 20, 30]), (grey, [77; 3]), (grey_alpha, [78; 3])] {
        assert_eq!(decode(&encode(picture, ImageFormat::Png)).unwrap().pixels(), pixel.repeat(6));
    }
}

#[test]
fn of_16_bits_the_upper_8_stay() {
    let pixel = [0x12ff_u16, 0x8000, 0xff00];
    let rgb: DynamicImage = ImageBuffer::from_pixel(2, 2, image::Rgb(pixel)).into();
    let rgba: DynamicImage = ImageBuffer::from_pixel(2, 2, image::Rgba([pixel[0], pixel[1], pixel[2], 9])).into();
    let grey: DynamicImage = ImageBuffer::from_pixel(2, 2, image::Luma([0x34ff_u16])).into();
    let grey_alpha: DynamicImage = ImageBuffer::from_pixel(2, 2, image::LumaA([0x34ff_u16, 1])).into();
    let cases = [(rgb, [0x12, 0x80, 0xff]), (rgba, [0x12, 0x80, 0xff]), (grey, [0x34; 3]), (grey_alpha, [0x34; 3])];
    for (picture, pixel) in cases {
        assert_eq!(decode(&encode(picture, ImageFormat::Png)).unwrap().pixels(), pixel.repeat(4));
    }
}

#[test]
fn orientation_is_applied() {
    let jpeg = encode(halves(), ImageFormat::Jpeg);
    // Each orientation with the size that it gives and whether the red half comes first, in its first pixel.
    let cases =
        [(1, [24, 16], true), (3, [24, 16], false), (6, [16, 24], true), (8, [16, 24], false), (9, [24, 16], true)];
    for (orientation, size, red) in cases {
        let mut exif = vec![0xff, 0xe1, 0, 34];
        exif.extend(b"Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0");
        exif.extend([orientation, 0, 0, 0, 0, 0, 0, 0]);
        let turned = [&jpeg[..2], &exif, &jpeg[2..]].concat();
        let picture = decode(&turned).unwrap();
        assert_eq!([picture.width(), picture.height()], size, "orientation {orientation}");
        assert_eq!(picture.pixels()[0] > 128, red, "orientation {orientation}");
    }
}

/// A JPEG of 8 by 8 pixels of one colour in cyan, magenta, yellow and black, as they are stored: 255 is no ink.
fn cmyk_jpeg(color: [u8; 4]) -> Vec<u8> {
    let mut out = vec![0xff, 0xd8, 0xff, 0xee, 0, 14];
    out.extend(b"Adobe\0\x64\0\0\0\0\0");
    out.extend([0xff, 0xdb, 0, 67, 0]);
    out.extend([1; 64]);
    out.extend([0xff, 0xc0, 0, 20, 8, 0, 8, 0, 8, 4]);
    (1..=4).for_each(|c| out.extend([c, 0x11, 0]));
    // Twelve lengths of numbers with codes of four bits each; behind the first number a code of one bit ends a block.
    out.extend([0xff, 0xc4, 0, 31, 0x00, 0, 0, 0, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    out.extend(0..12);
    out.extend([0xff, 0xc4, 0, 20, 0x10, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    out.extend([0xff, 0xda, 0, 14, 4, 1, 0, 2, 0, 3, 0, 4, 0, 0, 63, 0]);
    let mut bits = String::new();
    for value in color {
        let level = (i32::from(value) - 128) * 8;
        let len = 32 - level.unsigned_abs().leading_zeros();
        let code = if level < 0 { level + (1 << len) - 1 } else { level };
        bits += &format!("{len:04b}");
        if len > 0 {
            bits += &format!("{code:0width$b}", width = len as usize);
        }
        bits.push('0');
    }
    while !bits.len().is_multiple_of(8) {
        bits.push('1');
    }
    for byte in bits.as_bytes().chunks(8) {
        let byte = u8::from_str_radix(std::str::from_utf8(byte).unwrap(), 2).unwrap();
        out.push(byte);
        if byte == 0xff {
            out.push(0);
        }
    }
    out.extend([0xff, 0xd9]);
    out
}

#[test]
fn jpegs_of_four_inks_become_red_green_and_blue() {
    for (color, expected) in [([200, 100, 50, 255], [200, 100, 50]), ([255, 255, 255, 64], [64, 64, 64])] {
        let picture = decode(&cmyk_jpeg(color)).unwrap();
        assert_eq!([picture.width(), picture.height()], [8, 8]);
        for (found, expected) in picture.pixels().iter().zip(expected.iter().cycle()) {
            assert!(found.abs_diff(*expected) <= 2, "{color:?}: {found} expected {expected}");
        }
    }
}

/// A PNG whose header says another size.
fn lying_png(width: u32, height: u32) -> Vec<u8> {
    let mut bytes = encode(halves(), ImageFormat::Png);
    bytes[16..20].copy_from_slice(&width.to_be_bytes());
    bytes[20..24].copy_from_slice(&height.to_be_bytes());
    let mut crc = flate2::Crc::new();
    crc.update(&bytes[12..29]);
    bytes[29..33].copy_from_slice(&crc.sum().to_be_bytes());
    bytes
}

#[test]
fn sizes_beyond_the_limits_are_refused_by_the_header() {
    let started = std::time::Instant::now();
    for (width, height) in [(60_000, 60_000), (u32::MAX >> 1, 3), (1 << 14, (1 << 12) + 1)] {
        let text = message(decode(&lying_png(width, height)));
        assert!(text.contains("expected") && text.contains("found"), "{text}");
    }
    let mut jpeg = encode(halves(), ImageFormat::Jpeg);
    let frame = jpeg.windows(2).position(|w| w == [0xff, 0xc0]).unwrap();
    jpeg[frame + 5..frame + 9].fill(0xff);
    assert!(message(decode(&jpeg)).contains("found 65535 x 65535"));
    assert!(started.elapsed().as_secs() < 5, "a refusal reads headers only");

    let small = PictureLimits { pixels: 24 * 16 - 1, ..PictureLimits::default() };
    for format in FORMATS {
        let text = message(Picture::decode(&encode(halves(), format), &small));
        assert!(text.contains("383 pixels") && text.contains("found 24 x 16"), "{format:?}: {text}");
    }
    let few = PictureLimits { bytes: 100, ..PictureLimits::default() };
    assert!(message(Picture::decode(&[0; 101], &few)).contains("at most 100 bytes, found 101"));
}

#[test]
fn files_that_are_cut_short_are_errors() {
    let noise = |x: u32, y: u32| image::Rgb([(x * 37 + y * 91) as u8, (x * x + y) as u8, (y * y * 7 + x) as u8]);
    let picture: DynamicImage = ImageBuffer::from_fn(40, 40, noise).into();
    for format in FORMATS {
        let bytes = encode(picture.clone(), format);
        for part in [9, bytes.len() / 4, bytes.len() / 2, bytes.len() * 9 / 10] {
            let text = message(decode(&bytes[..part]));
            assert!(text.contains("expected") && !text.contains('\n'), "{format:?} at {part}: {text}");
        }
    }
}

#[test]
fn other_files_are_refused_by_name() {
    for bytes in [&b""[..], b"%PDF-1.7", b"II*\0\x08\0\0\0", b"hello world, this is text"] {
        assert!(message(decode(bytes)).contains("expected PNG, JPEG, WebP, GIF or BMP"));
    }
}

#[test]
fn pixels_must_be_as_many_as_the_size_says() {
    assert!(Picture::new(2, 2, vec![0; 12]).is_ok());
    for (width, height, len) in [(2, 2, 11), (0, 5, 0), (usize::MAX, usize::MAX, 3)] {
        assert!(matches!(Picture::new(width, height, vec![0; len]), Err(Error::Medium(_))));
    }
}

#[test]
fn hashes_stay_and_differ() {
    // The first bytes of SHA-256 of nothing.
    assert_eq!(hash_bytes(b""), 0xe3b0_c442_98fc_1c14);
    assert_ne!(hash_bytes(b"a"), hash_bytes(b"b"));
}

/// Numbers that repeat from run to run.
struct Random(u64);

impl Random {
    fn next_below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % end as u64) as usize
    }
}

#[test]
fn damaged_files_are_pictures_or_errors() {
    let limits = PictureLimits { bytes: 1 << 20, pixels: 1 << 16 };
    let mut random = Random(7);
    let mut refused = 0;
    for format in FORMATS {
        let whole = encode(halves(), format);
        for _ in 0..2000 {
            let mut bytes = whole.clone();
            for _ in 0..=random.next_below(8) {
                let at = random.next_below(bytes.len());
                match random.next_below(4) {
                    0 => bytes[at] = random.next_below(256) as u8,
                    1 => bytes[at] ^= 1 << random.next_below(8),
                    2 => bytes.truncate(at.max(2)),
                    _ => drop(bytes.splice(at..at, [0xff, random.next_below(256) as u8])),
                }
            }
            match Picture::decode(&bytes, &limits) {
                Ok(p) => {
                    assert!(p.pixels().len() == p.width() * p.height() * 3 && p.width() * p.height() <= limits.pixels)
                }
                Err(Error::Medium(text)) => {
                    assert!(!text.contains('\n'));
                    refused += 1;
                }
                Err(other) => panic!("expected an error of the medium, found {other}"),
            }
        }
    }
    assert!(refused > 1000, "expected most of the damage to be seen, found {refused} errors");
}
