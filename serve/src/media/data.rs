//! Media that stand in a body: base64, and `data:` URLs of it.

use crate::engine::MediumKind;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::Engine;

const CONFIG: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
const STANDARD: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, CONFIG);
const URL_SAFE: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, CONFIG);

/// What is wrong with a text.
pub type Wrong = String;

/// The bytes of base64 of either alphabet, with or without padding; white space is passed over.
///
/// # Errors
/// Another character, or too few of them; no bytes.
pub fn decode_base64(text: &str) -> Result<Vec<u8>, Wrong> {
    let spaced = text.bytes().any(|b| b.is_ascii_whitespace());
    let packed: Option<Vec<u8>> = spaced.then(|| text.bytes().filter(|b| !b.is_ascii_whitespace()).collect());
    let text = packed.as_deref().unwrap_or(text.as_bytes());
    let engine = if text.iter().any(|b| matches!(b, b'-' | b'_')) { &URL_SAFE } else { &STANDARD };
    match engine.decode(text) {
        Ok(bytes) if bytes.is_empty() => Err("expected base64 of a file, found none".into()),
        Ok(bytes) => Ok(bytes),
        Err(e) => Err(format!("expected base64: {e}")),
    }
}

/// Bytes that base64 of that length becomes, at most.
pub fn most_bytes(text: &str) -> usize {
    text.len() / 4 * 3 + 3
}

/// The media type of a `data:` URL, as `image/png`, and its base64.
///
/// # Errors
/// No comma, or data that are not base64.
pub fn parts(url: &str) -> Result<(&str, &str), Wrong> {
    let rest = url.get("data:".len()..).unwrap_or_default();
    let (head, data) = rest.split_once(',').ok_or("expected data:TYPE;base64,DATA, found no comma")?;
    let mut words = head.split(';').map(str::trim);
    let kind = words.next().unwrap_or_default();
    match words.next_back().is_some_and(|word| word.eq_ignore_ascii_case("base64")) {
        true => Ok((kind, data)),
        false => Err("expected data:TYPE;base64,DATA, found data that are not base64".into()),
    }
}

/// What a file's first bytes look like: a sound of a form that is known, else a picture.
pub fn kind_of(bytes: &[u8]) -> MediumKind {
    let riff = |word: &[u8]| bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(word);
    // A frame of MPEG audio begins with 11 bits that are set; its layer is not 0.
    let frame = |b: &[u8]| b[0] == 0xFF && b[1] & 0xE0 == 0xE0 && b[1] & 0x06 != 0;
    let is_sound = riff(b"WAVE")
        || [b"ID3".as_slice(), b"fLaC", b"OggS"].iter().any(|mark| bytes.starts_with(mark))
        || bytes.get(..2).is_some_and(frame);
    if is_sound {
        MediumKind::Sound
    } else {
        MediumKind::Picture
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_of_both_alphabets_is_read_and_nothing_else() {
        let bytes = [0xfb, 0xef, 0xff, 0x01];
        for text in ["++//AQ==", "--__AQ==", "++//AQ", " ++//\r\n AQ==\n"] {
            assert_eq!(decode_base64(text).unwrap(), bytes, "{text}");
            assert!(bytes.len() <= most_bytes(text));
        }
        for text in ["", " ", "====", "+-//AQ==", "++//AQ=a", "a", "ä", "++//A%3D", "AQ==AQ=="] {
            assert!(decode_base64(text).is_err(), "{text}");
        }
    }

    #[test]
    fn data_urls_have_a_type_and_base64() {
        assert_eq!(parts("data:image/png;base64,AA==").unwrap(), ("image/png", "AA=="));
        assert_eq!(parts("DATA:image/svg+xml;charset=utf-8;BASE64,A,B").unwrap(), ("image/svg+xml", "A,B"));
        assert_eq!(parts("data:;base64,").unwrap(), ("", ""));
        for url in ["data:", "data:image/png;base64", "data:image/png,AA==", "data:base64,AA==", "data:,x"] {
            assert!(parts(url).is_err(), "{url}");
        }
    }

    #[test]
    fn sounds_are_known_by_their_first_bytes() {
        let sounds: [&[u8]; 5] = [b"RIFF\0\0\0\0WAVEfmt ", b"ID3\x04", b"fLaC\0", b"OggS\0", &[0xFF, 0xFB, 0x90, 0]];
        assert!(sounds.iter().all(|bytes| kind_of(bytes) == MediumKind::Sound));
        let pictures: [&[u8]; 6] =
            [b"RIFF\0\0\0\0WEBPVP8 ", b"\x89PNG\r\n", &[0xFF, 0xD8, 0xFF], b"GIF89a", b"BM", b""];
        assert!(pictures.iter().all(|bytes| kind_of(bytes) == MediumKind::Picture));
    }
}
