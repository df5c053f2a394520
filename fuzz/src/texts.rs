//! Readers of texts: grammars, templates, tokenizers.

use super::demo;
use pumex::chat::{Request, Template};
use pumex::gguf::{Gguf, Value};
use pumex::text::Tokenizer;
use pumex_grammar::{GrammarSource, TokenText, Vocabulary};
use std::sync::{Arc, OnceLock};

fn vocabulary() -> &'static Arc<Vocabulary> {
    static VOCABULARY: OnceLock<Arc<Vocabulary>> = OnceLock::new();
    VOCABULARY.get_or_init(|| {
        let bytes: Vec<[u8; 1]> = (0..=255u8).map(|b| [b]).collect();
        let pieces = bytes.iter().map(|b| TokenText::Text(b)).chain([TokenText::Special(b"</s>")]);
        Arc::new(Vocabulary::new(pieces, &[256]).expect("a small vocabulary"))
    })
}

/// GBNF, and a JSON schema: a matcher whose first masks can be had, or an error.
pub fn grammar(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for source in [GrammarSource::Gbnf(text.to_string()), GrammarSource::JsonSchema(text.to_string())] {
        let Ok(mut matcher) = vocabulary().matcher(&source) else { continue };
        for _ in 0..8 {
            let Ok(mask) = matcher.mask() else { break };
            let Some(id) = (0..257u32).find(|id| mask[*id as usize / 32] >> (id % 32) & 1 == 1) else { break };
            if matcher.accept(id).is_err() {
                break;
            }
        }
    }
}

pub fn grammars() -> Vec<Vec<u8>> {
    let of = [
        "root ::= item+\nitem ::= \"- \" [^\\n]{1,9} \"\\n\" | \"(\" root \")\" # a list",
        r#"{"type": "object", "properties": {"a": {"type": "integer", "minimum": -3, "maximum": 1000}, "b": {"enum": ["x", null]}},
            "required": ["a"], "additionalProperties": false}"#,
        r##"{"$defs": {"n": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/n"}]}}, "type": "array", "items": {"$ref": "#/$defs/n"},
            "minItems": 1, "maxItems": 4}"##,
        r#"{"type": "string", "pattern": "^[a-f0-9]{2,8}$", "maxLength": 6}"#,
    ];
    of.map(|text| text.as_bytes().to_vec()).into()
}

const TALK: &str =
    r#"{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}], "tools": []}"#;

/// A template, and messages of a simple one: a prompt or an error, in bounded time and memory.
pub fn template(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let (Ok(template), Ok(request)) = (Template::parse(&text), Request::from_json(TALK)) {
        let _ = template.render(&request);
        let _ = pumex::chat::reply::Format::of(&template);
    }
    let source = "{% for m in messages %}{{ m.role }}: {{ m.content }} {{ m|tojson }}{% endfor %}";
    if let (Ok(template), Ok(request)) = (Template::parse(source), Request::from_json(&text)) {
        let _ = template.render(&request);
    }
}

pub fn templates() -> Vec<Vec<u8>> {
    let of = [
        TALK,
        "{%- for m in messages -%}<|{{ m['role'] }}|>{{ m.content | trim }}{%- if not loop.last %}\n{% endif -%}{%- endfor -%}",
        "{% set ns = namespace(x=0) %}{% for i in range(3) %}{% set ns.x = ns.x + i ** 2 %}{% endfor %}{{ ns.x ~ 'a'[::-1] }}",
        "{% macro f(a, b=1) %}{{ a.split(',')[b:] | join('|') }}{% endmacro %}{{ f('x,y,z') if tools is defined else raise_exception('no') }}",
    ];
    of.map(|text| text.as_bytes().to_vec()).into()
}

fn tokenizers() -> &'static [Tokenizer] {
    static TOKENIZERS: OnceLock<Vec<Tokenizer>> = OnceLock::new();
    TOKENIZERS.get_or_init(|| {
        let cut = |pre: &str| {
            let is_own = |key: &str| key.starts_with("tokenizer.") && key != "tokenizer.ggml.pre";
            let own = demo().meta().iter().filter(|(key, _)| is_own(key));
            let mut meta: Vec<(String, Value)> = own.map(|(key, value)| (key.to_string(), value.clone())).collect();
            meta.push(("tokenizer.ggml.pre".into(), Value::Str(pre.as_bytes().to_vec())));
            let file = Gguf::without_file(demo().path(), meta, Vec::new(), Vec::new());
            Tokenizer::from_gguf(&file).expect("the demo's vocabulary")
        };
        ["llama-bpe", "qwen2", "gpt-2", "deepseek-v3", "kimi-k2", "gpt-4o", "tekken", "falcon"].map(cut).into()
    })
}

/// A text by every pre-tokenizer over the demo's vocabulary: it comes back, with special tokens read in it or not.
pub fn tokenizer(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for tokenizer in tokenizers() {
        let plain = tokenizer.encode(&text, false, false).expect("every byte has a token");
        assert_eq!(tokenizer.decode(&plain), text);
        tokenizer.encode(&text, true, true).expect("every byte has a token");
    }
}

pub fn texts() -> Vec<Vec<u8>> {
    let of = [
        "In the beginning, 1234567 DON'T  \t\r\n\n stop.",
        "日本語 café e\u{301} 🏳️‍🌈 \u{200d}\u{fe0f}",
        "<s>a</s><|end|> \u{0}\u{7f}",
    ];
    of.map(|text| text.as_bytes().to_vec()).into()
}
