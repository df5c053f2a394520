//! Texts that end an answer, found while it streams.

/// Looks for texts that may come in pieces.
#[derive(Debug)]
pub struct Stops {
    texts: Vec<String>,
    held: String,
}

impl Stops {
    /// Empty texts are never found.
    pub fn new(texts: impl IntoIterator<Item = String>) -> Stops {
        Stops { texts: texts.into_iter().filter(|t| !t.is_empty()).collect(), held: String::new() }
    }

    /// Takes more text. Gives what certainly stands before any of the texts, and whether one was found.
    pub fn push(&mut self, text: &str) -> (String, bool) {
        self.held.push_str(text);
        if let Some(at) = self.texts.iter().filter_map(|t| self.held.find(t.as_str())).min() {
            let mut out = std::mem::take(&mut self.held);
            out.truncate(at);
            return (out, true);
        }
        let longest = self.texts.iter().map(String::len).max().unwrap_or(0);
        let from = self.held.len().saturating_sub(longest);
        let may =
            |at: usize| self.held.is_char_boundary(at) && self.texts.iter().any(|t| t.starts_with(&self.held[at..]));
        let keep = (from..self.held.len()).find(|&at| may(at)).unwrap_or(self.held.len());
        let rest = self.held.split_off(keep);
        (std::mem::replace(&mut self.held, rest), false)
    }

    /// What was held back.
    pub fn flush(&mut self) -> String {
        std::mem::take(&mut self.held)
    }
}

#[cfg(test)]
mod tests {
    use super::Stops;

    #[test]
    fn a_text_is_found_in_pieces_and_what_only_began_like_it_is_given() {
        let mut stops = Stops::new(["User:".to_string(), String::new()]);
        assert_eq!(stops.push("a Us"), ("a ".to_string(), false));
        assert_eq!(stops.push("ü"), ("Usü".to_string(), false));
        assert_eq!(stops.push("xUse"), ("x".to_string(), false));
        assert_eq!(stops.push("r: y"), (String::new(), true));
        assert_eq!(stops.push("U"), (String::new(), false));
        assert_eq!(stops.flush(), "U");
    }
}
