//! Forms of several parts (`multipart/form-data`), by which clients send files.

use crate::errors::{invalid, Result};

/// Parts of a form.
const PARTS: usize = 64;
/// Bytes of a part's headers, and of what stands between parts.
const HEADERS: usize = 4096;
const BOUNDARY: usize = 70;

/// A field of a form: a text, or a file's bytes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FormPart<'a> {
    pub name: String,
    pub bytes: &'a [u8],
}

/// What stands between the parts of a body of that type.
fn boundary(kind: &str) -> Option<&str> {
    let (form, parameters) = kind.split_once(';')?;
    if !form.trim().eq_ignore_ascii_case("multipart/form-data") {
        return None;
    }
    let found = parameters
        .split(';')
        .filter_map(|p| p.split_once('='))
        .find(|(name, _)| name.trim().eq_ignore_ascii_case("boundary"))?;
    let text = found.1.trim().trim_matches('"');
    (!text.is_empty() && text.len() <= BOUNDARY).then_some(text)
}

/// Where a text first stands in bytes.
fn find(bytes: &[u8], text: &[u8]) -> Option<usize> {
    let first = *text.first()?;
    let mut from = 0;
    while let Some(at) = bytes.get(from..)?.iter().position(|b| *b == first) {
        if bytes[from + at..].starts_with(text) {
            return Some(from + at);
        }
        from += at + 1;
    }
    None
}

/// The name that a part's headers give it.
fn name(headers: &str) -> Option<String> {
    let line = headers.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.trim().eq_ignore_ascii_case("content-disposition").then_some(value)
    })?;
    let value = line.split(';').filter_map(|p| p.split_once('=')).find(|(name, _)| name.trim() == "name")?.1;
    Some(value.trim().trim_matches('"').to_string())
}

/// The parts of a body of that content type.
///
/// # Errors
/// Another type, or a body that is not of it.
pub(crate) fn parts<'a>(kind: &str, body: &'a [u8]) -> Result<Vec<FormPart<'a>>> {
    let wrong = |what: &str| invalid("", format!("the body: expected multipart/form-data, found {what}"));
    let boundary = boundary(kind).ok_or_else(|| wrong("another content type, or one without a boundary"))?;
    let line = format!("--{boundary}");
    let between = format!("\r\n{line}");
    let start = find(&body[..body.len().min(HEADERS)], line.as_bytes()).ok_or_else(|| wrong("no boundary"))?;
    let mut rest = &body[start + line.len()..];
    let mut parts = Vec::new();
    while !rest.starts_with(b"--") {
        if parts.len() == PARTS {
            return Err(wrong(&format!("more than {PARTS} parts")));
        }
        rest = rest.strip_prefix(b"\r\n").ok_or_else(|| wrong("a boundary without an end of line"))?;
        let end = find(&rest[..rest.len().min(HEADERS)], b"\r\n\r\n")
            .ok_or_else(|| wrong("a part without an end of headers"))?;
        let headers = std::str::from_utf8(&rest[..end]).map_err(|_| wrong("headers that are not UTF-8"))?;
        let name = name(headers).ok_or_else(|| wrong("a part without a name"))?;
        rest = &rest[end + 4..];
        let end = find(rest, between.as_bytes()).ok_or_else(|| wrong("a part without an end"))?;
        parts.push(FormPart { name, bytes: &rest[..end] });
        rest = &rest[end + between.len()..];
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_have_their_names_and_bytes() {
        let body = b"--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a; b.wav\"\r\nContent-Type: audio/wav\r\n\r\n\
            RI\r\n--FF\0\r\n--x\r\ncontent-disposition: form-data; name=model\r\n\r\n\r\n--x--\r\n";
        for kind in ["multipart/form-data; boundary=x", "Multipart/Form-Data; charset=utf-8; boundary=\"x\""] {
            let found = parts(kind, body).unwrap();
            let all: Vec<(&str, &[u8])> = found.iter().map(|p| (p.name.as_str(), p.bytes)).collect();
            assert_eq!(all, [("file", b"RI\r\n--FF\0".as_slice()), ("model", b"")]);
        }
        assert_eq!(parts("multipart/form-data; boundary=x", b"--x--").unwrap(), []);
    }

    #[test]
    fn bodies_that_are_no_forms_are_refused() {
        let head = "--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n";
        let kind = "multipart/form-data; boundary=x";
        let many = format!("{head}\r\n").repeat(PARTS + 1) + "--x--";
        for (kind, body) in [
            ("application/json", "{}"),
            ("multipart/form-data", "--x--"),
            ("multipart/form-data; boundary=", "----"),
            (kind, ""),
            (kind, "--y--"),
            (kind, "--x"),
            (kind, "--x\r\n"),
            (kind, head),
            (kind, "--x\r\nContent-Type: text/plain\r\n\r\na\r\n--x--"),
            (kind, "--x\r\n\r\n\r\n--x--"),
            (kind, &many),
        ] {
            assert!(parts(kind, body.as_bytes()).is_err(), "{kind} {body:.40}");
        }
        // However it breaks off, it is refused.
        let whole = format!("{head}bytes\r\n--x--");
        assert!((0..whole.len() - 1).all(|n| parts(kind, &whole.as_bytes()[..n]).is_err()));
        assert_eq!(parts(kind, whole.as_bytes()).unwrap()[0].bytes, b"bytes");
    }
}
