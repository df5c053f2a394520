//! Tokenizers: llama.cpp's published vectors where they are at hand, the demo vocabulary always, and small files made
//! here for everything that a broken or unusual vocabulary can say.

mod made;

use std::path::{Path, PathBuf};

use pumex::gguf::Gguf;
use pumex::text::Tokenizer;

const SENTENCE: &str = "And it came to pass in those days, that there went out a decree from the king, saying, \
    Let every man return unto his own house. And they answered";
const SENTENCE_IDS: [u32; 35] = [
    0, 589, 346, 617, 287, 732, 291, 726, 880, 15, 313, 432, 739, 492, 262, 1003, 621, 425, 263, 500, 15, 744, 15,
    1190, 606, 436, 1217, 370, 354, 730, 611, 17, 339, 377, 1334,
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
    let Some(path) = shared_vocab(name) else {
        return;
    };
    let tokenizer = open(&path);
    // StarCoder's vocabulary really lacks a byte.
    let known = |w: &String| name == "starcoder" && w.contains("no token for 1 bytes");
    assert!(tokenizer.warnings().iter().all(known), "{:?}", tokenizer.warnings());
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
        if name != "bert-bge" {
            assert_eq!(tokenizer.decode(&ids), *input, "{name}"); // the others lose no letter
        }
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
fn vectors_of_bert_hold() {
    vectors("bert-bge");
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
    let sentence = made::load(made::sentence_file("long_run", |_| {})).unwrap();
    for tokenizer in [demo(), sentence] {
        for unit in ["a", " ", "\n", "1", "世", "!", " a", "\u{1F600}", " \n"] {
            let text = unit.repeat(200_000 / unit.len()) + "x";
            let before = crate::util::cpu_ms();
            let ids = tokenizer.encode(&text, false, true).unwrap();
            let ms = crate::util::cpu_ms() - before;
            assert!(ms < 5000, "{unit:?}: {ms} ms");
            assert!(tokenizer.decode(&ids) == text, "{unit:?}");
        }
    }
}
