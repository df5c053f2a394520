//! Paths of pictures and sounds that were pasted, or dropped on the terminal, in place of a message.

use std::path::{Path, PathBuf};

/// Ends of names of pictures, and of sounds.
const PICTURES: &[&str] = &["png", "jpg", "jpeg", "webp", "gif", "bmp"];
const SOUNDS: &[&str] = &["wav", "mp3", "flac", "ogg", "oga"];

/// The files that a line consists of, each with whether it is a picture: names as terminals write them, in quotes, with `\` in front of
/// what shells read, or as `file://`. None where something else is in the line, or a file is not there.
pub fn files(line: &str) -> Option<Vec<(PathBuf, bool)>> {
    let line = line.trim();
    if line.is_empty() {
        return None;
    }
    if let Some(picture) = kind(Path::new(line)) {
        return Some(vec![(line.into(), picture)]);
    }
    words(line)?.iter().map(|word| from_url(word)).map(|path| kind(&path).map(|picture| (path, picture))).collect()
}

/// The file that is named, as in [`files`]; as it stands where it is not there.
pub fn file(name: &str) -> PathBuf {
    let (plain, words) = (PathBuf::from(name), words(name));
    match words.as_deref() {
        Some([one]) if !plain.exists() && from_url(one).exists() => from_url(one),
        _ => plain,
    }
}

/// Whether a file that is there is a picture, else a sound; none of another one.
fn kind(path: &Path) -> Option<bool> {
    let end = path.extension()?.to_str()?.to_ascii_lowercase();
    let is_one = |ends: &[&str]| ends.contains(&end.as_str());
    let picture = is_one(PICTURES);
    (picture || is_one(SOUNDS)).then_some(picture).filter(|_| path.is_file())
}

/// Words as a shell reads them; none with a quote that does not end.
fn words(line: &str) -> Option<Vec<String>> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(open), _) if letter == open => quote = None,
            (Some('\''), _) => word.get_or_insert_default().push(letter),
            (_, '\\') => word.get_or_insert_default().push(letters.next()?),
            (Some(_), _) => word.get_or_insert_default().push(letter),
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, _) if letter.is_whitespace() => words.extend(word.take()),
            (None, _) => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}

/// A path, which may be a `file://` URL of this machine.
fn from_url(text: &str) -> PathBuf {
    let Some(rest) = text.strip_prefix("file://") else { return text.into() };
    let rest = rest.strip_prefix("localhost").unwrap_or(rest);
    let (mut bytes, mut at) = (Vec::new(), 0);
    while let Some(byte) = rest.as_bytes().get(at) {
        let coded = (*byte == b'%').then(|| rest.get(at + 1..at + 3)).flatten();
        match coded.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(decoded) => (bytes.push(decoded), at += 3).1,
            None => (bytes.push(*byte), at += 1).1,
        }
    }
    String::from_utf8_lossy(&bytes).into_owned().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_files_alone_are_media() {
        let folder = std::env::temp_dir().join(format!("pumex dropped {}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let [picture, sound, other] = ["a 1.PNG", "b.wav", "c.txt"].map(|name| folder.join(name));
        for path in [&picture, &sound, &other] {
            std::fs::write(path, "x").unwrap();
        }
        let [p, s, o] = [&picture, &sound, &other].map(|path| path.display().to_string());
        let one = Some(vec![(picture.clone(), true)]);
        let url = format!("file://{}", p.replace(' ', "%20"));
        for line in [p.clone(), format!("'{p}'"), format!("\"{p}\" "), p.replace(' ', "\\ "), url] {
            assert_eq!(files(&line), one, "{line}");
        }
        assert_eq!(files(&format!("'{p}' '{s}'")), Some(vec![(picture.clone(), true), (sound, false)]));
        for line in [o, "hello".into(), String::new(), format!("{p}x"), format!("look at '{p}'"), format!("'{p}")] {
            assert_eq!(files(&line), None, "{line}");
        }
        assert_eq!(file(&format!("'{p}'")), picture);
        assert_eq!(file("no 'such"), Path::new("no 'such"));
        std::fs::remove_dir_all(folder).unwrap();
    }
}
