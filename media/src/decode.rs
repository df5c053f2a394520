//! Bytes of a picture's file to pixels: PNG, JPEG, WebP, BMP, and the first frame of a GIF.

use crate::{Error, Result};
use image::{DynamicImage, ImageDecoder, ImageFormat};
use sha2::{Digest, Sha256};
use std::io::Cursor;

/// A picture in memory: 8 bits of red, green and blue for each pixel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    width: usize,
    height: usize,
    pixels: Vec<u8>,
}

/// What a picture's file may have at most. The header is read first, so that nothing is decoded of a file that says more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PictureLimits {
    /// Bytes of the file.
    pub bytes: usize,
    /// Pixels of the picture: width times height.
    pub pixels: usize,
}

impl Default for PictureLimits {
    /// 128 MiB and 64 Mi pixels.
    fn default() -> PictureLimits {
        PictureLimits { bytes: 128 << 20, pixels: 64 << 20 }
    }
}

impl Picture {
    /// A picture of `width` columns and `height` rows from the red, green and blue of its pixels, row by row.
    ///
    /// # Errors
    /// No pixels, or another number of bytes than three times the pixels.
    pub fn new(width: usize, height: usize, pixels: Vec<u8>) -> Result<Picture> {
        let expected = width.checked_mul(height).and_then(|n| n.checked_mul(3)).filter(|n| *n > 0);
        if expected != Some(pixels.len()) {
            return Err(Error::Medium(format!(
                "picture: expected {width} x {height} pixels of 3 bytes, found {} bytes",
                pixels.len()
            )));
        }
        Ok(Picture { width, height, pixels })
    }

    /// Columns.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Rows.
    pub fn height(&self) -> usize {
        self.height
    }

    /// Red, green and blue of each pixel, row by row: `[height, width, 3]`.
    pub fn pixels(&self) -> &[u8] {
        &self.pixels
    }

    /// Red, green and blue of each pixel, row by row, `[height, width, 3]`, without a copy.
    pub(crate) fn into_pixels(self) -> Vec<u8> {
        self.pixels
    }

    /// What a file shows, turned as its EXIF orientation says. Transparency is dropped, grey becomes three equal values, and of
    /// values of 16 bits the upper 8 stay.
    ///
    /// # Errors
    /// A file of another format, one that is larger than the limits allow, and one that is damaged or cut short.
    pub fn decode(bytes: &[u8], limits: &PictureLimits) -> Result<Picture> {
        if bytes.len() > limits.bytes {
            return Err(Error::Medium(format!(
                "picture: expected at most {} bytes, found {}",
                limits.bytes,
                bytes.len()
            )));
        }
        let format = match image::guess_format(bytes) {
            Ok(
                f @ (ImageFormat::Png | ImageFormat::Jpeg | ImageFormat::WebP | ImageFormat::Gif | ImageFormat::Bmp),
            ) => f,
            _ => {
                let start = &bytes[..bytes.len().min(8)];
                return Err(Error::Medium(format!(
                    "picture: expected PNG, JPEG, WebP, GIF or BMP, found a file that starts with {start:02x?}"
                )));
            }
        };
        if format == ImageFormat::Jpeg && !has_jpeg_end(bytes) {
            return Err(Error::Medium("picture: expected a whole Jpeg, found no marker of its end".into()));
        }
        // The codecs are others' code that reads hostile bytes: a panic of theirs is an error like those that they name.
        let decoded = std::panic::catch_unwind(|| decode_format(bytes, format, limits));
        decoded.unwrap_or_else(|_| Err(Error::Medium(format!("picture: expected a {format:?}, found a damaged one"))))
    }
}

fn decode_format(bytes: &[u8], format: ImageFormat, limits: &PictureLimits) -> Result<Picture> {
    let damaged = |e: image::ImageError| {
        let reason = e.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
        Error::Medium(format!("picture: expected a whole {format:?}, found one that cannot be decoded: {reason}"))
    };
    let mut reader = image::ImageReader::with_format(Cursor::new(bytes), format);
    let mut room = image::Limits::default();
    // Codecs keep the file, the pixels and a second copy of them, of up to 8 bytes each.
    room.max_alloc = limits.pixels.checked_mul(16).and_then(|n| n.checked_add(limits.bytes)).map(|n| n as u64);
    reader.limits(room);
    let mut decoder = reader.into_decoder().map_err(damaged)?;
    let (width, height) = decoder.dimensions();
    let pixels = u64::from(width) * u64::from(height);
    if pixels == 0 || pixels > limits.pixels as u64 {
        return Err(Error::Medium(format!(
            "picture: expected from 1 to {} pixels, found {width} x {height}",
            limits.pixels
        )));
    }
    let orientation = decoder.orientation().unwrap_or(image::metadata::Orientation::NoTransforms);
    let mut picture = DynamicImage::from_decoder(decoder).map_err(damaged)?;
    picture.apply_orientation(orientation);
    let (width, height) = (picture.width() as usize, picture.height() as usize);
    Picture::new(width, height, into_rgb(picture))
}

/// The upper half of 16 bits: what decoders to 8 bits keep.
fn upper(value: u16) -> u8 {
    (value >> 8) as u8
}

fn into_rgb(picture: DynamicImage) -> Vec<u8> {
    match picture {
        DynamicImage::ImageRgb8(p) => p.into_raw(),
        DynamicImage::ImageRgba8(p) => p.pixels().flat_map(|p| [p[0], p[1], p[2]]).collect(),
        DynamicImage::ImageLuma8(p) => p.pixels().flat_map(|p| [p[0]; 3]).collect(),
        DynamicImage::ImageLumaA8(p) => p.pixels().flat_map(|p| [p[0]; 3]).collect(),
        DynamicImage::ImageRgb16(p) => p.into_raw().into_iter().map(upper).collect(),
        DynamicImage::ImageRgba16(p) => p.pixels().flat_map(|p| [upper(p[0]), upper(p[1]), upper(p[2])]).collect(),
        DynamicImage::ImageLuma16(p) => p.pixels().flat_map(|p| [upper(p[0]); 3]).collect(),
        DynamicImage::ImageLumaA16(p) => p.pixels().flat_map(|p| [upper(p[0]); 3]).collect(),
        other => other.into_rgb8().into_raw(),
    }
}

/// Whether a JPEG's marker of its end follows its first scan: its decoder fills up what is cut off with grey.
fn has_jpeg_end(bytes: &[u8]) -> bool {
    let mut at = 2;
    while let (Some(0xff), Some(marker)) = (bytes.get(at), bytes.get(at + 1)) {
        match marker {
            0xff => at += 1,
            0xd9 => return true,
            0x01 | 0xd0..=0xd8 => at += 2,
            _ => {
                let length = bytes.get(at + 2..at + 4).map_or(0, |l| usize::from(u16::from_be_bytes([l[0], l[1]])));
                at += 2 + length;
                if *marker == 0xda {
                    break;
                }
            }
        }
    }
    bytes.get(at..).is_some_and(|rest| rest.windows(2).any(|pair| pair == [0xff, 0xd9]))
}

/// A number for a medium's bytes that stays the same everywhere and that nobody finds other bytes for by trying a few: the first 64 bits
/// of their SHA-256.
pub fn hash_bytes(bytes: &[u8]) -> u64 {
    let digest = Sha256::digest(bytes);
    digest.iter().take(8).fold(0, |n, byte| n << 8 | u64::from(*byte))
}
