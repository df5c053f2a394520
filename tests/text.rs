//! Tokenizers: llama.cpp's published vectors where they are at hand, the demo vocabulary always, and small files made
//! here for everything that a broken or unusual vocabulary can say.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pumex::gguf::Gguf;
use pumex::text::Tokenizer;
use pumex::{Error, Result};

const SENTENCE: &str = "And it came to pass in those days, that there went out a decree from the king, saying, \
    Let every man return unto his own house. And they answered";
const SENTENCE_IDS: [u32; 35] = [
    0, 589, 346, 617, 287, 732, 291, 726, 880, 15, 313, 432, 739, 492, 262, 1003, 621, 425, 263, 500, 15, 744, 15, 1190,
    606, 436, 1217, 370, 354, 730, 611, 17, 339, 377, 1334,
];
const UNICODE: &str = "Grüße, 世界! 👩‍👩‍👧 \u{301}e\t\r\n\n   x  '\u{0}' ﷽ नमस्ते 12345.67\n";

fn open(path: &Path) -> Tokenizer {
    Tokenizer::from_gguf(&Gguf::open(path).unwrap()).unwrap()
}

fn demo() -> Tokenizer {
    open(&Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/demo.gguf"))
}

fn shared_vocab(name: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../shared/vocab/ggml-vocab-{name}.gguf"));
    if path.exists() {
        return Some(path);
    }
    println!("skipped: no {} (llama.cpp's vocabulary vectors)", path.display());
    None
}

/// Every vector of a vocabulary: ids as published, and text again from ids.
fn vectors(name: &str) {
    let Some(path) = shared_vocab(name) else { return };
    let tokenizer = open(&path);
    assert!(tokenizer.warnings().is_empty(), "{:?}", tokenizer.warnings());
    let read = |end: &str| std::fs::read_to_string(format!("{}.{end}", path.display())).unwrap();
    let (inputs, outputs) = (read("inp"), read("out"));
    let inputs: Vec<&str> = inputs.split("\n__ggml_vocab_test__\n").collect();
    let outputs: Vec<&str> = outputs.lines().collect();
    // The published input ends with a separator, after which there is no case.
    assert!(outputs.len() >= 40 && inputs.len() >= outputs.len());
    for (input, output) in inputs.iter().zip(outputs) {
        let expected: Vec<u32> = output.split_whitespace().map(|id| id.parse().unwrap()).collect();
        let ids = tokenizer.encode(input, false, false).unwrap();
        assert_eq!(ids, expected, "{name}: {input:?}");
        assert_eq!(tokenizer.decode(&ids), *input, "{name}");
    }
}

#[test]
fn vectors_of_llama_bpe_hold() {
    vectors("llama-bpe");
}

#[test]
fn vectors_of_llama_spm_hold() {
    vectors("llama-spm");
}

#[test]
fn vectors_of_qwen2_hold() {
    vectors("qwen2");
}

#[test]
fn vectors_of_gpt_2_hold() {
    vectors("gpt-2");
}

#[test]
fn vectors_of_starcoder_hold() {
    vectors("starcoder");
}

#[test]
fn demo_encodes_the_golden_sentence() {
    let tokenizer = demo();
    assert_eq!(tokenizer.n_vocab(), 4096);
    assert_eq!((tokenizer.bos(), tokenizer.eos(), tokenizer.add_bos()), (Some(0), Some(1), true));
    assert_eq!(tokenizer.encode(SENTENCE, true, true).unwrap(), SENTENCE_IDS);
    assert_eq!(tokenizer.decode(&SENTENCE_IDS), SENTENCE);
}

#[test]
fn any_unicode_text_survives_the_round_trip() {
    let tokenizer = demo();
    let ids = tokenizer.encode(UNICODE, true, false).unwrap();
    assert_eq!(tokenizer.decode(&ids), UNICODE);
    assert!(tokenizer.encode("", false, false).unwrap().is_empty());
}

#[test]
fn control_tokens_are_only_parsed_on_request_and_bos_never_doubles() {
    let tokenizer = demo();
    let text = "a<|end|>b";
    let plain = tokenizer.encode(text, false, false).unwrap();
    assert!(plain.iter().all(|&id| id > 3));
    assert_eq!(tokenizer.decode(&plain), text);
    let parsed = tokenizer.encode(text, false, true).unwrap();
    assert_eq!(parsed.len(), 3);
    assert_eq!(parsed[1], 3);
    assert_eq!(tokenizer.decode(&parsed), "ab");
    assert_eq!(tokenizer.encode("<|begin_of_text|>", true, true).unwrap(), [0]);
    assert_eq!(tokenizer.token_text(3), b"<|end|>");
    assert!(tokenizer.piece(3).is_empty());
}

#[test]
fn generation_ends_at_eos_and_at_named_ends() {
    let tokenizer = demo();
    let ends: Vec<u32> = (0..4096).filter(|&id| tokenizer.is_end(id)).collect();
    assert_eq!(ends, [1, 3]);
}

#[test]
fn streams_never_split_a_character_and_join_to_the_whole() {
    let tokenizer = demo();
    let ids = tokenizer.encode(UNICODE, false, false).unwrap();
    let mut stream = tokenizer.stream();
    let pieces: Vec<String> = ids.iter().map(|&id| stream.push(id)).collect();
    assert!(pieces.iter().all(|piece| !piece.contains('\u{fffd}')));
    assert!(pieces.iter().any(String::is_empty), "no token ended inside a character: the text tests nothing");
    assert_eq!(pieces.concat() + &stream.flush(), UNICODE);
}

#[test]
fn half_a_character_at_the_end_is_flushed_lossily() {
    let tokenizer = demo();
    let mut ids = tokenizer.encode("世", false, false).unwrap();
    assert!(ids.len() > 1);
    ids.pop();
    let mut stream = tokenizer.stream();
    let mut text: String = ids.iter().map(|&id| stream.push(id)).collect();
    assert_eq!(text, "");
    text += &stream.flush();
    assert_eq!(text, tokenizer.decode(&ids));
    assert!(text.contains('\u{fffd}'));
    // A broken character in the middle does not hold back what follows.
    ids.extend(tokenizer.encode("ok", false, false).unwrap());
    let text: String = ids.iter().map(|&id| stream.push(id)).collect();
    assert_eq!(text, tokenizer.decode(&ids));
    assert!(text.ends_with("ok"));
    assert_eq!(stream.flush(), "");
}

#[test]
fn long_runs_tokenize_in_seconds() {
    let sentence = open(&sentence_file("long_run", |_| {}));
    for tokenizer in [demo(), sentence] {
        for unit in ["a", " ", "\n", "1", "世", "!", " a", "\u{1F600}", " \n"] {
            let text = unit.repeat(200_000 / unit.len());
            let start = Instant::now();
            let ids = tokenizer.encode(&text, false, true).unwrap();
            let took = start.elapsed();
            assert!(took < Duration::from_secs(5), "{unit:?}: {took:?}");
            assert!(tokenizer.decode(&ids) == text, "{unit:?}");
        }
    }
}

/// A metadata-only GGUF file under construction.
#[derive(Clone, Default)]
struct File {
    keys: Vec<(String, Vec<u8>)>,
}

fn text(value: &[u8]) -> Vec<u8> {
    [&(value.len() as u64).to_le_bytes(), value].concat()
}

impl File {
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

fn sentence_file(name: &str, edit: impl FnOnce(&mut File)) -> PathBuf {
    let tokens = sentence_tokens();
    let mut file = File::default();
    file.text("model", "llama");
    file.texts("tokens", &tokens);
    file.floats("scores", &(0..tokens.len()).map(|i| -(i as f32)).collect::<Vec<_>>());
    let mut kinds = [vec![2, 3, 3], vec![6; 256], vec![1; tokens.len() - BYTES_END]].concat();
    kinds[tokens.len() - 1] = 4;
    file.ints("token_type", &kinds);
    edit(&mut file);
    file.write(name)
}

fn load(path: PathBuf) -> Result<Tokenizer> {
    let result = Gguf::open(&path).and_then(|gguf| Tokenizer::from_gguf(&gguf));
    std::fs::remove_file(path).unwrap();
    result
}

#[test]
fn sentence_vocabularies_fall_back_to_bytes_and_put_a_space_first() {
    let tokenizer = load(sentence_file("spm", |_| {})).unwrap();
    let id = |text: &str| tokenizer.id_of(text).unwrap();
    assert_eq!((tokenizer.bos(), tokenizer.eos(), tokenizer.unk(), tokenizer.add_bos()), (Some(1), Some(2), Some(0), true));
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
        let mut file = File::default();
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
fn refuses(name: &str, code: &str, edit: impl FnOnce(&mut File)) {
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
        move |f: &mut File| f.texts("tokens", &tokens)
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
        move |f: &mut File| {
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
fn duplicate_tokens_are_named_by_both_ids() {
    let mut tokens = sentence_tokens();
    tokens[265] = tokens[260].clone();
    let error = load(sentence_file("dup", |f| f.texts("tokens", &tokens))).unwrap_err().to_string();
    assert!(error.contains("260") && error.contains("265"), "{error}");
}
