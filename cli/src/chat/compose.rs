//! What was typed → a message: lines that go on, and blocks of many lines.

const QUOTES: &str = "\"\"\"";

/// The message that typed text is; none if more lines must follow. A `\` at a line's end goes on in the next line, or, where lines
/// go on anyway (`multiline`), ends the message. `"""` begins and ends a block.
pub fn compose(typed: &str, multiline: bool) -> Option<String> {
    if let Some(block) = typed.trim_start().strip_prefix(QUOTES) {
        let text = block.trim_end().strip_suffix(QUOTES)?;
        let text = text.strip_prefix('\n').unwrap_or(text);
        return Some(text.strip_suffix('\n').unwrap_or(text).to_string());
    }
    let command = typed.starts_with('/') && !typed.contains('\n');
    let joined = |text: &str| text.replace("\\\n", "\n");
    match typed.strip_suffix('\\') {
        _ if typed.trim().is_empty() => Some(String::new()),
        Some(text) if multiline => Some(joined(text)),
        None if multiline && !command => None,
        Some(_) => None,
        None if multiline => Some(typed.to_string()),
        None => Some(joined(typed)),
    }
}
