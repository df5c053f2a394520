//! Ids to text as they come, for printing while generating.
//!
//! Takes one id at a time and gives the text that is certain so far: a token can end inside a character, whose first
//! bytes are then held back until the rest arrives. All pieces and the flush join to what decoding at once gives.

use super::Tokenizer;

/// Bytes to whole characters.
#[derive(Clone, Debug, Default)]
pub struct Characters {
    held: Vec<u8>,
}

impl Characters {
    /// Takes more bytes; gives whole characters, possibly none. Bytes that can no longer become a character are U+FFFD.
    pub fn push(&mut self, bytes: &[u8]) -> String {
        self.held.extend_from_slice(bytes);
        let mut out = String::new();
        let mut rest = self.held.as_slice();
        loop {
            match std::str::from_utf8(rest) {
                Ok(text) => {
                    out.push_str(text);
                    rest = &[];
                    break;
                }
                Err(e) => {
                    let (good, bad) = rest.split_at(e.valid_up_to());
                    out.push_str(&String::from_utf8_lossy(good));
                    rest = bad;
                    let Some(len) = e.error_len() else { break };
                    out.push(char::REPLACEMENT_CHARACTER);
                    rest = &rest[len..];
                }
            }
        }
        self.held = rest.to_vec();
        out
    }

    /// Gives what is held back, U+FFFD for half a character, and starts anew.
    pub fn flush(&mut self) -> String {
        let out = String::from_utf8_lossy(&self.held).into_owned();
        self.held.clear();
        out
    }
}

/// The bytes held back, and the tokenizer that decodes.
#[derive(Debug)]
pub struct Stream<'a> {
    tokenizer: &'a Tokenizer,
    characters: Characters,
    bytes: Vec<u8>,
}

impl<'a> Stream<'a> {
    /// Starts an empty stream.
    pub fn new(tokenizer: &'a Tokenizer) -> Self {
        Self { tokenizer, characters: Characters::default(), bytes: Vec::new() }
    }

    /// Takes the next id; gives whole characters, possibly none. Bytes that can no longer become a character are
    /// U+FFFD. A leading space is kept: generated text continues other text.
    pub fn push(&mut self, id: u32) -> String {
        self.bytes.clear();
        self.tokenizer.append(id, &mut self.bytes);
        self.characters.push(&self.bytes)
    }

    /// Gives what is held back, U+FFFD for half a character, and starts anew.
    pub fn flush(&mut self) -> String {
        self.characters.flush()
    }
}
