//! Vocabularies made here, key by key: what a small SentencePiece one must do, and every way in which one can be broken.
//!
//! [`VocabularyFile`] writes metadata-only GGUF files into the temporary folder; each test removes its own.

use std::path::PathBuf;

use pumex::gguf::Gguf;
use pumex::text::Tokenizer;
use pumex::{Error, Result};

/// A metadata-only GGUF file under construction.
#[derive(Clone, Default)]
pub struct VocabularyFile {
    keys: Vec<(String, Vec<u8>)>,
}

fn text(value: &[u8]) -> Vec<u8> {
    [&(value.len() as u64).to_le_bytes(), value].concat()
}

impl VocabularyFile {
    fn put(&mut self, key: &str, kind: u32, value: Vec<u8>) {
        let key = format!("tokenizer.ggml.{key}");
        self.keys.retain(|(k, _)| *k != key);
        self.keys.push((key, [kind.to_le_bytes().to_vec(), value].concat()));
    }
    fn drop(&mut self, key: &str) {
        self.keys.retain(|(k, _)| *k != format!("tokenizer.ggml.{key}"));
    }
    fn array(&mut self, key: &str, kind: u32, values: &[Vec<u8>]) {
        let head = [&kind.to_le_bytes()[..], &(values.len() as u64).to_le_bytes()].concat();
        self.put(key, 9, [head, values.concat()].concat());
    }
    fn texts<T: AsRef<[u8]>>(&mut self, key: &str, values: &[T]) {
        self.array(key, 8, &values.iter().map(|v| text(v.as_ref())).collect::<Vec<_>>());
    }
    fn id(&mut self, key: &str, id: u32) {
        self.put(key, 4, id.to_le_bytes().to_vec());
    }
    fn text(&mut self, key: &str, value: &str) {
        self.put(key, 8, text(value.as_bytes()));
    }
    fn floats(&mut self, key: &str, values: &[f32]) {
        self.array(key, 6, &values.iter().map(|v| v.to_le_bytes().to_vec()).collect::<Vec<_>>());
    }
    fn ints(&mut self, key: &str, values: &[i32]) {
        self.array(key, 5, &values.iter().map(|v| v.to_le_bytes().to_vec()).collect::<Vec<_>>());
    }
    fn write(&self, name: &str) -> PathBuf {
        let mut bytes = b"GGUF\x03\0\0\0".to_vec();
        bytes.extend(0u64.to_le_bytes());
        bytes.extend((self.keys.len() as u64 + 1).to_le_bytes());
        bytes.extend(text(b"general.architecture"));
        bytes.extend(8u32.to_le_bytes());
        bytes.extend(text(b"llama"));
        for (key, value) in &self.keys {
            bytes.extend(text(key.as_bytes()));
            bytes.extend(value);
        }
        bytes.resize(bytes.len().next_multiple_of(32), 0);
        let path = std::env::temp_dir().join(format!("pumex-text-{}-{name}.gguf", std::process::id()));
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

const BYTES_END: usize = 259;

/// `<unk>`, BOS, EOS, 256 bytes, then some pieces; 272 tokens.
fn sentence_tokens() -> Vec<String> {
    let mut tokens = vec!["<unk>".to_owned(), "<s>".to_owned(), "</s>".to_owned()];
    tokens.extend((0..256).map(|b| format!("<0x{b:02X}>")));
    for piece in ["▁", "a", "b", "ab", "▁a", "▁ab", "aa", "aaaa", "s", ">", "<", "<s", "<|x|>"] {
        tokens.push(piece.to_owned());
    }
    tokens
}

pub fn sentence_file(name: &str, edit: impl FnOnce(&mut VocabularyFile)) -> PathBuf {
    let tokens = sentence_tokens();
    let mut file = VocabularyFile::default();
    file.text("model", "llama");
    file.texts("tokens", &tokens);
    file.floats("scores", &(0..tokens.len()).map(|i| -(i as f32)).collect::<Vec<_>>());
    let mut kinds = [vec![2, 3, 3], vec![6; 256], vec![1; tokens.len() - BYTES_END]].concat();
    kinds[tokens.len() - 1] = 4;
    file.ints("token_type", &kinds);
    edit(&mut file);
    file.write(name)
}

pub fn load(path: PathBuf) -> Result<Tokenizer> {
    let result = Gguf::open(&path).and_then(|gguf| Tokenizer::from_gguf(&gguf));
    std::fs::remove_file(path).unwrap();
    result
}

#[test]
fn sentence_vocabularies_fall_back_to_bytes_and_put_a_space_first() {
    let tokenizer = load(sentence_file("spm", |_| {})).unwrap();
    let id = |text: &str| tokenizer.id_of(text).unwrap();
    assert_eq!(
        (tokenizer.bos(), tokenizer.eos(), tokenizer.unk(), tokenizer.add_bos()),
        (Some(1), Some(2), Some(0), true)
    );
    assert_eq!(tokenizer.encode("ab", true, false).unwrap(), [1, id("▁ab")]);
    assert_eq!(tokenizer.encode("é", false, false).unwrap(), [id("▁"), id("<0xC3>"), id("<0xA9>")]);
    // No plain text spells a control token, though its halves are tokens.
    let spelt = tokenizer.encode("<s>", false, false).unwrap();
    assert_eq!(spelt, [id("▁"), id("<s"), id(">")]);
    assert_eq!(tokenizer.encode("<s>a", false, true).unwrap(), [1, id("▁a")]);
    // User-defined tokens always match; only text after a special token gets the space.
    assert_eq!(tokenizer.encode("a<|x|>a", false, false).unwrap(), [id("▁a"), id("<|x|>"), id("▁a")]);
    assert_eq!(tokenizer.decode(&[1, id("▁ab"), id("▁a")]), "ab a");
    assert_eq!(tokenizer.stream().push(id("▁ab")), " ab");
    let plain = load(sentence_file("spm_plain", |f| f.put("add_space_prefix", 7, vec![0]))).unwrap();
    assert_eq!(plain.encode("ab", false, false).unwrap(), [id("ab")]);
}

#[test]
fn files_without_a_vocabulary_load_and_refuse_text() {
    for model in ["no_vocab", "none", "test"] {
        let mut file = VocabularyFile::default();
        file.text("model", model);
        let tokenizer = load(file.write(model)).unwrap();
        assert_eq!((tokenizer.n_vocab(), tokenizer.bos(), tokenizer.add_bos()), (0, None, false));
        assert_eq!(tokenizer.decode(&[7, 12]), "<7><12>");
        assert!(matches!(tokenizer.encode("a", false, false), Err(Error::File { code: "unknown_tokenizer", .. })));
    }
}

#[test]
fn special_ids_outside_the_vocabulary_are_unset_with_a_warning() {
    for (key, id) in [("bos_token_id", 272), ("eos_token_id", u32::MAX)] {
        let tokenizer = load(sentence_file(key, |f| f.id(key, id))).unwrap();
        let ids = [tokenizer.bos(), tokenizer.eos()];
        assert_eq!(ids.iter().filter(|id| id.is_none()).count(), 1);
        assert!(tokenizer.warnings().iter().any(|w| w.contains(key)), "{:?}", tokenizer.warnings());
    }
}

#[test]
fn token_texts_that_are_not_utf8_are_kept_as_bytes() {
    let mut tokens: Vec<Vec<u8>> = sentence_tokens().into_iter().map(String::into_bytes).collect();
    tokens[260] = vec![0xff, 0xfe, b'1'];
    let tokenizer = load(sentence_file("not_utf8", |f| f.texts("tokens", &tokens))).unwrap();
    assert_eq!(tokenizer.piece(260), [0xff, 0xfe, b'1']);
    assert_eq!(tokenizer.warnings().len(), 1);
}

/// The edit makes the file unusable, with this code.
fn refuses(name: &str, code: &str, edit: impl FnOnce(&mut VocabularyFile)) {
    match load(sentence_file(name, edit)) {
        Err(Error::File { code: found, what, .. }) => assert_eq!(found, code, "{name}: {what}"),
        other => panic!("{name}: expected {code}, got {other:?}"),
    }
}

#[test]
fn broken_vocabularies_are_refused_by_code() {
    let n = sentence_tokens().len();
    let with = |at: usize, texts: &[&str]| {
        let mut tokens = sentence_tokens();
        texts.iter().enumerate().for_each(|(i, t)| tokens[at + i] = (*t).to_owned());
        move |f: &mut VocabularyFile| f.texts("tokens", &tokens)
    };
    let bytes = vec![vec![1u8]; n];
    refuses("G01", "missing_key", |f| f.drop("tokens"));
    refuses("G02", "bad_key_type", |f| f.array("tokens", 0, &bytes));
    refuses("G03", "bad_vocab", |f| f.texts::<&str>("tokens", &[]));
    refuses("G04", "bad_key_type", |f| f.array("scores", 0, &bytes));
    refuses("G05", "bad_vocab", |f| f.floats("scores", &vec![1.0; n - 1]));
    refuses("G06", "bad_vocab", |f| f.floats("scores", &vec![f32::NAN; n]));
    refuses("G07", "bad_vocab", |f| f.ints("token_type", &vec![99; n]));
    refuses("G07_short", "bad_vocab", |f| f.ints("token_type", &vec![1; n - 1]));
    refuses("G08", "bad_vocab", |f| f.texts("tokens", &vec!["a"; n]));
    refuses("G11", "bad_vocab", |f| {
        f.texts("tokens", &["a"]);
        f.floats("scores", &[0.0]);
        f.ints("token_type", &[1]);
    });
    refuses("G12", "bad_vocab", |f| {
        f.ints("token_type", &vec![1; n]);
        f.texts("tokens", &(0..n).map(|i| format!("t{i}")).collect::<Vec<_>>());
    });
    refuses("G13", "bad_vocab", with(3, &["<0x-1>", "<0xZZ>"]));
    refuses("G13_plus", "bad_vocab", with(3, &["<0x+1>"]));
    refuses("G14", "unknown_tokenizer", |f| f.text("model", "nosuch"));
    refuses("G18", "bad_vocab", with(260, &["z".repeat(1 << 20).as_str()]));
    refuses("no_model", "missing_key", |f| f.drop("model"));
    refuses("no_scores", "missing_key", |f| f.drop("scores"));
}

#[test]
fn broken_merges_are_refused_and_unknown_ones_left_out() {
    let bpe = |merges: &'static [&'static str]| {
        move |f: &mut VocabularyFile| {
            f.text("model", "gpt2");
            f.text("pre", "gpt-2");
            f.texts("merges", merges);
        }
    };
    refuses("G15", "missing_key", |f| f.text("model", "gpt2"));
    refuses("G16", "bad_vocab", bpe(&["ab"]));
    refuses("G16_empty", "bad_vocab", bpe(&[""]));
    refuses("G16_half", "bad_vocab", bpe(&["a "]));
    refuses("G17", "unknown_tokenizer", |f| {
        bpe(&["a b"])(f);
        f.text("pre", "nosuch");
    });
    let tokenizer = load(sentence_file("merges", bpe(&["a b", "a b c", "zzzzzz yyyyyy"]))).unwrap();
    assert_eq!(tokenizer.encode("ab", false, false).unwrap(), [tokenizer.id_of("ab").unwrap()]);
    assert!(tokenizer.warnings().iter().any(|w| w.contains("2 of 3 merges")), "{:?}", tokenizer.warnings());
    // This vocabulary cannot spell a "c": an error, not a shorter text.
    assert!(matches!(tokenizer.encode("abc", false, false), Err(Error::File { code: "bad_vocab", .. })));
}

#[test]
fn a_text_of_two_tokens_is_the_last_of_them() {
    let mut tokens = sentence_tokens();
    tokens[265] = tokens[260].clone();
    let tokenizer = load(sentence_file("dup", |f| f.texts("tokens", &tokens))).unwrap();
    assert_eq!(tokenizer.id_of(&tokens[265]), Some(265));
}
