//! The bytes of a model's tokens, as a trie that masks are computed over.

use crate::{Error, Result};
use llguidance::api::ParserLimits;
use llguidance::toktrie::{InferenceCapabilities, TokEnv, TokRxInfo, TokTrie, TokenId, TokenizerEnv, INVALID_TOKEN};
use llguidance::ParserFactory;
use std::collections::HashMap;
use std::sync::Arc;

/// Longest token that a grammar allows, bytes: the trie's depth is bounded.
const MAX_PIECE: usize = 900;
/// Most nodes of the trie.
const MAX_NODES: usize = (1 << 22) - 2;

/// What a token is to a grammar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenText<'a> {
    /// Bytes of text, perhaps a part of a character.
    Text(&'a [u8]),
    /// A special token, by its text: only grammars that name it allow it.
    Special(&'a [u8]),
    /// Never allowed.
    Nothing,
}

/// A model's tokens, and what the grammars over them share.
pub struct Vocabulary {
    pub(crate) factory: ParserFactory,
    /// Tokens whose bytes another one has, too, with that one.
    pub(crate) twins: HashMap<u32, u32>,
    specials: HashMap<String, u32>,
    texts: HashMap<Vec<u8>, u32>,
    pub(crate) ends: Vec<u32>,
    n_vocab: usize,
}

struct Env(TokTrie);

impl TokenizerEnv for Env {
    fn tok_trie(&self) -> &TokTrie {
        &self.0
    }

    fn tokenize_bytes(&self, s: &[u8]) -> Vec<TokenId> {
        self.0.greedy_tokenize(s)
    }

    /// Tokens are never forced: any that spells what is allowed is.
    fn tokenize_is_canonical(&self) -> bool {
        false
    }
}

/// Limits of one matcher. A step's bound some ten milliseconds, the states' some hundred megabytes.
fn limits() -> ParserLimits {
    ParserLimits {
        max_items_in_row: 2000,
        initial_lexer_fuel: 1_000_000,
        step_lexer_fuel: 300_000,
        step_max_items: 200_000,
        max_lexer_states: 50_000,
        max_grammar_size: 200_000,
        precompute_large_lexemes: true,
        verbose_errors: false,
    }
}

impl Vocabulary {
    /// A vocabulary of tokens in the order of their ids. `ends` are those that end a text: they are allowed where a grammar may end, and
    /// nowhere
    /// else unless it names them.
    ///
    /// # Errors
    /// A vocabulary that is empty or too large.
    pub fn new<'a>(pieces: impl Iterator<Item = TokenText<'a>>, ends: &[u32]) -> Result<Vocabulary> {
        let marker = TokTrie::SPECIAL_TOKEN_MARKER;
        let (mut words, mut specials, mut texts): (Vec<Vec<u8>>, HashMap<_, _>, HashMap<Vec<u8>, u32>) =
            Default::default();
        let mut twins = HashMap::new();
        for (piece, id) in pieces.zip(0u32..) {
            words.push(match piece {
                TokenText::Text(text) if text.len() <= MAX_PIECE && text.first().is_some_and(|b| *b != marker) => {
                    match texts.get(text) {
                        Some(first) => {
                            twins.insert(id, *first);
                            Vec::new()
                        }
                        None => {
                            texts.insert(text.to_vec(), id);
                            text.to_vec()
                        }
                    }
                }
                TokenText::Special(text) if text.len() < MAX_PIECE => match std::str::from_utf8(text) {
                    Ok(name) if !name.is_empty() && !specials.contains_key(name) => {
                        specials.insert(name.to_string(), id);
                        [&[marker], text].concat()
                    }
                    _ => Vec::new(),
                },
                _ => Vec::new(),
            });
        }
        let n_vocab = words.len();
        let mut sorted: Vec<&Vec<u8>> = words.iter().collect();
        sorted.sort_unstable();
        let shared = |pair: &[&Vec<u8>]| pair[0].iter().zip(pair[1]).take_while(|(a, b)| a == b).count();
        let nodes: usize = sorted.windows(2).map(|pair| pair[1].len() - shared(pair)).sum();
        if n_vocab == 0 || n_vocab >= 0xff_ffff || nodes + MAX_PIECE > MAX_NODES {
            let what = format!(
                "vocabulary of {n_vocab} tokens, {nodes} prefixes: expected 1 to {} and {MAX_NODES}",
                0xff_fffe
            );
            return Err(Error::new(what));
        }
        let ends: Vec<u32> = ends.iter().copied().filter(|id| (*id as usize) < n_vocab).collect();
        let info = TokRxInfo::new(n_vocab as u32, ends.first().copied().unwrap_or(INVALID_TOKEN));
        let mut trie = TokTrie::from(&info, &words);
        if !ends.is_empty() {
            trie = trie.with_eos_tokens(&ends);
        }
        let env: TokEnv = Arc::new(Env(trie));
        let failed = |e: &dyn std::fmt::Display| Error::from_matcher_error("vocabulary", &e.to_string());
        let mut factory = ParserFactory::new(
            &env,
            InferenceCapabilities::default(),
            &llguidance::earley::SlicedBiasComputer::general_slices(),
        )
        .map_err(|e| failed(&e))?;
        factory.quiet();
        *factory.limits_mut() = limits();
        Ok(Vocabulary { factory, twins, specials, texts, ends, n_vocab })
    }

    /// Tokens.
    pub fn len(&self) -> usize {
        self.n_vocab
    }

    /// Whether there are none, which is never so.
    pub fn is_empty(&self) -> bool {
        self.n_vocab == 0
    }

    /// The token that is a text and nothing else: a special one first.
    pub fn token(&self, text: &str) -> Option<u32> {
        self.special(text).or_else(|| self.texts.get(text.as_bytes()).copied())
    }

    /// All special tokens.
    pub(crate) fn specials(&self) -> impl Iterator<Item = (&str, u32)> {
        self.specials.iter().map(|(text, id)| (text.as_str(), *id))
    }

    /// The special token of a text.
    pub fn special(&self, text: &str) -> Option<u32> {
        self.specials.get(text).copied()
    }
}

impl std::fmt::Debug for Vocabulary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Vocabulary({} tokens)", self.n_vocab)
    }
}
