//! Paths of pictures that are pasted in a conversation, or dropped on the terminal.

use super::{terminal, PLAIN, PROMPT};
use crate::util;

#[test]
fn a_pasted_path_of_a_picture_goes_with_the_next_message() {
    let Some(shared) = util::shared_folder() else { return };
    let path = |name: &str| shared.join("golden/vision").join(name).canonicalize().unwrap();
    let (mmproj, picture) = (path("mmproj/qwen2vl.gguf"), path("images/a_gradient_224x224.png"));
    let more = ["--mmproj", mmproj.to_str().unwrap(), "--chat-template", PLAIN, "-cnv"];
    let mut terminal = terminal("dropped", &path("text/tiny-qwen2vl.gguf"), &more);
    terminal.send(&format!("'{}' \r", picture.display()));
    terminal.wait("a_gradient_224x224.png goes with the next message");
    terminal.wait(PROMPT);
    terminal.send("who?\r");
    terminal.wait("context ");
    terminal.wait(PROMPT);
    // Text beside a path is a message.
    terminal.send(&format!("see {}\r", picture.display()));
    terminal.wait("context ");
    terminal.wait(PROMPT);
    terminal.send("\u{4}");
    assert_eq!(terminal.end(), Some(0));
}
