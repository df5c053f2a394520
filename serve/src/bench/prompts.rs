//! What is asked: lines of a file, or words at random.

use super::Error;
use std::path::Path;

/// Where prompts come from.
#[derive(Clone, Debug, PartialEq)]
pub enum Prompts {
    /// These, one after another and over again.
    List(Vec<String>),
    /// Words at random.
    Words {
        /// How many, about as many as tokens.
        length: usize,
        /// Lengths differ by this share of it, from 0 to 1.
        spread: f64,
        /// Tokens at the start that are the same in all prompts.
        shared: usize,
    },
}

/// Words that most vocabularies have as a token each.
const WORDS: &[&str] = &[
    "time",
    "year",
    "people",
    "way",
    "day",
    "man",
    "thing",
    "woman",
    "life",
    "child",
    "world",
    "school",
    "state",
    "family",
    "student",
    "group",
    "country",
    "problem",
    "hand",
    "part",
    "place",
    "case",
    "week",
    "company",
    "system",
    "program",
    "question",
    "work",
    "government",
    "number",
    "night",
    "point",
    "home",
    "water",
    "room",
    "mother",
    "area",
    "money",
    "story",
    "fact",
    "month",
    "lot",
    "right",
    "study",
    "book",
    "eye",
    "job",
    "word",
    "business",
    "issue",
    "side",
    "kind",
    "head",
    "house",
    "service",
    "friend",
    "father",
    "power",
    "hour",
    "game",
    "line",
    "end",
    "member",
    "law",
    "car",
    "city",
    "name",
];

impl Prompts {
    /// Prompts of a file: one a line, as text or as an object of JSON with `prompt` or `text`.
    ///
    /// # Errors
    /// The file cannot be read, or has none.
    pub fn of_file(path: &Path) -> Result<Prompts, Error> {
        let text = std::fs::read_to_string(path).map_err(|e| Error(format!("{}: {e}", path.display())))?;
        let prompt = |line: &str| {
            let value: Option<serde_json::Value> = serde_json::from_str(line).ok();
            let field = |name: &str| value.as_ref()?.get(name)?.as_str().map(String::from);
            field("prompt").or_else(|| field("text")).unwrap_or_else(|| line.to_string())
        };
        let list: Vec<String> = text.lines().filter(|l| !l.trim().is_empty()).map(prompt).collect();
        match list.is_empty() {
            true => Err(Error(format!("{}: expected a prompt on a line, found none", path.display()))),
            false => Ok(Prompts::List(list)),
        }
    }

    /// So many of them.
    pub(super) fn make(&self, count: usize, random: &mut PromptRng) -> Result<Vec<String>, Error> {
        match self {
            Prompts::List(list) if list.is_empty() => Err(Error("expected a prompt, found none".into())),
            Prompts::List(list) => Ok(list.iter().cycle().take(count).cloned().collect()),
            Prompts::Words { length, spread, shared } => {
                let start = words((*shared).min(*length), random);
                let one = |_| {
                    let factor = 1.0 + spread.clamp(0.0, 1.0) * (2.0 * random.unit() - 1.0);
                    let own = (*length as f64 * factor).round() as usize;
                    let rest = words(own.saturating_sub(*shared).max(1), random);
                    if start.is_empty() {
                        rest
                    } else {
                        format!("{start} {rest}")
                    }
                };
                Ok((0..count).map(one).collect())
            }
        }
    }
}

fn words(count: usize, random: &mut PromptRng) -> String {
    let word = |_| WORDS[(random.unit() * WORDS.len() as f64) as usize % WORDS.len()];
    (0..count).map(word).collect::<Vec<_>>().join(" ")
}

/// Numbers at random, the same for the same seed (SplitMix64).
pub(super) struct PromptRng(pub u64);

impl PromptRng {
    /// Above 0 and at most 1.
    pub fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (((z ^ (z >> 31)) >> 11) + 1) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_of_a_seed_are_the_same_and_share_their_start() {
        let prompts = Prompts::Words { length: 20, spread: 0.5, shared: 5 };
        let make = |seed| prompts.make(50, &mut PromptRng(seed)).unwrap();
        let (a, b) = (make(1), make(2));
        assert!(a == make(1) && a != b);
        let start: Vec<&str> = a[0].split(' ').take(5).collect();
        for prompt in &a {
            let words: Vec<&str> = prompt.split(' ').collect();
            assert!(words[..5] == start[..] && (10..=30).contains(&words.len()), "{prompt}");
        }
        assert_ne!(a[0], a[1]);
        let list = Prompts::List(vec!["a".into(), "b".into()]);
        assert_eq!(list.make(3, &mut PromptRng(0)).unwrap(), ["a", "b", "a"]);
    }
}
