//! Text to token ids and back, from a file's metadata alone.
//!
//! [`Tokenizer::from_gguf`] takes the `tokenizer.ggml.*` keys and checks them once; afterwards every id below
//! [`Tokenizer::n_vocab`] decodes and every text encodes. Vocabularies: byte-level BPE ("gpt2"), SentencePiece-style BPE
//! ("llama"), WordPiece ("bert"), Unigram ("t5"), and none at all, for models that are fed ids. [`Stream`] turns generated ids
//! into whole characters.

mod bpe;
mod special;
mod split;
mod spm;
mod stops;
mod stream;
mod unigram;
mod vocab;
mod words;

use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::gguf::Gguf;
use crate::{Error, Result};
use special::{Special, Usual};
use split::{Fragment, Specials};
pub use stops::{Passed, Stops};
pub use stream::Stream;
use vocab::{Kind, Table, Vocab};

/// How text becomes ids.
#[derive(Debug)]
enum Scheme {
    Bytes(Box<bpe::ByteBpe>),
    Sentence(Box<spm::Spm>),
    Words(Box<words::Words>),
    Unigram(Box<unigram::Unigram>),
    Absent,
}

/// A model's vocabulary with its rules.
#[derive(Debug)]
pub struct Tokenizer {
    path: PathBuf,
    scheme: Scheme,
    vocab: Vocab,
    n_vocab: usize,
    pieces: Table,
    specials: Specials,
    special: Special,
    add_space_prefix: bool,
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
        let (scheme, vocab, default_bos) = match model {
            "no_vocab" | "none" | "test" => (Scheme::Absent, Vocab::default(), false),
            "llama" => {
                let vocab = Vocab::read(gguf, &mut warnings)?;
                (Scheme::Sentence(Box::new(spm::Spm::new(path, &vocab)?)), vocab, true)
            }
            "bert" => {
                let vocab = Vocab::read(gguf, &mut warnings)?;
                (Scheme::Words(Box::new(words::Words::new(gguf, &vocab)?)), vocab, true)
            }
            "t5" => {
                let vocab = Vocab::read(gguf, &mut warnings)?;
                (Scheme::Unigram(Box::new(unigram::Unigram::new(gguf, &vocab)?)), vocab, false)
            }
            "gpt2" => {
                let pre = meta.opt_str("tokenizer.ggml.pre")?.unwrap_or("default");
                let row = split::find(pre).ok_or_else(|| {
                    unknown(format!("tokenizer.ggml.pre: {pre:?}, expected one of {}", split::known()))
                })?;
                if pre == "default" {
                    warnings.push("tokenizer.ggml.pre: not stated; text is split as gpt-2 does".to_owned());
                }
                let vocab = Vocab::read(gguf, &mut warnings)?;
                (Scheme::Bytes(Box::new(bpe::ByteBpe::new(gguf, &vocab, row, &mut warnings)?)), vocab, row.add_bos)
            }
            _ => {
                let what =
                    format!("tokenizer.ggml.model: {model:?}, expected gpt2, llama, bert, t5, no_vocab, none or test");
                return Err(unknown(what));
            }
        };
        let n_vocab = match scheme {
            Scheme::Absent => meta.opt_strings("tokenizer.ggml.tokens")?.map_or(0, |tokens| tokens.len()),
            _ => vocab.len(),
        };
        let sentence = matches!(scheme, Scheme::Sentence(_));
        let words = matches!(scheme, Scheme::Words(_) | Scheme::Unigram(_));
        let usual = match scheme {
            Scheme::Sentence(_) => Usual::SENTENCE,
            Scheme::Words(_) => Usual::WORDS,
            Scheme::Unigram(_) => Usual::UNIGRAM,
            Scheme::Bytes(_) | Scheme::Absent => Usual::default(),
        };
        let special = Special::read(gguf, &vocab, n_vocab, (usual, default_bos), &mut warnings)?;
        Ok(Self {
            path: path.to_path_buf(),
            n_vocab,
            pieces: pieces(&vocab, sentence || words),
            specials: Specials::new(&vocab),
            special,
            add_space_prefix: words || sentence && meta.opt_bool("tokenizer.ggml.add_space_prefix")?.unwrap_or(true),
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
        self.vocab.ids().find(|&id| self.vocab.text(id) == Some(text.as_bytes()))
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
        self.encode_marked(text, &|_| parse_special, add_bos)
    }

    /// As [`Tokenizer::encode`], where control tokens are read only from bytes of which `own` holds: those that a template
    /// wrote itself, not those of a message.
    ///
    /// # Errors
    /// As for [`Tokenizer::encode`].
    pub fn encode_marked(&self, text: &str, own: &dyn Fn(Range<usize>) -> bool, add_bos: bool) -> Result<Vec<u32>> {
        let mut ids = Vec::with_capacity(text.len() / 3 + 2);
        let bos = self.bos().filter(|_| add_bos);
        ids.extend(bos);
        let mut after_special = true;
        for fragment in self.specials.fragments(&self.vocab, text, own) {
            match fragment {
                // Chat templates bring their own BOS.
                Fragment::Special(id) if bos == Some(id) && ids.len() == 1 => {}
                Fragment::Special(id) => ids.push(id),
                Fragment::Text(text) => match &self.scheme {
                    Scheme::Bytes(model) => model.encode(&self.path, text, &mut ids)?,
                    Scheme::Sentence(model) => {
                        model.encode(&self.path, text, self.add_space_prefix && after_special, &mut ids)?;
                    }
                    Scheme::Words(model) => model.encode(text, self.unk(), &mut ids),
                    Scheme::Unigram(model) => model.encode(text, self.unk(), &mut ids),
                    Scheme::Absent => return Err(no_vocab(&self.path)),
                },
            }
            after_special = matches!(fragment, Fragment::Special(_));
        }
        Ok(ids)
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

/// The output bytes of every token.
fn pieces(vocab: &Vocab, sentence: bool) -> Table {
    let alphabet = bpe::Alphabet::new();
    let (mut table, mut piece) = (Table::default(), Vec::new());
    for id in vocab.ids() {
        let text = vocab.text(id).unwrap_or_default();
        piece.clear();
        match vocab.kind(id) {
            Some(Kind::Normal) if sentence => spm::decode(text, &mut piece),
            Some(Kind::Normal) => alphabet.decode(text, &mut piece),
            Some(Kind::User) => piece.extend_from_slice(text),
            Some(Kind::Byte) => piece.extend(vocab::parse_byte(text)),
            Some(Kind::Control | Kind::Unknown | Kind::Unused) | None => {}
        }
        table.push(&piece);
    }
    table
}
