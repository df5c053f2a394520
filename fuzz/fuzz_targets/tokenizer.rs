//! Any text by every pre-tokenizer over the demo's vocabulary: it comes back, with special tokens read in it or not.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pumex::gguf::{Gguf, Value};
use pumex::text::Tokenizer;
use std::path::Path;
use std::sync::OnceLock;

fn tokenizers() -> &'static [Tokenizer] {
    static TOKENIZERS: OnceLock<Vec<Tokenizer>> = OnceLock::new();
    TOKENIZERS.get_or_init(|| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../assets/demo.gguf");
        let gguf = Gguf::open(&path).expect("the demo model");
        let cut = |pre: &str| {
            let own = gguf.meta().iter().filter(|(key, _)| key.starts_with("tokenizer.") && *key != "tokenizer.ggml.pre");
            let mut meta: Vec<(String, Value)> = own.map(|(key, value)| (key.to_string(), value.clone())).collect();
            meta.push(("tokenizer.ggml.pre".into(), Value::Str(pre.as_bytes().to_vec())));
            Tokenizer::from_gguf(&Gguf::without_file(&path, meta, Vec::new(), Vec::new())).expect("the demo's vocabulary")
        };
        ["llama-bpe", "qwen2", "gpt-2", "deepseek-v3", "kimi-k2", "gpt-4o", "tekken", "falcon"].map(cut).into()
    })
}

fuzz_target!(|text: &str| {
    for tokenizer in tokenizers() {
        let plain = tokenizer.encode(text, false, false).expect("every byte has a token");
        assert_eq!(tokenizer.decode(&plain), text);
        tokenizer.encode(text, true, true).expect("every byte has a token");
    }
});
