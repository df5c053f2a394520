//! Unigram: `tokenizer.ggml.model` "t5".
//!
//! Text is normalized by the file's table of replacements, spaces are written as U+2581, and of all ways to spell it the tokens
//! are taken whose scores, logarithms of probabilities, have the largest sum (Kudo, 2018). Characters without a token are the
//! unknown one, which stands once for several in a row.

use super::spm::SPACE;
use super::trie::Trie;
use super::vocab::{TokenKind, Vocab};
use pumex_gguf::{Error, Gguf, Result, Value, ValueType};

/// What an unknown character's score is below the least of all tokens'.
const PENALTY: f64 = 10.0;

/// Most bytes whose spellings are weighed together; where no token spans a place, they are cut there before.
const MAX_WEIGHED: usize = 1 << 20;

/// Tokens with their scores, and what is done to text before.
#[derive(Debug)]
pub struct Unigram {
    tokens: Trie,
    scores: Vec<f64>,
    /// User-defined tokens, which the table of replacements leaves alone.
    kept: Trie,
    unknown_score: f64,
    table: ReplacementTable,
    /// Whether text starts with a space.
    add_space: bool,
    /// Whether spaces in a row are one.
    merge_spaces: bool,
}

impl Unigram {
    /// Takes the vocabulary and the keys of the normalizer.
    ///
    /// # Errors
    /// `missing_key` without scores, `bad_key_type`, `bad_vocab` for a table of replacements that is cut short.
    pub fn new(gguf: &Gguf, vocab: &Vocab) -> Result<Unigram> {
        let scores = vocab.scores().ok_or_else(|| {
            let what = "tokenizer.ggml.scores: missing, expected the scores of a t5 vocabulary";
            Error::file(gguf.path(), "missing_key", what)
        })?;
        let entry = |id: u32| Some((vocab.text(id)?, id));
        let spelt = vocab.ids().filter(|&id| vocab.spells(id)).filter_map(entry);
        let kept = vocab.ids().filter(|&id| vocab.kind(id) == Some(TokenKind::User)).filter_map(entry);
        let score = |id: u32| match vocab.kind(id) {
            Some(TokenKind::User) => 0.0,
            _ => f64::from(scores.get(id as usize).copied().unwrap_or(0.0)),
        };
        let normal = vocab.ids().filter(|&id| vocab.kind(id) == Some(TokenKind::Normal));
        let least = normal.map(score).fold(f64::INFINITY, f64::min);
        let flag =
            |name: &str| Ok::<_, Error>(gguf.meta().opt_bool(&format!("tokenizer.ggml.{name}"))?.unwrap_or(false));
        Ok(Unigram {
            tokens: Trie::new(spelt.collect()),
            scores: vocab.ids().map(score).collect(),
            kept: Trie::new(kept.collect()),
            unknown_score: if least.is_finite() { least - PENALTY } else { -PENALTY },
            table: ReplacementTable::read(gguf)?,
            add_space: flag("add_space_prefix")?,
            merge_spaces: flag("remove_extra_whitespaces")?,
        })
    }

    /// Appends the ids of `text`, which holds no special tokens.
    pub fn encode(&self, text: &str, unknown: Option<u32>, ids: &mut Vec<u32>) {
        let text = self.normalize(text);
        // By end, from `base` on: the best sum so far, where its last token starts, and which that is.
        let mut best: Vec<Option<(f64, usize, Option<u32>)>> = vec![Some((0.0, 0, None))];
        let (mut base, mut at, mut after_unknown) = (0, 0, false);
        while at < text.len() {
            let next = (at + 1..text.len()).find(|&i| text[i] & 0xc0 != 0x80).unwrap_or(text.len());
            let sum = best[at - base].map_or(0.0, |b| b.0);
            let mut offer = |end: usize, score: f64, id: Option<u32>| {
                if best.len() <= end - base {
                    best.resize(end - base + 1, None);
                }
                if best[end - base].is_none_or(|(champion, ..)| sum + score > champion) {
                    best[end - base] = Some((sum + score, at, id));
                }
            };
            let mut alone = false;
            self.tokens.prefixes(&text[at..], |len, id| {
                alone |= at + len == next;
                offer(at + len, self.scores[id as usize], Some(id));
            });
            if !alone {
                offer(next, self.unknown_score, None);
            }
            at = next;
            // No token spans this place: what stands before it is decided.
            if best.len() - 1 == at - base || at - base > MAX_WEIGHED {
                let (mut reversed, mut end) = (Vec::new(), at);
                while let Some((_, start, id)) = best[end - base].filter(|_| end > base) {
                    reversed.push(id);
                    end = start;
                }
                for id in reversed.into_iter().rev() {
                    if id.is_some() || !after_unknown {
                        ids.extend(id.or(unknown));
                    }
                    after_unknown = id.is_none();
                }
                base = at;
                best.clear();
                best.push(Some((0.0, at, None)));
            }
        }
    }

    /// The normalized text.
    fn normalize(&self, text: &str) -> Vec<u8> {
        let mut space = [0; 4];
        let space = SPACE.encode_utf8(&mut space).as_bytes();
        let (mut out, mut in_word, mut begun) = (Vec::with_capacity(text.len() * 2), false, false);
        for byte in self.table.replace_sequences(text.as_bytes(), &self.kept) {
            if byte == b' ' {
                in_word = false;
                if !self.merge_spaces {
                    out.extend(space);
                }
                continue;
            }
            if !in_word && (self.merge_spaces || self.add_space && !begun) {
                out.extend(space);
                begun = true;
            }
            in_word = true;
            out.push(byte);
        }
        out
    }
}

/// Replacements of byte sequences: a double array of transitions, and texts that end with a zero. An entry has a label in its low
/// byte and bit 31, in bit 8 whether a sequence ends there, in bits 10 to 30 the offset to its children, times 256 if bit 9 is set.
#[derive(Debug, Default)]
struct ReplacementTable {
    entries: Vec<u32>,
    texts: Vec<u8>,
}

impl ReplacementTable {
    fn read(gguf: &Gguf) -> Result<ReplacementTable> {
        const KEY: &str = "tokenizer.ggml.precompiled_charsmap";
        let raw = match gguf.meta().get(KEY) {
            None => return Ok(ReplacementTable::default()),
            Some(Value::Array { element: ValueType::I8 | ValueType::U8, raw }) => raw,
            Some(_) => {
                let what = format!("{KEY}: expected an array of bytes, found another value");
                return Err(Error::file(gguf.path(), "bad_key_type", what));
            }
        };
        let word = |b: &[u8]| b.try_into().map_or(0, u32::from_le_bytes);
        let split = raw.split_at_checked(4).and_then(|(len, rest)| rest.split_at_checked(word(len) as usize));
        let Some((entries, texts)) = split else {
            let what = format!("{KEY}: expected a table as long as its first word says, found {} bytes", raw.len());
            return Err(Error::file(gguf.path(), "bad_vocab", what));
        };
        Ok(ReplacementTable { entries: entries.chunks_exact(4).map(word).collect(), texts: texts.to_vec() })
    }

    /// The longest sequence at the start of `text` that has a replacement: its length, and that.
    fn find(&self, text: &[u8]) -> Option<(usize, &[u8])> {
        let offset = |entry: u32| (entry >> 10) << ((entry & 1 << 9) >> 6);
        let (mut at, mut found) = (offset(*self.entries.first()?), None);
        for (i, &byte) in text.iter().enumerate().take_while(|(_, byte)| **byte != 0) {
            at ^= u32::from(byte);
            let Some(&entry) = self.entries.get(at as usize) else { break };
            if entry & (1 << 31 | 0xff) != u32::from(byte) {
                break;
            }
            at ^= offset(entry);
            if entry >> 8 & 1 == 1 {
                found = self.entries.get(at as usize).map(|value| (i + 1, (value & !(1 << 31)) as usize));
            }
        }
        let (len, from) = found?;
        let replacement = self.texts.get(from..)?;
        Some((len, &replacement[..replacement.iter().position(|b| *b == 0)?]))
    }

    /// The text with all sequences replaced.
    fn replace_sequences(&self, text: &[u8], kept: &Trie) -> Vec<u8> {
        let (mut out, mut at) = (Vec::with_capacity(text.len()), 0);
        while at < text.len() {
            if let Some((len, _)) = kept.longest(&text[at..]) {
                out.extend(&text[at..at + len]);
                at += len;
                continue;
            }
            let Some((len, replacement)) = self.find(&text[at..]) else {
                if text[at] & 0xc0 == 0x80 {
                    // A replacement took only the start of the character.
                    out.extend("\u{fffd}".bytes());
                    at += 1;
                    continue;
                }
                let next = (at + 1..text.len()).find(|&i| text[i] & 0xc0 != 0x80).unwrap_or(text.len());
                out.extend(&text[at..next]);
                at = next;
                continue;
            };
            out.extend(replacement);
            at += len;
        }
        out
    }
}
