//! Stop strings in text that comes in pieces.
//!
//! What may become a stop string is held back until it is one or cannot be one, so nothing of a stop string is ever given
//! out. Of stop strings that overlap, the one that ends first counts; of those that end together, the longest. How text is cut
//! into pieces changes nothing. Time is linear in the text (an Aho-Corasick automaton over bytes).

use std::collections::BTreeMap;

/// A point in the stop strings: what has been read ends with this beginning of one.
#[derive(Clone, Debug, Default)]
struct StopNode {
    next: BTreeMap<u8, usize>,
    /// The longest shorter beginning that what has been read ends with, too.
    fallback: usize,
    /// Bytes of the beginning.
    depth: usize,
    /// The longest stop string that what has been read ends with.
    stop: Option<usize>,
}

/// A matcher of several stop strings.
#[derive(Clone, Debug)]
pub struct Stops {
    texts: Vec<String>,
    /// The first is the root.
    nodes: Vec<StopNode>,
    at: usize,
    held: String,
    found: bool,
}

/// What a piece of text turned out to be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StopMatch {
    /// Text that can be given out: no stop string begins in it.
    pub text: String,
    /// The stop string, by its place in the list, that comes right after the text. Nothing after it counts.
    pub stop: Option<usize>,
}

impl Stops {
    /// Looks for these; empty ones are passed over.
    pub fn new(texts: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let texts: Vec<String> = texts.into_iter().map(Into::into).collect();
        let mut nodes = vec![StopNode::default()];
        for (i, text) in texts.iter().enumerate().filter(|(_, text)| !text.is_empty()) {
            let mut at = 0;
            for (depth, byte) in text.bytes().enumerate() {
                let fresh = nodes.len();
                let next = *nodes[at].next.entry(byte).or_insert(fresh);
                if next == fresh {
                    nodes.push(StopNode { depth: depth + 1, ..StopNode::default() });
                }
                at = next;
            }
            nodes[at].stop.get_or_insert(i);
        }
        // Shorter beginnings first, so that fallbacks are known.
        let mut order: Vec<usize> = (0..nodes.len()).collect();
        order.sort_by_key(|i| nodes[*i].depth);
        for i in order {
            for (byte, next) in nodes[i].next.clone() {
                let fallback = if i == 0 { 0 } else { step(&nodes, nodes[i].fallback, byte) };
                let stop = nodes[next].stop.or(nodes[fallback].stop);
                (nodes[next].fallback, nodes[next].stop) = (fallback, stop);
            }
        }
        Stops { texts, nodes, at: 0, held: String::new(), found: false }
    }

    /// The stop string at a place in the list.
    pub fn text(&self, stop: usize) -> &str {
        self.texts.get(stop).map_or("", String::as_str)
    }

    /// Takes the next piece. After a stop string nothing passes any more.
    pub fn push(&mut self, piece: &str) -> StopMatch {
        if self.found {
            return StopMatch::default();
        }
        let before = self.held.len();
        self.held.push_str(piece);
        for (i, byte) in piece.bytes().enumerate() {
            self.at = step(&self.nodes, self.at, byte);
            if let Some(stop) = self.nodes[self.at].stop {
                self.found = true;
                let mut text = std::mem::take(&mut self.held);
                text.truncate((before + i + 1).saturating_sub(self.texts[stop].len()));
                return StopMatch { text, stop: Some(stop) };
            }
        }
        // A beginning of a stop string begins with a character.
        let keep = self.held.len() - self.nodes[self.at].depth;
        let rest = self.held.split_off(keep);
        StopMatch { text: std::mem::replace(&mut self.held, rest), stop: None }
    }

    /// What is held back at the end of the text; then starts anew.
    pub fn flush(&mut self) -> String {
        (self.at, self.found) = (0, false);
        std::mem::take(&mut self.held)
    }
}

/// The longest beginning that what has been read ends with after one more byte.
fn step(nodes: &[StopNode], mut at: usize, byte: u8) -> usize {
    loop {
        match nodes[at].next.get(&byte) {
            Some(next) => return *next,
            None if at == 0 => return 0,
            None => at = nodes[at].fallback,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Text before the stop string that ends first, the longest of those; by looking everywhere.
    fn brute(text: &str, stops: &[&str]) -> (String, Option<usize>) {
        for end in (0..=text.len()).filter(|i| text.is_char_boundary(*i)) {
            let ends = |s: &&(usize, &&str)| !s.1.is_empty() && text[..end].ends_with(*s.1);
            let longest = stops.iter().enumerate().filter(|s| ends(&s)).max_by_key(|s| (s.1.len(), usize::MAX - s.0));
            if let Some((i, stop)) = longest {
                return (text[..end - stop.len()].to_string(), Some(i));
            }
        }
        (text.to_string(), None)
    }

    #[test]
    fn however_text_is_cut_it_passes_up_to_the_first_stop_string_and_as_soon_as_it_can() {
        let lists: [&[&str]; 7] = [
            &["aab", "ab"],
            &["abab", "ba", ""],
            &["aaaa"],
            &["éa", "aé"],
            &["abc", "bcaab", "caab"],
            &[],
            &["b", "aab", "b"],
        ];
        let mut state = 1u32;
        let mut random = |n: u32| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 16) % n
        };
        for round in 0..4000 {
            let stops = lists[round % lists.len()];
            let letters = ["a", "b", "c", "é", "a"];
            let text: String = (0..random(14)).map(|_| letters[random(5) as usize]).collect();
            let (before, stop) = brute(&text, stops);
            let mut matcher = Stops::new(stops.iter().copied());
            let (mut out, mut found, mut seen) = (String::new(), None, String::new());
            let mut rest = text.as_str();
            while !rest.is_empty() {
                let cut =
                    (1 + random(4) as usize..=rest.len()).find(|i| rest.is_char_boundary(*i)).unwrap_or(rest.len());
                let (piece, left) = rest.split_at(cut);
                rest = left;
                seen.push_str(piece);
                let passed = matcher.push(piece);
                assert!(found.is_none() || passed == StopMatch::default(), "nothing passes after a stop string");
                out.push_str(&passed.text);
                found = found.or(passed.stop);
                if found.is_none() {
                    let held = &seen[out.len()..];
                    let may_stop = held.is_empty() || stops.iter().any(|s| s.starts_with(held));
                    assert!(may_stop, "{held:?} of {seen:?} is held back for {stops:?}");
                }
            }
            if found.is_none() {
                out.push_str(&matcher.flush());
            }
            assert_eq!((out, found), (before, stop), "{text:?} {stops:?}");
        }
    }

    #[test]
    fn a_matcher_starts_anew_after_its_flush() {
        let mut stops = Stops::new(["stop"]);
        assert_eq!(stops.push("a st"), StopMatch { text: "a ".into(), stop: None });
        assert_eq!(stops.flush(), "st");
        assert_eq!(stops.push("op"), StopMatch { text: "op".into(), stop: None });
        assert_eq!((stops.push("stopped").stop, stops.text(0)), (Some(0), "stop"));
    }
}
