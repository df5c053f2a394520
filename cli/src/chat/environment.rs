//! What a conversation reads from the environment.

use std::path::PathBuf;

/// Where lines that were typed are kept: the state folder of the XDG rules.
pub fn history() -> Option<PathBuf> {
    let folder = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = folder("XDG_STATE_HOME").or_else(|| Some(folder("HOME")?.join(".local/state")))?;
    Some(state.join("pumex/history"))
}

/// Whether the user wants no colours, or the terminal has none.
pub fn without_colours() -> bool {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    set("NO_COLOR").is_some() || set("TERM").is_some_and(|term| term == "dumb")
}
