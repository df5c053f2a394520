//! Text to token ids and back, from a file's metadata alone.
//!
//! [`Tokenizer::from_gguf`] takes the `tokenizer.ggml.*` keys and checks them once; afterwards every id below
//! [`Tokenizer::n_vocab`] decodes and every text encodes. Vocabularies: byte-level BPE ("gpt2") and BPE of plain
//! text ("gemma4"), SentencePiece-style BPE ("llama"), WordPiece ("bert"), Unigram ("t5"), longest tokens first ("rwkv"), PLaMo 2's
//! ("plamo2"), and none at all, for models that are fed ids. [`Stream`] turns generated ids into whole characters.

pub mod chat;

mod automaton;
mod bpe;
mod byte_table;
mod dna;
mod greedy;
mod index;
mod merge;
mod plamo;
mod pretokenizers;
mod special;
mod specials;
mod split;
mod spm;
mod stops;
mod stream;
mod trie;
mod unigram;
mod vocab;
mod wordpiece;

use std::ops::Range;
use std::path::{Path, PathBuf};

use pumex_gguf::{Error, Gguf, Result};
pub use special::Infill;
use special::{Special, Usual};
use specials::{Fragment, SpecialScope, Specials};
pub use stops::{StopMatch, Stops};
pub use stream::{Characters, Stream};
use vocab::{is_markup, ByteTable, TokenKind, Vocab};

/// How text becomes ids.
#[derive(Debug)]
enum Scheme {
    Bytes(Box<bpe::Bpe>),
    /// Words apart from each other, without the white space between.
    Spaced(Box<bpe::Bpe>, bool),
    /// Stretches of DNA between their tags, BPE elsewhere.
    Dna(Box<bpe::Bpe>, Box<dna::Dna>),
    Sentence(Box<spm::Spm>),
    Words(Box<wordpiece::WordPieceVocab>),
    Unigram(Box<unigram::Unigram>),
    Greedy(Box<greedy::Greedy>),
    Plamo(Box<plamo::Plamo>),
    Absent,
}

/// A model's vocabulary with its rules.
#[derive(Debug)]
pub struct Tokenizer {
    path: PathBuf,
    scheme: Scheme,
    vocab: Vocab,
    n_vocab: usize,
    pieces: ByteTable,
    specials: Specials,
    special: Special,
    add_space_prefix: bool,
    /// Spaces of the text are U+2581 in tokens.
    escape: bool,
    /// Decoding takes out the space before punctuation.
    clean: bool,
    warnings: Vec<String>,
}

impl Tokenizer {
    /// Builds the tokenizer that the metadata describes.
    ///
    /// # Errors
    /// [`Error::File`] with `missing_key`, `bad_key_type`, `bad_vocab` or `unknown_tokenizer`.
    pub fn from_gguf(gguf: &Gguf) -> Result<Self> {
        let (meta, path) = (gguf.meta(), gguf.path());
        let unknown = |what: String| Error::file(path, "unknown_tokenizer", what);
        let model = meta.str("tokenizer.ggml.model")?;
        let mut warnings = Vec::new();
        let usual = match model {
            "no_vocab" | "none" | "test" | "gpt2" | "gemma4" | "whitespace" | "hybriddna" | "rwkv" => Usual::default(),
            "llama" => Usual::SENTENCE,
            "bert" => Usual::WORDS,
            "t5" => Usual::UNIGRAM,
            "plamo2" => Usual::PLAMO,
            _ => {
                let what = format!(
                    "tokenizer.ggml.model: {model:?}, expected gpt2, llama, bert, t5, rwkv, plamo2, gemma4, hybriddna, \
                     whitespace, no_vocab, none or test"
                );
                return Err(unknown(what));
            }
        };
        let absent = matches!(model, "no_vocab" | "none" | "test");
        let mut vocab = if absent { Vocab::default() } else { Vocab::read(gguf, &mut warnings)? };
        let row = match model {
            "gpt2" | "gemma4" | "whitespace" | "hybriddna" => {
                let stated = meta.opt_str("tokenizer.ggml.pre")?.filter(|pre| !pre.is_empty());
                let pre = if model == "gemma4" { "gemma4" } else { stated.unwrap_or("default") };
                if pre == "default" {
                    warnings.push("tokenizer.ggml.pre: not stated; text is split in the usual way".to_owned());
                }
                Some(pretokenizers::find(pre).ok_or_else(|| {
                    unknown(format!("tokenizer.ggml.pre: {pre:?}, expected one of {}", pretokenizers::list_names()))
                })?)
            }
            _ => None,
        };
        let n_vocab = match absent {
            true => meta.opt_strings("tokenizer.ggml.tokens")?.map_or(0, |tokens| tokens.len()),
            false => vocab.len(),
        };
        let default_bos = row.map_or(matches!(model, "llama" | "bert"), |row| row.add_bos);
        let mut special = Special::read(gguf, &mut vocab, n_vocab, (usual, default_bos), &mut warnings)?;
        if row.is_some_and(|row| row.plain && row.add_bos) {
            special.add_bos = special.bos.is_some();
        }
        special.add_sep |= row.is_some_and(|row| row.add_sep) && meta.get("tokenizer.ggml.add_sep_token").is_none();
        let scheme = match (model, row) {
            (_, Some(row)) => {
                let dna = (model == "hybriddna").then(|| dna::Dna::new(&vocab)).flatten();
                let bpe = Box::new(bpe::Bpe::new(gguf, &vocab, row, &mut warnings)?);
                match (model, dna) {
                    (_, Some(dna)) => Scheme::Dna(bpe, Box::new(dna)),
                    ("whitespace", _) => Scheme::Spaced(bpe, wordpiece::Normalizer::read(gguf, false)?.lowercase),
                    _ => Scheme::Bytes(bpe),
                }
            }
            ("llama", _) => Scheme::Sentence(Box::new(spm::Spm::new(path, &vocab)?)),
            ("bert", _) => Scheme::Words(Box::new(wordpiece::WordPieceVocab::new(gguf, &vocab)?)),
            ("t5", _) => Scheme::Unigram(Box::new(unigram::Unigram::new(gguf, &vocab)?)),
            ("rwkv", _) => Scheme::Greedy(Box::new(greedy::Greedy::new(&vocab))),
            ("plamo2", _) => Scheme::Plamo(Box::new(plamo::Plamo::new(path, &vocab)?)),
            _ => Scheme::Absent,
        };
        let spelling = match &scheme {
            Scheme::Sentence(_) | Scheme::Words(_) | Scheme::Unigram(_) => Spelling::Spaces,
            Scheme::Greedy(_) => Spelling::Escapes,
            Scheme::Plamo(_) => Spelling::Plain,
            _ if row.is_some_and(|row| row.plain && row.names[0] != "whitespace") => Spelling::Spaces,
            _ => Spelling::Bytes,
        };
        let (strip_left, strip_right) = stripping(gguf, &vocab)?;
        Ok(Self {
            path: path.to_path_buf(),
            n_vocab,
            pieces: pieces(&vocab, spelling, model == "hybriddna"),
            specials: Specials::new(&vocab, strip_left, strip_right),
            special,
            add_space_prefix: model == "bert"
                || matches!(model, "llama" | "t5")
                    && meta.opt_bool("tokenizer.ggml.add_space_prefix")?.unwrap_or(model == "llama"),
            escape: row.is_some() && matches!(spelling, Spelling::Spaces),
            clean: row.is_some_and(|row| row.clean) || model == "bert",
            scheme,
            vocab,
            warnings,
        })
    }

    /// Number of tokens in the file; 0 if the file lists none.
    pub fn n_vocab(&self) -> usize {
        self.n_vocab
    }

    /// Whether text can be encoded at all; otherwise the model takes ids only.
    pub fn has_vocab(&self) -> bool {
        !matches!(self.scheme, Scheme::Absent)
    }

    /// Beginning of text.
    pub fn bos(&self) -> Option<u32> {
        self.special.bos
    }

    /// End of text.
    pub fn eos(&self) -> Option<u32> {
        self.special.eos
    }

    /// End of a turn.
    pub fn eot(&self) -> Option<u32> {
        self.special.eot
    }

    /// The unknown token.
    pub fn unk(&self) -> Option<u32> {
        self.special.unk
    }

    /// Padding.
    pub fn pad(&self) -> Option<u32> {
        self.special.pad
    }

    /// Whether prompts start with BOS: what the file says, else what its kind of vocabulary does.
    pub fn add_bos(&self) -> bool {
        self.special.add_bos
    }

    /// Whether texts end with EOS when the file says so; [`Tokenizer::encode`] never adds it.
    pub fn add_eos(&self) -> bool {
        self.special.add_eos
    }

    /// Stands between two texts that are read as a pair, if the file's kind of vocabulary has such a token.
    pub fn separator(&self) -> Option<u32> {
        self.special.sep.filter(|_| self.special.add_sep)
    }

    /// What a whole text ends with, as one to be embedded: the separator of WordPiece, else EOS where the file says so.
    pub fn closing(&self) -> Option<u32> {
        match self.scheme {
            Scheme::Words(_) => self.special.sep,
            _ => self.special.eos.filter(|_| self.special.add_eos),
        }
    }

    /// The tokens of a text with a gap to fill in.
    pub fn infill(&self) -> Infill {
        self.special.infill
    }

    /// Whether the token steers the model and is no text: what a message must not spell.
    pub fn is_control(&self, id: u32) -> bool {
        match self.vocab.kind(id) {
            Some(TokenKind::Control | TokenKind::Unknown) => true,
            Some(TokenKind::User) => is_markup(self.token_text(id)),
            _ => false,
        }
    }

    /// Whether decoding a whole text takes out spaces before punctuation in other tools; here it never does.
    pub fn cleans_up(&self) -> bool {
        self.clean
    }

    /// Whether generation stops at this id.
    pub fn is_end(&self, id: u32) -> bool {
        self.special.ends.binary_search(&id).is_ok()
    }

    /// What was odd in the file but not fatal, one line each.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The id of a token by its exact text in the file.
    pub fn id_of(&self, text: &str) -> Option<u32> {
        self.vocab.find(text.as_bytes())
    }

    /// The token's text as the file has it, control tokens included; empty if there is none.
    pub fn token_text(&self, id: u32) -> &[u8] {
        self.vocab.text(id).unwrap_or_default()
    }

    /// The bytes that the token adds to output; none for control, unknown and unused tokens and for ids that do not
    /// exist. May be part of a character.
    pub fn piece(&self, id: u32) -> &[u8] {
        self.pieces.get(id).unwrap_or_default()
    }

    /// Encodes `text`. `add_bos` puts BOS first where there is one, and never doubles it. With `parse_special`,
    /// control tokens spelt out in the text become those tokens; without, they are plain text.
    ///
    /// # Errors
    /// `unknown_tokenizer` if the model has no vocabulary, `bad_vocab` for a byte that the vocabulary cannot spell.
    pub fn encode(&self, text: &str, add_bos: bool, parse_special: bool) -> Result<Vec<u32>> {
        self.encode_as(text, SpecialScope::All(parse_special), add_bos)
    }

    /// Encodes a text as [`Tokenizer::encode`] does, where control tokens, and user-defined ones that look like markup, are read only from
    /// bytes of
    /// which `own` holds: those that a template wrote itself, not those of a message.
    ///
    /// # Errors
    /// As for [`Tokenizer::encode`].
    pub fn encode_marked(&self, text: &str, own: &dyn Fn(Range<usize>) -> bool, add_bos: bool) -> Result<Vec<u32>> {
        self.encode_as(text, SpecialScope::Own(own), add_bos)
    }

    fn encode_as(&self, text: &str, marks: SpecialScope, add_bos: bool) -> Result<Vec<u32>> {
        let mut ids = Vec::with_capacity(text.len() / 3 + 2);
        let bos = self.bos().filter(|_| add_bos);
        ids.extend(bos);
        let mut after_special = true;
        for fragment in self.specials.fragments(&self.vocab, text, marks) {
            match fragment {
                // Chat templates bring their own BOS.
                Fragment::Special(id) if bos == Some(id) && ids.len() == 1 => {}
                Fragment::Special(id) => ids.push(id),
                Fragment::Text(text) => self.encode_text(text, after_special, &mut ids)?,
            }
            after_special = matches!(fragment, Fragment::Special(_));
        }
        Ok(ids)
    }

    /// Appends the ids of text without special tokens.
    fn encode_text(&self, text: &str, after_special: bool, ids: &mut Vec<u32>) -> Result<()> {
        match &self.scheme {
            Scheme::Bytes(model) if self.escape => model.encode(&self.path, &text.replace(' ', "\u{2581}"), ids)?,
            Scheme::Bytes(model) => model.encode(&self.path, text, ids)?,
            Scheme::Spaced(model, lowercase) => {
                for word in text.split_whitespace() {
                    let lowered = lowercase.then(|| word.chars().map(wordpiece::lower).collect::<String>());
                    model.encode(&self.path, lowered.as_deref().unwrap_or(word), ids)?;
                }
            }
            Scheme::Dna(model, dna) => dna.encode(text, ids, &mut |text, ids| model.encode(&self.path, text, ids))?,
            Scheme::Sentence(model) => {
                model.encode(&self.vocab, text, self.add_space_prefix && after_special, ids);
            }
            Scheme::Words(model) => model.encode(text, self.unk(), ids),
            Scheme::Unigram(model) => model.encode(text, self.unk(), ids),
            Scheme::Greedy(model) => model.encode(text, self.unk(), ids),
            Scheme::Plamo(model) => model.encode(&self.vocab, text, ids),
            Scheme::Absent => return Err(no_vocab(&self.path)),
        }
        Ok(())
    }

    /// Decodes a whole text: undoes [`Tokenizer::encode`], the space put before it included. Bytes that are no text
    /// become U+FFFD, ids outside the vocabulary `<id>`.
    pub fn decode(&self, ids: &[u32]) -> String {
        let mut bytes = Vec::with_capacity(ids.len() * 4);
        ids.iter().for_each(|&id| self.append(id, &mut bytes));
        let start = usize::from(self.add_space_prefix && bytes.first() == Some(&b' '));
        String::from_utf8_lossy(&bytes[start..]).into_owned()
    }

    /// Starts decoding ids one by one.
    pub fn stream(&self) -> Stream<'_> {
        Stream::new(self)
    }

    /// Appends the bytes of an id to `out`, `<id>` if there is no such token.
    fn append(&self, id: u32, out: &mut Vec<u8>) {
        match self.pieces.get(id) {
            Some(piece) => out.extend_from_slice(piece),
            None => out.extend_from_slice(format!("<{id}>").as_bytes()),
        }
    }
}

fn no_vocab(path: &Path) -> Error {
    let what = "tokenizer.ggml.model: the file has no vocabulary, so text cannot be encoded; give token ids";
    Error::file(path, "unknown_tokenizer", what)
}

/// How tokens write what they stand for.
#[derive(Clone, Copy)]
enum Spelling {
    /// A character for each byte.
    Bytes,
    /// U+2581 for spaces.
    Spaces,
    /// Escapes of bytes.
    Escapes,
    /// The text as it is.
    Plain,
}

/// The output bytes of every token; of a vocabulary of DNA without what tells its tokens from words.
fn pieces(vocab: &Vocab, spelling: Spelling, dna: bool) -> ByteTable {
    let alphabet = bpe::Alphabet::new();
    let (mut table, mut piece) = (ByteTable::default(), Vec::new());
    for id in vocab.ids() {
        let text = vocab.text(id).unwrap_or_default();
        let text = if dna { dna::letters(text) } else { text };
        piece.clear();
        match (vocab.kind(id), spelling) {
            (Some(TokenKind::Normal), Spelling::Spaces) => spm::decode(text, &mut piece),
            (Some(TokenKind::Normal), Spelling::Bytes) => alphabet.decode(text, &mut piece),
            (Some(TokenKind::Normal | TokenKind::User | TokenKind::Unused), Spelling::Escapes) => {
                piece = greedy::unescape(text)
            }
            (Some(TokenKind::Unused), Spelling::Plain) | (Some(TokenKind::Normal | TokenKind::User), _) => {
                piece.extend_from_slice(text)
            }
            (Some(TokenKind::Byte), _) => piece.extend(vocab::parse_byte(text)),
            (Some(TokenKind::Control | TokenKind::Unknown | TokenKind::Unused) | None, _) => {}
        }
        table.push(&piece);
    }
    table
}

/// The tokens that take the white space before them with them, and those that take that behind: files do not say, their names do.
fn stripping(gguf: &Gguf, vocab: &Vocab) -> Result<(Vec<u32>, Vec<u32>)> {
    let meta = gguf.meta();
    let read = |key: &str| Ok::<_, Error>(meta.opt_str(key)?.unwrap_or_default().to_lowercase());
    let (pre, arch) = (read("tokenizer.ggml.pre")?, read("general.architecture")?);
    let name = read("general.name")?;
    let has = |text: &str, parts: &[&str]| parts.iter().any(|part| text.contains(part));
    let token = |text: &str| vocab.find(text.as_bytes()).into_iter().collect::<Vec<u32>>();
    if has(&pre, &["jina-v2-de", "jina-v2-es", "jina-v2-code"]) || has(&arch, &["nomic-bert-moe", "jina-bert-v3"]) {
        return Ok((token("<mask>"), Vec::new()));
    }
    if has(&name, &["phi-3", "phi3"]) {
        let special =
            |&id: &u32| matches!(vocab.kind(id), Some(TokenKind::Control | TokenKind::User | TokenKind::Unknown));
        let not = |id: &u32| !["<unk>", "<s>", "<|endoftext|>"].iter().any(|text| token(text).contains(id));
        return Ok((Vec::new(), vocab.ids().filter(special).filter(not).collect()));
    }
    let left = if has(&name, &["modern-bert"]) { token("[MASK]") } else { Vec::new() };
    Ok((left, Vec::new()))
}
