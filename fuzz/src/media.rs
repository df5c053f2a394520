//! Readers of pictures, sounds and projectors' files.

use pumex::engine::Options;
use pumex::gguf::write::{header, Entry, ALIGNMENT};
use pumex::gguf::{FileAccess, Gguf};
use pumex::projector::{MediaOptions, Projector, ProjectorSource};
use pumex::synthetic::{noise, PROJECTORS};
use pumex_media::{
    decode_sound, encode, prepare_picture, Clip, Picture, PictureLimits, PromptPiece, SoundLimits, TextModel,
};

/// Few enough that no input takes long.
const PIXELS: usize = 1 << 20;

/// A picture of any format: pixels as many as it says, or an error.
pub fn picture(bytes: &[u8]) {
    let limits = PictureLimits { pixels: PIXELS, ..PictureLimits::default() };
    if let Ok(picture) = Picture::decode(bytes, &limits) {
        assert!(picture.width() * picture.height() <= PIXELS);
        assert_eq!(picture.pixels().len(), 3 * picture.width() * picture.height());
    }
}

/// A PNG of one pixel, with its checksums.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x02\0\0\0\x90wS\xde\
    \0\0\0\x0cIDATx\x9cc\xf8\xff\xff?\0\x05\xfe\x02\xfe\r\xefF\xb8\0\0\0\0IEND\xaeB`\x82";
/// A GIF of one pixel.
const GIF: &[u8] = b"GIF89a\x01\0\x01\0\x80\0\0\0\0\0\xff\xff\xff,\0\0\0\0\x01\0\x01\0\0\x02\x02D\x01\0;";

/// Files to change.
pub fn pictures() -> Vec<Vec<u8>> {
    vec![noise(5), noise(32), PNG.to_vec(), GIF.to_vec()]
}

/// A sound of any format: finite samples, or an error.
pub fn sound(bytes: &[u8]) {
    if let Ok(samples) = decode_sound(bytes, 16_000, &SoundLimits::default()) {
        assert!(samples.iter().all(|x| x.is_finite()));
    }
}

/// WAV files of two widths to change.
pub fn sounds() -> Vec<Vec<u8>> {
    let of = |bits: u16, channels: u16| {
        let (data, frame) = ([1u8, 2, 3, 4].repeat(60), channels * bits / 8);
        let mut out = b"RIFF".to_vec();
        out.extend((36 + data.len() as u32).to_le_bytes());
        out.extend(b"WAVEfmt \x10\0\0\0\x01\0");
        out.extend(channels.to_le_bytes());
        out.extend([24_000, 24_000 * u32::from(frame)].iter().flat_map(|n| n.to_le_bytes()));
        out.extend([frame, bits].iter().flat_map(|n| n.to_le_bytes()));
        out.extend(b"data");
        out.extend((data.len() as u32).to_le_bytes());
        out.extend(data);
        out
    };
    vec![of(16, 2), of(8, 1)]
}

/// A projector's file of any header: a picture is prepared and its graph made, or there is an error.
pub fn mmproj(bytes: &[u8]) {
    let path = super::sparse("mmproj.gguf", bytes, 1 << 30);
    let Ok(projector) = Projector::open(&path, FileAccess::default(), MediaOptions::default(), &Options::default())
    else {
        return;
    };
    let _ = (projector.sees(), projector.hears(), projector.widest_group(64));
    let Ok(gguf) = Gguf::open(&path) else { return };
    let source = ProjectorSource(gguf);
    let (Ok(clips), Ok(white)) = (Clip::all(&source), Picture::new(56, 28, vec![255; 56 * 28 * 3])) else { return };
    let model = TextModel { n_embd: 64, m_rope: false, has_token: &|_| false };
    for clip in clips {
        let pieces = prepare_picture(&clip, &source, &white, &MediaOptions::default(), &model);
        for piece in pieces.into_iter().flatten() {
            if let PromptPiece::Medium(medium) = piece {
                let _ = encode::build(&source, &clip, &medium.inputs);
            }
        }
    }
}

/// Headers of projectors of real shapes.
pub fn mmprojs() -> Vec<Vec<u8>> {
    let of = |gguf: Gguf| {
        let entry = |t: &pumex::gguf::Tensor| {
            let (name, dims) = (t.name.clone(), t.dims.clone());
            Entry { name, dims, type_id: t.type_id, len_bytes: t.len_bytes }
        };
        let entries: Vec<Entry> = gguf.tensors().iter().map(entry).collect();
        header(gguf.meta().iter(), &entries, ALIGNMENT)
    };
    PROJECTORS.iter().map(|shape| of(shape.model(Some(64)))).collect()
}
