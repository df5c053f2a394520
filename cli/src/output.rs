//! Writing results to stdout: lines, JSON, and tables of padded columns.
//!
//! A closed pipe comes back as an error instead of a panic, and ends the process without a word ([`is_closed_pipe`]).

use std::io::Write;

use pumex_gguf::{Error, Result};

/// Writes text as it is and flushes.
///
/// # Errors
/// stdout is closed or full.
pub fn text(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|e| Error::io("stdout".as_ref(), e))
}

/// Exit code of a process whose reader has gone: as if SIGPIPE had ended it, which is how other tools end.
pub const CLOSED_PIPE: u8 = 141;

/// Whether nobody reads any more what was to be written: nothing failed, and nobody is there to be told.
pub fn is_closed_pipe(error: &Error) -> bool {
    let Error::Io { path, source } = error else { return false };
    let is_stream = path.as_os_str() == "stdout" || path.starts_with("/dev");
    is_stream && source.kind() == std::io::ErrorKind::BrokenPipe
}

/// Writes a message to stderr; if nobody listens, nothing is lost.
pub fn say(text: std::fmt::Arguments<'_>) {
    let _ = std::io::stderr().lock().write_fmt(text);
}

/// Writes one JSON value, indented, and a newline.
///
/// # Errors
/// As for [`text`]; a value that JSON cannot hold.
pub fn json(value: &impl serde::Serialize) -> Result<()> {
    let mut line = serde_json::to_string_pretty(value).map_err(|e| Error::Request(format!("JSON: {e}")))?;
    line.push('\n');
    text(&line)
}

/// A number of bytes for people, as `1.9 GiB`.
pub fn bytes(n: u64) -> String {
    let units = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let unit = units.iter().find(|(_, bits)| n >> bits > 0);
    unit.map_or(format!("{n} bytes"), |(name, bits)| format!("{:.1} {name}", n as f64 / (1u64 << bits) as f64))
}

/// Rows as lines of columns, padded to the widest cell; columns flagged in `right` are right-aligned.
pub fn table(rows: &[Vec<String>], right: &[bool]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |c: usize| rows.iter().filter_map(|r| r.get(c)).map(|s| s.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut out = String::new();
    for row in rows {
        let mut line = String::new();
        for (c, cell) in row.iter().enumerate() {
            let pad = " ".repeat(widths[c].saturating_sub(cell.chars().count()));
            let (before, after) = if right.get(c) == Some(&true) { (pad.as_str(), "") } else { ("", pad.as_str()) };
            line.push_str(before);
            line.push_str(cell);
            line.push_str(after);
            line.push_str("  ");
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}
