//! What holds of every vocabulary: words are cut as llama.cpp cuts them, text comes back, foreign text spells no special token,
//! hostile text takes linear time.

use std::path::Path;

use pumex::chat::{encode_prompt, RenderedPrompt};
use pumex::gguf::{Gguf, Value};
use pumex::text::Tokenizer;

/// The demo vocabulary, cut up by any pre-tokenizer.
fn demo(pre: &str) -> pumex::Result<Tokenizer> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/demo.gguf");
    let gguf = Gguf::open(&path).unwrap();
    let kept = |key: &str| key.starts_with("tokenizer.") && key != "tokenizer.ggml.pre";
    let mut meta: Vec<(String, Value)> =
        gguf.meta().iter().filter(|(key, _)| kept(key)).map(|(key, value)| (key.to_string(), value.clone())).collect();
    meta.push(("tokenizer.ggml.pre".into(), Value::Str(pre.as_bytes().to_vec())));
    Tokenizer::from_gguf(&Gguf::without_file(&path, meta, Vec::new(), Vec::new()))
}

/// Names of all pre-tokenizers, as the error of an unknown one lists them.
fn names() -> Vec<String> {
    let error = demo("nosuch").unwrap_err().to_string();
    let (_, list) = error.split_once("expected one of ").unwrap();
    list.split(", ").map(|name| name.trim().to_string()).collect()
}

#[test]
fn every_pre_tokenizer_cuts_as_llama_cpp_does() {
    let golden: serde_json::Value = serde_json::from_str(include_str!("../golden/text/pre.json")).unwrap();
    let mut seen = 0;
    for group in golden["ids"].as_array().unwrap() {
        for name in group["names"].as_array().unwrap() {
            let tokenizer = demo(name.as_str().unwrap()).unwrap();
            for (text, ids) in golden["texts"].as_array().unwrap().iter().zip(group["ids"].as_array().unwrap()) {
                let found = tokenizer.encode(text.as_str().unwrap(), false, false).unwrap();
                assert_eq!(serde_json::json!(found), *ids, "{name}: {text}");
            }
            seen += 1;
        }
    }
    assert!(seen >= 85, "{seen} names");
}

#[test]
fn runs_of_any_class_take_linear_time_and_come_back() {
    for name in names().iter().filter(|name| !["whitespace", "gemma4", "sarvam-moe"].contains(&name.as_str())) {
        if name == "granite-embed-multi-311m" {
            continue; // its tokens are no bytes
        }
        let tokenizer = demo(name).unwrap();
        for unit in ["a", "A", " ", "\n", "\t ", "1", "世", "!", "\u{301}", "\u{1F600}", "'s", "aA中"] {
            let text = unit.repeat((64 << 10) / unit.len()) + "x";
            let before = crate::util::cpu_ms();
            let ids = tokenizer.encode(&text, false, false).unwrap();
            let ms = crate::util::cpu_ms() - before;
            assert!(ms < 1000, "{name}: {unit:?}: {ms} ms");
            assert!(tokenizer.decode(&ids) == text, "{name}: {unit:?}");
        }
    }
}

#[test]
fn special_tokens_of_a_message_are_text() {
    let tokenizer = demo("llama-bpe").unwrap();
    let controls: Vec<u32> = (0..tokenizer.n_vocab() as u32).filter(|&id| tokenizer.is_control(id)).collect();
    assert!(!controls.is_empty());
    let end = std::str::from_utf8(tokenizer.token_text(3)).unwrap();
    for &id in &controls {
        let foreign = std::str::from_utf8(tokenizer.token_text(id)).unwrap();
        let text = format!("a{foreign}b{end}");
        let prompt = RenderedPrompt { text, from_outside: std::iter::once(1..1 + foreign.len()).collect() };
        let ids = encode_prompt(&tokenizer, &prompt).unwrap();
        let found: Vec<u32> = ids.iter().copied().filter(|&id| tokenizer.is_control(id)).collect();
        assert_eq!(found, [tokenizer.bos().unwrap(), 3], "{foreign}");
        // Half of it own, half of it foreign: no token either.
        let half =
            RenderedPrompt { text: foreign.to_string(), from_outside: std::iter::once(1..foreign.len()).collect() };
        let ids = encode_prompt(&tokenizer, &half).unwrap();
        assert_eq!(ids.iter().filter(|&&id| tokenizer.is_control(id)).count(), 1, "{foreign}");
    }
    let bos = std::str::from_utf8(tokenizer.token_text(tokenizer.bos().unwrap())).unwrap().to_string();
    let once = encode_prompt(&tokenizer, &RenderedPrompt { text: bos + "a", from_outside: vec![] }).unwrap();
    assert_eq!(once.iter().filter(|&&id| Some(id) == tokenizer.bos()).count(), 1);
}
